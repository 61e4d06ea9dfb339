//! Decodes the chunks of a `streamGenerateContent` stream, each of which is a response.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::builder::{
    Builder, ResponseContext, Sink, event_text, foreign_wire, malformed, other_wire,
    stop_with_calls,
};
use crate::envelope::Payload;
use crate::event::{End, Event, OutputItem, Stop, Usage};
use crate::failure::{Failure, FailureKind};
use crate::json::{At, Count, Lenient, Object, Tokens, array};
use crate::kind::Wire;

/// Decodes one response.
#[derive(Debug)]
pub struct Decoder {
    builder: Builder,
    message: Option<u32>,
    thought: Option<u32>,
    /// The signature after the text of the open message, or of thoughts.
    text_signature: Option<String>,
    stop: Option<Stop>,
    usage: Usage,
    searches: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    model_version: Lenient<'a>,
    #[serde(borrow)]
    response_id: Lenient<'a>,
    #[serde(borrow)]
    prompt_feedback: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    index: Count,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Lenient<'a>,
    #[serde(borrow)]
    finish_message: Lenient<'a>,
    #[serde(borrow)]
    grounding_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow)]
    text: Lenient<'a>,
    thought: Option<bool>,
    #[serde(borrow)]
    thought_signature: Lenient<'a>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    inline_data: Option<InlineData<'a>>,
    #[serde(borrow)]
    executable_code: Option<&'a RawValue>,
    #[serde(borrow)]
    code_execution_result: Option<&'a RawValue>,
    #[serde(borrow)]
    file_data: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct InlineData<'a> {
    #[serde(borrow)]
    mime_type: Lenient<'a>,
    #[serde(borrow)]
    data: Lenient<'a>,
}

impl Decoder {
    /// Decodes the response of a request.
    #[must_use]
    pub fn new(context: ResponseContext) -> Self {
        Self {
            builder: Builder::new(Wire::Gemini, context),
            message: None,
            thought: None,
            text_signature: None,
            stop: None,
            usage: Usage::default(),
            searches: Vec::new(),
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
        let read = event_text(data, Wire::Gemini).and_then(|text| self.read(&text, sink));
        self.fail_with(read, sink);
    }

    /// Reads an answer that is no stream of events: a response, or an array of them.
    pub fn document(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        let read = event_text(data, Wire::Gemini).and_then(|text| {
            if !text.trim_ascii_start().starts_with('[') {
                return self.read(&text, sink);
            }
            let chunks: Vec<&RawValue> =
                serde_json::from_str(&text).map_err(|error| malformed(Wire::Gemini, error))?;
            chunks.into_iter().try_for_each(|chunk| self.read(chunk.get(), sink))
        });
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
        let text = match text.trim_ascii_start().starts_with('[') {
            // Vertex reports errors in an array.
            true => text.trim_ascii().trim_start_matches('[').trim_end_matches(']'),
            false => text,
        };
        let chunk: Chunk<'_> = match serde_json::from_str(text) {
            Ok(chunk) => chunk,
            Err(_) if text.trim() == "DONE" => return Ok(()),
            Err(error) => return Err(malformed(Wire::Gemini, error)),
        };
        if chunk.error.is_some_and(|error| error.get() != "null") {
            let failure = Object::read_str(text, &At::Root)
                .ok()
                .and_then(|object| Failure::from_object(None, object));
            let unknown =
                || Failure::new(FailureKind::Server, "The model server reported an error.");
            return Err(failure.unwrap_or_else(unknown));
        }
        if let Some(usage) = chunk.usage_metadata {
            self.set_usage(usage);
        }
        if let Some(feedback) = chunk.prompt_feedback {
            let at = At::Root;
            let mut feedback = Object::read(feedback, &at).unwrap_or_default();
            if feedback.take("blockReason").is_some() {
                self.stop = Some(Stop::Filter);
            }
        }
        let Some(candidates) = chunk.candidates else {
            return match foreign_wire(text) {
                Some(wire) if wire != Wire::Gemini => {
                    Err(other_wire(Wire::Gemini, wire, !self.builder.is_created()))
                }
                _ => self.builder.idle(),
            };
        };
        self.builder.create(chunk.response_id.as_str(), chunk.model_version.as_str(), None, sink);
        if candidates.is_empty() {
            return self.builder.idle();
        }
        for candidate in candidates {
            if candidate.index.0.is_some_and(|index| index > 0) {
                let reason = "a candidate besides the first is left out";
                sink(Event::Warning { member: "candidates[]", reason });
                continue;
            }
            let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
            if parts.is_empty() {
                self.builder.idle()?;
            }
            parts.iter().try_for_each(|part| self.part(part, sink))?;
            if let Some(grounding) = candidate.grounding_metadata {
                self.grounding(grounding, sink)?;
            }
            let reason = candidate.finish_reason.as_str();
            self.set_stop(reason, candidate.finish_message.as_str(), sink)?;
        }
        Ok(())
    }

