//! What a guest says: log lines and its standard streams, line by line, within a budget. Saying too much is never an error;
//! what is over the budget is counted and dropped. The end of stderr is kept apart, for the text of a panic must reach the
//! user whatever was printed before.

use std::collections::VecDeque;

use guesthouse_core::contract::cut;

use crate::meter::Stop;

/// How urgent a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the plugin's author.
    Debug,
    /// Also all that is written to the standard streams.
    Info,
    /// Somebody may want to look.
    Warn,
    /// Something is wrong.
    Error,
}

/// One line that a guest said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How urgent.
    pub level: Level,
    /// At most 4 KiB.
    pub message: String,
}

/// Longest line kept, bytes.
const MAX_LINE: usize = 4096;
/// What a line costs beside its text, bytes.
const LINE_COST: usize = 16;
/// Lines kept for a panic's text.
const LAST_LINES: usize = 8;
/// Bytes of each that are kept.
const LAST_LINE: usize = 400;

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// All that a guest said in one call.
pub(crate) struct Output {
    budget: usize,
    lines: Vec<LogLine>,
    dropped: u64,
    out: Partial,
    err: Partial,
    last: VecDeque<String>,
    /// The last lines begin with a panic's own first line: what follows is kept instead of what came before.
    panicking: bool,
    /// A Go panic's own text is over; the stacks of its goroutines follow.
    stacks: bool,
    /// What a command wrote to its standard output.
    reply: Option<Captured>,
    /// A Python traceback came by: its last line names the exception, and the panic of the runtime around it does not.
    traceback: bool,
}

/// A reply in the making.
struct Captured {
    bytes: Vec<u8>,
    limit: usize,
}

/// A line that has not ended yet.
#[derive(Default)]
struct Partial {
    bytes: Vec<u8>,
    open: bool,
}

