//! A turn from its start to its one end: starting, steering, interrupting, going on, finishing.

use std::sync::Arc;

use crate::Id;
use crate::calls::{Call, CallState};
use crate::effect::{Answer, Effect, Record, Refusal};
use crate::event::{Event, Status, TurnError, TurnStatus, TurnView};
use crate::history::{self, Fragment};
use crate::input::{Failure, FailureKind, same};
use crate::item::{Item, ItemStatus, UserContent};
use crate::machine::Machine;
use crate::sampling::Sample;
use crate::settings::Overrides;

/// The running turn.
pub(crate) struct Turn {
    pub(crate) view: TurnView,
    /// Turns that were started while this one ran: they end with it.
    pub(crate) joined: Vec<TurnView>,
    pub(crate) output_schema: Option<Arc<str>>,
    pub(crate) sample: Option<Sample>,
    /// Tries of the current request that failed.
    pub(crate) attempts: u32,
    /// The sample whose retry is being waited for.
    pub(crate) retry: Option<u64>,
    /// The model must be asked again though no call was made.
    pub(crate) again: bool,
    pub(crate) calls: Vec<Call>,
    /// Steering input that the model has not seen.
    pub(crate) pending: Vec<Fragment>,
    /// Set while the end waits for a patch that is being applied.
    pub(crate) ending: Option<(TurnStatus, Option<TurnError>)>,
}

impl Machine {
    pub(crate) fn start(
        &mut self,
        reply: u64,
        content: Vec<UserContent>,
        overrides: Overrides,
        output_schema: Option<Arc<str>>,
    ) {
        if content.is_empty() {
            return self.refuse(reply, "input must not be empty".into());
        }
        let view = TurnView {
            id: self.ids.turn(),
            status: TurnStatus::InProgress,
            error: None,
            started_at: self.now,
            completed_at: None,
        };
        self.override_settings(overrides);
        if self.turn.is_some() {
            return self.join(reply, content, view);
        }
        self.persist(Record::TurnStarted { turn: view.id.clone(), at: self.now });
        self.effect(Effect::Reply { reply, result: Ok(Answer::Started(view.clone())) });
        self.set_status(Status::Active { waiting_on_approval: false });
        self.emit(Event::TurnStarted(view.clone()));
        let turn = view.id.clone();
        self.turn = Some(Turn {
            view,
            joined: Vec::new(),
            output_schema,
            sample: None,
            attempts: 0,
            retry: None,
            again: true,
            calls: Vec::new(),
            pending: Vec::new(),
            ending: None,
        });
        self.introduce(&turn);
        self.preview(&content);
        let fragment = history::user_message(&content);
        self.remember(&turn, vec![fragment]);
        self.show_user_message(&turn, content);
        self.advance();
    }

    /// A turn started while another runs: its input joins that one, and it ends with it.
    fn join(&mut self, reply: u64, content: Vec<UserContent>, view: TurnView) {
        let full = self.pending_is_full();
        let Some(turn) = &mut self.turn else { return };
        if full || turn.ending.is_some() {
            return self.refuse(reply, "the running turn takes no more input".into());
        }
        turn.joined.push(view.clone());
        let joined = view.id.clone();
        self.persist(Record::TurnStarted { turn: joined.clone(), at: self.now });
        self.effect(Effect::Reply { reply, result: Ok(Answer::Started(view.clone())) });
        self.emit(Event::TurnStarted(view));
        self.add_pending(&joined, content);
    }

    pub(crate) fn steer(&mut self, reply: u64, content: Vec<UserContent>, expected: &str) {
        let Some(turn) = &self.turn else {
            return self.refuse(reply, "no active turn to steer".into());
        };
        if !turn.answers_to(expected) {
            let active = turn.view.id.clone();
            let message = format!("expected active turn id `{expected}` but found `{active}`");
            return self.refuse(reply, message);
        }
        if content.is_empty() {
            return self.refuse(reply, "input must not be empty".into());
        }
        if turn.ending.is_some() || self.pending_is_full() {
            return self.refuse(reply, "the running turn takes no more input".into());
        }
        let id = turn.view.id.clone();
        self.effect(Effect::Reply { reply, result: Ok(Answer::Steered { turn: id.clone() }) });
        self.add_pending(&id, content);
    }

