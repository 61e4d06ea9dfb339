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
mod misread;
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
pub use misread::{Misread, same_name};
pub use outbox::{Outbox, OutboxReceiver, outbox};
pub use params::{decode_params, decode_result, read_params};
pub use queued::{Answer, Outgoing, Queued};
pub use spool::Spool;
pub use stdio::{FdReader, FdWriter};
