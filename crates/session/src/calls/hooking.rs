//! Calls that wait for hooks: before they begin, before the user is asked about them, and with their
//! answers.

use std::sync::Arc;

use hooks::{Event, Permission, ToolUse};
use serde_json::{Map, Value, json};

use super::{AskedAbout, Called, Calls, State};
use crate::approvals::Verdict;
use crate::history::CallOutput;
use crate::port::approval::Ask;
use crate::port::item::ToolContent;
use crate::terms::Terms;
use crate::tools::{Step, ToolCall};

/// The beginning of a call.
pub(crate) enum Begun {
    /// With the first step of its tool.
    Call(Step),
    /// With hooks.
    Hooks(Event),
}

/// A question for the user that hooks may answer.
pub(crate) struct HeldQuestion {
    pub(crate) unsandboxed: bool,
    pub(crate) about: AskedAbout,
    pub(crate) ask: Ask,
    /// The settings when it was held.
    pub(crate) terms: Terms,
}

impl Calls {
    /// Hooks let a call begin, with their word about it: it is queued again.
    pub(crate) fn admit(&mut self, number: u64, permission: Option<Permission>) {
        for call in self.0.iter_mut().filter(|call| call.number == number) {
            if let State::Hooking(tool) = &call.state {
                call.state = State::Queued(tool.clone());
            }
            if let Some(hooked) = &mut call.hooked {
                hooked.permission = permission.clone();
            }
        }
    }

    /// Takes over other arguments of a call that hooks look at. Returns the call as it is now; `None`:
    /// there is no such call.
    ///
    /// # Errors
    /// They do not fit the tool: a sentence for the model.
    pub(crate) fn update_input(
        &mut self,
        number: u64,
        updated: Value,
    ) -> Option<Result<&Called, String>> {
        let hooked = self.hooked_mut(number)?;
        Some(hooked.update(updated).map(|()| &hooked.called))
    }

    /// Puts another reading of a call in place of the one that hooks changed.
    pub(crate) fn replace(&mut self, number: u64, tool: Box<dyn ToolCall>) {
        let tool: Arc<dyn ToolCall> = tool.into();
        for call in self.0.iter_mut().filter(|call| call.number == number) {
            call.is_exclusive = tool.is_exclusive();
            if let State::Hooking(_) = call.state {
                call.state = State::Hooking(tool.clone());
            }
        }
    }

    /// A call that hooks look at before it begins.
    pub(crate) fn hooking(&self, number: u64) -> Option<&Called> {
        self.0.iter().find_map(|call| match (&call.state, &call.hooked) {
            (State::Hooking(_), Some(hooked)) if call.number == number => Some(&hooked.called),
            _ => None,
        })
    }

    /// A call as hooks know it.
    pub(crate) fn tool_use(&self, number: u64) -> Option<&ToolUse> {
        let call = self.0.iter().find(|call| call.number == number)?;
        call.hooked.as_ref().map(|hooked| &hooked.tool)
    }

    /// Returns the policy's verdict, combined with the hooks' decision about the call.
    pub(crate) fn weigh(&self, number: u64, verdict: Verdict, can_ask: bool) -> Verdict {
        let call = self.0.iter().find(|call| call.number == number);
        let hooked = call.and_then(|call| call.hooked.as_ref());
        let permission = hooked.and_then(|hooked| hooked.permission.as_ref());
        super::hooked::weighed(verdict, permission, can_ask)
    }

    /// Hooks do not consent to this call in the user's place.
    pub(crate) fn withdraw_consent(&mut self, number: u64) {
        if let Some(hooked) = self.hooked_mut(number) {
            hooked.permission.take_if(|permission| *permission == Permission::Allow);
        }
    }

    /// Hooks may decide in place of the user.
    pub(crate) fn hold_question(&mut self, number: u64, held: HeldQuestion) {
        self.set(number, State::AskingHooks(Box::new(held)));
    }

