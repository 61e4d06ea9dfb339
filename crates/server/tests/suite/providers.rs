//! Providers in turns: what reaches them of their keys, the servers of the user's machine, and WebSockets.

use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::TestEnvironment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::says;

/// A server that answers `list` with this body and everything else as `origin` does, or with 404. Returns its
/// origin, and the heads of the requests.
async fn front(
    list: &'static str,
    body: &'static str,
    origin: Option<String>,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (origin, log) = (origin.clone(), Arc::clone(&log));
            tokio::spawn(async move {
                let mut first = vec![0; 65_536];
                let Ok(read) = stream.read(&mut first).await else { return };
                let head = String::from_utf8_lossy(&first[..read]).into_owned();
                let is_list = head.starts_with(&format!("GET {list} "));
                log.lock().unwrap().push(head);
                if let (false, Some(origin)) = (is_list, origin) {
                    let host = origin.trim_start_matches("http://").trim_end_matches("/v1");
                    let mut upstream = TcpStream::connect(host).await.unwrap();
                    upstream.write_all(&first[..read]).await.unwrap();
                    // Ends with either side.
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
                    return;
                }
                let (status, body) = if is_list {
                    ("200 OK", body)
                } else {
                    ("404 Not Found", "{\"error\":\"no\"}")
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                // The rest of a request may be unread: then the client sees a reset, which is its business.
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            });
        }
    });
    (address, heads)
}

