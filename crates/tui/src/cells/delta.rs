//! Additions to a running item.

use jsonrpc::Notification;
use protocol::{
    AgentMessageDeltaNotification, CommandExecutionOutputDeltaNotification,
    CommandExecutionRunningNotification, FileChangePatchUpdatedNotification,
    McpToolCallProgressNotification, PlanDeltaNotification, ReasoningSummaryPartAddedNotification,
    ReasoningSummaryTextDeltaNotification, TerminalInteractionNotification, ThreadItem,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// One addition.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is the payload of the notification of that name")]
pub enum Delta {
    Message(AgentMessageDeltaNotification),
    Plan(PlanDeltaNotification),
    Reasoning(ReasoningSummaryTextDeltaNotification),
    ReasoningPart(ReasoningSummaryPartAddedNotification),
    Output(CommandExecutionOutputDeltaNotification),
    Typed(TerminalInteractionNotification),
    Patch(FileChangePatchUpdatedNotification),
    Progress(McpToolCallProgressNotification),
    Runs(CommandExecutionRunningNotification),
}

impl Delta {
    /// Reads the parameters of a notification; `None` for methods that add nothing to an item.
    ///
    /// # Errors
    /// The parameters do not have the shape of their method.
    pub fn read(method: &str, params: &RawValue) -> serde_json::Result<Option<Self>> {
        Ok(Some(match method {
            protocol::ItemAgentMessageDelta::NAME => Self::Message(decode(params)?),
            protocol::ItemPlanDelta::NAME => Self::Plan(decode(params)?),
            protocol::ItemReasoningSummaryTextDelta::NAME => Self::Reasoning(decode(params)?),
            protocol::ItemReasoningSummaryPartAdded::NAME => Self::ReasoningPart(decode(params)?),
            protocol::ItemCommandExecutionOutputDelta::NAME => Self::Output(decode(params)?),
            protocol::ItemCommandExecutionTerminalInteraction::NAME => Self::Typed(decode(params)?),
            protocol::ItemFileChangePatchUpdated::NAME => Self::Patch(decode(params)?),
            protocol::ItemMcpToolCallProgress::NAME => Self::Progress(decode(params)?),
            protocol::ItemCommandExecutionRunning::NAME => Self::Runs(decode(params)?),
            _ => return Ok(None),
        }))
    }

    /// Adds it to the item, as far as the item has a place for it.
    pub fn add_to(&self, item: &mut ThreadItem) {
        match (self, item) {
            (Self::Message(it), ThreadItem::AgentMessage(item)) => item.text.push_str(&it.delta),
            (Self::Plan(it), ThreadItem::Plan(item)) => item.text.push_str(&it.delta),
            (Self::Reasoning(it), ThreadItem::Reasoning(item)) => match item.summary.last_mut() {
                Some(last) => last.push_str(&it.delta),
                None => item.summary.push(it.delta.clone()),
            },
            (Self::ReasoningPart(_), ThreadItem::Reasoning(item))
                if item.summary.last().is_some_and(|last| !last.is_empty()) =>
            {
                item.summary.push(String::new());
            }
            (Self::Output(it), ThreadItem::CommandExecution(item)) => {
                item.aggregated_output.get_or_insert_default().push_str(&it.delta);
            }
            (Self::Runs(_), ThreadItem::CommandExecution(item)) => item.awaits_approval = false,
            (Self::Patch(it), ThreadItem::FileChange(item)) => item.changes.clone_from(&it.changes),
            _ => {}
        }
    }

    /// The thread of the item.
    #[must_use]
    pub fn thread_id(&self) -> &str {
        match self {
            Self::Message(it) => &it.thread_id,
            Self::Plan(it) => &it.thread_id,
            Self::Reasoning(it) => &it.thread_id,
            Self::ReasoningPart(it) => &it.thread_id,
            Self::Output(it) => &it.thread_id,
            Self::Typed(it) => &it.thread_id,
            Self::Patch(it) => &it.thread_id,
            Self::Progress(it) => &it.thread_id,
            Self::Runs(it) => &it.thread_id,
        }
    }

    /// The item.
    #[must_use]
    pub fn item_id(&self) -> &str {
        match self {
            Self::Message(it) => &it.item_id,
            Self::Plan(it) => &it.item_id,
            Self::Reasoning(it) => &it.item_id,
            Self::ReasoningPart(it) => &it.item_id,
            Self::Output(it) => &it.item_id,
            Self::Typed(it) => &it.item_id,
            Self::Patch(it) => &it.item_id,
            Self::Progress(it) => &it.item_id,
            Self::Runs(it) => &it.item_id,
        }
    }
}

fn decode<T: DeserializeOwned>(params: &RawValue) -> serde_json::Result<T> {
    serde_json::from_str(params.get())
}
