//! What the exporter remembers, without any I/O: records by idempotency key, reports, counts, and the failures it was told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A failure that the exporter was told to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    /// In which way.
    pub mode: Mode,
    /// For how many requests; `None`: until told otherwise.
    #[serde(default)]
    pub times: Option<u64>,
    /// Only for the report of this id.
    #[serde(default)]
    pub report: Option<String>,
    /// Seconds for a `Retry-After` header, with an answer that has one.
    #[serde(default)]
    pub retry_after: Option<u32>,
}

impl Fail {
    /// That way, for every request.
    pub fn always(mode: Mode) -> Fail {
        Fail {
            mode,
            times: None,
            report: None,
            retry_after: None,
        }
    }

    /// That way, so many times.
    pub fn times(mode: Mode, times: u64) -> Fail {
        Fail {
            times: Some(times),
            ..Fail::always(mode)
        }
    }

    /// Only for the report of this id.
    pub fn only(mut self, report: impl Into<String>) -> Fail {
        self.report = Some(report.into());
        self
    }
}

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Answers 500.
    Http500,
    /// Answers 429.
    Http429,
    /// Answers 422: a definite no.
    Http422,
    /// Reads the request and closes the connection; nothing is made.
    Close,
    /// Makes the report and closes the connection: the answer is lost.
    Lost,
    /// Never answers; nothing is made.
    Hang,
    /// As good as not there: every connection is closed without an answer. It stands before all other failures.
    Down,
    /// No failure: forgets all that were told before.
    None,
}

/// What the exporter counted. An attempt is every `PUT` that arrived, failed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Reports made for the first time.
    pub made: u64,
    /// Requests answered from the record of their key.
    pub repeats: u64,
    /// Reports made again under another key: what must never happen.
    pub duplicates: u64,
    /// Requests that failed as told.
    pub failed: u64,
    /// Requests being worked on now.
    pub in_flight: u64,
    /// When each report was asked for, in milliseconds since 1970.
    pub attempts: BTreeMap<String, Vec<u64>>,
}

/// A report that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its id.
    pub id: String,
    /// The idempotency key it was made under.
    pub key: String,
    /// What was asked for.
    pub body: String,
}

/// What becomes of a `PUT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Made now, or made before under the same key with the same body: the same answer.
    Made,
    /// The key was used for something else.
    KeyReused,
}

/// The exporter's memory.
#[derive(Debug, Default)]
pub(crate) struct Book {
    by_key: BTreeMap<String, (String, Vec<u8>)>,
    reports: BTreeMap<String, Report>,
    fails: Vec<Fail>,
    /// Milliseconds before each answer.
    pub(crate) delay: u64,
    stats: Stats,
}

impl Book {
    /// A request for that report has arrived: counts it, and says how it is to fail, if at all.
    pub(crate) fn arrive(&mut self, id: &str, now: u64) -> Option<Fail> {
        self.stats.attempts.entry(id.into()).or_default().push(now);
        self.stats.in_flight += 1;
        let fits = |fail: &Fail| {
            fail.times != Some(0) && fail.report.as_deref().is_none_or(|only| only == id)
        };
        let down = self
            .fails
            .iter()
            .position(|fail| fail.mode == Mode::Down && fits(fail));
        let at = down.or_else(|| self.fails.iter().position(fits))?;
        let fail = &mut self.fails[at];
        if let Some(times) = &mut fail.times {
            *times -= 1;
        }
        self.stats.failed += 1;
        Some(fail.clone())
    }

    /// A request that had arrived is over, answered or not.
    pub(crate) fn leave(&mut self) {
        self.stats.in_flight -= 1;
    }

    /// Makes the report, once for each key.
    pub(crate) fn put(&mut self, id: &str, key: &str, body: &[u8]) -> Put {
        if let Some((made, asked)) = self.by_key.get(key) {
            if made != id || asked != body {
                return Put::KeyReused;
            }
            self.stats.repeats += 1;
            return Put::Made;
        }
        self.by_key.insert(key.into(), (id.into(), body.into()));
        let report = Report {
            id: id.into(),
            key: key.into(),
            body: String::from_utf8_lossy(body).into_owned(),
        };
        match self.reports.insert(id.into(), report) {
            None => self.stats.made += 1,
            Some(_) => self.stats.duplicates += 1,
        }
        Put::Made
    }

    /// Fails that way from now on, after what was told before; `None` forgets all.
    pub(crate) fn fail(&mut self, fail: Fail) {
        if fail.mode == Mode::None {
            self.fails.clear();
        } else {
            self.fails.push(fail);
        }
    }

    /// What was counted so far.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The reports made, by id.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_is_answered_from_its_record_and_another_key_is_a_duplicate() {
        let mut book = Book::default();
        assert_eq!(book.put("a", "k1", b"x"), Put::Made);
        assert_eq!(book.put("a", "k1", b"x"), Put::Made);
        assert_eq!(book.put("a", "k1", b"y"), Put::KeyReused);
        assert_eq!(book.put("b", "k1", b"x"), Put::KeyReused);
        assert_eq!(book.put("a", "k2", b"x"), Put::Made);
        let stats = book.stats();
        assert_eq!((stats.made, stats.repeats, stats.duplicates), (1, 1, 1));
        assert_eq!(book.reports().count(), 1);
    }

    #[test]
    fn failures_are_shown_in_turn_so_many_times_and_only_for_their_report() {
        let mut book = Book::default();
        book.fail(Fail::times(Mode::Http500, 1));
        book.fail(Fail::always(Mode::Http422).only("b"));
        book.fail(Fail::times(Mode::Down, 1).only("c"));
        let mut modes = |id: &str| book.arrive(id, 0).map(|fail| fail.mode);
        assert_eq!(modes("c"), Some(Mode::Down), "down stands before all");
        assert_eq!(modes("b"), Some(Mode::Http500));
        assert_eq!(modes("a"), None);
        assert_eq!(modes("b"), Some(Mode::Http422));
        assert_eq!(modes("b"), Some(Mode::Http422));
        book.fail(Fail::always(Mode::None));
        assert_eq!(book.arrive("b", 0), None);
        assert_eq!((book.stats().failed, book.stats().in_flight), (4, 6));
    }
}
