//! Messages of the server: notifications by session, and its questions.

use jsonrpc::{Event, Notification, RequestId};
use protocol::connection::{
    ConfigWarningNotification, ServerRequestResolvedNotification, WarningNotification,
};
use protocol::thread_record::{SessionSource, SubAgentSource};
use protocol::{ReasoningItem, ThreadItem, TurnPlanStepStatus, UserMessageItem};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Adapter;
use crate::map::usage;
use crate::schema::Version;
use crate::schema::tool_call::{ToolCall, ToolCallContent, ToolCallStatus, ToolKind};
use crate::schema::update::{PlanEntry, SessionUpdate};
use crate::session::Notice;

/// The thread that a message is about.
#[derive(Deserialize)]
struct About<'m> {
    #[serde(borrow, rename = "threadId")]
    thread_id: Option<std::borrow::Cow<'m, str>>,
}

impl Adapter {
    pub(super) fn event(&mut self, event: Event) {
        let params = match &event {
            Event::Notification { params, .. } | Event::Request { params, .. } => params,
            Event::Fault(fault) => {
                tracing::error!(target: "acp", "the server sent an invalid message: {fault}");
                return;
            }
        };
        let about = serde_json::from_str::<About<'_>>(params.get()).ok();
        let thread = about.and_then(|about| about.thread_id).map(std::borrow::Cow::into_owned);
        let session = thread.as_deref().and_then(|thread| self.session_of(thread));
        if let Some(session) = &session
            && let Some(held) =
                self.sessions.get_mut(session).and_then(|session| session.held.as_mut())
        {
            held.events.push(event);
            return;
        }
        match event {
            Event::Request { id, method, params } => {
                self.asked(session, id, &method, &params);
            }
            Event::Notification { method, params, .. } => {
                // What agents do stays with them; their questions are passed on.
                let own = thread.filter(|thread| self.sessions.contains_key(thread));
                let read = match &own {
                    Some(session) => self.notified(session, &method, &params),
                    None => self.notified_generally(&method, &params),
                };
                if let Err(error) = read {
                    tracing::warn!(target: "acp", "`{method}` cannot be read: {error}");
                }
            }
            Event::Fault(_) => {}
        }
    }

    /// The open session that a thread is, or works for.
    fn session_of(&self, thread: &str) -> Option<String> {
        match self.sessions.contains_key(thread) {
            true => Some(thread.to_owned()),
            false => self.agents.get(thread).cloned(),
        }
    }

    fn notified(&mut self, id: &str, method: &str, params: &RawValue) -> serde_json::Result<()> {
        match method {
            protocol::ItemAgentMessageDelta::NAME => {
                let it = read::<protocol::ItemAgentMessageDelta>(params)?;
                self.text_delta(id, &it.item_id, it.delta, SessionUpdate::AgentMessageChunk);
            }
            protocol::ItemPlanDelta::NAME => {
                let it = read::<protocol::ItemPlanDelta>(params)?;
                self.text_delta(id, &it.item_id, it.delta, SessionUpdate::AgentMessageChunk);
            }
            protocol::ItemReasoningSummaryTextDelta::NAME => {
                let it = read::<protocol::ItemReasoningSummaryTextDelta>(params)?;
                self.text_delta(id, &it.item_id, it.delta, SessionUpdate::AgentThoughtChunk);
            }
            protocol::ItemReasoningSummaryPartAdded::NAME => {
                let it = read::<protocol::ItemReasoningSummaryPartAdded>(params)?;
                if it.summary_index > 0 {
                    let gap = ReasoningItem::BETWEEN_SECTIONS.to_owned();
                    self.text_delta(id, &it.item_id, gap, SessionUpdate::AgentThoughtChunk);
                }
            }
            protocol::ItemCommandExecutionOutputDelta::NAME => {
                let it = read::<protocol::ItemCommandExecutionOutputDelta>(params)?;
                self.output_delta(id, &it.item_id, &it.delta);
            }
            protocol::ItemMcpToolCallProgress::NAME => {
                let it = read::<protocol::ItemMcpToolCallProgress>(params)?;
                self.progress(id, &it.item_id, &it.message);
            }
            protocol::ItemStarted::NAME => {
                let it = read::<protocol::ItemStarted>(params)?;
                self.item_started(id, it.item);
            }
            protocol::ItemCompleted::NAME => {
                let it = read::<protocol::ItemCompleted>(params)?;
                if let ThreadItem::UserMessage(message) = &it.item
                    && self.is_shown(id, &it.turn_id, message)
                {
                    return Ok(());
                }
                self.item_completed(id, &it.item);
            }
            _ => return self.notified_of_turn(id, method, params),
        }
        Ok(())
    }