    fn pending_is_full(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.pending.len() >= self.limits.pending_inputs)
    }

    /// Stored at once, seen by the model at its next request.
    fn add_pending(&mut self, turn: &Id, content: Vec<UserContent>) {
        let fragment = history::user_message(&content);
        self.persist(Record::History { turn: turn.clone(), fragments: vec![fragment.clone()] });
        if let Some(active) = &mut self.turn {
            active.pending.push(fragment);
        }
        self.show_user_message(turn, content);
    }

    fn show_user_message(&mut self, turn: &Id, content: Vec<UserContent>) {
        let item = Item::UserMessage { id: self.ids.item(), content };
        self.item_started(turn, item.clone());
        self.item_completed(turn, item);
    }

    fn preview(&mut self, content: &[UserContent]) {
        if self.previewed {
            return;
        }
        let text = content.iter().find_map(|part| match part {
            UserContent::Text(text) => Some(text.clone()),
            _ => None,
        });
        if let Some(text) = text {
            self.previewed = true;
            self.persist(Record::Preview(text));
        }
    }

    pub(crate) fn interrupt(&mut self, reply: u64, expected: &str) {
        let Some(turn) = &self.turn else {
            return self.refuse(reply, "no active turn to interrupt".into());
        };
        if !turn.answers_to(expected) {
            let active = turn.view.id.clone();
            let message = format!("expected active turn id `{expected}` but found `{active}`");
            return self.refuse(reply, message);
        }
        self.effect(Effect::Reply { reply, result: Ok(Answer::Interrupted) });
        self.end(TurnStatus::Interrupted, None);
    }

    fn refuse(&mut self, reply: u64, message: String) {
        self.effect(Effect::Reply { reply, result: Err(Refusal(message)) });
    }

    /// Goes on when nothing is being waited for: asks the model again, or ends the turn.
    pub(crate) fn advance(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if turn.sample.is_some() || turn.calls.iter().any(|call| !call.is_done()) {
            return;
        }
        let id = turn.view.id.clone();
        let calls = std::mem::take(&mut turn.calls);
        let again = std::mem::take(&mut turn.again) || !calls.is_empty();
        turn.again = again;
        let outputs: Vec<Fragment> = calls.into_iter().filter_map(Call::into_fragment).collect();
        self.remember(&id, outputs);
        let Some(turn) = &mut self.turn else { return };
        if turn.retry.is_some() {
            return;
        }
        if !turn.again && turn.pending.is_empty() {
            return self.end(TurnStatus::Completed, None);
        }
        turn.again = false;
        let pending = std::mem::take(&mut turn.pending);
        let output_schema = turn.output_schema.clone();
        self.history.extend(pending);
        self.introduce(&id);
        let number = self.number();
        let prompt = self.prompt(output_schema);
        if let Some(turn) = &mut self.turn {
            turn.sample = Some(Sample::new(number));
        }
        self.effect(Effect::Sample { sample: number, prompt });
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        let error = TurnError {
            message: failure.message,
            kind: failure.kind,
            http_status: failure.http_status,
        };
        self.end(TurnStatus::Failed, Some(error));
    }

    pub(crate) fn store_failed(&mut self, message: String) {
        let failure = Failure {
            kind: FailureKind::InternalServerError,
            message,
            http_status: None,
            retryable: false,
            retry_after_ms: None,
        };
        self.fail(failure);
    }

    pub(crate) fn shutdown(&mut self) {
        self.end(TurnStatus::Interrupted, None);
        for process in std::mem::take(&mut self.processes).into_keys() {
            self.effect(Effect::Kill { process });
        }
    }

    /// Ends the turn. A patch that is being applied is waited for: it is never cut in half.
    pub(crate) fn end(&mut self, status: TurnStatus, error: Option<TurnError>) {
        let Some(turn) = &mut self.turn else { return };
        if turn.calls.iter().any(|call| matches!(call.state, CallState::Applying)) {
            turn.ending.get_or_insert((status, error));
            return;
        }
        let Some(mut turn) = self.turn.take() else { return };
        let id = turn.view.id.clone();
        if let Some(sample) = turn.sample.take() {
            self.effect(Effect::CancelSample { sample: sample.number });
            self.close_sample(&id, sample);
        }
        let outputs = std::mem::take(&mut turn.calls)
            .into_iter()
            .filter_map(|call| self.abandon(&id, call, status))
            .collect();
        if status != TurnStatus::Completed {
            self.end_processes_of(&id);
        }
        self.remember(&id, outputs);
        self.history.append(&mut turn.pending);
        if let Some(error) = &error {
            let (turn, error) = (id.clone(), error.clone());
            self.emit(Event::Error { turn, error, will_retry: false });
        }
        for mut view in std::iter::once(turn.view).chain(turn.joined) {
            view.status = status;
            view.error.clone_from(&error);
            view.completed_at = Some(self.now);
            self.persist(Record::TurnFinished { view: view.clone(), status });
            self.emit(Event::TurnCompleted(view));
        }
        let failed = status == TurnStatus::Failed;
        self.set_status(if failed { Status::SystemError } else { Status::Idle });
        self.effect(Effect::TurnEnded { turn: id });
    }

    /// Closes a call that will not finish; gives the output that the history needs.
    fn abandon(&mut self, turn: &Id, mut call: Call, status: TurnStatus) -> Option<Fragment> {
        if let CallState::Asking { request, .. } = call.state {
            self.emit(Event::RequestResolved { request });
        }
        if matches!(call.state, CallState::Asking { .. } | CallState::Preparing) {
            self.effect(Effect::Discard { call: call.number });
        }
        if let Some(item) = call.item.take() {
            let declined =
                status == TurnStatus::Interrupted && matches!(call.state, CallState::Asking { .. });
            let ended = if declined { ItemStatus::Declined } else { ItemStatus::Failed };
            self.item_completed(turn, with_status(item, ended));
        }
        call.abort();
        call.into_fragment()
    }

    pub(crate) fn item_started(&mut self, turn: &Id, item: Item) {
        self.emit(Event::ItemStarted { turn: turn.clone(), item, at: self.now });
    }

    /// Stores the item, then tells that it is final.
    pub(crate) fn item_completed(&mut self, turn: &Id, item: Item) {
        self.persist(Record::Item { turn: turn.clone(), item: item.clone() });
        self.emit(Event::ItemCompleted { turn: turn.clone(), item, at: self.now });
    }
}

impl Turn {
    fn answers_to(&self, id: &str) -> bool {
        std::iter::once(&self.view).chain(&self.joined).any(|view| same(&view.id, id))
    }
}

/// `item` with its status replaced.
pub(crate) fn with_status(item: Item, ended: ItemStatus) -> Item {
    match item {
        Item::Command(command) => Item::Command(crate::CommandItem { status: ended, ..command }),
        Item::FileChange { id, changes, .. } => Item::FileChange { id, changes, status: ended },
        other => other,
    }
}
