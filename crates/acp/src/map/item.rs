//! Items as calls of tools. Messages, plans and compactions are no calls: `adapter::items` shows them.

use protocol::ThreadItem;
use protocol::describe::{Activity, ItemStatus};
use protocol::item::{
    CollabToolCallItem, CommandAction, CommandExecutionItem, CommandExecutionStatus,
    DynamicToolCallItem, FileChangeItem, ImageGenerationItem, McpToolCallItem, McpToolCallStatus,
};
use protocol::tool::DynamicToolCallOutputContentItem;
use serde_json::{Value, json};

use super::diff;
use crate::schema::Version;
use crate::schema::content::ContentBlock;
use crate::schema::tool_call::{
    ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, ToolKind,
};

/// Most bytes of a command's output that a client is shown: the end of it.
pub(crate) const MAX_OUTPUT: usize = 32 << 10;

/// The whole call as the item is now; `None` for an item that is no call. Relative paths are below `cwd`.
pub(crate) fn tool_call(item: &ThreadItem, cwd: &str, version: Version) -> Option<ToolCall> {
    let facts = item.call(cwd)?;
    let mut call = ToolCall {
        tool_call_id: item.id().to_owned(),
        title: Some(visible::exact_line(&facts.title)),
        kind: Some(facts.activity.into()),
        status: Some(match item.status() {
            ItemStatus::InProgress => ToolCallStatus::InProgress,
            ItemStatus::Completed => ToolCallStatus::Completed,
            ItemStatus::Failed | ItemStatus::Declined => ToolCallStatus::Failed,
        }),
        locations: facts.paths.map(|paths| paths.iter().map(|path| location(path, cwd)).collect()),
        content: Some(text(item.failure())),
        ..ToolCall::default()
    };
    match item {
        ThreadItem::CommandExecution(item) => command(&mut call, item),
        ThreadItem::FileChange(item) => file_change(&mut call, item, cwd, version),
        ThreadItem::McpToolCall(item) => mcp_tool_call(&mut call, item),
        ThreadItem::DynamicToolCall(item) => dynamic_tool_call(&mut call, item),
        ThreadItem::CollabToolCall(item) => collab_tool_call(&mut call, item),
        ThreadItem::ImageGeneration(item) => image_generation(&mut call, item),
        ThreadItem::HookPrompt(item) => call.content = Some(text(Some(&item.text()))),
        // It has no result.
        ThreadItem::EnteredReviewMode(_) => call.content = None,
        _ => {}
    }
    Some(call)
}

/// The output of a command as content. `before` bytes came before the text.
pub(crate) fn output(before: usize, text: &str) -> Vec<ToolCallContent> {
    if text.is_empty() {
        return Vec::new();
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_OUTPUT));
    let shown = visible::text(text.get(start..).unwrap_or_default());
    let content = match before + start {
        0 => fenced(&shown),
        hidden => format!("[{hidden} bytes before]\n{}", fenced(&shown)),
    };
    vec![ToolCallContent::text(content)]
}

/// Text in a block of Markdown that it cannot end.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

impl From<Activity> for ToolKind {
    fn from(activity: Activity) -> Self {
        match activity {
            Activity::Read => Self::Read,
            Activity::Edit => Self::Edit,
            Activity::Delete => Self::Delete,
            Activity::Move => Self::Move,
            Activity::Search => Self::Search,
            Activity::Execute => Self::Execute,
            Activity::Think => Self::Think,
            Activity::Fetch => Self::Fetch,
            Activity::Other => Self::Other,
        }
    }
}

fn location(path: &str, cwd: &str) -> ToolCallLocation {
    ToolCallLocation { path: diff::absolute(path, cwd), line: None }
}

fn text(text: Option<&str>) -> Vec<ToolCallContent> {
    text.map(|text| ToolCallContent::text(visible::text(text))).into_iter().collect()
}

