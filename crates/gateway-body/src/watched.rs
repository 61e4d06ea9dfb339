//! The observed members of a response, and their positions. Contains no parser.

use super::usage::Count;

/// The position of a member in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Root,
    /// The member `response` or `message` of an event, which is the answer so far.
    Response,
    /// An object in which only the usage matters.
    UsageHolder,
    Usage,
    InputDetails,
    OutputDetails,
    /// Input that was written to a cache, by the time that it is kept.
    CacheWrites,
    ServerTools,
    /// The model's steps of one answer.
    Iterations,
    Iteration,
    Data,
    Choices,
    Choice,
    /// Objects and arrays that hold output.
    Output,
    /// The sources of an answer of Gemini.
    Grounding,
    /// The searches that the server made for it.
    Queries,
    /// The arguments of a call, in which every text is output.
    Arguments,
    /// An error that the server reports in place of the rest of its answer.
    Failure,
}

/// Members that say in which way an answer was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    ServiceTier,
    Size,
    Quality,
}

/// The member whose value is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Unwatched,
    Id,
    Type,
    /// The progress of the answer.
    Status,
    /// The way in which the answer was made.
    Reported(Reported),
    /// The type of an item of the output.
    Item,
    Delta,
    /// The text of an error.
    Cause,
    /// Why the model stopped.
    Finish,
    Duration,
    /// The tokens that a fine-tuning job has trained.
    Trained,
    Text,
    Number(Count),
    Into(Container),
}

/// The field that `key` names in an object at `container`. In a `whole` response, text is output;
/// events carry it in deltas, and again in complete items.
pub(super) fn field(container: Option<Container>, key: &[u8], whole: bool) -> Field {
    use Field::{Cause, Delta, Duration, Finish, Id, Into, Number, Status, Text, Type, Unwatched};
    match (container, key) {
        (Some(at @ (Container::Root | Container::Response)), key) => match key {
            b"id" => Id,
            b"type" => Type,
            b"status" => Status,
            b"usage" | b"usageMetadata" => Into(Container::Usage),
            b"duration" => Duration,
            b"service_tier" => Field::Reported(Reported::ServiceTier),
            b"error" => Into(Container::Failure),
            b"delta" => Delta,
            b"choices" => Into(Container::Choices),
            b"content" if whole || at == Container::Response => Into(Container::Output),
            b"output" | b"text" | b"candidates" if whole => Into(Container::Output),
            b"item" | b"content_block" | b"candidates" if !whole => Into(Container::Output),
            b"promptFeedback" => Into(Container::Output),
            _ if at == Container::Response => Unwatched,
            b"seconds" => Duration,
            b"trained_tokens" => Field::Trained,
            b"size" => Field::Reported(Reported::Size),
            b"quality" => Field::Reported(Reported::Quality),
            b"data" => Into(Container::Data),
            b"response" | b"message" => Into(Container::Response),
            b"x_groq" | b"meta" => Into(Container::UsageHolder),
            _ => Unwatched,
        },
        (Some(Container::UsageHolder), b"usage" | b"tokens") => Into(Container::Usage),
        (Some(Container::Usage | Container::Iteration), key) => match key {
            b"input_tokens" | b"inputTokens" => Number(Count::Input),
            b"prompt_tokens" | b"promptTokenCount" => Number(Count::Prompt),
            b"output_tokens" | b"completion_tokens" | b"outputTokens" | b"candidatesTokenCount" => {
                Number(Count::Output)
            }
            b"total_tokens" | b"totalTokens" | b"totalTokenCount" => Number(Count::Total),
            b"cache_read_input_tokens" | b"cacheReadInputTokens" => Number(Count::CacheRead),
            b"cache_creation_input_tokens" | b"cacheWriteInputTokens" => Number(Count::CacheWrite),
            b"toolUsePromptTokenCount" => Number(Count::ToolPrompt),
            b"thoughtsTokenCount" => Number(Count::Thoughts),
            b"prompt_cache_hit_tokens" | b"cachedContentTokenCount" => Number(Count::Cached),
            b"input_tokens_details" | b"prompt_tokens_details" | b"input_token_details" => {
                Into(Container::InputDetails)
            }
            b"output_tokens_details" | b"completion_tokens_details" | b"output_token_details" => {
                Into(Container::OutputDetails)
            }
            b"cache_creation" => Into(Container::CacheWrites),
            b"server_tool_use" => Into(Container::ServerTools),
            b"iterations" => Into(Container::Iterations),
            b"type" if container == Some(Container::Iteration) => Type,
            b"seconds" => Duration,
            b"service_tier" => Field::Reported(Reported::ServiceTier),
            _ => Unwatched,
        },
        (Some(Container::InputDetails), b"cached_tokens") => Number(Count::Cached),
        (Some(Container::InputDetails), b"audio_tokens") => Number(Count::InputAudio),
        (Some(Container::InputDetails), b"image_tokens") => Number(Count::InputImage),
        (Some(Container::OutputDetails), b"audio_tokens") => Number(Count::OutputAudio),
        (Some(Container::OutputDetails), b"image_tokens") => Number(Count::OutputImage),
        (Some(Container::InputDetails), b"cache_write_tokens") => Number(Count::Written),
        (Some(Container::OutputDetails), b"reasoning_tokens" | b"thinking_tokens") => {
            Number(Count::Reasoning)
        }
        (Some(Container::CacheWrites), b"ephemeral_1h_input_tokens") => Number(Count::CacheWrite1h),
        (Some(Container::CacheWrites), b"ephemeral_5m_input_tokens") => Number(Count::CacheWrite5m),
        (Some(Container::ServerTools), b"web_search_requests") => Number(Count::WebSearches),
        (Some(Container::Failure), b"message") => Cause,
        (Some(Container::Arguments), _) => Into(Container::Arguments),
        (Some(Container::Output | Container::Choice), b"input" | b"args") => {
            Into(Container::Arguments)
        }
        (
            Some(Container::Output | Container::Choice),
            b"finish_reason" | b"finishReason" | b"stop_reason" | b"blockReason",
        ) => Finish,
        (Some(Container::Output), b"groundingMetadata") => Into(Container::Grounding),
        (Some(Container::Grounding), b"webSearchQueries") => Into(Container::Queries),
        (Some(Container::Choice), b"usage") => Into(Container::Usage),
        (Some(Container::Output), b"type") => Field::Item,
        (Some(Container::Output | Container::Choice), key) if holds_output(key) => Text,
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
            | b"summary"
            | b"reasoning"
            | b"reasoning_content"
            | b"thinking"
            | b"function_call"
            | b"partial_json"
            | b"parts"
            | b"functionCall"
            | b"audio"
            | b"transcript"
    )
}
