//! What tests of accounts share: a service that is the model's provider and the place of logins, and
//! its responses.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::login_service::{LoginService, Reply, Request};

/// A response of the model that consists of these events.
pub(crate) fn stream(events: &[Value]) -> Reply {
    stream_with("", events)
}

/// As [`stream`], with these headers, each with its end of line.
pub(crate) fn stream_with(headers: &str, events: &[Value]) -> Reply {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Reply::Raw(format!("{head}{headers}\r\n{events}"))
}

/// The event of a complete message.
pub(crate) fn message(text: &str) -> Value {
    json!({ "type": "response.output_item.done", "item": { "type": "message", "id": "m",
        "role": "assistant", "content": [{ "type": "output_text", "text": text }] } })
}

/// The last event of a response.
pub(crate) fn end() -> Value {
    json!({ "type": "response.completed", "response": { "id": "r" } })
}

/// The value of a header.
pub(crate) fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let mut lines = request.head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// An environment whose default provider and login service is `service`, with more lines of
/// configuration.
pub(crate) async fn environment(service: &LoginService, more: &str) -> TestEnvironment {
    let env = TestEnvironment::with_responses(json!([crate::says("Unused.")])).await;
    let url = &service.url;
    env.write_config(&format!(
        "model = \"gpt-5\"\nhosted_base_url = \"{url}\"\ndefault_provider_base_url = \"{url}/v1\"\n{more}\n"
    ));
    env
}
