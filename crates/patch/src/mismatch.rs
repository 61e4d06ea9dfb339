//! Explains why a hunk was not found: which line does not match, what the file has instead, and how
//! to correct the patch.

use std::fmt::Write as _;

use crate::edit::Edit;
use crate::error::{ErrorKind, Mismatch};
use crate::parse::{Anchor, Hunk, Line, Sign};
use crate::seek::TooCostly;
use crate::source::clip;

/// Lines of a hunk that an error shows.
const SHOWN_LINES: usize = 20;

/// Why the search for a hunk ended without a position.
pub(crate) enum Failure {
    Mismatch(Mismatch),
    TooCostly,
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

impl From<TooCostly> for Failure {
    fn from(_: TooCostly) -> Self {
        Self::TooCostly
    }
}

impl Edit<'_> {
    /// Explains why `hunk` was not found at or after line `from`.
    pub(crate) fn explain(&mut self, hunk: &Hunk, from: usize) -> Result<Mismatch, TooCostly> {
        let old = hunk.old_lines();
        let lines: Vec<&Line> = hunk.lines.iter().filter(|line| line.is_old()).collect();
        let length = self.file.len();
        let mut why = format!("these lines were not found{}:\n", after(from));
        for line in lines.iter().take(SHOWN_LINES) {
            why.push_str(&clip(&line.text));
            why.push('\n');
        }
        if lines.len() > SHOWN_LINES {
            why.push_str("…\n");
        }
        let first = hunk.lines.first().map_or(0, |line| line.number);
        if hunk.at_end
            && let Some(at) = self.haystack.find(&old, from..length)?
        {
            // Writing to a string cannot fail.
            let _ = write!(
                why,
                "They are not at the end of the file, but at line {} and again later: remove \
                 `*** End of File`, and give more context.",
                at + 1
            );
            return Ok(Mismatch { kind: ErrorKind::Ambiguous, line: first, why });
        }
        if let Some(at) = self.haystack.find(&old, 0..length)? {
            let _ = write!(
                why,
                "They are at line {}, which is too early: write hunks in the order of the file, \
                 after the lines that their `@@` names, and each line in one hunk only.",
                at + 1
            );
            return Ok(Mismatch { kind: ErrorKind::OutOfOrder, line: first, why });
        }
        let closest = self.haystack.closest(&old, from..length)?;
        let (at, matched) = closest.unwrap_or((from, 0));
        let Some(line) = lines.get(matched) else {
            return Ok(Mismatch { kind: ErrorKind::LinesNotFound, line: first, why });
        };
        let _ = write!(why, "Line {} of the patch, `{}`, ", line.number, shown(line));
        let _ = match (matched, self.file.get(at + matched)) {
            (0, _) => write!(why, "is not in the file{}: read the file again.", after(from)),
            (_, None) => write!(why, "is beyond the end of the file, which has {length} lines."),
            (_, Some(is)) => {
                write!(why, "should be line {} of the file: `{}`.", at + matched + 1, clip(is.text))
            }
        };
        Ok(Mismatch { kind: ErrorKind::LinesNotFound, line: line.number, why })
    }

    /// Explains why an anchor of `hunk` was not found at or after line `from`.
    pub(crate) fn explain_anchor(
        &mut self,
        anchor: &Anchor,
        hunk: &Hunk,
        from: usize,
    ) -> Result<Mismatch, TooCostly> {
        let named = clip(&anchor.text);
        let mut why =
            format!("`@@` names the line `{named}`, which the file does not have{}. ", after(from));
        let old = hunk.old_lines();
        let found = match old.is_empty() {
            true => None,
            false => self.haystack.find(&old, self.next..self.file.len())?,
        };
        let (kind, advice) = match found {
            Some(_) => (
                ErrorKind::Ambiguous,
                "The lines of the hunk are in the file more than once: name a line of the file \
                 before the right ones, or give more context.",
            ),
            None => (
                ErrorKind::AnchorNotFound,
                "Name a line of the file, or give lines of the file as context.",
            ),
        };
        why.push_str(advice);
        Ok(Mismatch { kind, line: anchor.number, why })
    }
}

/// A line of the patch with its sign.
fn shown(line: &Line) -> String {
    let sign = match line.sign {
        Sign::Context => ' ',
        Sign::Remove => '-',
        Sign::Add => '+',
    };
    format!("{sign}{}", clip(&line.text))
}

fn after(from: usize) -> String {
    if from == 0 { String::new() } else { format!(" after line {from}") }
}
