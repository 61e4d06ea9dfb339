//! Reads the items of an input.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::error::Error;
use crate::json::{At, Object, array, text};
use crate::request::{Call, CallKind, Content, Item, Message, Output, Reasoning, Role, Source};
use crate::warning::Warnings;

pub(super) fn user_text(text: Cow<'_, str>) -> Item<'_> {
    Item::Message(Message { role: Role::User, content: vec![Content::Text(text)], phase: None })
}

pub(super) fn read<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Item<'a>, Error> {
    let mut item = Object::read(raw, at)?;
    let kind = item.opt_text(at, "type")?;
    // A message may leave its type out.
    let kind = kind.unwrap_or_else(|| match item.peek("role") {
        Some(_) => "message".into(),
        None => "".into(),
    });
    // Ids and states are for the server that made them.
    item.take("status");
    let id = item.opt_text(at, "id")?;
    let read = match kind.as_ref() {
        "message" => message(&mut item, at, warnings)?,
        "reasoning" => reasoning(&mut item, at, id)?,
        "function_call" => Item::Call(Call {
            kind: CallKind::Function,
            id: item.text(at, "call_id")?,
            name: item.text(at, "name")?,
            namespace: item.opt_text(at, "namespace")?,
            input: item.opt_text(at, "arguments")?.unwrap_or_default(),
        }),
        "custom_tool_call" => Item::Call(Call {
            kind: CallKind::Custom,
            id: item.text(at, "call_id")?,
            name: item.text(at, "name")?,
            namespace: item.opt_text(at, "namespace")?,
            input: item.opt_text(at, "input")?.unwrap_or_default(),
        }),
        "tool_search_call" => {
            item.take("execution");
            let arguments = item.take("arguments").map(|raw| json_text(raw, at)).transpose()?;
            match item.opt_text(at, "call_id")? {
                Some(call_id) => Item::Call(Call {
                    kind: CallKind::ToolSearch,
                    id: call_id,
                    name: "tool_search".into(),
                    namespace: None,
                    input: arguments.unwrap_or_else(|| "{}".into()),
                }),
                // The provider's own search.
                None => Item::Hosted { kind, image: None },
            }
        }
        "web_search_call"
        | "file_search_call"
        | "code_interpreter_call"
        | "mcp_call"
        | "mcp_list_tools"
        | "computer_call" => return Ok(Item::Hosted { kind, image: None }),
        "image_generation_call" => {
            let image = item.opt_text(at, "result")?.filter(|image| !image.is_empty());
            return Ok(Item::Hosted { kind, image });
        }
        "local_shell_call" | "shell_call" | "apply_patch_call" => {
            let input = item.take("action").or_else(|| item.take("operation"));
            let call_id =
                item.opt_text(at, "call_id")?.or(id).ok_or_else(|| at.missing("call_id"))?;
            let name = kind.trim_end_matches("_call").to_owned();
            let input = input.map_or("{}", RawValue::get).into();
            let kind = CallKind::Builtin(name.clone());
            return Ok(Item::Call(Call {
                kind,
                id: call_id,
                name: name.into(),
                namespace: None,
                input,
            }));
        }
        name if name.ends_with("_output") => output(name, &mut item, at, id, warnings)?,
        "" => return Err(at.missing("type")),
        _ => return Ok(Item::Opaque { kind }),
    };
    item.warn_rest(at, warnings);
    Ok(read)
}

fn message<'a>(
    item: &mut Object<'a>,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Item<'a>, Error> {
    let role = match item.text(at, "role")?.as_ref() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        other => return Err(at.member("role").invalid(format!("unknown role `{other}`"))),
    };
    let raw = item.take("content").ok_or_else(|| at.missing("content"))?;
    let content = contents(raw, &at.member("content"), warnings)?;
    Ok(Item::Message(Message { role, content, phase: item.opt_text(at, "phase")? }))
}

fn contents<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Vec<Content<'a>>, Error> {
    if raw.get().starts_with('"') {
        return Ok(vec![Content::Text(text(raw, at)?)]);
    }
    let list = array(raw, at)?;
    list.into_iter()
        .enumerate()
        .map(|(index, raw)| content(raw, &at.index(index), warnings))
        .collect()
}

