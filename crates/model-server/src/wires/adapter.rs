//! Adapts the events of a scripted response to what a provider of the caller's wire sends: signatures of reasoning,
//! names and ids as the wire allows them, counts at the beginning.

use std::sync::Arc;

use serde_json::json;
use wire::{Envelope, Event, OutputItem, Payload, Sink, Usage, Wire, wire_call_id, wire_name};

use super::asked::{Asked, Memory};
use super::refusal::in_words;
use crate::script::player::Player;
use crate::signature;

/// Adapts one response.
#[derive(Debug)]
pub(super) struct Adapter {
    wire: Wire,
    model: String,
    /// Thinking is shown: the request asks for it.
    thinks: bool,
    /// Functions on offer, on Chat Completions: a free-form tool among them is called as a function.
    functions: Vec<String>,
    /// Counts that are known at the beginning.
    usage: Usage,
    /// Items of free-form tools that are called as functions.
    called_as_function: Vec<u32>,
    thinking: Thinking,
    /// The content that Gemini's next signature holds; `None` without reasoning.
    thought: Option<String>,
    /// A call of Gemini had its signature.
    is_signed: bool,
    memory: Arc<Memory>,
}

/// The text of reasoning as the Messages stream has it, and the signatures so far.
#[derive(Debug, Default)]
struct Thinking {
    /// The item and its part that came last.
    last: Option<(u32, u32)>,
    text: String,
    signatures: Vec<String>,
}

impl Thinking {
    /// Adds a delta; an empty line stands between parts.
    fn push(&mut self, index: u32, part: u32, text: &str) {
        match self.last {
            Some((last, _)) if last != index => self.text.clear(),
            Some((_, last)) if last != part => self.text.push_str("\n\n"),
            _ => {}
        }
        self.last = Some((index, part));
        self.text.push_str(text);
    }

    /// The text of an item whose deltas ended.
    fn take(&mut self, index: u32) -> Option<String> {
        self.last.take_if(|(last, _)| *last == index)?;
        Some(std::mem::take(&mut self.text))
    }
}

impl Adapter {
    pub(super) fn new(asked: &Asked<'_>, player: &Player, memory: Arc<Memory>) -> Self {
        let scripted = player.usage();
        let written_hour = if player.is_estimated() { asked.input.written_hour } else { 0 };
        let usage = Usage {
            input: scripted.input_tokens,
            cached: scripted.cached_input_tokens,
            written: scripted.cache_write_input_tokens,
            written_hour,
            output: 1,
            ..Usage::default()
        };
        Self {
            wire: asked.wire,
            model: asked.context.model.clone(),
            thinks: asked.thinks,
            functions: asked.functions.clone(),
            usage,
            called_as_function: Vec::new(),
            thinking: Thinking::default(),
            thought: None,
            is_signed: false,
            memory,
        }
    }

    /// Passes an event on, adapted.
    pub(super) fn event(&mut self, event: &Event<'_>, sink: &mut Sink<'_>) {
        match event {
            Event::Created { id, model, .. } => {
                let usage = (self.wire == Wire::Messages).then_some(self.usage);
                sink(Event::Created { id, model, usage });
            }
            Event::SummaryDelta { .. } | Event::ReasoningDelta { .. } if !self.thinks => {}
            Event::ItemAdded { item: OutputItem::Reasoning { .. }, .. } if !self.thinks => {}
            Event::SummaryDelta { index, part, text }
            | Event::ReasoningDelta { index, part, text } => {
                self.thinking.push(*index, *part, text);
                sink(event.clone());
            }
            // Its arguments are sent at the end, as JSON.
            Event::InputDelta { index, .. } if self.called_as_function.contains(index) => {}
            Event::ItemAdded { index, item } => {
                let is_free_text = matches!(item, OutputItem::CustomToolCall { .. });
                let item = self.call(item);
                if is_free_text && matches!(item, OutputItem::FunctionCall { .. }) {
                    self.called_as_function.push(*index);
                }
                sink(Event::ItemAdded { index: *index, item: &item });
            }
            Event::ItemDone { index, item } => self.item_done(*index, item, sink),
            Event::Ended(end) => {
                if let Some(thought) = self.thought.take() {
                    let signature = signature::of_thought(&self.model, &thought);
                    let item = self.signature(Payload::TextSignature(signature));
                    sink(Event::ItemDone { index: u32::MAX, item: &item });
                }
                let mut end = (*end).clone();
                end.usage.written_hour = self.usage.written_hour.min(end.usage.written);
                sink(Event::Ended(&end));
            }
            Event::Failed { failure, usage } => {
                let failure = in_words(self.wire, failure);
                sink(Event::Failed { failure: &failure, usage: *usage });
            }
            other => sink(other.clone()),
        }
    }

