//! Passes on to a client what another server sends: about the threads that it has joined there, and what its server
//! would send it about any thread, or about none.

use std::sync::{Arc, Weak};

use jsonrpc::{Event, Notification as _, Reader, RequestId, encode_forwarded};
use protocol::{
    AccountRateLimitsUpdated, AppListUpdated, McpServerOauthLoginCompleted,
    McpServerStartupStatusUpdated, ServerRequestResolved, ThreadArchived, ThreadClosed,
    ThreadDeleted, ThreadMetadataUpdated, ThreadNameUpdated, ThreadStarted, ThreadStatusChanged,
    ThreadUnarchived, TurnCompleted, TurnStarted,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use services::peer::Peer;

use crate::elsewhere::joined::{Joined, Turn};
use crate::elsewhere::questions::Questions;

/// Sent to every client of a server, whether it subscribes to the thread or not.
const ABOUT_ANY_THREAD: [&str; 5] = [
    ThreadArchived::NAME,
    ThreadDeleted::NAME,
    ThreadMetadataUpdated::NAME,
    ThreadNameUpdated::NAME,
    ThreadUnarchived::NAME,
];

/// About no thread, or not only about one; they follow from the work of threads. What changes with files of the home,
/// each server notices by itself.
const ABOUT_NO_THREAD: [&str; 4] = [
    AccountRateLimitsUpdated::NAME,
    AppListUpdated::NAME,
    McpServerOauthLoginCompleted::NAME,
    McpServerStartupStatusUpdated::NAME,
];

/// Reads one connection to another server.
pub(super) struct Relay {
    pub(super) joined: Weak<Joined>,
    pub(super) questions: Arc<Questions>,
}

/// A notification of the other server.
struct Received<'e> {
    method: &'e str,
    params: &'e RawValue,
    cursor: Option<String>,
}

/// The parameters of a notification that are about its thread.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    thread_id: Option<String>,
    thread: Option<Started>,
    turn: Option<TurnId>,
    request_id: Option<RequestId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Started {
    id: String,
    #[serde(default)]
    source: serde_json::Value,
}

#[derive(Deserialize)]
struct TurnId {
    id: String,
}

impl Relay {
    /// Runs until the connection ends, or brings something that cannot be read: that may have been the response that a
    /// request waits for.
    pub(super) async fn run(self, mut reader: Reader) {
        while let Some(event) = reader.next().await {
            let Some(joined) = self.joined.upgrade() else { return };
            match event {
                Event::Notification { method, params, cursor } => {
                    let received = Received { method: &method, params: &params, cursor };
                    self.notification(&joined, received);
                }
                Event::Request { id, method, params } => {
                    self.questions.ask(&joined.peer, id, &method, &params);
                }
                Event::Fault(error) => {
                    tracing::warn!(
                        target: "server::elsewhere",
                        "a connection to another server is closed, because a message on it cannot be read: {}",
                        error.message
                    );
                    break;
                }
            }
            self.pace(&joined.peer).await;
        }
        if let Some(joined) = self.joined.upgrade() {
            self.questions.resolve_all(&joined.peer);
        }
    }

    /// The other server waits for a slow client as if it were its own.
    async fn pace(&self, peer: &Peer) {
        if peer.outbox.is_full() {
            tokio::select! {
                () = peer.outbox.room() => {}
                _ = self.questions.client().outbox().closed() => {}
            }
        }
    }

