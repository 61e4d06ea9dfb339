//! Reads the body of a Chat Completions request.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::envelope::{Envelope, Payload};
use crate::error::Error;
use crate::json::{At, Object, array, text};
use crate::kind::Wire;
use crate::request::{
    Call, CallKind, Content, Format, Function, Item, Message, Output, Reasoning, Request, Role,
    Source, Tool, ToolChoice, WebSearch,
};
use crate::shared::check_length;
use crate::warning::Warnings;

/// Reads a request.
///
/// # Errors
/// When a member is missing, has a wrong type, or cannot be translated.
pub(crate) fn read_request(body: &[u8]) -> Result<(Request<'_>, Warnings), Error> {
    let mut warnings = Warnings::default();
    let root = At::Root;
    let raw: &RawValue = serde_json::from_slice(body).map_err(|error| Error::malformed(&error))?;
    let mut body = Object::read(raw, &root)?;
    let limit = body.opt_count(&root, "max_completion_tokens")?;
    let mut request = Request {
        model: body.text(&root, "model")?,
        max_output_tokens: limit.or(body.opt_count(&root, "max_tokens")?),
        stream: body.opt_bool(&root, "stream")?.unwrap_or_default(),
        parallel_tool_calls: body.opt_bool(&root, "parallel_tool_calls")?,
        effort: body.opt_text(&root, "reasoning_effort")?,
        verbosity: body.opt_text(&root, "verbosity")?,
        temperature: body.opt_number(&root, "temperature")?,
        top_p: body.opt_number(&root, "top_p")?,
        service_tier: body.opt_text(&root, "service_tier")?,
        prompt_cache_key: body.opt_text(&root, "prompt_cache_key")?,
        store: body.opt_bool(&root, "store")?,
        metadata: body.take("metadata"),
        encrypted_reasoning: true,
        ..Request::default()
    };
    let user = body.opt_text(&root, "user")?;
    request.user = body.opt_text(&root, "safety_identifier")?.or(user);
    if let Some(mut options) = body.opt_object(&root, "stream_options")? {
        let at = root.member("stream_options");
        request.stream_usage = options.opt_bool(&at, "include_usage")?.unwrap_or_default();
        options.take("include_obfuscation");
        options.warn_rest(&at, &mut warnings);
    }
    request.stop = match body.peek("stop").is_some_and(|raw| raw.get().starts_with('"')) {
        true => vec![body.text(&root, "stop")?],
        false => body.texts(&root, "stop")?,
    };
    read_thinking(&mut body, &root, &mut request)?;
    read_format(&mut body, &root, &mut request)?;
    read_tools(&mut body, &root, &mut request, &mut warnings)?;
    let messages = body.opt_array(&root, "messages")?.ok_or_else(|| root.missing("messages"))?;
    let at = root.member("messages");
    if messages.is_empty() {
        return Err(at.invalid("at least one message is required"));
    }
    check_length(messages.len(), &at)?;
    let mut reader =
        Reader { model: request.model.to_string(), items: Vec::new(), warnings: &mut warnings };
    for (index, raw) in messages.into_iter().enumerate() {
        reader.message(raw, &at.index(index))?;
    }
    request.input = reader.items;
    request.instructions = take_instructions(&mut request.input);
    refuse(&mut body, &root)?;
    for (name, reason) in [
        ("seed", "other wires have no seed"),
        ("presence_penalty", "other wires have no penalties"),
        ("frequency_penalty", "other wires have no penalties"),
        ("top_k", "other wires have no `top_k`"),
        ("prediction", "other wires take no predictions"),
        ("prompt_cache_options", "the upstream caches by itself"),
        ("prompt_cache_retention", "the upstream caches by itself"),
    ] {
        body.warn_about(&root, name, reason, &mut warnings);
    }
    body.warn_rest(&root, &mut warnings);
    Ok((request, warnings))
}

