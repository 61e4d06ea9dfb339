//! Reviews: a turn with a conversation of its own, in which the model judges a change. The thread's
//! history gets what was asked and what came of it, not the way there.

use std::sync::{Arc, LazyLock};

use crate::Id;
use crate::context;
use crate::effect::Record;
use crate::event::{TurnError, TurnStatus};
use crate::history::{self, Fragment, History};
use crate::item::Item;
use crate::machine::Machine;
use crate::review_findings;
use crate::turn::{Kind, Turn};

/// A review that is under way.
pub(crate) struct Review {
    pub(crate) history: History,
    /// Whether its prompt is here: the model is asked then.
    pub(crate) has_prompt: bool,
    /// Instead of the thread's own.
    pub(crate) model: Option<String>,
    /// What is reviewed, for people.
    subject: String,
    /// The last thing that the model said.
    pub(crate) text: Option<String>,
}

impl Machine {
    /// `review/start`.
    pub(crate) fn review(
        &mut self,
        reply: u64,
        subject: String,
        prompt: Option<String>,
        model: Option<String>,
    ) {
        if self.turn.is_some() {
            let message = "a turn is running; wait for its end, or interrupt it, then review";
            return self.refuse(reply, message.into());
        }
        if self.closed {
            return self.refuse(reply, "the server is shutting down".into());
        }
        let mut history = History::new(context::introduction(&self.context, &self.settings));
        let has_prompt = prompt.is_some();
        history.extend(prompt.as_deref().map(asked));
        let review = Review { history, has_prompt, model, subject: subject.clone(), text: None };
        let view = self.new_turn();
        let turn = self.begin_turn(
            reply,
            Turn { again: has_prompt, ..Turn::new(view, Kind::Review(Box::new(review))) },
        );
        self.store_repairs(&turn);
        self.preview_text(&subject);
        let item = Item::EnteredReviewMode { id: self.ids.item(), review: subject };
        self.item_started(&turn, item.clone());
        self.item_completed(&turn, item);
        self.advance();
    }

    /// Takes what the model of the running review is told.
    pub(crate) fn review_prompt(&mut self, turn: &str, prompt: &str) {
        let Some(running) = &mut self.turn else { return };
        if !running.answers_to(turn) || running.ending.is_some() || !running.awaits_prompt() {
            return;
        }
        let Some(review) = running.review_mut() else { return };
        review.history.push(asked(prompt));
        review.has_prompt = true;
        running.again = true;
        self.advance();
    }

    /// Shows what came of a review, and tells the thread's model of it.
    pub(crate) fn leave_review(
        &mut self,
        turn: &Id,
        review: Review,
        status: TurnStatus,
        error: Option<&TurnError>,
    ) {
        let Review { subject, text, .. } = review;
        let text = result(text.map(review_findings::text), status, error);
        let item = Item::ExitedReviewMode { id: self.ids.item(), review: text.clone() };
        self.item_started(turn, item.clone());
        self.item_completed(turn, item);
        let asked = format!("<review_request>\nReview of {subject}.\n</review_request>");
        let fragments =
            [history::message("user", &asked), history::said(&text)].map(Fragment::passing);
        let fragments = Vec::from(fragments);
        self.history.extend(fragments.iter().cloned());
        self.persist(Record::History { turn: Some(turn.clone()), fragments });
    }
}

fn asked(prompt: &str) -> Fragment {
    Fragment::kept(history::message("user", prompt))
}

/// The text of a review: its result, or why there is none and what was said on the way.
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
