//! The request that a response is encoded for.

use crate::envelope::{Envelope, Payload};
use crate::kind::Wire;
use crate::request::Request;

/// The request that a response is written for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodeContext {
    /// Name of the model for the caller; empty for the one that the server named.
    pub model: String,
    /// Id of the provider that answers and the model's name there: reasoning is bound to them.
    pub provider: String,
    pub upstream_model: String,
    /// Seconds since 1970, for wires that name the time.
    pub created_at: u64,
    /// An estimate of the input in tokens for wires that tell it at the beginning, Messages alone.
    pub input_estimate: u64,
    /// The caller asked for usage in the stream: a choice on Chat Completions alone.
    pub stream_usage: bool,
    /// The name under which a response of Responses is kept; without it, the server's id names nothing.
    pub kept: Option<KeptAs>,
}

/// The identity of a response that later requests may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAs {
    /// Its id.
    pub id: String,
    /// The one that it continues.
    pub previous: Option<String>,
}

impl EncodeContext {
    /// The context for a request. The caller adds the provider, the time and the estimate.
    #[must_use]
    pub fn of_request(request: &Request<'_>) -> Self {
        Self {
            model: request.model.clone().into_owned(),
            upstream_model: request.model.clone().into_owned(),
            stream_usage: request.stream_usage,
            ..Self::default()
        }
    }

    /// The reasoning of a response as a text that comes back unchanged: an envelope.
    pub(crate) fn sealed(&self, id: &str, encrypted: &str) -> String {
        if Envelope::is_carried(encrypted) {
            return encrypted.to_owned();
        }
        let payload = Payload::Encrypted { id: Some(id.to_owned()), content: encrypted.to_owned() };
        let (provider, model) = (self.provider.clone(), self.upstream_model.clone());
        Envelope { wire: Wire::Responses, provider, model, payload }.write()
    }

    pub(crate) fn model_of<'m>(&'m self, served: &'m str) -> &'m str {
        if self.model.is_empty() { served } else { &self.model }
    }
}
