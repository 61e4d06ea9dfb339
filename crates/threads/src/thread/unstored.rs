//! A batch whose commit failed. None of its records is on disk, so no message that implies one is
//! sent: callers get the error, the turn fails, and its end is sent.
//!
//! Each match over effects, events and answers is exhaustive, so that a new kind does not compile
//! without a decision here.

use std::collections::HashSet;

use session::{
    Answer, Effect, Event, FailureKind, Id, Item, Record, Refusal, RefusalCause, ToolError,
    TurnError, TurnStatus, TurnView,
};

use crate::thread::step::Step;
use services::allowed::MachineInput;

/// An event's implication about the store.
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
    /// The status, of which the machine has the newest.
    Status,
    /// Nothing. Its turn or item may have been withheld.
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
        | Event::CommandRuns { turn, item }
        | Event::CommandOutput { turn, item, .. }
        | Event::CallProgress { turn, item, .. }
        | Event::PatchUpdated { turn, item, .. }
        | Event::TerminalInteraction { turn, item, .. } => {
            Claim::Nothing { turn: Some(turn), item: Some(item) }
        }
        Event::PlanUpdated { turn, .. }
        | Event::ModelNotice { turn, .. }
        | Event::DiffUpdated { turn, .. }
        | Event::Error { turn, .. } => Claim::Nothing { turn: Some(turn), item: None },
        Event::ApprovalReview(review) => {
            Claim::Nothing { turn: Some(&review.turn), item: Some(&review.item) }
        }
        Event::RequestResolved { .. } | Event::ReviewerWarning { .. } | Event::Warning { .. } => {
            Claim::Nothing { turn: None, item: None }
        }
    }
}

/// Returns whether an answer to a caller claims a record.
fn claims_record(answer: &Answer) -> bool {
    match answer {
        Answer::Started(_)
        | Answer::Steered { .. }
        | Answer::Done
        | Answer::Goal(_)
        | Answer::Cleared(_) => true,
        // The turn has ended, stored or not.
        Answer::Interrupted => false,
    }
}

/// The withheld steps, and those that are stored again.
#[derive(Default)]
struct LostRecords {
    turns: HashSet<Id>,
    items: HashSet<Id>,
    /// Turns and items that became final: stored and sent together with the turn's failure.
    again: Vec<Step>,
    /// A turn that had completed fails.
    failed_end: bool,
}

impl LostRecords {
    /// Returns whether clients know the subject of an event.
    fn is_known(&self, turn: Option<&Id>, item: Option<&Id>) -> bool {
        turn.is_none_or(|turn| !self.turns.contains(turn))
            && item.is_none_or(|item| !self.items.contains(item))
    }

