//! The in-process model against the same script over HTTP, recording, and the example in the
//! documentation.

use std::sync::Arc;

use model::{Client, Event, FailureKind, Item, Options, Prompt, Provider, Secret};
use model_server::ScriptedTransport;
use model_server::script::{Script, Step};
use tokio::net::TcpListener;

fn client() -> Client {
    ScriptedTransport::client(model::Network::default())
}

fn prompt(model: &str) -> Prompt {
    let input = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Good day to you all"}]}"#;
    let cache_key = Some("thread".into());
    Prompt { model: model.into(), input: vec![input.into()], cache_key, ..Prompt::default() }
}

async fn run(provider: Provider, prompt: &Prompt) -> Vec<Event> {
    let mut stream = client().stream_prompt(&Arc::new(provider), prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
    events
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, url)
}

fn items(events: &[Event]) -> Vec<Item> {
    let item = |event: &Event| match event {
        Event::ItemDone { item, .. } => Some(item.clone()),
        _ => None,
    };
    events.iter().filter_map(item).collect()
}

#[tokio::test]
async fn echo_answers_with_the_users_text_in_pieces() {
    let events = run(Provider::offline(), &prompt("echo")).await;
    let deltas: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::TextDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deltas, ["Good day to you ", "all"]);
    assert!(matches!(events.last(), Some(Event::Completed { usage, .. }) if usage.total > 0));
}

#[tokio::test(start_paused = true)]
async fn the_demo_is_a_whole_turn_of_under_four_seconds() {
    let (client, provider) = (client(), Arc::new(Provider::offline()));
    let begin = tokio::time::Instant::now();
    let mut tools = Vec::new();
    for _ in 0..4 {
        let mut stream = client.stream_prompt(&provider, &prompt("demo"));
        while let Some(batch) = stream.next().await {
            assert!(!matches!(batch.last(), Some(Event::Failed(_))), "{batch:?}");
            tools.extend(items(&batch).into_iter().filter_map(|item| match item {
                Item::FunctionCall { name, .. } | Item::CustomToolCall { name, .. } => Some(name),
                _ => None,
            }));
        }
    }
    assert_eq!(tools, ["update_plan", "exec_command", "apply_patch", "update_plan"]);
    assert!(begin.elapsed() < std::time::Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn an_unknown_model_lists_the_known_ones() {
    for model in ["nope", "/no/such/file.json"] {
        let events = run(Provider::offline(), &prompt(model)).await;
        let [Event::Failed(failure)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(failure.kind, FailureKind::BadRequest);
        assert!(failure.message.contains(model), "{}", failure.message);
    }
    let events = run(Provider::offline(), &prompt("nope")).await;
    assert!(format!("{events:?}").contains("demo, echo"));
}

const SCRIPT: &str = r#"{"responses": [{"steps": [
    {"reasoning": "thinking"},
    {"message": {"text": "The key is sk-upstream-key.", "phase": "commentary"}},
    {"function_call": {"name": "exec_command", "arguments": {"cmd": "true"}}},
    {"custom_tool_call": {"name": "apply_patch", "input": "*** Begin Patch"}},
    {"web_search": "weather"},
    {"usage": {"input_tokens": 7, "output_tokens": 2}}]},
    {"steps": [{"error": {"status": 404, "headers": {"retry-after": "1"}, "body": {"a": 1}}}]},
    {"steps": [{"error": {"code": "server_is_overloaded", "message": "later"}}]}]}"#;

#[tokio::test]
async fn a_script_gives_the_same_events_in_process_and_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.json");
    std::fs::write(&path, SCRIPT).unwrap();
    let prompt = prompt(path.to_str().unwrap());
    let (listener, url) = listener().await;
    let script = Script::load(&path).unwrap();
    tokio::spawn(model_server::serve(listener, script, None, std::future::pending()));
    let over_http = run(Provider::http("p", url), &prompt).await;
    assert_eq!(run(Provider::offline(), &prompt).await, over_http);
    assert_eq!(items(&over_http).len(), 5);
}

#[tokio::test]
async fn a_recording_replays_the_conversation_without_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("recorded.json");
    let (upstream_listener, upstream_url) = listener().await;
    let script = Script::parse("test", SCRIPT).unwrap();
    tokio::spawn(model_server::serve(upstream_listener, script, None, std::future::pending()));
    let mut upstream = Provider::http("upstream", upstream_url);
    upstream.api_key = model::KeySource::Value(Secret::new("sk-upstream-key"));
    let (proxy, url) = listener().await;
    let recording = model_server::record(
        upstream,
        Options::default(),
        proxy,
        out.clone(),
        std::future::pending(),
    );
    tokio::spawn(recording);

    let provider = Provider::http("proxy", url);
    let prompt = prompt("m");
    let said = run(provider.clone(), &prompt).await;
    run(provider.clone(), &prompt).await;
    run(provider, &prompt).await;

    let text = std::fs::read_to_string(&out).unwrap();
    assert!(!text.contains("sk-upstream-key") && text.contains("The key is ***."), "{text}");
    let script = Script::load(&out).unwrap();
    let codes: Vec<_> = script
        .responses
        .iter()
        .filter_map(|response| match response.steps.last() {
            Some(Step::Error(error)) => Some((error.status, error.code.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(codes, [(Some(404), None), (None, Some("server_is_overloaded".to_owned()))]);

    let mut prompt = prompt;
    prompt.model = out.to_str().unwrap().into();
    let replayed = run(Provider::offline(), &prompt).await;
    assert_eq!(items(&replayed)[2..], items(&said)[2..]);
    assert_eq!(replayed.last(), said.last());
}

#[test]
fn the_documented_example_is_a_valid_script() {
    let page = include_str!("../../../../docs/model-server.md");
    let mut examples = 0;
    for block in page.split("```json\n").skip(1) {
        let json = block.split("```").next().unwrap();
        if json.contains("\"responses\"") {
            Script::parse("docs/model-server.md", json).unwrap();
            examples += 1;
        }
    }
    assert!(examples > 0);
}
