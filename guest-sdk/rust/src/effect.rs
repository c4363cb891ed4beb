//! Builders of what a plugin asks for: requests, children, deletions, and what it needs to read.
//!
//! The id of an effect names the wish, not the attempt: it is unique and stable within the object.

use serde::Serialize;

use crate::contract::{
    self, Action, Body, Cause, Delivery, Effect, Generated, Kind, Mode, Need, ObjectRef, OnDelete,
    OnImmutable, Ownership, Request, Selection, Source, View,
};
use crate::decision::to_json;

/// A request with a receipt, carried out once per id and key.
#[derive(Clone, Debug)]
pub struct Http {
    id: String,
    after: Vec<String>,
    http: contract::Http,
    broken: Option<Cause>,
}

impl Http {
    /// A request of any method (upper case).
    pub fn new(method: &str, id: impl Into<String>, url: impl Into<String>) -> Http {
        Http {
            id: id.into(),
            after: Vec::new(),
            http: contract::Http {
                request: request(method, url.into()),
                delivery: Delivery::AtLeastOnce,
                key: None,
                literal_key: None,
            },
            broken: None,
        }
    }

    /// A PUT.
    pub fn put(id: impl Into<String>, url: impl Into<String>) -> Http {
        Http::new("PUT", id, url)
    }

    /// A POST.
    pub fn post(id: impl Into<String>, url: impl Into<String>) -> Http {
        Http::new("POST", id, url)
    }

    /// A DELETE.
    pub fn delete(id: impl Into<String>, url: impl Into<String>) -> Http {
        Http::new("DELETE", id, url)
    }

    /// A JSON body, with its content type.
    pub fn json(mut self, body: &(impl Serialize + ?Sized)) -> Http {
        match to_json(&self.id, body) {
            Ok(text) => self.http.request.body = Body::Text(text),
            Err(cause) => self.broken = Some(cause),
        }
        self.header("content-type", "application/json")
    }

    /// A text as body.
    pub fn text(mut self, body: impl Into<String>) -> Http {
        self.http.request.body = Body::Text(body.into());
        self
    }

    /// Bytes as body.
    pub fn bytes(mut self, body: impl Into<Vec<u8>>) -> Http {
        self.http.request.body = Body::Bytes(body.into());
        self
    }

    /// One more header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Http {
        self.http.request.headers.push((name.into(), value.into()));
        self
    }

    /// Makes this another wish than the last one under this id; usually something of the spec.
    pub fn key(mut self, key: impl Into<String>) -> Http {
        self.http.key = Some(key.into());
        self
    }

    /// Sent as the idempotency key instead of the host's hash, where the grant allows it.
    pub fn literal_key(mut self, key: impl Into<String>) -> Http {
        self.http.literal_key = Some(key.into());
        self
    }

    /// Never sent a second time, also when the answer is lost.
    pub fn at_most_once(mut self) -> Http {
        self.http.delivery = Delivery::AtMostOnce;
        self
    }

    /// A credential of the mapping, by name; the host puts it in.
    pub fn credential(mut self, name: impl Into<String>) -> Http {
        self.http.request.credential = Some(name.into());
        self
    }

    /// How many seconds the answer may take, instead of the grant's.
    pub fn timeout(mut self, seconds: u32) -> Http {
        self.http.request.timeout = Some(seconds);
        self
    }

    /// Not before the effect of that id has succeeded.
    pub fn after(mut self, id: impl Into<String>) -> Http {
        self.after.push(id.into());
        self
    }

    pub(crate) fn finish(self) -> Result<Effect, Cause> {
        match self.broken {
            Some(cause) => Err(cause),
            None => Ok(Effect {
                id: self.id,
                after: self.after,
                action: Action::Http(self.http),
            }),
        }
    }
}

/// A child by server-side apply: state the fields you mean and no others.
#[derive(Clone, Debug)]
pub struct Apply {
    id: String,
    after: Vec<String>,
    apply: contract::Apply,
    broken: Option<Cause>,
}

impl Apply {
    /// An owned child, kept as stated; the object with apiVersion, kind and metadata.name.
    pub fn new(id: impl Into<String>, object: &impl Serialize) -> Apply {
        let id = id.into();
        let (object, broken) = match to_json(&id, object) {
            Ok(text) => (text, None),
            Err(cause) => (String::new(), Some(cause)),
        };
        let apply = contract::Apply {
            object,
            ownership: Ownership::Owned,
            mode: Mode::Keep,
            on_immutable: OnImmutable::Fail,
            on_delete: OnDelete::Delete,
            generate: Vec::new(),
        };
        Apply {
            id,
            after: Vec::new(),
            apply,
            broken,
        }
    }

    /// One that is there and has no other owner is taken over.
    pub fn adopt(mut self) -> Apply {
        self.apply.ownership = Ownership::Adopt;
        self
    }

