//! A batch whose commit failed. Nothing of it is on disk, so nothing that claims one of its records
//! is sent: callers get the error, the turn fails, and its end is sent.
//!
//! Each match over effects, events and answers names every kind, so that a new one does not compile
//! without its decision here.

use std::collections::HashSet;

use session::{
    Answer, Effect, Event, FailureKind, Id, Input, Item, Record, Refusal, RefusalCause, ToolError,
    TurnError, TurnStatus, TurnView,
};

use crate::error::Error;
use crate::thread::actor::{Actor, Step};

/// What an event says about the store.
enum Claim<'a> {
    /// This turn is stored.
    TurnStarted(&'a Id),
    /// The end of this turn is stored.
    TurnCompleted(&'a TurnView),
    /// This item is stored.
    ItemStarted { turn: &'a Id, item: &'a Id },
    /// This item is stored as it is now.
    ItemCompleted { turn: &'a Id, item: &'a Item },
    /// A fact about the thread is stored.
    Fact,
    /// The status: the machine has the newest one.
    Status,
    /// Nothing. What it is about may have been withheld.
    Nothing { turn: Option<&'a Id>, item: Option<&'a Id> },
}

fn claim(event: &Event) -> Claim<'_> {
    match event {
        Event::TurnStarted(view) => Claim::TurnStarted(&view.id),
        Event::TurnCompleted(view) => Claim::TurnCompleted(view),
        Event::ItemStarted { turn, item, .. } => Claim::ItemStarted { turn, item: item.id() },
        Event::ItemCompleted { turn, item, .. } => Claim::ItemCompleted { turn, item },
        Event::TokenUsage { .. } | Event::GoalUpdated { .. } | Event::GoalCleared => Claim::Fact,
        Event::StatusChanged(_) => Claim::Status,
        Event::MessageDelta { turn, item, .. }
        | Event::PlanDelta { turn, item, .. }
        | Event::SummaryPartAdded { turn, item, .. }
        | Event::SummaryDelta { turn, item, .. }
        | Event::ReasoningDelta { turn, item, .. }
        | Event::CommandOutput { turn, item, .. }
        | Event::TerminalInteraction { turn, item, .. } => {
            Claim::Nothing { turn: Some(turn), item: Some(item) }
        }
        Event::PlanUpdated { turn, .. }
        | Event::DiffUpdated { turn, .. }
        | Event::Error { turn, .. } => Claim::Nothing { turn: Some(turn), item: None },
        Event::RequestResolved { .. } => Claim::Nothing { turn: None, item: None },
    }
}

/// Whether an answer to a caller claims a record.
fn claims_record(answer: &Answer) -> bool {
    match answer {
        Answer::Started(_)
        | Answer::Steered { .. }
        | Answer::Done
        | Answer::Goal(_)
        | Answer::Cleared(_) => true,
        // The turn has ended, whatever is stored of it.
        Answer::Interrupted => false,
    }
}

/// What was withheld, and what is tried again.
#[derive(Default)]
struct Lost {
    turns: HashSet<Id>,
    items: HashSet<Id>,
    /// Turns and items that became final: stored and sent together with the turn's failure.
    again: Vec<Step>,
    /// A turn that had completed fails.
    failed_end: bool,
}

impl Lost {
    /// Whether clients know what an event is about.
    fn is_known(&self, turn: Option<&Id>, item: Option<&Id>) -> bool {
        turn.is_none_or(|turn| !self.turns.contains(turn))
            && item.is_none_or(|item| !self.items.contains(item))
    }

    /// Whether an event may be sent after the batch that was lost.
    fn lets_through(&self, event: &Event) -> bool {
        match claim(event) {
            Claim::TurnStarted(turn) => self.is_known(Some(turn), None),
            Claim::TurnCompleted(view) => self.is_known(Some(&view.id), None),
            Claim::ItemStarted { turn, item } => self.is_known(Some(turn), Some(item)),
            Claim::ItemCompleted { turn, item } => self.is_known(Some(turn), Some(item.id())),
            Claim::Fact | Claim::Status => true,
            Claim::Nothing { turn, item } => self.is_known(turn, item),
        }
    }
}

impl Actor {
    /// Carries out what claims nothing; then the turn fails.
    pub(super) async fn execute_unstored(&mut self, steps: Vec<Step>, error: &Error) {
        let message = format!("the thread cannot be stored: {error}");
        tracing::warn!(target: "server::store", "{message}");
        let mut lost = Lost::default();
        for step in steps {
            self.perform_unstored(step, &message, &mut lost).await;
        }
        let mut steps = std::mem::take(&mut lost.again);
        if lost.failed_end {
            self.machine.turn_failed_to_end();
        }
        self.step(Input::StoreFailed { message }, &mut steps);
        // Tried once more: with luck the turn's end is stored. If not, it is sent nevertheless, as
        // the failure that it is, and stored as soon as the store works again (see `missing`).
        let stored = self.store(&steps).await;
        if let Err(again) = &stored {
            tracing::warn!(target: "server::store", "the end of the turn cannot be stored: {again}");
        }
        for step in steps {
            self.perform_after_loss(step, stored.is_ok(), &lost).await;
        }
        let status = self.machine.status();
        if *self.status.borrow() != Some(status) {
            let effect = Effect::Emit(Event::StatusChanged(status));
            self.perform(Step { effect, json: None }).await;
        }
    }

