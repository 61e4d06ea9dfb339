//! Items: from the session to the wire format, in which they are also stored.

use protocol::JsonText;
use protocol::item as wire;
use serde_json::value::RawValue;
use session::{
    Action, Change, ChangeKind, CommandItem, CommandSource, DynamicCall, ImageGeneration, Item,
    ItemStatus, MemoryCitation, MemoryPassage, Phase, SearchAction, ToolContent, UserContent,
};

/// The item as it is sent and stored.
pub fn item(item: &Item) -> wire::ThreadItem {
    match item {
        Item::UserMessage { id, content, client_id } => {
            wire::ThreadItem::UserMessage(wire::UserMessageItem {
                id: id.to_string(),
                content: content.iter().map(user_content).collect(),
                client_id: client_id.as_deref().map(str::to_owned),
            })
        }
        Item::AgentMessage { id, text, phase, citation, reason } => {
            wire::ThreadItem::AgentMessage(wire::AgentMessageItem {
                id: id.to_string(),
                text: text.clone(),
                phase: phase.map(message_phase),
                memory_citation: citation.as_deref().map(memory_citation),
                reason: reason.clone(),
            })
        }
        Item::Plan { id, text, reason } => wire::ThreadItem::Plan(wire::PlanItem {
            id: id.to_string(),
            text: text.clone(),
            reason: reason.clone(),
        }),
        Item::Reasoning { id, summary, content, reason } => {
            wire::ThreadItem::Reasoning(wire::ReasoningItem {
                id: id.to_string(),
                summary: summary.clone(),
                content: content.clone(),
                reason: reason.clone(),
            })
        }
        Item::Command(command) => wire::ThreadItem::CommandExecution(command_item(command)),
        Item::FileChange { id, changes, status, reason } => {
            wire::ThreadItem::FileChange(wire::FileChangeItem {
                id: id.to_string(),
                changes: changes.iter().map(change).collect(),
                status: patch_status(*status),
                reason: reason.clone(),
            })
        }
        Item::WebSearch { id, query, action, reason } => {
            wire::ThreadItem::WebSearch(wire::WebSearchItem {
                id: id.to_string(),
                query: query.clone(),
                action: action.as_ref().map(search_action),
                reason: reason.clone(),
            })
        }
        Item::DynamicCall(call) => wire::ThreadItem::DynamicToolCall(dynamic_call(call)),
        Item::ServerCall(call) => wire::ThreadItem::McpToolCall(super::server_tool::item(call)),
        Item::AgentCall(call) => wire::ThreadItem::CollabToolCall(super::agent::item(call)),
        Item::EnteredReviewMode { id, review } => {
            wire::ThreadItem::EnteredReviewMode(wire::ReviewModeItem {
                id: id.to_string(),
                review: review.clone(),
                findings: None,
                explanation: None,
            })
        }
        Item::ExitedReviewMode { id, review, findings } => {
            let findings = findings.as_ref();
            wire::ThreadItem::ExitedReviewMode(wire::ReviewModeItem {
                id: id.to_string(),
                review: review.clone(),
                findings: findings.map(|it| it.findings.iter().map(finding).collect()),
                explanation: findings.and_then(|it| it.explanation.clone()),
            })
        }
        Item::ContextCompaction { id, reason } => {
            wire::ThreadItem::ContextCompaction(wire::ContextCompactionItem {
                id: id.to_string(),
                reason: reason.clone(),
            })
        }
        Item::HookPrompt { id, fragments } => wire::ThreadItem::HookPrompt(wire::HookPromptItem {
            id: id.to_string(),
            fragments: fragments
                .iter()
                .map(|hooks::Refusal { run, reason }| wire::HookPromptFragment {
                    hook_run_id: run.clone(),
                    text: reason.clone(),
                })
                .collect(),
        }),
        Item::ImageGeneration(image) => wire::ThreadItem::ImageGeneration(image_generation(image)),
        Item::ImageView { id, path, reason } => wire::ThreadItem::ImageView(wire::ImageViewItem {
            id: id.to_string(),
            path: path.clone(),
            reason: reason.clone(),
        }),
    }
}

