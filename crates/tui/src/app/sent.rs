//! The messages that were sent: those whose call is open, and those of which it is not known whether the server
//! has them, since the connection was lost.

use std::collections::BTreeMap;

use crate::composer::Draft;

/// Number of a message whose call is open.
pub(super) type Sending = u64;

/// Messages on their way to the server.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Those whose call is open, in the order in which they were sent.
    open: BTreeMap<Sending, Draft>,
    next: Sending,
    unanswered: Vec<Draft>,
}

impl Sent {
    /// Keeps a message until its call is answered.
    pub(super) fn add(&mut self, draft: Draft) -> Sending {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, draft);
        number
    }

    /// The call is answered.
    pub(super) fn answered(&mut self, number: Sending) -> Option<Draft> {
        self.open.remove(&number)
    }

    /// The connection is lost: what was sent last may have been received or not. It is not sent again.
    pub(super) fn connection_lost(&mut self) {
        self.unanswered.extend(std::mem::take(&mut self.open).into_values());
    }

    /// The server has a message with this text.
    pub(super) fn received(&mut self, text: &str) {
        if let Some(at) = self.unanswered.iter().position(|draft| draft.text == text) {
            self.unanswered.remove(at);
        }
    }

    /// Those of which it is not known whether the server has them.
    pub(super) fn unanswered(&self) -> &[Draft] {
        &self.unanswered
    }

    /// Takes out what the server turned out not to have.
    pub(super) fn take_unanswered(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.unanswered)
    }

    /// All of them.
    pub(super) fn drafts(&self) -> impl Iterator<Item = &Draft> {
        self.unanswered.iter().chain(self.open.values())
    }
}
