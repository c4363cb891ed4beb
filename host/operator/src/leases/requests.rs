//! The requests of the Leases, each answered once.

use std::sync::Arc;

use guesthouse_core::{
    identity::Identity,
    lease::{Action, Answer, LeaseOf, Request, Stored},
};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    clock,
    cluster::{Api, Preconditions, Propagation, RequestError, Resource, Store, Transport},
};

/// The kind as it is served.
pub(super) fn resource() -> Resource {
    Resource {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        kind: "Lease".into(),
        plural: "leases".into(),
        namespaced: true,
        has_status: false,
        crd: None,
    }
}

/// Makes them, renewals over a connection of their own.
pub(super) struct Requests {
    renewals: Desk,
    claims: Desk,
    own: LeaseOf,
    answers: UnboundedSender<(u64, Answer)>,
}

#[derive(Clone)]
struct Desk {
    api: Api,
    resource: Arc<Resource>,
    namespace: Arc<str>,
    store: Arc<Store>,
}

impl Requests {
    pub(super) fn new(
        renewals: Transport,
        claims: Transport,
        namespace: &str,
        replica: &str,
        store: Arc<Store>,
        answers: UnboundedSender<(u64, Answer)>,
    ) -> Self {
        let resource = Arc::new(resource());
        let desk = |transport| Desk {
            api: Api::new(transport),
            resource: resource.clone(),
            namespace: namespace.into(),
            store: store.clone(),
        };
        Self {
            renewals: desk(renewals),
            claims: desk(claims),
            own: LeaseOf::Replica(replica.to_owned()),
            answers,
        }
    }

    /// Begins one; its answer comes as a message.
    pub(super) fn make(&self, request: Request) {
        let of = match &request.action {
            Action::Read(of) | Action::Delete(of, _) => of,
            Action::Write(_, record) => &record.of,
        };
        let desk = if *of == self.own {
            &self.renewals
        } else {
            &self.claims
        };
        let (desk, answers) = (desk.clone(), self.answers.clone());
        tokio::spawn(async move {
            let answer = desk.ask(request.action).await.unwrap_or_else(refused);
            let _ = answers.send((request.id, answer));
        });
    }
}

impl Desk {
    async fn ask(&self, action: Action) -> Result<Answer, RequestError> {
        let (host, resource, namespace) = (&Identity::Host, &*self.resource, &*self.namespace);
        match action {
            Action::Read(of) => {
                let found = self
                    .api
                    .get(host, resource, namespace, &of.object_name())
                    .await;
                match found {
                    Ok(raw) => Ok(Answer::Done(Stored::parse(&raw))),
                    Err(RequestError::NotFound(_)) => Ok(Answer::Done(None)),
                    Err(error) => Err(error),
                }
            }
            Action::Write(base, record) => {
                let body = record.object(base.as_ref(), namespace, clock::now());
                let answer = match base {
                    None => self.api.create(host, resource, namespace, body).await?,
                    Some(_) => {
                        let name = record.of.object_name();
                        self.api
                            .replace(host, resource, namespace, &name, body)
                            .await?
                    }
                };
                let stored = Stored::parse(answer.text()?);
                let _ = self.store.absorb(&answer.body);
                stored
                    .map(|stored| Answer::Done(Some(stored)))
                    .ok_or_else(|| RequestError::Unreadable("the answer is no Lease".into()))
            }
            Action::Delete(of, base) => {
                let only = Preconditions {
                    uid: Some(&base.uid),
                    resource_version: Some(&base.version),
                };
                let name = of.object_name();
                let deleted = self
                    .api
                    .delete(
                        host,
                        resource,
                        namespace,
                        &name,
                        only,
                        Propagation::Background,
                    )
                    .await;
                match deleted {
                    Ok(_) | Err(RequestError::NotFound(_)) => Ok(Answer::Done(None)),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// What a refusal means to the Leases.
fn refused(error: RequestError) -> Answer {
    match error {
        // A PUT to a Lease that is gone names a uid that nobody has: also a conflict.
        RequestError::Conflict(_)
        | RequestError::AlreadyExists(_)
        | RequestError::NotFound(_)
        | RequestError::Invalid(_) => Answer::Conflict,
        RequestError::Forbidden(message) => Answer::Forbidden(message),
        other => Answer::Lost(other.to_string()),
    }
}
