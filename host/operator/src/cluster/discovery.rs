//! From apiVersion and kind to what the API server serves under them.
//!
//! Nothing is remembered: a kind that is absent now may exist a second later, and a kind recreated under another uid is
//! another kind. Whoever needs a [`Resource`] resolves it once per (re)start of its watch.

use std::sync::Arc;

use guesthouse_core::identity::Identity;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::RequestError;
use super::request::Api;
use super::resource::{CrdInfo, Resource, push_segment};

/// Asks the API server what it serves.
#[derive(Clone, Debug)]
pub struct Discovery {
    api: Api,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Served>,
}

#[derive(Deserialize)]
struct Served {
    name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
}

#[derive(Deserialize)]
struct Crd<'a> {
    metadata: CrdMeta,
    #[serde(borrow)]
    spec: CrdSpec<'a>,
}

#[derive(Deserialize)]
struct CrdMeta {
    name: String,
    uid: String,
    #[serde(default)]
    generation: i64,
}

#[derive(Deserialize)]
struct CrdSpec<'a> {
    #[serde(borrow)]
    versions: Vec<CrdVersion<'a>>,
}

/// Other versions' schemas are skipped unread.
#[derive(Deserialize)]
struct CrdVersion<'a> {
    name: String,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct CrdSchema {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Option<serde_json::Value>,
}

impl Discovery {
    /// Discovery over `api`.
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// What is served as `kind` of `api_version` (`group/version`, or `v1`), or `None` if nothing is: such a kind may come.
    pub async fn resolve(
        &self,
        identity: &Identity,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Resource>, RequestError> {
        let Some(mut resource) = self.served(identity, api_version, kind).await? else {
            return Ok(None);
        };
        // CRDs' groups have a dot; built-in groups without one cannot be CRDs, so they are not asked for.
        if resource.group.contains('.') {
            resource.crd = self.crd(identity, &resource).await?.map(Arc::new);
        }
        Ok(Some(resource))
    }

    /// The same without looking at the CRD behind it: paths and scope alone.
    pub async fn served(
        &self,
        identity: &Identity,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Resource>, RequestError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let mut path = String::from(if group.is_empty() { "/api" } else { "/apis" });
        if !group.is_empty() {
            push_segment(&mut path, group)?;
        }
        push_segment(&mut path, version)?;
        let answer = match self.api.read(identity, &path).await {
            Err(RequestError::NotServed(_) | RequestError::NotFound(_)) => return Ok(None),
            answer => answer?,
        };
        find(answer.text()?, group, version, kind)
    }

    /// What is served as `kind` of `group` at any version, the preferred one first; `None` if nothing is.
    pub async fn resolve_any(
        &self,
        identity: &Identity,
        group: &str,
        kind: &str,
    ) -> Result<Option<Resource>, RequestError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Group {
            versions: Vec<Named>,
            preferred_version: Option<Named>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named {
            group_version: String,
        }
        if group.is_empty() {
            return self.resolve(identity, "v1", kind).await;
        }
        let mut path = String::from("/apis");
        push_segment(&mut path, group)?;
        let answer = match self.api.read(identity, &path).await {
            Err(RequestError::NotServed(_) | RequestError::NotFound(_)) => return Ok(None),
            answer => answer?,
        };
        let found: Group = serde_json::from_str(answer.text()?)
            .map_err(|error| RequestError::Unreadable(format!("discovery of {group}: {error}")))?;
        for version in found.preferred_version.iter().chain(&found.versions) {
            let served = self.resolve(identity, &version.group_version, kind).await?;
            if served.is_some() {
                return Ok(served);
            }
        }
        Ok(None)
    }

    /// The CRD behind a resource, if there is one and it may be read.
    pub async fn crd(
        &self,
        identity: &Identity,
        resource: &Resource,
    ) -> Result<Option<CrdInfo>, RequestError> {
        let mut path = String::from("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        push_segment(
            &mut path,
            &format!("{}.{}", resource.plural, resource.group),
        )?;
        match self.api.read(identity, &path).await {
            Ok(answer) => Ok(Some(read_crd(answer.text()?, &resource.version)?)),
            Err(
                RequestError::NotServed(_) | RequestError::NotFound(_) | RequestError::Forbidden(_),
            ) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn find(
    text: &str,
    group: &str,
    version: &str,
    kind: &str,
) -> Result<Option<Resource>, RequestError> {
    let list: ResourceList = serde_json::from_str(text).map_err(|error| {
        RequestError::Unreadable(format!("discovery of {group}/{version}: {error}"))
    })?;
    // Subresources repeat the kind, or name another one (`deployments/scale` is a `Scale`).
    let Some(served) = list
        .resources
        .iter()
        .find(|served| served.kind == kind && !served.name.contains('/'))
    else {
        return Ok(None);
    };
    let status = |other: &Served| other.name.strip_suffix("/status") == Some(served.name.as_str());
    Ok(Some(Resource {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        plural: served.name.as_str().into(),
        namespaced: served.namespaced,
        has_status: list.resources.iter().any(status),
        crd: None,
    }))
}

fn read_crd(text: &str, version: &str) -> Result<CrdInfo, RequestError> {
    let unreadable = |error: serde_json::Error| {
        RequestError::Unreadable(format!("CustomResourceDefinition: {error}"))
    };
    let crd: Crd<'_> = serde_json::from_str(text).map_err(unreadable)?;
    let schema = crd
        .spec
        .versions
        .into_iter()
        .find(|served| served.name == version)
        .and_then(|served| served.schema);
    let schema = schema
        .map(|schema| serde_json::from_str::<CrdSchema>(schema.get()))
        .transpose()
        .map_err(unreadable)?;
    Ok(CrdInfo {
        name: crd.metadata.name.into(),
        uid: crd.metadata.uid.into(),
        generation: crd.metadata.generation,
        schema: schema.and_then(|schema| schema.open_api),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
        {"name":"deployments/scale","namespaced":true,"kind":"Scale"},
        {"name":"deployments/status","namespaced":true,"kind":"Deployment"},
        {"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get"]},
        {"name":"revisions","namespaced":false,"kind":"Revision"}]}"#;

    #[test]
    fn a_kind_is_found_apart_from_its_subresources() {
        let found = find(LIST, "apps", "v1", "Deployment").unwrap().unwrap();
        assert_eq!(
            (&*found.plural, found.namespaced, found.has_status),
            ("deployments", true, true)
        );
        let found = find(LIST, "apps", "v1", "Revision").unwrap().unwrap();
        assert_eq!(
            (&*found.plural, found.namespaced, found.has_status),
            ("revisions", false, false)
        );
        assert_eq!(find(LIST, "apps", "v1", "Scale").unwrap(), None);
        assert!(find("[", "apps", "v1", "Scale").is_err());
    }

    #[test]
    fn a_crd_gives_the_schema_of_the_version_asked_for() {
        let text = r#"{"metadata":{"name":"a.b.c","uid":"u","generation":3},"spec":{"versions":[
            {"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2"}]}}"#;
        let crd = read_crd(text, "v1").unwrap();
        assert_eq!(
            (&*crd.uid, crd.generation, crd.schema),
            ("u", 3, Some(serde_json::json!({"type": "object"})))
        );
        assert_eq!(read_crd(text, "v2").unwrap().schema, None);
        assert_eq!(read_crd(text, "v3").unwrap().schema, None);
    }
}
