//! Failures of each wire: their kind, whether a retry may help, and the wait that the provider asks for. Before the answer,
//! and in the middle of it.

use std::time::Duration;

use model::{
    CacheHints, CacheMarks, Event, Failure, FailureKind, OutputLimits, Prompt, Provider, Retry,
    Wire,
};
use serde_json::{Value, json};

use super::{answer, events, prompt, provider, server, stream, user};

const STARTED: &str = r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":1}}}"#;

async fn failure(wire: Wire, answer: String) -> Failure {
    let (address, _requests) = server(vec![answer]).await;
    let events = events(&provider(wire, &address), &prompt("m", &[user("x")])).await;
    let Some(Event::Failed(failure)) = events.last() else { panic!("{wire}: {events:?}") };
    failure.clone()
}

/// An answer with a status, lines of the head, and a body.
fn refused(status: &str, head: &str, body: &str) -> String {
    answer(status, "application/json", body)
        .replace("connection: close\r\n", &format!("{head}connection: close\r\n"))
}

fn anthropic(kind: &str, message: &str) -> String {
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#)
}

fn google(code: u16, status: &str, message: &str, details: &str) -> String {
    format!(
        r#"{{"error":{{"code":{code},"message":"{message}","status":"{status}","details":[{details}]}}}}"#
    )
}

const DELAY: &str = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17.5s"}"#;
const SPENT: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Limit.","details":{"error_code":"enforced_spend_limit_reached"}}}"#;

/// Wire, status, lines of the head, body; kind, whether another try may succeed, the wait in milliseconds.
type Refusal = (Wire, &'static str, &'static str, String, FailureKind, bool, Option<u64>);
/// Wire, events; the rest as in a refusal.
type Break = (Wire, Vec<String>, FailureKind, bool, Option<u64>);

