//! `batch.acme.io/v1 ReportJob`: a report that is exported once.
//!
//! The export is one http effect, `export`, which the host sends under a key that stays the same over retries and restarts.
//! What became of it decides the phase: `Pending` until there is a definite answer, then `Done` or `Failed` for good. Priority
//! and `notBefore` are the queue's business (the mapping's `queue`); the plugin does not look at them.

mod types;

pub use types::{Config, Phase, ReportJobSpec, ReportJobStatus};

use guesthouse_sdk::contract::{FailedSend, Response};
use guesthouse_sdk::prelude::*;

/// The label that mirrors the phase.
pub const PHASE_LABEL: &str = "workqueue.acme.io/phase";
/// The id of the export's effect.
pub const EXPORT: &str = "export";
/// How often an export is tried before the job fails.
pub const ATTEMPTS: u32 = 5;

/// The plugin.
pub struct ReportJob;

impl Reconciler for ReportJob {
    type Spec = ReportJobSpec;
    type Status = ReportJobStatus;
    type Config = Config;

    fn describe() -> Plugin {
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .serves(crd())
            // The host stands for the one in the mapping's config.
            .grants(&json!({"http": [{"host": "exporter.example", "methods": ["PUT"], "path": "/reports/"}]}))
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<ReportJobStatus>, Failure> {
        let before = seen.status().cloned().unwrap_or_default();
        let decision = match seen.last_receipt(EXPORT) {
            // For good, whatever the spec says now: a terminal job is never exported again.
            _ if before.phase != Phase::Pending => mirrored(seen, Decision::new(), before),
            // An answer counts also if the spec was changed while it was on its way: the report is made.
            Receipt::Answered(answer) if answer.is_success() => done(seen, before, answer),
            Receipt::Answered(answer) => failed(seen, before, rejection(answer)),
            Receipt::Unknown => failed(seen, before, "the answer of the exporter was lost".into()),
            Receipt::Failed(_) | Receipt::Unsent => pending(seen, before),
        };
        Ok(decision)
    }
}

guesthouse_sdk::export!(ReportJob);

/// The kind's definition.
pub fn crd() -> Crd {
    Crd::of::<ReportJob>("batch.acme.io/v1", "ReportJob")
        .with_conditions()
        .status_default(json!({"phase": "Pending", "observedGeneration": -1}))
        .selectable(".status.phase")
        .column("Report", "string", ".spec.report")
        .column("Phase", "string", ".status.phase")
        .column("Retries", "integer", ".status.retries")
        .ready_column()
        .wide_column("Message", "string", ".status.message")
        .age_column()
}

/// Not answered yet: asked for until there were enough attempts. Another spec is another wish, with attempts of its own.
fn pending(seen: &Observation<ReportJob>, before: ReportJobStatus) -> Decision<ReportJobStatus> {
    let status = match seen.receipt_for(EXPORT, &key(seen)) {
        Receipt::Failed(send) => {
            let retries = i64::from(send.attempts);
            if send.attempts >= ATTEMPTS {
                return failed(seen, ReportJobStatus { retries, ..before }, cause(send));
            }
            ReportJobStatus {
                retries,
                message: Some(cause(send)),
                ..before
            }
        }
        _ => before,
    };
    mirrored(seen, Decision::new().http(export(seen)), status)
}

/// What makes one wish another: all that the request is made of beside the object's name, so that a corrected address or a
/// changed spec is asked for anew. Short, since it stands in every receipt.
fn key(seen: &Observation<ReportJob>) -> String {
    let spec = seen.spec();
    // FNV-1a over the parts, each ended by a byte that no text holds.
    let parts = [&seen.config().exporter, &spec.report, &spec.format];
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// The request that makes the report. All it says comes from name, spec and config, so it is the same in every attempt.
fn export(seen: &Observation<ReportJob>) -> Http {
    #[derive(Serialize)]
    struct Body<'a> {
        report: &'a str,
        format: &'a str,
        namespace: &'a str,
        name: &'a str,
    }
    let (namespace, name) = (seen.namespace().unwrap_or_default(), seen.name());
    let exporter = seen.config().exporter.trim_end_matches('/');
    let mut url = [exporter, "/reports/"].concat();
    escape(&mut url, namespace);
    url.push('.');
    escape(&mut url, name);
    Http::put(EXPORT, url).key(key(seen)).json(&Body {
        report: &seen.spec().report,
        format: &seen.spec().format,
        namespace,
        name,
    })
}

/// Percent-encodes all that is not unreserved (RFC 3986, 2.3).
fn escape(url: &mut String, part: &str) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            url.push('%');
            url.push(char::from(HEX[usize::from(byte >> 4)]));
            url.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

fn done(
    seen: &Observation<ReportJob>,
    before: ReportJobStatus,
    answer: &Response,
) -> Decision<ReportJobStatus> {
    #[derive(Deserialize)]
    struct Made {
        url: String,
    }
    let url = answer
        .json::<Made>()
        .map(|made| made.url)
        .or_else(|| answer.header("location").map(String::from));
    let note = [
        "exported",
        url.as_deref().map_or("", |_| " to "),
        url.as_deref().unwrap_or_default(),
    ]
    .concat();
    let status = ReportJobStatus {
        phase: Phase::Done,
        url,
        message: None,
        ..before
    };
    mirrored(seen, Decision::new().event("Exported", note), status)
}

fn failed(
    seen: &Observation<ReportJob>,
    before: ReportJobStatus,
    cause: String,
) -> Decision<ReportJobStatus> {
    let decision = Decision::new().warning("ExportFailed", cause.as_str());
    mirrored(
        seen,
        decision,
        ReportJobStatus {
            phase: Phase::Failed,
            message: Some(cause),
            ..before
        },
    )
}

/// With that status, and with the label that mirrors its phase where the object's differs.
fn mirrored(
    seen: &Observation<ReportJob>,
    decision: Decision<ReportJobStatus>,
    status: ReportJobStatus,
) -> Decision<ReportJobStatus> {
    let label = status.phase.label();
    let decision = match &status.message {
        Some(why) if status.phase == Phase::Failed => {
            decision.condition("Ready", false, "ExportFailed", why.as_str())
        }
        _ => decision,
    };
    let decision = decision.status(status);
    if seen.label(PHASE_LABEL).as_deref() == Some(label) {
        decision
    } else {
        decision.label(PHASE_LABEL, label)
    }
}

/// Why the last attempt had no definite answer. No counter: each new text would be a write.
fn cause(send: &FailedSend) -> String {
    [send.error.reason.as_str(), ": ", &send.error.message].concat()
}

/// What the exporter said against it, cut at 512 bytes.
fn rejection(answer: &Response) -> String {
    let said = answer.text().unwrap_or_default().trim();
    let mut end = said.len().min(512);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    let code = answer.code.to_string();
    [
        "the exporter answered ",
        &code,
        if end > 0 { ": " } else { "" },
        &said[..end],
    ]
    .concat()
}
