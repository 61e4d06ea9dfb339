//! The end of a turn, and its tool result.

use protocol::{AgentMessageItem, MessagePhase, Turn, TurnStatus};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

use crate::tools::AGENT_REPLY;

/// The end of a call.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) thread_id: Option<String>,
    pub(crate) status: Status,
    pub(crate) message: FinalMessage,
    /// Why the turn failed.
    pub(crate) error: Option<String>,
    /// The declined requests, each with the reason.
    pub(crate) declined: Vec<String>,
    /// The server's warnings from opening the thread, such as unknown keys of `config`.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Status {
    Completed,
    Failed,
    #[default]
    Interrupted,
}

/// The message that a turn ends with: the last final answer, else the last message.
#[derive(Debug, Default)]
pub(crate) struct FinalMessage {
    last: Option<String>,
    last_final: Option<String>,
}

impl FinalMessage {
    pub(crate) fn note(&mut self, message: AgentMessageItem) {
        match message.phase {
            Some(MessagePhase::FinalAnswer) => self.last_final = Some(message.text),
            _ => self.last = Some(message.text),
        }
    }

    fn text(&self) -> &str {
        self.last_final.as_deref().or(self.last.as_deref()).unwrap_or_default()
    }
}

impl Outcome {
    /// A call that failed before its turn.
    pub(crate) fn failed(error: String) -> Self {
        Self { status: Status::Failed, error: Some(error), ..Self::default() }
    }

    /// Takes over how the turn ended.
    pub(crate) fn end(&mut self, turn: Turn) {
        self.status = match turn.status {
            TurnStatus::Completed => Status::Completed,
            TurnStatus::Interrupted => Status::Interrupted,
            TurnStatus::Failed | TurnStatus::InProgress => Status::Failed,
        };
        self.error = turn.error.map(|error| match error.additional_details {
            Some(details) => format!("{} ({details})", error.message),
            None => error.message,
        });
    }

    /// The tool result: the final message, or why there is none; then what the caller must know besides.
    pub(crate) fn into_result(self) -> CallToolResult {
        let message = self.message.text();
        let (status, text) = match self.status {
            Status::Completed if message.is_empty() => {
                ("completed", "The turn ended without a message.".to_owned())
            }
            Status::Completed => ("completed", message.to_owned()),
            // The reason alone: there was no turn.
            Status::Failed if self.thread_id.is_none() => {
                ("failed", self.error.clone().unwrap_or_default())
            }
            Status::Failed => {
                let why = self.error.as_deref().unwrap_or("no reason is known");
                ("failed", format!("The turn failed: {why}"))
            }
            Status::Interrupted => ("interrupted", "The turn was interrupted.".to_owned()),
        };
        let mut content = vec![ContentBlock::text(text)];
        let lists = [
            ("Not everything that the agent asked for was granted", &self.declined),
            ("Warnings", &self.warnings),
        ];
        for (title, list) in lists {
            if !list.is_empty() {
                let lines: Vec<String> = list.iter().map(|line| format!("- {line}")).collect();
                content.push(ContentBlock::text(format!("{title}:\n{}", lines.join("\n"))));
            }
        }
        let mut structured = json!({ "status": status, "content": message });
        if let Some(thread_id) = &self.thread_id {
            structured["threadId"] = json!(thread_id);
            content.push(ContentBlock::text(format!(
                "Thread {thread_id}: call `{AGENT_REPLY}` with this id as `threadId` to continue it."
            )));
        }
        if let Some(error) = &self.error {
            structured["error"] = json!(error);
        }
        if !self.declined.is_empty() {
            structured["declined"] = json!(self.declined);
        }
        if !self.warnings.is_empty() {
            structured["warnings"] = json!(self.warnings);
        }
        let mut result = match self.status {
            Status::Completed => CallToolResult::success(content),
            Status::Failed | Status::Interrupted => CallToolResult::error(content),
        };
        result.structured_content = Some(structured);
        result
    }
}
