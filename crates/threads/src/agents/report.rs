//! The report of an agent: the end of its last turn, with its final message. Read from the store
//! when the agent is not loaded.

use protocol::ThreadItem;
use serde_json::{Value, json};
use session::{AgentState, TurnStatus, TurnView};
use store::{Store, TurnRow, TurnsQuery};

use services::error::Error;

/// Bytes of a final message that are kept in memory and shown with a call. All of it is in the
/// agent's thread.
const MAX_MESSAGE: usize = 256 * 1024;

/// Turns that can end together: as many inputs as can join a turn, and the turn itself.
const MAX_JOINED: u32 = 1_001;

/// Returns the state of an agent after a turn.
pub(super) fn of_turn(view: &TurnView, message: Option<String>) -> AgentState {
    match view.status {
        TurnStatus::Completed => AgentState::Completed(message.map(cut)),
        TurnStatus::Failed => {
            let error = view.error.as_ref().map(|error| error.message.clone());
            AgentState::Errored(error.unwrap_or_else(|| "the turn failed".to_owned()))
        }
        TurnStatus::Interrupted | TurnStatus::InProgress => AgentState::Interrupted,
    }
}

/// Returns the state of a stored agent after its last turn; `None` without a turn.
pub(super) async fn of_stored(store: &Store, thread: &str) -> Result<Option<AgentState>, Error> {
    let Some(turn) = store.last_turn(thread).await? else { return Ok(None) };
    Ok(Some(match turn.status {
        store::TurnStatus::Completed => {
            AgentState::Completed(final_message(store, thread, &turn).await?)
        }
        store::TurnStatus::Failed => {
            let read = |json: &str| serde_json::from_str::<Value>(json).ok();
            let error = turn.error.as_deref().and_then(read);
            let message = error.as_ref().and_then(|error| error["message"].as_str());
            AgentState::Errored(message.unwrap_or("the turn failed").to_owned())
        }
        store::TurnStatus::Interrupted => AgentState::Interrupted,
        store::TurnStatus::InProgress => AgentState::Running,
    }))
}

/// The last message of a turn and of those that ended with it: a turn that joins another has no
/// message of its own.
async fn final_message(
    store: &Store,
    thread: &str,
    last: &TurnRow,
) -> Result<Option<String>, Error> {
    let newest = TurnsQuery { limit: MAX_JOINED, ..TurnsQuery::default() };
    let turns = store.turns(thread, newest).await?.rows;
    for turn in turns.iter().take_while(|turn| turn.completed_at_ms == last.completed_at_ms) {
        let items = store.items(thread, &turn.id).await?;
        let message = items.iter().rev().find(|item| item.kind == "agentMessage");
        let read = message.and_then(|item| serde_json::from_str(&item.payload).ok());
        if let Some(ThreadItem::AgentMessage(message)) = read {
            return Ok(Some(cut(message.text)));
        }
    }
    Ok(None)
}

/// A state as the model reads it.
pub(super) fn for_model(state: &AgentState) -> Value {
    match state {
        AgentState::PendingInit => json!("pending_init"),
        AgentState::Running => json!("running"),
        AgentState::Interrupted => json!("interrupted"),
        AgentState::Completed(message) => json!({ "completed": message }),
        AgentState::Errored(message) => json!({ "errored": message }),
        AgentState::Shutdown => json!("shutdown"),
        AgentState::NotFound => json!("not_found"),
    }
}

fn cut(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        let whole = message.len();
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push_str(&format!(
            "\n[the first {MAX_MESSAGE} of {whole} bytes; the agent's thread has all of it]"
        ));
    }
    message
}
