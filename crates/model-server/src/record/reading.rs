//! Reads a provider's response in any wire as the events that steps are made of.

use http_client::sse::{Reader, TooLong};
use model::Event;
use wire::{Decoder, EncodeContext, Encoder, ResponseContext, Wire};

use crate::script::{Reasoning, Step};

/// A response under way.
pub(super) enum Reading {
    Responses(Box<model::Decoder>),
    Other(Box<Other>),
}

/// A response of another wire, written in the form of the Responses API in passing.
pub(super) struct Other {
    reader: Reader,
    decoder: Decoder,
    encoder: Encoder,
    events: model::Decoder,
}

impl Reading {
    pub(super) fn new(wire: Wire) -> Self {
        if wire == Wire::Responses {
            return Self::Responses(Box::new(model::Decoder::new()));
        }
        // Ids of calls without one begin with it.
        let context = ResponseContext { id: "resp".to_owned(), ..ResponseContext::default() };
        Self::Other(Box::new(Other {
            reader: Reader::new(),
            decoder: Decoder::new(wire, context),
            encoder: Encoder::new(Wire::Responses, EncodeContext::default()),
            events: model::Decoder::new(),
        }))
    }

    /// True for reasoning without a text, which holds what the wire alone needs: a replay makes its own.
    pub(super) fn is_signature(&self, step: &Step) -> bool {
        let is_empty = |it: &Reasoning| it.summary.is_empty() && it.content.is_empty();
        matches!((self, step), (Self::Other(_), Step::Reasoning(it)) if is_empty(it))
    }

    /// Reads bytes of a stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        match self {
            Self::Responses(decoder) => decoder.feed(bytes, &mut events),
            Self::Other(other) => {
                let mut out = String::new();
                let Other { reader, decoder, encoder, .. } = &mut **other;
                let read = reader.feed(bytes, |_, data| {
                    decoder.event(data, &mut |event| encoder.event(&event, &mut out));
                });
                other.events.feed(out.as_bytes(), &mut events);
                // What follows an event that is too long cannot be recorded.
                if let Err(TooLong) = read {
                    other.events.cut_off(&mut events);
                }
            }
        }
        events
    }

    /// The stream is over.
    pub(super) fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        match self {
            Self::Responses(decoder) => decoder.finish(&mut events),
            Self::Other(other) => {
                let mut out = String::new();
                let Other { reader, decoder, encoder, .. } = &mut **other;
                let mut write = |event: wire::Event<'_>| encoder.event(&event, &mut out);
                if let Some(rest) = reader.rest().filter(|rest| !rest.is_empty()) {
                    decoder.event(rest, &mut write);
                }
                decoder.finish(&mut write);
                other.events.feed(out.as_bytes(), &mut events);
                other.events.finish(&mut events);
            }
        }
        events
    }

    /// Reads a response that is no stream.
    pub(super) fn document(&mut self, body: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut out = String::new();
        let mut encoder = Encoder::new(Wire::Responses, EncodeContext::default());
        let mut write = |event: wire::Event<'_>| encoder.event(&event, &mut out);
        match self {
            Self::Responses(_) => {
                let mut decoder = Decoder::new(Wire::Responses, ResponseContext::default());
                decoder.document(body, &mut write);
            }
            Self::Other(other) => other.decoder.document(body, &mut write),
        }
        let mut decoder = model::Decoder::new();
        decoder.feed(out.as_bytes(), &mut events);
        decoder.finish(&mut events);
        events
    }
}
