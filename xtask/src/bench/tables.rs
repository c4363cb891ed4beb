//! Measurements, their medians, and the tables made of them.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// kube's Controller as it comes: without bound.
pub(crate) const NATIVE: &str = "native";
/// The same with 32 reconciles at once.
pub(crate) const NATIVE_32: &str = "native, 32 at once";
/// Ours.
pub(crate) const HOST: &str = "guesthouse";

/// Ours with a hundred mappings.
pub(crate) const HOST_OF_MANY: &str = "guesthouse, 100 mappings";

/// The conformance guests.
pub(crate) const LANGUAGES: [(&str, &str); 5] = [
    ("Rust", "conformance_rust.wasm"),
    ("C", "conformance_c.wasm"),
    ("JavaScript", "conformance_js.wasm"),
    ("Go", "conformance_go.wasm"),
    ("Python", "conformance_python.wasm"),
];

const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// All measurements of a run.
pub(crate) struct Results {
    lines: Vec<Value>,
    file: File,
}

impl Results {
    /// Also written to `path`, each when it arrives.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self {
            lines: Vec::new(),
            file,
        })
    }

    /// Takes a line of the load program and shows it.
    pub(crate) fn take(&mut self, text: &str) -> Result<()> {
        let text = text.trim();
        let line: Value = serde_json::from_str(text).with_context(|| format!("read `{text}`"))?;
        writeln!(self.file, "{text}").context("write a result")?;
        println!("{}", shown(&line));
        if line["child_cpu_s"].as_f64().unwrap_or(0.0) > 0.0 {
            eprintln!(
                "note: a child of {} used CPU; was the plugin compiled within the measurement?",
                line["name"]
            );
        }
        self.lines.push(line);
        Ok(())
    }

    /// The values of a column in one test of one competitor.
    fn values(&self, test: &str, name: &str, column: &str) -> Vec<f64> {
        let chosen = self
            .lines
            .iter()
            .filter(|line| line["test"] == test && line["name"] == name);
        chosen.filter_map(|line| line[column].as_f64()).collect()
    }

    fn median(&self, test: &str, name: &str, column: &str) -> Option<f64> {
        median(self.values(test, name, column))
    }

    fn has(&self, test: &str) -> bool {
        self.lines.iter().any(|line| line["test"] == test)
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 {
        upper
    } else {
        (values.get(middle - 1)? + upper) / 2.0
    })
}

/// One measurement in one line.
fn shown(line: &Value) -> String {
    let mut text = format!("{:<8}{:<20}", word(&line["test"]), word(&line["name"]));
    for (column, unit) in [
        ("objects_per_s", "objects/s"),
        ("p50_ms", "ms p50"),
        ("p99_ms", "ms p99"),
        ("cpu_ms_per_object", "CPU ms/object"),
        ("cpu_s", "CPU s"),
        ("rss_mb", "MB"),
        ("all_us", "µs a call"),
        ("all_p99_us", "µs p99"),
        ("strangers", "cores of others"),
    ] {
        if let Some(value) = line[column].as_f64() {
            let _ = write!(text, " {} {unit}", number(value));
        }
    }
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Three digits that say something.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Column, heading.
type Columns<'a> = &'a [(&'a str, &'a str)];

const DRAIN: Columns<'_> = &[
    ("objects_per_s", "objects/s"),
    ("cpu_ms_per_object", "CPU ms/object"),
    ("peak_rss_mb", "peak RSS MB"),
    ("server_cpu_s", "API server CPU s"),
    ("first_done_s", "first done s"),
    ("writes_per_object", "writes/object"),
];
const START: Columns<'_> = &[
    ("first_done_s", "first object done s"),
    ("seconds", "all 100 done s"),
    ("cpu_s", "CPU s"),
    ("peak_rss_mb", "peak RSS MB"),
];
const LATENCY: Columns<'_> = &[
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("max_ms", "max ms"),
    ("both_p50_ms", "p50 ms to both writes"),
    ("both_p99_ms", "p99 ms to both writes"),
    ("cpu_ms_per_object", "CPU ms/object"),
    ("writes_per_object", "writes/object"),
];
const IDLE: Columns<'_> = &[
    ("rss_mb", "RSS MB"),
    ("anon_mb", "of it anonymous"),
    ("peak_rss_mb", "peak RSS MB"),
    ("cpu_s", "CPU s to rest"),
];

