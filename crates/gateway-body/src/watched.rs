//! The observed members of a response, and their positions. Contains no parser.

use super::usage::Count;

/// The position of a member in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
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

/// The member whose value is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Unwatched,
    Id,
    Type,
    Delta,
    Duration,
    Text,
    Number(Count),
    Into(Container),
}

/// The field that `key` names in an object at `container`. In a `whole` response, text is output;
/// events carry it in deltas, and again in complete items.
pub(super) fn field(container: Option<Container>, key: &[u8], whole: bool) -> Field {
    use Field::{Delta, Duration, Id, Into, Number, Text, Type, Unwatched};
    match (container, key) {
        (Some(Container::Root | Container::Response), key) => match key {
            b"id" => Id,
            b"type" => Type,
            b"usage" => Into(Container::Usage),
            b"duration" => Duration,
            b"data" if container == Some(Container::Root) => Into(Container::Data),
            b"delta" => Delta,
            b"response" if container == Some(Container::Root) => Into(Container::Response),
            b"choices" => Into(Container::Choices),
            b"output" if whole => Into(Container::Output),
            b"item" if !whole => Into(Container::Output),
            _ => Unwatched,
        },
        (Some(Container::Usage), key) => match key {
            b"input_tokens" | b"prompt_tokens" => Number(Count::Input),
            b"output_tokens" | b"completion_tokens" => Number(Count::Output),
            b"total_tokens" => Number(Count::Total),
            b"input_tokens_details" | b"prompt_tokens_details" => Into(Container::UsageDetails),
            b"seconds" => Duration,
            _ => Unwatched,
        },
        (Some(Container::UsageDetails), b"cached_tokens") => Number(Count::Cached),
        (Some(Container::Output), key) if holds_output(key) => Text,
        _ => Unwatched,
    }
}

/// Returns whether a member of choices, messages, deltas, items or parts holds the model's output.
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
            | b"thinking"
            | b"function_call"
            | b"audio"
            | b"transcript"
    )
}
