//! A played response in the caller's wire: as a stream, or as a whole.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http_client::sse::{Reader, TooLong};
use wire::{Decoder, Encoder, Event, Failure, FailureKind, ResponseContext, Sink, Usage, Wire};

use super::adapter::Adapter;
use super::asked::{Asked, Memory};
use super::route::Streams;
use crate::script::player::{Action, Player};

/// Reads the stream of the Responses API that a player writes, and adapts its events to a wire.
#[derive(Debug)]
pub(crate) struct Translation {
    reader: Reader,
    decoder: Decoder,
    adapter: Adapter,
}

impl Translation {
    pub(crate) fn new(asked: &Asked<'_>, player: &Player, memory: Arc<Memory>) -> Self {
        let context =
            ResponseContext { model: asked.context.model.clone(), ..ResponseContext::default() };
        Self {
            reader: Reader::new(),
            decoder: Decoder::new(Wire::Responses, context),
            adapter: Adapter::new(asked, player, memory),
        }
    }

    /// Reads bytes of the stream.
    pub(crate) fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) {
        let Self { reader, decoder, adapter } = self;
        let read = reader.feed(bytes, |_, data| {
            decoder.event(data, &mut |event| adapter.event(&event, sink));
        });
        if let Err(TooLong) = read {
            let message =
                "An event of the script's response is too long; divide it into several steps.";
            let failure = Failure::new(FailureKind::Server, message);
            sink(Event::Failed { failure: &failure, usage: Usage::default() });
        }
    }
}

/// A response in the caller's wire, action by action.
#[derive(Debug)]
pub(crate) struct Translated {
    player: Player,
    translation: Translation,
    encoder: Encoder,
    array: Option<Array>,
    queue: VecDeque<Action>,
    is_over: bool,
}

/// The chunks of a Gemini stream as a JSON array.
#[derive(Debug, Default)]
struct Array {
    has_chunk: bool,
}

impl Translated {
    pub(crate) fn new(asked: &Asked<'_>, player: Player, memory: Arc<Memory>) -> Self {
        Self {
            translation: Translation::new(asked, &player, memory),
            player,
            encoder: Encoder::new(asked.wire, asked.context.clone()),
            array: (asked.streams == Streams::Array).then(Array::default),
            queue: VecDeque::new(),
            is_over: false,
        }
    }

    fn send(&mut self, out: String) {
        let out = match &mut self.array {
            Some(array) => array.of(&out),
            None => out,
        };
        if !out.is_empty() {
            self.queue.push_back(Action::Bytes(out.into()));
        }
    }
}

impl Array {
    /// The elements for the events in `out`.
    fn of(&mut self, out: &str) -> String {
        let mut elements = String::with_capacity(out.len());
        for event in out.split("\r\n\r\n") {
            let Some(json) = event.strip_prefix("data: ") else { continue };
            elements.push_str(if self.has_chunk { ",\r\n" } else { "[" });
            elements.push_str(json);
            self.has_chunk = true;
        }
        elements
    }

    fn end(&self) -> &'static str {
        if self.has_chunk { "]" } else { "[]" }
    }
}

impl Iterator for Translated {
    type Item = Action;

    fn next(&mut self) -> Option<Action> {
        loop {
            if let Some(action) = self.queue.pop_front() {
                return Some(action);
            }
            match self.player.next() {
                Some(Action::Bytes(bytes)) => {
                    let mut out = String::new();
                    let encoder = &mut self.encoder;
                    self.translation.feed(&bytes, &mut |event| encoder.event(&event, &mut out));
                    self.send(out);
                }
                Some(other) => return Some(other),
                None if self.is_over => return None,
                None => {
                    self.is_over = true;
                    if let Some(array) = &self.array {
                        return Some(Action::Bytes(Bytes::from_static(array.end().as_bytes())));
                    }
                }
            }
        }
    }
}
