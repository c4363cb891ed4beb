//! What names a plugin in a registry.

use std::{fmt, str::FromStr};

use crate::Digest;

/// `REGISTRY/REPOSITORY[:TAG][@DIGEST]`. The registry is always named: a short name means another thing on another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Text that is no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no reference: {why}; write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:…, as in registry.example/report-job:1.2.0"
)]
pub struct BadReference {
    text: String,
    why: String,
}

impl Reference {
    /// Host, and port if it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name in the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest of the manifest, if it names one.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Registry and repository.
    pub fn place(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The same with the manifest's digest: what it stood for.
    pub fn resolved(&self, digest: Digest) -> Self {
        Self {
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// The same by another tag.
    pub(crate) fn tagged(&self, tag: String) -> Self {
        Self {
            tag: Some(tag),
            digest: None,
            ..self.clone()
        }
    }

    /// What a manifest is asked for by.
    pub(crate) fn wanted(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        }
    }

    /// The same as the library of registries has it.
    pub(crate) fn of_library(&self) -> oci_client::Reference {
        let (registry, repository) = (self.registry.clone(), self.repository.clone());
        oci_client::Reference::with_tag(registry, repository, self.wanted())
    }
}

impl FromStr for Reference {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let bad = |why: &str| BadReference {
            text: text.chars().take(300).collect(),
            why: why.to_owned(),
        };
        if text.contains("://") {
            return Err(bad("it has a scheme"));
        }
        let (registry, _) = text
            .split_once('/')
            .ok_or_else(|| bad("the registry is missing"))?;
        // As everybody tells a registry from the first part of a name.
        if !registry.contains(['.', ':']) && registry != "localhost" {
            return Err(bad("its first part is no registry's host"));
        }
        let read: oci_client::Reference = text
            .parse()
            .map_err(|error| bad(&format!("{error}").to_lowercase()))?;
        let digest = read.digest().map(str::parse).transpose();
        let digest = digest.map_err(|_| bad("its digest is no SHA-256"))?;
        Ok(Self {
            registry: read.registry().to_owned(),
            repository: read.repository().to_owned(),
            tag: match (read.tag(), digest) {
                (None, None) => Some("latest".to_owned()),
                (tag, _) => tag.map(str::to_owned),
            },
            digest,
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_its_registry_and_reads_as_it_is_written() {
        let digest = Digest::of(b"manifest");
        let tagged = format!("127.0.0.1:5000/team/app:1.2@{digest}");
        for (text, place, wanted) in [
            (
                "registry.example/app:1.2",
                "registry.example/app",
                "1.2".to_owned(),
            ),
            (
                "registry.example/app",
                "registry.example/app",
                "latest".to_owned(),
            ),
            ("localhost/a", "localhost/a", "latest".to_owned()),
            (&tagged, "127.0.0.1:5000/team/app", digest.to_string()),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.place(), place, "{text}");
            assert_eq!(reference.wanted(), wanted, "{text}");
            assert!(
                reference.to_string().starts_with(text),
                "{text}: {reference}"
            );
        }
        for text in [
            "",
            "app",
            "team/app:1",
            "https://registry.example/app",
            "registry.example/App",
            "registry.example/app:",
            "registry.example/../app",
            "registry.example/app@sha256:abc",
            "registry.example/app@sha512:abc",
            "registry.example/app name",
            "user:pw@registry.example/app",
        ] {
            let error = text.parse::<Reference>().map_err(|error| error.to_string());
            assert!(
                error
                    .as_ref()
                    .is_err_and(|error| error.contains("report-job:1.2.0")),
                "{text}: {error:?}"
            );
        }
    }
}
