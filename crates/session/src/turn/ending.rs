//! The end of a turn: what still runs is stopped, and the end is stored and reported in one place.

use super::{Kind, Request, Turn};
use crate::Id;
use crate::port::effect::{Answer, Effect, Record};
use crate::port::event::{Event, Status, TurnError, TurnStatus};
use crate::port::model::Failure;
use crate::processes::AfterExit;
use crate::sample::Closed;
use crate::thread::{Phase, Thread};

/// The end of a turn.
pub(super) struct Ending {
    status: TurnStatus,
    error: Option<TurnError>,
}

/// A turn that is over.
pub(crate) struct Ended {
    pub(crate) id: Id,
    pub(crate) status: TurnStatus,
    /// True if the model called a tool.
    pub(crate) made_calls: bool,
}

impl Turn {
    /// Returns whether the turn is ending.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns whether nothing is left to wait for before the turn's end.
    pub(crate) fn can_finish(&self) -> bool {
        self.ending.is_some() && !self.calls.is_applying()
    }

    /// Stops the turn for a caller, who is answered when it is over.
    pub(crate) fn interrupt(&mut self, reply: u64, thread: &mut Thread) {
        if self.interrupters.len() >= thread.cx.limits.pending_inputs {
            return thread.cx.refuse(reply, "the turn is being interrupted already");
        }
        self.interrupters.push(reply);
        if !self.is_ending() {
            self.run_interrupt_hooks(thread);
        }
        self.end(TurnStatus::Interrupted, None, thread);
    }

    /// While the thread drains: ends the turn where nothing is cut short. A pending
    /// question also counts as such a point: the user may never answer.
    pub(crate) fn end_at_safe_point(&mut self, thread: &mut Thread) {
        let is_streaming = matches!(self.request, Request::Streaming(_));
        let is_busy = is_streaming || thread.processes.run_for_user(&self.view.id);
        if thread.phase == Phase::Draining && !is_busy && !self.calls.are_working() {
            self.end(TurnStatus::Interrupted, None, thread);
        }
    }

    /// Ends the turn for a failure that no retry helps.
    pub(crate) fn fail(&mut self, failure: impl Into<Failure>, thread: &mut Thread) {
        self.end(TurnStatus::Failed, Some(failure.into().into()), thread);
    }

    /// Begins the turn's end: what still runs is stopped at once. A patch that is being applied is
    /// waited for, because it is never cut in half; see [`Turn::can_finish`].
    pub(crate) fn end(
        &mut self,
        status: TurnStatus,
        error: Option<TurnError>,
        thread: &mut Thread,
    ) {
        if self.is_ending() {
            return;
        }
        let why = match &error {
            Some(error) => error.message.clone(),
            None => "the turn was interrupted".to_owned(),
        };
        self.ending = Some(Ending { status, error });
        let id = self.view.id.clone();
        if let Request::Streaming(sample) = std::mem::replace(&mut self.request, Request::None) {
            thread.cx.push(Effect::CancelSample { sample: sample.number() });
            sample.close(Closed::Over(&why), &mut thread.cx);
        }
        self.close_unfinished(thread);
        self.hooks.cancel(&mut thread.cx);
        self.skill_needs.abandon(&id, &why, &mut thread.cx);
        self.drop_compaction(&why, thread);
        thread.approvals.close_prompts(&mut thread.cx);
        self.calls.abandon(&id, status, &why, &mut thread.cx);
        let is_completed = status == TurnStatus::Completed;
        for process in thread.processes.ending_with(&id, is_completed) {
            let exit = thread.processes.kill(process, &mut thread.cx);
            if let Some(AfterExit::TellUserCommand(item)) = exit {
                self.user_command_ended(&item, thread);
            }
        }
        if !is_completed {
            thread.processes.stop_waiting();
        }
        thread.processes.end_with_turn(&mut thread.cx);
        if self.calls.is_applying() {
            self.show_waiting(thread);
        }
    }

    /// The end itself: the callers that interrupted are answered, and the end is reported.
    pub(crate) fn finish(mut self, thread: &mut Thread) -> Ended {
        let Ending { status, error } =
            self.ending.take().unwrap_or(Ending { status: TurnStatus::Interrupted, error: None });
        let id = self.view.id.clone();
        let mut outputs = self.calls.take_outputs();
        outputs.extend(self.hooks.take_context());
        outputs.extend(self.skill_needs.take_notes());
        match std::mem::replace(&mut self.kind, Kind::Compaction) {
            Kind::Review(review) => review.leave(&id, status, error.as_ref(), thread),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => {
                thread.conversation.remember(Some(&self.received), outputs, &mut thread.cx);
                self.receive_pending(thread);
            }
        }
        for reply in self.interrupters {
            thread.cx.reply(reply, Answer::Interrupted);
        }
        for mut view in std::iter::once(self.view).chain(self.joined) {
            if let Some(error) = &error {
                let (turn, error) = (view.id.clone(), error.clone());
                thread.cx.emit(Event::Error { turn, error, retry: None });
            }
            view.status = status;
            view.error.clone_from(&error);
            view.completed_at = Some(thread.cx.now);
            thread.cx.persist(Record::TurnFinished { view: view.clone(), status });
            thread.cx.emit(Event::TurnCompleted(view));
        }
        thread.configuration.end_turn_grants();
        let failed = status == TurnStatus::Failed;
        thread.cx.set_status(if failed { Status::SystemError } else { Status::Idle });
        thread.cx.push(Effect::TurnEnded { turn: id.clone() });
        Ended { id, status, made_calls: self.made_calls }
    }
}
