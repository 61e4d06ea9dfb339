//! Passes on to a client what another server sends about the threads that it has joined there.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use jsonrpc::{Client, ErrorObject, Event, Notification as _, Reader, RequestId, encode_forwarded};
use protocol::{ServerRequestResolved, ThreadClosed, ThreadStarted, TurnCompleted, TurnStarted};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use services::direct_requests::DirectRequests;
use tokio::task::AbortHandle;

use crate::elsewhere::joined::{Joined, Turn};

/// Reads one connection to another server.
pub(super) struct Relay {
    pub(super) joined: Weak<Joined>,
    pub(super) direct_requests: Arc<DirectRequests>,
    pub(super) client: Client,
}

/// A question of the other server that the client was asked.
struct Question {
    /// The request's id here.
    id: i64,
    thread: Option<String>,
    answering: AbortHandle,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

/// The parameters of a message that are about its thread.
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
    /// Runs until the other server ends, and calls `ended` then.
    pub(super) async fn run(self, mut reader: Reader, ended: impl FnOnce()) {
        let mut questions: HashMap<RequestId, Question> = HashMap::new();
        while let Some(event) = reader.next().await {
            let Some(joined) = self.joined.upgrade() else { return };
            match event {
                Event::Notification { method, params, cursor } => {
                    self.notification(&joined, &mut questions, (&method, &params, cursor));
                }
                Event::Request { id, method, params } => {
                    match self.question(&joined, (&id, &method, &params)) {
                        Some(question) => drop(questions.insert(id, question)),
                        None => {
                            let refused = Err(ErrorObject::method_not_found(&method));
                            // A closed connection ends the loop.
                            let _ = self.client.respond_with(&id, &refused);
                        }
                    }
                }
                Event::Fault(error) => {
                    tracing::warn!(target: "server::elsewhere", "another server reports: {}", error.message);
                }
            }
        }
        if let Some(joined) = self.joined.upgrade() {
            questions.values().for_each(|question| resolve(&joined, question));
        }
        ended();
    }

    fn notification(
        &self,
        joined: &Joined,
        questions: &mut HashMap<RequestId, Question>,
        (method, params, cursor): (&str, &RawValue, Option<String>),
    ) {
        let Ok(about) = serde_json::from_str::<About>(params.get()) else { return };
        let started = about.thread.as_ref().map(|thread| &thread.id);
        let Some(thread) = about.thread_id.as_ref().or(started) else { return };
        let is_joined = joined.place(thread).is_some();
        let is_child = || {
            let parent = about.thread.as_ref().and_then(|thread| parent_of(&thread.source));
            method == ThreadStarted::NAME && parent.is_some_and(|it| joined.place(it).is_some())
        };
        // Others are no concern of this client.
        if !is_joined && !is_child() {
            return;
        }
        if method == ServerRequestResolved::NAME {
            if let Some(id) = &about.request_id
                && let Some(question) = questions.remove(id)
            {
                resolve(joined, &question);
            }
            return;
        }
        joined.peer.send(encode_forwarded(method, params, cursor.as_deref()));
        let turn = about.turn.map(|turn| turn.id);
        match method {
            TurnStarted::NAME => joined.set_turn(thread, turn.map_or(Turn::Unknown, Turn::Running)),
            TurnCompleted::NAME => joined.set_turn(thread, Turn::None),
            ThreadClosed::NAME => joined.leave(thread),
            _ => {}
        }
    }

    /// Asks the client, and passes its answer back.
    fn question(
        &self,
        joined: &Joined,
        (id, method, params): (&RequestId, &str, &RawValue),
    ) -> Option<Question> {
        let info = protocol::lookup_server_request(method)?;
        let asked = self.direct_requests.forward(info, params, &joined.peer);
        let mut asked = asked?;
        let about: Option<About> = serde_json::from_str(params.get()).ok();
        let (here, there, client) = (asked.id(), id.clone(), self.client.clone());
        let answering = tokio::spawn(async move {
            if let Some(answer) = asked.next().await {
                // A closed connection needs no answer.
                let _ = client.respond_with(&there, &answer);
            }
        });
        Some(Question {
            id: here,
            thread: about.and_then(|about| about.thread_id),
            answering: answering.abort_handle(),
        })
    }
}

impl Joined {
    fn set_turn(&self, thread: &str, turn: Turn) {
        if let Some(joined) = self.state().threads.get_mut(thread) {
            joined.turn = turn;
        }
    }
}

/// Tells the client that a question no longer needs an answer.
fn resolve(joined: &Joined, question: &Question) {
    let Some(thread) = &question.thread else { return };
    let params = json!({ "threadId": thread, "requestId": question.id });
    if let Some(info) = protocol::lookup_notification(ServerRequestResolved::NAME)
        && let Ok(message) = jsonrpc::encode_notification(ServerRequestResolved::NAME, &params)
    {
        joined.peer.send_if_wanted(info, message);
    }
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
