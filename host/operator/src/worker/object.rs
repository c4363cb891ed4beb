//! Reads and writes of the reconciled object.

use guesthouse_core::{
    contract::Json,
    identity::Identity,
    object,
    pass::{FinalizerWrite, ObjectWrite, WriteError},
    plan::MetaPatch,
};
use serde::Serialize;
use serde_json::Value;

use super::Worker;
use crate::{
    cluster::{Answer, PatchKind, Preconditions, Propagation, request::Want},
    errors::write_error,
};

impl Worker<'_> {
    pub(super) async fn read(&self, identity: &Identity) -> Result<Option<Json>, WriteError> {
        let object = self.object();
        let (namespace, name) = (object.namespace(), object.name());
        let api = &self.shop.api;
        let found = api.get(identity, &self.job.resource, namespace, name).await;
        match found {
            Ok(raw) => {
                let _ = self.job.store.absorb(raw.as_bytes());
                Ok(Some(Json::trusted(&*raw)))
            }
            Err(error) => match write_error(error) {
                WriteError::NotFound => Ok(None),
                other => Err(other),
            },
        }
    }

    pub(super) async fn patch(
        &self,
        identity: &Identity,
        write: &ObjectWrite<MetaPatch>,
    ) -> Result<Json, WriteError> {
        #[derive(Serialize)]
        struct Body<'a> {
            metadata: Metadata<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            // Versions are unique over all objects of a kind: another uid has another one.
            resource_version: &'a str,
            #[serde(flatten)]
            patch: &'a MetaPatch,
        }
        let body = text(&Body {
            metadata: Metadata {
                resource_version: &write.version,
                patch: &write.body,
            },
        })?;
        self.patched(identity, PatchKind::Merge, body).await
    }

    /// A JSON patch of the finalizers; its tests hold it to what was read.
    pub(super) async fn finalizer(
        &self,
        identity: &Identity,
        write: &FinalizerWrite,
    ) -> Result<Json, WriteError> {
        let body = text(&write.patch)?;
        self.patched(identity, PatchKind::Json, body).await
    }

    async fn patched(
        &self,
        identity: &Identity,
        kind: PatchKind<'_>,
        body: String,
    ) -> Result<Json, WriteError> {
        let (object, resource) = (self.object(), &self.job.resource);
        let (namespace, name) = (object.namespace(), object.name());
        let api = &self.shop.api;
        let answer = api
            .patch(
                identity,
                resource,
                namespace,
                name,
                kind,
                body,
                Want::Object,
            )
            .await;
        self.written(answer.map_err(write_error)?)
    }

    pub(super) async fn status(
        &self,
        identity: &Identity,
        write: &ObjectWrite<Value>,
    ) -> Result<Json, WriteError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            api_version: String,
            kind: &'a str,
            metadata: Metadata<'a>,
            status: &'a Value,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata<'a> {
            name: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            namespace: &'a str,
            uid: &'a str,
            resource_version: &'a str,
        }
        let (object, resource) = (self.object(), &self.job.resource);
        let (namespace, name) = (object.namespace(), object.name());
        let body = text(&Body {
            api_version: resource.api_version(),
            kind: &resource.kind,
            metadata: Metadata {
                name,
                namespace,
                uid: &write.uid,
                resource_version: &write.version,
            },
            status: &write.body,
        })?;
        let api = &self.shop.api;
        let answer = api
            .put_status(identity, resource, namespace, name, body, Want::Object)
            .await
            .map_err(write_error)?;
        for warning in &answer.warnings {
            tracing::warn!(mapping = self.job.terms.mapping.name, %object, warning, "the API server warns about a status");
        }
        self.written(answer)
    }

    /// Deletes the object as its plugin asked.
    pub(super) async fn delete_self(
        &self,
        identity: &Identity,
        uid: &str,
    ) -> Result<bool, WriteError> {
        let only = Preconditions {
            uid: Some(uid),
            resource_version: None,
        };
        let (object, resource) = (self.object(), &self.job.resource);
        let (namespace, name) = (object.namespace(), object.name());
        let answer = self
            .shop
            .api
            .delete(
                identity,
                resource,
                namespace,
                name,
                only,
                Propagation::Background,
            )
            .await;
        answer.map(|answer| gone(&answer)).map_err(write_error)
    }

    /// The object as the server wrote it; into the store before anybody can ask for it.
    fn written(&self, answer: Answer) -> Result<Json, WriteError> {
        let raw = object::compact(&answer.body).map_err(unreadable)?;
        self.job.store.absorb(raw.as_bytes()).map_err(unreadable)?;
        Ok(Json::trusted(raw))
    }
}

/// The answer to a deletion: a `Status` where the object is gone, the object itself where finalizers hold it.
pub(super) fn gone(answer: &Answer) -> bool {
    answer.stamp().is_ok_and(|stamp| stamp.kind == "Status")
}

pub(super) fn unreadable(error: object::ObjectError) -> WriteError {
    WriteError::Unavailable {
        message: error.to_string(),
        retry_after: None,
    }
}

pub(super) fn text(body: &impl Serialize) -> Result<String, WriteError> {
    serde_json::to_string(body).map_err(|error| WriteError::Invalid(error.to_string()))
}
