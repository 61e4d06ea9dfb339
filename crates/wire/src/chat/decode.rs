//! Decodes the chunks of a Chat Completions stream, of any server.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::Calls;
use super::details::Details;
use crate::builder::{
    Builder, ResponseContext, Sink, event_text, foreign_wire, malformed, other_wire,
    stop_with_calls,
};
use crate::envelope::Payload;
use crate::event::{End, Event, Stop, Usage};
use crate::failure::{Failure, FailureKind};
use crate::json::{At, Count, Lenient, Object, Tokens, array, quoted};
use crate::kind::Wire;

/// Decodes one response.
#[derive(Debug)]
pub struct Decoder {
    builder: Builder,
    message: Option<u32>,
    reasoning: Option<Thought>,
    details: Details,
    calls: Calls,
    stop: Option<Stop>,
    usage: Usage,
    service_tier: Option<String>,
}

/// Reasoning under way: its item, and the member that it came in with its text, where that must come back.
#[derive(Debug)]
struct Thought {
    index: u32,
    member: Option<&'static str>,
    text: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Lenient<'a>,
    #[serde(borrow)]
    model: Lenient<'a>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    service_tier: Lenient<'a>,
    #[serde(borrow)]
    x_groq: Option<&'a RawValue>,
    #[serde(borrow)]
    base_resp: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Choice<'a> {
    index: Count,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// Of a response that is no stream.
    #[serde(borrow)]
    message: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Lenient<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Lenient<'a>,
    #[serde(borrow)]
    reasoning: Lenient<'a>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Lenient<'a>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

impl Decoder {
    /// Decodes the response of a request.
    #[must_use]
    pub fn new(context: ResponseContext) -> Self {
        Self {
            builder: Builder::new(Wire::Chat, context),
            message: None,
            reasoning: None,
            details: Details::default(),
            calls: Calls::default(),
            stop: None,
            usage: Usage::default(),
            service_tier: None,
        }
    }

    /// True after the end; later data is ignored.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.builder.is_ended()
    }

    /// Reads the data of one event.
    pub fn event(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        if self.is_ended() {
            return;
        }
        let read = event_text(data, Wire::Chat).and_then(|text| self.read(&text, sink));
        self.fail_with(read, sink);
    }

    /// Reads an answer that is no stream.
    pub fn document(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        let read = event_text(data, Wire::Chat).and_then(|text| self.read(&text, sink));
        self.fail_with(read, sink);
        self.finish(sink);
    }