fn command(call: &mut ToolCall, item: &CommandExecutionItem) {
    let locations = item.command_actions.iter().filter_map(|action| match action {
        CommandAction::Read { path, .. } => Some(location(path, &item.cwd)),
        _ => None,
    });
    call.title = Some(visible::exact(&item.command));
    call.locations = Some(locations.collect());
    call.raw_input = Some(json!({ "command": item.command, "cwd": item.cwd }));
    if item.status == CommandExecutionStatus::InProgress {
        call.content = None;
        return;
    }
    let mut content = output(0, item.aggregated_output.as_deref().unwrap_or_default());
    if item.status == CommandExecutionStatus::Declined {
        content.push(ToolCallContent::text("The command was declined."));
    } else if let Some(code) = item.exit_code.filter(|code| *code != 0) {
        content.push(ToolCallContent::text(format!("Exit code {code}")));
    }
    call.content = Some(content);
    call.raw_output = Some(json!({ "exitCode": item.exit_code, "durationMs": item.duration_ms }));
}

fn file_change(call: &mut ToolCall, item: &FileChangeItem, cwd: &str, version: Version) {
    let (mut content, mut locations) = (Vec::new(), Vec::new());
    for change in &item.changes {
        let (diffs, places) = diff::of_change(change, cwd, version);
        content.extend(diffs);
        locations.extend(places);
    }
    content.extend(text(item.reason.as_deref()));
    call.content = Some(content);
    call.locations = Some(locations);
}

fn mcp_tool_call(call: &mut ToolCall, item: &McpToolCallItem) {
    call.raw_input = item.arguments.value().ok();
    if item.status == McpToolCallStatus::InProgress {
        call.content = None;
        return;
    }
    let mut content: Vec<ToolCallContent> = Vec::new();
    if let Some(result) = &item.result {
        content.extend(result.content.iter().map(block));
        call.raw_output.clone_from(&result.structured_content);
    }
    content.extend(text(item.error.as_ref().map(|error| error.message.as_str())));
    call.content = Some(content);
}

/// A block of an MCP result: the shapes are the same. Of one that is not, the JSON is shown.
fn block(value: &Value) -> ToolCallContent {
    let content = serde_json::from_value::<ContentBlock>(value.clone())
        .unwrap_or_else(|_| ContentBlock::text(fenced(&visible::text(&value.to_string()))));
    ToolCallContent::Content { content }
}

fn dynamic_tool_call(call: &mut ToolCall, item: &DynamicToolCallItem) {
    call.raw_input = item.arguments.value().ok();
    let content = |item: &DynamicToolCallOutputContentItem| match item {
        DynamicToolCallOutputContentItem::InputText { text } => {
            ToolCallContent::text(visible::text(text))
        }
        DynamicToolCallOutputContentItem::InputImage { image_url } => {
            let url = image_url.split(',').next().unwrap_or_default();
            ToolCallContent::text(format!("[image: {}]", visible::exact_line(url)))
        }
    };
    call.content = item.content_items.as_ref().map(|items| items.iter().map(content).collect());
}

fn collab_tool_call(call: &mut ToolCall, item: &CollabToolCallItem) {
    let mut content = text(item.prompt.as_deref());
    for (agent, state) in &item.agents_states {
        if let Some(message) = &state.message {
            content.push(ToolCallContent::text(format!("{agent}: {}", visible::text(message))));
        }
    }
    content.extend(text(item.reason.as_deref()));
    call.content = Some(content);
    call.raw_input = Some(json!({ "agents": item.receiver_thread_ids, "model": item.model }));
}

fn image_generation(call: &mut ToolCall, item: &ImageGenerationItem) {
    if !item.result.is_empty() {
        let (data, mime_type) = (item.result.clone(), "image/png".to_owned());
        let content = ContentBlock::Image { data, mime_type, uri: None };
        call.content.get_or_insert_default().push(ToolCallContent::Content { content });
    }
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
