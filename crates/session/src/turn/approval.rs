//! Who decides about an approval: the clients, or a reviewer in the user's place.

use super::Turn;
use crate::approvals::{ApprovalRequest, UserWords};
use crate::port::effect::Effect;
use crate::thread::Thread;

/// To whom a request was put.
pub(crate) enum Put {
    /// The clients are asked.
    ToClients,
    /// A reviewer is asked.
    ToReviewer,
    /// It is refused at once, for this reason.
    Refused(String),
}

impl Turn {
    /// Puts a request to who decides about it.
    pub(crate) fn put(&self, request: ApprovalRequest, thread: &mut Thread) -> Put {
        let settings = thread.configuration.settings();
        if settings.reviewer.is_user() {
            let ApprovalRequest { number, item, ask, .. } = request;
            thread.cx.show_approval();
            let (turn, at) = (self.view.id.clone(), thread.cx.now);
            thread.cx.push(Effect::Ask { request: number, turn, item, ask, at });
            return Put::ToClients;
        }
        // What the model has not seen yet is the newest that the user wrote.
        let history = thread.conversation.history().fragments().iter().chain(&self.pending);
        let goal = thread.goal.goal().map(|goal| goal.objective.as_str());
        let words = UserWords::new(history, goal).under(thread.approvals.root_words());
        let Thread { approvals, cx, .. } = thread;
        match approvals.review(request, &self.view.id, settings, &words, cx) {
            Ok(()) => Put::ToReviewer,
            Err(reason) => Put::Refused(reason),
        }
    }
}