    /// Takes out the question that hooks were asked.
    pub(crate) fn take_held(&mut self, number: u64) -> Option<HeldQuestion> {
        let call = self.0.iter_mut().find(|call| call.number == number)?;
        match call.take_if(|state| matches!(state, State::AskingHooks(_)))? {
            (_, State::AskingHooks(held)) => Some(*held),
            _ => None,
        }
    }

    /// The next answered call whose answer hooks look at.
    pub(crate) fn next_answered(&mut self) -> Option<(u64, Event)> {
        let call = self.0.iter_mut().find(|call| matches!(call.state, State::Answered(_)))?;
        let (number, State::Answered(output)) = call.take_if(|_| true)? else { return None };
        let response = response_of(&output);
        call.state = State::AfterHooks(output);
        let tool = call.hooked.as_ref()?.tool.clone();
        Some((number, Event::PostToolUse { tool, response }))
    }

    /// Hooks have looked at an answer: another one in its place, and what they say about it.
    pub(crate) fn finish(&mut self, number: u64, updated: Option<Value>, feedback: Option<String>) {
        for call in self.0.iter_mut().filter(|call| call.number == number) {
            let Some((_, State::AfterHooks(output))) =
                call.take_if(|state| matches!(state, State::AfterHooks(_)))
            else {
                continue;
            };
            let is_of_server =
                call.hooked.as_ref().is_some_and(|hooked| hooked.tool.name.starts_with("mcp__"));
            let output = match updated.as_ref().filter(|_| is_of_server) {
                Some(Value::String(text)) => CallOutput::Text(text.clone()),
                Some(Value::Object(result)) if result.contains_key("content") => {
                    CallOutput::Text(texts_of(result))
                }
                Some(value) => CallOutput::Text(value.to_string()),
                None => output,
            };
            call.state = State::Done(with_feedback(output, feedback.as_deref()));
        }
    }

    fn hooked_mut(&mut self, number: u64) -> Option<&mut super::Hooked> {
        self.0.iter_mut().find(|call| call.number == number)?.hooked.as_deref_mut()
    }
}

/// The texts of a result in the form of MCP.
fn texts_of(result: &Map<String, Value>) -> String {
    let parts = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts = parts.filter_map(|part| part.get("text").and_then(Value::as_str));
    texts.collect::<Vec<_>>().join("\n")
}

/// An answer as hooks read it.
fn response_of(output: &CallOutput) -> Value {
    match output {
        CallOutput::Text(text) => Value::String(text.clone()),
        CallOutput::Parts(parts) => parts.iter().map(part_of).collect(),
        CallOutput::Image { .. } => json!([{ "type": "image" }]),
        CallOutput::Tools(tools) => {
            tools.iter().map(|tool| Value::String(tool.name.to_string())).collect()
        }
        // Hooks get what is stored, without the secret.
        CallOutput::Secret { stored, .. } => Value::String(stored.clone()),
    }
}

fn part_of(part: &ToolContent) -> Value {
    match part {
        ToolContent::Text(text) => json!({ "type": "text", "text": text }),
        // The data would only fill the pipe.
        ToolContent::Image { .. } => json!({ "type": "image" }),
    }
}

fn with_feedback(output: CallOutput, feedback: Option<&str>) -> CallOutput {
    let Some(feedback) = feedback else { return output };
    let feedback = format!("<hook_feedback>\n{feedback}\n</hook_feedback>");
    match output {
        CallOutput::Text(text) => CallOutput::Text(format!("{text}\n{feedback}")),
        CallOutput::Parts(mut parts) => {
            parts.push(ToolContent::Text(feedback));
            CallOutput::Parts(parts)
        }
        CallOutput::Secret { text, stored } => CallOutput::Secret {
            text: format!("{text}\n{feedback}"),
            stored: format!("{stored}\n{feedback}"),
        },
        CallOutput::Image { data_url } => CallOutput::Parts(vec![
            ToolContent::Image { url: data_url },
            ToolContent::Text(feedback),
        ]),
        // What a search found has no place for a text.
        found @ CallOutput::Tools(_) => found,
    }
}
