//! The tools of the model, one file each, and how their calls are read and begun.
//!
//! A tool defines what the model is offered and reads its calls; a call that was read says which
//! [`Step`] comes next. `turn` carries the steps out and knows no tool. Tools that come from
//! elsewhere, such as those that clients run, implement the same trait with data in place of code.

mod agents;
mod apply_patch;
mod arguments;
mod close_agent;
mod command;
mod dynamic;
mod exec_command;
mod get_goal;
mod json_text;
mod offer;
mod read_tool_output;
mod rejected;
mod report_agent_job_result;
mod request_permissions;
mod request_user_input;
mod reserved;
mod resume_agent;
mod send_input;
mod server_tool;
mod shell;
mod spawn_agent;
mod spawn_agents_on_csv;
#[cfg(test)]
mod tests;
mod tool;
mod tool_search;
mod update_goal;
mod update_plan;
mod view_image;
mod wait_agent;
mod web_search;
pub(crate) mod write_stdin;

use crate::Id;
use crate::port::item::Item;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{ExternalTool, ToolSet};
pub(crate) use apply_patch::SHELL_INSTRUCTIONS;
pub(crate) use command::{CommandCall, command_item};
pub use offer::OfferCache;
pub(crate) use read_tool_output::bounded as bounded_output;
pub(crate) use rejected::RejectedCall;
pub use reserved::why_reserved;
use tool::Tool;
pub(crate) use tool::{CallCx, Found, Step, ToolCall, started_call, tool_item};
pub(crate) use write_stdin::WriteStdinCall;

/// The built-in tools, in the order in which they are offered.
const BUILT_IN: &[&dyn Tool] = &[
    &exec_command::ExecCommand,
    &write_stdin::WriteStdin,
    &shell::Shell,
    &update_plan::UpdatePlan,
    &apply_patch::ApplyPatch,
    &get_goal::GetGoal,
    &update_goal::UpdateGoal,
    &view_image::ViewImage,
    &request_user_input::RequestUserInput,
    &request_permissions::RequestPermissions,
    &spawn_agent::Spawn,
    &send_input::Send,
    &resume_agent::RESUME,
    &wait_agent::Wait,
    &close_agent::CLOSE,
    &spawn_agents_on_csv::SpawnOnCsv,
    &report_agent_job_result::Report,
    &tool_search::ToolSearch,
    &read_tool_output::ReadToolOutput,
];

/// Reads a function call; the error is for the model.
pub(crate) fn read_function(
    tools: &ToolSet,
    name: &str,
    arguments: &str,
) -> Result<Box<dyn ToolCall>, ToolError> {
    find(tools, name).ok_or_else(|| unknown(tools, name))?.read(arguments)
}

/// Reads a custom tool call; the error is for the model.
pub(crate) fn read_custom(
    tools: &ToolSet,
    name: &str,
    input: &str,
) -> Result<Box<dyn ToolCall>, ToolError> {
    let tool = find(tools, name).filter(|tool| tool.takes_text());
    tool.ok_or_else(|| unknown(tools, name))?.read(input)
}

/// The item of a call that cannot be read or is one too many.
pub(crate) fn rejected_item(tools: &ToolSet, name: &str, id: Id, call: &RejectedCall<'_>) -> Item {
    match find(tools, name) {
        Some(tool) => tool.rejected_item(id, call),
        None => tool_item(id, None, name.to_owned(), call.json()),
    }
}

/// The definition of a built-in tool; `None` when the model is not offered it.
fn offered(tool: &dyn Tool, tools: &ToolSet) -> Option<String> {
    if is_withheld(tool, tools) { None } else { tool.definition(tools) }
}

fn is_withheld(tool: &dyn Tool, tools: &ToolSet) -> bool {
    !tools.withheld.is_empty() && tools.withheld.iter().any(|name| **name == *tool.name())
}

fn find<'a>(tools: &'a ToolSet, name: &str) -> Option<&'a dyn Tool> {
    let external = tools.external().map(ExternalTool::as_tool);
    let built_in = BUILT_IN.iter().copied().filter(|tool| !is_withheld(*tool, tools));
    external.chain(built_in).find(|tool| tool.is_callable(tools) && tool.name() == name)
}

fn unknown(tools: &ToolSet, name: &str) -> ToolError {
    // Deferred tools can be very many, and the search, which is among the others, finds them.
    let external = tools.listed().map(ExternalTool::as_tool);
    let built_in = BUILT_IN.iter().copied().filter(|tool| offered(*tool, tools).is_some());
    let names: Vec<_> = built_in.chain(external).map(Tool::name).collect();
    ToolError::new(format!("there is no tool `{name}`; the tools are {}", names.join(", ")))
}
