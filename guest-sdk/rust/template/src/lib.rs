//! Greets whoever a `{{kind}}` names.

use guesthouse_sdk::prelude::*;

/// What the user wants.
#[derive(Deserialize, JsonSchema)]
pub struct Spec {
    /// Whom to greet.
    pub who: String,
}

/// What came of it.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The greeting.
    pub text: String,
}

/// The plugin.
pub struct Greeter;

impl Reconciler for Greeter {
    type Spec = Spec;
    type Status = Status;
    type Config = NoConfig;

    fn describe() -> Plugin {
        let kind = Crd::of::<Self>("{{group}}/v1", "{{kind}}")
            .plural("{{plural}}")
            .column("Text", "string", ".status.text")
            .with_conditions()
            .ready_column()
            .age_column();
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).serves(kind)
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<Status>, Failure> {
        let text = format!("hello, {}", seen.spec().who);
        Ok(Decision::new().status(Status { text }))
    }
}

guesthouse_sdk::export!(Greeter);

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_sdk::testing::case;

    #[test]
    fn the_one_who_is_named_is_greeted() {
        case::<Greeter>("cases/hello.json").unwrap();
    }
}