fn memory_citation(citation: &MemoryCitation) -> wire::MemoryCitation {
    let entry = |passage: &MemoryPassage| wire::MemoryCitationEntry {
        path: passage.path.clone(),
        line_start: *passage.lines.start(),
        line_end: *passage.lines.end(),
        note: passage.note.clone(),
    };
    wire::MemoryCitation {
        entries: citation.entries.iter().map(entry).collect(),
        thread_ids: citation.threads.clone(),
    }
}

/// The item's JSON, made once for the store and all subscribers.
pub fn json(value: &Item) -> Box<RawValue> {
    serde_json::value::to_raw_value(&item(value)).expect("items are strings and numbers")
}

/// The item's kind on the wire.
pub fn kind(item: &Item) -> wire::ItemKind {
    match item {
        Item::UserMessage { .. } => wire::ItemKind::UserMessage,
        Item::AgentMessage { .. } => wire::ItemKind::AgentMessage,
        Item::Plan { .. } => wire::ItemKind::Plan,
        Item::Reasoning { .. } => wire::ItemKind::Reasoning,
        Item::Command(_) => wire::ItemKind::CommandExecution,
        Item::FileChange { .. } => wire::ItemKind::FileChange,
        Item::WebSearch { .. } => wire::ItemKind::WebSearch,
        Item::DynamicCall(_) => wire::ItemKind::DynamicToolCall,
        Item::ServerCall(_) => wire::ItemKind::McpToolCall,
        Item::AgentCall(_) => wire::ItemKind::CollabToolCall,
        Item::EnteredReviewMode { .. } => wire::ItemKind::EnteredReviewMode,
        Item::ExitedReviewMode { .. } => wire::ItemKind::ExitedReviewMode,
        Item::ContextCompaction { .. } => wire::ItemKind::ContextCompaction,
        Item::HookPrompt { .. } => wire::ItemKind::HookPrompt,
        Item::ImageGeneration(_) => wire::ItemKind::ImageGeneration,
        Item::ImageView { .. } => wire::ItemKind::ImageView,
    }
}

/// The status as stored with the item.
pub fn status_name(status: ItemStatus) -> &'static str {
    match status {
        ItemStatus::InProgress => "inProgress",
        ItemStatus::Completed => "completed",
        ItemStatus::Failed => "failed",
        ItemStatus::Declined => "declined",
    }
}

fn user_content(part: &UserContent) -> protocol::input::UserInput {
    use protocol::input::UserInput;
    match part {
        UserContent::Text { text, elements } => UserInput::Text {
            text: text.clone(),
            text_elements: elements.iter().map(text_element).collect(),
        },
        UserContent::Image { url } => UserInput::Image { url: url.clone() },
        UserContent::LocalImage { path, .. } => UserInput::LocalImage { path: path.clone() },
        UserContent::App { id, name } => {
            UserInput::Mention { name: name.clone(), path: format!("app://{id}") }
        }
        UserContent::Skill { name, path, .. } => {
            UserInput::Skill { name: name.clone(), path: path.clone() }
        }
    }
}

fn text_element(element: &session::TextElement) -> protocol::input::TextElement {
    protocol::input::TextElement {
        byte_range: protocol::input::ByteRange { start: element.start, end: element.end },
        placeholder: element.placeholder.clone(),
    }
}

/// The image is in the item itself, so no separate copy is saved.
fn image_generation(image: &ImageGeneration) -> wire::ImageGenerationItem {
    wire::ImageGenerationItem {
        id: image.id.to_string(),
        status: image.status.clone(),
        revised_prompt: image.revised_prompt.clone(),
        result: image.result.clone(),
        saved_path: None,
        reason: image.reason.clone(),
    }
}

fn message_phase(phase: Phase) -> wire::MessagePhase {
    match phase {
        Phase::Commentary => wire::MessagePhase::Commentary,
        Phase::FinalAnswer => wire::MessagePhase::FinalAnswer,
    }
}

fn finding(finding: &session::ReviewFinding) -> protocol::ReviewFinding {
    let session::ReviewFinding { title, body, priority, confidence, location } = finding.clone();
    let location = location.map(|place| protocol::ReviewFindingLocation {
        path: place.path,
        start_line: place.lines.map(|(first, _)| first),
        end_line: place.lines.map(|(_, last)| last),
    });
    protocol::ReviewFinding { title, body, priority, confidence, location }
}

