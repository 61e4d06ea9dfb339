//! Reads the body of a Responses request. Members that change the meaning of an answer and have no equal on another
//! wire are errors; those that tune it are warnings.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::items;
use crate::error::Error;
use crate::json::{At, Object, array, text};
use crate::request::{Format, Function, Item, Request, Tool, ToolChoice, WebSearch};
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
    let mut request = Request {
        model: body.text(&root, "model")?,
        instructions: instructions(&mut body, &root)?,
        stream: body.opt_bool(&root, "stream")?.unwrap_or_default(),
        stream_usage: true,
        max_output_tokens: body.opt_count(&root, "max_output_tokens")?,
        parallel_tool_calls: body.opt_bool(&root, "parallel_tool_calls")?,
        temperature: body.opt_number(&root, "temperature")?,
        top_p: body.opt_number(&root, "top_p")?,
        store: body.opt_bool(&root, "store")?,
        service_tier: body.opt_text(&root, "service_tier")?,
        prompt_cache_key: body.opt_text(&root, "prompt_cache_key")?,
        user: body.opt_text(&root, "safety_identifier")?,
        metadata: body.take("metadata"),
        ..Request::default()
    };
    let user = body.opt_text(&root, "user")?;
    request.user = request.user.or(user);
    let include = body.texts(&root, "include")?;
    for (index, name) in include.iter().enumerate() {
        match name.as_ref() {
            "reasoning.encrypted_content" => request.encrypted_reasoning = true,
            "message.output_text.logprobs" => {
                let at = root.member("include");
                return Err(at.index(index).unsupported("log probabilities are not translated"));
            }
            _ => warnings.add("include[]", "the addition has no equal"),
        }
    }
    if let Some(mut reasoning) = body.opt_object(&root, "reasoning")? {
        let at = root.member("reasoning");
        request.effort = reasoning.opt_text(&at, "effort")?;
        let summary = reasoning.opt_text(&at, "summary")?;
        request.summary = summary.filter(|summary| summary != "none");
        reasoning.warn_rest(&at, &mut warnings);
    }
    read_text(&mut body, &root, &mut request, &mut warnings)?;
    if let Some(raw) = body.take("tools") {
        request.tools = read_tools(raw, &root.member("tools"), &mut warnings)?;
    }
    if let Some(raw) = body.take("tool_choice") {
        request.tool_choice = Some(read_tool_choice(raw, &root.member("tool_choice"))?);
    }
    if let Some(raw) = body.take("input") {
        request.input = read_input(raw, &root.member("input"), &mut warnings)?;
    }
    refuse_state(&mut body, &root)?;
    for (name, reason) in [
        ("stream_options", "the stream's options have no equal"),
        ("prompt_cache_retention", "other wires have no retention by this name"),
        ("prompt_cache_options", "other wires have no options by this name"),
        ("client_metadata", "it is for the Responses provider alone"),
    ] {
        body.warn_about(&root, name, reason, &mut warnings);
    }
    body.warn_rest(&root, &mut warnings);
    Ok((request, warnings))
}

fn instructions<'a>(body: &mut Object<'a>, at: &At<'_>) -> Result<Option<Cow<'a, str>>, Error> {
    let text = body.opt_text(at, "instructions")?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// State at the server, and what only a Responses server can do.
fn refuse_state(body: &mut Object<'_>, at: &At<'_>) -> Result<(), Error> {
    for name in ["previous_response_id", "conversation", "prompt"] {
        body.refuse(at, name, "the model's wire keeps no state; send the items in `input`")?;
    }
    body.refuse(at, "background", "the model's wire answers in the foreground only")?;
    body.refuse(at, "max_tool_calls", "the model's wire has no bound of tool calls")?;
    if body.peek("truncation").is_some_and(|raw| raw.get() == "\"disabled\"") {
        body.take("truncation");
    }
    body.refuse(at, "truncation", "the model's wire cannot shorten the input by itself")?;
    if body.peek("top_logprobs").is_some_and(|raw| raw.get() == "0") {
        body.take("top_logprobs");
    }
    body.refuse(at, "top_logprobs", "log probabilities are not translated")?;
    body.refuse(at, "moderation", "the model's wire has no moderation scores")?;
    body.refuse(at, "context_management", "the model's wire does not compact by itself")
}

fn read_text<'a>(
    body: &mut Object<'a>,
    root: &At<'_>,
    request: &mut Request<'a>,
    warnings: &mut Warnings,
) -> Result<(), Error> {
    let Some(mut text) = body.opt_object(root, "text")? else { return Ok(()) };
    let at = root.member("text");
    request.verbosity = text.opt_text(&at, "verbosity")?;
    if let Some(mut format) = text.opt_object(&at, "format")? {
        let at = at.member("format");
        request.format = match format.text(&at, "type")?.as_ref() {
            "text" => None,
            "json_object" => Some(Format::JsonObject),
            "json_schema" => Some(Format::JsonSchema {
                name: format.text(&at, "name")?,
                schema: Cow::Borrowed(format.take("schema").ok_or_else(|| at.missing("schema"))?),
                strict: format.opt_bool(&at, "strict")?,
                description: format.opt_text(&at, "description")?,
            }),
            other => return Err(at.member("type").invalid(format!("unknown format `{other}`"))),
        };
        format.warn_rest(&at, warnings);
    }
    text.warn_rest(&at, warnings);
    Ok(())
}

