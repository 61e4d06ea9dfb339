//! JSON-RPC 2.0 in both directions, one message per line or WebSocket frame: framing, queues,
//! transports and a typed client. It knows no method: the crates above give the messages their
//! meaning.
//!
//! The path of a message:
//!
//! ```text
//! bytes ─▶ LineReader, MessageReader ─▶ decode ─▶ Inbox ─▶ handlers
//! bytes ◀─ OutboxReceiver::run ◀── Outbox ◀─ encode_* ◀───┘
//! ```
//!
//! Every queue has a bound, stated in [`Limits`].

mod client;
mod close;
mod connection;
mod decode_error;
mod encode;
mod error;
mod id;
mod inbox;
mod ingress;
mod json_path;
mod json_words;
mod limits;
mod line;
mod message;
mod method;
mod outbox;
mod params;
mod queued;
mod respell;
mod spool;
#[cfg(unix)]
mod stdio;
#[cfg(not(unix))]
#[path = "stdio_elsewhere.rs"]
mod stdio;
pub mod websocket;
mod writer;

pub use client::{CallError, Client, Event, Events, Observer, Position, Reader, Taken};
pub use close::CloseReason;
pub use connection::Connection;
pub use decode_error::{DecodeError, same_name};
pub use encode::{
    DeltaFrame, EncodeError, encode_answer, encode_error, encode_forwarded, encode_notification,
    encode_request, encode_response, escape,
};
pub use error::{ErrorObject, code};
pub use id::RequestId;
pub use inbox::{Answers, Inbox, Incoming, ReceivedLine};
pub use ingress::Ingress;
pub use limits::Limits;
pub use line::{Line, LineReader};
pub use message::{Malformed, Message, UnreadableAnswer, decode};
pub use method::{Method, Notification};
pub use outbox::{Outbox, OutboxReceiver, outbox};
pub use params::{decode_params, read_params, read_result};
pub use queued::{Answer, Outgoing, Queued};
pub use spool::Spool;
pub use stdio::{FdReader, FdWriter};