fn content<'a>(
    raw: &'a RawValue,
    at: &At<'_>,
    warnings: &mut Warnings,
) -> Result<Content<'a>, Error> {
    let mut part = Object::read(raw, at)?;
    let read = match part.text(at, "type")?.as_ref() {
        "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
            part.take("logprobs");
            if part.take("annotations").is_some_and(|raw| raw.get() != "[]") {
                warnings.add(at.member("annotations").pattern(), "citations are not sent back");
            }
            Content::Text(part.text(at, "text")?)
        }
        "refusal" => Content::Refusal(part.text(at, "refusal")?),
        "input_image" => {
            let detail = part.opt_text(at, "detail")?;
            let source = match (part.opt_text(at, "image_url")?, part.opt_text(at, "file_id")?) {
                (Some(url), _) => Source::from_url(url),
                (None, Some(id)) => Source::Id(id),
                (None, None) => return Err(at.missing("image_url")),
            };
            Content::Image { source, detail }
        }
        "input_file" => {
            let name = part.opt_text(at, "filename")?;
            let data = part.opt_text(at, "file_data")?;
            let url = part.opt_text(at, "file_url")?;
            let source = match (data, url, part.opt_text(at, "file_id")?) {
                (Some(data), _, _) => file_data(data),
                (None, Some(url), _) => Source::from_url(url),
                (None, None, Some(id)) => Source::Id(id),
                (None, None, None) => return Err(at.missing("file_data")),
            };
            Content::File { source, name }
        }
        "input_audio" => {
            let inner = at.member("input_audio");
            let audio = part.opt_object(at, "input_audio")?;
            let mut audio = audio.ok_or_else(|| at.missing("input_audio"))?;
            Content::Audio {
                data: audio.text(&inner, "data")?,
                format: audio.text(&inner, "format")?,
            }
        }
        other => {
            return Err(at.member("type").invalid(format!("unknown kind of content `{other}`")));
        }
    };
    part.warn_rest(at, warnings);
    Ok(read)
}

/// Data of a file: a data URL, or bare base64 of a PDF.
fn file_data(data: Cow<'_, str>) -> Source<'_> {
    match Source::from_url(data) {
        Source::Url(base64) => Source::Data { media_type: "application/pdf".into(), base64 },
        source => source,
    }
}

fn reasoning<'a>(
    item: &mut Object<'a>,
    at: &At<'_>,
    id: Option<Cow<'a, str>>,
) -> Result<Item<'a>, Error> {
    let mut parts = |name| -> Result<Vec<Cow<'a, str>>, Error> {
        let list = item.opt_array(at, name)?.unwrap_or_default();
        let at = at.member(name);
        let mut texts = Vec::with_capacity(list.len());
        for (index, raw) in list.into_iter().enumerate() {
            let at = at.index(index);
            let mut part = Object::read(raw, &at)?;
            texts.push(part.text(&at, "text")?);
        }
        Ok(texts)
    };
    let (summary, content) = (parts("summary")?, parts("content")?);
    let encrypted = item.opt_text(at, "encrypted_content")?;
    Ok(Item::Reasoning(Reasoning { id, summary, content, encrypted }))
}

fn output<'a>(
    name: &str,
    item: &mut Object<'a>,
    at: &At<'_>,
    id: Option<Cow<'a, str>>,
    warnings: &mut Warnings,
) -> Result<Item<'a>, Error> {
    let kind = match name {
        "function_call_output" => CallKind::Function,
        "custom_tool_call_output" => CallKind::Custom,
        "tool_search_output" => CallKind::ToolSearch,
        other => CallKind::Builtin(
            other.trim_end_matches("_output").trim_end_matches("_call").to_owned(),
        ),
    };
    let Some(call_id) = item.opt_text(at, "call_id")?.or(id) else {
        return match kind {
            CallKind::ToolSearch => Ok(Item::Hosted { kind: name.to_owned().into(), image: None }),
            _ => Err(at.missing("call_id")),
        };
    };
    // The names of tools come back with the output of a custom one.
    for member in ["name", "execution"] {
        item.take(member);
    }
    let content = match (item.take("output"), item.take("tools")) {
        (None, Some(tools)) => vec![Content::Text(tools.get().into())],
        (None, None) => return Err(at.missing("output")),
        (Some(raw), _) if raw.get().starts_with(['"', '[']) => {
            contents(raw, &at.member("output"), warnings)?
        }
        (Some(raw), _) => vec![Content::Text(raw.get().into())],
    };
    Ok(Item::Output(Output { kind, call_id, content, is_error: false }))
}

/// JSON, or a string with JSON in it.
fn json_text<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Cow<'a, str>, Error> {
    if raw.get().starts_with('"') { text(raw, at) } else { Ok(raw.get().into()) }
}
