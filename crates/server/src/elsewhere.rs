//! Threads of this home that another server has open: requests of this server's clients about them go there, and what
//! that server sends about them comes back (docs/threads.md, "Several servers on one home"). A request is forwarded
//! once at most: the server that has the thread carries it out or refuses it.
//!
//! ```text
//! client ─▶ serve.rs ─▶ handler ─▶ "is open elsewhere" ─▶ Joined ─▶ Link ─▶ door of the other server
//! client ◀────────────────────────────────────────── relay.rs ◀─ Link ◀─ its events, questions, answers
//! ```
//!
//! Each client has a connection of its own to each other server, with the capabilities that it asked for. When the
//! other server ends, this one opens the thread and goes on ([`take_over`]).

pub(crate) mod joined;
mod link;
mod relay;
mod take_over;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{CallError, ErrorObject};
use serde_json::value::RawValue;
use services::door::{Door, OpenElsewhere};
use services::error::Error;
use services::peer::{Caller, Peer};
use services::thread_order::thread_of;

use crate::server::{Server, Services};
use joined::{Asked, Forwarded};

/// Most servers that are tried for one request: a thread can change hands meanwhile.
const ATTEMPTS: usize = 3;

/// Pause before a server without a door is looked for again.
const NO_DOOR_PAUSE: Duration = Duration::from_millis(20);

/// Pause after an error of the door.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Server {
    /// Carries out a request, here or where its thread is open. `None`: its response is queued already.
    pub(crate) async fn carry_out(
        &self,
        caller: &Caller,
        request: Forwarded<'_>,
    ) -> Option<Result<Bytes, ErrorObject>> {
        let peer = &caller.peer;
        let thread = thread_of(request.params);
        let joined = |thread: &String| self.services.elsewhere.place(peer.id, thread);
        let mut place = thread.as_ref().and_then(joined);
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let there = match place.take() {
                Some(there) => there,
                None => {
                    let outcome =
                        protocol::dispatch(self, caller.clone(), request.method, request.params);
                    let error = match outcome.await {
                        Err(error) if !peer.is_server => error,
                        outcome => return Some(outcome),
                    };
                    let Some(there) = OpenElsewhere::of(&error) else { return Some(Err(error)) };
                    refused = Some(error);
                    there
                }
            };
            match self.ask(peer, &there, &request).await {
                Asked::Answered => return None,
                Asked::Refused(error) if OpenElsewhere::of(&error).is_none() => {
                    return Some(Err(error));
                }
                Asked::Lost => return Some(Err(lost(&there).into())),
                Asked::Silent => {
                    self.services.elsewhere.of(peer).leave(&there.thread_id);
                    return Some(Err(refused.unwrap_or_else(|| silent(&there).into())));
                }
                // It has another server now, or none.
                Asked::Refused(_) => self.services.elsewhere.of(peer).leave(&there.thread_id),
                Asked::NoDoor => {
                    self.services.elsewhere.of(peer).leave(&there.thread_id);
                    // The locks of one that was just killed are released after its socket.
                    tokio::time::sleep(NO_DOOR_PAUSE).await;
                }
            }
        }
        refused.map(Err)
    }

    async fn ask(&self, peer: &Arc<Peer>, place: &OpenElsewhere, request: &Forwarded<'_>) -> Asked {
        let joined = self.services.elsewhere.of(peer);
        let link = match self.link(&joined, place).await {
            Ok(link) => link,
            Err(error) => {
                tracing::info!(
                    target: "server::elsewhere",
                    "the server that has thread {} open ({}) cannot be asked: {error}",
                    place.thread_id, place.holder
                );
                return match error.kind() {
                    io::ErrorKind::TimedOut => Asked::Silent,
                    _ => Asked::NoDoor,
                };
            }
        };
        let (peer, place) = (peer.clone(), place.clone());
        let (id, method) = (request.id.cloned(), request.method.to_owned());
        let taken = Box::new(move |result: &RawValue| {
            joined.note(&method, &place, result);
            if let Some(id) = &id {
                let result = Bytes::copy_from_slice(result.get().as_bytes());
                peer.respond(id, &method, Ok(result));
            }
        });
        let params = request.params.unwrap_or(RawValue::NULL);
        match link.client.request_taken(request.method, &params, Some(taken)).await {
            Ok(_) => Asked::Answered,
            Err(CallError::Rpc(error)) => Asked::Refused(error),
            Err(CallError::Closed | CallError::Decode { .. } | CallError::Encode(_)) => Asked::Lost,
        }
    }

    /// Serves the clients of other servers until this one ends.
    pub(crate) async fn serve_door(services: Weak<Services>, door: Door) {
        loop {
            let stream = match door.accept().await {
                Ok(stream) => stream,
                // Such as too many open files.
                Err(error) => {
                    tracing::warn!(target: "server::elsewhere", "another server cannot be served: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(services) = services.upgrade() else { return };
            let server = Self { services };
            let (reader, writer) = stream.into_split();
            let connection = jsonrpc::Connection::over(reader, writer, crate::connection_limits());
            tokio::spawn(async move { server.serve_other(connection).await });
        }
    }
}

fn silent(place: &OpenElsewhere) -> Error {
    Error::failed(format!(
        "the server that has thread {} open ({}) does not answer",
        place.thread_id, place.holder
    ))
    .next_step("stop it if it hangs, and send the request again")
}

fn lost(place: &OpenElsewhere) -> Error {
    Error::failed(format!(
        "the server that had thread {} open ({}) ended before it answered",
        place.thread_id, place.holder
    ))
    .next_step("read the thread, and send the request again if it had no effect")
}
