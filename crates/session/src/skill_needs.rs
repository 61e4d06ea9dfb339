//! The needs of a turn's skills before the model is asked: environment variables and MCP servers,
//! for which the user is asked. No hook and no reviewer answers in the user's place.
//!
//! The driver looks for what is missing, the user answers, the driver makes use of the answers; until then
//! the turn asks the model nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cx::Cx;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::fragment::Fragment;
use crate::port::item::{DynamicCall, Item, ItemStatus, ToolAnswer, ToolContent};
use crate::port::question::{UserAnswers, UserQuestion};
use crate::port::skill::UsedSkill;
use crate::tools::started_call;
use crate::{Id, Millis, skill_variables};

/// Questions of one request to the clients (specification: Limits).
const QUESTIONS: usize = 3;
/// The name of the questions in items.
const TOOL: &str = "skill_needs";

/// The needs of a turn's skills.
#[derive(Default)]
pub(crate) struct SkillNeeds {
    open: Vec<OpenNeeds>,
    /// The notes about their results, for the model.
    notes: Vec<Fragment>,
}

/// The needs of one message.
struct OpenNeeds {
    request: u64,
    stage: Stage,
}

enum Stage {
    /// The driver looks for them.
    Finding,
    /// The user is asked, and about the `rest` later.
    Asking { asked: Box<Asked>, rest: VecDeque<UserQuestion>, answers: UserAnswers },
    /// The driver makes use of the answers.
    Meeting,
}

/// Questions that the user is asked.
struct Asked {
    request: u64,
    since: Millis,
    /// The item that shows them.
    item: DynamicCall,
}

impl SkillNeeds {
    /// Returns whether the model has to wait.
    pub(crate) fn hold_turn(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns whether the user is asked.
    pub(crate) fn wait_for_user(&self) -> bool {
        self.open.iter().any(|open| matches!(open.stage, Stage::Asking { .. }))
    }

    /// Has the driver look for what skills need.
    pub(crate) fn find(&mut self, turn: &Id, skills: Vec<UsedSkill>, cx: &mut Cx) {
        if skills.is_empty() {
            return;
        }
        let request = cx.number();
        self.open.push(OpenNeeds { request, stage: Stage::Finding });
        cx.push(Effect::FindSkillNeeds { request, turn: turn.clone(), skills });
    }

    /// The items that are not final.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item> + '_ {
        self.open.iter().filter_map(|open| match &open.stage {
            Stage::Asking { asked, .. } => Some(Item::DynamicCall(asked.item.clone())),
            Stage::Finding | Stage::Meeting => None,
        })
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

    /// The user answered, or could not, with the reason.
    ///
    /// # Errors
    /// The request was not one of these; the outcome is returned.
    pub(crate) fn answered(
        &mut self,
        turn: &Id,
        request: u64,
        outcome: Result<UserAnswers, String>,
        cx: &mut Cx,
    ) -> Result<(), Result<UserAnswers, String>> {
        for open in &mut self.open {
            let Stage::Asking { asked, rest, answers } = &mut open.stage else { continue };
            if asked.request != request {
                continue;
            }
            asked.close(turn, outcome.as_ref().map_err(String::as_str), cx);
            let (rest, mut answers) = (std::mem::take(rest), std::mem::take(answers));
            match outcome {
                Ok(given) => {
                    answers.extend(given);
                    open.ask(turn, rest, answers, cx);
                }
                Err(why) => open.meet(answers, Some(why), cx),
            }
            return Ok(());
        }
        Err(outcome)
    }

    /// The driver has made use of the answers.
    pub(crate) fn met(&mut self, request: u64, notes: &[String]) {
        let open = self.open.len();
        self.open.retain(|open| open.request != request);
        if open == self.open.len() || notes.is_empty() {
            return;
        }
        self.notes.push(skill_variables::fragment(notes));
    }

    /// The user wrote something else: the questions are withdrawn.
    pub(crate) fn withdraw(&mut self, turn: &Id, why: &str, cx: &mut Cx) {
        for open in &mut self.open {
            let Stage::Asking { asked, answers, .. } = &mut open.stage else { continue };
            asked.close(turn, Err(why), cx);
            let answers = std::mem::take(answers);
            open.meet(answers, Some(why.to_owned()), cx);
        }
    }

    /// The turn ends: nothing is waited for.
    pub(crate) fn abandon(&mut self, turn: &Id, why: &str, cx: &mut Cx) {
        for open in std::mem::take(&mut self.open) {
            if let Stage::Asking { asked, .. } = &open.stage {
                asked.close(turn, Err(why), cx);
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
        let request = cx.number();
        let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
        let arguments = serde_json::json!({ "questions": ids }).to_string();
        let item = started_call(cx.item_id(), None, TOOL.to_owned(), arguments);
        cx.stored_item_started(turn, Item::DynamicCall(item.clone()));
        let (turn, id, since) = (turn.clone(), item.id.clone(), cx.now);
        self.stage =
            Stage::Asking { asked: Box::new(Asked { request, since, item }), rest, answers };
        cx.push(Effect::AskUser { request, turn, item: id, questions });
    }

    fn meet(&mut self, answers: UserAnswers, unanswered: Option<String>, cx: &mut Cx) {
        self.stage = Stage::Meeting;
        cx.push(Effect::MeetSkillNeeds { request: self.request, answers, unanswered });
    }
}

impl Asked {
    /// Resolves the request, and completes the item: with the answered questions, not their answers.
    fn close(&self, turn: &Id, outcome: Result<&UserAnswers, &str>, cx: &mut Cx) {
        cx.emit(Event::RequestResolved { request: self.request });
        let duration_ms = Some((cx.now - self.since).max(0));
        let item = DynamicCall { duration_ms, ..self.item.clone() };
        let item = match outcome {
            Ok(answers) => {
                let ids: Vec<&str> = answers.keys().map(String::as_str).collect();
                let text = serde_json::json!({ "answered": ids }).to_string();
                let content = vec![ToolContent::Text(text)];
                let answer = Some(ToolAnswer { content, success: true });
                DynamicCall { status: ItemStatus::Completed, answer, ..item }
            }
            Err(why) => {
                DynamicCall { status: ItemStatus::Failed, reason: Some(why.to_owned()), ..item }
            }
        };
        cx.item_completed(turn, Item::DynamicCall(item));
    }
}
