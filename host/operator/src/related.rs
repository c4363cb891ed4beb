//! Stand-in.
use std::sync::Arc;

use guesthouse_core::{
    contract::{Answer, Cause, Json, Kind, ObjectRef},
    identity::Identity,
    pass::{Found, Gather, Gathered, Looked, WriteError},
    queue::Key,
};

use crate::{
    cluster::{Api, Discovery, Resource},
    errors::write_error,
};

pub(crate) struct Related {
    pub(crate) api: Api,
    pub(crate) discovery: Arc<Discovery>,
}

impl Related {
    pub(crate) async fn gather(&self, _: &Key, identity: &Identity, gather: &Gather) -> Gathered {
        let mut read = Gathered::default();
        for _ in &gather.readings {
            read.answers
                .push(Answer::Unavailable(Cause::new("Failed", "stand-in")));
        }
        for child in &gather.children {
            let found = match self.resource(identity, &child.kind).await {
                Ok(resource) => self
                    .api
                    .get(identity, &resource, &child.namespace, &child.name)
                    .await
                    .map_err(write_error),
                Err(error) => Err(error),
            };
            read.children.push(match found {
                Ok(raw) => Found::Object(Json::trusted(raw)),
                Err(WriteError::NotFound) => Found::Absent,
                Err(error) => Found::Unknown(Cause::new("Failed", format!("{error:?}"))),
            });
        }
        read
    }

    pub(crate) fn subscribe(&self, _: &Key, _: &Gather) {}

    pub(crate) fn forget(&self, _: &Key) {}

    pub(crate) fn absorb(&self, _: &Kind, _: &str) {}

    pub(crate) async fn look(
        &self,
        identity: &Identity,
        object: &ObjectRef,
        own: &str,
    ) -> Result<Looked, WriteError> {
        let resource = self.resource(identity, &object.kind).await?;
        let namespace = if resource.namespaced {
            object.namespace.clone().unwrap_or_else(|| own.to_owned())
        } else {
            String::new()
        };
        if resource.namespaced && namespace.is_empty() {
            return Ok(Looked {
                namespaced: true,
                namespace,
                object: None,
            });
        }
        let found = self
            .api
            .get(identity, &resource, &namespace, &object.name)
            .await;
        let object = match found.map_err(write_error) {
            Ok(raw) => Some(Json::trusted(raw)),
            Err(WriteError::NotFound) => None,
            Err(error) => return Err(error),
        };
        Ok(Looked {
            namespaced: resource.namespaced,
            namespace,
            object,
        })
    }

    pub(crate) async fn resource(
        &self,
        identity: &Identity,
        kind: &Kind,
    ) -> Result<Resource, WriteError> {
        let found = self
            .discovery
            .resolve(identity, &kind.api_version, &kind.kind)
            .await
            .map_err(write_error)?;
        found.ok_or_else(|| WriteError::NoSuchKind(format!("{kind} is not served")))
    }
}
