//! The approval round of a call: the clients are asked, one answers, the call goes on or is over.

use crate::Id;
use crate::approvals::{Ask, Decision};
use crate::calls::CallState;
use crate::effect::Effect;
use crate::event::{Event, Status, TurnStatus};
use crate::item::ItemStatus;
use crate::machine::Machine;
use crate::planning::Reach;
use crate::turn::closed_item;

impl Machine {
    pub(crate) fn ask(&mut self, turn: &Id, number: u64, unsandboxed: bool, ask: Ask) {
        let request = self.number();
        let at = self.now;
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Asking { request, unsandboxed };
        let Some(item) = call.item.as_ref().map(|item| item.id().clone()) else { return };
        self.set_status(Status::Active { waiting_on_approval: true });
        self.effect(Effect::Ask { request, turn: turn.clone(), item, ask, at });
    }

    /// An answer of a client; the first one counts.
    pub(crate) fn decided(&mut self, request: u64, decision: Decision) {
        if self.network_decided(request, &decision) {
            return;
        }
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some((number, unsandboxed)) = self.asked(request) else { return };
        self.emit(Event::RequestResolved { request });
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Preparing;
        let is_patch = call.plan.is_some();
        match decision {
            Decision::Accept => {}
            Decision::AcceptForSession => self.grant(number, unsandboxed),
            Decision::AcceptWithAmendment(prefix) => self.amend(is_patch, prefix),
            Decision::Decline => return self.turn_down(&turn, number, None),
            Decision::Undecided(why) => return self.turn_down(&turn, number, Some(why)),
            Decision::Cancel => return self.cancel(&turn, number),
        }
        self.show_waiting();
        if is_patch {
            self.apply(&turn, number);
        } else {
            self.run(&turn, number, unsandboxed);
        }
    }

    /// The call that waits for the answer to `request`, and whether it leaves the sandbox.
    fn asked(&self, request: u64) -> Option<(u64, bool)> {
        self.turn.as_ref()?.calls.iter().find_map(|call| match call.state {
            CallState::Asking { request: asked, unsandboxed } if asked == request => {
                Some((call.number, unsandboxed))
            }
            _ => None,
        })
    }

    /// Patches have no prefix to allow, the empty prefix would allow everything, and plan mode allows
    /// nothing for later: all of these count as a plain yes.
    fn amend(&mut self, is_patch: bool, prefix: Vec<String>) {
        if !is_patch && !prefix.is_empty() && !self.is_planning() {
            let cwd = self.settings.cwd.clone();
            self.effect(Effect::Allow { cwd, prefix });
        }
    }

    /// Without a reason it is the user's own no.
    fn turn_down(&mut self, turn: &Id, number: u64, reason: Option<String>) {
        self.effect(Effect::Discard { call: number });
        self.close_declined(turn, number, reason.as_deref());
        self.show_waiting();
        self.answer(number, reason.unwrap_or_else(|| "the user declined this".into()));
    }

    fn cancel(&mut self, turn: &Id, number: u64) {
        self.effect(Effect::Discard { call: number });
        self.close_declined(turn, number, None);
        self.answer_last(number, "the user cancelled the turn".into());
        self.end(TurnStatus::Interrupted, None);
    }

    /// Shows whether any approval is pending.
    pub(crate) fn show_waiting(&mut self) {
        let calls = self.turn.as_ref().map(|turn| turn.calls.as_slice()).unwrap_or_default();
        let asks = calls.iter().any(|call| matches!(call.state, CallState::Asking { .. }));
        let waiting_on_approval = asks || !self.network.is_empty();
        self.set_status(Status::Active { waiting_on_approval });
    }

    fn grant(&mut self, number: u64, unsandboxed: bool) {
        let reach = Reach::of(self.settings.mode, unsandboxed);
        let calls = self.turn.as_ref().map(|turn| turn.calls.as_slice()).unwrap_or_default();
        let Some(call) = calls.iter().find(|call| call.number == number) else { return };
        if let Some(assessment) = &call.assessment {
            let identity = call
                .tool
                .as_ref()
                .map(|tool| tool.identity(assessment.normal_form.as_deref()))
                .unwrap_or_default();
            self.grants.allow_command(identity, &assessment.cwd, reach);
        }
        if let Some(plan) = &call.plan {
            self.grants.allow_changes(&plan.changes);
        }
    }

    /// Refused by policy: shown as declined with the reason, which the model gets too.
    pub(crate) fn decline(&mut self, turn: &Id, number: u64, message: String) {
        self.close_declined(turn, number, Some(&message));
        self.answer(number, message);
    }

    fn close_declined(&mut self, turn: &Id, number: u64, reason: Option<&str>) {
        let Some(item) = self.find_call(number).and_then(|call| call.item.take()) else { return };
        self.item_completed(turn, closed_item(item, ItemStatus::Declined, reason));
    }
}
