//! The events that `--experimental-json` prints: one JSON object per line, in the form of the dialect
//! `codex`. Items that this form does not know are left out.

use std::io::{self, Write};

use jsonrpc::Notification;
use protocol::{
    CollabAgentStatus, CollabAgentTool, CollabToolCallItem, CollabToolCallStatus,
    CommandExecutionStatus, McpToolCallItem, McpToolCallStatus, PatchApplyStatus, PatchChangeKind,
    ThreadItem, TokenUsageBreakdown, Turn, TurnPlanStep, TurnPlanStepStatus, TurnStatus,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// See the module.
pub(super) struct ThreadEvents<W> {
    out: W,
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
}

/// Tokens of the thread, as far as they are known.
#[derive(Default)]
struct Usage {
    total: Option<TokenUsageBreakdown>,
    /// The total when the turn began.
    before: Option<TokenUsageBreakdown>,
}

impl<W: Write> ThreadEvents<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            early: Some(Vec::new()),
            plan: None,
            usage: Usage::default(),
            errors: 0,
            held: None,
            is_reviewing: false,
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
            "turn/started" => {
                self.usage.before = self.usage.total;
                self.write(json!({ "type": "turn.started" }))
            }
            "item/started" => {
                let item = read::<protocol::ItemStarted>(params)?.item;
                self.release_held(&item)?;
                let event = is_observable(&item).then(|| shown(item)).flatten();
                event.map_or(Ok(()), |item| self.item("item.started", item))
            }
            "item/completed" => {
                let item = read::<protocol::ItemCompleted>(params)?.item;
                self.completed(item)
            }
            "turn/plan/updated" => {
                let event = read::<protocol::TurnPlanUpdated>(params)?;
                self.planned(&event.turn_id, &event.plan)
            }
            "thread/tokenUsage/updated" => {
                self.usage.add(&read::<protocol::ThreadTokenUsageUpdated>(params)?.token_usage);
                Ok(())
            }
            "error" => {
                let event = read::<protocol::TurnErrorEvent>(params)?;
                // The last one comes again with the turn's end.
                if event.will_retry { self.error(&event.error.message) } else { Ok(()) }
            }
            "warning" => self.error(&read::<protocol::Warning>(params)?.message),
            "guardianWarning" => self.error(&read::<protocol::GuardianWarning>(params)?.message),
            "configWarning" => self.error(&read::<protocol::ConfigWarning>(params)?.summary),
            "deprecationNotice" => {
                self.error(&read::<protocol::DeprecationNotice>(params)?.summary)
            }
            "turn/completed" => self.ended(&read::<protocol::TurnCompleted>(params)?.turn),
            _ => Ok(()),
        }
    }

    fn completed(&mut self, item: ThreadItem) -> io::Result<()> {
        self.release_held(&item)?;
        match &item {
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
        let event = match (turn.status, &turn.error) {
            (TurnStatus::Completed, _) => {
                json!({ "type": "turn.completed", "usage": self.usage.of_turn() })
            }
            (TurnStatus::Interrupted, _) => failed("the turn was interrupted"),
            (_, Some(error)) => failed(&error.message),
            (_, None) => failed("the turn failed"),
        };
        self.write(event)
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

/// Whether the beginning of an item is an event too.
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
    Some(match item {
        ThreadItem::AgentMessage(item) => message(item.id, item.text),
        ThreadItem::ExitedReviewMode(item) => message(item.id, item.review),
        ThreadItem::Reasoning(item) => {
            let sections = if item.summary.is_empty() { item.content } else { item.summary };
            json!({ "id": item.id, "type": "reasoning", "text": sections.join("\n\n") })
        }
        ThreadItem::CommandExecution(item) => {
            let status = match item.status {
                CommandExecutionStatus::InProgress => "in_progress",
                CommandExecutionStatus::Completed => "completed",
                CommandExecutionStatus::Failed | CommandExecutionStatus::Declined => "failed",
            };
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
            let status = match item.status {
                PatchApplyStatus::Completed => "completed",
                PatchApplyStatus::InProgress => "in_progress",
                PatchApplyStatus::Failed | PatchApplyStatus::Declined => "failed",
            };
            json!({ "id": item.id, "type": "file_change", "changes": changes, "status": status })
        }
        ThreadItem::McpToolCall(item) => tool_call(item),
        ThreadItem::CollabToolCall(item) => agent_call(item),
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

fn tool_call(item: McpToolCallItem) -> Value {
    let status = match item.status {
        McpToolCallStatus::InProgress => "in_progress",
        McpToolCallStatus::Completed => "completed",
        McpToolCallStatus::Failed => "failed",
    };
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
fn agent_call(item: CollabToolCallItem) -> Value {
    let tool = match item.tool {
        CollabAgentTool::SpawnAgent => "spawn_agent",
        CollabAgentTool::SendInput => "send_input",
        CollabAgentTool::ResumeAgent => "resume_agent",
        CollabAgentTool::Wait => "wait",
        CollabAgentTool::CloseAgent => "close_agent",
    };
    let status = match item.status {
        CollabToolCallStatus::InProgress => "in_progress",
        CollabToolCallStatus::Completed => "completed",
        CollabToolCallStatus::Failed => "failed",
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
mod tests {
    use super::*;

    /// The events of notifications, after that of the thread.
    fn events(notifications: &[(&str, Value)]) -> Vec<Value> {
        let mut out = Vec::new();
        let mut events = ThreadEvents::new(&mut out);
        events.opened("t").unwrap();
        for (method, params) in notifications {
            let params = RawValue::from_string(params.to_string()).unwrap();
            events.notified(method, &params).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        assert_eq!(lines.next(), Some(json!({ "type": "thread.started", "thread_id": "t" })));
        lines.collect()
    }

    fn about(member: &str, value: Value) -> Value {
        let mut params =
            json!({ "threadId": "t", "turnId": "u", "startedAtMs": 1, "completedAtMs": 1 });
        params[member] = value;
        params
    }

    fn turn(status: &str, error: Value) -> (&'static str, Value) {
        let turn = json!({ "id": "u", "items": [], "itemsView": "full", "status": status,
            "error": error });
        ("turn/completed", json!({ "threadId": "t", "turn": turn }))
    }

    #[test]
    fn items_have_the_other_form() {
        let check = |item: Value, expected: Option<Value>| {
            let found = events(&[("item/completed", about("item", item.clone()))]);
            let expected = expected.map(|item| json!({ "type": "item.completed", "item": item }));
            assert_eq!(found, Vec::from_iter(expected), "{item}");
        };
        let message = json!({ "id": "1", "type": "agent_message", "text": "hi" });
        check(json!({ "type": "agentMessage", "id": "1", "text": "hi" }), Some(message.clone()));
        check(json!({ "type": "exitedReviewMode", "id": "1", "review": "hi" }), Some(message));
        check(
            json!({ "type": "reasoning", "id": "1", "summary": ["a", "b"], "content": ["c"] }),
            Some(json!({ "id": "1", "type": "reasoning", "text": "a\n\nb" })),
        );
        check(
            json!({ "type": "commandExecution", "id": "1", "command": "ls", "cwd": "/w",
                "status": "declined", "commandActions": [] }),
            Some(json!({ "id": "1", "type": "command_execution", "command": "ls",
                "aggregated_output": "", "status": "failed" })),
        );
        check(
            json!({ "type": "fileChange", "id": "1", "status": "completed", "changes": [
                { "path": "a", "kind": { "type": "update", "movePath": "b" }, "diff": "" }] }),
            Some(json!({ "id": "1", "type": "file_change", "status": "completed",
                "changes": [{ "path": "a", "kind": "update" }] })),
        );
        let arguments = json!({ "type": "agentMessage" });
        check(
            json!({ "type": "mcpToolCall", "id": "1", "server": "s", "tool": "t",
                "status": "completed", "arguments": arguments,
                "result": { "content": [1], "structuredContent": arguments } }),
            Some(json!({ "id": "1", "type": "mcp_tool_call", "server": "s", "tool": "t",
                "status": "completed", "arguments": arguments,
                "result": { "content": [1], "structured_content": arguments } })),
        );
        check(
            json!({ "type": "collabToolCall", "id": "1", "tool": "spawnAgent", "prompt": "Count.",
                "status": "completed", "senderThreadId": "t", "receiverThreadIds": ["a"],
                "agentsStates": { "a": { "status": "pendingInit" } } }),
            Some(json!({ "id": "1", "type": "collab_tool_call", "tool": "spawn_agent",
                "prompt": "Count.", "status": "completed", "sender_thread_id": "t",
                "receiver_thread_ids": ["a"],
                "agents_states": { "a": { "status": "pending_init", "message": null } } })),
        );
        check(json!({ "type": "contextCompaction", "id": "1" }), None);
    }

    #[test]
    fn the_result_of_a_review_is_one_message() {
        let completed = |item: Value| ("item/completed", about("item", item));
        let said = |id: &str, text: &str| {
            completed(json!({ "type": "agentMessage", "id": id, "text": text }))
        };
        let mode =
            |kind: &str, text: &str| completed(json!({ "type": kind, "id": kind, "review": text }));
        let command = completed(json!({ "type": "commandExecution", "id": "c", "command": "ls",
            "cwd": "/w", "status": "completed", "commandActions": [] }));
        let messages = |notifications: &[(&str, Value)]| -> Vec<Value> {
            let found = events(notifications).into_iter();
            let text = |mut event: Value| event["item"]["text"].take();
            found.map(text).filter(|text| !text.is_null()).collect()
        };
        let entered = || mode("enteredReviewMode", "changes");
        let review =
            [entered(), said("1", "good"), mode("exitedReviewMode", "good"), said("2", "more")];
        assert_eq!(messages(&review), ["good", "more"]);
        let on_the_way =
            [entered(), said("1", "I look"), command, mode("exitedReviewMode", "good")];
        assert_eq!(messages(&on_the_way), ["I look", "good"]);
        let cut = [entered(), said("1", "I look"), turn("failed", json!(null))];
        assert_eq!(messages(&cut), ["I look"]);
    }

    #[test]
    fn a_plan_is_one_item_of_its_turn() {
        let plan = |status: &str| {
            ("turn/plan/updated", about("plan", json!([{ "step": "s", "status": status }])))
        };
        let found =
            events(&[plan("inProgress"), plan("completed"), turn("completed", json!(null))]);
        let item = |kind: &str, completed: bool| {
            let items = json!([{ "text": "s", "completed": completed }]);
            json!({ "type": kind, "item": { "id": "plan-u", "type": "todo_list", "items": items } })
        };
        let expected =
            [item("item.started", false), item("item.updated", true), item("item.completed", true)];
        assert_eq!(found[..3], expected);
        assert_eq!(found[3]["type"], "turn.completed");
    }

    #[test]
    fn usage_is_that_of_the_turn() {
        let tokens = |n: i64| {
            json!({ "totalTokens": 2 * n, "inputTokens": n, "cachedInputTokens": 0,
                "cacheWriteInputTokens": n, "outputTokens": n, "reasoningOutputTokens": 0 })
        };
        let used = |total: i64, last: i64| {
            let usage = json!({ "total": tokens(total), "last": tokens(last) });
            ("thread/tokenUsage/updated", about("tokenUsage", usage))
        };
        let started = ("turn/started", about("turn", json!(null)));
        let end = || turn("completed", json!(null));
        for (notifications, expected) in [
            (vec![started.clone(), end()], 0),
            (vec![started.clone(), used(5, 5), used(8, 3), end()], 8),
            // A thread that was continued.
            (vec![started.clone(), used(105, 5), used(108, 3), end()], 8),
            (vec![used(100, 40), started.clone(), used(105, 5), end()], 5),
        ] {
            let found = events(&notifications);
            let usage = &found.last().unwrap()["usage"];
            assert_eq!(
                (&usage["input_tokens"], &usage["cache_write_input_tokens"]),
                (&expected.into(), &expected.into())
            );
            assert_eq!(usage.as_object().unwrap().len(), 5);
        }
    }

    #[test]
    fn every_end_has_one_event() {
        let failed =
            |message: &str| vec![json!({ "type": "turn.failed", "error": { "message": message } })];
        let error = json!({ "message": "it broke" });
        assert_eq!(events(&[turn("failed", error)]), failed("it broke"));
        assert_eq!(events(&[turn("failed", json!(null))]), failed("the turn failed"));
        assert_eq!(events(&[turn("interrupted", json!(null))]), failed("the turn was interrupted"));
    }

    #[test]
    fn what_comes_before_the_thread_waits_for_it() {
        let mut out = Vec::new();
        let mut events = ThreadEvents::new(&mut out);
        let warning = RawValue::from_string(r#"{"message":"careful"}"#.to_owned()).unwrap();
        events.notified("warning", &warning).unwrap();
        events.opened("t").unwrap();
        let text = String::from_utf8(out).unwrap();
        let types: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].take())
            .collect();
        assert_eq!(types, ["thread.started", "item.completed"]);
        let mut out = Vec::new();
        print_error(&mut out, "no such thread").unwrap();
        assert_eq!(out, b"{\"message\":\"no such thread\",\"type\":\"error\"}\n");
    }
}
