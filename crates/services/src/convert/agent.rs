//! Calls between agents: from the session to the wire.

use std::collections::BTreeMap;

use protocol::item as wire;
use protocol::thread_record::SubAgentSource;
use protocol::{ReasoningEffort, SessionSource};
use session::{AgentCall, AgentState, AgentTool, Id, ItemStatus};

/// The item of a call between agents.
pub fn item(call: &AgentCall) -> wire::CollabToolCallItem {
    let only = |ids: &[Id]| match ids {
        [one] => Some(one.to_string()),
        _ => None,
    };
    let effort = call.effort.as_deref().map(serde_json::Value::from);
    let receivers: Vec<String> = call.receivers.iter().map(ToString::to_string).collect();
    let states: BTreeMap<String, wire::CollabAgentState> =
        call.states.iter().map(|(id, state)| (id.to_string(), agent_state(state))).collect();
    wire::CollabToolCallItem {
        id: call.id.to_string(),
        tool: tool(call.tool),
        status: match call.status {
            ItemStatus::InProgress => wire::CollabToolCallStatus::InProgress,
            ItemStatus::Completed => wire::CollabToolCallStatus::Completed,
            ItemStatus::Failed | ItemStatus::Declined => wire::CollabToolCallStatus::Failed,
        },
        sender_thread_id: call.sender.to_string(),
        receiver_thread_id: only(&call.receivers).filter(|_| call.spawned.is_none()),
        receiver_thread_ids: receivers,
        new_thread_id: call.spawned.as_ref().map(ToString::to_string),
        prompt: call.prompt.clone(),
        agent_status: match call.states.as_slice() {
            [(_, state)] => Some(agent_status(state)),
            _ => None,
        },
        agents_states: states,
        model: call.model.clone(),
        reasoning_effort: effort
            .and_then(|effort| serde_json::from_value::<ReasoningEffort>(effort).ok()),
        reason: call.reason.clone(),
    }
}

fn tool(tool: AgentTool) -> wire::CollabAgentTool {
    match tool {
        AgentTool::Spawn => wire::CollabAgentTool::SpawnAgent,
        AgentTool::Send => wire::CollabAgentTool::SendInput,
        AgentTool::Resume => wire::CollabAgentTool::ResumeAgent,
        AgentTool::Wait => wire::CollabAgentTool::Wait,
        AgentTool::Close => wire::CollabAgentTool::CloseAgent,
    }
}

fn agent_state(state: &AgentState) -> wire::CollabAgentState {
    let message = match state {
        AgentState::Completed(message) => message.clone(),
        AgentState::Errored(message) => Some(message.clone()),
        _ => None,
    };
    wire::CollabAgentState { status: agent_status(state), message }
}

fn agent_status(state: &AgentState) -> wire::CollabAgentStatus {
    match state {
        AgentState::PendingInit => wire::CollabAgentStatus::PendingInit,
        AgentState::Running => wire::CollabAgentStatus::Running,
        AgentState::Interrupted => wire::CollabAgentStatus::Interrupted,
        AgentState::Completed(_) => wire::CollabAgentStatus::Completed,
        AgentState::Errored(_) => wire::CollabAgentStatus::Errored,
        AgentState::Shutdown => wire::CollabAgentStatus::Shutdown,
        AgentState::NotFound => wire::CollabAgentStatus::NotFound,
    }
}

/// Kind of the source of an agent's thread, as it is stored.
pub const SPAWNED_SOURCE: &str = "subAgentThreadSpawn";

/// Nickname and role of an agent's thread.
pub fn names(source: &SessionSource) -> (Option<String>, Option<String>) {
    match source {
        SessionSource::SubAgent(SubAgentSource::ThreadSpawn(spawned)) => {
            (spawned.agent_nickname.clone(), spawned.agent_role.clone())
        }
        _ => (None, None),
    }
}
