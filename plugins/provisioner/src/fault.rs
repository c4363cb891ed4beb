//! The ways in which the provisioner can be told to fail.

use serde::{Deserialize, Serialize};

/// A failure that the provisioner was told to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    /// In which way.
    pub mode: Mode,
    /// For how many requests; `None`: until told otherwise.
    #[serde(default)]
    pub times: Option<u64>,
    /// Only for requests of this method, upper case.
    #[serde(default)]
    pub method: Option<String>,
    /// Only for the resource of this id.
    #[serde(default)]
    pub resource: Option<String>,
    /// Seconds for a `Retry-After` header, with [`Mode::Answer`].
    #[serde(default)]
    pub retry_after: Option<u32>,
}

impl Fail {
    /// That way, for every request.
    pub fn always(mode: Mode) -> Fail {
        Fail {
            mode,
            times: None,
            method: None,
            resource: None,
            retry_after: None,
        }
    }

    /// That way, so many times.
    pub fn times(mode: Mode, times: u64) -> Fail {
        Fail {
            times: Some(times),
            ..Fail::always(mode)
        }
    }

    /// Only for requests of this method, upper case.
    pub fn method(mut self, method: impl Into<String>) -> Fail {
        self.method = Some(method.into());
        self
    }

    /// Only for the resource of this id.
    pub fn only(mut self, resource: impl Into<String>) -> Fail {
        self.resource = Some(resource.into());
        self
    }

    fn fits(&self, method: &str, resource: &str) -> bool {
        let is = |only: &Option<String>, what| only.as_deref().is_none_or(|only| only == what);
        self.times != Some(0) && is(&self.method, method) && is(&self.resource, resource)
    }
}

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Answers that code, as 503 or 403; nothing is done.
    Answer(u16),
    /// Reads the request and closes the connection; nothing is done.
    Close,
    /// Does what was asked for and closes the connection: the answer is lost.
    Lost,
    /// Never answers; nothing is done.
    Hang,
    /// No failure: forgets all that were told before.
    None,
}

/// The failures still to be shown, in the order they were told.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fail>);

impl Faults {
    /// One more, after those told before; `None` forgets all.
    pub(crate) fn tell(&mut self, fail: Fail) {
        if fail.mode == Mode::None {
            self.0.clear();
        } else {
            self.0.push(fail);
        }
    }

    /// How this request is to fail, if at all.
    pub(crate) fn next(&mut self, method: &str, resource: &str) -> Option<Fail> {
        let fail = self.0.iter_mut().find(|one| one.fits(method, resource))?;
        if let Some(times) = &mut fail.times {
            *times -= 1;
        }
        Some(fail.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_shown_in_turn_so_many_times_and_only_where_they_fit() {
        let mut faults = Faults::default();
        faults.tell(Fail::times(Mode::Answer(503), 1).method("PUT"));
        faults.tell(Fail::always(Mode::Lost).only("b"));
        let mut next = |method: &str, id: &str| faults.next(method, id).map(|fail| fail.mode);
        assert_eq!(next("GET", "a"), None);
        assert_eq!(next("PUT", "b"), Some(Mode::Answer(503)));
        assert_eq!(next("PUT", "a"), None);
        assert_eq!(next("PUT", "b"), Some(Mode::Lost));
        assert_eq!(next("GET", "b"), Some(Mode::Lost));
        faults.tell(Fail::always(Mode::None));
        assert_eq!(faults.next("PUT", "b"), None);
    }
}
