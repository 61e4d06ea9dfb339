//! Inputs about the running turn, passed on to it.

use crate::port::input::Input;
use crate::port::model::{Failure, FailureKind};
use crate::thread::Thread;
use crate::turn::Turn;

/// Passes an input that concerns the running turn to it.
pub(super) fn route(input: Input, running: &mut Turn, thread: &mut Thread) {
    match input {
        Input::StoreFailed { message } => {
            running.fail(Failure::new(FailureKind::InternalServerError, message), thread);
        }
        Input::FailTurn { turn, failure } if *running.id() == turn => running.fail(failure, thread),
        Input::ReviewPrompt { turn, prompt } => running.review_prompt(&turn, &prompt, thread),
        Input::Model { sample, events } => running.model(sample, events, thread),
        Input::RetryDue { sample } => running.retry_due(sample, thread),
        Input::Prepared { call, outcome } => running.prepared(call, outcome, thread),
        Input::Applied { call, outcome } => running.applied(call, outcome, thread),
        Input::Elapsed { call } => running.elapsed(call, thread),
        Input::NotTyped { process } => running.not_typed(process, thread),
        Input::Granted { call, outcome } => running.granted(call, outcome, thread),
        Input::UserAnswered { request, outcome } => running.user_answered(request, outcome, thread),
        Input::SkillsOpened { skills } => running.skills_opened(skills, thread),
        Input::SkillNeedsFound { request, questions } => {
            running.skill_needs_found(request, questions, thread);
        }
        Input::SkillNeedsMet { request, notes } => running.skill_needs_met(request, &notes, thread),
        Input::AgentsProgressed { request, message } => {
            running.agents_progressed(request, message, thread);
        }
        Input::AgentsAnswered { request, outcome } => {
            running.agents_answered(request, *outcome, thread);
        }
        Input::ServerProgressed { request, message } => {
            running.server_progressed(request, message, thread);
        }
        Input::ServerAnswered { request, outcome } => {
            running.server_answered(request, *outcome, thread);
        }
        Input::HooksAnswered { run, outcome, usage } => {
            usage.into_iter().for_each(|usage| thread.account(running.id(), usage));
            running.hooks_answered(run, *outcome, thread);
        }
        Input::ToolAnswered { request, outcome } => running.tool_answered(request, outcome, thread),
        // About another turn; and what the machine carries out.
        Input::FailTurn { .. }
        | Input::Start { .. }
        | Input::StartQueued { .. }
        | Input::MessagesWait { .. }
        | Input::Steer { .. }
        | Input::Interrupt { .. }
        | Input::Compact { .. }
        | Input::Review { .. }
        | Input::Shell { .. }
        | Input::Inject { .. }
        | Input::CleanTerminals { .. }
        | Input::SetGoal { .. }
        | Input::ClearGoal { .. }
        | Input::Override { .. }
        | Input::Bound(_)
        | Input::RootWords { .. }
        | Input::Configure(_)
        | Input::Skills { .. }
        | Input::SandboxLimits { .. }
        | Input::ProjectDocuments { .. }
        | Input::Hooks { .. }
        | Input::Spent { .. }
        | Input::Output { .. }
        | Input::Exited { .. }
        | Input::Decided { .. }
        | Input::NetworkAsk { .. }
        | Input::Reviewed { .. }
        | Input::ReviewRetryDue { .. }
        | Input::ReviewOverdue { .. }
        | Input::StoreTexts
        | Input::ApproveDenied { .. }
        | Input::NetworkWithdrawn { .. }
        | Input::Drain
        | Input::Shutdown
        | Input::DropGrants => {}
    }
}
