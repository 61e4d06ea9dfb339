//! Parameters of a Chat Completions request besides its messages: tools, the form of the answer, thinking, tuning.

use std::borrow::Cow;

use crate::error::{Code, Error};
use crate::json::{Members, object};
use crate::kind::Wire;
use crate::names::wire_name;
use crate::offer::Offer;
use crate::request::{Format, Request, Tool, ToolChoice};
use crate::shared::budget_of;
use crate::target::{ChatOptions, ChatThinking};
use crate::warning::Warnings;

/// Names of free-form tools that the server takes as such.
pub(super) fn custom_tools<'r>(request: &'r Request<'_>, options: &ChatOptions) -> Vec<&'r str> {
    let names = request.tools.iter().filter_map(|tool| match tool {
        Tool::Custom { name, .. } => Some(name.as_ref()),
        _ => None,
    });
    names.filter(|_| options.has_custom_tools).collect()
}

pub(super) fn write_tools(
    request: &Request<'_>,
    offer: &Offer<'_>,
    options: &ChatOptions,
    body: &mut Members<'_>,
) {
    if !offer.functions.is_empty() {
        let custom = custom_tools(request, options);
        body.array("tools", |list| {
            for function in &offer.functions {
                let own = request.tools.iter().find_map(|tool| match tool {
                    Tool::Custom { name, description, format }
                        if *name == function.name && custom.contains(&name.as_ref()) =>
                    {
                        Some((name, description, format))
                    }
                    _ => None,
                });
                list.object(|tool| match own {
                    Some((name, description, format)) => {
                        tool.text("type", "custom");
                        tool.object("custom", |custom| {
                            custom.text("name", name);
                            custom.opt_text("description", description.as_deref());
                            if let Some(format) = format {
                                custom.raw("format", &chat_format(format.get()));
                            }
                        });
                    }
                    None => {
                        tool.text("type", "function");
                        tool.object("function", |object| {
                            object.text("name", &function.name);
                            object.opt_text("description", function.description.as_deref());
                            object.raw("parameters", &function.parameters);
                            if function.is_strict && options.has_strict {
                                object.bool("strict", true);
                            }
                        });
                    }
                });
            }
        });
    }
    if let Some(search) = offer.web_search {
        body.object("web_search_options", |object| {
            object.opt_text("search_context_size", search.context_size.as_deref());
        });
    }
}

/// A grammar of the Responses wire stands inside a member here.
fn chat_format(format: &str) -> Cow<'_, str> {
    let at = crate::json::At::Root;
    let Ok(mut object_in) = crate::json::Object::read_str(format, &at) else {
        return format.into();
    };
    if object_in.opt_text(&at, "type").ok().flatten().as_deref() != Some("grammar") {
        return format.into();
    }
    let mut out = String::with_capacity(format.len() + 32);
    object(&mut out, |format| {
        format.text("type", "grammar");
        format.object("grammar", |grammar| object_in.copy_rest(grammar));
    });
    out.into()
}

