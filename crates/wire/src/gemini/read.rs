//! Reads the body of a `generateContent` request.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::decode::{envelope_of, standard_base64};
use super::schema::to_json_schema;
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

/// Reads a request. The model is that of the path.
///
/// # Errors
/// When a member is missing, has a wrong type, or cannot be translated.
pub(crate) fn read_request<'a>(
    model: &'a str,
    body: &'a [u8],
) -> Result<(Request<'a>, Warnings), Error> {
    let mut warnings = Warnings::default();
    let root = At::Root;
    let raw: &RawValue = serde_json::from_slice(body).map_err(|error| Error::malformed(&error))?;
    let mut body = object(raw, &root)?;
    let mut request = Request {
        model: model.strip_prefix("models/").unwrap_or(model).into(),
        stream_usage: true,
        encrypted_reasoning: true,
        metadata: body.take("labels"),
        store: body.opt_bool(&root, "store")?,
        ..Request::default()
    };
    request.service_tier = match body.opt_text(&root, "serviceTier")?.as_deref() {
        Some("FLEX") => Some("flex".into()),
        Some("PRIORITY") => Some("priority".into()),
        Some("STANDARD") => Some("default".into()),
        Some(_) => return Err(root.member("serviceTier").invalid("unknown tier")),
        None => None,
    };
    if let Some(raw) = body.take("systemInstruction") {
        request.instructions = instructions(raw, &root.member("systemInstruction"))?;
    }
    read_tools(&mut body, &root, &mut request, &mut warnings)?;
    if let Some(raw) = body.take("generationConfig") {
        read_config(raw, &root.member("generationConfig"), &mut request, &mut warnings)?;
    }
    let contents = body.opt_array(&root, "contents")?.ok_or_else(|| root.missing("contents"))?;
    let at = root.member("contents");
    if contents.is_empty() {
        return Err(at.invalid("at least one content is required"));
    }
    check_length(contents.len(), &at)?;
    let mut reader = Reader {
        model: request.model.to_string(),
        items: Vec::new(),
        open: Vec::new(),
        calls: 0,
        warnings: &mut warnings,
    };
    for (index, raw) in contents.into_iter().enumerate() {
        reader.content(raw, &at.index(index))?;
    }
    request.input = reader.items;
    body.refuse(&root, "cachedContent", "the upstream has no such cache")?;
    body.warn_about(
        &root,
        "safetySettings",
        "other wires have no settings of safety",
        &mut warnings,
    );
    body.warn_about(&root, "model", "the model is in the path", &mut warnings);
    body.warn_rest(&root, &mut warnings);
    Ok((request, warnings))
}

/// An object of the API, which takes each member under two names, such as `maxOutputTokens` and `max_output_tokens`.
fn object<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Object<'a>, Error> {
    Object::read(raw, at).map(Object::in_camel_case)
}

fn member<'a>(of: &mut Object<'a>, at: &At<'_>, name: &str) -> Result<Option<Object<'a>>, Error> {
    of.take(name).map(|raw| object(raw, &at.member(name))).transpose()
}

