//! Everything a decision can ask for.

use guesthouse_sdk::contract::{Action, Effect, Extension};
use guesthouse_sdk::prelude::*;

use crate::config_map;

type Wish = Decision<Raw>;

pub(crate) fn children() -> [Apply; 4] {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
    let mut shared = map("shared");
    shared["metadata"]["namespace"] = "other".into();
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"backoffLimit": 0}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}});
    [
        Apply::new("plain", &map("plain")),
        Apply::new("job", &job)
            .once()
            .adopt()
            .recreate()
            .orphan()
            .after("plain"),
        Apply::new("secret", &secret)
            .generate("password", 24)
            .generate_of("pin", 4, "0123456789"),
        Apply::new("part", &shared)
            .fields()
            .after("plain")
            .after("job"),
    ]
}

pub(crate) fn delete(decision: Wish) -> Wish {
    let mut elsewhere = config_map("gone");
    elsewhere.namespace = Some("other".into());
    decision
        .delete(Delete::new("one", config_map("gone")))
        .delete(Delete::new("two", elsewhere).uid("u-9"))
}

pub(crate) fn http(decision: Wish) -> Wish {
    let all = Http::post("all", "https://example.test/b?x=1")
        .header("accept", "text/plain")
        .header("accept", "*/*")
        .header("x-a", "1")
        .text("{\"a\":1}")
        .credential("token")
        .timeout(7)
        .at_most_once()
        .key("generation-3")
        .after("least");
    let bytes = Http::put("bytes", "https://example.test/c")
        .bytes([0x00, 0xff, 0xfe, 0x80])
        .literal_key("c");
    decision
        .http(Http::put("least", "https://example.test/a"))
        .http(all)
        .http(bytes)
}

pub(crate) fn needs(decision: Wish) -> Wish {
    let secret = Kind::new("v1", "Secret").named("s");
    let pods = Need::selected("by-label", Kind::new("v1", "Pod"), "app in (a, b)");
    let outside = Need::fetch("outside", "https://example.test/r", 60);
    decision
        .need(Need::object("by-name", secret).namespace("other"))
        .need(Need::object("own-namespace", config_map("cm")).metadata())
        .need(pods.namespace("*").limit(10))
        .need(Need::owned("mine", Kind::new("batch/v1", "Job")))
        .need(outside.header("accept", "application/json"))
}

pub(crate) fn extension(mut decision: Wish) -> Wish {
    let part = |name: &str, value: &str| Extension {
        name: name.into(),
        value: value.into(),
    };
    let raw = decision.raw();
    raw.extensions.push(part("example.test/more", "{\"n\":1}"));
    raw.effects.push(Effect {
        id: "x".into(),
        after: Vec::new(),
        action: Action::Other(part("example.test/do", "{\"deep\":[1,null]}")),
    });
    decision
}
