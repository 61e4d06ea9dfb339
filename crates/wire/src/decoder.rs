//! The decoder of a model server's response, in any wire.

use crate::builder::{ResponseContext, Sink};
use crate::kind::Wire;
use crate::{chat, gemini, messages, responses};

/// Decodes one response to events of the internal form. It is fed with the data of server-sent events, whose bytes the
/// caller splits, and emits exactly one end.
#[derive(Debug)]
pub enum Decoder {
    Responses(Box<responses::Decoder>),
    Messages(Box<messages::Decoder>),
    Chat(Box<chat::Decoder>),
    Gemini(Box<gemini::Decoder>),
}

impl Decoder {
    /// Begins the response of a request.
    #[must_use]
    pub fn new(wire: Wire, context: ResponseContext) -> Self {
        match wire {
            Wire::Responses => Self::Responses(Box::new(responses::Decoder::new(context))),
            Wire::Messages => Self::Messages(Box::new(messages::Decoder::new(context))),
            Wire::Chat => Self::Chat(Box::new(chat::Decoder::new(context))),
            Wire::Gemini => Self::Gemini(Box::new(gemini::Decoder::new(context))),
        }
    }

    /// Reads the data of one server-sent event. After the end it has no effect.
    pub fn event(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        match self {
            Self::Responses(decoder) => decoder.event(data, sink),
            Self::Messages(decoder) => decoder.event(data, sink),
            Self::Chat(decoder) => decoder.event(data, sink),
            Self::Gemini(decoder) => decoder.event(data, sink),
        }
    }

    /// Reads an answer that is no stream, and ends the response.
    pub fn document(&mut self, body: &[u8], sink: &mut Sink<'_>) {
        match self {
            Self::Responses(decoder) => decoder.document(body, sink),
            Self::Messages(decoder) => decoder.document(body, sink),
            Self::Chat(decoder) => decoder.document(body, sink),
            Self::Gemini(decoder) => decoder.document(body, sink),
        }
    }

    /// The stream is over: a response without its end has failed.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        match self {
            Self::Responses(decoder) => decoder.finish(sink),
            Self::Messages(decoder) => decoder.finish(sink),
            Self::Chat(decoder) => decoder.finish(sink),
            Self::Gemini(decoder) => decoder.finish(sink),
        }
    }

    /// True after the end.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Responses(decoder) => decoder.is_ended(),
            Self::Messages(decoder) => decoder.is_ended(),
            Self::Chat(decoder) => decoder.is_ended(),
            Self::Gemini(decoder) => decoder.is_ended(),
        }
    }
}
