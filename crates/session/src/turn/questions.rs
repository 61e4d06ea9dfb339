//! Questions to the user: asked, answered, withdrawn (specification: User input).

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Turn, skills};
use crate::calls::AskedUser;
use crate::history::CallOutput;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::item::{DynamicCall, Item, ItemStatus, ToolAnswer, ToolContent};
use crate::port::question::{UserAnswers, UserQuestion};
use crate::port::tool_error::ToolError;
use crate::thread::Thread;
use crate::tools::started_call;

/// The substitute for a secret answer in items and in the store.
const HIDDEN: &str = "[secret, not stored]";
/// The output of a call whose questions were withdrawn.
const WITHDRAWN: &str =
    "not answered: the questions were withdrawn, because the user sent a new message; it follows";

impl Turn {
    pub(super) fn ask_user(
        &mut self,
        number: u64,
        tool: &'static str,
        arguments: String,
        questions: Arc<[UserQuestion]>,
        thread: &mut Thread,
    ) {
        let request = thread.cx.number();
        let item = started_call(thread.cx.item_id(), None, tool.to_owned(), arguments);
        let (turn, id, since) = (self.view.id.clone(), item.id.clone(), thread.cx.now);
        thread.cx.stored_item_started(&turn, Item::DynamicCall(item.clone()));
        let asked = questions.clone();
        self.calls.ask_user(AskedUser { number, request, since, item, questions });
        self.show_waiting(thread);
        thread.cx.push(Effect::AskUser { request, turn, item: id, questions: asked });
    }

    /// The user answered, or no client could; the first answer counts.
    pub(crate) fn user_answered(
        &mut self,
        request: u64,
        outcome: Result<UserAnswers, ToolError>,
        thread: &mut Thread,
    ) {
        let Err(outcome) = self.skill_question_answered(request, outcome, thread) else { return };
        let Some(asked) = self.calls.take_asked_user(request) else { return };
        self.close_questions(asked, outcome, thread);
        self.show_waiting(thread);
        self.go_on(thread);
    }

    /// A turn that starts clears open questions: the user wrote something else.
    pub(super) fn withdraw_questions(&mut self, thread: &mut Thread) {
        if self.skill_needs.wait_for_user() {
            self.skill_needs.withdraw(&self.view.id, skills::WITHDRAWN, &mut thread.cx);
            self.show_waiting(thread);
        }
        if !self.calls.wait_for_user() {
            return;
        }
        while let Some(asked) = self.calls.take_any_asked_user() {
            self.close_questions(asked, Err(ToolError::new(WITHDRAWN)), thread);
        }
        self.show_waiting(thread);
        self.go_on(thread);
    }

    fn close_questions(
        &mut self,
        asked: AskedUser,
        outcome: Result<UserAnswers, ToolError>,
        thread: &mut Thread,
    ) {
        let AskedUser { number, request, since, item, questions } = asked;
        thread.cx.emit(Event::RequestResolved { request });
        let duration_ms = Some((thread.cx.now - since).max(0));
        let (item, output) = match outcome {
            Ok(answers) => {
                let (text, stored) =
                    (written(&questions, &answers, false), written(&questions, &answers, true));
                let content = vec![ToolContent::Text(stored.clone())];
                let answer = Some(ToolAnswer { content, success: true });
                let status = ItemStatus::Completed;
                let output = match text == stored {
                    true => CallOutput::Text(text),
                    false => CallOutput::Secret { text, stored },
                };
                (DynamicCall { status, answer, duration_ms, ..item }, output)
            }
            Err(error) => {
                let message = error.into_message();
                let reason = Some(message.clone());
                let status = ItemStatus::Failed;
                (DynamicCall { status, reason, duration_ms, ..item }, CallOutput::Text(message))
            }
        };
        thread.cx.item_completed(&self.view.id, Item::DynamicCall(item));
        self.calls.answer(number, output);
    }
}

/// The answers for the model; with `hides`, without those that are secret.
fn written(questions: &[UserQuestion], answers: &UserAnswers, hides: bool) -> String {
    let answer = |question: &UserQuestion| {
        let given = answers.get(&question.id).map(Vec::as_slice).unwrap_or_default();
        let shown: Vec<Value> = match question.is_secret && hides {
            true => given.iter().map(|_| HIDDEN.into()).collect(),
            false => given.iter().map(|text| text.as_str().into()).collect(),
        };
        (question.id.clone(), json!({ "answers": shown }))
    };
    let answers: serde_json::Map<String, Value> = questions.iter().map(answer).collect();
    json!({ "answers": answers }).to_string()
}
