//! Earlier messages: those of `history.jsonl` in the agent's home and those of this session, to walk
//! through and to search.

mod search;

use serde::Deserialize;

use crate::composer::Draft;

pub(crate) use search::find;
pub use search::{Search, SearchOutcome};

/// Reads the lines of `history.jsonl`, the oldest message first. Lines that hold no message are counted:
/// the first one may be cut off where only the end of the file was read.
#[must_use]
pub fn parse(file: &[u8]) -> (Vec<String>, usize) {
    #[derive(Deserialize)]
    struct Entry {
        text: String,
    }
    let (mut texts, mut unreadable) = (Vec::new(), 0);
    for line in file.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) => texts.push(entry.text),
            Err(_) => unreadable += 1,
        }
    }
    (texts, unreadable)
}

/// The messages, and where the user is in them.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The oldest first; no two neighbours are equal.
    entries: Vec<Draft>,
    /// The message that is displayed, and what was written before the walk began.
    walk: Option<(usize, Draft)>,
}

impl History {
    /// Messages of earlier sessions, the oldest first.
    #[must_use]
    pub fn new(texts: Vec<String>) -> Self {
        let mut history = Self::default();
        texts.into_iter().for_each(|text| history.push(Draft::plain(text)));
        history
    }

    /// Adds the message that was just sent, and ends a walk.
    pub fn push(&mut self, draft: Draft) {
        self.walk = None;
        if !draft.is_blank() && self.entries.last() != Some(&draft) {
            self.entries.push(draft);
        }
    }

    /// The messages, the oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Draft] {
        &self.entries
    }

    /// The message before the one that is displayed. `current` is what the composer holds; at the start of
    /// a walk it is kept. `None` at the oldest one.
    pub fn previous(&mut self, current: Draft) -> Option<Draft> {
        let (at, kept) = match self.walk.take() {
            Some((at, kept)) => (at, kept),
            None => (self.entries.len(), current),
        };
        let target = at.checked_sub(1);
        self.walk =
            (at < self.entries.len() || target.is_some()).then_some((target.unwrap_or(at), kept));
        self.entries.get(target?).cloned()
    }

    /// The message after the one that is displayed; after the last one, the text from before the walk
    /// began. `None` if there is no walk.
    pub fn following(&mut self) -> Option<Draft> {
        let (at, kept) = self.walk.take()?;
        match self.entries.get(at + 1) {
            Some(entry) => {
                self.walk = Some((at + 1, kept));
                Some(entry.clone())
            }
            None => Some(kept),
        }
    }

    /// Returns whether a message of the history is displayed.
    #[must_use]
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// Ends the walk, because the displayed text was changed: it is a draft of its own.
    pub fn end_walk(&mut self) {
        self.walk = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_line_by_line() {
        let file = b"cut off\"}\n{\"session_id\":\"a\",\"ts\":1,\"text\":\"one\\ntwo\"}\n\n\
            {\"text\":3}\n\xff\n{\"text\":\"end\"}";
        assert_eq!(parse(file), (vec!["one\ntwo".to_owned(), "end".to_owned()], 3));
        assert_eq!(parse(b""), (vec![], 0));
    }

    #[test]
    fn walking_keeps_the_draft() {
        let texts = ["one", "two", "two", " "].map(str::to_owned);
        let mut history = History::new(texts.to_vec());
        assert_eq!(history.following(), None);
        let draft = Draft::plain("draft");
        assert_eq!(history.previous(draft.clone()), Some(Draft::plain("two")));
        assert_eq!(history.previous(Draft::plain("two")), Some(Draft::plain("one")));
        assert_eq!(history.previous(Draft::plain("one")), None);
        assert_eq!(history.following(), Some(Draft::plain("two")));
        assert!(history.is_walking());
        assert_eq!(history.following(), Some(draft));
        assert!(!history.is_walking());
        assert_eq!(History::default().previous(Draft::default()), None);
    }
}
