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
    /// Instead of the thread's own.
    pub(crate) model: Option<String>,
    /// What is reviewed, for people.
    subject: String,
    /// The last thing that the model said.
    pub(crate) text: Option<String>,
    /// What the user added meanwhile.
    pub(crate) added: Vec<Fragment>,
}

impl Machine {
    /// `review/start`.
    pub(crate) fn review(
        &mut self,
        reply: u64,
        subject: String,
        prompt: &str,
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
        history.push(Fragment::kept(history::message("user", prompt)));
        let review =
            Review { history, model, subject: subject.clone(), text: None, added: Vec::new() };
        let view = self.new_turn();
        let turn = self.begin_turn(
            reply,
            Turn { again: true, ..Turn::new(view, Kind::Review(Box::new(review))) },
        );
        self.store_repairs(&turn);
        self.preview_text(&subject);
        let item = Item::EnteredReviewMode { id: self.ids.item(), review: subject };
        self.item_started(&turn, item.clone());
        self.item_completed(&turn, item);
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
        let Review { subject, text, added, .. } = review;
        let text = result(text.map(review_findings::text), status, error);
        let item = Item::ExitedReviewMode { id: self.ids.item(), review: text.clone() };
        self.item_started(turn, item.clone());
        self.item_completed(turn, item);
        let asked = format!("<review_request>\nReview of {subject}.\n</review_request>");
        let mut fragments = vec![Fragment::passing(history::message("user", &asked))];
        fragments.extend(added);
        fragments.push(Fragment::passing(history::said(&text)));
        self.history.extend(fragments.iter().cloned());
        self.persist(Record::History { turn: Some(turn.clone()), fragments });
    }
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
