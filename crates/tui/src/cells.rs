//! The display of a thread's items: finished ones as lines that are printed once, running ones as a
//! headline and the latest lines of their text.

mod calls;
mod command;
mod delta;
mod messages;
mod parts;
mod running;

#[cfg(test)]
mod tests;

use protocol::{
    CollabToolCallStatus, CommandExecutionStatus, DynamicToolCallStatus, McpToolCallStatus,
    PatchApplyStatus, ThreadItem,
};

use crate::context::Context;
use crate::palette::Palette;
use crate::text::Line;

pub use delta::Delta;
pub use parts::duration;
pub use running::Running;

/// The lines of a finished item; none where there is nothing to display.
#[must_use]
pub fn finished(item: &ThreadItem, context: &Context) -> Vec<Line> {
    let mut lines = match item {
        ThreadItem::UserMessage(it) => messages::user(it, context),
        ThreadItem::HookPrompt(it) => messages::quiet("Hook", &it.text(), context),
        ThreadItem::AgentMessage(it) => messages::whole(&it.text, context),
        ThreadItem::Plan(it) => messages::whole(&it.text, context),
        ThreadItem::Reasoning(it) => messages::reasoning(it, context),
        ThreadItem::CommandExecution(it) => command::finished(it, context),
        ThreadItem::FileChange(it) => calls::file_change(it, context),
        ThreadItem::McpToolCall(it) => calls::mcp(it, context),
        ThreadItem::DynamicToolCall(it) => calls::dynamic(it, context),
        ThreadItem::CollabToolCall(it) => calls::agents(it, context),
        ThreadItem::WebSearch(it) => calls::web_search(it, context),
        ThreadItem::ImageView(it) => {
            calls::line("Looked at ", &it.path, it.reason.as_deref(), context)
        }
        ThreadItem::ImageGeneration(it) => {
            let what =
                it.saved_path.as_deref().or(it.revised_prompt.as_deref()).unwrap_or_default();
            calls::line("Made an image: ", what, it.reason.as_deref(), context)
        }
        ThreadItem::EnteredReviewMode(it) => calls::line("Reviews ", &it.review, None, context),
        ThreadItem::ExitedReviewMode(it) => messages::whole(&it.review, context),
        ThreadItem::ContextCompaction(it) => {
            let what = "Summarised the conversation to free the context";
            calls::line(what, "", it.reason.as_deref(), context)
        }
    };
    if let Some(why) = item.cut_off().filter(|_| !lines.is_empty()) {
        lines.extend(parts::remark(&format!("Cut off: {why}"), Palette::WARNING, context));
    }
    lines
}

/// The lines of an item as [`finished`], with all of the output of a command and of the changes of files.
#[must_use]
pub fn whole(item: &ThreadItem, context: &Context) -> Vec<Line> {
    match item {
        ThreadItem::CommandExecution(it) => command::whole(it, context),
        ThreadItem::FileChange(it) => calls::whole_file_change(it, context),
        _ => finished(item, context),
    }
}

/// The id of an item.
#[must_use]
pub fn item_id(item: &ThreadItem) -> &str {
    match item {
        ThreadItem::UserMessage(it) => &it.id,
        ThreadItem::HookPrompt(it) => &it.id,
        ThreadItem::AgentMessage(it) => &it.id,
        ThreadItem::Plan(it) => &it.id,
        ThreadItem::Reasoning(it) => &it.id,
        ThreadItem::CommandExecution(it) => &it.id,
        ThreadItem::FileChange(it) => &it.id,
        ThreadItem::McpToolCall(it) => &it.id,
        ThreadItem::DynamicToolCall(it) => &it.id,
        ThreadItem::CollabToolCall(it) => &it.id,
        ThreadItem::WebSearch(it) => &it.id,
        ThreadItem::ImageView(it) => &it.id,
        ThreadItem::ImageGeneration(it) => &it.id,
        ThreadItem::EnteredReviewMode(it) | ThreadItem::ExitedReviewMode(it) => &it.id,
        ThreadItem::ContextCompaction(it) => &it.id,
    }
}

/// Returns whether the item's status says that it is still running.
#[must_use]
pub fn is_in_progress(item: &ThreadItem) -> bool {
    match item {
        ThreadItem::CommandExecution(it) => it.status == CommandExecutionStatus::InProgress,
        ThreadItem::FileChange(it) => it.status == PatchApplyStatus::InProgress,
        ThreadItem::McpToolCall(it) => it.status == McpToolCallStatus::InProgress,
        ThreadItem::DynamicToolCall(it) => it.status == DynamicToolCallStatus::InProgress,
        ThreadItem::CollabToolCall(it) => it.status == CollabToolCallStatus::InProgress,
        ThreadItem::ImageGeneration(it) => it.status == "in_progress",
        ThreadItem::UserMessage(_)
        | ThreadItem::HookPrompt(_)
        | ThreadItem::AgentMessage(_)
        | ThreadItem::Plan(_)
        | ThreadItem::Reasoning(_)
        | ThreadItem::WebSearch(_)
        | ThreadItem::ImageView(_)
        | ThreadItem::EnteredReviewMode(_)
        | ThreadItem::ExitedReviewMode(_)
        | ThreadItem::ContextCompaction(_) => false,
    }
}