fn dynamic_call(call: &DynamicCall) -> wire::DynamicToolCallItem {
    use protocol::tool::DynamicToolCallOutputContentItem as Content;
    let content = |part: &ToolContent| match part.clone() {
        ToolContent::Text(text) => Content::InputText { text },
        ToolContent::Image { url } => Content::InputImage { image_url: url },
    };
    let answer = call.answer.as_ref();
    let has_failed = matches!(call.status, ItemStatus::Failed | ItemStatus::Declined);
    let reason = call.reason.clone().map(|text| vec![Content::InputText { text }]);
    wire::DynamicToolCallItem {
        id: call.id.to_string(),
        namespace: call.namespace.clone(),
        tool: call.tool.clone(),
        arguments: JsonText::read(&call.arguments).unwrap_or_default(),
        status: match call.status {
            ItemStatus::InProgress => wire::DynamicToolCallStatus::InProgress,
            ItemStatus::Completed => wire::DynamicToolCallStatus::Completed,
            ItemStatus::Failed | ItemStatus::Declined => wire::DynamicToolCallStatus::Failed,
        },
        content_items: answer.map(|answer| answer.content.iter().map(content).collect()).or(reason),
        success: answer.map(|answer| answer.success).or(has_failed.then_some(false)),
        duration_ms: call.duration_ms,
    }
}

fn command_item(command: &CommandItem) -> wire::CommandExecutionItem {
    wire::CommandExecutionItem {
        id: command.id.to_string(),
        command: command.command.clone(),
        cwd: command.cwd.display().to_string(),
        process_id: command.process_id.clone(),
        source: match command.source {
            CommandSource::Agent => wire::CommandExecutionSource::Agent,
            CommandSource::User => wire::CommandExecutionSource::UserShell,
        },
        status: match command.status {
            ItemStatus::InProgress => wire::CommandExecutionStatus::InProgress,
            ItemStatus::Completed => wire::CommandExecutionStatus::Completed,
            ItemStatus::Failed => wire::CommandExecutionStatus::Failed,
            ItemStatus::Declined => wire::CommandExecutionStatus::Declined,
        },
        awaits_approval: command.awaits_approval,
        command_actions: command.actions.iter().map(action).collect(),
        aggregated_output: command.output.clone(),
        omitted_output_bytes: (command.omitted > 0).then_some(command.omitted as u64),
        exit_code: command.exit_code,
        duration_ms: command.duration_ms,
    }
}

/// A command's action.
pub fn action(action: &Action) -> wire::CommandAction {
    match action.clone() {
        Action::Read { command, name, path } => {
            wire::CommandAction::Read { command, name, path: path.display().to_string() }
        }
        Action::ListFiles { command, path } => wire::CommandAction::ListFiles { command, path },
        Action::Search { command, query, path } => {
            wire::CommandAction::Search { command, query, path }
        }
        Action::Unknown { command } => wire::CommandAction::Unknown { command },
    }
}

/// A change of a file.
pub fn change(change: &Change) -> wire::FileUpdateChange {
    wire::FileUpdateChange {
        path: change.path.clone(),
        kind: match &change.kind {
            ChangeKind::Add => wire::PatchChangeKind::Add,
            ChangeKind::Delete => wire::PatchChangeKind::Delete,
            ChangeKind::Update { move_to } => {
                wire::PatchChangeKind::Update { move_path: move_to.clone() }
            }
        },
        diff: change.diff.clone(),
    }
}

fn patch_status(status: ItemStatus) -> wire::PatchApplyStatus {
    match status {
        ItemStatus::InProgress => wire::PatchApplyStatus::InProgress,
        ItemStatus::Completed => wire::PatchApplyStatus::Completed,
        ItemStatus::Failed => wire::PatchApplyStatus::Failed,
        ItemStatus::Declined => wire::PatchApplyStatus::Declined,
    }
}

fn search_action(action: &SearchAction) -> wire::WebSearchAction {
    match action.clone() {
        SearchAction::Search { query, queries } => wire::WebSearchAction::Search { query, queries },
        SearchAction::OpenPage { url } => wire::WebSearchAction::OpenPage { url },
        SearchAction::FindInPage { url, pattern } => {
            wire::WebSearchAction::FindInPage { url, pattern }
        }
        SearchAction::Other => wire::WebSearchAction::Other,
    }
}