fn instructions<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Option<Cow<'a, str>>, Error> {
    if raw.get().starts_with('"') {
        return text(raw, at).map(Some);
    }
    let mut content = object(raw, at)?;
    let parts = content.opt_array(at, "parts")?.unwrap_or_default();
    let within = at.member("parts");
    let mut texts = Vec::with_capacity(parts.len());
    for (index, raw) in parts.into_iter().enumerate() {
        let at = within.index(index);
        texts.push(object(raw, &at)?.text(&at, "text")?);
    }
    Ok(match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(texts.join("\n\n").into()),
    })
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
        let mut tool = object(raw, &at)?;
        let declarations = tool.take("functionDeclarations");
        let within = at.member("functionDeclarations");
        let declarations = declarations.map(|raw| array(raw, &within)).transpose()?;
        for (index, raw) in declarations.unwrap_or_default().into_iter().enumerate() {
            request.tools.push(Tool::Function(declaration(raw, &within.index(index), warnings)?));
        }
        if tool.take("googleSearch").is_some() {
            request.tools.push(Tool::WebSearch(WebSearch::default()));
        }
        for name in [
            "urlContext",
            "codeExecution",
            "googleMaps",
            "fileSearch",
            "computerUse",
            "googleSearchRetrieval",
        ] {
            tool.refuse(&at, name, "it is a tool of Google's servers")?;
        }
        tool.warn_rest(&at, warnings);
    }
    let Some(mut config) = member(body, root, "toolConfig")? else { return Ok(()) };
    let at = root.member("toolConfig");
    if let Some(mut calling) = member(&mut config, &at, "functionCallingConfig")? {
        let at = at.member("functionCallingConfig");
        let names = calling.texts(&at, "allowedFunctionNames")?;
        let mode = calling.opt_text(&at, "mode")?;
        calling.warn_about(&at, "streamFunctionCallArguments", "calls arrive whole", warnings);
        request.tool_choice = match (mode.as_deref(), names.len()) {
            (None | Some("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED"), 0) => None,
            (None | Some("AUTO" | "VALIDATED" | "MODE_UNSPECIFIED"), _) => {
                Some(ToolChoice::Allowed(names, false))
            }
            (Some("NONE"), _) => Some(ToolChoice::None),
            (Some("ANY"), 0) => Some(ToolChoice::Required),
            (Some("ANY"), 1) => names.into_iter().next().map(|name| ToolChoice::Tool(name, false)),
            (Some("ANY"), _) => Some(ToolChoice::Allowed(names, true)),
            (Some(other), _) => {
                return Err(at.member("mode").invalid(format!("unknown mode `{other}`")));
            }
        };
        calling.warn_rest(&at, warnings);
    }
    config.warn_rest(&at, warnings);
    Ok(())
}

fn declaration<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Function<'a>, Error> {
    let mut function = object(raw, at)?;
    let own = function.take("parametersJsonSchema").map(Cow::Borrowed);
    let parameters = match own {
        Some(schema) => Some(schema),
        None => {
            let raw = function.take("parameters");
            raw.map(|raw| to_json_schema(raw, &at.member("parameters"))).transpose()?
        }
    };
    function.warn_about(at, "response", "other wires have no schema of outputs", warnings);
    function.warn_about(
        at,
        "responseJsonSchema",
        "other wires have no schema of outputs",
        warnings,
    );
    function.warn_about(at, "behavior", "calls wait for their outputs", warnings);
    let read = Function {
        name: function.text(at, "name")?,
        description: function.opt_text(at, "description")?,
        parameters,
        strict: None,
        is_deferred: false,
    };
    function.warn_rest(at, warnings);
    Ok(read)
}

fn read_config<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    request: &mut Request<'a>,
    warnings: &mut Warnings,
) -> Result<(), Error> {
    let mut config = object(raw, at)?;
    request.max_output_tokens = config.opt_count(at, "maxOutputTokens")?;
    request.stop = config.texts(at, "stopSequences")?;
    request.temperature = config.opt_number(at, "temperature")?;
    request.top_p = config.opt_number(at, "topP")?;
    let mime = config.opt_text(at, "responseMimeType")?;
    let schema = match config.take("responseJsonSchema") {
        Some(schema) => Some(Cow::Borrowed(schema)),
        None => {
            let raw = config.take("responseSchema");
            raw.map(|raw| to_json_schema(raw, &at.member("responseSchema"))).transpose()?
        }
    };
    request.format = match (mime.as_deref(), schema) {
        (_, Some(schema)) => {
            let name = "output".into();
            Some(Format::JsonSchema { name, schema, strict: None, description: None })
        }
        (Some("application/json"), None) => Some(Format::JsonObject),
        (None | Some("text/plain"), None) => None,
        (Some(other), None) => {
            let reason = format!("answers of the type `{other}` have no equal");
            return Err(at.member("responseMimeType").unsupported(reason));
        }
    };
    if let Some(mut thinking) = member(&mut config, at, "thinkingConfig")? {
        let at = at.member("thinkingConfig");
        if thinking.opt_bool(&at, "includeThoughts")? == Some(true) {
            request.summary = Some("auto".into());
        }
        let level = thinking.opt_text(&at, "thinkingLevel")?;
        request.effort = level.map(|level| level.to_ascii_lowercase().into());
        // A negative budget leaves the choice to the model.
        if let Some(budget) = thinking.opt_number(&at, "thinkingBudget")?
            && let Ok(budget) = budget.get().parse()
        {
            request.effort = Some(crate::shared::effort_of(budget).into());
        }
        thinking.warn_rest(&at, warnings);
    }
    for name in ["candidateCount", "responseModalities", "responseLogprobs"] {
        let plain = ["1", "false", "[\"TEXT\"]"];
        if config.peek(name).is_some_and(|raw| plain.contains(&raw.get())) {
            config.take(name);
        }
    }
    config.refuse(at, "candidateCount", "the server of this model makes one answer a request")?;
    config.refuse(at, "responseModalities", "other wires answer with text")?;
    config.refuse(at, "responseLogprobs", "log probabilities are not translated")?;
    config.refuse(at, "speechConfig", "other wires answer with text")?;
    for (name, reason) in [
        ("topK", "other wires have no `topK`"),
        ("seed", "other wires have no seed"),
        ("presencePenalty", "other wires have no penalties"),
        ("frequencyPenalty", "other wires have no penalties"),
        ("mediaResolution", "other wires choose the resolution"),
    ] {
        config.warn_about(at, name, reason, warnings);
    }
    config.warn_rest(at, warnings);
    Ok(())
}