fn read_tools<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Vec<Tool<'a>>, Error> {
    let tools = array(raw, at)?;
    check_length(tools.len(), at)?;
    tools
        .into_iter()
        .enumerate()
        .map(|(index, raw)| read_tool(raw, &at.index(index), warnings))
        .collect()
}

fn read_tool<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Tool<'a>, Error> {
    let mut tool = Object::read(raw, at)?;
    let kind = tool.text(at, "type")?;
    let read = match kind.as_ref() {
        "function" => Tool::Function(read_function(&mut tool, at)?),
        "custom" => Tool::Custom {
            name: tool.text(at, "name")?,
            description: tool.opt_text(at, "description")?,
            format: tool.take("format"),
        },
        "namespace" => {
            let list = tool.opt_array(at, "tools")?.unwrap_or_default();
            let inner = at.member("tools");
            let mut tools = Vec::with_capacity(list.len());
            for (index, raw) in list.into_iter().enumerate() {
                let at = inner.index(index);
                let mut function = Object::read(raw, &at)?;
                let kind = function.text(&at, "type")?;
                if kind != "function" {
                    return Err(
                        at.unsupported(format!("a namespace holds functions, not `{kind}`"))
                    );
                }
                tools.push(read_function(&mut function, &at)?);
                function.warn_rest(&at, warnings);
            }
            let description = tool.opt_text(at, "description")?;
            Tool::Namespace { name: tool.text(at, "name")?, description, tools }
        }
        "tool_search" => {
            tool.take("execution");
            Tool::ToolSearch {
                description: tool.opt_text(at, "description")?,
                parameters: tool.take("parameters"),
            }
        }
        kind if kind.starts_with("web_search") => {
            Tool::WebSearch(read_web_search(&mut tool, at, warnings)?)
        }
        _ => return Ok(Tool::Hosted { kind }),
    };
    tool.warn_rest(at, warnings);
    Ok(read)
}

fn read_function<'a>(tool: &mut Object<'a>, at: &At<'_>) -> Result<Function<'a>, Error> {
    Ok(Function {
        name: tool.text(at, "name")?,
        description: tool.opt_text(at, "description")?,
        parameters: tool.take("parameters").map(Cow::Borrowed),
        strict: tool.opt_bool(at, "strict")?,
        is_deferred: tool.opt_bool(at, "defer_loading")?.unwrap_or_default(),
    })
}

fn read_web_search<'a>(
    tool: &mut Object<'a>,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<WebSearch<'a>, Error> {
    let mut search = WebSearch {
        user_location: tool.take("user_location"),
        context_size: tool.opt_text(at, "search_context_size")?,
        ..WebSearch::default()
    };
    if let Some(mut filters) = tool.opt_object(at, "filters")? {
        let at = at.member("filters");
        search.allowed_domains = filters.texts(&at, "allowed_domains")?;
        search.blocked_domains = filters.texts(&at, "blocked_domains")?;
        filters.warn_rest(&at, warnings);
    }
    tool.warn_about(at, "search_content_types", "searches on other wires find pages", warnings);
    // `true`, the default, is what the others do, too.
    match tool.take("external_web_access").map(RawValue::get) {
        Some("false") => {
            let at = at.member("external_web_access");
            Err(at.unsupported("searches on other wires use the live web"))
        }
        _ => Ok(search),
    }
}

fn read_tool_choice<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<ToolChoice<'a>, Error> {
    if raw.get().starts_with('"') {
        return match text(raw, at)?.as_ref() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            other => Err(at.invalid(format!("unknown choice `{other}`"))),
        };
    }
    let mut choice = Object::read(raw, at)?;
    match choice.text(at, "type")?.as_ref() {
        "function" => Ok(ToolChoice::Tool(choice.text(at, "name")?, false)),
        "custom" => Ok(ToolChoice::Tool(choice.text(at, "name")?, true)),
        "allowed_tools" => {
            let is_required = choice.opt_text(at, "mode")?.as_deref() == Some("required");
            let list = choice.opt_array(at, "tools")?.unwrap_or_default();
            let at = at.member("tools");
            let mut names = Vec::with_capacity(list.len());
            for (index, raw) in list.into_iter().enumerate() {
                let at = at.index(index);
                names.push(Object::read(raw, &at)?.text(&at, "name")?);
            }
            Ok(ToolChoice::Allowed(names, is_required))
        }
        kind if kind.starts_with("web_search") => Ok(ToolChoice::WebSearch),
        other => Err(at.unsupported(format!("a choice of the type `{other}` has no equal"))),
    }
}

fn read_input<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Vec<Item<'a>>, Error> {
    if raw.get().starts_with('"') {
        return Ok(vec![items::user_text(text(raw, at)?)]);
    }
    let list = array(raw, at)?;
    check_length(list.len(), at)?;
    list.into_iter()
        .enumerate()
        .map(|(index, raw)| items::read(raw, &at.index(index), warnings))
        .collect()
}

/// Reads one item of an input, for example one that is stored.
///
/// # Errors
/// When a member is missing or has a wrong type.
pub fn read_item<'a>(json: &'a str, warnings: &mut Warnings) -> Result<Item<'a>, Error> {
    let raw: &RawValue = serde_json::from_str(json).map_err(|error| Error::malformed(&error))?;
    items::read(raw, &At::Root, warnings)
}