/// The tables, as Markdown.
pub(crate) fn report(results: &Results) -> String {
    let mut text = String::new();
    if results.has("drain") {
        let _ = writeln!(
            text,
            "### Drain: {} objects exist, the controller starts\n",
            objects(results, "drain")
        );
        compare(
            &mut text,
            results,
            "drain",
            &[NATIVE, NATIVE_32, HOST],
            DRAIN,
        );
    }
    if results.has("latency") {
        let _ = writeln!(
            text,
            "### Latency: {} objects created at a steady rate, creation answered to `Done` seen\n",
            objects(results, "latency")
        );
        compare(&mut text, results, "latency", &[NATIVE, HOST], LATENCY);
    }
    if !results.values("drain", HOST_OF_MANY, "cpu_s").is_empty() {
        text.push_str("### Start: 100 mappings with plugins of their own, compiled code in the cache, an object each\n\n");
        compare(&mut text, results, "drain", &[HOST_OF_MANY], START);
    }
    if results.has("idle") {
        let _ = writeln!(
            text,
            "### Idle: {} settled objects of 3.3 KB\n",
            objects(results, "idle")
        );
        compare(&mut text, results, "idle", &[NATIVE, HOST], IDLE);
    }
    if results.has("call") {
        calls(&mut text, results);
    }
    goals(&mut text, results);
    text.trim_end().to_owned() + "\n"
}

fn objects(results: &Results, test: &str) -> String {
    let line = results.lines.iter().find(|line| line["test"] == test);
    line.map_or_else(String::new, |line| line["objects"].to_string())
}

/// One row for each competitor, then the host in relation to the others.
fn compare(text: &mut String, results: &Results, test: &str, names: &[&str], columns: Columns<'_>) {
    let headings: Vec<&str> = columns.iter().map(|(_, heading)| *heading).collect();
    let _ = writeln!(text, "| | runs | {} | others |", headings.join(" | "));
    let _ = writeln!(text, "|---|---|{}---|", "---|".repeat(columns.len()));
    for name in names {
        let runs = results.values(test, name, "cpu_s").len();
        let _ = write!(text, "| {name} | {runs} |");
        for (column, _) in columns {
            let value = results.median(test, name, column);
            let _ = write!(text, " {} |", value.map_or_else(String::new, number));
        }
        let others = results.values(test, name, "strangers");
        let most = others.into_iter().fold(0.0, f64::max);
        let _ = writeln!(text, " {most:.2} |");
    }
    let ours = [HOST, HOST_OF_MANY];
    for name in names.iter().filter(|name| !ours.contains(name)) {
        let _ = write!(text, "| *{HOST} / {name}* | |");
        for (column, _) in columns {
            let ratio = ratio(results, test, name, column);
            let _ = write!(
                text,
                " {} |",
                ratio.map_or_else(String::new, |r| format!("*{r:.2}*"))
            );
        }
        let _ = writeln!(text, " |");
    }
    text.push('\n');
}

fn ratio(results: &Results, test: &str, name: &str, column: &str) -> Option<f64> {
    let host = results.median(test, HOST, column)?;
    let other = results.median(test, name, column)?;
    (other > 0.0).then_some(host / other)
}

fn calls(text: &mut String, results: &Results) {
    text.push_str(
        "### A plugin's call alone: fresh instance, call, drop, on an object of 2 KB\n\n",
    );
    call_table(text, results, &["report-job", "peer-plugin"]);
    text.push_str(
        "### The same in each language: a status of six members for an object of half a kilobyte\n\n",
    );
    call_table(text, results, &LANGUAGES.map(|(language, _)| language));
}

