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
    subject: Subject,
    ask: Ask,
}

/// The subject of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) thread: Option<String>,
    pub(super) turn: Option<String>,
    pub(super) item: Option<String>,
}

/// The answer to a question.
pub(super) struct Answered {
    pub(super) id: RequestId,
    pub(super) subject: Subject,
    pub(super) answer: Answer,
    /// Text that was typed meanwhile and belongs to the message.
    pub(super) words: String,
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

    pub(super) fn push_question(&mut self, id: RequestId, subject: Subject, ask: Ask) {
        self.questions.push_back(Question { id, subject, ask });
    }

    /// True if a question is open about this item.
    pub(super) fn is_about(&self, item: &str) -> bool {
        self.questions.iter().any(|question| question.subject.item.as_deref() == Some(item))
    }

    /// Offers a key to the question in front, which there is; returns its answer.
    pub(super) fn question_key(&mut self, key: Key, now: u64) -> Option<Answered> {
        let answer = self.questions.front_mut()?.ask.key(key, now)?;
        self.answered(answer, now)
    }

    /// The answer of a letter after which nothing was typed.
    pub(super) fn question_settled(&mut self, now: u64) -> Option<Answered> {
        let answer = self.questions.front_mut()?.ask.settle(now)?;
        self.answered(answer, now)
    }

    fn answered(&mut self, answer: Answer, now: u64) -> Option<Answered> {
        let Question { id, subject, mut ask } = self.questions.pop_front()?;
        self.show_next(now);
        Some(Answered { id, subject, answer, words: ask.take_words() })
    }

    /// When a letter answers, in milliseconds.
    pub(super) fn settles_at(&self) -> Option<u64> {
        self.front()?.settles_at()
    }

    /// Offers pasted text to the question in front. Returns whether there is one.
    pub(super) fn question_paste(&mut self, text: &str, now: u64) -> bool {
        let Some(question) = self.questions.front_mut() else { return false };
        question.ask.paste(text, now);
        true
    }

    /// The question was answered elsewhere. If it was open, returns what was typed meanwhile.
    pub(super) fn resolve(&mut self, id: &RequestId, now: u64) -> Option<String> {
        let at = self.questions.iter().position(|question| question.id == *id)?;
        let words = self.questions.remove(at)?.ask.take_words();
        if at == 0 {
            self.show_next(now);
        }
        Some(words)
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