impl Output {
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget: usize::try_from(budget).unwrap_or(usize::MAX),
            lines: Vec::new(),
            dropped: 0,
            out: Partial::default(),
            err: Partial::default(),
            last: VecDeque::new(),
            panicking: false,
            stacks: false,
            reply: None,
            traceback: false,
        }
    }

    /// A line of the contract's own log.
    pub(crate) fn log(&mut self, level: Level, message: &str) {
        if self.budget <= LINE_COST {
            self.dropped += 1;
            return;
        }
        let kept = cut(message, MAX_LINE.min(self.budget - LINE_COST));
        self.budget -= kept.len() + LINE_COST;
        self.lines.push(LogLine {
            level,
            message: kept.to_owned(),
        });
    }

    /// Standard output is a reply of at most so many bytes from now on, and no log.
    pub(crate) fn capture(&mut self, limit: u64) {
        self.reply = Some(Captured {
            bytes: Vec::new(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        });
    }

    /// What was captured.
    pub(crate) fn captured(&mut self) -> Vec<u8> {
        self.reply.take().map_or_else(Vec::new, |reply| reply.bytes)
    }

    /// Bytes written to a standard stream. An error is a reply over its limit.
    pub(crate) fn write(&mut self, stream: Stream, mut bytes: &[u8]) -> Result<(), Stop> {
        if let (Stream::Out, Some(reply)) = (stream, &mut self.reply) {
            if reply.limit - reply.bytes.len() < bytes.len() {
                return Err(Stop::Output);
            }
            reply.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.append(stream, &bytes[..end]);
            self.end_line(stream);
            bytes = &bytes[end + 1..];
        }
        if !bytes.is_empty() {
            self.append(stream, bytes);
        }
        Ok(())
    }

    /// The end of the call: lines without an end are lines.
    pub(crate) fn finish(&mut self) -> (Vec<LogLine>, u64) {
        for stream in [Stream::Out, Stream::Err] {
            if self.partial(stream).open {
                self.end_line(stream);
            }
        }
        (std::mem::take(&mut self.lines), self.dropped)
    }

    /// Whether anything was written to stderr.
    pub(crate) fn spoke(&self) -> bool {
        !self.last.is_empty() || self.err.open
    }

    /// The end of stderr in a form that is the same from call to call; from a panic's first line if there is one.
    pub(crate) fn last_words(&mut self) -> String {
        if self.err.open {
            self.end_line(Stream::Err);
        }
        let lines = self
            .last
            .iter()
            .filter(|line| !line.trim().is_empty() && !line.starts_with("note: "));
        lines
            .map(|line| steady(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn partial(&mut self, stream: Stream) -> &mut Partial {
        match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        }
    }

    fn append(&mut self, stream: Stream, bytes: &[u8]) {
        let line = self.partial(stream);
        line.open = true;
        let room = MAX_LINE - line.bytes.len();
        line.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, stream: Stream) {
        let line = std::mem::take(self.partial(stream));
        let text = String::from_utf8_lossy(&line.bytes);
        if stream == Stream::Err {
            self.remember(&text);
        }
        self.log(Level::Info, &text);
        // The buffer is used again: endless printing must not be endless allocating.
        let mut bytes = line.bytes;
        bytes.clear();
        self.partial(stream).bytes = bytes;
    }

    fn remember(&mut self, line: &str) {
        self.traceback |= line.starts_with("Traceback (most recent call last)");
        self.stacks |= self.panicking && line.starts_with("goroutine ");
        if self.stacks {
            return;
        }
        if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
            self.panicking = true;
            self.last.clear();
        } else if line.contains("panicked at") {
            self.panicking = true;
            let exception = self
                .last
                .drain(..)
                .rfind(|line| !line.trim().is_empty())
                .filter(|_| self.traceback);
            self.last.extend(exception);
        } else if self.last.len() == LAST_LINES {
            if self.panicking {
                return;
            }
            self.last.pop_front();
        }
        self.last.push_back(cut(line, LAST_LINE).to_owned());
    }
}

/// A line without what differs from call to call: thread ids and addresses.
fn steady(line: &str) -> String {
    let mut text = line.to_owned();
    if let (Some(open), Some(panicked)) = (text.find("' ("), text.find(") panicked at")) {
        let id = text.get(open + 3..panicked).unwrap_or("");
        if !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) {
            text.replace_range(open + 1..=panicked, "");
        }
    }
    let mut steady = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..]
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count();
        steady.push_str(&rest[..at]);
        steady.push_str(if digits == 0 { "0x" } else { "0x…" });
        rest = &rest[at + 2 + digits..];
    }
    steady + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(budget: u64, pieces: &[&str]) -> (Vec<String>, u64) {
        let mut output = Output::new(budget);
        for piece in pieces {
            output.write(Stream::Err, piece.as_bytes()).unwrap();
        }
        let (lines, dropped) = output.finish();
        (
            lines.into_iter().map(|line| line.message).collect(),
            dropped,
        )
    }

    #[test]
    fn pieces_become_lines_and_an_open_end_is_one_too() {
        assert_eq!(
            said(1000, &["a", "b\nc\n\nd"]),
            (vec!["ab".into(), "c".into(), String::new(), "d".into()], 0)
        );
    }

    #[test]
    fn over_the_budget_lines_are_cut_then_counted() {
        assert_eq!(
            said(LINE_COST as u64 + 3, &["abcdef\n", "g\n", "h"]),
            (vec!["abc".into()], 2)
        );
        let long = "x".repeat(MAX_LINE * 3);
        assert_eq!(said(1 << 20, &[&long, &long]).0, ["x".repeat(MAX_LINE)]);
    }

    #[test]
    fn a_panics_words_survive_all_that_is_printed_around_it() {
        let mut output = Output::new(0);
        output
            .write(Stream::Err, "noise\n".repeat(100).as_bytes())
            .unwrap();
        output.write(Stream::Err, b"\nthread 'main' (1) panicked at src/lib.rs:1:2:\nboom at 0xdeadBEEF 0xyz\nnote: run with `RUST_BACKTRACE=1`\n").unwrap();
        output
            .write(Stream::Err, "more\n".repeat(100).as_bytes())
            .unwrap();
        let words = output.last_words();
        assert!(
            words
                .starts_with("thread 'main' panicked at src/lib.rs:1:2:\nboom at 0x… 0xyz\nmore\n"),
            "{words}"
        );
        assert_eq!(words.lines().count(), LAST_LINES - 1);
    }

    #[test]
    fn a_python_exception_is_kept_before_the_panic_of_its_runtime() {
        let mut output = Output::new(0);
        output.write(Stream::Err, b"Traceback (most recent call last):\n  File \"/0/app.py\", line 9, in reconcile\nRuntimeError: boom\n").unwrap();
        output.write(Stream::Err, b"\nthread '<unnamed>' (1) panicked at runtime/src/lib.rs:1293:29:\nPython function threw an unexpected exception\n").unwrap();
        assert_eq!(
            output.last_words(),
            "RuntimeError: boom\nthread '<unnamed>' panicked at runtime/src/lib.rs:1293:29:\nPython function threw an unexpected exception"
        );
    }

    #[test]
    fn without_a_panic_the_end_is_kept() {
        let mut output = Output::new(0);
        for n in 0..20 {
            output
                .write(Stream::Err, format!("line {n}\n").as_bytes())
                .unwrap();
        }
        output.write(Stream::Err, b"open end").unwrap();
        assert!(output.last_words().ends_with("line 18\nline 19\nopen end"));
    }

    #[test]
    fn a_go_panic_is_kept_without_the_stacks_of_its_goroutines() {
        let mut output = Output::new(0);
        let said = b"before\npanic: boom\n\tpanic: again\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:9 +0x1d\n";
        output.write(Stream::Err, said).unwrap();
        assert_eq!(output.last_words(), "panic: boom\n\tpanic: again");
    }

    #[test]
    fn a_commands_output_is_its_reply_and_has_a_limit() {
        let mut output = Output::new(1000);
        output.capture(5);
        output.write(Stream::Out, b"abc").unwrap();
        output.write(Stream::Out, b"de").unwrap();
        assert_eq!(output.write(Stream::Out, b"f"), Err(Stop::Output));
        assert_eq!(output.captured(), b"abcde");
        assert!(output.finish().0.is_empty(), "a reply is no log");
    }
}
