//! Streams whose caller and backend speak one wire. Their bytes pass unchanged; what is wrong with a stream ends it with
//! an error of the wire.

use gateway_body::Kind;
use ratelimit::RequestId;
use wire::{EncodeContext, Encoder, Failure, Wire};

use crate::account::request_id;

/// The end of a stream that its server does not send.
#[derive(Clone, Debug)]
pub(crate) struct OwnEnd {
    wire: Wire,
    /// The model's name for the caller.
    model: Box<str>,
    /// The request, whose id is that of an answer without one.
    request: RequestId,
    /// Seconds of Unix time.
    now: u64,
}

impl OwnEnd {
    /// `now` is in seconds of Unix time.
    pub(crate) fn new(wire: Wire, model: &str, request: RequestId, now: u64) -> Self {
        Self { wire, model: model.into(), request, now }
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
        let context = EncodeContext {
            model: self.model.clone().into(),
            created_at: self.now,
            ..EncodeContext::default()
        };
        let id = id.unwrap_or_else(|| response_id(self.request));
        Encoder::failed(self.wire, context, (&id, events), failure)
    }
}

/// The id of a response that gets none from its server.
pub(crate) fn response_id(request: RequestId) -> String {
    request_id(request).replacen("req_", "resp_", 1)
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

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use wire::FailureKind;

    use super::*;

    #[test]
    fn an_error_in_place_of_the_end_has_a_time_and_an_id() {
        let own = OwnEnd::new(Wire::Responses, "big", 7, 1_700_000_000);
        let failure = Failure::new(FailureKind::Disconnected, "It broke off.");
        for (id, expected) in [(None, response_id(7)), (Some("resp_9"), "resp_9".to_owned())] {
            let text = own.error(id.map(str::to_owned), 3, &failure);
            let (_, data) = text.split_once("data: ").unwrap();
            let event: Value = serde_json::from_str(data.trim()).unwrap();
            let response = &event["response"];
            assert_eq!((&response["id"], &event["sequence_number"]), (&expected.into(), &3.into()));
            assert_eq!(response["created_at"], 1_700_000_000);
        }
        assert!(response_id(7).starts_with("resp_0"), "{}", response_id(7));
    }
}