struct Reader<'a, 'w> {
    model: String,
    items: Vec<Item<'a>>,
    /// Calls without a response so far: their ids and names.
    open: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    calls: usize,
    warnings: &'w mut Warnings,
}

impl<'a> Reader<'a, '_> {
    fn content(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<(), Error> {
        let mut content = object(raw, at)?;
        let role = match content.opt_text(at, "role")?.as_deref() {
            None | Some("user" | "function") => Role::User,
            Some("model") => Role::Assistant,
            Some(other) => {
                return Err(at.member("role").invalid(format!("unknown role `{other}`")));
            }
        };
        let parts = content.opt_array(at, "parts")?.unwrap_or_default();
        let within = at.member("parts");
        let mut message = Vec::new();
        for (index, raw) in parts.into_iter().enumerate() {
            self.part(raw, &within.index(index), role, &mut message)?;
        }
        self.flush(role, &mut message);
        content.warn_rest(at, self.warnings);
        Ok(())
    }

    fn flush(&mut self, role: Role, message: &mut Vec<Content<'a>>) {
        if !message.is_empty() {
            let content = std::mem::take(message);
            self.items.push(Item::Message(Message { role, content, phase: None }));
        }
    }

    fn part(
        &mut self,
        raw: &'a RawValue,
        at: &At<'_>,
        role: Role,
        message: &mut Vec<Content<'a>>,
    ) -> Result<(), Error> {
        let mut part = object(raw, at)?;
        let signature = part.opt_text(at, "thoughtSignature")?;
        if part.opt_bool(at, "thought")? == Some(true) {
            self.warnings.add(at.member("thought").pattern(), "thoughts are not sent back");
            return Ok(());
        }
        if let Some(raw) = part.take("functionCall") {
            self.flush(role, message);
            if let Some(signature) = signature {
                self.signature(&signature, true);
            }
            self.call(raw, &at.member("functionCall"))?;
        } else if let Some(raw) = part.take("functionResponse") {
            self.flush(role, message);
            self.response(raw, &at.member("functionResponse"))?;
        } else if let Some(text) = part.opt_text(at, "text")? {
            if !text.is_empty() {
                message.push(Content::Text(text));
            }
            if let Some(signature) = signature {
                self.flush(role, message);
                self.signature(&signature, false);
            }
        } else if let Some(raw) = part.take("inlineData") {
            let content = inline(raw, &at.member("inlineData"))?;
            match (role, content) {
                (Role::Assistant, Content::Image { source: Source::Data { base64, .. }, .. }) => {
                    self.flush(role, message);
                    let kind = "image_generation_call".into();
                    self.items.push(Item::Hosted { kind, image: Some(base64) });
                }
                (_, content) => message.push(content),
            }
        } else if let Some(raw) = part.take("fileData") {
            let at = at.member("fileData");
            let mut file = object(raw, &at)?;
            let source = Source::Url(file.text(&at, "fileUri")?);
            let is_image =
                file.opt_text(&at, "mimeType")?.is_some_and(|kind| kind.starts_with("image/"));
            message.push(match is_image {
                true => Content::Image { source, detail: None },
                false => Content::File { source, name: None },
            });
        } else if let Some(signature) = signature {
            // Gemini CLI takes the empty text off a part that was sent for its signature.
            self.flush(role, message);
            self.signature(&signature, false);
        } else {
            return Err(at.unsupported("a part of this kind has no equal"));
        }
        part.warn_rest(at, self.warnings);
        Ok(())
    }

    /// The signature of a call, or after a text.
    fn signature(&mut self, signature: &str, is_of_call: bool) {
        let encrypted = envelope_of(signature).unwrap_or_else(|| {
            let text = signature.to_owned();
            let payload = if is_of_call {
                Payload::CallSignature(text)
            } else {
                Payload::TextSignature(text)
            };
            let (provider, model) = (String::new(), self.model.clone());
            Envelope { wire: Wire::Gemini, provider, model, payload }.write().into()
        });
        self.items.push(Item::Reasoning(Reasoning {
            encrypted: Some(encrypted),
            ..Reasoning::default()
        }));
    }

    fn call(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<(), Error> {
        let mut call = object(raw, at)?;
        let name = call.text(at, "name")?;
        self.calls += 1;
        let id = call.opt_text(at, "id")?.filter(|id| !id.is_empty());
        // The number keeps ids of equal names apart, and the same from request to request.
        let id = id.unwrap_or_else(|| format!("call_{}_{name}", self.calls).into());
        let input = call.take("args").map_or("{}", RawValue::get);
        if !input.starts_with('{') {
            return Err(at.member("args").wrong_type("an object"));
        }
        self.open.push((id.clone(), name.clone()));
        let kind = CallKind::Function;
        self.items.push(Item::Call(Call { kind, id, name, namespace: None, input: input.into() }));
        call.warn_rest(at, self.warnings);
        Ok(())
    }

    fn response(&mut self, raw: &'a RawValue, at: &At<'_>) -> Result<(), Error> {
        let mut response = object(raw, at)?;
        let name = response.text(at, "name")?;
        let id = response.opt_text(at, "id")?.filter(|id| !id.is_empty());
        // Without an id it answers the first open call of its name.
        let position = self.open.iter().position(|(open, of)| match &id {
            Some(id) => open == id,
            None => *of == name,
        });
        let call_id = match (position, id) {
            (Some(position), _) => self.open.remove(position).0,
            (None, Some(id)) => id,
            (None, None) => {
                return Err(at.invalid(format!("no open call has the name `{name}`")));
            }
        };
        let within = at.member("response");
        let raw = response.take("response").ok_or_else(|| at.missing("response"))?;
        let mut answer = Object::read(raw, &within)?;
        let only = |answer: &mut Object<'a>, name| {
            answer.opt_text(&within, name).ok().flatten().filter(|_| answer.is_empty())
        };
        let (text, is_error) = match only(&mut answer, "output") {
            Some(text) => (text, false),
            None => match only(&mut Object::read(raw, &within)?, "error") {
                Some(text) => (text, true),
                None => (raw.get().into(), false),
            },
        };
        let mut content = vec![Content::Text(text)];
        let parts = response.opt_array(at, "parts")?.unwrap_or_default();
        let within = at.member("parts");
        for (index, raw) in parts.into_iter().enumerate() {
            let at = within.index(index);
            let mut part = object(raw, &at)?;
            let data = part.take("inlineData");
            content.push(inline(data.ok_or_else(|| at.missing("inlineData"))?, &at)?);
        }
        let kind = CallKind::Function;
        self.items.push(Item::Output(Output { kind, call_id, content, is_error }));
        response.warn_about(at, "scheduling", "calls wait for their outputs", self.warnings);
        response.warn_about(at, "willContinue", "calls wait for their outputs", self.warnings);
        response.warn_rest(at, self.warnings);
        Ok(())
    }
}

fn inline<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Content<'a>, Error> {
    let mut data = object(raw, at)?;
    let media_type = data.text(at, "mimeType")?;
    let base64 = standard_base64(data.text(at, "data")?);
    Ok(match media_type.split('/').next() {
        Some("image") => {
            Content::Image { source: Source::Data { media_type, base64 }, detail: None }
        }
        Some("audio") => {
            let format = if media_type.contains("mp3") || media_type.contains("mpeg") {
                "mp3"
            } else {
                "wav"
            };
            Content::Audio { data: base64, format: format.into() }
        }
        _ => Content::File { source: Source::Data { media_type, base64 }, name: None },
    })
}