    fn notified_of_turn(
        &mut self,
        id: &str,
        method: &str,
        params: &RawValue,
    ) -> serde_json::Result<()> {
        match method {
            protocol::TurnStarted::NAME => {
                let it = read::<protocol::TurnStarted>(params)?;
                self.turn_started(id, it.turn.id);
            }
            protocol::TurnCompleted::NAME => {
                let it = read::<protocol::TurnCompleted>(params)?;
                self.turn_completed(id, &it.turn);
            }
            protocol::TurnPlanUpdated::NAME => {
                let it = read::<protocol::TurnPlanUpdated>(params)?;
                let entry = |step: protocol::TurnPlanStep| PlanEntry {
                    content: step.step,
                    // The server's plans have no priorities.
                    priority: "medium",
                    status: match step.status {
                        TurnPlanStepStatus::Pending => "pending",
                        TurnPlanStepStatus::InProgress => "in_progress",
                        TurnPlanStepStatus::Completed => "completed",
                    },
                };
                let entries = it.plan.into_iter().map(entry).collect();
                self.update(id, &SessionUpdate::Plan { entries });
            }
            protocol::TurnErrorEvent::NAME => {
                let it = read::<protocol::TurnErrorEvent>(params)?;
                if it.will_retry {
                    let title = "The request to the model failed and is repeated";
                    self.warn(id, title, Some(&it.error.message));
                }
            }
            protocol::ThreadTokenUsageUpdated::NAME => {
                let it = read::<protocol::ThreadTokenUsageUpdated>(params)?;
                if let Some(update) = usage::update(&it.token_usage) {
                    self.update(id, &update);
                }
            }
            protocol::ThreadNameUpdated::NAME => {
                let it = read::<protocol::ThreadNameUpdated>(params)?;
                self.update(id, &SessionUpdate::SessionInfoUpdate { title: it.thread_name });
            }
            protocol::ThreadClosed::NAME | protocol::ThreadDeleted::NAME => {
                // Another client has deleted it, or the server needs the memory: it can be loaded again.
                self.close(id);
            }
            protocol::ServerRequestResolved::NAME => self.resolved(read_resolved(params)?),
            protocol::Warning::NAME => {
                let WarningNotification { message, .. } = read::<protocol::Warning>(params)?;
                self.warn(id, &message, None);
            }
            protocol::GuardianWarning::NAME => {
                let it = read::<protocol::GuardianWarning>(params)?;
                self.warn(id, &it.message, None);
            }
            _ => {}
        }
        Ok(())
    }

