//! Translation between the four wires of model servers: Responses, Messages, Chat Completions and Gemini.
//!
//! The internal form is that of the Responses API. Each wire reads and writes it, so every pair of wires is a
//! composition. The crate performs no I/O and reads no clock; the caller splits the bytes of streams into events.
//!
//! - A request: [`read_request`] reads a caller's body to a [`Request`], [`write_request`] writes one for a [`Target`].
//!   A member that changes the meaning of the answer and has no equal is an [`Error`]; one that tunes the answer is a
//!   [`Warning`].
//! - A response: a [`Decoder`] reads the events of a server's stream to [`Event`]s, an [`Encoder`] writes these for a
//!   caller. [`Response`] collects them, and [`whole_response`] writes the body of one that is no stream.
//! - A failure: [`Failure::read`] reads a server's error, [`Failure::body`] writes one for a caller.
//! - Reasoning that its wire needs to continue is kept in an [`Envelope`], for its own provider and model alone.
//!
//! A request's table of what is carried is `src/carried.md`, which a test compares with what the crate does. Of a
//! response, these are not carried:
//!
//! - Messages: citations of documents; blocks of unknown types; `stop_details`; neighbouring text blocks become one
//!   message. An encoder writes searches of other wires without their results, and no images.
//! - Chat Completions: choices besides the first; log probabilities; searches and images are not written; a pause looks
//!   like an end.
//! - Gemini: candidates besides the first; parts of code execution; ratings of safety. The matched stop sequence is not
//!   written, and a pause looks like an end.
//! - All but Responses: phases of messages; items of kinds that only Responses has.
//! - The text of a thought between `<think>` marks is text: servers are asked to take it out.
//!
//! Each of them is an [`Event::Warning`] or a warning of the encoder where a response has it and its meaning changes.

mod builder;
mod chat;
mod context;
mod conversation;
mod decoder;
mod encoder;
mod envelope;
mod error;
mod event;
mod failure;
mod families;
mod free_text;
mod gemini;
mod json;
mod kind;
mod messages;
mod names;
mod offer;
mod request;
mod response;
mod responses;
mod sealed;
mod shared;
mod target;
mod warning;

pub use builder::{
    MAX_COUNTED_TOKENS, MAX_IDLE_EVENTS, MAX_OPEN_ITEMS, MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS,
    ResponseContext, Sink,
};
pub use context::{EncodeContext, KeptAs};
pub use decoder::Decoder;
pub use encoder::{Encoder, whole_response};
pub use envelope::{Envelope, Payload, SEALED};
pub use error::{Code, Error};
pub use event::{End, Event, OutputItem, Stop, Usage};
pub use failure::{Failure, FailureKind};
pub use kind::Wire;
pub use names::{
    MAX_TOOL_NAME, ToolForm, ToolName, ToolTable, short_call_id, wire_call_id, wire_name,
};
pub use request::{
    Call, CallKind, Content, Format, Function, Item, Message, Output, Reasoning, Request, Role,
    Source, Tool, ToolChoice, WebSearch,
};
pub use response::Response;
pub use responses::read_item;
pub use sealed::{SealedPart, sealed_parts};
pub use shared::MAX_ITEMS;
pub use target::{
    CacheHints, CacheMarks, ChatCallIds, ChatLimit, ChatOptions, ChatReasoning, ChatThinking,
    Encoded, GeminiOptions, GeminiThinking, MessagesOptions, MessagesThinking, Platform, Target,
    key_header,
};
pub use warning::{MAX_WARNINGS, Warning, Warnings};

/// Reads a request's body. Gemini has the model and the choice of a stream in the path: `model` is that of the path,
/// and empty for other wires; [`Request::stream`] is then the caller's to set.
///
/// # Errors
/// When the body is no request of the wire, or cannot be translated. [`Error::body`] is the answer.
pub fn read_request<'a>(
    wire: Wire,
    model: &'a str,
    body: &'a [u8],
) -> Result<(Request<'a>, Warnings), Error> {
    match wire {
        Wire::Responses => responses::read_request(body),
        Wire::Messages => messages::read_request(body),
        Wire::Chat => chat::read_request(body),
        Wire::Gemini => gemini::read_request(model, body),
    }
}

/// Writes a request for a server. The same input gives the same bytes, and a longer history begins with the bytes of a
/// shorter one but for marks of the cache.
///
/// # Errors
/// When the request has what the wire cannot carry. The error names members of the Responses form:
/// [`Error::in_wire`] gives the caller's name.
pub fn write_request(wire: Wire, request: &Request<'_>, target: &Target) -> Result<Encoded, Error> {
    match wire {
        Wire::Responses => responses::write_request(request, target),
        Wire::Messages => messages::write_request(request, target),
        Wire::Chat => chat::write_request(request, target),
        Wire::Gemini => gemini::write_request(request, target),
    }
}
