use super::*;

const GOOD: &str = "
for: {apiVersion: batch.acme.io/v1, kind: ReportJob}
plugin: {file: /plugins/report-job.wasm}
config: {exporter: 'http://127.0.0.1:9', big: 9007199254740993}
grants: {http: [{host: '127.0.0.1:*', methods: [PUT]}]}
serviceAccount: report-jobs
queue: {priority: .spec.priority, notBefore: .spec.notBefore}
retry: {base: 1s, max: 5m, limit: 5}
resync: 10h
concurrency: 16
limits: {memory: 64Mi, time: 1s}
";

fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "the good mapping has {from}");
    CheckedMapping::parse("m", &GOOD.replace(from, to), "ns")
        .unwrap_err()
        .to_string()
}

#[test]
fn a_mapping_reads_and_its_integers_stay_exact() {
    let mapping = CheckedMapping::parse("report-jobs", GOOD, "guesthouse-system").unwrap();
    assert!(
        mapping.config.as_str().contains("9007199254740993"),
        "{:?}",
        mapping.config
    );
    assert_eq!(mapping.account.namespace(), "guesthouse-system");
    assert_eq!(
        mapping.mapping.plugin,
        PluginSource::file("/plugins/report-job.wasm")
    );
}

#[test]
fn what_is_wrong_is_named_with_what_to_write() {
    for (from, to, expected) in [
        ("resync: 10h", "resinc: 10h", "unknown field `resinc`"),
        ("resync: 10h", "resync: 10", "10"),
        ("resync: 10h", "resync: 10ms", "at least 1s"),
        ("concurrency: 16", "concurrency: 0", "from 1 to 1024"),
        (
            "{file: /plugins/report-job.wasm}",
            "{ocl: x}",
            "unknown field `ocl`, expected one of file, configMap",
        ),
        (
            "serviceAccount: report-jobs",
            "serviceAccount: ''",
            "serviceAccount",
        ),
        ("serviceAccount: report-jobs\n", "", "serviceAccount"),
        (".spec.priority", "spec.priority", "queue.priority"),
        ("time: 1s", "time: 1 s", "length of time"),
        ("methods: [PUT]", "methods: []", "grants.http[0]"),
        ("limit: 5", "limit: 0", "retry.limit"),
        (
            "resync: 10h",
            "rollout: {rehearse: 1001}",
            "rollout.rehearse",
        ),
        (
            "resync: 10h",
            "rollout: {onDifference: ask}",
            "unknown variant `ask`, expected one of report, hold",
        ),
        (
            "resync: 10h",
            "rollout: {returnAfter: {percent: 101}}",
            "rollout.returnAfter.percent",
        ),
        (
            "resync: 10h",
            "rollout: {returnAfter: {within: 0s}}",
            "rollout.returnAfter.within",
        ),
        ("time: 1s", "time: 99999h", "limits.time"),
        ("memory: 64Mi", "memory: 0", "limits.memory"),
        ("memory: 64Mi", "memory: 999Gi", "limits.memory"),
        (
            "serviceAccount: report-jobs",
            "serviceAccount: 'A B/..'",
            "serviceAccount",
        ),
        (
            "kind: ReportJob}",
            "kind: ReportJob, namespaces: ['']}",
            "for.namespaces",
        ),
        (
            "kind: ReportJob}",
            "kind: ReportJob, namespaces: ['A/B']}",
            "for.namespaces",
        ),
        (
            "apiVersion: batch.acme.io/v1",
            "apiVersion: ../../etc",
            "for.apiVersion",
        ),
        (
            "apiVersion: batch.acme.io/v1",
            "apiVersion: a.b/v1/x",
            "for.apiVersion",
        ),
        (
            "batch.acme.io/v1, kind: ReportJob",
            "events.k8s.io/v1, kind: Event",
            "written by the host itself",
        ),
        (
            "batch.acme.io/v1, kind: ReportJob",
            "guesthouse.dev/v1alpha1, kind: Journal",
            "written by the host itself",
        ),
        (
            "{file: /plugins/report-job.wasm}",
            "{file: ''}",
            "plugin.file",
        ),
        (
            "{file: /plugins/report-job.wasm}",
            "{configMap: {name: 'a,b', key: k}}",
            "plugin.configMap",
        ),
        ("base: 1s", "base: 10m", "base must be"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn an_error_in_the_text_names_line_and_valid_fields() {
    let error = refused("resync: 10h", "resinc: 10h");
    assert!(
        error.contains("line") && error.contains("serviceAccount") && !error.contains('\n'),
        "{error}"
    );
}

#[test]
fn a_mapping_is_named_as_its_key_without_yaml() {
    assert_eq!(
        name_of_key("report-jobs.yaml").unwrap().unwrap(),
        "report-jobs"
    );
    assert!(name_of_key("README.md").is_none());
    for key in ["Report.yaml", "-a.yaml", ".yaml", "a.b.yaml"] {
        assert!(name_of_key(key).unwrap().is_err(), "{key}");
    }
}

#[test]
fn the_basis_changes_with_what_a_decision_depends_on_and_with_nothing_else() {
    let basis = |text: &str| CheckedMapping::parse("m", text, "ns").unwrap().basis;
    assert_eq!(
        basis(GOOD),
        basis(
            &GOOD
                .replace("resync: 10h", "resync: 1h")
                .replace("concurrency: 16", "concurrency: 1")
        )
    );
    assert_ne!(basis(GOOD), basis(&GOOD.replace("[PUT]", "[POST]")));
    assert_ne!(
        basis(GOOD),
        basis(&GOOD.replace("127.0.0.1:9'", "127.0.0.1:8'"))
    );
}

/// It is what a restart begins from.
#[test]
fn a_mapping_on_record_reads_as_the_mapping_that_was_written() {
    let mapping = CheckedMapping::parse("m", GOOD, "ns").unwrap();
    let record = serde_json::to_string(&mapping.mapping).unwrap();
    let read = CheckedMapping::parse("m", &record, "ns").unwrap();
    assert_eq!(read.mapping, mapping.mapping, "{record}");
    assert_eq!(read.basis, mapping.basis);
}

/// A reference that cannot be read is worse than none.
#[test]
fn every_mapping_in_the_reference_reads_and_the_first_names_every_field() {
    let text = include_str!("../../../../docs/mapping.md");
    let blocks: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() >= 2);
    for block in &blocks {
        CheckedMapping::parse("m", block, "ns").unwrap();
    }
    let schema = schemars::schema_for!(Mapping).to_value();
    let properties = |value: &serde_json::Value| -> Vec<String> {
        let map = value["properties"].as_object();
        map.into_iter()
            .flat_map(|map| map.keys().cloned())
            .collect()
    };
    let mut fields = properties(&schema);
    for (_, definition) in schema["$defs"].as_object().unwrap() {
        fields.extend(properties(definition));
    }
    let missing: Vec<_> = fields
        .iter()
        .filter(|field| !blocks[0].contains(&format!("{field}:")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/mapping.md does not name {missing:?}"
    );
}
