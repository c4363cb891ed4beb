//! Whom a step is made as. Every step names one from the first day, so that impersonation is a change in one place.

/// Who asks the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// The host itself: journals, claims, Events, finalizer removal.
    Host,
    /// A mapping's service account: everything else.
    Account(Account),
}

/// A service account; only [`Account::new`] makes one, so it is never empty and never stands for the host by accident.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    namespace: String,
    name: String,
}

/// A service account without a namespace or a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the service account `{namespace}/{name}` is incomplete: set `serviceAccount` in the mapping"
)]
pub struct IncompleteAccount {
    namespace: String,
    name: String,
}

impl Account {
    /// The account `name` in `namespace`; neither may be empty.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Self, IncompleteAccount> {
        let (namespace, name) = (namespace.into(), name.into());
        if namespace.is_empty() || name.is_empty() {
            return Err(IncompleteAccount { namespace, name });
        }
        Ok(Self { namespace, name })
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Identity::Host => f.write_str("host"),
            Identity::Account(account) => {
                write!(f, "serviceaccount {}/{}", account.namespace, account.name)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_account_is_an_error_and_never_the_host() {
        assert!(Account::new("", "x").is_err());
        assert!(Account::new("x", "").is_err());
        assert_eq!(Account::new("a", "b").unwrap().name(), "b");
    }
}