    /// Returns whether an event may be sent after the batch that was lost.
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

/// A batch whose commit failed.
pub(super) struct UnstoredBatch {
    /// Why, for clients.
    message: String,
    lost: LostRecords,
}

/// The treatment of a step in a batch whose commit failed.
pub(super) enum UnstoredStep {
    /// It claims nothing: it is carried out as it is.
    Perform(Step),
    /// It waits for a record that is lost: the machine gets this input at once.
    Fail(MachineInput),
    /// It claims what is lost, or is work for a turn that fails.
    Withhold,
}

impl UnstoredBatch {
    pub(super) fn new(message: String) -> Self {
        Self { message, lost: LostRecords::default() }
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Decides about the next step of the batch.
    pub(super) fn filter(&mut self, step: Step) -> UnstoredStep {
        let Step { effect, json } = step;
        match effect {
            Effect::Reply { reply, result } => {
                let result = match result {
                    Ok(answer) if claims_record(&answer) => {
                        Err(Refusal { message: self.message.clone(), cause: RefusalCause::Store })
                    }
                    other => other,
                };
                UnstoredStep::Perform(Step { effect: Effect::Reply { reply, result }, json })
            }
            Effect::Emit(event) => self.filter_event(Step { effect: Effect::Emit(event), json }),
            // The record itself, and work for a turn that fails.
            Effect::Persist(_)
            | Effect::Sample { .. }
            | Effect::RetryAfter { .. }
            | Effect::Prepare { .. }
            | Effect::PlanJob { .. }
            | Effect::Run { .. }
            | Effect::Write { .. }
            | Effect::Wait { .. }
            | Effect::Ask { .. }
            | Effect::Review { .. }
            | Effect::RetryReviewAfter { .. }
            | Effect::ReviewTimeout { .. }
            | Effect::CallTool { .. }
            | Effect::AskUser { .. }
            | Effect::CallAgents { .. }
            | Effect::CallServer { .. }
            | Effect::RunHooks { .. }
            | Effect::FindSkillNeeds { .. }
            | Effect::MeetSkillNeeds { .. }
            | Effect::CheckGrant { .. } => UnstoredStep::Withhold,
            // The machine waits for a patch that is being applied.
            Effect::Apply { call, .. } => {
                let outcome = Err(ToolError::new(self.message.clone()));
                UnstoredStep::Fail(MachineInput::Applied { call, outcome })
            }
            effect @ (Effect::CancelSample { .. }
            | Effect::CancelReview { .. }
            | Effect::Kill { .. }
            | Effect::Discard { .. }
            | Effect::CancelAgents { .. }
            | Effect::CancelServerCall { .. }
            | Effect::CancelHooks { .. }
            | Effect::ForgetSkillNeeds { .. }
            | Effect::NetworkAnswer { .. }
            | Effect::Allow { .. }
            | Effect::TurnContinues { .. }
            | Effect::TurnEnded { .. }) => UnstoredStep::Perform(Step { effect, json }),
        }
    }

    fn filter_event(&mut self, step: Step) -> UnstoredStep {
        let lost = &mut self.lost;
        let Effect::Emit(event) = &step.effect else { return UnstoredStep::Withhold };
        match claim(event) {
            Claim::TurnStarted(turn) => drop(lost.turns.insert(turn.clone())),
            Claim::ItemStarted { item, .. } => drop(lost.items.insert(item.clone())),
            Claim::TurnCompleted(view) => {
                lost.failed_end |= view.status == TurnStatus::Completed;
                lost.again.extend(end_again(view, &self.message));
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
                    return UnstoredStep::Perform(step);
                }
            }
        }
        UnstoredStep::Withhold
    }

    /// Returns whether a turn that had completed fails now.
    pub(super) fn has_failed_end(&self) -> bool {
        self.lost.failed_end
    }

    /// Returns the steps that are stored and sent together with the turn's failure.
    pub(super) fn take_again(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.lost.again)
    }

    /// Returns whether a step that follows the loss is carried out. `is_stored`: its records are on
    /// disk.
    pub(super) fn lets_follow(&self, step: &Step, is_stored: bool) -> bool {
        let Effect::Emit(event) = &step.effect else { return true };
        let is_backed = match claim(event) {
            Claim::TurnStarted(_)
            | Claim::ItemStarted { .. }
            | Claim::ItemCompleted { .. }
            | Claim::Fact => is_stored,
            // Exactly one end a turn. It is a failure or an interruption, as the next start of the
            // server makes it.
            Claim::TurnCompleted(view) => is_stored || view.status != TurnStatus::Completed,
            Claim::Status | Claim::Nothing { .. } => true,
        };
        is_backed && self.lost.lets_through(event)
    }
}

/// The steps that store and send the end of a turn again. A turn that had completed fails.
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
        effects.push(Effect::Emit(Event::Error { turn, error, retry: None }));
    }
    let status = view.status;
    effects.push(Effect::Persist(Record::TurnFinished { view: view.clone(), status }));
    effects.push(Effect::Emit(Event::TurnCompleted(view)));
    effects.into_iter().map(Step::plain).collect()
}
