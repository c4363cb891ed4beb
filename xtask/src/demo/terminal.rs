//! How the story looks: numbered steps, the commands a user would type, their output, and one line that moves.

use std::io::{IsTerminal, Write, stdout};
use std::time::Instant;

const INDENT: &str = "   ";

/// The place the story is told: stdout. Anywhere else than on a terminal it is plain text, and lines stay.
pub(super) struct Terminal {
    steps: usize,
    started: Instant,
    /// Lines can be written over.
    moves: bool,
    colors: bool,
    /// A line stands that may be written over.
    open: bool,
    /// What was last said of a thing that moves.
    last: Option<usize>,
}

impl Terminal {
    pub(super) fn new() -> Self {
        let moves = stdout().is_terminal();
        Self {
            steps: 0,
            started: Instant::now(),
            moves,
            colors: moves && std::env::var_os("NO_COLOR").is_none(),
            open: false,
            last: None,
        }
    }

    pub(super) fn title(&self, jobs: u16) {
        let title = format!(
            "Guesthouse: {jobs} jobs on a Kubernetes API server, drained by a WebAssembly plugin"
        );
        line(&self.in_color("1", &title));
    }

    /// Begins the next step.
    pub(super) fn step(&mut self, what: &str) {
        self.settle();
        self.steps += 1;
        let title = format!("{}. {what}", self.steps);
        line("");
        line(&self.in_color("1", &title));
    }

    /// A sentence.
    pub(super) fn say(&self, text: &str) {
        line(&format!("{INDENT}{text}"));
    }

    /// A command, as a user would type it.
    pub(super) fn command(&self, command: &str) {
        line(&format!(
            "{INDENT}{}",
            self.in_color("36", &format!("$ {command}"))
        ));
    }

    /// What a command printed.
    pub(super) fn block(&self, text: &str) {
        for one in text.lines() {
            line(&format!("{INDENT}{INDENT}{one}"));
        }
    }

    /// The head of a table, its first rows and how many more there are.
    pub(super) fn table(&self, text: &str, rows: usize) {
        self.block(&shortened(text, rows));
    }

    /// How a claim was checked.
    pub(super) fn verdict(&self, holds: bool, text: &str) {
        let mark = match holds {
            true => self.in_color("32", "ok   "),
            false => self.in_color("31", "WRONG"),
        };
        line(&format!("{INDENT}{mark} {text}"));
    }

    /// Something that shrinks from `total` to zero. On a terminal one line moves; elsewhere a line is written for each
    /// tenth of the way.
    pub(super) fn remaining(&mut self, left: usize, total: usize, beside: &str) {
        let full = 40 * left / total.max(1);
        let bar = format!("[{}{}]", "#".repeat(full), " ".repeat(40 - full));
        let text = format!("{INDENT}{INDENT}pending {left:>4} {bar} {beside}");
        if self.moves {
            let _ = write!(stdout(), "\r\x1b[K{text}");
            let _ = stdout().flush();
            self.open = true;
        } else if self
            .last
            .is_none_or(|last| left != last && (left == 0 || (last.abs_diff(left)) * 10 >= total))
        {
            line(&text);
            self.last = Some(left);
        }
    }

    /// Lets the line that moves stand as it is.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.open) {
            line("");
        }
        self.last = None;
    }

    pub(super) fn end(&mut self, holds: bool) {
        self.settle();
        let took = self.started.elapsed().as_secs();
        line("");
        line(&match holds {
            true => format!("All of it is true. {took} s."),
            false => format!("Something above is WRONG. {took} s."),
        });
    }

    fn in_color(&self, code: &str, text: &str) -> String {
        if self.colors {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Who reads this may have gone away; the story goes on to its clean-up.
fn line(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

fn shortened(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // One row instead of "1 more".
    if lines.len() <= rows + 2 {
        return lines.join("\n");
    }
    let more = lines.len() - rows - 1;
    format!("{}\n... {more} more", lines[..=rows].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_shows_its_head_some_rows_and_how_many_more() {
        assert_eq!(shortened("H\n1\n2\n3\n4\n", 2), "H\n1\n2\n... 2 more");
        assert_eq!(shortened("H\n1\n2\n3\n", 2), "H\n1\n2\n3");
        assert_eq!(shortened("", 2), "");
    }
}
