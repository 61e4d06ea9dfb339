//! Writes the body of a Responses request from the internal form, and items of a response. Members are always in the
//! same order, the least changing ones first.

use crate::envelope::{Envelope, Payload};
use crate::error::Error;
use crate::json::{Elements, Members, object};
use crate::kind::Wire;
use crate::names::ToolTable;
use crate::request::{
    Call, CallKind, Content, Format, Function, Item, Output, Reasoning, Request, Role, Source,
    Tool, ToolChoice, WebSearch,
};
use crate::shared::FAILED;
use crate::target::{Encoded, Target};
use crate::warning::Warnings;

/// Writes a request.
///
/// # Errors
/// When a member has no equal, such as stop sequences.
pub(crate) fn write_request(request: &Request<'_>, target: &Target) -> Result<Encoded, Error> {
    let target = &target.for_request(request);
    let mut warnings = Warnings::default();
    if !request.stop.is_empty() {
        return Err(Error::unsupported("stop", Wire::Responses, "it has no stop sequences"));
    }
    let mut body = String::with_capacity(1024);
    object(&mut body, |body| {
        body.text("model", target.model());
        body.opt_text("instructions", request.instructions.as_deref());
        let is_bounded =
            |tool: &Tool<'_>| matches!(tool, Tool::WebSearch(search) if search.max_uses.is_some());
        if request.tools.iter().any(is_bounded) {
            warnings.add("tools[].max_uses", "the search has no bound");
        }
        if !request.tools.is_empty() {
            body.array("tools", |list| {
                request.tools.iter().for_each(|tool| write_tool(tool, list));
            });
        }
        if let Some(choice) = &request.tool_choice {
            write_tool_choice(choice, body);
        }
        if let Some(parallel) = request.parallel_tool_calls {
            body.bool("parallel_tool_calls", parallel);
        }
        if request.effort.is_some() || request.summary.is_some() {
            body.object("reasoning", |reasoning| {
                reasoning.opt_text("effort", request.effort.as_deref());
                reasoning.opt_text("summary", request.summary.as_deref());
            });
        }
        write_text(request, body);
        if let Some(limit) = request.max_output_tokens {
            body.number("max_output_tokens", limit);
        }
        body.opt_raw("temperature", request.temperature);
        body.opt_raw("top_p", request.top_p);
        body.bool("store", request.store.unwrap_or_default());
        body.bool("stream", request.stream);
        if request.encrypted_reasoning {
            body.texts("include", &["reasoning.encrypted_content"]);
        }
        body.opt_text("service_tier", request.service_tier.as_deref());
        body.array("input", |list| {
            request.input.iter().for_each(|item| write_item(item, target, list, &mut warnings));
        });
        body.opt_text("prompt_cache_key", request.prompt_cache_key.as_deref());
        body.opt_text("safety_identifier", request.user.as_deref());
        body.opt_raw("metadata", request.metadata);
    });
    Ok(Encoded {
        path: "/responses".into(),
        headers: Vec::new(),
        body,
        warnings,
        tools: ToolTable::default(),
    })
}

fn write_text(request: &Request<'_>, body: &mut Members<'_>) {
    if request.format.is_none() && request.verbosity.is_none() {
        return;
    }
    body.object("text", |text| {
        text.opt_text("verbosity", request.verbosity.as_deref());
        match &request.format {
            None => {}
            Some(Format::JsonObject) => {
                text.object("format", |format| format.text("type", "json_object"));
            }
            Some(Format::JsonSchema { name, schema, strict, description }) => {
                text.object("format", |format| {
                    format.text("type", "json_schema");
                    format.text("name", name);
                    format.opt_text("description", description.as_deref());
                    if let Some(strict) = strict {
                        format.bool("strict", *strict);
                    }
                    format.raw("schema", schema.get());
                });
            }
        }
    });
}