/// Refusals before an answer: the kind, whether the same request may succeed later, and the wait.
#[tokio::test]
async fn refusals_say_whether_and_when_to_try_again() {
    use FailureKind::{
        BadRequest, ContextWindowExceeded as TooLong, HttpConnectionFailed as Http,
        InternalServerError as Internal, ResponseTooManyFailedAttempts as Limited,
        ServerOverloaded as Busy, UsageLimitExceeded as Spent,
    };
    let too_long = "prompt is too long: 210000 tokens > 200000 maximum";
    let beyond = "input length and `max_tokens` exceed context limit: 180000 + 64000 > 200000";
    let tokens =
        "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).";
    let chat = |code: &str, message: &str| {
        format!(r#"{{"error":{{"code":"{code}","message":"{message}"}}}}"#)
    };
    let (messages, gemini) = (Wire::Messages, Wire::Gemini);
    let rows: Vec<Refusal> = vec![
        (
            messages,
            "529 Overloaded",
            "",
            anthropic("overloaded_error", "Overloaded"),
            Busy,
            true,
            None,
        ),
        (
            messages,
            "529 Overloaded",
            "retry-after: 3\r\n",
            anthropic("overloaded_error", "Overloaded"),
            Busy,
            true,
            Some(3000),
        ),
        (messages, "503 Service Unavailable", "", "no healthy upstream".into(), Busy, true, None),
        (
            messages,
            "500 Internal Server Error",
            "",
            anthropic("api_error", "Oops"),
            Internal,
            true,
            None,
        ),
        (
            messages,
            "429 Too Many Requests",
            "retry-after-ms: 250\r\nretry-after: 9\r\n",
            anthropic("rate_limit_error", "Slow"),
            Limited,
            true,
            Some(250),
        ),
        (
            messages,
            "429 Too Many Requests",
            "x-should-retry: false\r\n",
            anthropic("rate_limit_error", "Slow"),
            Limited,
            false,
            None,
        ),
        (
            messages,
            "429 Too Many Requests",
            "x-should-retry: true\r\n",
            SPENT.into(),
            Spent,
            false,
            None,
        ),
        (
            messages,
            "400 Bad Request",
            "",
            anthropic("invalid_request_error", too_long),
            TooLong,
            false,
            None,
        ),
        (
            messages,
            "400 Bad Request",
            "",
            anthropic("invalid_request_error", beyond),
            TooLong,
            false,
            None,
        ),
        (
            messages,
            "400 Bad Request",
            "x-should-retry: true\r\n",
            anthropic("invalid_request_error", "odd"),
            BadRequest,
            true,
            None,
        ),
        (
            messages,
            "402 Payment Required",
            "",
            anthropic("billing_error", "No credit"),
            Spent,
            false,
            None,
        ),
        (
            messages,
            "404 Not Found",
            "",
            anthropic("not_found_error", "model: m"),
            Http,
            false,
            None,
        ),
        (
            gemini,
            "429 Too Many Requests",
            "",
            google(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", DELAY),
            Limited,
            true,
            Some(17_500),
        ),
        (
            gemini,
            "429 Too Many Requests",
            "",
            google(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", ""),
            Limited,
            true,
            None,
        ),
        (
            gemini,
            "503 Service Unavailable",
            "",
            google(503, "UNAVAILABLE", "Busy.", ""),
            Busy,
            true,
            None,
        ),
        (
            gemini,
            "400 Bad Request",
            "",
            google(400, "INVALID_ARGUMENT", tokens, ""),
            TooLong,
            false,
            None,
        ),
        (
            gemini,
            "400 Bad Request",
            "",
            google(400, "INVALID_ARGUMENT", "odd", DELAY),
            BadRequest,
            false,
            Some(17_500),
        ),
        (
            Wire::Chat,
            "400 Bad Request",
            "",
            chat("context_length_exceeded", "Too many."),
            TooLong,
            false,
            None,
        ),
        (
            Wire::Chat,
            "400 Bad Request",
            "",
            chat("", "This model's maximum context length is 8 tokens."),
            TooLong,
            false,
            None,
        ),
        (
            Wire::Chat,
            "429 Too Many Requests",
            "retry-after: 2\r\n",
            chat("rate_limit_exceeded", "Slow."),
            Limited,
            true,
            Some(2000),
        ),
        (
            Wire::Chat,
            "429 Too Many Requests",
            "",
            chat("insufficient_quota", "No money."),
            Spent,
            false,
            None,
        ),
        (Wire::Chat, "503 Service Unavailable", "", chat("", "Busy."), Busy, true, None),
    ];
    for (wire, status, head, body, kind, again, wait) in rows {
        let failed = failure(wire, refused(status, head, &body)).await;
        let found = (failed.kind, failed.retry == Retry::Request, failed.retry_after);
        let expect = (kind, again, wait.map(Duration::from_millis));
        assert_eq!(found, expect, "{wire} {status} {head}{body}: {}", failed.message);
    }
}

/// Failures after a stream has begun: another request may follow, by the rule for streams.
#[tokio::test]
async fn failures_in_a_stream_say_whether_and_when_to_try_again() {
    use FailureKind::{
        ContextWindowExceeded as TooLong, InternalServerError as Cut,
        ResponseTooManyFailedAttempts as Limited, ServerOverloaded as Busy,
    };
    let said = r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}"#;
    let window = r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":1}}"#;
    let slow = r#"{"error":{"code":"rate_limit_exceeded","message":"Please try again in 250ms."},"choices":[]}"#;
    let parts = r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"x"}]}}]}"#;
    let rows: Vec<Break> = vec![
        (
            Wire::Messages,
            vec![STARTED.into(), anthropic("overloaded_error", "Overloaded")],
            Busy,
            true,
            None,
        ),
        (Wire::Messages, vec![STARTED.into()], Cut, true, None),
        (Wire::Messages, vec![STARTED.into(), window.into()], TooLong, false, None),
        (Wire::Chat, vec![said.into()], Cut, true, None),
        (Wire::Chat, vec![said.into(), slow.into()], Limited, true, Some(250)),
        (Wire::Gemini, vec![parts.into()], Cut, true, None),
        (
            Wire::Gemini,
            vec![parts.into(), google(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", DELAY)],
            Limited,
            true,
            Some(17_500),
        ),
    ];
    for (wire, events, kind, again, wait) in rows {
        let failed = failure(wire, stream(&events.join("\n"))).await;
        let found = (failed.kind, failed.retry == Retry::Stream, failed.retry_after);
        let expect = (kind, again, wait.map(Duration::from_millis));
        assert_eq!(found, expect, "{wire} {events:?}: {failed:?}");
    }
}

/// The status says what a general code does not.
#[tokio::test]
async fn statuses_are_about_the_key_the_model_and_the_size() {
    use FailureKind::{ContextWindowExceeded, HttpConnectionFailed, Unauthorized};
    let general = r#"{"error":{"message":"no","type":"authentication_error","code":"invalid_request_error"}}"#;
    let key =
        google(400, "INVALID_ARGUMENT", "API key not valid.", r#"{"reason":"API_KEY_INVALID"}"#);
    let limit =
        r#"{"error":{"message":"Request too large: Limit 6000","code":"rate_limit_exceeded"}}"#;
    for (wire, status, body, kind, words) in [
        (Wire::Chat, "401 Unauthorized", general, Unauthorized, "check the key"),
        (Wire::Gemini, "400 Bad Request", &*key, Unauthorized, "check the key"),
        (Wire::Chat, "413 Content Too Large", limit, ContextWindowExceeded, "compact the thread"),
        (
            Wire::Messages,
            "413 Content Too Large",
            &*anthropic("request_too_large", "Request exceeds the maximum size"),
            ContextWindowExceeded,
            "compact the thread",
        ),
        (
            Wire::Messages,
            "404 Not Found",
            &*anthropic("not_found_error", "model: claude-opus-9"),
            HttpConnectionFailed,
            "claude-opus-9",
        ),
    ] {
        let failed = failure(wire, refused(status, "", body)).await;
        assert_eq!((failed.kind, failed.retry), (kind, Retry::Never), "{failed:?}");
        assert!(failed.message.contains(words), "{}", failed.message);
    }
}

/// A schema for a server that is not known to take any: no request is sent, and the words name the key.
#[tokio::test]
async fn a_schema_that_a_server_is_not_known_to_take() {
    let asks = Prompt {
        output_schema: Some(r#"{"type":"object","additionalProperties":false}"#.into()),
        ..prompt("glm-5", &[user("x")])
    };
    let failed = events(&provider(Wire::Messages, "http://127.0.0.1:9"), &asks).await;
    let Some(Event::Failed(failure)) = failed.last() else { panic!("{failed:?}") };
    assert_eq!((failure.kind, failure.retry), (FailureKind::Other, Retry::Never));
    let key = "`model_providers.test.structured_output = true`";
    assert!(failure.message.contains(key), "{}", failure.message);
    for (wire, takes, member) in [
        (Wire::Messages, Some(true), Some("/output_config/format/type")),
        (Wire::Chat, None, Some("/response_format/type")),
        (Wire::Chat, Some(false), None),
    ] {
        let ended = answer("200 OK", "text/event-stream", "");
        let (address, mut requests) = server(vec![ended]).await;
        let provider =
            Provider { structured_output: takes, ..Provider::clone(&provider(wire, &address)) };
        let events = events(&provider.into(), &asks).await;
        match member {
            Some(member) => {
                let body = requests.recv().await.unwrap().body;
                assert_eq!(body.pointer(member).unwrap(), "json_schema", "{wire}: {body}");
            }
            None => {
                let Some(Event::Failed(failure)) = events.last() else { panic!("{events:?}") };
                assert!(failure.message.contains(key), "{}", failure.message);
            }
        }
    }
}

/// Messages always has a limit: the model's. A limit of the user's is sent on every wire but Responses, which the hosted
/// API does not take.
#[tokio::test]
async fn the_limit_of_the_output_is_that_of_the_model() {
    for (wire, member, longest, stated) in [
        (Wire::Messages, "/max_tokens", json!(32_000), json!(900)),
        (Wire::Chat, "/max_tokens", Value::Null, json!(900)),
        (Wire::Gemini, "/generationConfig/maxOutputTokens", Value::Null, json!(900)),
        (Wire::Responses, "/max_output_tokens", Value::Null, Value::Null),
    ] {
        for (limit, expect) in [(None, longest), (Some(900), stated)] {
            let output = OutputLimits { longest: Some(32_000), stated: limit };
            let prompt = Prompt { output, ..prompt("claude-opus-4-6", &[user("x")]) };
            let ended = answer("200 OK", "text/event-stream", "");
            let (address, mut requests) = server(vec![ended]).await;
            events(&provider(wire, &address), &prompt).await;
            let body = requests.recv().await.unwrap().body;
            assert_eq!(body.pointer(member).unwrap_or(&Value::Null), &expect, "{wire}: {body}");
        }
    }
}

/// The server of a thread with a member for reasoning demanded gets it on each message of the model.
#[tokio::test]
async fn a_member_for_reasoning_is_sent_where_it_is_demanded() {
    let said = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]});
    for is_demanded in [false, true] {
        let input = [user("x"), said.clone(), user("y")];
        let prompt = Prompt { reasoning_member: is_demanded, ..prompt("kimi", &input) };
        let ended = answer("200 OK", "text/event-stream", "");
        let (address, mut requests) = server(vec![ended]).await;
        events(&provider(Wire::Chat, &address), &prompt).await;
        let body = requests.recv().await.unwrap().body.to_string();
        assert_eq!(body.contains("reasoning_content"), is_demanded, "{body}");
    }
}