fn call_table(text: &mut String, results: &Results, names: &[&str]) {
    text.push_str("| plugin | open µs | call µs | drop µs | all µs | all, p99 µs | plugin KB | load, compiled anew ms |\n|---|---|---|---|---|---|---|---|\n");
    for name in names {
        let _ = write!(text, "| {name} |");
        for column in ["open_us", "call_us", "drop_us", "all_us", "all_p99_us"] {
            let value = results.median("call", name, column);
            let _ = write!(text, " {} |", value.map_or_else(String::new, number));
        }
        let bytes = results.median("call", name, "plugin_bytes");
        let load = results.median("call", name, "load_ms");
        let _ = writeln!(
            text,
            " {} | {} |",
            bytes.map_or_else(String::new, |b| number(b / 1e3)),
            load.map_or_else(String::new, number)
        );
    }
    text.push('\n');
}

/// What the figures are held against.
fn goals(text: &mut String, results: &Results) {
    let mut rows = Vec::new();
    for (test, name, what) in [
        ("drain", NATIVE, "CPU per object in a drain, against native"),
        (
            "drain",
            NATIVE_32,
            "CPU per object in a drain, against native with 32 at once",
        ),
        (
            "latency",
            NATIVE,
            "CPU per object at a steady rate, against native",
        ),
    ] {
        if let Some(ratio) = ratio(results, test, name, "cpu_ms_per_object") {
            rows.push((what, 1.5, ratio, "×"));
        }
    }
    if let Some(rss) = results.median("idle", HOST, "rss_mb") {
        rows.push(("RSS over settled objects", 120.0, rss, " MB"));
    }
    if let Some(call) = results.median("call", "report-job", "all_us") {
        rows.push(("call of a typed Rust plugin", 40.0, call, " µs"));
    }
    text.push_str("| goal | at most | measured | |\n|---|---|---|---|\n");
    for (what, most, value, unit) in rows {
        let verdict = if value <= most { "met" } else { "**missed**" };
        let _ = writeln!(
            text,
            "| {what} | {most}{unit} | {}{unit} | {verdict} |",
            number(value)
        );
    }
}

/// Replaces what stands between the markers.
pub(crate) fn write(path: &Path, environment: &str, report: &str) -> Result<()> {
    let shown = path.display();
    let old = std::fs::read_to_string(path).with_context(|| format!("read {shown}"))?;
    let new = replaced(&old, &format!("{environment}\n\n{report}"))
        .with_context(|| format!("{shown} has no `{BEGIN}` before a `{END}`"))?;
    std::fs::write(path, new).with_context(|| format!("write {shown}"))?;
    if !old.ends_with('\n') {
        bail!("{shown} does not end with a newline");
    }
    Ok(())
}

fn replaced(text: &str, part: &str) -> Option<String> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some([&text[..begin], "\n", part, &text[end..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(lines: &[Value]) -> Results {
        let file = tempfile();
        Results {
            lines: lines.to_vec(),
            file,
        }
    }

    fn tempfile() -> File {
        File::options().write(true).open("/dev/null").unwrap()
    }

    #[test]
    fn a_ratio_is_of_medians_and_decides_the_goal() {
        let line = |name: &str, cpu: f64| serde_json::json!({"test": "drain", "name": name, "objects": 10, "cpu_s": 1.0, "cpu_ms_per_object": cpu, "strangers": 0.1});
        let results = results(&[
            line(NATIVE, 1.0),
            line(NATIVE, 9.0),
            line(NATIVE, 2.0),
            line(HOST, 2.5),
            line(HOST, 3.0),
            line(HOST, 3.5),
        ]);
        let text = report(&results);
        assert!(
            text.contains("| *guesthouse / native* | |  | *1.50* |"),
            "{text}"
        );
        assert!(text.contains("| 1.5× | 1.50× | met |"), "{text}");
        assert!(text.contains("10 objects exist"), "{text}");
    }

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(replaced("no markers", "new"), None);
    }
}
