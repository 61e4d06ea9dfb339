//! Another server has ended: its threads that clients of this one had joined are opened here, and the clients learn
//! how the turn ended that ran.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{ErrorObject, Notification};
use protocol::{ThreadClosed, ThreadStatusChanged, TurnCompleted};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use services::door::OpenElsewhere;
use services::peer::{Caller, Peer};
use services::warnings;

use crate::elsewhere::joined::{Asked, Forwarded, Joined, JoinedThread, Turn};
use crate::server::Server;

/// Pauses between tries to open a thread: the connection to a server that is killed can end before the system has
/// released its locks, and in a database its lease lasts 8 s longer.
const PAUSES_MS: [u64; 12] = [2, 5, 10, 20, 50, 100, 300, 1000, 2000, 2000, 2000, 2000];

impl Joined {
    /// Forgets the connection to a server, and returns the threads that it had.
    fn lost(&self, owner: &str) -> Vec<JoinedThread> {
        let mut state = self.state();
        state.links.remove(owner);
        let lost = state.threads.extract_if(|_, thread| thread.place.owner == owner);
        lost.map(|(_, thread)| thread).collect()
    }
}

impl Server {
    /// Goes on with the threads that `joined` had at the server of `owner`. Boxed, because a thread may be elsewhere
    /// again.
    pub(super) fn take_over(
        self,
        joined: Arc<Joined>,
        owner: String,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            for thread in joined.lost(&owner) {
                if self.services.connections.contains(joined.peer.id) {
                    self.go_on(&joined.peer, thread).await;
                }
            }
        })
    }

    async fn go_on(&self, peer: &Arc<Peer>, thread: JoinedThread) {
        let id = &thread.place.thread_id;
        let mut pauses = PAUSES_MS.into_iter();
        let resumed = loop {
            let params = json!({ "threadId": id });
            let error = match self.ask_itself(peer, "thread/resume", &params).await {
                Ok(resumed) => break resumed,
                Err(error) => error,
            };
            if let Some(there) = OpenElsewhere::of(&error) {
                if there.owner != thread.place.owner && self.joins(peer, &there).await {
                    return;
                }
                if let Some(pause) = pauses.next() {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    continue;
                }
            }
            let message = format!(
                "the server that had this thread open ({}) has ended, and it cannot be opened here: {}",
                thread.place.holder, error.message
            );
            warnings::send_about_thread(peer, id, message);
            return send::<ThreadClosed>(peer, &json!({ "threadId": id }));
        };
        let message = format!(
            "the server that had this thread open ({}) has ended; this server goes on with it",
            thread.place.holder
        );
        warnings::send_to_sender(peer, id, message);
        if thread.turn != Turn::None {
            let params = json!({ "threadId": id, "includeTurns": true });
            if let Ok(read) = self.ask_itself(peer, "thread/read", &params).await
                && let Some(turn) = ended(&read, &thread.turn)
            {
                send::<TurnCompleted>(peer, &json!({ "threadId": id, "turn": turn }));
            }
        }
        let status = &resumed["thread"]["status"];
        if !status.is_null() {
            send::<ThreadStatusChanged>(peer, &json!({ "threadId": id, "status": status }));
        }
    }

    /// Joins a thread in a client's place at the server that has it now.
    async fn joins(&self, peer: &Arc<Peer>, place: &OpenElsewhere) -> bool {
        let params = to_raw_value(&json!({ "threadId": place.thread_id }));
        let method = "thread/resume";
        let request = Forwarded { id: None, method, params: params.as_deref().ok() };
        let is_joined = matches!(self.ask(peer, place, &request).await, Asked::Answered);
        if is_joined {
            let message = format!("another server ({}) goes on with this thread", place.holder);
            warnings::send_to_sender(peer, &place.thread_id, message);
        }
        is_joined
    }

    /// The result of a request in a client's place.
    async fn ask_itself(
        &self,
        peer: &Arc<Peer>,
        method: &str,
        params: &Value,
    ) -> Result<Value, ErrorObject> {
        let params =
            to_raw_value(params).map_err(|error| ErrorObject::internal(error.to_string()))?;
        let caller = Caller::new(peer.clone());
        let outcome = protocol::dispatch(self, caller.clone(), method, Some(&params)).await;
        caller.open_gates();
        let result: Bytes = outcome?;
        serde_json::from_slice(&result).map_err(|error| ErrorObject::internal(error.to_string()))
    }
}

/// The turn that ran, if it has ended.
fn ended<'r>(read: &'r Value, ran: &Turn) -> Option<&'r Value> {
    let turns = read["thread"]["turns"].as_array()?;
    let turn = match ran {
        Turn::Running(id) => turns.iter().find(|turn| turn["id"] == id.as_str())?,
        Turn::Unknown | Turn::None => turns.last()?,
    };
    (turn["status"] != "inProgress").then_some(turn)
}

fn send<N: Notification>(peer: &Peer, params: &Value) {
    if let Some(info) = protocol::lookup_notification(N::NAME)
        && let Ok(message) = jsonrpc::encode_notification(N::NAME, params)
    {
        peer.send_if_wanted(info, message);
    }
}
