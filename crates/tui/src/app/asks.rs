//! The questions to the user: those of the server, and after them the dialogs of the program.

use std::collections::VecDeque;

use jsonrpc::RequestId;

use crate::app::dialogs::Dialogs;
use crate::ask::{Answer, Ask};
use crate::terminal::input::Key;

/// The open questions and dialogs; the first is on the screen. `A` gets the answers of the dialogs.
#[derive(Debug)]
pub(super) struct Asks<A> {
    questions: VecDeque<Question>,
    dialogs: Dialogs<A>,
}

/// A question of the server's.
#[derive(Debug)]
struct Question {
    id: RequestId,
    ask: Ask,
}

impl<A> Default for Asks<A> {
    fn default() -> Self {
        Self { questions: VecDeque::new(), dialogs: Dialogs::default() }
    }
}

impl<A> Asks<A> {
    /// True if neither the server nor the program asks anything.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty() && self.dialogs.is_empty()
    }

    /// The question or the dialog on the screen.
    pub(super) fn front(&self) -> Option<&Ask> {
        self.questions.front().map(|question| &question.ask).or_else(|| self.dialogs.front())
    }

    /// True if the server asks something, which comes before all dialogs.
    pub(super) fn has_question(&self) -> bool {
        !self.questions.is_empty()
    }

    pub(super) fn is_open(&self, id: &RequestId) -> bool {
        self.questions.iter().any(|question| question.id == *id)
    }

    pub(super) fn push_question(&mut self, id: RequestId, ask: Ask) {
        self.questions.push_back(Question { id, ask });
    }

    /// Offers a key to the question in front, which there is; returns its answer.
    pub(super) fn question_key(&mut self, key: Key, now: u64) -> Option<(RequestId, Answer)> {
        let answer = self.questions.front_mut()?.ask.key(key, now)?;
        let question = self.questions.pop_front()?;
        self.show_next(now);
        Some((question.id, answer))
    }

    /// Offers pasted text to the question in front. Returns whether there is one.
    pub(super) fn question_paste(&mut self, text: &str, now: u64) -> bool {
        let Some(question) = self.questions.front_mut() else { return false };
        question.ask.paste(text, now);
        true
    }

    /// The question was answered elsewhere. Returns whether it was open.
    pub(super) fn resolve(&mut self, id: &RequestId, now: u64) -> bool {
        let was_open = self.is_open(id);
        if was_open {
            self.questions.retain(|question| question.id != *id);
            self.show_next(now);
        }
        was_open
    }

    /// The server asks again what is still open.
    pub(super) fn clear_questions(&mut self) {
        self.questions.clear();
    }

    /// The next question is as new to the reader as the one before it was.
    fn show_next(&mut self, now: u64) {
        if let Some(next) = self.questions.front_mut() {
            next.ask.comes_to_front(now);
        }
    }

    pub(super) fn dialogs(&self) -> &Dialogs<A> {
        &self.dialogs
    }

    pub(super) fn dialogs_mut(&mut self) -> &mut Dialogs<A> {
        &mut self.dialogs
    }
}
