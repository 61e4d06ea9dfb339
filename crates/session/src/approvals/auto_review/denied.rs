//! Actions that a review refused, and those of them that the user approved afterwards. A refused one
//! can be approved while the thread stays loaded. An approval is stored with the thread until it is
//! used.

use std::collections::VecDeque;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::action::Action;
use crate::cx::Cx;
use crate::port::auto_review::{ApprovedAction, ReviewedAction};
use crate::port::effect::Record;
use crate::{Id, Millis};

/// Refused actions that can still be approved; the oldest is forgotten.
const MAX_DENIED: usize = 32;
/// Bytes of their texts together; the oldest are forgotten.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Approved actions that have not run; one more is not approved.
const MAX_APPROVED: usize = 32;
/// Time after a refusal in which an action can be approved, and time for which that approval holds.
const LIFETIME: Millis = 60 * 60 * 1000;

/// The refused actions, and the approved ones.
#[derive(Default)]
pub(super) struct DeniedActions {
    denied: VecDeque<DeniedAction>,
    /// As stored.
    approved: Vec<ApprovedAction>,
}

struct DeniedAction {
    review: Id,
    action: Action,
    until: Millis,
}

impl DeniedActions {
    pub(super) fn new(approved: Vec<ApprovedAction>) -> Self {
        Self { denied: VecDeque::new(), approved }
    }

    /// A review refused an action.
    pub(super) fn add(&mut self, review: Id, action: Action, now: Millis) {
        let until = now.saturating_add(LIFETIME);
        self.denied.push_back(DeniedAction { review, action, until });
        let bytes = |all: &VecDeque<DeniedAction>| -> usize {
            all.iter().map(|denied| denied.action.text.len()).sum()
        };
        while self.denied.len() > MAX_DENIED || bytes(&self.denied) > MAX_BYTES {
            self.denied.pop_front();
        }
    }

    /// The user approves what the review with this id refused.
    pub(super) fn approve(
        &mut self,
        review: &str,
        shown: &ReviewedAction,
        cx: &mut Cx,
    ) -> Result<(), String> {
        let now = cx.now;
        self.denied.retain(|denied| denied.until > now);
        self.approved.retain(|approved| approved.until > now);
        if self.approved.iter().any(|approved| approved.review == review) {
            return Err(format!("the action of the review `{review}` is approved already"));
        }
        let Some(at) = self.denied.iter().position(|denied| &*denied.review == review) else {
            return Err(format!(
                "there is no refused action of the review `{review}`: approvals are possible for an \
                 hour, while the thread stays loaded, and each once; let the agent try again"
            ));
        };
        if self.denied[at].action.shown != *shown {
            return Err(format!("the action is not the one that the review `{review}` refused"));
        }
        if self.approved.len() >= MAX_APPROVED {
            return Err(format!(
                "{MAX_APPROVED} approved actions have not run; let the agent run them first"
            ));
        }
        let until = now.saturating_add(LIFETIME);
        self.approved.extend(self.denied.remove(at).map(|denied| ApprovedAction {
            review: review.to_owned(),
            digest: digest(&denied.action),
            leaves_sandbox: denied.action.unsandboxed,
            until,
        }));
        self.store(cx);
        Ok(())
    }

    /// Uses up the approval of exactly this action, if there is one. It is used up in the store before
    /// the action runs, so that a crash cannot let it run twice.
    pub(super) fn take_approved(&mut self, action: &Action, cx: &mut Cx) -> bool {
        if self.approved.is_empty() {
            return false;
        }
        let (now, digest) = (cx.now, digest(action));
        let is_it = |approved: &ApprovedAction| {
            approved.until > now
                && approved.digest == digest
                && approved.leaves_sandbox == action.unsandboxed
        };
        let Some(at) = self.approved.iter().position(is_it) else { return false };
        self.approved.remove(at);
        self.store(cx);
        true
    }

    fn store(&self, cx: &mut Cx) {
        cx.persist(Record::ApprovedActions(self.approved.clone()));
    }
}

/// Names an action by what the reviewer saw of it.
fn digest(action: &Action) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(action.text.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