    fn part(&mut self, part: &Part<'_>, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let signature = part.thought_signature.as_str();
        if let Some(call) = part.function_call {
            return self.call(call, signature, sink);
        }
        self.builder.keep(signature.len())?;
        if part.thought == Some(true) {
            let thought = match self.thought {
                Some(thought) => thought,
                None => {
                    self.close_message(sink)?;
                    self.builder.open_reasoning(sink)?
                }
            };
            self.thought = Some(thought);
            self.builder.summary(thought, part.text.as_str(), sink)?;
        } else if let Some(data) = &part.inline_data {
            self.close_thought(None, sink)?;
            self.close_message(sink)?;
            if !data.mime_type.as_str().starts_with("image/") {
                let reason = "data that is no image is left out";
                sink(Event::Warning { member: "candidates[].content.parts[].inlineData", reason });
                return Ok(());
            }
            self.builder.keep(data.data.as_str().len())?;
            let result = data.data.as_str().to_owned();
            self.builder.whole(|id| OutputItem::ImageCall { id, result }, "ig", sink)?;
        } else if part.executable_code.is_some()
            || part.code_execution_result.is_some()
            || part.file_data.is_some()
        {
            let reason = "a part of the provider's own tools is left out";
            sink(Event::Warning { member: "candidates[].content.parts[]", reason });
        } else if !part.text.is_empty() {
            self.close_thought(None, sink)?;
            let message = match self.message {
                Some(message) => message,
                None => self.builder.open_message(sink)?,
            };
            self.message = Some(message);
            self.builder.text(message, part.text.as_str(), sink)?;
        } else if signature.is_empty() {
            self.builder.idle()?;
        }
        if !signature.is_empty() {
            self.text_signature = Some(signature.to_owned());
        }
        Ok(())
    }

