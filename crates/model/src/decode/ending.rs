//! The beginning and the end of a response, and errors in its stream.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{metadata, read as read_json};
use crate::failure::{ProviderError, from_event};
use crate::{Event, Failure, FailureKind, Usage, excerpt};

/// The end of a response.
pub(super) struct End<'a> {
    /// [`Event::Completed`] or [`Event::Failed`].
    pub(super) event: Event,
    pub(super) model: Option<String>,
    /// The model's turn is not over (`end_turn: false`).
    pub(super) is_paused: bool,
    /// The JSON of its items, where the end repeats them.
    pub(super) output: Vec<&'a str>,
}

/// The event around a response. Some servers leave the response out.
#[derive(Deserialize)]
struct Around<'a> {
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

/// The members of a response, each of any type.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Response<'a> {
    id: Value,
    model: Value,
    headers: Value,
    status: Value,
    error: Value,
    usage: Value,
    service_tier: Value,
    end_turn: Value,
    incomplete_details: Value,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

fn response(data: &[u8]) -> Result<Response<'_>, Failure> {
    let Around { response } = read_json(data)?;
    let json = response.map(RawValue::get).filter(|json| json.starts_with('{'));
    // Without a response its members may stand in the event.
    read_json(json.map_or(data, str::as_bytes))
}

pub(super) fn created(data: &[u8]) -> Result<Event, Failure> {
    let response = response(data)?;
    // The header names the model even where the body repeats the name that was asked for.
    let model = metadata::model(&response.headers).or_else(|| metadata::name(&response.model));
    let response_id = response.id.as_str().unwrap_or_default().to_owned();
    Ok(Event::Created { response_id, model })
}

/// The end of a response in an event of the type `kind`. That of `response.done` is what its status says.
pub(super) fn read<'a>(kind: &str, data: &'a [u8]) -> Result<End<'a>, Failure> {
    let response = response(data)?;
    let status = response.status.as_str().unwrap_or_default();
    let is_failed = status == "failed" && !response.error.is_null();
    let event = match (kind, status) {
        ("response.failed", _) | ("response.done", "failed") => {
            Event::Failed(failed(&response, data)?)
        }
        ("response.incomplete", _) | ("response.done", "incomplete" | "cancelled") => {
            Event::Failed(incomplete(&response))
        }
        _ if is_failed => Event::Failed(failed(&response, data)?),
        _ => Event::Completed {
            usage: usage(&response.usage).unwrap_or_default(),
            service_tier: metadata::name(&response.service_tier),
        },
    };
    let model = metadata::model(&response.headers).or_else(|| metadata::name(&response.model));
    let output: Option<Vec<&RawValue>> =
        response.output.and_then(|output| serde_json::from_str(output.get()).ok());
    let output = output.unwrap_or_default().into_iter().map(RawValue::get).collect();
    Ok(End { event, model, is_paused: response.end_turn == Value::Bool(false), output })
}

/// Returns whether JSON without the type of an event is the end of a response: an event around one, or the
/// response itself.
pub(super) fn is_end(data: &[u8]) -> bool {
    let is_over = |response: &Response<'_>| {
        matches!(response.status.as_str(), Some("completed" | "failed" | "incomplete"))
    };
    let Ok(Around { response: inner }) = serde_json::from_slice(data) else { return false };
    let is_around = inner.is_some();
    let response: Option<Response<'_>> = match inner.map(RawValue::get) {
        Some(json) => serde_json::from_str(json).ok(),
        None => serde_json::from_slice(data).ok(),
    };
    // A status alone says little.
    response.is_some_and(|it| {
        is_over(&it) && (is_around || it.output.is_some() || it.error.is_object())
    })
}

/// The error in an event without a type that is nothing that is known.
pub(super) fn reason(data: &[u8]) -> Option<Failure> {
    let value: Value = serde_json::from_slice(data).ok()?;
    let error = ProviderError::from_value(&value);
    error.has_message().then(|| from_event(&error))
}

