//! From apiVersion and kind to what the API server serves under them.
//!
//! Nothing is remembered: a kind that is absent now may exist a second later, and a kind recreated under another uid is
//! another kind. Whoever needs a [`Resource`] resolves it once per (re)start of its watch.

use std::sync::{Arc, OnceLock};

use guesthouse_core::identity::Identity;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::RequestError;
use super::request::Api;
use super::resource::{CrdInfo, Resource, push_segment};

mod published;

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

    /// The CRD behind a resource. Where the host may not read definitions, because its rights end at namespaces, what the
    /// server publishes of the schema to everybody (kubeopencode#298, humio-operator#305).
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
            Err(RequestError::NotServed(_) | RequestError::NotFound(_)) => Ok(None),
            Err(RequestError::Forbidden(_)) => self.published(identity, resource).await,
            Err(error) => Err(error),
        }
    }

    /// The kind's schema in the server's OpenAPI v3, if it is one of a CRD.
    async fn published(
        &self,
        identity: &Identity,
        resource: &Resource,
    ) -> Result<Option<CrdInfo>, RequestError> {
        let mut path = String::from("/openapi/v3/apis");
        push_segment(&mut path, &resource.group)?;
        push_segment(&mut path, &resource.version)?;
        match self.api.read(identity, &path).await {
            Ok(answer) => Ok(published::read(answer.text()?, resource)?),
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
        status: OnceLock::new(),
    })
}

#[cfg(test)]
mod tests {
    use guesthouse_core::schema::StatusSchema;

    use super::super::scripted::{Reply, Scripted};
    use super::super::transport::TransportOptions;
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

    const THINGS: &str = r#"{"kind":"APIResourceList","resources":[
        {"name":"things","namespaced":true,"kind":"Thing"},{"name":"things/status","namespaced":true,"kind":"Thing"}]}"#;
    const OPEN_API: &str = r##"{"components":{"schemas":{
        "io.acme.v1.Thing":{"type":"object","properties":{
            "metadata":{"allOf":[{"$ref":"#/components/schemas/ObjectMeta"}]},
            "status":{"type":"object","properties":{"phase":{"type":"string","enum":["A"]},
                "copy":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"metadata":{"$ref":"#/components/schemas/ObjectMeta"}}}}}},
            "x-kubernetes-group-version-kind":[{"group":"acme.io","kind":"Thing","version":"v1"}]},
        "io.acme.v1.ThingList":{"type":"object","x-kubernetes-group-version-kind":[{"group":"acme.io","kind":"ThingList","version":"v1"}]},
        "io.acme.v1.Other":{"type":"object","properties":{"status":{"$ref":"#/components/schemas/S"}},
            "x-kubernetes-group-version-kind":[{"group":"acme.io","kind":"Other","version":"v1"}]}}}}"##;

    async fn resolved(script: Vec<Reply>) -> (Scripted, Result<Option<Resource>, RequestError>) {
        let server = Scripted::play(script).await;
        let api = Api::new(server.transport(TransportOptions::default()));
        let found = Discovery::new(api)
            .resolve(&Identity::Host, "acme.io/v1", "Thing")
            .await;
        (server, found)
    }

    /// kubeopencode#298, humio-operator#305
    #[tokio::test]
    async fn where_definitions_may_not_be_read_the_published_schema_is() {
        let (mut server, found) = resolved(vec![
            Reply::json(200, THINGS),
            Reply::status(403, "definitions are cluster-scoped"),
            Reply::json(200, OPEN_API),
        ])
        .await;
        let crd = found.unwrap().unwrap().crd.unwrap();
        assert_eq!((&*crd.name, &*crd.uid), ("things.acme.io", ""));
        let schema = StatusSchema::of_crd(crd.schema.as_ref().unwrap());
        assert!(schema.names("phase") && !schema.keeps("other"));
        let mut paths = Vec::new();
        for _ in 0..3 {
            paths.push(server.seen().await.path);
        }
        assert_eq!(
            paths,
            [
                "/apis/acme.io/v1",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.acme.io",
                "/openapi/v3/apis/acme.io/v1"
            ]
        );
        let other = published::read(&OPEN_API.replace("\"A\"", "\"B\""), &thing("Thing"));
        assert_ne!(
            other.unwrap().unwrap().generation,
            crd.generation,
            "another schema"
        );
    }

    #[tokio::test]
    async fn a_kind_whose_schema_nobody_shows_is_served_all_the_same() {
        for last in [
            Reply::status(403, "no"),
            Reply::status(404, "no"),
            Reply::json(200, "{}"),
        ] {
            let script = vec![Reply::json(200, THINGS), Reply::status(403, "no"), last];
            let (_server, found) = resolved(script).await;
            let resource = found.unwrap().unwrap();
            assert!(resource.has_status && resource.crd.is_none());
        }
        // No definition: the kind is an aggregated API's, and nothing published of it would be a CRD's.
        let script = vec![Reply::json(200, THINGS), Reply::status(404, "no")];
        assert_eq!(resolved(script).await.1.unwrap().unwrap().crd, None);
        // An error that may pass is one, so that it is tried again.
        let script = vec![
            Reply::json(200, THINGS),
            Reply::status(403, "no"),
            Reply::status(503, "busy"),
        ];
        assert!(resolved(script).await.1.is_err());
        let script = vec![
            Reply::json(200, THINGS),
            Reply::status(403, "no"),
            Reply::json(200, "["),
        ];
        assert!(matches!(
            resolved(script).await.1,
            Err(RequestError::Unreadable(_))
        ));
    }

    #[test]
    fn a_schema_in_pieces_is_not_a_crds() {
        assert_eq!(published::read(OPEN_API, &thing("Other")).unwrap(), None);
        assert_eq!(published::read(OPEN_API, &thing("Absent")).unwrap(), None);
    }

    fn thing(kind: &str) -> Resource {
        find(&THINGS.replace("Thing", kind), "acme.io", "v1", kind)
            .unwrap()
            .unwrap()
    }
}
