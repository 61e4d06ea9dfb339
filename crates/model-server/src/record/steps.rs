//! Converts the events of a response to script steps that reproduce it. The division of texts into
//! deltas and their timing are not kept.

use model::{Event, Failure, FailureKind, Item, Usage};
use serde_json::Value;

use crate::script::{
    self, CustomToolCall, Cut, ErrorStep, FunctionCall, ImageGeneration, Message, Reasoning, Step,
    ToolSearchCall, WebSearch,
};

/// The step for `event`. Items have one step, for their end; deltas and beginnings have none.
pub(super) fn step_of_event(event: Event) -> Option<Step> {
    match event {
        Event::ItemDone { item, .. } => step_of_item(item),
        Event::Completed { usage, .. } => Some(Step::Usage(scripted_usage(usage))),
        Event::Failed(failure) => Some(step_of_failure(&failure)),
        _ => None,
    }
}

fn step_of_item(item: Item) -> Option<Step> {
    Some(match item {
        Item::Message { text, phase } => Step::Message(Message {
            text,
            phase: phase.map(|phase| phase.as_str().to_owned()),
            ..Message::default()
        }),
        Item::Reasoning { summary, content } => {
            Step::Reasoning(Reasoning { summary, content, ..Reasoning::default() })
        }
        Item::FunctionCall { call_id, name, arguments } => Step::FunctionCall(FunctionCall {
            name,
            arguments: readable_arguments(arguments),
            call_id: Some(call_id),
            chunk_delay_ms: 0,
        }),
        Item::CustomToolCall { call_id, name, input } => Step::CustomToolCall(CustomToolCall {
            name,
            input,
            call_id: Some(call_id),
            chunk_delay_ms: 0,
        }),
        Item::ToolSearchCall { call_id, arguments } => Step::ToolSearchCall(ToolSearchCall {
            arguments: readable_arguments(arguments),
            call_id: Some(call_id),
        }),
        Item::WebSearch { query, action, failed } => {
            Step::WebSearch(WebSearch { query, action: Some(action), failed })
        }
        Item::ImageGeneration { status, result, revised_prompt } => {
            let result = Some(result).filter(|result| !result.is_empty());
            let failed = status.as_deref() == Some("failed");
            Step::ImageGeneration(ImageGeneration { result, revised_prompt, failed })
        }
        Item::Other { .. } => return None,
    })
}

/// An object if that is equivalent, for readability of the script; else the text itself.
fn readable_arguments(arguments: String) -> Value {
    match serde_json::from_str::<Value>(&arguments) {
        Ok(object @ Value::Object(_)) => object,
        _ => Value::String(arguments),
    }
}

fn scripted_usage(usage: Usage) -> script::Usage {
    script::Usage {
        input_tokens: usage.input,
        cached_input_tokens: usage.cached_input,
        cache_write_input_tokens: usage.cache_write,
        output_tokens: usage.output,
        reasoning_output_tokens: usage.reasoning_output,
        total_tokens: Some(usage.total),
    }
}

fn step_of_failure(failure: &Failure) -> Step {
    let code = match failure.kind {
        FailureKind::ResponseStreamDisconnected => return Step::Cut(Cut::default()),
        FailureKind::ContextWindowExceeded => "context_length_exceeded",
        FailureKind::UsageLimitExceeded => "insufficient_quota",
        FailureKind::ResponseTooManyFailedAttempts => "rate_limit_exceeded",
        FailureKind::ServerOverloaded => "server_is_overloaded",
        FailureKind::CyberPolicy => "cyber_policy",
        FailureKind::InternalServerError => "server_error",
        FailureKind::BadRequest => "invalid_prompt",
        FailureKind::Unauthorized => "invalid_api_key",
        FailureKind::HttpConnectionFailed
        | FailureKind::ResponseStreamConnectionFailed
        | FailureKind::SandboxError
        | FailureKind::Other => "other",
    };
    let code = Some(code.to_owned());
    let message = Some(failure.message.clone());
    Step::Error(ErrorStep { code, message, ..ErrorStep::default() })
}
