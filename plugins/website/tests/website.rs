//! What a Website becomes: its children, and the status that they make.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use std::collections::BTreeSet;

use guesthouse_sdk::contract::{Cause, ChildState, Decision, FailureKind, Kind, Source};
use guesthouse_sdk::testing::{Scene, decide, observe};
use guesthouse_sdk::{Value, json};
use website::{
    CONTENT, CONTENT_HASH, DEPLOYMENT, INGRESS, PODS, Phase, SERVICE, Website, WebsiteStatus,
    child_name,
};

fn site(spec: Value) -> Scene {
    observe(json!({
        "metadata": {"name": "shop", "namespace": "acme", "uid": "u-1", "generation": 1},
        "spec": spec,
    }))
}

fn hello() -> Value {
    json!({"content": {"index.html": "<h1>hello</h1>"}, "replicas": 2})
}

fn run(scene: &Scene) -> (Decision, WebsiteStatus) {
    let decision = decide::<Website>(scene).unwrap();
    let again = decide::<Website>(scene);
    assert_eq!(
        again.as_ref(),
        Ok(&decision),
        "equal observations, equal decisions"
    );
    assert!(decision.complete, "what is no longer named goes");
    assert_eq!(decision.condition("Ready"), None, "that one is the host's");
    let status = decision.status_as().unwrap();
    (decision, status)
}

fn ids(decision: &Decision) -> Vec<&str> {
    decision
        .effects
        .iter()
        .map(|effect| effect.id.as_str())
        .collect()
}

fn object(decision: &Decision, id: &str) -> Value {
    serde_json::from_str(&decision.applied(id).unwrap().object).unwrap()
}

/// The site with its children in that state.
fn with(scene: Scene, ids: &[&str], state: ChildState) -> Scene {
    ids.iter().fold(scene, |scene, id| {
        scene.child_is(id, Kind::new("v1", "Any").named("shop"), state)
    })
}

#[test]
fn a_website_is_three_children_and_a_host_makes_a_fourth() {
    let decision = run(&site(hello())).0;
    assert_eq!(ids(&decision), [CONTENT, DEPLOYMENT, SERVICE]);
    let mut spec = hello();
    spec["host"] = json!("shop.example");
    let open = run(&site(spec)).0;
    assert_eq!(ids(&open), [CONTENT, DEPLOYMENT, SERVICE, INGRESS]);
    let rule = &object(&open, INGRESS)["spec"]["rules"][0];
    assert_eq!(rule["host"], "shop.example");
    let backend = &rule["http"]["paths"][0]["backend"]["service"];
    assert_eq!(backend, &json!({"name": "shop", "port": {"name": "http"}}));
}

#[test]
fn the_pods_come_after_the_content_and_the_ingress_after_the_service() {
    let mut spec = hello();
    spec["host"] = json!("shop.example");
    let decision = run(&site(spec)).0;
    let after: Vec<_> = decision
        .effects
        .iter()
        .map(|effect| effect.after.join(","))
        .collect();
    assert_eq!(after, ["", CONTENT, "", SERVICE]);
}

