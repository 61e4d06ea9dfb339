//! Actions that a review refused, and those of them that the user approved afterwards. Kept in
//! memory: they end with the loaded thread.

use std::collections::VecDeque;

use super::action::Action;
use crate::port::auto_review::ReviewedAction;
use crate::{Id, Millis};

/// Refused actions that can still be approved; the oldest is forgotten.
const MAX_DENIED: usize = 32;
/// Bytes of their texts together; the oldest are forgotten.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// How long an action can be approved after its refusal, and how long that approval holds.
const LIFETIME: Millis = 60 * 60 * 1000;

/// See the module.
#[derive(Default)]
pub(super) struct DeniedActions(VecDeque<DeniedAction>);

struct DeniedAction {
    review: Id,
    action: Action,
    state: State,
    until: Millis,
}

#[derive(PartialEq)]
enum State {
    /// The review refused it.
    Denied,
    /// The user approved it: it may run once.
    Approved,
}

impl DeniedActions {
    pub(super) fn add(&mut self, review: Id, action: Action, now: Millis) {
        let until = now.saturating_add(LIFETIME);
        self.0.push_back(DeniedAction { review, action, state: State::Denied, until });
        let bytes = |all: &VecDeque<DeniedAction>| -> usize {
            all.iter().map(|denied| denied.action.text.len()).sum()
        };
        while self.0.len() > MAX_DENIED || bytes(&self.0) > MAX_BYTES {
            // What the user approved stays until it is used, unless everything was approved.
            let oldest = self.0.iter().position(|denied| denied.state == State::Denied);
            self.0.remove(oldest.unwrap_or(0));
        }
    }

    /// The user approves what the review with this id refused.
    pub(super) fn approve(
        &mut self,
        review: &str,
        shown: &ReviewedAction,
        now: Millis,
    ) -> Result<(), String> {
        self.0.retain(|denied| denied.until > now);
        let Some(denied) = self.0.iter_mut().find(|denied| &*denied.review == review) else {
            return Err(format!(
                "there is no refused action of the review `{review}`: approvals are possible for an \
                 hour, while the thread stays loaded, and each once; let the agent try again"
            ));
        };
        if denied.action.shown != *shown {
            return Err(format!("the action is not the one that the review `{review}` refused"));
        }
        if denied.state == State::Approved {
            return Err(format!("the action of the review `{review}` is approved already"));
        }
        denied.state = State::Approved;
        denied.until = now.saturating_add(LIFETIME);
        Ok(())
    }

    /// Uses up the approval of exactly this action, if there is one.
    pub(super) fn take_approved(&mut self, action: &Action, now: Millis) -> bool {
        let is_it = |denied: &DeniedAction| {
            denied.state == State::Approved && denied.until > now && denied.action == *action
        };
        let Some(at) = self.0.iter().position(is_it) else { return false };
        self.0.remove(at);
        true
    }
}
