//! Reads the body of a Messages request.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::envelope::{Envelope, Payload};
use crate::error::Error;
use crate::json::{At, Object, array, object, text};
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
/// When a member is missing, has a wrong type, breaks a rule of the API, or cannot be translated.
pub(crate) fn read_request(body: &[u8]) -> Result<(Request<'_>, Warnings), Error> {
    let mut warnings = Warnings::default();
    let root = At::Root;
    let raw: &RawValue = serde_json::from_slice(body).map_err(|error| Error::malformed(&error))?;
    let mut body = Object::read(raw, &root)?;
    let limit = body.opt_count(&root, "max_tokens")?.ok_or_else(|| root.missing("max_tokens"))?;
    let mut request = Request {
        model: body.text(&root, "model")?,
        max_output_tokens: Some(limit),
        stream: body.opt_bool(&root, "stream")?.unwrap_or_default(),
        stream_usage: true,
        stop: body.texts(&root, "stop_sequences")?,
        temperature: body.opt_number(&root, "temperature")?,
        top_p: body.opt_number(&root, "top_p")?,
        encrypted_reasoning: true,
        store: Some(false),
        ..Request::default()
    };
    if limit == 0 {
        return Err(root.member("max_tokens").unsupported("a cache cannot be filled in advance"));
    }
    if let Some(raw) = body.take("system") {
        request.instructions = system(raw, &root.member("system"), &mut warnings)?;
    }
    read_tools(&mut body, &root, &mut request, &mut warnings)?;
    read_thinking(&mut body, &root, &mut request, &mut warnings)?;
    request.service_tier = match body.opt_text(&root, "service_tier")?.as_deref() {
        Some("standard_only") => Some("default".into()),
        Some("auto") => Some("auto".into()),
        Some(_) => return Err(root.member("service_tier").invalid("unknown tier")),
        None => None,
    };
    if let Some(mut metadata) = body.opt_object(&root, "metadata")? {
        request.user = metadata.opt_text(&root.member("metadata"), "user_id")?;
    }
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
    for (name, reason) in [
        ("container", "the model's wire keeps no containers"),
        ("mcp_servers", "the model's wire does not connect to MCP servers"),
        ("thread", "the model's wire keeps no state"),
        ("compaction", "the model's wire does not compact by itself"),
        ("fallbacks", "the gateway chooses the model"),
    ] {
        body.refuse(&root, name, reason)?;
    }
    for (name, reason) in [
        ("top_k", "other wires have no `top_k`"),
        ("cache_control", "the upstream caches by itself"),
        ("context_management", "other wires do not edit the context"),
        ("speed", "other wires have no speed"),
        ("inference_geo", "other wires have no place of inference"),
        ("diagnostics", "other wires have no diagnostics"),
    ] {
        body.warn_about(&root, name, reason, &mut warnings);
    }
    body.warn_rest(&root, &mut warnings);
    Ok((request, warnings))
}

fn system<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Option<Cow<'a, str>>, Error> {
    if raw.get().starts_with('"') {
        return text(raw, at).map(Some);
    }
    let mut texts = Vec::new();
    for (index, raw) in array(raw, at)?.into_iter().enumerate() {
        let at = at.index(index);
        let mut block = Object::read(raw, &at)?;
        if block.text(&at, "type")? != "text" {
            return Err(at.member("type").invalid("instructions are text"));
        }
        texts.push(block.text(&at, "text")?);
        block.warn_about(&at, "cache_control", MARKS, warnings);
        block.warn_about(&at, "citations", "citations are not sent back", warnings);
        block.warn_rest(&at, warnings);
    }
    Ok(match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(texts.join("\n\n").into()),
    })
}

