//! Threads of this home that another server has open: requests of this server's clients about them go there, and what
//! that server sends about them comes back (docs/threads.md, "Several servers on one home"). A request is forwarded
//! once at most: the server that has the thread carries it out or refuses it.
//!
//! ```text
//! client ─▶ serve.rs ─▶ handler ─▶ "is open elsewhere" ─▶ Joined ─▶ Link ─▶ door of the other server
//! client ◀──────────────────────────── relay.rs, questions.rs ◀─ Link ◀─ its events, questions, answers
//! ```
//!
//! Each client has a connection of its own to each other server, with the capabilities that it asked for. It ends with
//! the client, and the requests on it end with it. When it ends by itself, the client's threads are found again where
//! they are now, or opened here ([`take_over`]); requests about them wait until then. A request takes as long as it
//! takes, unless its server gives no sign of life.

mod connect;
pub(crate) mod joined;
pub(crate) mod link;
mod questions;
mod relay;
mod take_over;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use jsonrpc::{CallError, ErrorObject, RequestId};
use protocol::Load;
use serde_json::value::RawValue;
use services::door::{Door, OpenElsewhere};
use services::error::Error;
use services::peer::{Caller, Peer};
use services::thread_order::thread_of;

use crate::server::{Server, Services};

/// Most servers that are tried for one request: a thread can change hands meanwhile.
const ATTEMPTS: usize = 3;

/// Pause before a server without a door is looked for again.
const NO_DOOR_PAUSE: Duration = Duration::from_millis(20);

/// Pause after an error of the door.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The request of a client, to be carried out here or where its thread is open.
pub(crate) struct Forwarded<'r> {
    /// `None`: the client gets no response.
    pub(crate) id: Option<&'r RequestId>,
    pub(crate) method: &'r str,
    pub(crate) params: Option<&'r RawValue>,
    pub(crate) load: Load,
}

/// The outcome of a request to another server.
enum Asked {
    /// Its response is queued.
    Answered(Box<RawValue>),
    Refused(ErrorObject),
    /// No server is there.
    NoDoor,
    /// The server takes no connection. The request was not sent.
    Silent,
    /// The connection had ended already. The request was not sent, and its thread has been looked for.
    Cut,
    /// The connection ended before the response.
    Lost,
    /// The server no longer gives a sign of life.
    Hung,
    /// The client has left.
    Gone,
}

impl Server {
    /// Carries out a request, here or where its thread is open. `None`: its response is queued already, or the
    /// client has left.
    pub(crate) async fn carry_out(
        &self,
        caller: &Caller,
        request: Forwarded<'_>,
    ) -> Option<Result<Bytes, ErrorObject>> {
        let (peer, elsewhere) = (&caller.peer, &self.services.elsewhere);
        let thread = thread_of(request.params);
        let mut refused = None;
        for _ in 0..ATTEMPTS {
            let joined = match &thread {
                Some(thread) => elsewhere.place(peer.id, thread).await,
                None => None,
            };
            let there = match joined {
                Some(there) => there,
                None => {
                    let error = match self.carry_out_here(caller, &request).await {
                        Err(error) if !peer.is_server => error,
                        outcome => return Some(outcome),
                    };
                    let Some(there) = OpenElsewhere::of(&error) else { return Some(Err(error)) };
                    refused = Some(error);
                    there
                }
            };
            if request.load == Load::LongAnswer {
                // As for those that are made here, one at a time waits for a client that does not read.
                peer.answers_read().await;
            }
            match self.ask(peer, &there, &request).await {
                Asked::Answered(_) | Asked::Gone => return None,
                Asked::Refused(error) if OpenElsewhere::of(&error).is_none() => {
                    return Some(Err(error));
                }
                Asked::Lost => return Some(Err(lost(&there).into())),
                Asked::Hung => return Some(Err(hung(&there).into())),
                Asked::Silent => {
                    return Some(Err(refused.unwrap_or_else(|| silent(&there).into())));
                }
                Asked::Cut => {}
                // It has another server now, or none.
                Asked::Refused(error) => {
                    refused = Some(error);
                    elsewhere.leave(peer.id, &there);
                }
                Asked::NoDoor => {
                    refused.get_or_insert_with(|| silent(&there).into());
                    elsewhere.leave(peer.id, &there);
                    // The locks of one that was just killed are released after its socket.
                    tokio::time::sleep(NO_DOOR_PAUSE).await;
                }
            }
        }
        let moves =
            || Error::failed("the thread changes hands").next_step("send the request again");
        Some(Err(refused.unwrap_or_else(|| moves().into())))
    }