/// Takes a first message of instructions that is one text.
fn take_instructions<'a>(input: &mut Vec<Item<'a>>) -> Option<Cow<'a, str>> {
    let is_own = |message: &Message<'_>| {
        let is_text =
            matches!(message.content.as_slice(), [Content::Text(text)] if !text.is_empty());
        is_text && matches!(message.role, Role::System | Role::Developer)
    };
    if !matches!(input.first(), Some(Item::Message(message)) if is_own(message)) {
        return None;
    }
    match input.remove(0) {
        Item::Message(Message { content, .. }) => match content.into_iter().next() {
            Some(Content::Text(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Members that change the meaning of the answer.
fn refuse(body: &mut Object<'_>, root: &At<'_>) -> Result<(), Error> {
    for name in ["n", "logprobs", "top_logprobs", "modalities"] {
        let plain = ["1", "0", "false", "[\"text\"]"];
        if body.peek(name).is_some_and(|raw| plain.contains(&raw.get())) {
            body.take(name);
        }
    }
    for (name, reason) in [
        ("n", "the server of this model makes one answer a request"),
        ("logprobs", "log probabilities are not translated"),
        ("top_logprobs", "log probabilities are not translated"),
        ("logit_bias", "other wires have no biases"),
        ("modalities", "other wires answer with text"),
        ("audio", "other wires answer with text"),
        ("moderation", "other wires have no moderation scores"),
    ] {
        body.refuse(root, name, reason)?;
    }
    Ok(())
}

fn read_thinking<'a>(
    body: &mut Object<'a>,
    root: &At<'_>,
    request: &mut Request<'a>,
) -> Result<(), Error> {
    if let Some(mut reasoning) = body.opt_object(root, "reasoning")? {
        let at = root.member("reasoning");
        let effort = reasoning.opt_text(&at, "effort")?;
        let budget = reasoning.opt_count(&at, "max_tokens")?;
        request.effort = effort.or(budget.map(|budget| crate::shared::effort_of(budget).into()));
    }
    if let Some(mut thinking) = body.opt_object(root, "thinking")? {
        let at = root.member("thinking");
        match thinking.text(&at, "type")?.as_ref() {
            "disabled" => request.effort = Some("none".into()),
            "enabled" => {
                request.effort.get_or_insert("medium".into());
            }
            other => return Err(at.member("type").invalid(format!("unknown type `{other}`"))),
        }
    }
    let budget = body.opt_count(root, "thinking_budget")?;
    match body.opt_bool(root, "enable_thinking")? {
        Some(false) => request.effort = Some("none".into()),
        Some(true) => {
            let effort = budget.map_or("medium", crate::shared::effort_of);
            request.effort.get_or_insert(effort.into());
        }
        None => {}
    }
    if request.effort.as_deref().is_some_and(|effort| effort != "none") {
        request.summary = Some("auto".into());
    }
    Ok(())
}

fn read_format<'a>(
    body: &mut Object<'a>,
    root: &At<'_>,
    request: &mut Request<'a>,
) -> Result<(), Error> {
    let Some(mut format) = body.opt_object(root, "response_format")? else { return Ok(()) };
    let at = root.member("response_format");
    request.format = match format.text(&at, "type")?.as_ref() {
        "text" => None,
        "json_object" => Some(Format::JsonObject),
        "json_schema" => {
            let schema = format.opt_object(&at, "json_schema")?;
            let mut schema = schema.ok_or_else(|| at.missing("json_schema"))?;
            let at = at.member("json_schema");
            Some(Format::JsonSchema {
                name: schema.text(&at, "name")?,
                schema: Cow::Borrowed(schema.take("schema").ok_or_else(|| at.missing("schema"))?),
                strict: schema.opt_bool(&at, "strict")?,
                description: schema.opt_text(&at, "description")?,
            })
        }
        other => return Err(at.member("type").invalid(format!("unknown format `{other}`"))),
    };
    Ok(())
}

fn read_tools<'a>(
    body: &mut Object<'a>,
    root: &At<'_>,
    request: &mut Request<'a>,
    warnings: &mut Warnings,
) -> Result<(), Error> {
    let list = body.opt_array(root, "tools")?.unwrap_or_default();
    let at = root.member("tools");
    check_length(list.len(), &at)?;
    for (index, raw) in list.into_iter().enumerate() {
        let at = at.index(index);
        let mut tool = Object::read(raw, &at)?;
        let kind = tool.text(&at, "type")?;
        let mut inner = tool.opt_object(&at, &kind)?.ok_or_else(|| at.missing(&kind))?;
        let within = at.member(&kind);
        request.tools.push(match kind.as_ref() {
            "function" => Tool::Function(Function {
                name: inner.text(&within, "name")?,
                description: inner.opt_text(&within, "description")?,
                parameters: inner.take("parameters").map(Cow::Borrowed),
                strict: inner.opt_bool(&within, "strict")?,
                is_deferred: false,
            }),
            "custom" => {
                let mut format = inner.take("format");
                // A grammar stands inside a member here; its own members are the Responses form.
                if let Some(raw) = format
                    && let Ok(mut object) = Object::read(raw, &within)
                    && object.peek("grammar").is_some()
                {
                    format = object.take("grammar");
                }
                let description = inner.opt_text(&within, "description")?;
                Tool::Custom { name: inner.text(&within, "name")?, description, format }
            }
            other => {
                return Err(at
                    .member("type")
                    .unsupported(format!("unknown kind of tool `{other}`")));
            }
        });
        inner.warn_rest(&within, warnings);
        tool.warn_about(&at, "cache_control", "the upstream caches by itself", warnings);
        tool.warn_rest(&at, warnings);
    }
    if let Some(mut search) = body.opt_object(root, "web_search_options")? {
        let at = root.member("web_search_options");
        let context_size = search.opt_text(&at, "search_context_size")?;
        let user_location = search.take("user_location");
        request.tools.push(Tool::WebSearch(WebSearch {
            context_size,
            user_location,
            ..WebSearch::default()
        }));
        search.warn_rest(&at, warnings);
    }
    if let Some(raw) = body.take("tool_choice") {
        request.tool_choice = Some(tool_choice(raw, &root.member("tool_choice"))?);
    }
    Ok(())
}

fn tool_choice<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<ToolChoice<'a>, Error> {
    if raw.get().starts_with('"') {
        return match text(raw, at)?.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" | "any" => Ok(ToolChoice::Required),
            other => Err(at.invalid(format!("unknown choice `{other}`"))),
        };
    }
    let mut choice = Object::read(raw, at)?;
    let kind = choice.text(at, "type")?;
    let mut inner = choice.opt_object(at, &kind)?.ok_or_else(|| at.missing(&kind))?;
    let within = at.member(&kind);
    match kind.as_ref() {
        "function" => Ok(ToolChoice::Tool(inner.text(&within, "name")?, false)),
        "custom" => Ok(ToolChoice::Tool(inner.text(&within, "name")?, true)),
        "allowed_tools" => {
            let is_required = inner.opt_text(&within, "mode")?.as_deref() == Some("required");
            let tools = inner.opt_array(&within, "tools")?.unwrap_or_default();
            let at = within.member("tools");
            let mut names = Vec::with_capacity(tools.len());
            for (index, raw) in tools.into_iter().enumerate() {
                let at = at.index(index);
                let mut tool = Object::read(raw, &at)?;
                let kind = tool.text(&at, "type")?;
                let mut tool = tool.opt_object(&at, &kind)?.ok_or_else(|| at.missing(&kind))?;
                names.push(tool.text(&at.member(&kind), "name")?);
            }
            Ok(ToolChoice::Allowed(names, is_required))
        }
        other => Err(at.member("type").invalid(format!("unknown choice `{other}`"))),
    }
}