const LISTS: [(&str, &str, &str); 2] = [
    ("ollama", "/api/tags", r#"{"models":[{"name":"small:latest","model":"small:latest"}]}"#),
    ("lmstudio", "/api/v0/models", r#"{"data":[{"id":"small","type":"llm"}]}"#),
];

fn use_provider(env: &TestEnvironment, id: &str, model: &str, keys: &str) {
    env.write_config(&format!(
        "model = \"{model}\"\nmodel_provider = \"{id}\"\n[model_providers.{id}]\n\
         request_max_retries = 0\nstream_max_retries = 0\n{keys}\n"
    ));
}

/// The error of a turn.
async fn failed(env: &TestEnvironment) -> String {
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "hello").await;
    turn["error"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_server_of_this_machine_answers_turns_and_lists_its_models() {
    for (id, list, body) in LISTS {
        let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
        let (address, _) = front(list, body, Some(env.model().base_url())).await;
        use_provider(&env, id, "small", &format!("base_url = \"{address}/v1\""));
        assert_eq!(failed(&env).await, "", "{id}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_run_or_lacks_the_model_says_what_to_do() {
    for (id, list, body) in LISTS {
        let env = TestEnvironment::with_responses(json!([says("Never.")])).await;
        let (address, _) = front(list, body, None).await;
        use_provider(&env, id, "large", &format!("base_url = \"{address}/v1\""));
        let message = failed(&env).await;
        let get = if id == "ollama" { "`ollama pull large`" } else { "`lms get large`" };
        assert!(message.contains(get) && message.contains("it has small"), "{message}");
        use_provider(&env, id, "small", &format!("base_url = \"{address}/v1\""));
        assert!(failed(&env).await.contains("no Responses API"), "{id}");
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        use_provider(&env, id, "small", &format!("base_url = \"http://{closed}/v1\""));
        let message = failed(&env).await;
        let start = if id == "ollama" { "`ollama serve`" } else { "`lms server start`" };
        assert!(message.contains("is not running") && message.contains(start), "{message}");
    }
}

// Effect of `model_providers.<id>.base_url`, `model_providers.<id>.env_key`.
// Effect of `model_providers.<id>.http_headers`, `model_providers.<id>.env_http_headers`.
// Effect of `model_providers.<id>.query_params`.
#[tokio::test]
async fn every_key_of_a_provider_reaches_its_requests() {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let (address, heads) = front("/none", "", Some(env.model().base_url())).await;
    for (name, value) in [("ACME_KEY", "sk-acme"), ("ACME_TEAM", "red")] {
        env.variables.push((name.into(), value.into()));
    }
    use_provider(
        &env,
        "acme",
        "gpt-5",
        &format!(
            "base_url = \"{address}/v1\"\nenv_key = \"ACME_KEY\"\nquery_params = {{ api-version = \"7\" }}\n\
             http_headers = {{ X-A = \"b\" }}\nenv_http_headers = {{ X-Team = \"ACME_TEAM\", X-No = \"UNSET\" }}"
        ),
    );
    assert_eq!(failed(&env).await, "");
    let heads = heads.lock().unwrap().join("\n").to_lowercase();
    for part in [
        "post /v1/responses?api-version=7 http/1.1",
        "authorization: bearer sk-acme",
        "x-a: b",
        "x-team: red",
    ] {
        assert!(heads.contains(part), "{part}: {heads}");
    }
    assert!(!heads.contains("x-no"), "{heads}");
}

#[tokio::test]
async fn the_requests_of_a_thread_share_a_websocket() {
    let env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    let base_url = env.model().base_url();
    use_provider(
        &env,
        "ws",
        "gpt-5",
        &format!("base_url = \"{base_url}\"\nsupports_websockets = true"),
    );
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    for text in ["first", "second"] {
        let turn = peer.run_turn(&thread, text).await;
        assert_eq!(turn["status"], "completed", "{turn}");
    }
    let requests = env.model().requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request["type"] == "response.create"));
    assert!(requests[1]["previous_response_id"].is_string());
    assert_eq!(requests[1]["input"].as_array().unwrap().len(), 1, "{}", requests[1]["input"]);
}

/// How many requests a turn makes at a provider with these keys that answers with `step` always.
async fn requests_of(step: serde_json::Value, keys: &str) -> usize {
    let response = json!({ "steps": [step] });
    let env = TestEnvironment::with_responses(json!(vec![response; 8])).await;
    env.write_config(&format!(
        "model = \"gpt-5\"\nmodel_provider = \"acme\"\n[model_providers.acme]\nbase_url = \"{}\"\n{keys}\n",
        env.model().base_url()
    ));
    assert_ne!(failed(&env).await, "", "{keys}");
    env.model().requests().len()
}

// Effect of `model_providers.<id>.request_max_retries`, `model_providers.<id>.stream_max_retries`.
#[tokio::test]
async fn a_request_and_a_stream_are_retried_as_often_as_their_keys_say() {
    let refused = || json!({ "error": { "status": 500, "message": "broken" } });
    let cut = || json!({ "cut": "data: {\"ty" });
    for (step, keys, expect) in [
        (refused(), "request_max_retries = 0\nstream_max_retries = 0", 1),
        (refused(), "request_max_retries = 2\nstream_max_retries = 0", 3),
        (cut(), "request_max_retries = 0\nstream_max_retries = 0", 1),
        (cut(), "request_max_retries = 0\nstream_max_retries = 2", 3),
    ] {
        assert_eq!(requests_of(step, keys).await, expect, "{keys}");
    }
}

// Effect of `model_providers.<id>.stream_idle_timeout_ms`.
#[tokio::test]
async fn a_silent_stream_ends_after_its_timeout() {
    let silent = json!({ "steps": [{ "message": "Half" }, "idle"] });
    let env = TestEnvironment::with_responses(json!([silent])).await;
    let base_url = env.model().base_url();
    let keys = format!("base_url = \"{base_url}\"\nstream_idle_timeout_ms = 100");
    use_provider(&env, "acme", "gpt-5", &keys);
    // The default is five minutes.
    let limit = std::time::Duration::from_mins(1);
    let message = tokio::time::timeout(limit, failed(&env)).await.expect("the turn ends");
    assert!(
        message.contains("idle") || message.contains("silent") || message.contains("100 ms"),
        "{message}"
    );
}

// Effect of `model_providers.<id>.env_key_instructions`.
#[tokio::test]
async fn a_missing_key_is_explained_with_the_words_of_the_provider() {
    let env = TestEnvironment::with_responses(json!([says("Never.")])).await;
    let base_url = env.model().base_url();
    let keys = format!(
        "base_url = \"{base_url}\"\nenv_key = \"ACME_KEY\"\nenv_key_instructions = \"ask Ada\""
    );
    use_provider(&env, "acme", "gpt-5", &keys);
    let message = failed(&env).await;
    assert!(message.contains("ACME_KEY") && message.contains("ask Ada"), "{message}");
}

// Effect of `model_providers.<id>.tool_types`.
#[tokio::test]
async fn a_provider_of_which_nothing_is_known_is_offered_functions_alone() {
    for (keys, custom, search) in [
        ("", false, false),
        ("tool_types = []", false, false),
        ("tool_types = [\"custom\"]", true, false),
        ("tool_types = [\"web_search\"]", false, true),
        ("requires_default_auth = true\nexperimental_bearer_token = \"key\"", true, true),
    ] {
        let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
        let base_url = env.model().base_url();
        use_provider(&env, "acme", "gpt-5", &format!("base_url = \"{base_url}\"\n{keys}"));
        assert_eq!(failed(&env).await, "", "{keys}");
        let requests = env.model().requests();
        let tools = requests[0]["tools"].as_array().unwrap();
        let has = |kind: &str| tools.iter().any(|tool| tool["type"] == kind);
        assert_eq!((has("custom"), has("web_search")), (custom, search), "{keys}");
        assert!(tools.iter().any(|tool| tool["name"] == "apply_patch"), "{keys}");
    }
}

// Effect of `model_providers.<id>.structured_output`.
#[tokio::test]
async fn a_provider_that_takes_schemas_gets_one() {
    for (keys, is_sent) in [("", false), ("structured_output = true", true)] {
        let env = TestEnvironment::with_responses(json!([says("{}")])).await;
        let origin = env.model().base_url().trim_end_matches("/v1").to_owned();
        let keys = format!("base_url = \"{origin}\"\nwire_api = \"messages\"\n{keys}");
        use_provider(&env, "acme", "glm-5", &keys);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        let schema = json!({ "type": "object", "additionalProperties": false });
        let turn = json!({ "threadId": thread, "input": [{ "type": "text", "text": "x" }], "outputSchema": schema });
        let turn = peer.run_turn_with(turn).await;
        assert_eq!(turn["status"] == "completed", is_sent, "{turn}");
        if is_sent {
            let requests = env.model().raw_requests();
            assert!(requests[0].contains("\"output_config\""), "{}", requests[0]);
        } else {
            let message = turn["error"]["message"].as_str().unwrap();
            assert!(message.contains("model_providers.acme.structured_output = true"), "{message}");
            assert!(env.model().raw_requests().is_empty());
        }
    }
}

// Effect of `model_providers.<id>.one_system_message`.
#[tokio::test]
async fn a_provider_that_takes_one_system_message_gets_one() {
    for (keys, is_one) in [("", false), ("one_system_message = true", true)] {
        let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
        let base_url = env.model().base_url();
        use_provider(&env, "acme", "gpt-5", &format!("base_url = \"{base_url}\"\n{keys}"));
        assert_eq!(failed(&env).await, "", "{keys}");
        let requests = env.model().requests();
        let input = requests[0]["input"].as_array().unwrap();
        let is_system = |role: &serde_json::Value| role == "developer" || role == "system";
        assert_eq!(input.iter().any(|item| is_system(&item["role"])), !is_one, "{keys}");
    }
}

#[tokio::test]
async fn what_a_provider_refused_is_left_out_after_a_restart_and_of_a_compaction() {
    let refusal = json!({ "status": 400, "message": "'type' of tool must be 'function'" });
    let env = TestEnvironment::with_responses(json!([
        { "steps": [{ "error": refusal }] },
        says("First."),
        says("Second."),
        says("A summary."),
    ]))
    .await;
    let is_warning = |line: &&String| line.contains("this thread goes on with functions only");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "One.").await["status"], "completed");
    assert_eq!(peer.raw_lines().iter().filter(is_warning).count(), 1);
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Two.").await["status"], "completed");
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    assert_eq!(peer.raw_lines().iter().filter(is_warning).count(), 0);
    let requests = env.model().requests();
    assert_eq!(requests.len(), 4, "one more than there are turns");
    for request in &requests[1..] {
        let tools = request["tools"].as_array().into_iter().flatten();
        assert!(tools.into_iter().all(|tool| tool["type"] == "function"), "{request}");
    }
}
