//! Handling of keys: the question in front takes them first, then the composer, then the program.

use crate::app::{App, Effect};
use crate::composer::{Draft, Outcome};
use crate::history::{History, Search, SearchOutcome};
use crate::terminal::input::{Code, Key};

/// Time that a message rests before it is kept, in milliseconds.
const KEEP_AFTER: u64 = 1_000;
/// Time for which Ctrl+C and Esc are remembered, in milliseconds.
const QUIT_WITHIN: u64 = 2_000;

impl App {
    pub(super) fn key(&mut self, key: Key) {
        self.last_key = Some(self.now);
        // What counts as twice has nothing in between.
        if key.code != Code::Esc {
            self.edits_until = 0;
        }
        if key != Key::ctrl('c') {
            self.quits_until = 0;
        }
        if let Some(question) = self.questions.front_mut() {
            if let Some(answer) = question.ask.key(key, self.now) {
                self.answer(answer);
            }
            return;
        }
        if self.dialog_key(key) || self.chooses(key) || self.reads(key) {
            return;
        }
        if self.search.is_none() && self.always(key) {
            return;
        }
        if self.searching(key) {
            return;
        }
        match self.composer.key(key, self.now) {
            Outcome::Changed => {
                self.keep_soon();
                if let Some(history) = &mut self.history {
                    history.end_walk();
                }
                self.search();
            }
            Outcome::Submitted(draft) => self.submitted(draft),
            Outcome::Ignored => self.ignored(key),
        }
    }

    fn submitted(&mut self, draft: Draft) {
        self.keep_soon();
        self.remember(draft.clone());
        match draft.command() {
            Some((name, rest)) => {
                let (name, rest) = (name.to_owned(), rest.to_owned());
                self.command(&name, &rest, draft);
            }
            None => self.submit(draft),
        }
    }

    /// Lets ↑ and Ctrl+R find a message.
    pub(super) fn remember(&mut self, draft: Draft) {
        match &mut self.history {
            Some(history) => history.push(draft),
            None => self.typed.push(draft),
        }
    }

    /// Keeps the composed text in the agent's home after a rest.
    pub(super) fn keep_soon(&mut self) {
        self.keep_at = Some(self.now + KEEP_AFTER);
    }

    pub(super) fn pasted(&mut self, text: String) {
        if self.questions.is_empty() && self.dialog_paste(&text) {
            return;
        }
        if let Some(question) = self.questions.front_mut() {
            question.ask.paste(&text, self.now);
        } else if let Some(choosing) = &mut self.choosing {
            choosing.picker.paste(&text);
            self.provide();
        } else if !self.paste_into_reading(&text) {
            self.paste_into_composer(text);
        }
    }

    /// Keys that mean the same wherever they are pressed.
    fn always(&mut self, key: Key) -> bool {
        match (key.code, key.ctrl) {
            (Code::Char('c'), true) => self.ctrl_c(),
            (Code::Char('d'), true) if self.composer.is_empty() => self.quit(),
            (Code::Char('z'), true) => self.effects.push_back(Effect::Suspend),
            (Code::Char('t'), true) if self.composer.is_empty() => self.read_transcript(""),
            (Code::Char('v'), true) => self.paste_image(),
            (Code::Up, false) if key.alt && !self.queue.is_empty() => self.choose_queued(),
            (Code::Char('g'), true) => {
                self.effects.push_back(Effect::Edit(self.composer.draft().text));
            }
            _ => return false,
        }
        true
    }

    fn ignored(&mut self, key: Key) {
        match key.code {
            Code::Esc if self.session.turn.is_some() => self.interrupt(),
            Code::Esc if self.composer.is_empty() => self.esc(),
            Code::Tab if !self.composer.is_empty() => {
                let draft = self.composer.take();
                self.enqueue(draft);
            }
            Code::Up if !self.queue.is_empty() && self.composer.is_empty() => {
                self.edit_last_queued();
            }
            Code::Up | Code::Down => self.walk(key.code),
            _ => {}
        }
    }

    /// The message before or after the one in the composer.
    fn walk(&mut self, code: Code) {
        let current = self.composer.draft();
        let Some(history) = &mut self.history else {
            self.waiting = Some(Key::plain(code));
            self.effects.push_back(Effect::LoadHistory);
            return;
        };
        let found = match code {
            Code::Up => history.previous(current),
            _ => history.following(),
        };
        if let Some(draft) = found {
            self.composer.restore(draft);
        }
    }

    /// Returns whether the search through earlier messages takes the key.
    fn searching(&mut self, key: Key) -> bool {
        if let (Some(search), Some(history)) = (&mut self.search, &self.history) {
            let (draft, takes) = match search.key(history, key) {
                SearchOutcome::Changed => return true,
                SearchOutcome::Ended(draft) => (draft, true),
                SearchOutcome::EndedBy(draft) => (draft, false),
            };
            self.search = None;
            self.composer.restore(draft);
            return takes;
        }
        if key != Key::ctrl('r') {
            return false;
        }
        match self.history {
            Some(_) => self.search = Some(Search::new(self.composer.draft())),
            None => {
                self.waiting = Some(key);
                self.effects.push_back(Effect::LoadHistory);
            }
        }
        true
    }

    /// Takes the messages of earlier sessions, and the key that asked for them.
    pub(super) fn set_history(&mut self, texts: Vec<String>) -> bool {
        let mut history = History::new(texts);
        std::mem::take(&mut self.typed).into_iter().for_each(|draft| history.push(draft));
        self.history = Some(history);
        if let Some(key) = self.waiting.take() {
            self.key(key);
        }
        true
    }

    /// Pressed twice, it goes back to an earlier message.
    fn esc(&mut self) {
        if !self.session.has_turns {
            return;
        }
        if self.now < self.edits_until {
            self.edits_until = 0;
            self.notice = None;
            return self.choose_message("");
        }
        self.edits_until = self.now + QUIT_WITHIN;
        self.notice("Press Esc again to edit an earlier message.");
    }

    fn ctrl_c(&mut self) {
        if !self.composer.is_empty() {
            self.composer.clear();
            self.notice("Cleared. Ctrl+_ brings it back.");
        } else if self.session.turn.is_some() {
            self.interrupt();
        } else if self.now < self.quits_until {
            self.quit();
        } else {
            self.quits_until = self.now + QUIT_WITHIN;
            self.notice("Press Ctrl+C again to quit.");
        }
    }
}
