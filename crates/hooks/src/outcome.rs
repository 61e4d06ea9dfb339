//! The combined answer of all handlers of an event.

use serde_json::Value;

use crate::answer::{Answer, Permission};

/// The refusal of an event's action by a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The run's id.
    pub run: String,
    pub reason: String,
}

/// The merged answers of an event, in the order of its hooks: a refusal counts over a question, and a
/// question over consent; where several change the same thing, the last one does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Who ends the turn.
    pub stops: Vec<Refusal>,
    /// Who refuses what the event is about. At the end of a turn: the turn goes on, with these reasons.
    pub refusals: Vec<Refusal>,
    pub permission: Option<Permission>,
    pub updated_input: Option<Value>,
    pub updated_output: Option<Value>,
    /// For the model.
    pub context: Vec<String>,
}

impl Outcome {
    /// Merges the answers of runs, which are named by their ids.
    pub fn merged(answers: impl IntoIterator<Item = (String, Answer)>) -> Self {
        let mut outcome = Self::default();
        let mut consents_to_input = true;
        for (run, answer) in answers {
            if answer.updated_input.is_some() {
                // Another hook consented to what the call was before.
                consents_to_input = answer.permission == Some(Permission::Allow);
            }
            outcome.add(run, answer);
        }
        if !consents_to_input {
            outcome.permission.take_if(|permission| *permission == Permission::Allow);
        }
        outcome
    }

    /// The reasons of all who refuse; `None` when none does.
    pub fn refused(&self) -> Option<String> {
        let reasons: Vec<&str> = self.refusals.iter().map(|it| it.reason.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join("\n"))
    }

    fn add(&mut self, run: String, answer: Answer) {
        let Answer { stop, block, permission, updated_input, updated_output, context, .. } = answer;
        let stop = stop.map(|reason| Refusal { run: run.clone(), reason });
        self.stops.extend(stop);
        self.refusals.extend(block.map(|reason| Refusal { run, reason }));
        self.permission = match (self.permission.take(), permission) {
            (Some(Permission::Deny(one)), Some(Permission::Deny(other))) => {
                Some(Permission::Deny(format!("{one}\n{other}")))
            }
            (Some(deny @ Permission::Deny(_)), _) | (_, Some(deny @ Permission::Deny(_))) => {
                Some(deny)
            }
            (Some(Permission::Ask(one)), Some(Permission::Ask(other))) => {
                Some(Permission::Ask(one.or(other)))
            }
            (Some(ask @ Permission::Ask(_)), _) | (_, Some(ask @ Permission::Ask(_))) => Some(ask),
            (one, other) => one.or(other),
        };
        self.updated_input = updated_input.or(self.updated_input.take());
        self.updated_output = updated_output.or(self.updated_output.take());
        self.context.extend(context);
    }
}