    fn call(
        &mut self,
        raw: &RawValue,
        signature: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Call<'a> {
            #[serde(borrow)]
            id: Lenient<'a>,
            #[serde(borrow)]
            name: Lenient<'a>,
            #[serde(borrow)]
            args: Option<&'a RawValue>,
            #[serde(borrow)]
            partial_args: Option<&'a RawValue>,
            will_continue: Option<bool>,
        }
        let call: Call<'_> =
            serde_json::from_str(raw.get()).map_err(|error| malformed(Wire::Gemini, error))?;
        if call.partial_args.is_some() || call.will_continue == Some(true) {
            return Err(malformed(
                Wire::Gemini,
                "a call's arguments come in parts, which was not asked for",
            ));
        }
        if call.name.is_empty() {
            return Err(malformed(Wire::Gemini, "a call has no name"));
        }
        self.close_message(sink)?;
        let signature =
            (!signature.is_empty()).then(|| Payload::CallSignature(signature.to_owned()));
        match (self.thought.is_some(), signature) {
            (true, signature) => self.close_thought(signature, sink)?,
            (false, Some(signature)) => self.builder.opaque(signature, sink)?,
            (false, None) => {}
        }
        let item = self.builder.open_call(call.id.as_str(), call.name.as_str(), sink)?;
        let arguments = call.args.map_or("{}", RawValue::get);
        self.builder.arguments(item, if arguments == "null" { "{}" } else { arguments }, sink)?;
        self.builder.close(item, sink);
        Ok(())
    }

    fn close_message(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        if let Some(message) = self.message.take() {
            self.builder.close(message, sink);
        }
        if self.thought.is_none()
            && let Some(signature) = self.text_signature.take()
        {
            self.builder.opaque(Payload::TextSignature(signature), sink)?;
        }
        Ok(())
    }

    fn close_thought(
        &mut self,
        payload: Option<Payload>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let Some(thought) = self.thought.take() else { return Ok(()) };
        let own = self.text_signature.take().map(Payload::TextSignature);
        if let Some(payload) = payload.or(own) {
            self.builder.seal(thought, payload)?;
        }
        self.builder.close(thought, sink);
        Ok(())
    }

    /// Searches and the pages that the answer cites.
    fn grounding(&mut self, raw: &RawValue, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let at = At::Root;
        let Ok(mut grounding) = Object::read(raw, &at) else { return Ok(()) };
        for query in grounding.texts(&at, "webSearchQueries").unwrap_or_default() {
            if !self.searches.iter().any(|known| *known == query) {
                self.builder.keep(query.len())?;
                self.searches.push(query.into_owned());
            }
        }
        let chunks =
            grounding.take("groundingChunks").map(|raw| array(raw, &at).unwrap_or_default());
        for raw in chunks.unwrap_or_default() {
            let web = Object::read(raw, &at).and_then(|mut chunk| chunk.opt_object(&at, "web"));
            let Ok(Some(mut web)) = web else { continue };
            let mut text = |name| web.opt_text(&at, name).ok().flatten().unwrap_or_default();
            let (uri, title) = (text("uri"), text("title"));
            if let Some(message) = self.message {
                self.builder.cite(message, &uri, &title, sink)?;
            }
        }
        Ok(())
    }

    fn set_stop(
        &mut self,
        reason: &str,
        message: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let failed = |kind, default: &str| {
            let text = if message.is_empty() { default } else { message };
            Err(Failure::new(kind, text))
        };
        let stop = match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => return Ok(()),
            "STOP" => Stop::EndTurn,
            "MAX_TOKENS" => Stop::MaxTokens,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "MODEL_ARMOR" => Stop::Filter,
            reason if reason.starts_with("IMAGE_") => Stop::Filter,
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => {
                return failed(FailureKind::Malformed, "The model made a malformed function call.");
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                return failed(
                    FailureKind::Invalid,
                    "A call of the history has no thought signature.",
                );
            }
            "OTHER" => {
                return failed(FailureKind::Server, "The model stopped without a reason.");
            }
            _ => {
                let reason = "an unknown reason is taken as the end of the answer";
                sink(Event::Warning { member: "candidates[].finishReason", reason });
                Stop::EndTurn
            }
        };
        self.stop = Some(stop);
        Ok(())
    }

    fn end(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let Some(stop) = self.stop.clone() else { return Ok(()) };
        self.builder.create("", "", None, sink);
        self.close_thought(None, sink)?;
        self.close_message(sink)?;
        self.usage.searches = self.searches.len() as u64;
        for query in std::mem::take(&mut self.searches) {
            let item = |id| OutputItem::WebSearchCall { id, query, is_failed: false };
            self.builder.whole(item, "ws", sink)?;
        }
        let stop = stop_with_calls(stop, self.builder.has_calls());
        self.builder.end(&End { stop, usage: self.usage, service_tier: None }, sink);
        Ok(())
    }

    fn set_usage(&mut self, raw: &RawValue) {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Counts {
            prompt_token_count: Tokens,
            cached_content_token_count: Tokens,
            candidates_token_count: Tokens,
            thoughts_token_count: Tokens,
            tool_use_prompt_token_count: Tokens,
        }
        // A count that cannot be read costs no response.
        let Ok(counts) = serde_json::from_str::<Counts>(raw.get()) else { return };
        let number = |count: Tokens| count.0.unwrap_or_default();
        let input = number(counts.prompt_token_count);
        let thoughts = number(counts.thoughts_token_count);
        self.usage = Usage {
            input: input.saturating_add(number(counts.tool_use_prompt_token_count)),
            cached: Tokens::part(number(counts.cached_content_token_count), input),
            output: number(counts.candidates_token_count).saturating_add(thoughts),
            reasoning: thoughts,
            ..Usage::default()
        };
        self.builder.see_usage(self.usage);
    }
}

/// Base64 in the alphabet of all wires: official clients of Gemini send the one for URLs.
pub(super) fn standard_base64(base64: Cow<'_, str>) -> Cow<'_, str> {
    let missing = if base64.ends_with('=') { 0 } else { (4 - base64.len() % 4) % 4 };
    if missing == 0 && !base64.contains(['-', '_']) {
        return base64;
    }
    let mut standard = base64.replace('-', "+").replace('_', "/");
    standard.extend(std::iter::repeat_n('=', missing));
    standard.into()
}

/// A signature as an envelope, if this crate made it for a client of this wire.
pub(crate) fn envelope_of(signature: &str) -> Option<Cow<'static, str>> {
    use base64::Engine;
    let signature = standard_base64(signature.into());
    let bytes = base64::engine::general_purpose::STANDARD.decode(&*signature).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    crate::envelope::Envelope::is_carried(&text).then_some(Cow::Owned(text))
}
