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
        let words = self.words_for_reviewers(thread);
        let Thread { approvals, cx, .. } = thread;
        match approvals.review(request, &self.view.id, settings, &words, cx) {
            Ok(()) => Put::ToReviewer,
            Err(reason) => Put::Refused(reason),
        }
    }

    /// What the user wrote until now in the thread, and in that at the root of the tree.
    pub(crate) fn words_for_reviewers(&self, thread: &Thread) -> UserWords {
        // What the model has not seen yet is the newest.
        thread.user_words(&self.pending).under(thread.approvals.root_words())
    }
}
