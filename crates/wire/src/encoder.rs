//! The encoder of a response in the caller's wire: a stream's bytes for each event, or the body of a whole response.

use crate::context::EncodeContext;
use crate::event::{Event, Usage};
use crate::failure::{Failure, FailureKind};
use crate::kind::Wire;
use crate::response::Response;
use crate::warning::Warnings;
use crate::{chat, gemini, messages, responses};

/// Encodes one response as a stream of server-sent events.
#[derive(Debug)]
pub enum Encoder {
    Responses(Box<responses::Encoder>),
    Messages(Box<messages::Encoder>),
    Chat(Box<chat::Encoder>),
    Gemini(Box<gemini::Encoder>),
}

impl Encoder {
    /// Begins a response in a wire.
    #[must_use]
    pub fn new(wire: Wire, context: EncodeContext) -> Self {
        match wire {
            Wire::Responses => Self::Responses(Box::new(responses::Encoder::new(context))),
            Wire::Messages => Self::Messages(Box::new(messages::Encoder::new(context))),
            Wire::Chat => Self::Chat(Box::new(chat::Encoder::new(context))),
            Wire::Gemini => Self::Gemini(Box::new(gemini::Encoder::new(context))),
        }
    }

    /// The end of a stream that another program wrote up to here: `events` of it, of the response `id`.
    #[must_use]
    pub fn failed(
        wire: Wire,
        context: EncodeContext,
        (id, events): (&str, u64),
        failure: &Failure,
    ) -> String {
        let mut encoder = match wire {
            Wire::Responses => {
                Self::Responses(Box::new(responses::Encoder::resumed(context, id, events)))
            }
            _ => Self::new(wire, context),
        };
        let mut out = String::new();
        encoder.event(&Event::Failed { failure, usage: Usage::default() }, &mut out);
        out
    }

    /// Appends the stream's bytes for an event: none, one or several server-sent events.
    pub fn event(&mut self, event: &Event<'_>, out: &mut String) {
        match self {
            Self::Responses(encoder) => encoder.event(event, out),
            Self::Messages(encoder) => encoder.event(event, out),
            Self::Chat(encoder) => encoder.event(event, out),
            Self::Gemini(encoder) => encoder.event(event, out),
        }
    }

    /// Parts of the response that the wire cannot carry, so far.
    #[must_use]
    pub fn warnings(&self) -> &Warnings {
        match self {
            Self::Responses(encoder) => &encoder.warnings,
            Self::Messages(encoder) => &encoder.warnings,
            Self::Chat(encoder) => &encoder.warnings,
            Self::Gemini(encoder) => &encoder.warnings,
        }
    }
}

/// The body of a response that is no stream.
///
/// # Errors
/// When the response failed, or has not ended.
pub fn whole_response(
    wire: Wire,
    response: &Response,
    context: &EncodeContext,
) -> Result<String, Failure> {
    match &response.end {
        Some(Ok(_)) => {}
        Some(Err(failure)) => return Err(failure.clone()),
        None => {
            let message = "The model server closed the stream before the response was complete.";
            return Err(Failure::new(FailureKind::Disconnected, message));
        }
    }
    let mut out = String::with_capacity(1024);
    match wire {
        Wire::Responses => responses::whole_response(response, context, &mut out),
        Wire::Messages => messages::whole_response(response, context, &mut out),
        Wire::Chat => chat::whole_response(response, context, &mut out),
        Wire::Gemini => gemini::whole_response(response, context, &mut out),
    }
    Ok(out)
}
