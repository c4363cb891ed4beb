//! Spec, status and config of a `Website`; the CRD and the config's schema are made of them.

use std::collections::BTreeMap;

use guesthouse_sdk::prelude::*;

/// A website that a few pods serve.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The files, by name: `index.html: <h1>hello</h1>`.
    #[serde(default)]
    pub content: BTreeMap<String, String>,
    /// The image that serves them out of `/usr/share/nginx/html`; none: the mapping's.
    pub image: Option<String>,
    /// The port that the image listens on. The Service listens on 80.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// How many pods.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// The name that the world knows it by; none: only the cluster sees it.
    #[schemars(length(min = 1, max = 253))]
    pub host: Option<String>,
}

/// How the website stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteStatus {
    /// How far it is.
    #[serde(default)]
    pub phase: Phase,
    /// Where it can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How many pods serve it.
    #[serde(default)]
    pub ready_replicas: i32,
    /// What it waits for, or what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far a website is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    #[default]
    /// Being made or changed.
    Progressing,
    /// All of it is there, as asked for.
    Ready,
    /// A part of it failed.
    Failed,
}

/// The mapping's config.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The image of websites that name none.
    #[serde(default = "image")]
    pub image: String,
    /// Which controller serves their Ingresses; none: the cluster's default.
    pub ingress_class: Option<String>,
}

fn port() -> i32 {
    8080
}

fn one() -> i32 {
    1
}

fn image() -> String {
    "docker.io/nginxinc/nginx-unprivileged:stable-alpine".into()
}