/// The tokens of a response. `None` when they are unknown: a count that cannot be read costs no response.
fn usage(value: &Value) -> Option<Usage> {
    match Option::<WireUsage>::deserialize(value) {
        Ok(wire) => wire.map(Usage::from).filter(|usage| {
            let is_believed = usage.is_believed();
            if !is_believed {
                tracing::warn!(?usage, "the model provider sent a `usage` that no response has");
            }
            is_believed
        }),
        Err(error) => {
            let value = excerpt(&value.to_string());
            tracing::warn!(%error, value, "the model provider sent a `usage` that cannot be read");
            None
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    input_tokens: u64,
    input_tokens_details: Option<WireInputDetails>,
    output_tokens: u64,
    output_tokens_details: Option<WireOutputDetails>,
    total_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireInputDetails {
    cached_tokens: u64,
    cache_write_tokens: Option<u64>,
    cache_write_1h_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireOutputDetails {
    reasoning_tokens: u64,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let sum = wire.input_tokens.saturating_add(wire.output_tokens);
        let input = wire.input_tokens_details.unwrap_or_default();
        Self {
            input: wire.input_tokens,
            cached_input: input.cached_tokens,
            cache_write: input.cache_write_tokens.unwrap_or_default(),
            cache_write_1h: input.cache_write_1h_tokens.unwrap_or_default(),
            output: wire.output_tokens,
            reasoning_output: wire.output_tokens_details.unwrap_or_default().reasoning_tokens,
            total: wire.total_tokens.unwrap_or(sum),
        }
    }
}

fn failed(response: &Response<'_>, data: &[u8]) -> Result<Failure, Failure> {
    let usage = usage(&response.usage).map(Box::new);
    let error = match &response.error {
        Value::Null => error(data)?,
        error => from_event(&ProviderError::from_value(error)),
    };
    Ok(Failure { usage, ..error })
}

fn incomplete(response: &Response<'_>) -> Failure {
    let reason = response.incomplete_details.get("reason").and_then(Value::as_str);
    let message = match reason {
        Some("max_output_tokens") => "the response was cut off at the model's output limit; ask \
                                      for a shorter answer or smaller steps"
            .to_owned(),
        Some("content_filter") => {
            "the response was stopped by the provider's content filter; rephrase the request"
                .to_owned()
        }
        Some(reason) => format!("the response is incomplete: {}", excerpt(reason)),
        None => "the response is incomplete; the provider gave no reason".to_owned(),
    };
    let usage = usage(&response.usage).map(Box::new);
    Failure { usage, ..Failure::new(FailureKind::Other, message) }
}

/// An `error` event: members at its top, or inside an `error` object.
pub(super) fn error(data: &[u8]) -> Result<Failure, Failure> {
    let mut event: Value = read_json(data)?;
    // The type of the event is not that of the error.
    event.as_object_mut().map(|members| members.shift_remove("type"));
    Ok(from_event(&ProviderError::of_value(&event)))
}

/// The failure of an event that is an error though its type does not say so: it has an `error`, is an object
/// `error`, or has a message with a code and no type.
pub(super) fn untyped_error(data: &[u8]) -> Result<Option<Failure>, Failure> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Head<'a> {
        #[serde(borrow)]
        error: Option<&'a RawValue>,
        object: Value,
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        message: Value,
        #[serde(borrow)]
        code: Option<&'a RawValue>,
    }
    let head: Head<'_> = read_json(data)?;
    let nested = head.error.is_some_and(|error| {
        let json = error.get();
        (json.starts_with('{') || json.starts_with('"')) && !matches!(json, "{}" | "\"\"")
    });
    let is_message = head.kind.is_none() && head.code.is_some() && head.message.is_string();
    if nested {
        return error(data).map(Some);
    }
    if is_message || head.object == "error" {
        return Ok(Some(from_event(&ProviderError::from_value(&read_json(data)?))));
    }
    Ok(None)
}