const MARKS: &str = "the upstream caches by itself";

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
        let kind = tool.opt_text(&at, "type")?;
        tool.warn_about(&at, "cache_control", MARKS, warnings);
        let read = match kind.as_deref() {
            None | Some("custom") => {
                for name in ["eager_input_streaming", "input_examples", "allowed_callers"] {
                    tool.warn_about(&at, name, "other wires have no such hint", warnings);
                }
                let schema = tool.take("input_schema").ok_or_else(|| at.missing("input_schema"))?;
                Tool::Function(Function {
                    name: tool.text(&at, "name")?,
                    description: tool.opt_text(&at, "description")?,
                    parameters: Some(Cow::Borrowed(schema)),
                    strict: tool.opt_bool(&at, "strict")?,
                    is_deferred: tool.opt_bool(&at, "defer_loading")?.unwrap_or_default(),
                })
            }
            Some(kind) if kind.starts_with("web_search_") => {
                tool.take("name");
                Tool::WebSearch(WebSearch {
                    allowed_domains: tool.texts(&at, "allowed_domains")?,
                    blocked_domains: tool.texts(&at, "blocked_domains")?,
                    user_location: tool.take("user_location"),
                    context_size: None,
                    max_uses: tool.opt_count(&at, "max_uses")?,
                })
            }
            Some(kind) => {
                let reason = format!("`{kind}` is a tool of Anthropic's servers");
                return Err(at.member("type").unsupported(reason));
            }
        };
        tool.warn_rest(&at, warnings);
        request.tools.push(read);
    }
    let Some(mut choice) = body.opt_object(root, "tool_choice")? else { return Ok(()) };
    let at = root.member("tool_choice");
    request.tool_choice = Some(match choice.text(&at, "type")?.as_ref() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => match choice.text(&at, "name")? {
            name if name == "web_search" => ToolChoice::WebSearch,
            name => ToolChoice::Tool(name, false),
        },
        other => return Err(at.member("type").invalid(format!("unknown choice `{other}`"))),
    });
    if let Some(is_single) = choice.opt_bool(&at, "disable_parallel_tool_use")? {
        request.parallel_tool_calls = Some(!is_single);
    }
    choice.warn_rest(&at, warnings);
    Ok(())
}

fn read_thinking<'a>(
    body: &mut Object<'a>,
    root: &At<'_>,
    request: &mut Request<'a>,
    warnings: &mut Warnings,
) -> Result<(), Error> {
    if let Some(mut config) = body.opt_object(root, "output_config")? {
        let at = root.member("output_config");
        request.effort = config.opt_text(&at, "effort")?;
        if request.effort.as_deref() == Some("max") {
            request.effort = Some("xhigh".into());
        }
        if let Some(mut format) = config.opt_object(&at, "format")? {
            let at = at.member("format");
            if format.text(&at, "type")? != "json_schema" {
                return Err(at.member("type").invalid("only `json_schema` is known"));
            }
            let schema = Cow::Borrowed(format.take("schema").ok_or_else(|| at.missing("schema"))?);
            let name = "output".into();
            request.format =
                Some(Format::JsonSchema { name, schema, strict: Some(true), description: None });
        }
        config.warn_rest(&at, warnings);
    }
    let Some(mut thinking) = body.opt_object(root, "thinking")? else { return Ok(()) };
    let at = root.member("thinking");
    match thinking.text(&at, "type")?.as_ref() {
        "disabled" => request.effort = Some("none".into()),
        "enabled" => {
            let budget = thinking.opt_count(&at, "budget_tokens")?;
            let budget = budget.ok_or_else(|| at.missing("budget_tokens"))?;
            request.effort.get_or_insert(crate::shared::effort_of(budget).into());
            request.summary = Some("auto".into());
        }
        "adaptive" | "between_tools" => {}
        other => return Err(at.member("type").invalid(format!("unknown type `{other}`"))),
    }
    match thinking.opt_text(&at, "display")?.as_deref() {
        Some("summarized") => request.summary = Some("auto".into()),
        Some("omitted") => request.summary = None,
        Some(other) => {
            return Err(at.member("display").invalid(format!("unknown display `{other}`")));
        }
        None => {}
    }
    thinking.warn_rest(&at, warnings);
    Ok(())
}

struct Reader<'a, 'w> {
    model: String,
    items: Vec<Item<'a>>,
    warnings: &'w mut Warnings,
}

