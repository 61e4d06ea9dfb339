//! The recorder in front of a provider of each wire, and the replay of what it recorded.

use std::sync::Arc;

use model::{Event, Item, KeySource, Options, Provider, Secret, Wire};
use model_server::script::{Script, Step};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::support::{Server, ask, items, prompt, user};

/// A recorder in front of `upstream`, and the file that it writes.
async fn recorder(upstream: &Server, wire: Wire, out: &std::path::Path) -> Server {
    let mut provider = Provider::clone(&upstream.provider(wire));
    provider.api_key = KeySource::Value(Secret::new("sk-upstream-key"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let out = out.to_owned();
    tokio::spawn(model_server::record(
        provider,
        Options::default(),
        listener,
        out,
        std::future::pending(),
    ));
    Server(address)
}

/// The first answer is given for the provider's key alone.
fn script(wire: Wire) -> Value {
    let (key, _) = wire::key_header(wire);
    json!({"responses": [
        {"expect": {"header": {key: "sk-upstream-key"}}, "steps": [
            {"reasoning": {"summary": ["Thinking."], "encrypted_content": "b3BhcXVl"}},
            {"message": "The key is sk-upstream-key."},
            {"function_call": {"name": "read", "arguments": {"path": "a"}, "call_id": "call_1"}},
            {"usage": {"input_tokens": 70, "cached_input_tokens": 20, "output_tokens": 9}}]},
        {"expect": {"tool_output_contains": "plum"}, "steps": [{"message": "Found."}]},
        {"steps": [{"error": {"status": 429, "code": "rate_limit_exceeded", "message": "Slow down.",
            "headers": {"retry-after-ms": "7"}}}]},
        {"steps": [{"message": "So"}, {"error": {"code": "server_is_overloaded", "message": "Busy."}}]}]})
}

/// Two requests of a turn with a call, one that is refused, and one whose stream fails.
async fn talk(provider: &Arc<Provider>, model: &str) -> Vec<(Vec<Item>, Event)> {
    let mut history = vec![user("Look.")];
    let mut seen = Vec::new();
    for _ in 0..4 {
        let events = ask(provider, &prompt(model, &history)).await;
        for (raw, item) in items(&events) {
            let id = raw["call_id"].clone();
            history.push(raw);
            if matches!(item, Item::FunctionCall { .. }) {
                history
                    .push(json!({"type": "function_call_output", "call_id": id, "output": "plum"}));
            }
        }
        let shown = items(&events).into_iter().map(|(_, item)| item);
        let shown = shown.filter(|item| !matches!(item, Item::Reasoning { summary, content } if summary.is_empty() && content.is_empty()));
        seen.push((shown.collect(), events.last().unwrap().clone()));
        if seen.len() > 1 {
            history.push(user("Go on."));
        }
    }
    seen
}

#[tokio::test]
async fn each_wire_is_recorded_and_replayed() {
    for (wire, model) in super::MODELS {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("recorded.json");
        let upstream = Server::start(&script(wire)).await;
        let proxy = recorder(&upstream, wire, &out).await;
        let said = talk(&proxy.provider(wire), model).await;
        assert!(matches!(said[1].1, Event::Completed { .. }), "{wire}: {said:?}");
        let text = std::fs::read_to_string(&out).unwrap();
        assert!(
            !text.contains("sk-upstream-key") && text.contains("The key is ***."),
            "{wire}: {text}"
        );
        let recorded = Script::load(&out).unwrap();
        assert_eq!(recorded.responses.len(), 4, "{wire}: {text}");
        let refused = &recorded.responses[2].steps[..];
        assert!(
            matches!(refused, [Step::Error(error)] if error.status == Some(429)),
            "{wire}: {text}"
        );

        let replay: Value = serde_json::from_str(&text).unwrap();
        let server = Server::start(&replay).await;
        let again = talk(&server.provider(wire), model).await;
        for (at, (said, again)) in said.iter().zip(&again).enumerate() {
            let named = |(items, end): &(Vec<Item>, Event)| {
                let items = format!("{items:?}").replace("sk-upstream-key", "***");
                let end = match end {
                    Event::Failed(failure) => {
                        format!("{:?} {:?}", failure.kind, failure.retry_after)
                    }
                    other => format!("{other:?}"),
                };
                (items, end)
            };
            assert_eq!(named(again), named(said), "{wire}, request {at}");
        }
    }
}

/// A recording of one wire is a script for the others.
#[tokio::test]
async fn a_recording_of_one_wire_plays_on_another() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recorded.json");
    let upstream = Server::start(&script(Wire::Messages)).await;
    let proxy = recorder(&upstream, Wire::Messages, &out).await;
    let said = talk(&proxy.provider(Wire::Messages), "claude-opus-4-6").await;
    let replay: Value = serde_json::from_str(&std::fs::read_to_string(&out).unwrap()).unwrap();
    let server = Server::start(&replay).await;
    let again = talk(&server.provider(Wire::Gemini), "gemini-3-pro").await;
    for (said, again) in said.iter().zip(&again) {
        let kind = |end: &Event| match end {
            Event::Failed(failure) => Some(failure.kind),
            _ => None,
        };
        assert_eq!((again.0.len(), kind(&again.1)), (said.0.len(), kind(&said.1)), "{again:?}");
    }
}

#[tokio::test]
async fn answers_without_a_stream_lists_and_counts_pass() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recorded.json");
    let upstream = Server::start(&script(Wire::Messages)).await;
    let proxy = recorder(&upstream, Wire::Messages, &out).await;
    let version = [("anthropic-version", "2023-06-01")];
    assert_eq!(proxy.get("/v1/models", &version).await.ok()["data"][0]["id"], "offline");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    assert!(
        proxy.post("/v1/messages/count_tokens", &version, body).await.ok()["input_tokens"].is_u64()
    );
    let other = proxy.post("/v1/embeddings", &[], json!({})).await;
    assert!(other.status == 404 && other.text().contains("/messages"), "{}", other.text());
    let asks = json!({"thinking": {"type": "adaptive"}});
    let whole = proxy.messages(asks).await.ok();
    assert_eq!(whole["content"][2]["type"], "tool_use");
    let recorded = Script::load(&out).unwrap();
    assert!(matches!(
        &recorded.responses[0].steps[..],
        [Step::Reasoning(_), Step::Message(_), Step::FunctionCall(_), Step::Usage(_)]
    ));
    // The version is the client's to send.
    let refused = proxy.post("/v1/messages", &[], json!({"model": "m"})).await;
    assert!(refused.text().contains("anthropic-version"), "{}", refused.text());
}
