//! Streams whose caller and backend speak one wire. Their bytes pass unchanged; what is wrong with a stream ends it with
//! an error of the wire.

use gateway_body::Kind;
use wire::{EncodeContext, Encoder, Failure, Wire};

/// The end of a stream that its server does not send.
#[derive(Clone, Debug)]
pub(crate) struct OwnEnd {
    wire: Wire,
    /// The model's name for the caller.
    model: Box<str>,
}

impl OwnEnd {
    pub(crate) fn new(wire: Wire, model: &str) -> Self {
        Self { wire, model: model.into() }
    }

    /// The message for a stream that has an event of another wire.
    pub(crate) fn is_of_other_wire(&self, other: Kind) -> String {
        let other = wire_of(other).map_or("another API", Wire::as_str);
        format!(
            "The model server sent an event of `{other}`, but the request was one of `{}`: the server speaks another \
             API than the gateway's configuration says.",
            self.wire
        )
    }

    /// The error as the last event of the stream, after `events` others of the response `id`.
    pub(crate) fn error(&self, id: Option<String>, events: u64, failure: &Failure) -> String {
        let context =
            EncodeContext { model: self.model.clone().into(), ..EncodeContext::default() };
        let id = id.unwrap_or_default();
        Encoder::failed(self.wire, context, (&id, events), failure)
    }
}

/// The wire of a request that generates text.
pub(crate) fn wire_of(kind: Kind) -> Option<Wire> {
    Some(match kind {
        Kind::Responses => Wire::Responses,
        Kind::Chat => Wire::Chat,
        Kind::Messages => Wire::Messages,
        Kind::Gemini => Wire::Gemini,
        _ => return None,
    })
}