    /// Ends the stream. A reason to finish is the only proof of an end.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        if self.stop.is_some() {
            let ended = self.end(sink);
            return self.fail_with(ended, sink);
        }
        self.builder.cut_off(self.usage, sink);
    }

    fn fail_with(&mut self, read: Result<(), Failure>, sink: &mut Sink<'_>) {
        if let Err(failure) = read {
            self.builder.fail(&failure, self.usage, sink);
        }
    }

    fn read(&mut self, text: &str, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let chunk: Chunk<'_> = match serde_json::from_str(text) {
            Ok(chunk) => chunk,
            Err(_) if text.trim() == "[DONE]" => return self.done(sink),
            Err(error) => return Err(malformed(Wire::Chat, error)),
        };
        if chunk.error.is_some_and(|error| error.get() != "null") {
            let failure = Object::read_str(text, &At::Root)
                .ok()
                .and_then(|object| Failure::from_object(None, object));
            let unknown =
                || Failure::new(FailureKind::Server, "The model server reported an error.");
            return Err(failure.unwrap_or_else(unknown));
        }
        if let Some(failure) = chunk.base_resp.and_then(base_failure) {
            return Err(failure);
        }
        let groq = chunk.x_groq.and_then(inner_usage);
        for usage in [groq, chunk.usage].into_iter().flatten() {
            self.set_usage(usage);
        }
        if let Some(tier) = chunk.service_tier.0 {
            self.service_tier = Some(tier.into_owned());
        }
        let Some(choices) = chunk.choices else {
            return match foreign_wire(text) {
                Some(wire) if wire != Wire::Chat => {
                    Err(other_wire(Wire::Chat, wire, !self.builder.is_created()))
                }
                _ => self.builder.idle(),
            };
        };
        self.builder.create(chunk.id.as_str(), chunk.model.as_str(), None, sink);
        if choices.is_empty() {
            return self.builder.idle();
        }
        for choice in choices {
            if choice.index.0.is_some_and(|index| index > 0) {
                let reason = "a choice besides the first is left out";
                sink(Event::Warning { member: "choices[]", reason });
                continue;
            }
            if let Some(usage) = choice.usage {
                self.set_usage(usage);
            }
            match choice.delta.or(choice.message) {
                Some(delta) => self.delta(&delta, sink)?,
                None => self.builder.idle()?,
            }
            self.set_stop(choice.finish_reason.as_str(), sink)?;
        }
        Ok(())
    }

    fn done(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let has_output =
            self.message.is_some() || !self.calls.is_empty() || self.reasoning.is_some();
        if self.stop.is_none() && !has_output {
            return Err(Failure::new(
                FailureKind::Disconnected,
                "The model server ended the stream without an answer.",
            ));
        }
        self.stop.get_or_insert(Stop::EndTurn);
        self.end(sink)
    }

    fn delta(&mut self, delta: &Delta<'_>, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut is_idle = true;
        if let Some(details) = delta.reasoning_details.filter(|raw| raw.get() != "null") {
            self.builder.keep(details.get().len())?;
            self.details.add(details);
            if delta.reasoning.is_empty() && delta.reasoning_content.is_empty() {
                let text = Details::text(details);
                self.think("reasoning_details", &text, sink)?;
            }
            is_idle = false;
        }
        for (member, text) in
            [("reasoning_content", &delta.reasoning_content), ("reasoning", &delta.reasoning)]
        {
            // OpenRouter has the same text under both names.
            if !text.is_empty() && (member != "reasoning" || delta.reasoning_content.is_empty()) {
                self.think(member, text.as_str(), sink)?;
                is_idle = false;
            }
        }
        if let Some(content) = delta.content {
            is_idle &= !self.content(content, sink)?;
        }
        if !delta.refusal.is_empty() {
            let message = self.message(sink)?;
            self.builder.refusal(message, delta.refusal.as_str(), sink)?;
            is_idle = false;
        }
        if let Some(raw) = delta.annotations {
            self.annotations(raw, sink)?;
        }
        if let Some(calls) = delta.tool_calls.filter(|raw| raw.get() != "null") {
            self.end_thought(sink)?;
            self.calls.read(calls, &mut self.builder, sink)?;
            is_idle = false;
        }
        if let Some(call) = delta.function_call.filter(|raw| raw.get() != "null") {
            self.end_thought(sink)?;
            self.calls.read_single(call, &mut self.builder, sink)?;
            is_idle = false;
        }
        if is_idle { self.builder.idle() } else { Ok(()) }
    }

    /// Reads `content`: text, nothing, or an array of parts. Returns whether there is any.
    fn content(&mut self, raw: &RawValue, sink: &mut Sink<'_>) -> Result<bool, Failure> {
        let json = raw.get();
        if json.starts_with('"') {
            let text: Lenient<'_> =
                serde_json::from_str(json).map_err(|error| malformed(Wire::Chat, error))?;
            if text.is_empty() {
                return Ok(false);
            }
            let message = self.message(sink)?;
            self.builder.text(message, text.as_str(), sink)?;
            return Ok(true);
        }
        if !json.starts_with('[') {
            return Ok(false);
        }
        let at = At::Root;
        for raw in array(raw, &at).map_err(|error| malformed(Wire::Chat, error))? {
            let Ok(mut part) = Object::read(raw, &at) else { continue };
            if let Some(thinking) = part.take("thinking") {
                // Mistral.
                let text = match thinking.get().starts_with('[') {
                    true => Details::text(thinking),
                    false => {
                        crate::json::text(thinking, &at).map(Cow::into_owned).unwrap_or_default()
                    }
                };
                self.think("", &text, sink)?;
            } else if let Ok(Some(text)) = part.opt_text(&at, "text") {
                let message = self.message(sink)?;
                self.builder.text(message, &text, sink)?;
            }
        }
        Ok(true)
    }

    fn message(&mut self, sink: &mut Sink<'_>) -> Result<u32, Failure> {
        self.end_thought(sink)?;
        if let Some(message) = self.message {
            return Ok(message);
        }
        let message = self.builder.open_message(sink)?;
        self.message = Some(message);
        Ok(message)
    }

    fn annotations(&mut self, raw: &RawValue, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let at = At::Root;
        for raw in array(raw, &at).unwrap_or_default() {
            let Ok(mut annotation) = Object::read(raw, &at) else { continue };
            let Ok(Some(mut citation)) = annotation.opt_object(&at, "url_citation") else {
                continue;
            };
            let mut text = |name| citation.opt_text(&at, name).ok().flatten().unwrap_or_default();
            let (url, title) = (text("url"), text("title"));
            let message = self.message(sink)?;
            self.builder.cite(message, &url, &title, sink)?;
        }
        Ok(())
    }

    fn think(
        &mut self,
        member: &'static str,
        text: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let thought = match &mut self.reasoning {
            Some(thought) => thought,
            None => {
                let index = self.builder.open_reasoning(sink)?;
                let member = Some(member).filter(|member| !member.is_empty());
                self.reasoning.insert(Thought { index, member, text: String::new() })
            }
        };
        thought.text.push_str(text);
        self.builder.reasoning(thought.index, text, sink)
    }

    fn end_thought(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let Some(Thought { index, member, text }) = self.reasoning.take() else { return Ok(()) };
        let payload = match member {
            _ if !self.details.is_empty() => Some(("reasoning_details", self.details.take())),
            Some(member) => Some((member, quoted(&text))),
            None => None,
        };
        if let Some((name, json)) = payload {
            self.builder.seal(index, Payload::Member { name: name.to_owned(), json })?;
        }
        self.builder.close(index, sink);
        Ok(())
    }

    fn set_stop(&mut self, reason: &str, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let stop = match reason {
            "" => return Ok(()),
            "stop" | "end_turn" | "eos" | "stop_sequence" => Stop::EndTurn,
            "tool_calls" | "function_call" | "tool_use" => Stop::ToolUse,
            "length" | "max_tokens" | "model_length" => Stop::MaxTokens,
            "content_filter" | "sensitive" => Stop::Filter,
            "error" | "network_error" => {
                let message = "The model server ended the response with an error.";
                return Err(Failure::new(FailureKind::Server, message));
            }
            "insufficient_system_resource" => {
                let message = "The model server is overloaded.";
                return Err(Failure::new(FailureKind::Overloaded, message));
            }
            _ => {
                let reason = "an unknown reason is taken as the end of the answer";
                sink(Event::Warning { member: "choices[].finish_reason", reason });
                Stop::EndTurn
            }
        };
        self.stop = Some(stop);
        Ok(())
    }

    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.end_thought(sink)?;
        let Some(stop) = self.stop.clone() else { return Ok(()) };
        if let Some(message) = self.message.take() {
            self.builder.close(message, sink);
        }
        let extras = self.calls.finish(&mut self.builder, sink)?;
        for (call_id, json) in extras {
            let name = "extra_content".to_owned();
            self.builder.opaque(Payload::CallMember { call_id, name, json }, sink)?;
        }
        if !self.details.is_empty() {
            // Those that came after the text.
            let (name, json) = ("reasoning_details".to_owned(), self.details.take());
            self.builder.opaque(Payload::Member { name, json }, sink)?;
        }
        // Servers say `stop` though there are calls, and `tool_calls` though there are none.
        let stop = match stop_with_calls(stop, self.builder.has_calls()) {
            Stop::ToolUse if !self.builder.has_calls() => Stop::EndTurn,
            stop => stop,
        };
        let end = End { stop, usage: self.usage, service_tier: self.service_tier.take() };
        self.builder.end(&end, sink);
        Ok(())
    }

    fn set_usage(&mut self, raw: &RawValue) {
        // A count that cannot be read costs no response.
        if let Ok(Some(usage)) = serde_json::from_str::<Option<WireUsage>>(raw.get()) {
            self.usage = usage.total();
            self.builder.see_usage(self.usage);
        }
    }
}