/// The marks of a request follow the hints of the prompt, and the provider's own choice.
#[tokio::test]
async fn marks_of_the_prompt_cache_are_sent() {
    let said = |text: &str| serde_json::json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let input = [user("summary"), said("a"), user("b"), said("c"), user("d"), said("e"), user("f")];
    let cache = CacheHints { stable: [1, 0], passing: 0, is_long: true };
    let prompt = Prompt { cache, ..prompt("claude-sonnet-5", &input) };
    for (marks, expect) in [
        (None, (4, 0)),
        (Some(CacheMarks::None), (0, 0)),
        (Some(CacheMarks::Short), (4, 0)),
        (Some(CacheMarks::Adaptive), (4, 2)),
        (Some(CacheMarks::Long), (4, 2)),
    ] {
        let ended = answer("200 OK", "text/event-stream", "");
        let (address, mut requests) = server(vec![ended]).await;
        let provider =
            Provider { cache_marks: marks, ..Provider::clone(&provider(Wire::Messages, &address)) };
        events(&provider.into(), &prompt).await;
        let body = requests.recv().await.unwrap().body.to_string();
        let count = (body.matches("\"cache_control\"").count(), body.matches("\"1h\"").count());
        assert_eq!(count, expect, "{marks:?}: {body}");
    }
}