    fn item_done(&mut self, index: u32, item: &OutputItem, sink: &mut Sink<'_>) {
        let mut item = self.call(item);
        match &mut item {
            // Gemini signs its first call, and its text, whether thoughts are shown or not.
            OutputItem::Reasoning { encrypted, .. } if !self.thinks => {
                if self.wire == Wire::Gemini {
                    self.thought = Some(encrypted.take().unwrap_or_default());
                }
                return;
            }
            OutputItem::Reasoning { summary, content, encrypted, .. } => match self.wire {
                Wire::Messages => {
                    let whole = || {
                        summary.iter().chain(&*content).cloned().collect::<Vec<_>>().join("\n\n")
                    };
                    let text = self.thinking.take(index).unwrap_or_else(whole);
                    let own = encrypted.as_deref().unwrap_or_default();
                    let signature = signature::of_thinking(&self.model, &text, own);
                    let block =
                        json!({"type": "thinking", "thinking": text, "signature": signature});
                    self.thinking.signatures.push(signature);
                    *encrypted = Some(self.sealed(Payload::Blocks(vec![block.to_string()])));
                }
                Wire::Gemini => self.thought = Some(encrypted.take().unwrap_or_default()),
                Wire::Responses | Wire::Chat => {}
            },
            OutputItem::FunctionCall { call_id, .. }
            | OutputItem::CustomToolCall { call_id, .. }
            | OutputItem::ToolSearchCall { call_id, .. } => {
                if self.wire == Wire::Messages {
                    self.memory.thoughts.keep(call_id, &self.thinking.signatures);
                }
                if self.wire == Wire::Gemini && !self.is_signed {
                    self.is_signed = true;
                    let thought = self.thought.take().unwrap_or_default();
                    let signature = signature::of_thought(&self.model, &thought);
                    let signature = self.signature(Payload::CallSignature(signature));
                    sink(Event::ItemDone { index, item: &signature });
                }
            }
            _ => {}
        }
        sink(Event::ItemDone { index, item: &item });
    }

    /// The item; a call with its name and its id as the wire allows them.
    fn call(&self, item: &OutputItem) -> OutputItem {
        let id_of = |id: &str| match self.wire {
            Wire::Messages => wire_call_id(id, 0).into_owned(),
            _ => id.to_owned(),
        };
        let mut item = item.clone();
        match &mut item {
            OutputItem::FunctionCall { call_id, name, namespace, .. } => {
                *name = wire_name(namespace.take().as_deref(), name).into_owned();
                *call_id = id_of(call_id);
            }
            OutputItem::CustomToolCall { id, call_id, name, input } => {
                *name = wire_name(None, name).into_owned();
                *call_id = id_of(call_id);
                if self.functions.contains(name) {
                    return OutputItem::FunctionCall {
                        id: id.clone(),
                        call_id: call_id.clone(),
                        name: name.clone(),
                        namespace: None,
                        arguments: json!({ "input": input }).to_string(),
                    };
                }
            }
            OutputItem::ToolSearchCall { call_id, .. } => *call_id = id_of(call_id),
            _ => {}
        }
        item
    }

    /// An item that holds a signature for the encoder.
    fn signature(&self, payload: Payload) -> OutputItem {
        OutputItem::Reasoning {
            id: String::new(),
            summary: Vec::new(),
            content: Vec::new(),
            encrypted: Some(self.sealed(payload)),
        }
    }

    fn sealed(&self, payload: Payload) -> String {
        let (wire, model) = (self.wire, self.model.clone());
        Envelope { wire, provider: String::new(), model, payload }.write()
    }
}