    async fn perform_unstored(&mut self, step: Step, message: &str, lost: &mut Lost) {
        let Step { effect, json } = step;
        match effect {
            Effect::Reply { reply, result } => {
                let result = match result {
                    Ok(answer) if claims_record(&answer) => {
                        Err(Refusal { message: message.to_owned(), cause: RefusalCause::Store })
                    }
                    other => other,
                };
                self.perform(Step { effect: Effect::Reply { reply, result }, json }).await;
            }
            Effect::Emit(event) => {
                self.emit_unstored(Step { effect: Effect::Emit(event), json }, message, lost).await;
            }
            // The record itself; and work for a turn that fails.
            Effect::Persist(_)
            | Effect::Sample { .. }
            | Effect::RetryAfter { .. }
            | Effect::Prepare { .. }
            | Effect::Run { .. }
            | Effect::Write { .. }
            | Effect::Wait { .. }
            | Effect::Ask { .. }
            | Effect::CallTool { .. } => {}
            Effect::Apply { call, .. } => {
                // The machine waits for a patch that is being applied.
                self.patches.discard(call);
                self.soon(Input::Applied { call, outcome: Err(ToolError::new(message)) });
            }
            effect @ (Effect::CancelSample { .. }
            | Effect::Kill { .. }
            | Effect::Discard { .. }
            | Effect::NetworkAnswer { .. }
            | Effect::Allow { .. }
            | Effect::TurnEnded { .. }) => self.perform(Step { effect, json }).await,
        }
    }

    async fn emit_unstored(&mut self, step: Step, message: &str, lost: &mut Lost) {
        let Effect::Emit(event) = &step.effect else { return };
        match claim(event) {
            Claim::TurnStarted(turn) => drop(lost.turns.insert(turn.clone())),
            Claim::ItemStarted { item, .. } => drop(lost.items.insert(item.clone())),
            Claim::TurnCompleted(view) => {
                lost.failed_end |= view.status == TurnStatus::Completed;
                lost.again.extend(end_again(view, message));
            }
            Claim::ItemCompleted { turn, item } => {
                let record = Record::Item { turn: turn.clone(), item: item.clone() };
                let json = step.json.clone();
                lost.again.push(Step { effect: Effect::Persist(record), json });
                lost.again.push(step);
            }
            Claim::Fact | Claim::Status => {}
            Claim::Nothing { turn, item } => {
                if lost.is_known(turn, item) {
                    self.perform(step).await;
                }
            }
        }
    }

    /// Carries out what follows after the loss: with the record on disk, or what needs none.
    async fn perform_after_loss(&mut self, step: Step, is_stored: bool, lost: &Lost) {
        let Effect::Emit(event) = &step.effect else { return self.perform(step).await };
        let is_backed = match claim(event) {
            Claim::TurnStarted(_)
            | Claim::ItemStarted { .. }
            | Claim::ItemCompleted { .. }
            | Claim::Fact => is_stored,
            // Exactly one end a turn. It is a failure, or an interruption, as the next start of the
            // server makes it.
            Claim::TurnCompleted(view) => is_stored || view.status != TurnStatus::Completed,
            Claim::Status | Claim::Nothing { .. } => true,
        };
        if is_backed && lost.lets_through(event) {
            if let (Event::TurnCompleted(view), false) = (event, is_stored) {
                self.missing_ends.add(view);
            }
            self.perform(step).await;
        }
    }
}

/// The end of a turn whose record was lost, once more. One that completed has failed.
fn end_again(view: &TurnView, message: &str) -> Vec<Step> {
    let mut view = view.clone();
    let mut effects = Vec::new();
    if view.status == TurnStatus::Completed {
        let kind = FailureKind::InternalServerError;
        let error =
            TurnError { message: message.to_owned(), kind, http_status: None, details: None };
        view.status = TurnStatus::Failed;
        view.error = Some(error.clone());
        let turn = view.id.clone();
        effects.push(Effect::Emit(Event::Error { turn, error, will_retry: false }));
    }
    let status = view.status;
    effects.push(Effect::Persist(Record::TurnFinished { view: view.clone(), status }));
    effects.push(Effect::Emit(Event::TurnCompleted(view)));
    effects.into_iter().map(|effect| Step { effect, json: None }).collect()
}
