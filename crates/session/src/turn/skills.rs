//! The needs of skills in the turn's messages: see [`crate::skill_needs`].

use super::Turn;
use crate::port::input::Author;
use crate::port::item::UserContent;
use crate::port::question::{UserAnswers, UserQuestion};
use crate::port::settings::ApprovalPolicy;
use crate::port::skill::UsedSkill;
use crate::port::tool_error::ToolError;
use crate::thread::Thread;

/// Why no question is asked under the policy `never`.
const NEVER: &str = "the approval policy is `never`, so the user is not asked";
/// Why questions were withdrawn.
pub(super) const WITHDRAWN: &str =
    "the questions were withdrawn, because the user sent a new message; it follows";

impl Turn {
    /// Returns whether the model has not been asked in the turn, and waits for the needs of skills:
    /// the tools that it is offered can still change.
    pub(crate) fn awaits_skills_first(&self) -> bool {
        self.skill_needs.hold_turn()
            && !self.hooks.has_response
            && matches!(self.request, super::Request::None)
            && self.calls.len() == 0
    }

    /// Has the driver look for what the skills of a message need.
    pub(super) fn find_skill_needs(&mut self, used: Vec<UsedSkill>, thread: &mut Thread) {
        self.skill_needs.find(&self.view.id, used, &mut thread.cx);
    }

    /// A call of the model opens skills: the next request waits for what they need.
    pub(crate) fn skills_opened(&mut self, skills: Vec<UsedSkill>, thread: &mut Thread) {
        // A review uses no skills, and a turn that ends asks nothing more.
        if matches!(self.kind, super::Kind::Ordinary { .. }) && self.ending.is_none() {
            self.find_skill_needs(skills, thread);
        }
    }

    /// The driver has looked.
    pub(crate) fn skill_needs_found(
        &mut self,
        request: u64,
        questions: Vec<UserQuestion>,
        thread: &mut Thread,
    ) {
        let is_never = thread.configuration.settings().approval == ApprovalPolicy::Never;
        let unasked = Some(NEVER).filter(|_| is_never);
        self.skill_needs.found(&self.view.id, request, questions, unasked, &mut thread.cx);
        self.show_waiting(thread);
    }

    /// The driver has done what is possible; `notes` are for the model.
    pub(crate) fn skill_needs_met(&mut self, request: u64, notes: &[String], thread: &mut Thread) {
        self.skill_needs.met(request, notes);
        self.advance(thread);
    }

    /// The user answered questions about skills; other answers are returned.
    pub(super) fn skill_question_answered(
        &mut self,
        request: u64,
        outcome: Result<UserAnswers, ToolError>,
        thread: &mut Thread,
    ) -> Result<(), Result<UserAnswers, ToolError>> {
        let outcome = outcome.map_err(ToolError::into_message);
        let taken = self.skill_needs.answered(&self.view.id, request, outcome, &mut thread.cx);
        match taken {
            Ok(()) => {
                self.show_waiting(thread);
                Ok(())
            }
            Err(other) => Err(other.map_err(ToolError::new)),
        }
    }
}

/// The skills of a message that need something. Only the user's own messages use skills.
pub(super) fn skills_of(author: Author, content: &[UserContent]) -> Vec<UsedSkill> {
    let used = |part: &UserContent| match part {
        UserContent::Skill { name, path, has_needs: true, .. } if author == Author::User => {
            Some(UsedSkill { name: name.clone(), path: path.clone() })
        }
        _ => None,
    };
    content.iter().filter_map(used).collect()
}