impl<'a> Reader<'a, '_> {
    fn message(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<(), Error> {
        let mut message = Object::read(raw, at)?;
        let role = match message.text(at, "role")?.as_ref() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::Developer,
            other => return Err(at.member("role").invalid(format!("unknown role `{other}`"))),
        };
        let raw = message.take("content").ok_or_else(|| at.missing("content"))?;
        let inner = at.member("content");
        if raw.get().starts_with('"') {
            let content = vec![Content::Text(text(raw, &inner)?)];
            self.items.push(Item::Message(Message { role, content, phase: None }));
        } else {
            let mut content = Vec::new();
            for (index, raw) in array(raw, &inner)?.into_iter().enumerate() {
                self.block(raw, &inner.index(index), role, &mut content)?;
            }
            self.flush(role, &mut content);
        }
        message.warn_rest(at, self.warnings);
        Ok(())
    }

    fn flush(&mut self, role: Role, content: &mut Vec<Content<'a>>) {
        if !content.is_empty() {
            let content = std::mem::take(content);
            self.items.push(Item::Message(Message { role, content, phase: None }));
        }
    }

    fn block(
        &mut self,
        raw: &'a RawValue,
        at: &At<'_>,
        role: Role,
        content: &mut Vec<Content<'a>>,
    ) -> Result<(), Error> {
        let mut block = Object::read(raw, at)?;
        block.warn_about(at, "cache_control", MARKS, self.warnings);
        let kind = block.text(at, "type")?;
        let is_assistant = role == Role::Assistant;
        match kind.as_ref() {
            "text" | "image" | "document" | "search_result" => {
                content.push(self.content(&kind, &mut block, at)?);
            }
            "tool_use" if is_assistant => {
                self.flush(role, content);
                block.take("caller");
                let input = block.take("input").ok_or_else(|| at.missing("input"))?;
                if !input.get().starts_with('{') {
                    return Err(at.member("input").wrong_type("an object"));
                }
                self.items.push(Item::Call(Call {
                    kind: CallKind::Function,
                    id: block.text(at, "id")?,
                    name: block.text(at, "name")?,
                    namespace: None,
                    input: input.get().into(),
                }));
            }
            "tool_result" if role == Role::User => {
                self.flush(role, content);
                self.tool_result(&mut block, at)?;
            }
            "thinking" | "redacted_thinking" if is_assistant => {
                self.flush(role, content);
                return self.thinking(raw, &kind, &mut block, at);
            }
            kind if is_assistant
                && (kind == "server_tool_use" || kind.ends_with("_tool_result")) =>
            {
                self.flush(role, content);
                let blocks = vec![raw.get().to_owned()];
                self.envelope(Payload::Blocks(blocks), Vec::new());
                return Ok(());
            }
            other => {
                let message =
                    format!("`{other}` is no content block of this role that other wires know");
                return Err(at.member("type").unsupported(message));
            }
        }
        block.warn_rest(at, self.warnings);
        Ok(())
    }

    fn content(
        &mut self,
        kind: &str,
        block: &mut Object<'a>,
        at: &At<'_>,
    ) -> Result<Content<'a>, Error> {
        block.warn_about(at, "citations", "citations are not sent back", self.warnings);
        match kind {
            "text" => Ok(Content::Text(block.text(at, "text")?)),
            "image" => {
                block.warn_about(
                    at,
                    "transformations",
                    "the image is sent as it is",
                    self.warnings,
                );
                let source = self.source(block, at, "image/png")?;
                Ok(Content::Image { source, detail: None })
            }
            "document" => {
                block.warn_about(
                    at,
                    "context",
                    "other wires have no context of files",
                    self.warnings,
                );
                let name = block.opt_text(at, "title")?;
                Ok(Content::File { source: self.source(block, at, "application/pdf")?, name })
            }
            "search_result" => {
                let (title, source) = (block.text(at, "title")?, block.text(at, "source")?);
                let inner = at.member("content");
                let mut out = format!("{title}\n{source}\n");
                for (index, raw) in
                    block.opt_array(at, "content")?.unwrap_or_default().into_iter().enumerate()
                {
                    let at = inner.index(index);
                    out.push_str(&Object::read(raw, &at)?.text(&at, "text")?);
                }
                Ok(Content::Text(out.into()))
            }
            other => Err(at.member("type").invalid(format!("unknown kind of content `{other}`"))),
        }
    }

    fn source(
        &mut self,
        block: &mut Object<'a>,
        at: &At<'_>,
        media: &'static str,
    ) -> Result<Source<'a>, Error> {
        let mut source = block.opt_object(at, "source")?.ok_or_else(|| at.missing("source"))?;
        let at = at.member("source");
        match source.text(&at, "type")?.as_ref() {
            "base64" => Ok(Source::Data {
                media_type: source.opt_text(&at, "media_type")?.unwrap_or_else(|| media.into()),
                base64: source.text(&at, "data")?,
            }),
            "url" => Ok(Source::Url(source.text(&at, "url")?)),
            "file" => Ok(Source::Id(source.text(&at, "file_id")?)),
            "text" => {
                use base64::Engine;
                let data = source.text(&at, "data")?;
                let base64 = base64::engine::general_purpose::STANDARD.encode(data.as_bytes());
                Ok(Source::Data { media_type: "text/plain".into(), base64: base64.into() })
            }
            other => Err(at.member("type").unsupported(format!("a source `{other}` has no equal"))),
        }
    }

    fn tool_result(&mut self, block: &mut Object<'a>, at: &At<'_>) -> Result<(), Error> {
        let call_id = block.text(at, "tool_use_id")?;
        let is_error = block.opt_bool(at, "is_error")?.unwrap_or_default();
        let mut content = Vec::new();
        let inner = at.member("content");
        match block.take("content") {
            None => content.push(Content::Text("".into())),
            Some(raw) if raw.get().starts_with('"') => {
                content.push(Content::Text(text(raw, &inner)?));
            }
            Some(raw) => {
                for (index, raw) in array(raw, &inner)?.into_iter().enumerate() {
                    let at = inner.index(index);
                    let mut part = Object::read(raw, &at)?;
                    part.warn_about(&at, "cache_control", MARKS, self.warnings);
                    let kind = part.text(&at, "type")?;
                    if kind == "tool_reference" {
                        self.warnings.add(at.pattern(), "other wires have no references to tools");
                        continue;
                    }
                    content.push(self.content(&kind, &mut part, &at)?);
                    part.warn_rest(&at, self.warnings);
                }
            }
        }
        let kind = CallKind::Function;
        self.items.push(Item::Output(Output { kind, call_id, content, is_error }));
        Ok(())
    }

    /// Reasoning: in the form of the wire that made it, if its signature is an envelope, or as Anthropic's own.
    fn thinking(
        &mut self,
        raw: &'a RawValue,
        kind: &str,
        block: &mut Object<'a>,
        at: &At<'_>,
    ) -> Result<(), Error> {
        if kind == "redacted_thinking" {
            self.envelope(Payload::Blocks(vec![raw.get().to_owned()]), Vec::new());
            return Ok(());
        }
        let thinking = block.text(at, "thinking")?;
        let signature = block.opt_text(at, "signature")?.unwrap_or_default();
        let summary: Vec<Cow<'a, str>> =
            if thinking.is_empty() { Vec::new() } else { vec![thinking] };
        if signature.is_empty() {
            self.warnings
                .add(at.member("signature").pattern(), "thinking without a signature is not sent");
            return Ok(());
        }
        if Envelope::is_carried(&signature) {
            let encrypted = Some(signature);
            self.items.push(Item::Reasoning(Reasoning {
                id: None,
                summary,
                content: Vec::new(),
                encrypted,
            }));
            return Ok(());
        }
        let mut own = String::new();
        object(&mut own, |members| {
            members.text("type", "thinking");
            members.text("thinking", summary.first().map_or("", |text| text));
            members.text("signature", &signature);
        });
        self.envelope(Payload::Blocks(vec![own]), summary);
        Ok(())
    }

    fn envelope(&mut self, payload: Payload, summary: Vec<Cow<'a, str>>) {
        let model = self.model.clone();
        let envelope = Envelope { wire: Wire::Messages, provider: String::new(), model, payload };
        let encrypted = Some(envelope.write().into());
        self.items.push(Item::Reasoning(Reasoning {
            id: None,
            summary,
            content: Vec::new(),
            encrypted,
        }));
    }
}
