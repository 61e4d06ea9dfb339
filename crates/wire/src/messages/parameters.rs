//! Parameters of a Messages request besides its messages: tools, the form of the answer, thinking.

use super::marks::write_mark;
use crate::error::{Code, Error};
use crate::json::Members;
use crate::kind::Wire;
use crate::offer::Offer;
use crate::request::{Format, Request, ToolChoice};
use crate::target::{MessagesThinking, Target};
use crate::warning::Warnings;

/// Smallest budget of thinking that the API takes, in tokens.
const MIN_BUDGET: u64 = 1024;

pub(super) fn write_tools(
    offer: &Offer<'_>,
    target: &Target,
    mark: Option<&'static str>,
    warnings: &mut Warnings,
    body: &mut Members<'_>,
) -> Result<(), Error> {
    let options = &target.messages;
    let web_search = match (offer.web_search, options.web_search.as_deref()) {
        (Some(_), None) => {
            return Err(Error::unsupported(
                "tools",
                Wire::Messages,
                "the server has no web search",
            ));
        }
        (Some(search), Some(kind)) => Some((search, kind)),
        (None, _) => None,
    };
    if offer.is_empty() {
        return Ok(());
    }
    if offer.web_search.is_some_and(|search| search.context_size.is_some()) {
        warnings.add("tools[].search_context_size", "the search has no size");
    }
    let last = (offer.functions.len() + usize::from(web_search.is_some())).saturating_sub(1);
    let mark = |index: usize| mark.filter(|_| index == last);
    body.array("tools", |list| {
        for (index, function) in offer.functions.iter().enumerate() {
            list.object(|tool| {
                tool.text("name", &function.name);
                tool.opt_text("description", function.description.as_deref());
                tool.raw("input_schema", &function.parameters);
                if function.is_strict && options.has_strict {
                    tool.bool("strict", true);
                }
                write_mark(mark(index), tool);
            });
        }
        if let Some((search, kind)) = web_search {
            list.object(|tool| {
                tool.text("type", kind);
                tool.text("name", "web_search");
                if let Some(uses) = search.max_uses {
                    tool.number("max_uses", uses);
                }
                if !search.allowed_domains.is_empty() {
                    tool.texts("allowed_domains", &search.allowed_domains);
                } else if !search.blocked_domains.is_empty() {
                    tool.texts("blocked_domains", &search.blocked_domains);
                }
                tool.opt_raw("user_location", search.user_location);
                write_mark(mark(last), tool);
            });
        }
    });
    Ok(())
}

pub(super) fn write_tool_choice(
    request: &Request<'_>,
    offer: &Offer<'_>,
    body: &mut Members<'_>,
) -> Result<(), Error> {
    let choice = request.tool_choice.as_ref().unwrap_or(&ToolChoice::Auto);
    let is_single = request.parallel_tool_calls == Some(false);
    if offer.is_empty() {
        return match choice {
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed(_, false) => Ok(()),
            _ => {
                let message = "`tool_choice` demands a tool, but `tools` has none.";
                Err(Error::member("tool_choice", Code::InvalidValue, message))
            }
        };
    }
    let (kind, name) = match choice {
        ToolChoice::Auto | ToolChoice::Allowed(_, false) => ("auto", None),
        ToolChoice::None => ("none", None),
        ToolChoice::Required | ToolChoice::Allowed(_, true) => ("any", None),
        ToolChoice::Tool(name, _) => ("tool", Some(crate::names::wire_name(None, name))),
        ToolChoice::WebSearch => ("tool", Some("web_search".into())),
    };
    if kind == "auto" && !is_single {
        return Ok(());
    }
    body.object("tool_choice", |choice| {
        choice.text("type", kind);
        choice.opt_text("name", name.as_deref());
        if is_single && kind != "none" {
            choice.bool("disable_parallel_tool_use", true);
        }
    });
    Ok(())
}

/// The effort as the API names it. `none` is a kind of thinking there.
fn effort<'r>(request: &'r Request<'_>) -> Option<&'r str> {
    match request.effort.as_deref()? {
        "minimal" => Some("low"),
        "none" => None,
        other => Some(other),
    }
}

pub(super) fn write_output_config(
    request: &Request<'_>,
    target: &Target,
    body: &mut Members<'_>,
) -> Result<(), Error> {
    let options = &target.messages;
    let effort = effort(request).filter(|_| options.has_effort);
    let schema = match &request.format {
        None => None,
        Some(Format::JsonSchema { schema, .. }) if options.has_format => Some(schema.get()),
        Some(Format::JsonSchema { .. }) => {
            let reason = "the server takes no schema of the answer";
            return Err(Error::unsupported("text.format", Wire::Messages, reason));
        }
        Some(Format::JsonObject) => {
            let reason = "JSON without a schema is unknown there";
            return Err(Error::unsupported("text.format", Wire::Messages, reason));
        }
    };
    if effort.is_none() && schema.is_none() {
        return Ok(());
    }
    body.object("output_config", |config| {
        config.opt_text("effort", effort);
        if let Some(schema) = schema {
            config.object("format", |format| {
                format.text("type", "json_schema");
                format.raw("schema", schema);
            });
        }
    });
    Ok(())
}

/// Writes the thinking that is asked for. Returns whether there is any.
pub(super) fn write_thinking(
    request: &Request<'_>,
    target: &Target,
    max_tokens: u64,
    warnings: &mut Warnings,
    body: &mut Members<'_>,
) -> bool {
    let options = &target.messages;
    let Some(effort) = request.effort.as_deref() else {
        let is_asked = request.summary.is_some() && options.thinking == MessagesThinking::Adaptive;
        if is_asked {
            body.object("thinking", |thinking| {
                thinking.text("type", "adaptive");
                thinking.text("display", "summarized");
            });
        }
        return is_asked;
    };
    if options.thinking == MessagesThinking::Unknown {
        warnings.add("reasoning.effort", "the model has no switch for thinking");
        return false;
    }
    let is_forced = matches!(
        request.tool_choice,
        Some(
            ToolChoice::Required
                | ToolChoice::Tool(..)
                | ToolChoice::Allowed(_, true)
                | ToolChoice::WebSearch
        )
    );
    if is_forced && effort != "none" {
        warnings.add("reasoning.effort", "a demanded tool is called without thinking");
        return false;
    }
    if effort == "none" {
        body.object("thinking", |thinking| thinking.text("type", "disabled"));
        return false;
    }
    let display = if request.summary.is_some() { "summarized" } else { "omitted" };
    if options.thinking == MessagesThinking::Adaptive {
        body.object("thinking", |thinking| {
            thinking.text("type", "adaptive");
            thinking.text("display", display);
        });
        return true;
    }
    // Half of the limit stays for the answer and its calls.
    let share = max_tokens / 2;
    if share < MIN_BUDGET {
        warnings.add("reasoning.effort", "the output limit leaves no room for thinking");
        return false;
    }
    let budget = crate::shared::budget_of(effort).min(share);
    body.object("thinking", |thinking| {
        thinking.text("type", "enabled");
        thinking.number("budget_tokens", budget);
    });
    true
}