fn write_tool(tool: &Tool<'_>, list: &mut Elements<'_>) {
    list.object(|object| match tool {
        Tool::Function(function) => write_function(function, object),
        Tool::Custom { name, description, format } => {
            object.text("type", "custom");
            object.text("name", name);
            object.opt_text("description", description.as_deref());
            object.opt_raw("format", *format);
        }
        Tool::Namespace { name, description, tools } => {
            object.text("type", "namespace");
            object.text("name", name);
            object.opt_text("description", description.as_deref());
            object.array("tools", |list| {
                for function in tools {
                    list.object(|object| write_function(function, object));
                }
            });
        }
        Tool::WebSearch(search) => write_web_search(search, object),
        Tool::ToolSearch { description, parameters } => {
            object.text("type", "tool_search");
            object.text("execution", "client");
            object.opt_text("description", description.as_deref());
            object.opt_raw("parameters", *parameters);
        }
        Tool::Hosted { kind } => object.text("type", kind),
    });
}

fn write_function(function: &Function<'_>, object: &mut Members<'_>) {
    object.text("type", "function");
    object.text("name", &function.name);
    object.opt_text("description", function.description.as_deref());
    match &function.parameters {
        Some(parameters) => object.raw("parameters", parameters.get()),
        None => object.raw("parameters", "{\"type\":\"object\",\"properties\":{}}"),
    }
    // Absent, Responses takes a schema as strict.
    object.bool("strict", function.strict.unwrap_or_default());
    if function.is_deferred {
        object.bool("defer_loading", true);
    }
}

fn write_web_search(search: &WebSearch<'_>, object: &mut Members<'_>) {
    object.text("type", "web_search");
    if !search.allowed_domains.is_empty() || !search.blocked_domains.is_empty() {
        object.object("filters", |filters| {
            if !search.allowed_domains.is_empty() {
                filters.texts("allowed_domains", &search.allowed_domains);
            }
            if !search.blocked_domains.is_empty() {
                filters.texts("blocked_domains", &search.blocked_domains);
            }
        });
    }
    object.opt_raw("user_location", search.user_location);
    object.opt_text("search_context_size", search.context_size.as_deref());
}

fn write_tool_choice(choice: &ToolChoice<'_>, body: &mut Members<'_>) {
    let kind_of = |is_custom: bool| if is_custom { "custom" } else { "function" };
    match choice {
        ToolChoice::Auto => body.text("tool_choice", "auto"),
        ToolChoice::None => body.text("tool_choice", "none"),
        ToolChoice::Required => body.text("tool_choice", "required"),
        ToolChoice::Tool(name, is_custom) => body.object("tool_choice", |choice| {
            choice.text("type", kind_of(*is_custom));
            choice.text("name", name);
        }),
        ToolChoice::Allowed(names, is_required) => body.object("tool_choice", |choice| {
            choice.text("type", "allowed_tools");
            choice.text("mode", if *is_required { "required" } else { "auto" });
            choice.array("tools", |list| {
                for name in names {
                    list.object(|tool| {
                        tool.text("type", "function");
                        tool.text("name", name);
                    });
                }
            });
        }),
        ToolChoice::WebSearch => {
            body.object("tool_choice", |choice| choice.text("type", "web_search"));
        }
    }
}

fn write_item(item: &Item<'_>, target: &Target, list: &mut Elements<'_>, warnings: &mut Warnings) {
    match item {
        Item::Message(message) => list.object(|object| {
            object.text("type", "message");
            object.text("role", message.role.as_str());
            object.opt_text("phase", message.phase.as_deref());
            object.array("content", |list| {
                let is_output = message.role == Role::Assistant;
                message.content.iter().for_each(|part| write_content(part, is_output, list));
            });
        }),
        Item::Reasoning(reasoning) => write_reasoning(reasoning, target, list, warnings),
        Item::Call(call) => write_call(call, list),
        Item::Output(output) => write_output(output, list),
        Item::Hosted { .. } => {
            warnings.add("input[]", "calls of another provider's own tools are not sent");
        }
        Item::Opaque { .. } => warnings.add("input[]", "the item is readable by its maker alone"),
    }
}