    fn notification(&self, joined: &Joined, received: Received<'_>) {
        let method = received.method;
        let Ok(about) = serde_json::from_str::<About>(received.params.get()) else { return };
        if method == ServerRequestResolved::NAME {
            return self.resolved(joined, &about, received.cursor);
        }
        let started = about.thread.as_ref().map(|thread| &thread.id);
        let Some(thread) = about.thread_id.as_ref().or(started) else {
            if ABOUT_NO_THREAD.contains(&method) {
                pass(&joined.peer, &received);
            }
            return;
        };
        let is_joined = joined.is_joined(thread);
        let is_child = || {
            let parent = about.thread.as_ref().and_then(|thread| parent_of(&thread.source));
            method == ThreadStarted::NAME && parent.is_some_and(|parent| joined.is_joined(parent))
        };
        let is_for_all = || ABOUT_ANY_THREAD.contains(&method) || ABOUT_NO_THREAD.contains(&method);
        // Others are no concern of this client.
        if !is_joined && !is_for_all() && !is_child() {
            return;
        }
        pass(&joined.peer, &received);
        if let Some(cursor) = received.cursor {
            joined.set_cursor(thread, cursor);
        }
        let turn = about.turn.map(|turn| turn.id);
        match method {
            TurnStarted::NAME => joined.set_turn(thread, turn.map_or(Turn::Unknown, Turn::Running)),
            TurnCompleted::NAME => joined.set_turn(thread, Turn::None),
            ThreadStatusChanged::NAME if is_unloaded(received.params) => {
                joined.set_unloaded(thread);
            }
            ThreadArchived::NAME | ThreadClosed::NAME | ThreadDeleted::NAME => joined.leave(thread),
            _ => {}
        }
    }

    /// A question, of whichever thread, no longer needs an answer: agents ask the clients of those who started them.
    fn resolved(&self, joined: &Joined, about: &About, cursor: Option<String>) {
        let (Some(thread), Some(id)) = (&about.thread_id, &about.request_id) else { return };
        // Replayed to a client that was not asked.
        let Some(id) = self.questions.resolved(id) else { return };
        let params = json!({ "threadId": thread, "requestId": id });
        if let Ok(params) = serde_json::value::to_raw_value(&params) {
            let method = ServerRequestResolved::NAME;
            let received = Received { method, params: &params, cursor };
            pass(&joined.peer, &received);
            if let Some(cursor) = received.cursor {
                joined.set_cursor(thread, cursor);
            }
        }
    }
}

/// Sends a notification of another server to a client, unless it opted out of it.
fn pass(peer: &Peer, received: &Received<'_>) {
    let info = protocol::lookup_notification(received.method);
    // The other server may be newer, and knows what the client asked for.
    if info.is_none_or(|info| peer.wants(info)) {
        let Received { method, params, cursor } = received;
        peer.send(encode_forwarded(method, params, cursor.as_deref()));
    }
}

/// Returns whether the parameters of `thread/status/changed` say that the thread is no longer loaded.
fn is_unloaded(params: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Changed {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str(params.get())
        .is_ok_and(|changed: Changed| changed.status.kind == "notLoaded")
}

/// The thread that has started an agent's thread.
fn parent_of(source: &serde_json::Value) -> Option<&str> {
    match source {
        serde_json::Value::Object(members) => members.iter().find_map(|(name, value)| {
            if name == "parentThreadId" { value.as_str() } else { parent_of(value) }
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jsonrpc::{Client, CloseReason, Connection, Limits};
    use protocol::{ClientInfo, InitializeCapabilities};
    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn events_wait_for_a_client_that_does_not_read() {
        let limits = Limits { outgoing_bytes: 1 << 10, stall: None, ..Limits::default() };
        let (outbox, _unread) = jsonrpc::outbox(&limits);
        let peer = Arc::new(Peer::new(1, outbox.clone(), None, None));
        let info = ClientInfo { name: "test".to_owned(), title: None, version: "1".to_owned() };
        peer.negotiate(String::new(), info, InitializeCapabilities::default());
        let joined = Arc::new(Joined::new(peer));
        let (connection, other) = Connection::pair(Limits::default());
        let (client, reader) = Client::over(connection);
        let questions = Arc::new(Questions::new(Arc::default(), client));
        let relay = Relay { joined: Arc::downgrade(&joined), questions };
        let name = "x".repeat(100);
        let params = json!({ "threadId": "t", "threadName": name });
        let note = jsonrpc::encode_notification(ThreadNameUpdated::NAME, &params).unwrap();
        for _ in 0..100 {
            other.outbox.push(note.clone()).unwrap();
        }
        let relaying = tokio::spawn(relay.run(reader));
        while !outbox.is_full() {
            yield_now().await;
        }
        // All of them would come meanwhile.
        for _ in 0..10_000 {
            yield_now().await;
        }
        assert!(outbox.queued_bytes() < 2 << 10, "{}", outbox.queued_bytes());
        outbox.close(CloseReason::Finished);
        drop(other);
        relaying.await.unwrap();
    }
}