    /// Only these fields of somebody else's object.
    pub fn fields(mut self) -> Apply {
        self.apply.ownership = Ownership::Fields;
        self
    }

    /// Made once and then left alone, also when it is gone.
    pub fn once(mut self) -> Apply {
        self.apply.mode = Mode::Once;
        self
    }

    /// Deleted and made again when a field cannot be changed.
    pub fn recreate(mut self) -> Apply {
        self.apply.on_immutable = OnImmutable::Recreate;
        self
    }

    /// Stays when the reconciled object is deleted.
    pub fn orphan(mut self) -> Apply {
        self.apply.on_delete = OnDelete::Orphan;
        self
    }

    /// A random value of a Secret: `length` characters under `data.<key>`, made by the host once.
    pub fn generate(mut self, key: impl Into<String>, length: u32) -> Apply {
        self.apply.generate.push(Generated {
            key: key.into(),
            length,
            alphabet: None,
        });
        self
    }

    /// The same of these characters alone.
    pub fn generate_of(
        mut self,
        key: impl Into<String>,
        length: u32,
        alphabet: impl Into<String>,
    ) -> Apply {
        self.apply.generate.push(Generated {
            key: key.into(),
            length,
            alphabet: Some(alphabet.into()),
        });
        self
    }

    /// Not before the effect of that id has succeeded.
    pub fn after(mut self, id: impl Into<String>) -> Apply {
        self.after.push(id.into());
        self
    }

    pub(crate) fn finish(self) -> Result<Effect, Cause> {
        match self.broken {
            Some(cause) => Err(cause),
            None => Ok(Effect {
                id: self.id,
                after: self.after,
                action: Action::Apply(self.apply),
            }),
        }
    }
}

/// A deletion of an own child, or of the object itself where granted.
#[derive(Clone, Debug)]
pub struct Delete {
    id: String,
    after: Vec<String>,
    delete: contract::Delete,
}

impl Delete {
    /// The object: `Kind::new("v1", "ConfigMap").named("settings")`.
    pub fn new(id: impl Into<String>, object: ObjectRef) -> Delete {
        Delete {
            id: id.into(),
            after: Vec::new(),
            delete: contract::Delete { object, uid: None },
        }
    }

    /// Only the one of that uid.
    pub fn uid(mut self, uid: impl Into<String>) -> Delete {
        self.delete.uid = Some(uid.into());
        self
    }

    /// Not before the effect of that id has succeeded.
    pub fn after(mut self, id: impl Into<String>) -> Delete {
        self.after.push(id.into());
        self
    }

    pub(crate) fn finish(self) -> Effect {
        Effect {
            id: self.id,
            after: self.after,
            action: Action::Delete(self.delete),
        }
    }
}

impl Need {
    fn new(name: impl Into<String>, source: Source) -> Need {
        Need {
            name: name.into(),
            source,
            view: View::Full,
            limit: None,
        }
    }

    /// One object by name.
    pub fn object(name: impl Into<String>, object: ObjectRef) -> Need {
        Need::new(name, Source::Object(object))
    }

    /// Objects of the own namespace by label, as after `kubectl get -l`.
    pub fn selected(name: impl Into<String>, kind: Kind, labels: impl Into<String>) -> Need {
        Need::new(
            name,
            Source::Selected(Selection {
                kind,
                namespace: None,
                labels: labels.into(),
            }),
        )
    }

    /// Objects of a kind that carry this object's owner mark.
    pub fn owned(name: impl Into<String>, kind: Kind) -> Need {
        Need::new(name, Source::Owned(kind))
    }

    /// A GET outside the cluster, at most `fresh` seconds old.
    pub fn fetch(name: impl Into<String>, url: impl Into<String>, fresh: u32) -> Need {
        Need::new(
            name,
            Source::Fetch(contract::Fetch {
                request: request("GET", url.into()),
                fresh,
            }),
        )
    }

    /// One more header of a `fetch`.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Need {
        if let Source::Fetch(fetch) = &mut self.source {
            fetch.request.headers.push((name.into(), value.into()));
        }
        self
    }

    /// In that namespace (`*`: in all that are granted); for `object` and `selected`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Need {
        match &mut self.source {
            Source::Object(object) => object.namespace = Some(namespace.into()),
            Source::Selected(selection) => selection.namespace = Some(namespace.into()),
            Source::Owned(_) | Source::Fetch(_) => {}
        }
        self
    }

    /// Only apiVersion, kind and metadata, at a fraction of the cost.
    pub fn metadata(mut self) -> Need {
        self.view = View::Metadata;
        self
    }

    /// At most that many objects.
    pub fn limit(mut self, objects: u32) -> Need {
        self.limit = Some(objects);
        self
    }
}

fn request(method: &str, url: String) -> Request {
    Request {
        method: method.into(),
        url,
        headers: Vec::new(),
        body: Body::Empty,
        credential: None,
        timeout: None,
    }
}
