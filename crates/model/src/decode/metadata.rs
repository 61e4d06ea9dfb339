//! A provider's metadata of a response besides its items: which model answers, and which
//! verifications it recommends to the user. Unknown names and wrong types count as absent, because
//! none of this is needed for the response itself.

use serde_json::Value;

use crate::Event;
use crate::printable::printable;

/// Headers that name the model that answers.
pub(crate) const MODEL_HEADERS: [&str; 2] = ["openai-model", "x-openai-model"];
/// Most verifications of one event.
const MAX_VERIFICATIONS: usize = 16;

/// The event of a `response.metadata`; `None` when it has nothing that is used.
pub(super) fn decode(event: &Value) -> Option<Event> {
    let names = event.pointer("/metadata/openai_verification_recommendation");
    let names = names.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = names.iter().filter_map(name).take(MAX_VERIFICATIONS).collect();
    if !names.is_empty() {
        return Some(Event::VerificationRequested { names });
    }
    model(&event["headers"]).map(|model| Event::ServedBy { model })
}

/// The model that headers name; a header is a text or a list of texts.
pub(super) fn model(headers: &Value) -> Option<String> {
    let headers = headers.as_object()?;
    let value = headers.iter().find_map(|(key, value)| {
        MODEL_HEADERS.iter().any(|header| key.eq_ignore_ascii_case(header)).then_some(value)
    })?;
    name(value.as_array().and_then(|values| values.first()).unwrap_or(value))
}

/// A text that can be a name.
pub(super) fn name(value: &Value) -> Option<String> {
    value.as_str().and_then(printable)
}
