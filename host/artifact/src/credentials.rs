//! Who to be at a registry: the docker config JSON of pull secrets and of `~/.docker/config.json`.
//!
//! Entries are matched as the kubelet matches them (<https://kubernetes.io/docs/concepts/containers/images/#config-json>): by
//! host and port, `*` for one label of a host, and a path as a prefix; the longest match counts.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// A name and a password. It has no `Debug`, so it ends up in no log.
#[derive(Clone)]
pub struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Text that is no docker config. It never quotes what it could not read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadDockerConfig(String);

/// Logins by registry.
pub struct DockerConfig(Vec<(String, Entry)>);

#[derive(Deserialize, Default)]
struct Entry {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default, rename = "identitytoken")]
    identity_token: String,
}

impl DockerConfig {
    /// The content of `.dockerconfigjson`: `{"auths": {"registry.example": {"auth": …}}}`.
    pub fn parse(text: &str) -> Result<Self, BadDockerConfig> {
        #[derive(Deserialize)]
        struct Config {
            #[serde(default)]
            auths: BTreeMap<String, Entry>,
        }
        let config: Config = serde_json::from_str(text).map_err(|error| {
            let at = format!("line {}, column {}", error.line(), error.column());
            BadDockerConfig(format!(
                "it is no docker config JSON ({at}); kubectl create secret docker-registry makes one"
            ))
        })?;
        let plain = |(name, entry): (String, Entry)| {
            let bare = name
                .strip_prefix("https://")
                .or_else(|| name.strip_prefix("http://"))
                .unwrap_or(&name);
            let bare = bare.trim_end_matches('/');
            // What docker writes for its own registry.
            let bare = bare
                .strip_suffix("/v1")
                .or_else(|| bare.strip_suffix("/v2"))
                .unwrap_or(bare);
            (bare.to_owned(), entry)
        };
        Ok(Self(config.auths.into_iter().map(plain).collect()))
    }

    /// The login for a repository of a registry; none if no entry matches.
    pub fn login(
        &self,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Login>, BadDockerConfig> {
        let fitting = self.0.iter().filter_map(|(name, entry)| {
            let (host, path) = name.split_once('/').unwrap_or((name, ""));
            let fits = fits_host(host, registry) && fits_path(path, repository);
            fits.then_some((path.len(), name, entry))
        });
        let Some((_, name, entry)) = fitting.max_by_key(|(len, ..)| *len) else {
            return Ok(None);
        };
        entry.login(name).map(Some)
    }

    /// The registries there are entries for.
    pub fn registries(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    }
}

impl Entry {
    fn login(&self, name: &str) -> Result<Login, BadDockerConfig> {
        let bad = |why: &str| BadDockerConfig(format!("its entry for {name} {why}"));
        if !self.identity_token.is_empty() {
            return Err(bad(
                "has an identity token, which is not supported; log in with a name and a password",
            ));
        }
        if self.auth.is_empty() {
            if self.username.is_empty() {
                return Err(bad("has neither `auth` nor `username` and `password`"));
            }
            return Ok(Login {
                user: self.username.clone(),
                password: self.password.clone(),
            });
        }
        let decoded = BASE64_STANDARD.decode(self.auth.trim()).ok();
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = text.as_deref().and_then(|text| text.split_once(':'));
        let (user, password) =
            pair.ok_or_else(|| bad("has an `auth` that is not base64 of NAME:PASSWORD"))?;
        Ok(Login {
            user: user.to_owned(),
            password: password.trim_end_matches(['\0', '\n']).to_owned(),
        })
    }
}

fn fits_host(pattern: &str, registry: &str) -> bool {
    let docker = |host| match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    };
    let (pattern, registry) = (docker(pattern), docker(registry));
    let split = |text: &str| -> Vec<String> { text.split('.').map(str::to_owned).collect() };
    let (pattern, registry) = (split(pattern), split(registry));
    let label = |(pattern, label): (&String, &String)| pattern == label || pattern == "*";
    pattern.len() == registry.len() && pattern.iter().zip(&registry).all(label)
}

fn fits_path(pattern: &str, repository: &str) -> bool {
    let rest = repository.strip_prefix(pattern);
    pattern.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, &str)]) -> DockerConfig {
        let entry = |(name, user): &(&str, &str)| {
            let auth = BASE64_STANDARD.encode(format!("{user}:pass:word"));
            ((*name).to_owned(), serde_json::json!({"auth": auth}))
        };
        let auths: serde_json::Map<_, _> = entries.iter().map(entry).collect();
        DockerConfig::parse(&serde_json::json!({"auths": auths}).to_string()).unwrap()
    }

    #[test]
    fn the_longest_match_of_host_and_path_counts() {
        let config = config(&[
            ("registry.example", "all"),
            ("registry.example/team", "team"),
            ("registry.example:5000", "port"),
            ("*.cloud.example", "any"),
            ("https://index.docker.io/v1/", "docker"),
        ]);
        for (registry, repository, expected) in [
            ("registry.example", "a", Some("all")),
            ("registry.example", "team/a", Some("team")),
            ("registry.example", "team-evil/a", Some("all")),
            ("registry.example:5000", "a", Some("port")),
            ("eu.cloud.example", "a", Some("any")),
            ("cloud.example", "a", None),
            ("a.eu.cloud.example", "a", None),
            ("eu.cloud.example.evil", "a", None),
            ("docker.io", "library/a", Some("docker")),
            ("other.example", "a", None),
        ] {
            let login = config.login(registry, repository).unwrap();
            let user = login.as_ref().map(|login| login.user.as_str());
            assert_eq!(user, expected, "{registry}/{repository}");
            assert!(login.is_none_or(|login| login.password == "pass:word"));
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_without_a_word_of_what_is_secret() {
        let parse = |entry: &str| {
            let text = format!(r#"{{"auths": {{"r.example": {entry}}}}}"#);
            DockerConfig::parse(&text)?.login("r.example", "a")
        };
        for (entry, expected) in [
            (r#"{"auth": "aHVudGVyMg=="}"#, "NAME:PASSWORD"),
            (r#"{"auth": "hunter2%"}"#, "NAME:PASSWORD"),
            (r#"{"auth": ["hunter2"]}"#, "line 1"),
            (r#"{"identitytoken": "hunter2"}"#, "identity token"),
            ("{}", "neither"),
        ] {
            let error = parse(entry).err().unwrap().to_string();
            assert!(
                error.contains(expected) && !error.contains("hunter2"),
                "{error}"
            );
        }
        let login = parse(r#"{"username": "u", "password": "p"}"#)
            .unwrap()
            .unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("u", "p"));
    }
}
