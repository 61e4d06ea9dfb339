//! The questions of another server that a client was asked, and the only place that knows their ids at both servers.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jsonrpc::{Client, ErrorObject, Notification as _, RequestId};
use protocol::ServerRequestResolved;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use services::direct_requests::DirectRequests;
use services::peer::Peer;
use tokio::task::AbortHandle;

/// The questions that came through one link.
pub(super) struct Questions {
    direct: Arc<DirectRequests>,
    client: Client,
    /// By their ids at the other server.
    by_id: Mutex<HashMap<RequestId, Question>>,
}

struct Question {
    /// Its id here.
    id: i64,
    /// `None`: a result has named it, and it comes later.
    asked: Option<Asked>,
}

/// The client was asked.
struct Asked {
    message: Bytes,
    thread: Option<String>,
    answering: AbortHandle,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Questions {
    pub(super) fn new(direct: Arc<DirectRequests>, client: Client) -> Self {
        Self { direct, client, by_id: Mutex::default() }
    }

    /// The connection to the other server.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Asks the client, and passes each of its answers back: the other server decides which one counts. A question that
    /// comes again is sent again. Refuses a method that is unknown here.
    pub(super) fn ask(&self, peer: &Arc<Peer>, id: RequestId, method: &str, params: &RawValue) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct About {
            thread_id: Option<String>,
        }
        let mut by_id = self.lock();
        let question = self.entry(&mut by_id, id.clone());
        if let Some(asked) = &question.asked {
            return peer.send(asked.message.clone());
        }
        let info = protocol::lookup_server_request(method);
        let asked = info.and_then(|info| self.direct.forward(question.id, info, params, peer));
        let Some(mut asked) = asked else {
            by_id.remove(&id);
            let refused = Err(ErrorObject::method_not_found(method));
            // A closed connection ends the relay.
            let _ = self.client.respond_with(&id, &refused);
            return;
        };
        let about: Option<About> = serde_json::from_str(params.get()).ok();
        let (message, client) = (asked.message().clone(), self.client.clone());
        let answering = tokio::spawn(async move {
            while let Some(answer) = asked.next().await {
                // A closed connection needs no answer.
                let _ = client.respond_with(&id, &answer);
            }
        });
        question.asked = Some(Asked {
            message,
            thread: about.and_then(|about| about.thread_id),
            answering: answering.abort_handle(),
        });
    }

    /// Forgets a question that no longer needs an answer, and returns its id here.
    pub(super) fn resolved(&self, id: &RequestId) -> Option<i64> {
        self.lock().remove(id).map(|question| question.id)
    }

    /// Tells the client that they no longer need answers.
    pub(super) fn resolve_all(&self, peer: &Peer) {
        let all = std::mem::take(&mut *self.lock());
        let Some(info) = protocol::lookup_notification(ServerRequestResolved::NAME) else { return };
        for question in all.into_values() {
            let thread = question.asked.as_ref().and_then(|asked| asked.thread.as_ref());
            let Some(thread) = thread else { continue };
            let params = json!({ "threadId": thread, "requestId": question.id });
            if let Ok(message) = jsonrpc::encode_notification(ServerRequestResolved::NAME, &params)
            {
                peer.send_if_wanted(info, message);
            }
        }
    }

    /// A result for the client, with the ids of questions here.
    pub(super) fn with_ids_here(&self, method: &str, result: &RawValue) -> Bytes {
        let named = (method == "thread/resume" && result.get().contains("\"openRequestIds\""))
            .then(|| serde_json::from_str::<Value>(result.get()).ok())
            .flatten();
        let Some(mut named) = named else {
            return Bytes::copy_from_slice(result.get().as_bytes());
        };
        let ids = named.pointer_mut("/eventReplay/openRequestIds").and_then(Value::as_array_mut);
        for id in ids.into_iter().flatten() {
            if let Some(there) = id.as_i64() {
                let there = RequestId::Integer(there);
                *id = self.entry(&mut self.lock(), there).id.into();
            }
        }
        named.to_string().into()
    }

    fn entry<'q>(
        &self,
        by_id: &'q mut HashMap<RequestId, Question>,
        id: RequestId,
    ) -> &'q mut Question {
        match by_id.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Question { id: self.direct.next_id(), asked: None }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Question>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
