//! The writing of messages: the composer, the search through earlier messages, and the keys that count twice.

use crate::composer::{Composer, Draft, Query};
use crate::history::{History, Search, SearchOutcome};
use crate::terminal::input::{Code, Key};
use crate::view::View;

/// Time without a change after which a message is kept, in milliseconds.
const KEEP_AFTER: u64 = 1_000;
/// Time for which Ctrl+C and Esc are remembered, in milliseconds.
const TWICE_WITHIN: u64 = 2_000;

/// The composer and what belongs to it.
#[derive(Debug)]
pub(super) struct Writing {
    composer: Composer,
    /// Earlier messages; none before they were needed.
    history: Option<History>,
    search: Option<Search>,
    /// Messages that were sent before the earlier ones were read.
    typed: Vec<Draft>,
    /// The key that waits for them.
    waiting: Option<Key>,
    /// When the message that is being written is kept, in milliseconds.
    keep_at: Option<u64>,
    /// Token of the composer's search that was sent last.
    searched: Option<u64>,
    /// True if the terminal marks what is pasted.
    marks_pastes: bool,
    /// When a key was pressed last.
    last_key: Option<u64>,
    /// Deadline for a second Esc to go back to an earlier message.
    edits_until: u64,
    /// Deadline for a second Ctrl+C to quit.
    quits_until: u64,
}

/// The outcome of a key that may be about earlier messages.
pub(super) enum Recall {
    /// It is for something else.
    Ignored,
    Taken,
    /// It waits for the messages of earlier sessions, which have to be read.
    Waits,
}

impl Writing {
    pub(super) fn new(composer: Composer) -> Self {
        Self {
            composer,
            history: None,
            search: None,
            typed: Vec::new(),
            waiting: None,
            keep_at: None,
            searched: None,
            marks_pastes: false,
            last_key: None,
            edits_until: 0,
            quits_until: 0,
        }
    }

    pub(super) fn composer(&self) -> &Composer {
        &self.composer
    }

    pub(super) fn composer_mut(&mut self) -> &mut Composer {
        &mut self.composer
    }

    /// Lets ↑ and Ctrl+R find a message.
    pub(super) fn remember(&mut self, draft: Draft) {
        match &mut self.history {
            Some(history) => history.push(draft),
            None => self.typed.push(draft),
        }
    }

    /// Puts a message into the composer; what was there is in the history.
    pub(super) fn put_back(&mut self, text: &str) {
        let written = self.composer.take();
        if !written.is_blank() {
            self.remember(written);
        }
        self.composer.restore(Draft::plain(text));
    }

    /// Adds text to the end of the message that is being written.
    pub(super) fn type_words(&mut self, words: &str) {
        if !words.is_empty() {
            self.composer.paste(words.to_owned());
        }
    }

    /// Has the message kept in the agent's home, after a time without changes.
    pub(super) fn keep_soon(&mut self, now: u64) {
        self.keep_at = Some(now + KEEP_AFTER);
    }

    /// When the message is kept, in milliseconds.
    pub(super) fn keep_at(&self) -> Option<u64> {
        self.keep_at
    }

    /// True if it is time to keep the message; asked again, it is not.
    pub(super) fn takes_keeping(&mut self, now: u64) -> bool {
        let is_due = self.keep_at.is_some_and(|at| now >= at);
        if is_due {
            self.keep_at = None;
        }
        is_due
    }

    /// The search that the composer wants, once.
    pub(super) fn next_search(&mut self) -> Option<Query> {
        let query = self.composer.query()?;
        (self.searched.replace(query.token) != Some(query.token)).then_some(query)
    }

    /// Keys that follow each other at once are a paste only in a terminal that does not mark pastes.
    pub(super) fn set_marks_pastes(&mut self, marks_pastes: bool, disables_burst: bool) {
        self.marks_pastes = marks_pastes;
        self.composer.set_paste_burst_disabled(marks_pastes || disables_burst);
    }

    pub(super) fn marks_pastes(&self) -> bool {
        self.marks_pastes
    }

    /// A key was pressed. What counts as twice has nothing in between.
    pub(super) fn pressed(&mut self, key: Key, now: u64) {
        self.last_key = Some(now);
        if key.code != Code::Esc {
            self.edits_until = 0;
        }
        if key != Key::ctrl('c') {
            self.quits_until = 0;
        }
    }

    /// When a key was pressed last.
    pub(super) fn last_key(&self) -> Option<u64> {
        self.last_key
    }

    /// True if Esc was pressed for the second time. If not, the next one may be that.
    pub(super) fn is_second_esc(&mut self, now: u64) -> bool {
        let is_second = now < self.edits_until;
        self.edits_until = if is_second { 0 } else { now + TWICE_WITHIN };
        is_second
    }

    /// True if Ctrl+C was pressed for the second time. If not, the next one may be that.
    pub(super) fn is_second_ctrl_c(&mut self, now: u64) -> bool {
        let is_second = now < self.quits_until;
        if !is_second {
            self.quits_until = now + TWICE_WITHIN;
        }
        is_second
    }

    /// Ends the walk through earlier messages: the one in the composer was changed.
    pub(super) fn end_walk(&mut self) {
        if let Some(history) = &mut self.history {
            history.end_walk();
        }
    }

    /// Puts the message before or after the one in the composer into it.
    pub(super) fn walk(&mut self, code: Code) -> Recall {
        let current = self.composer.draft();
        let Some(history) = &mut self.history else {
            self.waiting = Some(Key::plain(code));
            return Recall::Waits;
        };
        let found = match code {
            Code::Up => history.previous(current),
            _ => history.following(),
        };
        if let Some(draft) = found {
            self.composer.restore(draft);
        }
        Recall::Taken
    }

    pub(super) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Offers a key to the search through earlier messages, which Ctrl+R begins.
    pub(super) fn search_key(&mut self, key: Key) -> Recall {
        if let (Some(search), Some(history)) = (&mut self.search, &self.history) {
            let (draft, outcome) = match search.key(history, key) {
                SearchOutcome::Changed => return Recall::Taken,
                SearchOutcome::Ended(draft) => (draft, Recall::Taken),
                SearchOutcome::EndedBy(draft) => (draft, Recall::Ignored),
            };
            self.search = None;
            self.composer.restore(draft);
            return outcome;
        }
        if key != Key::ctrl('r') {
            return Recall::Ignored;
        }
        if self.history.is_none() {
            self.waiting = Some(key);
            return Recall::Waits;
        }
        self.search = Some(Search::new(self.composer.draft()));
        Recall::Taken
    }

    /// Takes the messages of earlier sessions. Returns the key that waited for them.
    pub(super) fn set_history(&mut self, texts: Vec<String>) -> Option<Key> {
        let mut history = History::new(texts);
        std::mem::take(&mut self.typed).into_iter().for_each(|draft| history.push(draft));
        self.history = Some(history);
        self.waiting.take()
    }

    /// The composer, or the search in its place, in at most `rows` rows.
    pub(super) fn view(&self, columns: usize, rows: usize) -> View {
        match (&self.search, &self.history) {
            (Some(search), Some(history)) => search.view(history, columns, rows),
            _ => self.composer.view(columns, rows),
        }
    }
}
