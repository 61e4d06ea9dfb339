//! Reviews: a turn with a conversation of its own, in which the model judges a change. The thread's
//! history gets what was asked and the result, not the way there.

use std::sync::{Arc, LazyLock};

use super::review_findings;
use crate::history::{self, History};
use crate::port::event::{TurnError, TurnStatus};
use crate::port::fragment::Fragment;
use crate::port::item::Item;
use crate::thread::Thread;
use crate::{Id, context};

/// A review that is under way.
pub(crate) struct Review {
    history: History,
    /// True if its prompt arrived: the model is asked then.
    has_prompt: bool,
    /// In place of the thread's own.
    model: Option<String>,
    /// The subject of the review, for people.
    subject: String,
    /// The model's last message.
    text: Option<String>,
}

impl Review {
    /// A review of `subject`, whose prompt may come later.
    pub(crate) fn new(
        subject: String,
        prompt: Option<&str>,
        model: Option<String>,
        thread: &Thread,
    ) -> Self {
        let configuration = &thread.configuration;
        let introduction = context::introduction(configuration.context(), configuration.settings());
        let mut history = History::new(introduction);
        history.extend(prompt.map(request));
        Self { history, has_prompt: prompt.is_some(), model, subject, text: None }
    }

    pub(crate) fn has_prompt(&self) -> bool {
        self.has_prompt
    }

    /// Takes the prompt.
    pub(crate) fn set_prompt(&mut self, prompt: &str) {
        self.history.push(request(prompt));
        self.has_prompt = true;
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// Gives the reviewer's model project documents that it does not have.
    pub(crate) fn add_documents(&mut self, documents: Vec<Fragment>) {
        for document in documents {
            if self.history.fragments().iter().all(|known| known.text != document.text) {
                self.history.push(document);
            }
        }
    }

    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    pub(crate) fn model(&self) -> Option<&String> {
        self.model.as_ref()
    }

    /// Keeps the model's last message.
    pub(crate) fn set_text(&mut self, text: String) {
        self.text = Some(text);
    }

    /// Shows the result, and adds it to the thread's history.
    pub(crate) fn leave(
        self,
        turn: &Id,
        status: TurnStatus,
        error: Option<&TurnError>,
        thread: &mut Thread,
    ) {
        let Self { subject, text, .. } = self;
        let said = text.map(review_findings::read);
        let (text, findings) = said.map_or((None, None), |said| (Some(said.text), said.findings));
        let findings = findings.filter(|_| status == TurnStatus::Completed);
        let text = result(text, status, error);
        let (id, review) = (thread.cx.item_id(), text.clone());
        let item = Item::ExitedReviewMode { id, review, findings };
        thread.cx.whole_item(turn, item);
        let request = format!("<review_request>\nReview of {subject}.\n</review_request>");
        let fragments =
            [history::message("user", &request), history::said(&text)].map(Fragment::summarized);
        thread.conversation.remember(Some(turn), fragments.into(), &mut thread.cx);
    }
}

fn request(prompt: &str) -> Fragment {
    Fragment::kept(history::message("user", prompt))
}

/// The text of a review: its result, or why it has none and the model's last message.
fn result(said: Option<String>, status: TurnStatus, error: Option<&TurnError>) -> String {
    let ended = match (status, error) {
        (TurnStatus::Completed, _) => match said {
            Some(said) => return said,
            None => "The review ended before there was a result.".to_owned(),
        },
        (_, Some(error)) => {
            format!("The review failed before there was a result: {}", error.message)
        }
        (_, None) => "The review was interrupted before there was a result.".to_owned(),
    };
    match said {
        Some(said) => format!("{ended}\n\nThe last message on the way:\n\n{said}"),
        None => ended,
    }
}

/// Instructions of the model that reviews.
pub(crate) fn instructions() -> Arc<str> {
    static TEXT: LazyLock<Arc<str>> =
        LazyLock::new(|| include_str!("review_instructions.md").into());
    TEXT.clone()
}
