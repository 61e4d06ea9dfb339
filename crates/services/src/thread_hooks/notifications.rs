//! Runs of hooks as clients see them.

use hooks::{Answer, EntryKind, EventName, Handler, Source, Status};
use protocol::hooks::{
    HookEventName, HookExecutionMode, HookHandlerType, HookOutputEntry, HookOutputEntryKind,
    HookRunStatus, HookRunSummary, HookScope, HookSource,
};

use super::sources::LoadedHook;

/// A run that began or ended.
#[derive(Clone, Debug)]
pub struct HookReport {
    pub turn: Option<String>,
    pub run: HookRunSummary,
}

impl HookReport {
    /// The end of a run that did not come to its own.
    pub fn failed(self, why: &str) -> Self {
        let entry = HookOutputEntry { kind: HookOutputEntryKind::Error, text: why.to_owned() };
        let run =
            HookRunSummary { status: HookRunStatus::Failed, entries: vec![entry], ..self.run };
        Self { run, ..self }
    }
}

/// A run that begins.
pub(super) fn started(id: String, loaded: &LoadedHook, at_ms: i64) -> HookRunSummary {
    let hook = &loaded.hook;
    HookRunSummary {
        id,
        event_name: event_name(hook.event),
        handler_type: handler_type(&hook.handler),
        execution_mode: match hook.is_async {
            true => HookExecutionMode::Async,
            false => HookExecutionMode::Sync,
        },
        scope: match hook.event {
            EventName::SessionStart | EventName::SubagentStart | EventName::SessionEnd => {
                HookScope::Thread
            }
            _ => HookScope::Turn,
        },
        source: hook_source(hook.origin.source),
        source_path: hook.origin.path.to_string_lossy().into_owned(),
        display_order: hook.order,
        status: HookRunStatus::Running,
        status_message: hook.status_message.as_deref().map(|text| visible::text(text).into_owned()),
        started_at: at_ms / 1000,
        completed_at: None,
        duration_ms: None,
        entries: Vec::new(),
    }
}

/// The same run at its end.
pub(super) fn completed(
    run: HookRunSummary,
    answer: &Answer,
    (started_ms, ended_ms): (i64, i64),
) -> HookRunSummary {
    let status = match answer.status {
        Status::Completed => HookRunStatus::Completed,
        Status::Failed => HookRunStatus::Failed,
        Status::Blocked => HookRunStatus::Blocked,
        Status::Stopped => HookRunStatus::Stopped,
    };
    let entry = |entry: &hooks::Entry| HookOutputEntry {
        kind: match entry.kind {
            EntryKind::Warning => HookOutputEntryKind::Warning,
            EntryKind::Stop => HookOutputEntryKind::Stop,
            EntryKind::Feedback => HookOutputEntryKind::Feedback,
            EntryKind::Context => HookOutputEntryKind::Context,
            EntryKind::Error => HookOutputEntryKind::Error,
        },
        text: entry.text.clone(),
    };
    HookRunSummary {
        status,
        completed_at: Some(ended_ms / 1000),
        duration_ms: Some((ended_ms - started_ms).max(0)),
        entries: answer.entries.iter().map(entry).collect(),
        ..run
    }
}

pub fn event_name(event: EventName) -> HookEventName {
    match event {
        EventName::SessionStart => HookEventName::SessionStart,
        EventName::SubagentStart => HookEventName::SubagentStart,
        EventName::UserPromptSubmit => HookEventName::UserPromptSubmit,
        EventName::PreModelRequest => HookEventName::PreModelRequest,
        EventName::PostModelRequest => HookEventName::PostModelRequest,
        EventName::PreToolUse => HookEventName::PreToolUse,
        EventName::PermissionRequest => HookEventName::PermissionRequest,
        EventName::PostToolUse => HookEventName::PostToolUse,
        EventName::PreCompact => HookEventName::PreCompact,
        EventName::PostCompact => HookEventName::PostCompact,
        EventName::Stop => HookEventName::Stop,
        EventName::SubagentStop => HookEventName::SubagentStop,
        EventName::Interrupt => HookEventName::Interrupt,
        EventName::SessionEnd => HookEventName::SessionEnd,
    }
}

pub fn handler_type(handler: &Handler) -> HookHandlerType {
    match handler {
        Handler::Command(_) => HookHandlerType::Command,
        Handler::Prompt { .. } => HookHandlerType::Prompt,
        Handler::Agent { .. } => HookHandlerType::Agent,
        Handler::McpTool { .. } => HookHandlerType::McpTool,
    }
}

pub fn hook_source(source: Source) -> HookSource {
    match source {
        Source::User => HookSource::User,
        Source::Project => HookSource::Project,
        Source::Plugin => HookSource::Plugin,
        Source::Managed => HookSource::System,
        Source::Fetched => HookSource::CloudRequirements,
    }
}
