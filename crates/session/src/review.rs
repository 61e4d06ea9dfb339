//! Reviews: a turn with a conversation of its own, in which the model judges a change. The thread's
//! history gets what was asked and what came of it, not the way there.

use std::sync::{Arc, LazyLock};

use crate::Id;
use crate::context;
use crate::effect::Record;
use crate::history::{self, Fragment, History};
use crate::item::Item;
use crate::machine::Machine;
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
    pub(crate) fn leave_review(&mut self, turn: &Id, review: Review) {
        let Review { subject, text, added, .. } = review;
        let text = text.unwrap_or_else(|| "The review ended before there was a result.".into());
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

/// Instructions of the model that reviews.
pub(crate) fn instructions() -> Arc<str> {
    static TEXT: LazyLock<Arc<str>> =
        LazyLock::new(|| include_str!("review_instructions.md").into());
    TEXT.clone()
}
