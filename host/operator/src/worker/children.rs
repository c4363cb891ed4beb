//! Reads and writes of children.

use futures::future::join_all;
use guesthouse_core::{
    contract::{Json, Kind, ObjectRef},
    identity::Identity,
    object,
    pass::{ChildWrite, Looked, Removal, Way, WriteError},
};

use super::{
    Worker,
    object::{gone, text, unreadable},
};
use crate::{
    cluster::{PatchKind, Preconditions, Propagation, RequestError, request::Want},
    crash,
    errors::write_error,
    generate,
};

impl Worker<'_> {
    /// What the server has of objects that are about to become children.
    pub(super) async fn look(
        &self,
        identity: &Identity,
        objects: &[ObjectRef],
    ) -> Vec<Result<Looked, WriteError>> {
        let (reader, related) = (self.reader(identity), &self.shop.related);
        join_all(objects.iter().map(|object| related.look(&reader, object))).await
    }

    /// Applies children side by side.
    pub(super) async fn apply(
        &self,
        identity: &Identity,
        writes: &[ChildWrite],
    ) -> Vec<Result<Json, WriteError>> {
        join_all(writes.iter().map(|write| self.apply_one(identity, write))).await
    }

    async fn apply_one(&self, identity: &Identity, write: &ChildWrite) -> Result<Json, WriteError> {
        let body = if write.generate.is_empty() {
            write.body.as_str().to_owned()
        } else {
            self.generated(identity, write).await?
        };
        self.apply_body(identity, &write.object, body, &write.manager, write.force)
            .await
    }

    /// The body with the values that only the host knows: those that are there stay, the others are made.
    async fn generated(
        &self,
        identity: &Identity,
        write: &ChildWrite,
    ) -> Result<String, WriteError> {
        let reader = self.reader(identity);
        let looked = self.shop.related.look(&reader, &write.object).await?;
        let current = looked.object.as_ref().map(Json::as_str);
        generate::fill(write.body.as_str(), &write.generate, current)
            .map_err(|error| WriteError::Invalid(error.to_string()))
    }

    async fn apply_body(
        &self,
        identity: &Identity,
        object: &ObjectRef,
        body: String,
        manager: &str,
        force: bool,
    ) -> Result<Json, WriteError> {
        let resource = self.shop.related.resource(&object.kind).await?;
        let namespace = object.namespace.as_deref().unwrap_or("");
        let kind = PatchKind::Apply { manager, force };
        let api = &self.shop.api;
        let answer = api
            .patch(
                identity,
                &resource,
                namespace,
                &object.name,
                kind,
                body,
                Want::Object,
            )
            .await
            .map_err(|error| match error {
                // Another manager's field, or another uid: what the server says belongs into the condition.
                RequestError::Conflict(message) => WriteError::Refused(message),
                RequestError::NotServed(message) => {
                    self.shop.related.not_served(&object.kind);
                    WriteError::NoSuchKind(message)
                }
                // A body of the wrong types is answered with 500 before it is validated.
                RequestError::Server {
                    code: 500, message, ..
                } if message.contains("failed to create typed patch object") => {
                    WriteError::Invalid(message)
                }
                other => write_error(other),
            })?;
        self.absorb(&object.kind, &answer.body)
    }

    /// Deletes children or lets them go, side by side.
    pub(super) async fn remove(
        &self,
        identity: &Identity,
        removals: &[Removal],
    ) -> Vec<Result<bool, WriteError>> {
        join_all(
            removals
                .iter()
                .map(|removal| self.remove_one(identity, removal)),
        )
        .await
    }

    async fn remove_one(&self, identity: &Identity, removal: &Removal) -> Result<bool, WriteError> {
        let object = &removal.object;
        let resource = match self.shop.related.resource(&object.kind).await {
            // With its kind went the child.
            Err(WriteError::NoSuchKind(_)) => return Ok(true),
            found => found?,
        };
        let (namespace, api) = (object.namespace.as_deref().unwrap_or(""), &self.shop.api);
        match &removal.way {
            Way::Delete => {
                let uid = Some(removal.uid.as_str());
                let only = Preconditions {
                    uid: uid.filter(|_| !crash::is_mutant("delete-without-uid")),
                    resource_version: None,
                };
                let answer = api
                    .delete(
                        identity,
                        &resource,
                        namespace,
                        &object.name,
                        only,
                        Propagation::Background,
                    )
                    .await
                    .map_err(write_error)?;
                let gone = gone(&answer);
                if !gone {
                    let _ = self.absorb(&object.kind, &answer.body);
                }
                Ok(gone)
            }
            Way::Unmark(patch) => {
                let kind = PatchKind::Merge;
                let (name, body) = (&object.name, text(patch)?);
                let answer = api
                    .patch(
                        identity,
                        &resource,
                        namespace,
                        name,
                        kind,
                        body,
                        Want::Object,
                    )
                    .await
                    .map_err(write_error)?;
                self.absorb(&object.kind, &answer.body)?;
                Ok(true)
            }
            Way::LetGo { body, manager } => {
                let body = body.as_str().to_owned();
                self.apply_body(identity, object, body, manager, false)
                    .await?;
                Ok(true)
            }
        }
    }

    /// A child as the server wrote it; into its store, so that the next pass sees it and its echo wakes nobody.
    fn absorb(&self, kind: &Kind, body: &[u8]) -> Result<Json, WriteError> {
        let raw = object::compact(body).map_err(unreadable)?;
        self.shop.related.absorb(&self.job.key, kind, &raw);
        Ok(Json::trusted(raw))
    }
}
