//! JSON-RPC 2.0 in both directions, a message a line or a WebSocket frame: framing, queues,
//! transports and a typed client. It names no method: what the messages mean is the business of the crates above.
//!
//! The way of a message:
//!
//! ```text
//! bytes ─▶ LineReader, MessageReader ─▶ decode ─▶ Inbox ─▶ whoever handles it
//! bytes ◀─ OutboxReceiver::run ◀── Outbox ◀─ encode_* ◀─────┘
//! ```
//!
//! Everything that waits has a bound, stated in [`Limits`].

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

pub use client::{CallError, Client, Event, Events};
pub use close::CloseReason;
pub use connection::Connection;
pub use decode_error::{DecodeError, same_name};
pub use encode::{
    DeltaFrame, EncodeError, encode_answer, encode_error, encode_notification, encode_request,
    encode_response, escape,
};
pub use error::{ErrorObject, code};
pub use id::RequestId;
pub use inbox::{Answers, Inbox, Incoming};
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