    /// Carries out a request here.
    async fn carry_out_here(
        &self,
        caller: &Caller,
        request: &Forwarded<'_>,
    ) -> Result<Bytes, ErrorObject> {
        let _turn = self.turn_for_long_answer(request.load).await;
        protocol::dispatch(self, caller.clone(), request.method, request.params).await
    }

    async fn ask(&self, peer: &Arc<Peer>, place: &OpenElsewhere, request: &Forwarded<'_>) -> Asked {
        let joined = self.services.elsewhere.of(&self.services.connections, peer);
        let Some(joined) = joined else { return Asked::Gone };
        let link = match self.link(&joined, place).await {
            Ok(link) => link,
            Err(error) => {
                tracing::info!(
                    target: "server::elsewhere",
                    "the server that has thread {} open ({}) cannot be asked: {error}",
                    place.thread_id, place.holder
                );
                return match error.kind() {
                    io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Asked::Silent,
                    io::ErrorKind::ConnectionReset => Asked::Cut,
                    _ => Asked::NoDoor,
                };
            }
        };
        link.client.outbox().room().await;
        // Once: the response, or the error for a server that gives no sign of life.
        let is_answered = Arc::new(AtomicBool::new(false));
        let taken = {
            // Weak, because the link has this until the response comes: a client that leaves ends its links.
            let (joined, questions) = (Arc::downgrade(&joined), Arc::downgrade(&link.questions));
            let (place, method, number) = (place.clone(), request.method.to_owned(), link.number);
            let (id, is_answered) = (request.id.cloned(), is_answered.clone());
            Box::new(move |result: &RawValue| {
                let (Some(joined), Some(questions)) = (joined.upgrade(), questions.upgrade())
                else {
                    return;
                };
                if is_answered.swap(true, Ordering::Relaxed) {
                    return;
                }
                joined.note(&method, &place, number, result);
                if let Some(id) = &id {
                    let result = questions.with_ids_here(&method, result);
                    joined.peer.respond(id, &method, Ok(result));
                }
            })
        };
        let params = request.params.unwrap_or(RawValue::NULL);
        let asked = link.client.request_taken(request.method, &params, Some(taken));
        tokio::select! {
            // It is sent even when the client has left: what arrived before is carried out.
            biased;
            outcome = asked => match outcome {
                Ok(result) => Asked::Answered(result),
                Err(CallError::Rpc(error)) => Asked::Refused(error),
                Err(CallError::Closed | CallError::Decode { .. } | CallError::Encode(_)) => {
                    Asked::Lost
                }
            },
            _ = peer.outbox.closed() => Asked::Gone,
            () = self.silence(&link, &place.owner) => {
                match is_answered.swap(true, Ordering::Relaxed) {
                    true => Asked::Answered(RawValue::NULL.to_owned()),
                    false => Asked::Hung,
                }
            }
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
            let connection = jsonrpc::Connection::over(reader, writer, link::limits());
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

fn hung(place: &OpenElsewhere) -> Error {
    Error::failed(format!(
        "the server that has thread {} open ({}) does not answer; the request may have had an effect",
        place.thread_id, place.holder
    ))
    .next_step("stop it if it hangs, read the thread, and send the request again if it had no effect")
}

fn lost(place: &OpenElsewhere) -> Error {
    Error::failed(format!(
        "the connection to the server that had thread {} open ({}) ended before it answered; the request may have had \
         an effect",
        place.thread_id, place.holder
    ))
    .next_step("read the thread, and send the request again if it had no effect")
}
