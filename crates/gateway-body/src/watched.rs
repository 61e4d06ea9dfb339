//! Which members of an answer are watched, and where they stand. It reads nothing.

use super::usage::Count;

/// Where in the value something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    /// The member `response` of an event.
    Response,
    Usage,
    UsageDetails,
    Data,
    Choices,
    /// Objects and arrays that hold output.
    Output,
}

/// The member whose value comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Unwatched,
    Id,
    Type,
    Delta,
    Duration,
    Text,
    Number(Count),
    Into(Place),
}

/// What `key` names in an object that stands at `place`. The text of a `whole` answer is output,
/// that of an event is told in deltas.
pub(super) fn field(place: Option<Place>, key: &[u8], whole: bool) -> Field {
    use Field::{Delta, Duration, Id, Into, Number, Text, Type, Unwatched};
    match (place, key) {
        (Some(Place::Root | Place::Response), key) => match key {
            b"id" => Id,
            b"type" => Type,
            b"usage" => Into(Place::Usage),
            b"duration" => Duration,
            b"data" if place == Some(Place::Root) => Into(Place::Data),
            b"delta" => Delta,
            b"response" if place == Some(Place::Root) => Into(Place::Response),
            b"choices" => Into(Place::Choices),
            b"output" if whole => Into(Place::Output),
            _ => Unwatched,
        },
        (Some(Place::Usage), key) => match key {
            b"input_tokens" | b"prompt_tokens" => Number(Count::Input),
            b"output_tokens" | b"completion_tokens" => Number(Count::Output),
            b"total_tokens" => Number(Count::Total),
            b"input_tokens_details" | b"prompt_tokens_details" => Into(Place::UsageDetails),
            b"seconds" => Duration,
            _ => Unwatched,
        },
        (Some(Place::UsageDetails), b"cached_tokens") => Number(Count::Cached),
        (Some(Place::Output), key) if holds_output(key) => Text,
        _ => Unwatched,
    }
}

/// Members of choices, messages, deltas, items and parts that hold what the model wrote.
fn holds_output(key: &[u8]) -> bool {
    matches!(
        key,
        b"delta"
            | b"message"
            | b"content"
            | b"text"
            | b"refusal"
            | b"arguments"
            | b"tool_calls"
            | b"function"
            | b"custom"
            | b"input"
            | b"summary"
            | b"reasoning"
            | b"reasoning_content"
    )
}