struct Reader<'a, 'w> {
    model: String,
    items: Vec<Item<'a>>,
    warnings: &'w mut Warnings,
}

impl<'a> Reader<'a, '_> {
    fn message(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<(), Error> {
        let mut message = Object::read(raw, at)?;
        message.warn_about(at, "name", "other wires have no names of authors", self.warnings);
        let role = message.text(at, "role")?;
        match role.as_ref() {
            "system" | "developer" | "user" => {
                let role = match role.as_ref() {
                    "system" => Role::System,
                    "developer" => Role::Developer,
                    _ => Role::User,
                };
                let raw = message.take("content").ok_or_else(|| at.missing("content"))?;
                let content = self.contents(raw, &at.member("content"))?;
                self.items.push(Item::Message(Message { role, content, phase: None }));
            }
            "assistant" => self.assistant(&mut message, at)?,
            "tool" | "function" => {
                let call_id = message.text(at, "tool_call_id")?;
                let raw = message.take("content").ok_or_else(|| at.missing("content"))?;
                let content = self.contents(raw, &at.member("content"))?;
                let kind = self.kind_of(&call_id);
                self.items.push(Item::Output(Output { kind, call_id, content, is_error: false }));
            }
            other => return Err(at.member("role").invalid(format!("unknown role `{other}`"))),
        }
        message.warn_about(at, "cache_control", "the upstream caches by itself", self.warnings);
        message.warn_rest(at, self.warnings);
        Ok(())
    }

    /// The kind of the call that an output answers.
    fn kind_of(&self, call_id: &str) -> CallKind {
        let call = self.items.iter().rev().find_map(|item| match item {
            Item::Call(call) if call.id == call_id => Some(call.kind.clone()),
            _ => None,
        });
        call.unwrap_or(CallKind::Function)
    }

    fn contents(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<Vec<Content<'a>>, Error> {
        if raw.get().starts_with('"') {
            return Ok(vec![Content::Text(text(raw, at)?)]);
        }
        let list = array(raw, at)?;
        list.into_iter()
            .enumerate()
            .map(|(index, raw)| self.content(raw, &at.index(index)))
            .collect()
    }

    fn content(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<Content<'a>, Error> {
        let mut part = Object::read(raw, at)?;
        part.warn_about(at, "cache_control", "the upstream caches by itself", self.warnings);
        let kind = part.text(at, "type")?;
        let within = at.member(&kind);
        let read = match kind.as_ref() {
            "text" => Content::Text(part.text(at, "text")?),
            "refusal" => Content::Refusal(part.text(at, "refusal")?),
            "image_url" => {
                let mut image = part.opt_object(at, &kind)?.ok_or_else(|| at.missing(&kind))?;
                let detail = image.opt_text(&within, "detail")?;
                Content::Image { source: Source::from_url(image.text(&within, "url")?), detail }
            }
            "file" => {
                let mut file = part.opt_object(at, &kind)?.ok_or_else(|| at.missing(&kind))?;
                let name = file.opt_text(&within, "filename")?;
                let source = match (
                    file.opt_text(&within, "file_data")?,
                    file.opt_text(&within, "file_id")?,
                ) {
                    (Some(data), _) => match Source::from_url(data) {
                        Source::Url(base64) => {
                            Source::Data { media_type: "application/pdf".into(), base64 }
                        }
                        source => source,
                    },
                    (None, Some(id)) => Source::Id(id),
                    (None, None) => return Err(within.missing("file_data")),
                };
                Content::File { source, name }
            }
            "input_audio" => {
                let mut audio = part.opt_object(at, &kind)?.ok_or_else(|| at.missing(&kind))?;
                Content::Audio {
                    data: audio.text(&within, "data")?,
                    format: audio.text(&within, "format")?,
                }
            }
            other => {
                return Err(at
                    .member("type")
                    .invalid(format!("unknown kind of content `{other}`")));
            }
        };
        part.warn_rest(at, self.warnings);
        Ok(read)
    }

    fn assistant(&mut self, message: &mut Object<'a>, at: &At<'_>) -> Result<(), Error> {
        self.reasoning(message, at)?;
        let mut content = match message.take("content") {
            Some(raw) => self.contents(raw, &at.member("content"))?,
            None => Vec::new(),
        };
        if let Some(refusal) = message.opt_text(at, "refusal")? {
            content.push(Content::Refusal(refusal));
        }
        message.warn_about(at, "annotations", "citations are not sent back", self.warnings);
        message.refuse(at, "audio", "other wires take no sound of the assistant")?;
        content.retain(|part| !matches!(part, Content::Text(text) if text.is_empty()));
        if !content.is_empty() {
            let role = Role::Assistant;
            self.items.push(Item::Message(Message { role, content, phase: None }));
        }
        let calls = message.opt_array(at, "tool_calls")?.unwrap_or_default();
        let within = at.member("tool_calls");
        for (index, raw) in calls.into_iter().enumerate() {
            let at = within.index(index);
            let mut call = Object::read(raw, &at)?;
            let id = call.text(&at, "id")?;
            let kind = call.opt_text(&at, "type")?.unwrap_or_else(|| "function".into());
            let mut inner = call.opt_object(&at, &kind)?.ok_or_else(|| at.missing(&kind))?;
            let of = at.member(&kind);
            let (name, is_custom) = (inner.text(&of, "name")?, kind == "custom");
            let input = inner.opt_text(&of, if is_custom { "input" } else { "arguments" })?;
            if let Some(extra) = call.take("extra_content") {
                let (call_id, json) = (id.to_string(), extra.get().to_owned());
                let name = "extra_content".to_owned();
                self.envelope(Payload::CallMember { call_id, name, json }, None);
            }
            let kind = if is_custom { CallKind::Custom } else { CallKind::Function };
            let input = input.unwrap_or_default();
            self.items.push(Item::Call(Call { kind, id, name, namespace: None, input }));
            call.take("index");
            call.warn_rest(&at, self.warnings);
        }
        Ok(())
    }

    /// Reasoning: the text of the assistant's message, and details that a server needs back. Those of another wire are
    /// envelopes.
    fn reasoning(&mut self, message: &mut Object<'a>, at: &At<'_>) -> Result<(), Error> {
        let content = message.opt_text(at, "reasoning_content")?;
        let reasoning = message.opt_text(at, "reasoning")?;
        let mut foreign = false;
        if let Some(raw) = message.take("reasoning_details") {
            let within = at.member("reasoning_details");
            let mut own = false;
            for (index, raw) in array(raw, &within)?.into_iter().enumerate() {
                let at = within.index(index);
                let mut detail = Object::read(raw, &at)?;
                match detail.opt_text(&at, "data")?.filter(|data| Envelope::is_carried(data)) {
                    Some(data) => {
                        foreign = true;
                        let encrypted = Some(data);
                        let summary = content.iter().cloned().collect();
                        self.items.push(Item::Reasoning(Reasoning {
                            id: None,
                            summary,
                            content: Vec::new(),
                            encrypted,
                        }));
                    }
                    None => own = true,
                }
            }
            if own {
                let json = raw.get().to_owned();
                let name = "reasoning_details".to_owned();
                self.envelope(Payload::Member { name, json }, reasoning);
                return Ok(());
            }
        }
        let member = match (content, reasoning) {
            _ if foreign => return Ok(()),
            (Some(text), _) => Some(("reasoning_content", text)),
            (None, Some(text)) => Some(("reasoning", text)),
            (None, None) => None,
        };
        if let Some((name, text)) = member.filter(|(_, text)| !text.is_empty()) {
            let payload =
                Payload::Member { name: name.to_owned(), json: crate::json::quoted(&text) };
            self.envelope(payload, Some(text));
        }
        Ok(())
    }

    fn envelope(&mut self, payload: Payload, text: Option<Cow<'a, str>>) {
        let model = self.model.clone();
        let envelope = Envelope { wire: Wire::Chat, provider: String::new(), model, payload };
        let encrypted = Some(envelope.write().into());
        let content = text.into_iter().collect();
        self.items.push(Item::Reasoning(Reasoning {
            id: None,
            summary: Vec::new(),
            content,
            encrypted,
        }));
    }
}