#[test]
fn the_parts_find_each_other() {
    let mut spec = hello();
    spec["port"] = json!(3000);
    let decision = run(&site(spec)).0;
    let [content, deployment, service] =
        [CONTENT, DEPLOYMENT, SERVICE].map(|id| object(&decision, id));
    assert_eq!(content["data"], json!({"index.html": "<h1>hello</h1>"}));
    let pods = &deployment["spec"]["template"];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(
        deployment["spec"]["selector"]["matchLabels"],
        pods["metadata"]["labels"]
    );
    assert_eq!(service["spec"]["selector"], pods["metadata"]["labels"]);
    let volume = &pods["spec"]["volumes"][0];
    assert_eq!(volume["configMap"]["name"], content["metadata"]["name"]);
    let container = &pods["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][0]["name"], volume["name"]);
    assert_eq!(container["ports"][0]["containerPort"], 3000);
    assert_eq!(
        container["ports"][0]["name"],
        service["spec"]["ports"][0]["targetPort"]
    );
}

#[test]
fn an_image_is_the_one_of_the_spec_or_of_the_mapping() {
    let image = |scene: &Scene| {
        let deployment = object(&run(scene).0, DEPLOYMENT);
        let containers = &deployment["spec"]["template"]["spec"]["containers"];
        containers[0]["image"].as_str().unwrap().to_owned()
    };
    assert!(image(&site(hello())).contains("nginx"));
    let config = json!({"image": "registry.example/web:1", "ingressClass": "edge"});
    assert_eq!(
        image(&site(hello()).config(&config)),
        "registry.example/web:1"
    );
    let spec = json!({"image": "own:2", "host": "h.example"});
    let own = site(spec).config(config);
    assert_eq!(image(&own), "own:2");
    let ingress = object(&run(&own).0, INGRESS);
    assert_eq!(ingress["spec"]["ingressClassName"], "edge");
}

#[test]
fn another_content_is_another_generation_of_pods_and_nothing_else_is() {
    let hash = |content: Value, replicas: i32| {
        let spec = json!({"content": content, "replicas": replicas});
        let deployment = object(&run(&site(spec)).0, DEPLOYMENT);
        deployment["spec"]["template"]["metadata"]["annotations"][CONTENT_HASH].clone()
    };
    let first = hash(json!({"a": "1", "b": "2"}), 1);
    assert_eq!(first, hash(json!({"b": "2", "a": "1"}), 3));
    let others = [
        json!({"a": "1"}),
        json!({"a": "1", "b": "3"}),
        json!({"a": "1", "c": "2"}),
    ];
    for other in others {
        assert_ne!(first, hash(other.clone(), 1), "{other}");
    }
}

#[test]
fn the_children_make_the_phase() {
    use ChildState::{Absent, Current, Failed, InProgress, Terminating};
    let three = [CONTENT, DEPLOYMENT, SERVICE];
    let but = |state: ChildState| {
        let scene = with(site(hello()), &[CONTENT, SERVICE], Current);
        with(scene, &[DEPLOYMENT], state)
    };
    let cases = [
        (
            "none yet",
            site(hello()),
            Phase::Progressing,
            Some("content: not made yet"),
        ),
        (
            "all",
            with(site(hello()), &three, Current),
            Phase::Ready,
            None,
        ),
        (
            "absent",
            but(Absent),
            Phase::Progressing,
            Some("deployment: not ready yet"),
        ),
        (
            "on its way",
            but(InProgress),
            Phase::Progressing,
            Some("deployment: not ready yet"),
        ),
        (
            "going",
            but(Terminating),
            Phase::Progressing,
            Some("deployment: not ready yet"),
        ),
        (
            "failed",
            but(Failed),
            Phase::Failed,
            Some("deployment: not ready yet"),
        ),
        (
            "a host whose ingress is missing",
            with(site(json!({"host": "a.example"})), &three, Current),
            Phase::Progressing,
            Some("ingress: not made yet"),
        ),
        (
            "an ingress that goes is no part of it",
            with(
                with(site(hello()), &three, Current),
                &[INGRESS],
                Terminating,
            ),
            Phase::Ready,
            None,
        ),
    ];
    for (name, scene, phase, message) in cases {
        let status = run(&scene).1;
        assert_eq!(
            (status.phase, status.message.as_deref()),
            (phase, message),
            "{name}"
        );
    }
}

#[test]
fn a_child_says_itself_why_it_is_not_ready() {
    let mut scene = with(
        site(hello()),
        &[CONTENT, DEPLOYMENT, SERVICE],
        ChildState::Current,
    );
    let child = &mut scene.raw().children[1];
    (child.state, child.message) = (ChildState::InProgress, "1 of 2 pods are ready".into());
    let said = |scene: &Scene| run(scene).1.message.unwrap();
    assert_eq!(said(&scene), "deployment: 1 of 2 pods are ready");
    let child = &mut scene.raw().children[1];
    child.state = ChildState::Current;
    child.error = Some(Cause::new("Forbidden", "exceeded quota"));
    assert_eq!(
        said(&scene),
        "deployment: exceeded quota",
        "as before, not as asked for"
    );
    assert_eq!(run(&scene).1.phase, Phase::Progressing);
}

#[test]
fn ready_pods_are_those_of_its_own_deployment() {
    let deployment = |uid: &str| json!({"metadata": {"name": "shop", "uid": uid}, "status": {"readyReplicas": 2, "replicas": 3}});
    let ours = || with(site(hello()), &[DEPLOYMENT], ChildState::InProgress);
    let nothing: [Value; 0] = [];
    let fresh = json!({"metadata": {"name": "shop", "uid": "deployment-uid"}});
    let cases = [
        (
            "ours",
            ours().found(PODS, [deployment("deployment-uid")]),
            2,
        ),
        ("ours, without status", ours().found(PODS, [fresh]), 0),
        (
            "somebody else's",
            ours().found(PODS, [deployment("another")]),
            0,
        ),
        (
            "not made by us",
            site(hello()).found(PODS, [deployment("another")]),
            0,
        ),
        ("gone", ours().found(PODS, nothing), 0),
        (
            "not to be read",
            ours().unavailable(PODS, "Denied", "not granted"),
            0,
        ),
        ("not asked for", ours(), 0),
    ];
    for (name, scene, wanted) in cases {
        let (decision, status) = run(&scene);
        assert_eq!(status.ready_replicas, wanted, "{name}");
        let Source::Object(named) = &decision.needs[0].source else {
            panic!("{:?}", decision.needs)
        };
        assert_eq!(named.name, "shop", "{name}: it is watched, there or not");
    }
}

#[test]
fn an_address_is_the_host_or_the_one_in_the_cluster() {
    let url = |spec: Value| run(&site(spec)).1.url.unwrap();
    assert_eq!(url(json!({})), "http://shop.acme.svc");
    assert_eq!(url(json!({"host": "shop.example"})), "http://shop.example");
}

#[test]
fn a_file_that_no_config_map_can_hold_is_refused_by_its_name() {
    for name in ["css/site.css", "", "..", "ä.html", "."] {
        let scene = site(json!({"content": {name: "x"}}));
        let failure = decide::<Website>(&scene).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Terminal);
        assert_eq!(failure.cause.reason, "InvalidContent");
        assert!(failure.cause.message.contains(&format!("{name:?}")));
    }
    run(&site(
        json!({"content": {"index.html": "", "a_b-c.1": "", ".hidden": ""}}),
    ));
}

#[test]
fn a_childs_name_is_a_label_that_no_other_website_has() {
    let long = "a".repeat(253);
    let almost = format!("{}b", "a".repeat(252));
    let names = [
        "shop",
        "shop.example",
        "shop-example",
        "1shop",
        "web-1shop",
        &long,
        &almost,
        "a.-",
        "0",
    ];
    let mut made = BTreeSet::new();
    for name in names {
        let child = child_name(name);
        assert!(child.len() <= 46 && !child.ends_with('-'), "{child}");
        assert!(
            child.starts_with(|c: char| c.is_ascii_lowercase()),
            "{child}"
        );
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(child.chars().all(fits), "{child}");
        assert!(
            made.insert(child.clone()),
            "{name} shares {child} with another"
        );
    }
    assert_eq!(child_name("shop"), "shop");
    let exact = "a".repeat(46);
    assert_eq!(child_name(&exact), exact);
    assert!(child_name("shop.example").starts_with("shop-example-"));
}
