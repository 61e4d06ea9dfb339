//! The events that `--experimental-json` prints: one JSON object per line, in the form of the dialect
//! `codex`. Items that this form does not know are left out.

use std::io::{self, Write};

use jsonrpc::Notification;
use protocol::describe::ItemStatus;
use protocol::hooks::{HookOutputEntryKind, HookRunSummary};
use protocol::{
    CollabAgentStatus, CollabAgentTool, CollabToolCallItem, McpToolCallItem, PatchChangeKind,
    ThreadItem, TokenUsageBreakdown, Turn, TurnPlanStep, TurnPlanStepStatus, TurnStatus,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::commands::transcript::clean;

/// The writer of a run's events.
pub(super) struct ThreadEvents<W, E> {
    out: W,
    /// For people: the dialect has no warnings, and takes an error for a failure.
    warnings: E,
    /// The first event is that of the thread: earlier ones wait. `None` afterwards.
    early: Option<Vec<Value>>,
    /// The agent's plan, while its turn runs: its id and its steps.
    plan: Option<(String, Value)>,
    usage: Usage,
    /// Number of the last error; errors have no id of their own.
    errors: u64,
    /// The last message of a review, unless something follows: the review's result contains it.
    held: Option<Value>,
    is_reviewing: bool,
    /// True if the turn has a message.
    has_message: bool,
    /// The last reasons of hooks, which kept the turn from a message when it has none.
    hook_reasons: Option<String>,
}

/// Tokens of the thread, as far as they are known.
#[derive(Default)]
struct Usage {
    total: Option<TokenUsageBreakdown>,
    /// The total when the turn began.
    before: Option<TokenUsageBreakdown>,
}

impl<W: Write, E: Write> ThreadEvents<W, E> {
    /// Prints events to `out`, and warnings to `warnings`.
    pub(super) fn new(out: W, warnings: E) -> Self {
        Self {
            out,
            warnings,
            early: Some(Vec::new()),
            plan: None,
            usage: Usage::default(),
            errors: 0,
            held: None,
            is_reviewing: false,
            has_message: false,
            hook_reasons: None,
        }
    }

    /// Prints that the thread is there.
    ///
    /// # Errors
    /// Of the output.
    pub(super) fn opened(&mut self, thread_id: &str) -> io::Result<()> {
        let early = self.early.take().unwrap_or_default();
        self.write(json!({ "type": "thread.started", "thread_id": thread_id }))?;
        early.into_iter().try_for_each(|event| self.write(event))
    }

    /// Prints the event of a notification, if there is one.
    ///
    /// # Errors
    /// Of the output, and `InvalidData` for parameters that do not fit their method.
    pub(super) fn notified(&mut self, method: &str, params: &RawValue) -> io::Result<()> {
        match method {
            protocol::TurnStarted::NAME => {
                self.usage.before = self.usage.total;
                self.write(json!({ "type": "turn.started" }))
            }
            protocol::ItemStarted::NAME => {
                let item = read::<protocol::ItemStarted>(params)?.item;
                self.release_held(&item)?;
                let event = is_observable(&item).then(|| shown(item)).flatten();
                event.map_or(Ok(()), |item| self.item("item.started", item))
            }
            protocol::ItemCompleted::NAME => {
                let item = read::<protocol::ItemCompleted>(params)?.item;
                self.completed(item)
            }
            protocol::TurnPlanUpdated::NAME => {
                let event = read::<protocol::TurnPlanUpdated>(params)?;
                self.planned(&event.turn_id, &event.plan)
            }
            protocol::ThreadTokenUsageUpdated::NAME => {
                self.usage.add(&read::<protocol::ThreadTokenUsageUpdated>(params)?.token_usage);
                Ok(())
            }
            protocol::TurnErrorEvent::NAME => {
                let event = read::<protocol::TurnErrorEvent>(params)?;
                // The last one comes again with the turn's end.
                if event.will_retry { self.error(&event.error.message) } else { Ok(()) }
            }
            protocol::Warning::NAME => self.warn(&read::<protocol::Warning>(params)?.message),
            protocol::GuardianWarning::NAME => {
                self.warn(&read::<protocol::GuardianWarning>(params)?.message)
            }
            protocol::ConfigWarning::NAME => {
                self.warn(&read::<protocol::ConfigWarning>(params)?.summary)
            }
            protocol::DeprecationNotice::NAME => {
                self.warn(&read::<protocol::DeprecationNotice>(params)?.summary)
            }
            protocol::HookCompleted::NAME => {
                self.hook_ended(&read::<protocol::HookCompleted>(params)?.run)
            }
            protocol::TurnCompleted::NAME => {
                self.ended(&read::<protocol::TurnCompleted>(params)?.turn)
            }
            _ => Ok(()),
        }
    }

    fn completed(&mut self, item: ThreadItem) -> io::Result<()> {
        self.release_held(&item)?;
        match &item {
            ThreadItem::AgentMessage(_) => self.has_message = true,
            ThreadItem::HookPrompt(prompt) => self.hook_reasons = Some(prompt.text()),
            ThreadItem::EnteredReviewMode(_) => self.is_reviewing = true,
            ThreadItem::ExitedReviewMode(_) => self.is_reviewing = false,
            _ => {}
        }
        let is_held = self.is_reviewing && matches!(item, ThreadItem::AgentMessage(_));
        match shown(item) {
            Some(shown) if is_held => {
                self.held = Some(shown);
                Ok(())
            }
            Some(shown) => self.item("item.completed", shown),
            None => Ok(()),
        }
    }

    /// Prints the message that was held back, unless `next` is the result that contains it.
    fn release_held(&mut self, next: &ThreadItem) -> io::Result<()> {
        let held = self.held.take();
        match held.filter(|_| !matches!(next, ThreadItem::ExitedReviewMode(_))) {
            Some(message) => self.item("item.completed", message),
            None => Ok(()),
        }
    }

    fn planned(&mut self, turn: &str, steps: &[TurnPlanStep]) -> io::Result<()> {
        let items: Vec<Value> = steps
            .iter()
            .map(|step| {
                let completed = step.status == TurnPlanStepStatus::Completed;
                json!({ "text": step.step, "completed": completed })
            })
            .collect();
        let kind = if self.plan.is_some() { "item.updated" } else { "item.started" };
        let id = format!("plan-{turn}");
        let item = json!({ "id": id, "type": "todo_list", "items": items });
        self.plan = Some((id, items.into()));
        self.item(kind, item)
    }

    fn ended(&mut self, turn: &Turn) -> io::Result<()> {
        if let Some(message) = self.held.take() {
            self.item("item.completed", message)?;
        }
        self.is_reviewing = false;
        if let Some((id, items)) = self.plan.take() {
            self.item("item.completed", json!({ "id": id, "type": "todo_list", "items": items }))?;
        }
        let failed =
            |message: &str| json!({ "type": "turn.failed", "error": { "message": message } });
        let has_message = std::mem::take(&mut self.has_message);
        let hook_reasons = self.hook_reasons.take().filter(|_| !has_message);
        let event = match (turn.status, &turn.error) {
            (TurnStatus::Completed, _) if hook_reasons.is_some() => {
                failed(&hook_reasons.unwrap_or_default())
            }
            (TurnStatus::Completed, _) => {
                json!({ "type": "turn.completed", "usage": self.usage.of_turn() })
            }
            (TurnStatus::Interrupted, _) => failed("the turn was interrupted"),
            (_, Some(error)) => failed(&error.message),
            (_, None) => failed("the turn failed"),
        };
        self.write(event)
    }

    /// Hooks are not of the dialect: what they refuse, and what goes wrong, is an error.
    fn hook_ended(&mut self, run: &HookRunSummary) -> io::Result<()> {
        let texts = run.entries.iter().filter(|entry| entry.kind != HookOutputEntryKind::Context);
        let texts: Vec<&str> = texts.map(|entry| entry.text.as_str()).collect();
        if texts.is_empty() {
            return Ok(());
        }
        let event = serde_json::to_value(run.event_name).unwrap_or_default();
        let event = event.as_str().unwrap_or_default();
        let message = format!("hook of {event} in {}: {}", run.source_path, texts.join("\n"));
        self.error(&message)
    }

    fn warn(&mut self, message: &str) -> io::Result<()> {
        // Progress is optional: the work continues without a reader.
        let _ = writeln!(self.warnings, "agentd: warning: {}", clean(message));
        Ok(())
    }

    fn error(&mut self, message: &str) -> io::Result<()> {
        self.errors += 1;
        let id = format!("error-{}", self.errors);
        self.item("item.completed", json!({ "id": id, "type": "error", "message": message }))
    }

    fn item(&mut self, kind: &str, item: Value) -> io::Result<()> {
        self.write(json!({ "type": kind, "item": item }))
    }

    fn write(&mut self, event: Value) -> io::Result<()> {
        if let Some(early) = &mut self.early {
            early.push(event);
            return Ok(());
        }
        let written = writeln!(self.out, "{event}").and_then(|()| self.out.flush());
        written.map_err(super::report::output_error)
    }
}

/// Prints why there is no turn.
///
/// # Errors
/// Of the output.
pub(super) fn print_error(out: &mut impl Write, message: &str) -> io::Result<()> {
    writeln!(out, "{}", json!({ "type": "error", "message": message }))?;
    out.flush()
}

const NO_TOKENS: TokenUsageBreakdown = TokenUsageBreakdown {
    total_tokens: 0,
    input_tokens: 0,
    cached_input_tokens: 0,
    cache_write_input_tokens: 0,
    output_tokens: 0,
    reasoning_output_tokens: 0,
};

impl Usage {
    fn add(&mut self, usage: &protocol::ThreadTokenUsage) {
        let earlier = || less(usage.total, usage.last);
        self.before.get_or_insert_with(earlier);
        self.total = Some(usage.total);
    }

    fn of_turn(&self) -> Value {
        let total = self.total.unwrap_or(NO_TOKENS);
        let used = less(total, self.before.unwrap_or(NO_TOKENS));
        json!({
            "input_tokens": used.input_tokens,
            "cached_input_tokens": used.cached_input_tokens,
            "cache_write_input_tokens": used.cache_write_input_tokens,
            "output_tokens": used.output_tokens,
            "reasoning_output_tokens": used.reasoning_output_tokens,
        })
    }
}

fn less(total: TokenUsageBreakdown, part: TokenUsageBreakdown) -> TokenUsageBreakdown {
    TokenUsageBreakdown {
        total_tokens: total.total_tokens - part.total_tokens,
        input_tokens: total.input_tokens - part.input_tokens,
        cached_input_tokens: total.cached_input_tokens - part.cached_input_tokens,
        cache_write_input_tokens: total.cache_write_input_tokens - part.cache_write_input_tokens,
        output_tokens: total.output_tokens - part.output_tokens,
        reasoning_output_tokens: total.reasoning_output_tokens - part.reasoning_output_tokens,
    }
}

/// Returns whether the beginning of an item is an event too.
fn is_observable(item: &ThreadItem) -> bool {
    matches!(
        item,
        ThreadItem::CommandExecution(_)
            | ThreadItem::McpToolCall(_)
            | ThreadItem::CollabToolCall(_)
            | ThreadItem::WebSearch(_)
            | ThreadItem::ImageGeneration(_)
    )
}

/// An item in the form of the dialect.
fn shown(item: ThreadItem) -> Option<Value> {
    let message =
        |id: String, text: String| json!({ "id": id, "type": "agent_message", "text": text });
    let status = match item.status() {
        ItemStatus::InProgress => "in_progress",
        ItemStatus::Completed => "completed",
        ItemStatus::Failed | ItemStatus::Declined => "failed",
    };
    Some(match item {
        ThreadItem::AgentMessage(item) => message(item.id, item.text),
        ThreadItem::ExitedReviewMode(item) => message(item.id, item.review),
        ThreadItem::Reasoning(item) => {
            json!({ "id": item.id, "type": "reasoning", "text": item.text() })
        }
        ThreadItem::CommandExecution(item) => {
            let output = item.aggregated_output.unwrap_or_default();
            let mut shown = json!({ "id": item.id, "type": "command_execution",
                "command": item.command, "aggregated_output": output, "status": status });
            if let Some(code) = item.exit_code {
                shown["exit_code"] = code.into();
            }
            shown
        }
        ThreadItem::FileChange(item) => {
            let changes: Vec<Value> = item
                .changes
                .iter()
                .map(|change| json!({ "path": change.path, "kind": kind(&change.kind) }))
                .collect();
            json!({ "id": item.id, "type": "file_change", "changes": changes, "status": status })
        }
        ThreadItem::McpToolCall(item) => tool_call(item, status),
        ThreadItem::CollabToolCall(item) => agent_call(item, status),
        ThreadItem::WebSearch(item) => {
            json!({ "id": item.id, "type": "web_search", "query": item.query })
        }
        // Not of the dialect; the image is nowhere else.
        ThreadItem::ImageGeneration(item) => {
            json!({ "id": item.id, "type": "image_generation", "status": item.status,
                "revised_prompt": item.revised_prompt, "result": item.result })
        }
        _ => return None,
    })
}

fn kind(kind: &PatchChangeKind) -> &'static str {
    match kind {
        PatchChangeKind::Add => "add",
        PatchChangeKind::Delete => "delete",
        PatchChangeKind::Update { .. } => "update",
    }
}