/// MiniMax reports errors with the status 200.
fn base_failure(raw: &RawValue) -> Option<Failure> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Base<'a> {
        status_code: Count,
        #[serde(borrow)]
        status_msg: Lenient<'a>,
    }
    let base: Base<'_> = serde_json::from_str(raw.get()).ok()?;
    let kind = match base.status_code.0? {
        0 => return None,
        1002 | 1039 => FailureKind::RateLimit,
        1004 => FailureKind::Unauthorized,
        1008 => FailureKind::Quota,
        2013 => FailureKind::Invalid,
        _ => FailureKind::Server,
    };
    Some(Failure::new(kind, base.status_msg.as_str()))
}

fn inner_usage(raw: &RawValue) -> Option<&RawValue> {
    Object::read(raw, &At::Root).ok()?.take("usage")
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    prompt_tokens: Tokens,
    completion_tokens: Tokens,
    total_tokens: Tokens,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek.
    prompt_cache_hit_tokens: Tokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Tokens,
    cache_write_tokens: Tokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Tokens,
}

impl WireUsage {
    fn total(self) -> Usage {
        let number = |count: Tokens| count.0.unwrap_or_default();
        let input = number(self.prompt_tokens);
        let details = self.prompt_tokens_details.unwrap_or_default();
        let cached = number(details.cached_tokens).max(number(self.prompt_cache_hit_tokens));
        let reasoning = number(self.completion_tokens_details.unwrap_or_default().reasoning_tokens);
        let mut output = number(self.completion_tokens);
        // xAI counts reasoning in the total alone.
        let sum = input.saturating_add(output).saturating_add(reasoning);
        if reasoning > 0 && number(self.total_tokens) == sum {
            output = output.saturating_add(reasoning);
        }
        Usage {
            input,
            cached: Tokens::part(cached, input),
            written: Tokens::part(number(details.cache_write_tokens), input),
            output,
            reasoning: Tokens::part(reasoning, output),
            ..Usage::default()
        }
    }
}
