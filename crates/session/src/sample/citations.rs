//! Takes citations of notes out of the text of a message: `[[memory:PATH:FIRST-LAST|NOTE]]` on one line.
//!
//! One that names no lines which the model got is no citation, and stays in the text.

use std::sync::Arc;

use crate::port::memory::{MemoryCitation, MemoryNotes};

const OPEN: &str = "[[memory:";
const CLOSE: &str = "]]";
/// Longest citation, in bytes.
const MAX: usize = 1_024;

/// Reads a text that streams in; a citation may arrive in any number of parts.
#[derive(Clone, Debug)]
pub(super) struct CitationReader {
    notes: Arc<MemoryNotes>,
    /// The end of the text so far that may be the beginning of a citation.
    held: String,
    found: MemoryCitation,
}

impl CitationReader {
    pub(super) fn new(notes: Arc<MemoryNotes>) -> Self {
        Self { notes, held: String::new(), found: MemoryCitation::default() }
    }

    /// The text that `text` completes.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let mut rest = std::mem::take(&mut self.held);
        let mut out = String::new();
        loop {
            let Some(at) = rest.find(OPEN) else {
                let safe = rest.len() - partial_open(&rest);
                self.held = rest.split_off(safe);
                out.push_str(&rest);
                return out;
            };
            let after = rest.split_off(at);
            out.push_str(&rest);
            let inner = &after[OPEN.len()..];
            let end = inner.find(CLOSE);
            let is_one = !inner[..end.unwrap_or(inner.len())].contains('\n')
                && end.unwrap_or(inner.len()) <= MAX;
            match end {
                Some(end) if is_one && self.notes.cite(&inner[..end], &mut self.found) => {
                    rest = inner[end + CLOSE.len()..].to_owned();
                }
                None if is_one => {
                    self.held = after;
                    return out;
                }
                _ => {
                    out.push_str(OPEN);
                    rest = inner.to_owned();
                }
            }
        }
    }

    /// Returns the notes that may be cited.
    pub(super) fn notes(&self) -> Arc<MemoryNotes> {
        self.notes.clone()
    }

    /// Returns the remaining text at the end, and its citations.
    pub(super) fn finish(self) -> (String, Option<Box<MemoryCitation>>) {
        let has_any = !self.found.entries.is_empty();
        (self.held, has_any.then(|| Box::new(self.found)))
    }

    /// A whole text without its citations, and these.
    pub(super) fn split(
        notes: Arc<MemoryNotes>,
        text: &str,
    ) -> (String, Option<Box<MemoryCitation>>) {
        let mut reader = Self::new(notes);
        let mut shown = reader.push(text);
        let (rest, found) = reader.finish();
        shown.push_str(&rest);
        (shown, found)
    }
}

/// Returns the number of bytes at the end of `text` that may be the beginning of a citation.
fn partial_open(text: &str) -> usize {
    (1..OPEN.len()).rev().find(|&n| text.ends_with(&OPEN[..n])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::memory::{MemoryFile, MemoryLine};

    fn notes() -> Arc<MemoryNotes> {
        let line = |number, text: &str, thread: Option<&str>| {
            let (text, thread) = (text.to_owned(), thread.map(str::to_owned));
            MemoryLine { number, text, thread }
        };
        let lines = vec![line(3, "- tabs", Some("t1")), line(4, "- make", Some("t2"))];
        let file = MemoryFile { path: "general.md".into(), lines };
        Arc::new(MemoryNotes { files: vec![file] })
    }

    #[test]
    fn citations_are_found_for_any_split() {
        for (text, shown, entries, threads) in [
            ("Use tabs[[memory:general.md:3]].", "Use tabs.", "3-3 - tabs", "t1"),
            ("a [[memory:general.md:3-4|both of them]]b", "a b", "3-4 both of them", "t1 t2"),
            ("[[memory:general.md:4]][[memory:general.md:4]]", "", "4-4 - make", "t2"),
            // Lines that the model did not get, other files, and what is no citation.
            ("[[memory:general.md:9]]", "[[memory:general.md:9]]", "", ""),
            ("[[memory:general.md:4-3]]", "[[memory:general.md:4-3]]", "", ""),
            ("[[memory:../x:3]]", "[[memory:../x:3]]", "", ""),
            ("[[memory:general.md:3\n]]", "[[memory:general.md:3\n]]", "", ""),
            ("[[memory:", "[[memory:", "", ""),
            ("[[mem[[memory:general.md:3]]", "[[mem", "3-3 - tabs", "t1"),
            ("[[memory:[[memory:general.md:3]]", "[[memory:", "3-3 - tabs", "t1"),
            ("ü [[x]]", "ü [[x]]", "", ""),
        ] {
            let chars: Vec<char> = text.chars().collect();
            for step in 1..=chars.len() {
                let mut reader = CitationReader::new(notes());
                let mut out = String::new();
                for part in chars.chunks(step) {
                    out.push_str(&reader.push(&part.iter().collect::<String>()));
                }
                let (rest, found) = reader.finish();
                let found = found.map(|found| *found).unwrap_or_default();
                let passages: Vec<String> = found
                    .entries
                    .iter()
                    .map(|it| format!("{}-{} {}", it.lines.start(), it.lines.end(), it.note))
                    .collect();
                let read = (out + &rest, passages.join(","), found.threads.join(" "));
                assert_eq!(read, (shown.into(), entries.into(), threads.into()), "{text} {step}");
            }
        }
    }

    #[test]
    fn a_long_beginning_is_not_held() {
        let mut reader = CitationReader::new(notes());
        let long = format!("[[memory:{}", "x".repeat(MAX + 1));
        assert_eq!(reader.push(&long), long);
    }
}