fn write_reasoning(
    reasoning: &Reasoning<'_>,
    target: &Target,
    list: &mut Elements<'_>,
    warnings: &mut Warnings,
) {
    let (mut id, mut encrypted) = (reasoning.id.as_deref(), reasoning.encrypted.as_deref());
    let envelope = encrypted.filter(|text| Envelope::is_tagged(text)).map(Envelope::read);
    if let Some(envelope) = &envelope {
        let own = envelope
            .as_ref()
            .filter(|it| it.is_for(Wire::Responses, &target.provider, target.model()));
        let Some(Envelope { payload: Payload::Encrypted { id: own_id, content }, .. }) = own else {
            return warnings.add("input[]", "reasoning of another model is not sent");
        };
        (id, encrypted) = (own_id.as_deref(), Some(content.as_str()));
    }
    if encrypted.is_none() {
        // An id alone names an item that the server does not store.
        return warnings.add("input[]", "reasoning without its encrypted content is not sent");
    }
    list.object(|object| {
        object.text("type", "reasoning");
        object.opt_text("id", id);
        object.array("summary", |list| {
            for text in &reasoning.summary {
                list.object(|part| {
                    part.text("type", "summary_text");
                    part.text("text", text);
                });
            }
        });
        object.opt_text("encrypted_content", encrypted);
    });
}

fn write_call(call: &Call<'_>, list: &mut Elements<'_>) {
    list.object(|object| {
        match &call.kind {
            CallKind::Function => object.text("type", "function_call"),
            CallKind::Custom => object.text("type", "custom_tool_call"),
            CallKind::ToolSearch => {
                object.text("type", "tool_search_call");
                object.text("execution", "client");
                object.text("call_id", &call.id);
                return object.raw("arguments", arguments_object(&call.input));
            }
            CallKind::Builtin(name) => {
                object.text("type", &format!("{name}_call"));
                object.text("call_id", &call.id);
                let member = if name == "apply_patch" { "operation" } else { "action" };
                object.text("status", "completed");
                return object.raw(member, arguments_object(&call.input));
            }
        }
        object.text("call_id", &call.id);
        object.text("name", &call.name);
        object.opt_text("namespace", call.namespace.as_deref());
        let is_custom = call.kind == CallKind::Custom;
        object.text(if is_custom { "input" } else { "arguments" }, &call.input);
    });
}

fn arguments_object(json: &str) -> &str {
    if crate::json::is_object(json) { json } else { "{}" }
}

fn write_output(output: &Output<'_>, list: &mut Elements<'_>) {
    list.object(|object| {
        match &output.kind {
            CallKind::Function => object.text("type", "function_call_output"),
            CallKind::Custom => object.text("type", "custom_tool_call_output"),
            CallKind::ToolSearch => {
                object.text("type", "tool_search_output");
                object.text("execution", "client");
                object.text("call_id", &output.call_id);
                object.text("status", "completed");
                let tools = match output.content.as_slice() {
                    [Content::Text(json)] if json.starts_with('[') => json,
                    _ => "[]",
                };
                return object.raw("tools", tools);
            }
            CallKind::Builtin(name) => object.text("type", &format!("{name}_call_output")),
        }
        object.text("call_id", &output.call_id);
        match output.content.as_slice() {
            [Content::Text(text)] if !output.is_error => object.text("output", text),
            [Content::Text(text)] => object.text("output", &format!("{FAILED}\n{text}")),
            parts => object.array("output", |list| {
                if output.is_error {
                    write_content(&Content::Text(FAILED.into()), false, list);
                }
                parts.iter().for_each(|part| write_content(part, false, list));
            }),
        }
    });
}

fn write_content(content: &Content<'_>, is_output: bool, list: &mut Elements<'_>) {
    list.object(|part| match content {
        Content::Text(text) => {
            part.text("type", if is_output { "output_text" } else { "input_text" });
            part.text("text", text);
        }
        Content::Refusal(text) => {
            part.text("type", "refusal");
            part.text("refusal", text);
        }
        Content::Image { source, detail } => {
            part.text("type", "input_image");
            match source {
                Source::Data { media_type, base64 } => {
                    part.text("image_url", &format!("data:{media_type};base64,{base64}"));
                }
                Source::Url(url) => part.text("image_url", url),
                Source::Id(id) => part.text("file_id", id),
            }
            part.opt_text("detail", detail.as_deref());
        }
        Content::File { source, name } => {
            part.text("type", "input_file");
            part.opt_text("filename", name.as_deref());
            match source {
                Source::Data { media_type, base64 } => {
                    part.text("file_data", &format!("data:{media_type};base64,{base64}"));
                }
                Source::Url(url) => part.text("file_url", url),
                Source::Id(id) => part.text("file_id", id),
            }
        }
        Content::Audio { data, format } => {
            part.text("type", "input_audio");
            part.object("input_audio", |audio| {
                audio.text("data", data);
                audio.text("format", format);
            });
        }
    });
}