fn tool_call(item: McpToolCallItem, status: &str) -> Value {
    let mut shown = json!({ "id": item.id, "type": "mcp_tool_call", "server": item.server,
        "tool": item.tool, "arguments": item.arguments, "status": status });
    if let Some(result) = item.result {
        shown["result"] =
            json!({ "content": result.content, "structured_content": result.structured_content });
        if let Some(meta) = result.meta {
            shown["result"]["_meta"] = meta;
        }
    }
    if let Some(error) = item.error {
        shown["error"] = json!({ "message": error.message });
    }
    shown
}

/// A call that concerns other agents.
fn agent_call(item: CollabToolCallItem, status: &str) -> Value {
    let tool = match item.tool {
        CollabAgentTool::SpawnAgent => "spawn_agent",
        CollabAgentTool::SendInput => "send_input",
        CollabAgentTool::ResumeAgent => "resume_agent",
        CollabAgentTool::Wait => "wait",
        CollabAgentTool::CloseAgent => "close_agent",
    };
    let states = item.agents_states.into_iter().map(|(agent, state)| {
        let status = match state.status {
            CollabAgentStatus::PendingInit => "pending_init",
            CollabAgentStatus::Running => "running",
            CollabAgentStatus::Interrupted => "interrupted",
            CollabAgentStatus::Completed => "completed",
            CollabAgentStatus::Errored => "errored",
            CollabAgentStatus::Shutdown => "shutdown",
            CollabAgentStatus::NotFound => "not_found",
        };
        (agent, json!({ "status": status, "message": state.message }))
    });
    json!({ "id": item.id, "type": "collab_tool_call", "tool": tool,
        "sender_thread_id": item.sender_thread_id,
        "receiver_thread_ids": item.receiver_thread_ids, "prompt": item.prompt,
        "agents_states": states.collect::<serde_json::Map<_, _>>(), "status": status })
}

fn read<N: Notification>(params: &RawValue) -> io::Result<N::Params>
where
    N::Params: serde::de::DeserializeOwned,
{
    Ok(serde_json::from_str(params.get())?)
}

#[cfg(test)]
mod tests;