pub(super) fn write_tool_choice(
    request: &Request<'_>,
    offer: &Offer<'_>,
    options: &ChatOptions,
    warnings: &mut Warnings,
    body: &mut Members<'_>,
) -> Result<(), Error> {
    let choice = request.tool_choice.as_ref().unwrap_or(&ToolChoice::Auto);
    let is_auto = matches!(choice, ToolChoice::Auto | ToolChoice::Allowed(_, false));
    if offer.functions.is_empty() {
        return match choice {
            ToolChoice::None | ToolChoice::WebSearch => Ok(()),
            _ if is_auto => Ok(()),
            _ => {
                let message = "`tool_choice` demands a tool, but `tools` has none.";
                Err(Error::member("tool_choice", Code::InvalidValue, message))
            }
        };
    }
    if !is_auto && !options.has_tool_choice {
        let reason = "the server takes `auto` alone";
        return Err(Error::unsupported("tool_choice", Wire::Chat, reason));
    }
    match choice {
        _ if is_auto => {}
        ToolChoice::None => body.text("tool_choice", "none"),
        ToolChoice::Tool(name, is_custom) => {
            let kind = if *is_custom && options.has_custom_tools { "custom" } else { "function" };
            body.object("tool_choice", |choice| {
                choice.text("type", kind);
                choice.object(kind, |tool| tool.text("name", &wire_name(None, name)));
            });
        }
        ToolChoice::WebSearch => {
            let reason = "a search cannot be demanded";
            return Err(Error::unsupported("tool_choice", Wire::Chat, reason));
        }
        _ => body.text("tool_choice", "required"),
    }
    match request.parallel_tool_calls {
        Some(parallel) if options.has_parallel => body.bool("parallel_tool_calls", parallel),
        Some(false) => {
            warnings.add("parallel_tool_calls", "the server does not take the member");
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn write_format(
    request: &Request<'_>,
    options: &ChatOptions,
    body: &mut Members<'_>,
) -> Result<(), Error> {
    let Some(format) = &request.format else { return Ok(()) };
    if !options.has_format {
        let reason = "the server takes no form of the answer";
        return Err(Error::unsupported("text.format", Wire::Chat, reason));
    }
    body.object("response_format", |object| match format {
        Format::JsonObject => object.text("type", "json_object"),
        Format::JsonSchema { name, schema, strict, description } => {
            object.text("type", "json_schema");
            object.object("json_schema", |object| {
                object.text("name", name);
                object.opt_text("description", description.as_deref());
                object.raw("schema", schema.get());
                if let Some(strict) = strict {
                    object.bool("strict", *strict);
                }
            });
        }
    });
    Ok(())
}

pub(super) fn write_thinking(
    request: &Request<'_>,
    options: &ChatOptions,
    warnings: &mut Warnings,
    body: &mut Members<'_>,
) {
    if request.summary.is_some() {
        warnings
            .add("reasoning.summary", "the server alone decides what it shows of its reasoning");
    }
    let Some(effort) = request.effort.as_deref() else { return };
    let is_on = effort != "none";
    match options.thinking {
        ChatThinking::Effort => body.text("reasoning_effort", effort),
        ChatThinking::Object => {
            body.object("reasoning", |reasoning| reasoning.text("effort", effort));
        }
        ChatThinking::Type => {
            warn_of_level(effort, warnings);
            body.object("thinking", |thinking| {
                thinking.text("type", if is_on { "enabled" } else { "disabled" });
            });
        }
        ChatThinking::Budget => {
            // The server takes the switch in streams alone.
            if request.stream || !is_on {
                body.bool("enable_thinking", is_on);
                if is_on {
                    body.number("thinking_budget", budget_of(effort));
                }
            } else {
                warnings.add("reasoning.effort", "the server thinks in streams alone");
            }
        }
        ChatThinking::Template => {
            warn_of_level(effort, warnings);
            body.object("chat_template_kwargs", |object| object.bool("enable_thinking", is_on));
        }
        ChatThinking::None => {
            warnings.add("reasoning.effort", "the model has no switch for thinking");
        }
    }
}

/// Warns of an effort between none and all, where a server has only a switch.
fn warn_of_level(effort: &str, warnings: &mut Warnings) {
    if !matches!(effort, "none" | "high") {
        warnings.add("reasoning.effort", "the server has no levels: it thinks, or does not");
    }
}

pub(super) fn write_tuning(
    request: &Request<'_>,
    options: &ChatOptions,
    warnings: &mut Warnings,
    body: &mut Members<'_>,
) {
    if options.has_sampling {
        body.opt_raw("temperature", request.temperature);
        body.opt_raw("top_p", request.top_p);
    } else if request.temperature.is_some() || request.top_p.is_some() {
        warnings.add("temperature", "the server takes no sampling");
    }
    if options.is_openai {
        body.opt_text("verbosity", request.verbosity.as_deref());
        body.opt_text("service_tier", request.service_tier.as_deref());
        if let Some(store) = request.store {
            body.bool("store", store);
        }
        return;
    }
    for (is_there, member, reason) in [
        (request.verbosity.is_some(), "text.verbosity", "the server has no verbosity"),
        (request.service_tier.is_some(), "service_tier", "the server has no tiers"),
        (request.store == Some(true), "store", "the server keeps no responses"),
        (
            request.prompt_cache_key.is_some(),
            "prompt_cache_key",
            "the cache goes by the prefix alone",
        ),
        (request.user.is_some(), "safety_identifier", "the server takes no identifiers"),
        (request.metadata.is_some(), "metadata", "the server keeps no metadata"),
    ] {
        if is_there {
            warnings.add(member, reason);
        }
    }
}
