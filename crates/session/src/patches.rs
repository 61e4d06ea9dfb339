//! Patches: decided, applied with nothing beside them, reported.

use crate::approvals::{self, Ask, Verdict};
use crate::calls::CallState;
use crate::effect::Effect;
use crate::event::Event;
use crate::input::PatchPlan;
use crate::item::{Item, ItemStatus};
use crate::machine::Machine;
use crate::planning::CHANGES_NOTHING;
use crate::turn::closed_item;
use crate::{Id, output};

impl Machine {
    /// A command turned out to be a patch. When anything runs beside it, or comes before it, it
    /// goes back into the queue and is looked at again when it is alone: by then the files may
    /// have changed.
    pub(crate) fn found_patch(&mut self, turn: &Id, number: u64, plan: PatchPlan) {
        let calls = self.turn.as_ref().map(|turn| turn.calls.as_slice()).unwrap_or_default();
        let is_alone = calls.iter().all(|call| {
            let queued_behind = call.number > number && matches!(call.state, CallState::Queued);
            call.number == number || call.is_done() || queued_behind
        });
        if is_alone {
            return self.decide_patch(turn, number, plan);
        }
        self.effect(Effect::Discard { call: number });
        if let Some(call) = self.find_call(number) {
            call.hides_patch = true;
            call.state = CallState::Queued;
        }
        self.pump(turn);
    }

    pub(crate) fn decide_patch(&mut self, turn: &Id, number: u64, plan: PatchPlan) {
        let id = self.ids.item();
        let changes = plan.changes.clone();
        let item = Item::FileChange { id, changes, status: ItemStatus::InProgress, reason: None };
        let verdict = approvals::patch(&self.settings, &self.grants, &plan);
        let Some(call) = self.find_call(number) else { return };
        call.item = Some(item.clone());
        call.plan = Some(plan);
        self.begin_item(turn, item);
        match verdict {
            Verdict::Run { .. } => self.apply(turn, number),
            Verdict::Refuse(message) => {
                self.effect(Effect::Discard { call: number });
                self.decline(turn, number, message);
            }
            Verdict::Fail(message) => {
                self.effect(Effect::Discard { call: number });
                self.fail_item(turn, number, message);
            }
            Verdict::Ask { reason, unsandboxed } => {
                self.ask(turn, number, unsandboxed, Ask::Patch { reason });
            }
        }
    }

    pub(crate) fn apply(&mut self, turn: &Id, number: u64) {
        // While the user was asked, the mode may have changed.
        if self.is_planning() {
            self.effect(Effect::Discard { call: number });
            return self.fail_item(turn, number, CHANGES_NOTHING.to_owned());
        }
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Applying;
        self.effect(Effect::Apply { call: number, turn: turn.clone() });
    }

    pub(crate) fn applied(&mut self, number: u64, outcome: Result<String, String>) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some(call) = self.find_call(number) else { return };
        if !matches!(call.state, CallState::Applying) {
            return;
        }
        let Some(item) = call.item.take() else { return };
        let names = changed_names(&item);
        let (item, text, diff) = match outcome {
            Ok(diff) => {
                let item = closed_item(item, ItemStatus::Completed, None);
                (item, format!("Patch applied.\n{names}"), Some(diff))
            }
            Err(message) => (closed_item(item, ItemStatus::Failed, Some(&message)), message, None),
        };
        self.item_completed(&turn, item);
        if let Some(diff) = diff {
            self.emit(Event::DiffUpdated { turn, diff });
        }
        if self.turn.as_ref().is_some_and(|turn| turn.ending.is_some()) {
            self.answer_last(number, text);
            return self.finish();
        }
        self.answer(number, text);
    }
}

fn changed_names(item: &Item) -> String {
    let Item::FileChange { changes, .. } = item else { return String::new() };
    let names: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    output::shorten(&names.join("\n"), 4_000)
}
