//! The connection through which a client had joined a thread at another server has ended. If that server has, the
//! thread is opened here, and the client learns how the turn ended that ran. If the server lives, or another one was
//! faster, the thread is joined there.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{ErrorObject, Notification};
use protocol::{Load, ThreadClosed, ThreadStatusChanged, TurnCompleted};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use services::door::OpenElsewhere;
use services::peer::{Caller, Peer};
use services::warnings;

use crate::elsewhere::joined::{Joined, JoinedThread, Lost, Turn};
use crate::elsewhere::{Asked, Forwarded, silent};
use crate::server::Server;

/// Pauses between tries to open a thread: the connection to a server that is killed can end before the system has
/// released its locks, and in a database its lease lasts 8 s longer.
const PAUSES_MS: [u64; 12] = [2, 5, 10, 20, 50, 100, 300, 1000, 2000, 2000, 2000, 2000];

/// Who has the thread now.
enum Now {
    Here,
    /// The server at a place, where the client has joined it.
    At(OpenElsewhere),
}

impl Server {
    /// Goes on with a thread whose link has ended. Requests of the client about it wait meanwhile. Boxed, because the
    /// new link may end as well.
    pub(super) fn go_on(self, lost: Lost) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let peer = lost.joined.peer.clone();
            self.find_again(&lost.joined, &lost.thread).await;
            // A client that left meanwhile must not stay subscribed.
            if !self.services.connections.contains(peer.id) {
                self.detach(peer.id).await;
            }
        })
    }

    async fn find_again(&self, joined: &Joined, thread: &JoinedThread) {
        let (peer, id) = (&joined.peer, &thread.place.thread_id);
        let mut pauses = PAUSES_MS.into_iter();
        let error = loop {
            if !self.services.connections.contains(peer.id) {
                return;
            }
            let params = json!({ "threadId": id });
            let error = match self.ask_itself(peer, "thread/resume", &params).await {
                Ok(resumed) => return self.went_on(joined, thread, Now::Here, &resumed).await,
                Err(error) => error,
            };
            let Some(there) = OpenElsewhere::of(&error) else { break error };
            match self.join_again(peer, thread, &there).await {
                Asked::Answered(resumed) => {
                    joined.keep_cursor(thread);
                    let resumed = serde_json::from_str(resumed.get()).unwrap_or_default();
                    return self.went_on(joined, thread, Now::At(there), &resumed).await;
                }
                Asked::Gone => return,
                Asked::Silent | Asked::Hung => break silent(&there).into(),
                // Killed a moment ago, or about to give the thread away.
                Asked::Refused(_) | Asked::NoDoor | Asked::Cut | Asked::Lost => {}
            }
            let Some(pause) = pauses.next() else { break error };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        };
        let message = format!(
            "the connection to the server that had this thread open ({}) has ended, and the thread cannot be opened \
             here: {}",
            thread.place.holder, error.message
        );
        warnings::send_about_thread(peer, id, message);
        send::<ThreadClosed>(peer, &json!({ "threadId": id }));
    }

    /// Joins a thread in a client's place at the server that has it now. At the same server as before, what was missed
    /// is sent if the client has positions.
    async fn join_again(
        &self,
        peer: &Arc<Peer>,
        thread: &JoinedThread,
        place: &OpenElsewhere,
    ) -> Asked {
        let mut params = json!({ "threadId": place.thread_id });
        if let Some(cursor) = &thread.cursor
            && place.owner == thread.place.owner
            && peer.wants_cursors()
        {
            params["eventCursor"] = json!(cursor);
        }
        let params = to_raw_value(&params);
        let request = Forwarded {
            id: None,
            method: "thread/resume",
            params: params.as_deref().ok(),
            load: Load::Light,
        };
        self.ask(peer, place, &request).await
    }

    /// Tells the client what it did not hear.
    async fn went_on(&self, joined: &Joined, thread: &JoinedThread, now: Now, resumed: &Value) {
        let (peer, id) = (&joined.peer, &thread.place.thread_id);
        if resumed["eventReplay"]["type"] == "replayed" {
            return;
        }
        let message = match &now {
            Now::Here => format!(
                "the server that had this thread open ({}) has ended; this server goes on with it",
                thread.place.holder
            ),
            Now::At(there) if there.owner == thread.place.owner => format!(
                "the connection to the server that has this thread open ({}) was made again; read the thread for \
                 what was missed",
                there.holder
            ),
            Now::At(there) => {
                format!("another server ({}) goes on with this thread", there.holder)
            }
        };
        warnings::send_to_sender(peer, id, message);
        let status = &resumed["thread"]["status"];
        // The turn that runs elsewhere is ended by its server, which sends that.
        let runs_elsewhere = matches!(now, Now::At(_)) && status["type"] == "active";
        if thread.turn != Turn::None && !runs_elsewhere {
            let params = json!({ "threadId": id, "includeTurns": true });
            if let Ok(read) = self.ask_itself(peer, "thread/read", &params).await
                && let Some(turn) = ended(&read, &thread.turn)
            {
                send::<TurnCompleted>(peer, &json!({ "threadId": id, "turn": turn }));
            }
        }
        // One that has begun meanwhile has sent its own.
        let is_newer = joined.turn(id).is_some_and(|turn| matches!(turn, Turn::Running(_)));
        if !status.is_null() && !is_newer {
            send::<ThreadStatusChanged>(peer, &json!({ "threadId": id, "status": status }));
        }
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
        let load = protocol::lookup(method).map_or(Load::Light, |info| info.load);
        let request = Forwarded { id: None, method, params: Some(&params), load };
        let outcome = self.carry_out_here(&caller, &request).await;
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
