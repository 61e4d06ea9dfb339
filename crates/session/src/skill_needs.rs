//! What skills of a turn need before the model is asked: environment variables and MCP servers, for which
//! the user is asked. No hook and no reviewer answers in the user's place.
//!
//! The driver looks for what is missing, the user answers, the driver makes use of the answers; until then
//! the turn asks the model nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Id;
use crate::cx::Cx;
use crate::history;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::fragment::Fragment;
use crate::port::question::{UserAnswers, UserQuestion};
use crate::port::skill::UsedSkill;

/// Questions of one request to the clients (specification: Limits).
const QUESTIONS: usize = 3;

/// The skills of a message that need something.
#[derive(Clone)]
pub(crate) struct MessageSkills {
    /// The item of the message.
    pub(crate) item: Id,
    /// Empty when there are none.
    pub(crate) skills: Vec<UsedSkill>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct SkillNeeds {
    open: Vec<OpenNeeds>,
    /// What came of them, for the model.
    notes: Vec<Fragment>,
}

/// The needs of one message.
struct OpenNeeds {
    request: u64,
    item: Id,
    stage: Stage,
}

enum Stage {
    /// The driver looks for them.
    Finding,
    /// The user is asked with the request `asked`, and about the `rest` later.
    Asking { asked: u64, rest: VecDeque<UserQuestion>, answers: UserAnswers },
    /// The driver makes use of the answers.
    Meeting,
}

impl SkillNeeds {
    /// Whether the model has to wait.
    pub(crate) fn hold_turn(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the user is asked.
    pub(crate) fn wait_for_user(&self) -> bool {
        self.open.iter().any(|open| matches!(open.stage, Stage::Asking { .. }))
    }

    /// Has the driver look for what skills need.
    pub(crate) fn find(&mut self, turn: &Id, used: MessageSkills, cx: &mut Cx) {
        if used.skills.is_empty() {
            return;
        }
        let request = cx.number();
        self.open.push(OpenNeeds { request, item: used.item, stage: Stage::Finding });
        cx.push(Effect::FindSkillNeeds { request, turn: turn.clone(), skills: used.skills });
    }

    /// The driver has looked: asks the questions. `unasked`: why none may be asked.
    pub(crate) fn found(
        &mut self,
        turn: &Id,
        request: u64,
        questions: Vec<UserQuestion>,
        unasked: Option<&str>,
        cx: &mut Cx,
    ) {
        let is_it =
            |open: &&mut OpenNeeds| open.request == request && matches!(open.stage, Stage::Finding);
        let Some(open) = self.open.iter_mut().find(is_it) else { return };
        match unasked {
            None => open.ask(turn, questions.into(), UserAnswers::new(), cx),
            Some(why) => open.meet(UserAnswers::new(), Some(why.to_owned()), cx),
        }
    }

    /// The user answered, or could not, with the reason. Returns whether the request was one of these.
    pub(crate) fn answered(
        &mut self,
        turn: &Id,
        request: u64,
        outcome: Result<UserAnswers, String>,
        cx: &mut Cx,
    ) -> Result<(), Result<UserAnswers, String>> {
        let is_it = |open: &&mut OpenNeeds| matches!(open.stage, Stage::Asking { asked, .. } if asked == request);
        let Some(open) = self.open.iter_mut().find(is_it) else { return Err(outcome) };
        cx.emit(Event::RequestResolved { request });
        let Stage::Asking { rest, mut answers, .. } =
            std::mem::replace(&mut open.stage, Stage::Finding)
        else {
            return Ok(());
        };
        match outcome {
            Ok(given) => {
                answers.extend(given);
                open.ask(turn, rest, answers, cx);
            }
            Err(why) => open.meet(answers, Some(why), cx),
        }
        Ok(())
    }

    /// The driver has made use of the answers.
    pub(crate) fn met(&mut self, request: u64, notes: &[String]) {
        let open = self.open.len();
        self.open.retain(|open| open.request != request);
        if open == self.open.len() || notes.is_empty() {
            return;
        }
        let text = format!("<skill_needs>\n{}\n</skill_needs>", notes.join("\n"));
        self.notes.push(Fragment::summarized(history::message("developer", &text)));
    }

    /// The user wrote something else: the questions are withdrawn.
    pub(crate) fn withdraw(&mut self, why: &str, cx: &mut Cx) {
        for open in &mut self.open {
            let Stage::Asking { asked, answers, .. } = &mut open.stage else { continue };
            cx.emit(Event::RequestResolved { request: *asked });
            let answers = std::mem::take(answers);
            open.meet(answers, Some(why.to_owned()), cx);
        }
    }

    /// The turn ends: nothing is waited for.
    pub(crate) fn abandon(&mut self, cx: &mut Cx) {
        for open in std::mem::take(&mut self.open) {
            if let Stage::Asking { asked, .. } = open.stage {
                cx.emit(Event::RequestResolved { request: asked });
            }
            if !matches!(open.stage, Stage::Meeting) {
                cx.push(Effect::ForgetSkillNeeds { request: open.request });
            }
        }
    }

    /// Takes what the model has not received.
    pub(crate) fn take_notes(&mut self) -> Vec<Fragment> {
        std::mem::take(&mut self.notes)
    }
}

impl OpenNeeds {
    /// Asks the next questions; has the driver use the answers when there are none.
    fn ask(
        &mut self,
        turn: &Id,
        mut left: VecDeque<UserQuestion>,
        answers: UserAnswers,
        cx: &mut Cx,
    ) {
        if left.is_empty() {
            return self.meet(answers, None, cx);
        }
        let rest = left.split_off(left.len().min(QUESTIONS));
        let questions: Arc<[UserQuestion]> = left.into_iter().collect();
        let asked = cx.number();
        self.stage = Stage::Asking { asked, rest, answers };
        let (turn, item) = (turn.clone(), self.item.clone());
        cx.push(Effect::AskUser { request: asked, turn, item, questions });
    }

    fn meet(&mut self, answers: UserAnswers, unanswered: Option<String>, cx: &mut Cx) {
        self.stage = Stage::Meeting;
        cx.push(Effect::MeetSkillNeeds { request: self.request, answers, unanswered });
    }
}
