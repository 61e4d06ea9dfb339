//! Items as calls of tools. Messages, plans and compactions are no calls: `adapter::items` shows them.

use protocol::ThreadItem;
use std::path::Path;

use protocol::item::{
    CollabAgentTool, CollabToolCallItem, CollabToolCallStatus, CommandAction, CommandExecutionItem,
    CommandExecutionStatus, DynamicToolCallItem, DynamicToolCallStatus, FileChangeItem,
    ImageGenerationItem, McpToolCallItem, McpToolCallStatus, PatchApplyStatus, PatchChangeKind,
    WebSearchAction, WebSearchItem,
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
    Some(match item {
        ThreadItem::CommandExecution(item) => command(item),
        ThreadItem::FileChange(item) => file_change(item, cwd, version),
        ThreadItem::McpToolCall(item) => mcp_tool_call(item),
        ThreadItem::DynamicToolCall(item) => dynamic_tool_call(item),
        ThreadItem::CollabToolCall(item) => collab_tool_call(item),
        ThreadItem::WebSearch(item) => web_search(item),
        ThreadItem::ImageView(item) => {
            let title = format!("View {}", visible::exact_line(&item.path));
            let mut call = call(&item.id, title, ToolKind::Read);
            call.status = Some(ended(item.reason.is_none()));
            call.locations =
                Some(vec![ToolCallLocation { path: diff::absolute(&item.path, cwd), line: None }]);
            call.content = Some(reason(item.reason.as_deref()));
            call
        }
        ThreadItem::ImageGeneration(item) => image_generation(item),
        ThreadItem::HookPrompt(item) => {
            let mut call = call(&item.id, "A hook added text".to_owned(), ToolKind::Other);
            call.status = Some(ToolCallStatus::Completed);
            call.content = Some(vec![ToolCallContent::text(visible::text(&item.text()))]);
            call
        }
        ThreadItem::EnteredReviewMode(item) => {
            let title = format!("Review {}", visible::exact_line(&item.review));
            let mut call = call(&item.id, title, ToolKind::Think);
            call.status = Some(ToolCallStatus::Completed);
            call
        }
        ThreadItem::UserMessage(_)
        | ThreadItem::AgentMessage(_)
        | ThreadItem::Plan(_)
        | ThreadItem::Reasoning(_)
        | ThreadItem::ExitedReviewMode(_)
        | ThreadItem::ContextCompaction(_) => return None,
    })
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

/// Returns the summary of a change, on one line.
pub(crate) fn change_title(item: &FileChangeItem, cwd: &str) -> String {
    let verb = match change_kind(item) {
        ToolKind::Delete => "Delete",
        ToolKind::Move => "Move",
        _ if item.changes.iter().all(|change| change.kind == PatchChangeKind::Add) => "Add",
        _ => "Change",
    };
    let below = |path: &str| {
        let path = Path::new(path);
        visible::path(path.strip_prefix(cwd).unwrap_or(path))
    };
    let names: Vec<String> = item.changes.iter().map(|change| below(&change.path)).collect();
    format!("{verb} {}", names.join(", "))
}

/// Deleting or moving, if that is all of it.
pub(crate) fn change_kind(item: &FileChangeItem) -> ToolKind {
    let all = |is: fn(&PatchChangeKind) -> bool| {
        !item.changes.is_empty() && item.changes.iter().all(|change| is(&change.kind))
    };
    if all(|kind| *kind == PatchChangeKind::Delete) {
        return ToolKind::Delete;
    }
    let moves = item.changes.iter().all(|change| change.diff.is_empty());
    if moves && all(|kind| matches!(kind, PatchChangeKind::Update { move_path: Some(_) })) {
        return ToolKind::Move;
    }
    ToolKind::Edit
}

fn call(id: &str, title: String, kind: ToolKind) -> ToolCall {
    ToolCall {
        tool_call_id: id.to_owned(),
        title: Some(title),
        kind: Some(kind),
        ..ToolCall::default()
    }
}

fn ended(succeeded: bool) -> ToolCallStatus {
    if succeeded { ToolCallStatus::Completed } else { ToolCallStatus::Failed }
}

fn reason(reason: Option<&str>) -> Vec<ToolCallContent> {
    reason.map(|reason| ToolCallContent::text(visible::text(reason))).into_iter().collect()
}

fn command(item: &CommandExecutionItem) -> ToolCall {
    let actions = &item.command_actions;
    let all = |is: fn(&CommandAction) -> bool| !actions.is_empty() && actions.iter().all(is);
    let kind = if all(|action| matches!(action, CommandAction::Read { .. })) {
        ToolKind::Read
    } else if all(|action| !matches!(action, CommandAction::Unknown { .. })) {
        ToolKind::Search
    } else {
        ToolKind::Execute
    };
    let locations = actions.iter().filter_map(|action| match action {
        CommandAction::Read { path, .. } => {
            Some(ToolCallLocation { path: diff::absolute(path, &item.cwd), line: None })
        }
        _ => None,
    });
    let mut call = call(&item.id, visible::exact(&item.command), kind);
    call.locations = Some(locations.collect());
    call.raw_input = Some(json!({ "command": item.command, "cwd": item.cwd }));
    call.status = Some(match item.status {
        CommandExecutionStatus::InProgress => ToolCallStatus::InProgress,
        CommandExecutionStatus::Completed => ToolCallStatus::Completed,
        CommandExecutionStatus::Failed | CommandExecutionStatus::Declined => ToolCallStatus::Failed,
    });
    if item.status != CommandExecutionStatus::InProgress {
        let mut content = output(0, item.aggregated_output.as_deref().unwrap_or_default());
        if item.status == CommandExecutionStatus::Declined {
            content.push(ToolCallContent::text("The command was declined."));
        } else if let Some(code) = item.exit_code.filter(|code| *code != 0) {
            content.push(ToolCallContent::text(format!("Exit code {code}")));
        }
        call.content = Some(content);
        call.raw_output =
            Some(json!({ "exitCode": item.exit_code, "durationMs": item.duration_ms }));
    }
    call
}

fn file_change(item: &FileChangeItem, cwd: &str, version: Version) -> ToolCall {
    let mut call = call(&item.id, change_title(item, cwd), change_kind(item));
    let (mut content, mut locations) = (Vec::new(), Vec::new());
    for change in &item.changes {
        let (diffs, places) = diff::of_change(change, cwd, version);
        content.extend(diffs);
        locations.extend(places);
    }
    content.extend(reason(item.reason.as_deref()));
    call.content = Some(content);
    call.locations = Some(locations);
    call.status = Some(match item.status {
        PatchApplyStatus::InProgress => ToolCallStatus::InProgress,
        PatchApplyStatus::Completed => ToolCallStatus::Completed,
        PatchApplyStatus::Failed | PatchApplyStatus::Declined => ToolCallStatus::Failed,
    });
    call
}

fn mcp_tool_call(item: &McpToolCallItem) -> ToolCall {
    let title =
        format!("{}: {}", visible::exact_line(&item.server), visible::exact_line(&item.tool));
    let mut call = call(&item.id, title, ToolKind::Other);
    call.raw_input = Some(item.arguments.clone());
    call.status = Some(match item.status {
        McpToolCallStatus::InProgress => ToolCallStatus::InProgress,
        McpToolCallStatus::Completed => ToolCallStatus::Completed,
        McpToolCallStatus::Failed => ToolCallStatus::Failed,
    });
    if item.status == McpToolCallStatus::InProgress {
        return call;
    }
    let mut content: Vec<ToolCallContent> = Vec::new();
    if let Some(result) = &item.result {
        content.extend(result.content.iter().map(block));
        call.raw_output.clone_from(&result.structured_content);
    }
    content.extend(reason(item.error.as_ref().map(|error| error.message.as_str())));
    call.content = Some(content);
    call
}

/// A block of an MCP result: the shapes are the same. Of one that is not, the JSON is shown.
fn block(value: &Value) -> ToolCallContent {
    let content = serde_json::from_value::<ContentBlock>(value.clone())
        .unwrap_or_else(|_| ContentBlock::text(fenced(&visible::text(&value.to_string()))));
    ToolCallContent::Content { content }
}

fn dynamic_tool_call(item: &DynamicToolCallItem) -> ToolCall {
    let mut call = call(&item.id, visible::exact_line(&item.tool), ToolKind::Other);
    call.raw_input = Some(item.arguments.clone());
    call.status = Some(match item.status {
        DynamicToolCallStatus::InProgress => ToolCallStatus::InProgress,
        DynamicToolCallStatus::Completed => ToolCallStatus::Completed,
        DynamicToolCallStatus::Failed => ToolCallStatus::Failed,
    });
    let text = |item: &DynamicToolCallOutputContentItem| match item {
        DynamicToolCallOutputContentItem::InputText { text } => {
            ToolCallContent::text(visible::text(text))
        }
        DynamicToolCallOutputContentItem::InputImage { image_url } => {
            let url = image_url.split(',').next().unwrap_or_default();
            ToolCallContent::text(format!("[image: {}]", visible::exact_line(url)))
        }
    };
    call.content = item.content_items.as_ref().map(|items| items.iter().map(text).collect());
    call
}

fn collab_tool_call(item: &CollabToolCallItem) -> ToolCall {
    let title = match item.tool {
        CollabAgentTool::SpawnAgent => "Start an agent",
        CollabAgentTool::SendInput => "Write to an agent",
        CollabAgentTool::ResumeAgent => "Resume an agent",
        CollabAgentTool::Wait => "Wait for agents",
        CollabAgentTool::CloseAgent => "End an agent",
    };
    let mut call = call(&item.id, title.to_owned(), ToolKind::Think);
    call.status = Some(match item.status {
        CollabToolCallStatus::InProgress => ToolCallStatus::InProgress,
        CollabToolCallStatus::Completed => ToolCallStatus::Completed,
        CollabToolCallStatus::Failed => ToolCallStatus::Failed,
    });
    let mut content = reason(item.prompt.as_deref());
    for (agent, state) in &item.agents_states {
        if let Some(message) = &state.message {
            content.push(ToolCallContent::text(format!("{agent}: {}", visible::text(message))));
        }
    }
    content.extend(reason(item.reason.as_deref()));
    call.content = Some(content);
    call.raw_input = Some(json!({ "agents": item.receiver_thread_ids, "model": item.model }));
    call
}

fn web_search(item: &WebSearchItem) -> ToolCall {
    let (kind, title) = match &item.action {
        Some(WebSearchAction::OpenPage { url: Some(url) }) => {
            (ToolKind::Fetch, format!("Open {}", visible::exact_line(url)))
        }
        Some(WebSearchAction::FindInPage { url: Some(url), pattern }) => {
            let pattern = visible::exact_line(pattern.as_deref().unwrap_or_default());
            (ToolKind::Search, format!("Find {pattern} in {}", visible::exact_line(url)))
        }
        _ => (ToolKind::Search, format!("Search the web: {}", visible::exact_line(&item.query))),
    };
    let mut call = call(&item.id, title, kind);
    call.status = Some(ended(item.reason.is_none()));
    call.content = Some(reason(item.reason.as_deref()));
    call
}

fn image_generation(item: &ImageGenerationItem) -> ToolCall {
    let title = match &item.revised_prompt {
        Some(prompt) => format!("Draw {}", visible::exact_line(prompt)),
        None => "Draw an image".to_owned(),
    };
    let mut call = call(&item.id, title, ToolKind::Other);
    call.status = Some(ended(item.reason.is_none()));
    let mut content = reason(item.reason.as_deref());
    if !item.result.is_empty() {
        let (data, mime_type) = (item.result.clone(), "image/png".to_owned());
        let image = ContentBlock::Image { data, mime_type, uri: None };
        content.push(ToolCallContent::Content { content: image });
    }
    call.content = Some(content);
    let location = |path: &String| ToolCallLocation { path: path.clone(), line: None };
    call.locations = Some(item.saved_path.iter().map(location).collect());
    call
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