    /// Notifications that concern no open session.
    fn notified_generally(&mut self, method: &str, params: &RawValue) -> serde_json::Result<()> {
        match method {
            protocol::ThreadStarted::NAME => {
                let thread = read::<protocol::ThreadStarted>(params)?.thread;
                if let SessionSource::SubAgent(SubAgentSource::ThreadSpawn(spawn)) = thread.source
                    && let Some(session) = self.session_of(&spawn.parent_thread_id)
                {
                    self.agents.insert(thread.id, session);
                }
            }
            protocol::ThreadClosed::NAME | protocol::ThreadDeleted::NAME => {
                self.agents.remove(&read::<protocol::ThreadClosed>(params)?.thread_id);
            }
            protocol::ServerRequestResolved::NAME => self.resolved(read_resolved(params)?),
            protocol::AccountLoginCompleted::NAME => {
                self.login_completed(&read::<protocol::AccountLoginCompleted>(params)?);
            }
            protocol::McpServerStartupStatusUpdated::NAME => {
                let it = read::<protocol::McpServerStartupStatusUpdated>(params)?;
                if let Some(error) = it.error {
                    self.warn_all(&format!("The MCP server {} did not start: {error}", it.name));
                }
            }
            protocol::ConfigWarning::NAME => {
                let it = read::<protocol::ConfigWarning>(params)?;
                let ConfigWarningNotification { summary, details, path, .. } = it;
                let place = path.map(|path| format!(" ({path})")).unwrap_or_default();
                let details = details.map(|text| format!(": {text}")).unwrap_or_default();
                self.warn_all(&format!("{summary}{place}{details}"));
            }
            protocol::Warning::NAME => {
                let it = read::<protocol::Warning>(params)?;
                self.warn_all(&it.message);
            }
            protocol::SkillsChanged::NAME => self.list_skills(),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether the client has shown the message already: in version 1 that of its own
    /// prompt, in version 2 that of a command.
    fn is_shown(&mut self, id: &str, turn: &str, message: &UserMessageItem) -> bool {
        let running = self.sessions.get(id).and_then(|session| session.turn.as_ref());
        let Some(running) = running.filter(|running| running.id.as_deref() == Some(turn)) else {
            return false;
        };
        match self.version {
            Version::First => running.prompt.is_some(),
            Version::Second if running.is_command => true,
            Version::Second => {
                self.inserted(id, message);
                false
            }
        }
    }

    /// A warning that the server does not relate to a thread: every session has it, since which of them it
    /// concerns is not known.
    fn warn_all(&mut self, message: &str) {
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        tracing::warn!(target: "acp", "{message}");
        for session in sessions {
            self.warn(&session, message, None);
        }
    }

    /// Warns the user of a session. One that is being opened shows it when that is done.
    pub(super) fn warn(&mut self, id: &str, title: &str, description: Option<&str>) {
        let title = visible::text(title).into_owned();
        let description = description.map(|text| visible::text(text).into_owned());
        let notice = Notice { title, description };
        match self.sessions.get_mut(id).and_then(|session| session.held.as_mut()) {
            Some(held) => held.notices.push(notice),
            None => self.notice(id, notice),
        }
    }

    /// Shows a warning: as a notice, or for clients that know none as a call that is over. It is no word of
    /// the agent.
    pub(super) fn notice(&mut self, id: &str, notice: Notice) {
        let Notice { title, description } = notice;
        if self.capabilities().session.notices.is_some() {
            let severity = "warning";
            return self.update(id, &SessionUpdate::Notice { severity, title, description });
        }
        self.said += 1;
        let call = ToolCall {
            tool_call_id: format!("warning-{}", self.said),
            title: Some(format!("Warning: {title}")),
            kind: Some(ToolKind::Other),
            status: Some(ToolCallStatus::Completed),
            content: description.map(|text| vec![ToolCallContent::text(text)]),
            ..ToolCall::default()
        };
        self.update(id, &SessionUpdate::ToolCall(call));
    }
}

fn read<N: Notification>(params: &RawValue) -> serde_json::Result<N::Params>
where
    N::Params: serde::de::DeserializeOwned,
{
    serde_json::from_str(params.get())
}

fn read_resolved(params: &RawValue) -> serde_json::Result<RequestId> {
    let ServerRequestResolvedNotification { request_id, .. } = serde_json::from_str(params.get())?;
    Ok(request_id)
}
