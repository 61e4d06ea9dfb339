//! The one end of a turn: what still runs is stopped at once, a patch that is being applied is
//! waited for, then callers and subscribers are told.

use crate::Id;
use crate::calls::{Call, CallState};
use crate::effect::{Answer, Effect, Record};
use crate::event::{Event, Status, TurnError, TurnStatus};
use crate::history::Fragment;
use crate::input::{Failure, FailureKind};
use crate::item::{Item, ItemStatus};
use crate::machine::Machine;
use crate::turn::{Kind, closed_item};

impl Machine {
    /// Ends the turn for a failure that no retry helps.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.end(TurnStatus::Failed, Some(failure.into()));
    }

    /// The last turn ended, but its end could not be stored: it has failed.
    pub fn turn_failed_to_end(&mut self) {
        if self.status == Status::Idle {
            self.status = Status::SystemError;
        }
    }

    pub(crate) fn store_failed(&mut self, message: String) {
        self.fail(Failure::new(FailureKind::InternalServerError, message));
    }

    /// Ends the turn and every command; no turn starts after it.
    pub(crate) fn shutdown(&mut self) {
        self.closed = true;
        self.end(TurnStatus::Interrupted, None);
        self.end_processes(|_, _| true);
    }

    /// No turn starts any more; the running one ends soon.
    pub(crate) fn drain(&mut self) {
        self.closed = true;
        self.draining = true;
    }

    /// While the thread drains: ends the turn where nothing is cut short. Whoever is asked something
    /// just now may take for ever to answer, so that is such a point too.
    pub(crate) fn end_at_safe_point(&mut self) {
        if !self.draining {
            return;
        }
        let Some(turn) = &self.turn else { return };
        let works =
            |call: &Call| matches!(call.state, CallState::Applying | CallState::Waiting { .. });
        let busy = turn.sample.is_some() || turn.awaited().is_some();
        if !busy && !turn.calls.iter().any(works) {
            self.end(TurnStatus::Interrupted, None);
        }
    }

    /// Ends the turn. A patch that is being applied is waited for: it is never cut in half.
    pub(crate) fn end(&mut self, status: TurnStatus, error: Option<TurnError>) {
        let Some(turn) = &mut self.turn else { return };
        if turn.ending.is_some() {
            return;
        }
        let why = match &error {
            Some(error) => error.message.clone(),
            None => "the turn was interrupted".to_owned(),
        };
        turn.ending = Some((status, error));
        let id = turn.view.id.clone();
        let sample = turn.sample.take();
        let mut calls = std::mem::take(&mut turn.calls);
        if let Some(sample) = sample {
            self.effect(Effect::CancelSample { sample: sample.number });
            self.close_sample(&id, sample, &why);
        }
        self.drop_compaction(&id, &why);
        self.close_network_prompts();
        for call in &mut calls {
            self.abandon(&id, call, status, &why);
        }
        if let Some(turn) = &mut self.turn {
            turn.calls = calls;
        }
        if status != TurnStatus::Completed {
            self.end_processes(|_, process| process.turn == id);
            self.stop_waiting();
        }
        self.finish();
    }

    /// The end itself, once no patch is being applied any more.
    pub(crate) fn finish(&mut self) {
        let Some(turn) = &self.turn else { return };
        if turn.calls.iter().any(|call| matches!(call.state, CallState::Applying)) {
            return self.show_waiting();
        }
        let Some(mut turn) = self.turn.take() else { return };
        let Some((status, error)) = turn.ending.take() else { return };
        let id = turn.view.id.clone();
        let outputs: Vec<Fragment> =
            std::mem::take(&mut turn.calls).into_iter().filter_map(Call::into_fragment).collect();
        match std::mem::replace(&mut turn.kind, Kind::Ordinary) {
            Kind::Review(review) => self.leave_review(&id, *review, status, error.as_ref()),
            _ => {
                self.remember(&id, outputs);
                self.history.extend(std::mem::take(&mut turn.pending));
            }
        }
        for reply in turn.interrupters {
            self.effect(Effect::Reply { reply, result: Ok(Answer::Interrupted) });
        }
        for mut view in std::iter::once(turn.view).chain(turn.joined) {
            if let Some(error) = &error {
                let (turn, error) = (view.id.clone(), error.clone());
                self.emit(Event::Error { turn, error, will_retry: false });
            }
            view.status = status;
            view.error.clone_from(&error);
            view.completed_at = Some(self.now);
            self.persist(Record::TurnFinished { view: view.clone(), status });
            self.emit(Event::TurnCompleted(view));
        }
        let failed = status == TurnStatus::Failed;
        self.set_status(if failed { Status::SystemError } else { Status::Idle });
        self.effect(Effect::TurnEnded { turn: id.clone() });
        self.goal_after_turn(&id, status, turn.made_calls);
    }

    /// Closes a call that will not finish, and answers it; but a patch that is being applied.
    fn abandon(&mut self, turn: &Id, call: &mut Call, status: TurnStatus, why: &str) {
        if matches!(call.state, CallState::Applying) {
            return;
        }
        let asking = matches!(call.state, CallState::Asking { .. });
        if let CallState::Asking { request, .. } | CallState::AtClient { request, .. } = call.state
        {
            self.emit(Event::RequestResolved { request });
        }
        if asking || matches!(call.state, CallState::Preparing) {
            self.effect(Effect::Discard { call: call.number });
        }
        let since = match call.state {
            CallState::AtClient { since, .. } => Some(since),
            _ => None,
        };
        if let Some(item) = call.item.take() {
            let declined = status == TurnStatus::Interrupted && asking;
            let ended = if declined { ItemStatus::Declined } else { ItemStatus::Failed };
            let mut item = closed_item(item, ended, (!declined).then_some(why));
            if let (Item::DynamicCall(call), Some(since)) = (&mut item, since) {
                call.duration_ms = Some((self.now - since).max(0));
            }
            self.item_completed(turn, item);
        }
        call.abort();
    }
}
