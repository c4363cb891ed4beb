//! Plugins under plain `cargo test`: an observation built by hand, and the decision for it.
//!
//! ```ignore
//! let scene = observe(json!({"metadata": {"name": "a"}, "spec": {"report": "r"}})).answered("export", 201, "{}");
//! let decision = decide::<ReportJob>(&scene).unwrap();
//! ```

mod base64;
mod case;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::contract::{
    self, Action, Answer, Body, Cause, Child, ChildState, FailedSend, ObjectRef, Objects,
    ReceiptState, Related, Response, Status,
};
use crate::{Reconciler, door};

pub use crate::door::{Reply, describe};
pub use case::{case, judge, observation};

/// An observation in the making.
#[derive(Clone, Debug)]
pub struct Scene(contract::Observation);

/// Begins with the object: JSON text, or a `serde_json::Value`.
pub fn observe(object: impl ToString) -> Scene {
    Scene(contract::Observation {
        object: object.to_string(),
        related: Vec::new(),
        children: Vec::new(),
        receipts: Vec::new(),
        config: "{}".into(),
        mapping: "test".into(),
        now: "2026-01-01T00:00:00Z".into(),
        attempt: 0,
        round: 0,
        extensions: Vec::new(),
    })
}

/// The definition of the plugin's kind, the first one where it brings several; null where it brings none.
pub fn definition<P: Reconciler>() -> Value {
    let said = describe::<P>();
    let crd = said.kinds.first().and_then(|kind| kind.crd.as_deref());
    crd.and_then(|crd| serde_json::from_str(crd).ok())
        .unwrap_or_default()
}

/// What a generated file that is committed says, to be compared with what was printed just now; nothing where there is no
/// such file. With `UPDATE` set in the environment, what was printed is written to it first.
pub fn committed(path: &str, printed: &str) -> std::io::Result<String> {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, printed)?;
    }
    Ok(std::fs::read_to_string(path).unwrap_or_default())
}

/// What the plugin decides on it.
pub fn decide<P: Reconciler>(scene: &Scene) -> Reply {
    door::reconcile::<P>(&scene.0)
}

/// What the plugin decides on it when the object is being deleted.
pub fn finalize<P: Reconciler>(scene: &Scene) -> Reply {
    door::finalize::<P>(&scene.0)
}

impl Scene {
    /// The mapping's config, as JSON.
    pub fn config(mut self, config: impl ToString) -> Scene {
        self.0.config = config.to_string();
        self
    }

    /// When the pass began (RFC 3339, UTC, whole seconds).
    pub fn now(mut self, now: &str) -> Scene {
        self.0.now = now.into();
        self
    }

    /// How many passes in a row failed before.
    pub fn attempt(mut self, attempt: u32) -> Scene {
        self.0.attempt = attempt;
        self
    }

    /// The http effect of that id was answered so, now; an empty body is none.
    pub fn answered(self, effect: &str, code: u16, body: impl ToString) -> Scene {
        let response = self.response(code, body);
        self.receipt(effect, ReceiptState::Answered(response))
    }

    fn response(&self, code: u16, body: impl ToString) -> Response {
        let body = match body.to_string() {
            text if text.is_empty() => Body::Empty,
            text => Body::Text(text),
        };
        Response {
            code,
            headers: Vec::new(),
            body,
            truncated: false,
            at: self.0.now.clone(),
        }
    }

    /// The http effect of that id was sent that many times without a definite answer.
    pub fn failed(self, effect: &str, attempts: u32, reason: &str, message: &str) -> Scene {
        let next_at = self.0.now.clone();
        self.receipt(
            effect,
            ReceiptState::Failed(FailedSend {
                attempts,
                error: Cause::new(reason, message),
                next_at,
            }),
        )
    }

    /// A receipt of that id without a key, in that state.
    pub fn receipt(mut self, effect: &str, state: ReceiptState) -> Scene {
        self.0.receipts.push(contract::Receipt {
            effect: effect.into(),
            key: None,
            state,
        });
        self
    }

    /// The receipt added last was for an effect with this key.
    pub fn keyed(mut self, key: &str) -> Scene {
        if let Some(receipt) = self.0.receipts.last_mut() {
            receipt.key = Some(key.into());
        }
        self
    }

    /// These objects were found for the need of that name; none is an answer, too.
    pub fn found<T: ToString>(self, need: &str, objects: impl IntoIterator<Item = T>) -> Scene {
        let items = objects
            .into_iter()
            .map(|object| object.to_string())
            .collect();
        let truncated = false;
        self.related(need, Answer::Objects(Objects { items, truncated }))
    }

    /// The fetch of that name was answered so, now; an empty body is none.
    pub fn fetched(self, need: &str, code: u16, body: impl ToString) -> Scene {
        let response = self.response(code, body);
        self.related(need, Answer::Response(response))
    }

    /// The need of that name was asked for, and there is no answer.
    pub fn unavailable(self, need: &str, reason: &str, message: &str) -> Scene {
        self.related(need, Answer::Unavailable(Cause::new(reason, message)))
    }

    /// The answer to a need.
    pub fn related(mut self, name: &str, answer: Answer) -> Scene {
        self.0.related.push(Related {
            name: name.into(),
            answer,
        });
        self
    }

    /// The child that the effect of that id asked for stands so: there under the uid `<id>-uid`, unless it is absent.
    pub fn child_is(self, effect: &str, object: ObjectRef, state: ChildState) -> Scene {
        self.child(Child {
            effect: effect.into(),
            object,
            uid: (state != ChildState::Absent).then(|| format!("{effect}-uid")),
            state,
            message: String::new(),
            error: None,
        })
    }

    /// A child on record.
    pub fn child(mut self, child: Child) -> Scene {
        self.0.children.push(child);
        self
    }

    /// The observation as the contract has it, for what no builder covers.
    pub fn raw(&mut self) -> &mut contract::Observation {
        &mut self.0
    }
}

impl contract::Decision {
    /// The text of the status, whether replacing or merged.
    pub fn status_text(&self) -> Option<&str> {
        match self.status.as_ref()? {
            Status::Replace(text) | Status::Merge(text) => Some(text),
        }
    }

    /// The status in that type; without one, what `null` reads as.
    pub fn status_as<S: DeserializeOwned>(&self) -> Result<S, serde_json::Error> {
        serde_json::from_str(self.status_text().unwrap_or("null"))
    }

    /// The request of the http effect of that id.
    pub fn http(&self, id: &str) -> Option<&contract::Http> {
        self.effects
            .iter()
            .find(|effect| effect.id == id)
            .and_then(|effect| match &effect.action {
                Action::Http(http) => Some(http),
                _ => None,
            })
    }

    /// The child that the effect of that id asks for.
    pub fn applied(&self, id: &str) -> Option<&contract::Apply> {
        self.effects
            .iter()
            .find(|effect| effect.id == id)
            .and_then(|effect| match &effect.action {
                Action::Apply(apply) => Some(apply),
                _ => None,
            })
    }

    /// The condition of that type.
    pub fn condition(&self, type_: &str) -> Option<&contract::Condition> {
        self.conditions.iter().find(|one| one.type_ == type_)
    }

    /// What is to become of a label: `Some(Some(value))` sets it, `Some(None)` takes it off.
    pub fn label(&self, key: &str) -> Option<Option<&str>> {
        self.labels
            .iter()
            .find(|(have, _)| have == key)
            .map(|(_, value)| value.as_deref())
    }
}
