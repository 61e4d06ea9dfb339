//! Models: the list with every member, what providers report of their models, what a model's family
//! changes in requests, and warnings about models of which nothing is known.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::{says, tool_outputs};

fn ids(page: &Value) -> Vec<&str> {
    page["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect()
}

fn tools(request: &Value) -> Vec<(&str, &str)> {
    let text = |tool: &'_ Value, name: &str| tool[name].as_str().unwrap_or_default().to_owned();
    let all = request["tools"].as_array().unwrap();
    all.iter()
        .map(|tool| (text(tool, "type").leak() as &str, text(tool, "name").leak() as &str))
        .collect()
}

/// An environment whose configuration names this catalog in place of a model.
async fn with_catalog(responses: Value, catalog: &Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    std::fs::write(env.home().join("models.json"), catalog.to_string()).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(
        &config.replace("model = \"gpt-5\"\n", "model_catalog_json = \"models.json\"\n"),
    );
    env
}

#[tokio::test]
async fn an_entry_has_every_member_of_the_specification() {
    let catalog = json!({ "models": [
        { "id": "new", "display_name": "New", "description": "The new one.", "is_default": true,
          "supported_efforts": [{ "effort": "low", "description": "Quick" },
                                { "effort": "high", "description": "Slow" }],
          "default_effort": "high", "input_modalities": ["text"], "supports_personality": true,
          "additional_speed_tiers": ["fast"], "availability_nux": { "message": "Try it" },
          "service_tiers": [{ "id": "flex", "name": "Flex", "description": "Cheap" }] },
        { "id": "old", "hidden": true,
          "upgrade_info": { "model": "new", "upgrade_copy": "Move", "model_link": "https://m",
                            "migration_markdown": "**Now**" } },
    ] });
    let env = with_catalog(json!([says("Hello.")]), &catalog).await;
    let mut peer = env.start().connect().await;
    let listed = peer.call("model/list", json!({ "includeHidden": true })).await;
    assert_eq!(
        listed,
        json!({ "nextCursor": null, "data": [
            { "id": "new", "model": "new", "displayName": "New", "description": "The new one.",
              "hidden": false, "isDefault": true, "supportsPersonality": true,
              "supportedReasoningEfforts": [
                  { "reasoningEffort": "low", "description": "Quick" },
                  { "reasoningEffort": "high", "description": "Slow" }],
              "defaultReasoningEffort": "high", "inputModalities": ["text"],
              "additionalSpeedTiers": ["fast"], "availabilityNux": { "message": "Try it" },
              "serviceTiers": [{ "id": "flex", "name": "Flex", "description": "Cheap" }] },
            { "id": "old", "model": "old", "displayName": "old", "description": "", "hidden": true,
              "isDefault": false, "supportsPersonality": false, "supportedReasoningEfforts": [],
              "defaultReasoningEffort": "medium", "inputModalities": ["text", "image"],
              "upgrade": "new", "upgradeInfo": { "model": "new", "upgradeCopy": "Move",
                  "modelLink": "https://m", "migrationMarkdown": "**Now**" } },
        ] })
    );
    for nothing in [json!({}), json!({ "cursor": null, "limit": null, "includeHidden": null })] {
        assert_eq!(ids(&peer.call("model/list", nothing).await), ["new"]);
    }
    let fault = peer.refused("model/list", json!({ "cursor": "old" })).await;
    assert!(fault.message.contains("`cursor`"), "{}", fault.message);
    let page = peer.call("model/list", json!({ "limit": u32::MAX })).await;
    assert_eq!(ids(&page), ["new"]);
}

#[tokio::test]
async fn a_cursor_belongs_to_its_list() {
    let models: Vec<Value> =
        (0..6).map(|n| json!({ "id": format!("m{n}"), "hidden": n % 2 == 1 })).collect();
    let env = with_catalog(json!([says("Hello.")]), &json!({ "models": models })).await;
    let mut peer = env.start().connect().await;
    for (includes_hidden, expected) in [(false, 3), (true, 6)] {
        let (mut cursor, mut found) = (Value::Null, Vec::new());
        loop {
            let params = json!({ "limit": 2, "cursor": cursor, "includeHidden": includes_hidden });
            let page = peer.call("model/list", params).await;
            found.extend(ids(&page).into_iter().map(str::to_owned));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
            let other = json!({ "cursor": cursor, "includeHidden": !includes_hidden });
            let fault = peer.refused("model/list", other).await;
            assert_eq!(fault.code, -32602, "{fault:?}");
            assert!(fault.message.contains("not a cursor of this list"), "{fault:?}");
        }
        found.dedup();
        assert_eq!(found.len(), expected, "{found:?}");
    }
    for cursor in ["", "m0", ".m0"] {
        let fault = peer.refused("model/list", json!({ "cursor": cursor })).await;
        assert!(fault.message.contains("not a cursor of this list"), "{fault:?}");
    }
}

#[tokio::test]
async fn a_familys_row_shapes_the_requests_of_its_models() {
    let catalog = json!({ "families": [
            { "id": "plain", "names": ["plain-*"], "patch_tool": "shell", "command_tool": "one_shot",
              "withheld_tools": ["update_plan"], "supports_web_search": false,
              "input_modalities": ["text"], "supports_parallel_tool_calls": false,
              "instructions": "You are plain." }],
        "models": [{ "id": "rich", "family": "gpt", "is_default": true },
                   { "id": "coder", "family": "gpt-codex" }] });
    let env = with_catalog(json!([says("A."), says("B."), says("C.")]), &catalog).await;
    let mut peer = env.start().connect().await;
    let config = json!({ "model_verbosity": "low", "model_reasoning_effort": "xhigh" });
    let thread = peer.start_thread(json!({ "config": config })).await;
    let turn = |model: &str| {
        let input = json!([{ "type": "text", "text": "Hi." }]);
        json!({ "threadId": thread, "input": input, "model": model })
    };
    for model in ["rich", "coder", "plain-1"] {
        assert_eq!(peer.run_turn_with(turn(model)).await["status"], "completed");
    }
    let requests = env.model().requests();
    let [rich, coder, plain] = &requests[..] else { panic!("{}", requests.len()) };
    assert!(tools(rich).contains(&("custom", "apply_patch")));
    assert!(tools(rich).contains(&("function", "exec_command")));
    assert!(tools(rich).contains(&("web_search", "")));
    assert_eq!(rich["parallel_tool_calls"], true);
    assert_eq!(
        (&rich["text"]["verbosity"], &rich["reasoning"]["effort"]),
        (&json!("low"), &json!("high"))
    );
    assert_eq!(coder["text"], Value::Null, "the family has one verbosity");
    let offered = tools(plain);
    assert!(offered.contains(&("function", "shell")));
    for missing in ["apply_patch", "exec_command", "update_plan", "view_image"] {
        assert!(offered.iter().all(|(_, name)| *name != missing), "{missing}");
    }
    assert!(offered.iter().all(|(kind, _)| *kind != "web_search"));
    assert_eq!(plain["parallel_tool_calls"], false);
    let instructions = plain["instructions"].as_str().unwrap();
    assert!(instructions.starts_with("You are plain."), "{instructions}");
    assert!(instructions.contains("apply_patch <<'EOF'"), "{instructions}");
    assert_eq!((&plain["reasoning"], &plain["text"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_model_without_the_patch_tool_edits_by_a_command() {
    let catalog = json!([{ "id": "m", "patch_tool": "shell", "command_tool": "one_shot" }]);
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch";
    let script = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    let call = crate::calls("shell", json!({ "command": ["bash", "-lc", script] }));
    let env = with_catalog(json!([call, says("Done.")]), &catalog).await;
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let written = std::fs::read_to_string(env.workspace().join("new.txt")).unwrap();
    assert_eq!(written, "hello\n", "{:?}", tool_outputs(&env));
}

/// The warnings about a thread that a connection was sent.
fn warnings(peer: &Peer) -> Vec<String> {
    let lines = peer.raw_lines().iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let warnings = lines.filter(|line| line["method"] == "warning");
    warnings.map(|line| line["params"]["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_unknown_model_works_with_stated_defaults_and_one_warning() {
    let env = TestEnvironment::with_responses(json!([says("A."), says("B."), says("C.")])).await;
    let mut peer = env.start().connect().await;
    let thread = peer.start_thread(json!({ "model": "llama-4" })).await;
    for _ in 0..3 {
        assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    }
    let sent = warnings(&peer);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].contains("`llama-4`") && sent[0].contains("128000 tokens"), "{}", sent[0]);
    let request = &env.model().requests()[0];
    assert!(tools(request).contains(&("function", "apply_patch")));
    assert_eq!(request["reasoning"], Value::Null);

    let known = peer.start_thread(json!({ "model": "gpt-5-2025-08-07" })).await;
    assert_eq!(peer.run_turn(&known, "Hi.").await["status"], "completed");
    assert_eq!(warnings(&peer).len(), 1);
    // Neither a further thread nor a later program of the home says it again.
    let second = peer.start_thread(json!({ "model": "llama-4" })).await;
    assert_eq!(peer.run_turn(&second, "Hi.").await["status"], "completed");
    assert_eq!(warnings(&peer).len(), 1);
    let mut later = env.start().connect().await;
    let third = later.start_thread(json!({ "model": "llama-4" })).await;
    assert_eq!(later.run_turn(&third, "Hi.").await["status"], "completed");
    assert_eq!(warnings(&later), [] as [&str; 0]);
    // Another cause is another warning.
    let other = later.start_thread(json!({ "model": "llama-5" })).await;
    assert_eq!(later.run_turn(&other, "Hi.").await["status"], "completed");
    assert_eq!(warnings(&later).len(), 1);
}

#[tokio::test]
async fn capabilities_of_the_provider() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let experimental = json!({ "experimentalApi": true });
    let mut peer = env.start().connect_with(experimental.clone()).await;
    let read = "modelProvider/capabilities/read";
    let service = peer.call(read, json!({})).await;
    let expected = json!({ "imageGeneration": false, "namespaceTools": true, "webSearch": true });
    assert_eq!(service, expected);
    env.write_config("model_provider = \"offline\"\n");
    let mut peer = env.start().connect_with(experimental).await;
    let offline = peer.call(read, json!({})).await;
    assert_eq!(offline["webSearch"], false);
    env.write_config("model_provider = \"ollama\"\nmodel = \"small\"\n");
    let mut peer = env.start().connect_with(json!({ "experimentalApi": true })).await;
    let local = peer.call(read, json!({})).await;
    assert_eq!(local["webSearch"], false, "the search is the service's");
}

/// A provider of which only `/models` matters: it answers each request with the next answer, and the
/// last one again.
struct ModelsServer {
    base_url: String,
    heads: mpsc::UnboundedReceiver<String>,
    answers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl ModelsServer {
    async fn serve() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, heads) = mpsc::unbounded_channel();
        let answers = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let given = answers.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                let answer = given.lock().unwrap().pop().unwrap_or_default();
                let _ = sender.send(String::from_utf8_lossy(&head).to_lowercase());
                // A client that refuses a long answer closes the connection.
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { base_url, heads, answers }
    }

    fn will_answer(&self, status: &str, headers: &str, body: &[u8]) {
        let length = body.len();
        let mut answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
             {headers}content-length: {length}\r\n\r\n"
        )
        .into_bytes();
        answer.extend_from_slice(body);
        self.answers.lock().unwrap().insert(0, answer);
    }

    fn configure(&self, env: &TestEnvironment, key: &str) {
        env.write_config(&format!(
            "model_provider = \"p\"\n[model_providers.p]\nname = \"P\"\nbase_url = \"{}\"\n{key}",
            self.base_url
        ));
    }
}

const KEY: &str = "experimental_bearer_token = \"secret-key\"\n";
const LATER_MS: i64 = 15 * 60 * 1000;

/// Lists models until the list has `id`: the provider's answer is taken in the background.
async fn list_with(peer: &mut Peer, id: &str) -> Value {
    loop {
        let listed = peer.call("model/list", json!({})).await;
        if ids(&listed).contains(&id) {
            return listed;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_providers_models_are_listed_kept_and_asked_for_again() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let mut provider = ModelsServer::serve().await;
    provider.configure(&env, KEY);
    let body = json!({ "data": [{ "id": "local-1", "name": "Local", "context_length": 9000 }] });
    provider.will_answer("200 OK", "etag: \"v1\"\r\n", body.to_string().as_bytes());
    let server = env.start();
    let mut peer = server.connect().await;
    // Only the first list of all waits for the provider.
    assert_eq!(ids(&peer.call("model/list", json!({})).await), ["local-1"]);
    let head = provider.heads.recv().await.unwrap();
    assert!(head.starts_with("get /v1/models") && head.contains("bearer secret-key"), "{head}");
    assert!(!head.contains("if-none-match"), "{head}");
    let listed = list_with(&mut peer, "local-1").await;
    assert_eq!(ids(&listed), ["local-1"]);
    assert_eq!(
        (&listed["data"][0]["displayName"], &listed["data"][0]["isDefault"]),
        (&json!("Local"), &json!(true))
    );
    assert!(provider.heads.try_recv().is_err(), "asked once in its time");

    // Another server of the home has the list from the file, and asks only when it is old.
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    list_with(&mut peer, "local-1").await;
    assert!(provider.heads.try_recv().is_err());
    env.clock.advance(LATER_MS);
    provider.will_answer("304 Not Modified", "", b"");
    peer.call("model/list", json!({})).await;
    let head = provider.heads.recv().await.unwrap();
    assert!(head.contains("if-none-match: \"v1\""), "{head}");
    assert_eq!(ids(&peer.call("model/list", json!({})).await), ["local-1"]);

    let file = std::fs::read_to_string(env.home().join("models/p.json")).unwrap();
    assert!(file.contains("local-1") && !file.contains("secret-key"), "{file}");
}

#[tokio::test]
async fn answers_that_are_no_lists_change_nothing() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let mut provider = ModelsServer::serve().await;
    provider.configure(&env, KEY);
    let html = b"<!doctype html><title>secret-key</title>";
    provider.will_answer("200 OK", "", html);
    provider.will_answer("200 OK", "", &vec![b' '; 10 << 20]);
    provider.will_answer("500 Internal Server Error", "", html);
    provider.will_answer("304 Not Modified", "", b"");
    provider.will_answer("302 Found", "location: http://127.0.0.1:1/\r\n", b"");
    provider.will_answer("200 OK", "", br#"{"data": {"id": "x"}}"#);
    let body = json!({ "data": [{ "id": "a" }, { "id": "a" }, { "id": 5 }, null, { "id": "b" }] });
    provider.will_answer("200 OK", "", body.to_string().as_bytes());
    std::fs::create_dir_all(env.home().join("models")).unwrap();
    std::fs::write(env.home().join("models/p.json"), "{ not a list").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    for _ in 0..6 {
        assert!(ids(&peer.call("model/list", json!({})).await).is_empty());
        provider.heads.recv().await.unwrap();
        env.clock.advance(LATER_MS);
    }
    assert_eq!(ids(&list_with(&mut peer, "a").await), ["a", "b"]);
}

#[tokio::test]
async fn a_provider_whose_key_is_missing_is_not_asked() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let mut provider = ModelsServer::serve().await;
    provider.configure(&env, "env_key = \"NOT_SET_ANYWHERE\"\n");
    let mut peer = env.start().connect().await;
    for _ in 0..3 {
        peer.call("model/list", json!({})).await;
        env.clock.advance(LATER_MS);
    }
    assert!(provider.heads.try_recv().is_err());
}

#[tokio::test]
async fn a_provider_without_a_key_on_this_machine_is_asked() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let provider = ModelsServer::serve().await;
    provider.configure(&env, "");
    provider.will_answer("200 OK", "", br#"{"data":[{"id":"qwen"}]}"#);
    // The first question that needs them waits for the answer.
    let mut peer = env.start().connect().await;
    let started = peer.call("thread/start", json!({})).await;
    assert_eq!(started["model"], "qwen");
}

#[tokio::test]
async fn the_first_list_of_a_provider_has_its_models() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let provider = ModelsServer::serve().await;
    provider.configure(&env, "");
    provider.will_answer("200 OK", "", br#"{"data":[{"id":"qwen"}]}"#);
    let mut peer = env.start().connect().await;
    assert_eq!(ids(&peer.call("model/list", json!({})).await), ["qwen"]);
}

#[tokio::test]
async fn a_provider_that_reports_no_models_starts_no_thread_without_one() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let provider = ModelsServer::serve().await;
    provider.configure(&env, "");
    provider.will_answer("404 Not Found", "", b"");
    let mut peer = env.start().connect().await;
    let refused = peer.refused("thread/start", json!({})).await;
    assert!(
        refused.message.contains("the models of the provider `p` are not known"),
        "{refused:?}"
    );
    let started = peer.call("thread/start", json!({ "model": "mine" })).await;
    assert_eq!(started["model"], "mine");
}

/// A configuration with a provider of a wire at the address of a [`ModelsServer`].
fn provider_of_wire(server: &ModelsServer, id: &str, wire: &str, key: &str) -> String {
    let root = server.base_url.trim_end_matches("/v1");
    format!(
        "[model_providers.{id}]\nname = \"{id}!\"\nbase_url = \"{root}\"\nwire_api = \"{wire}\"\n{key}"
    )
}

#[tokio::test]
async fn a_list_of_several_pages_is_read_to_its_end_on_each_wire() {
    for (wire, pages) in [
        (
            "messages",
            [
                (
                    r#"{"data":[{"id":"a"}],"has_more":true,"last_id":"a b"}"#,
                    "/v1/models?limit=1000 ",
                ),
                (
                    r#"{"data":[{"id":"b"}],"has_more":false}"#,
                    "/v1/models?limit=1000&after_id=a%20b ",
                ),
            ],
        ),
        (
            "gemini",
            [
                (
                    r#"{"models":[{"name":"models/a"}],"nextPageToken":"t"}"#,
                    "/v1beta/models?pagesize=1000 ",
                ),
                (
                    r#"{"models":[{"name":"models/b"}]}"#,
                    "/v1beta/models?pagesize=1000&pagetoken=t ",
                ),
            ],
        ),
    ] {
        let env = TestEnvironment::with_responses(json!([says("Unused.")])).await;
        let mut server = ModelsServer::serve().await;
        env.write_config(&format!(
            "model_provider = \"p\"\n{}",
            provider_of_wire(&server, "p", wire, KEY)
        ));
        for (body, _) in pages {
            server.will_answer("200 OK", "", body.as_bytes());
        }
        let mut peer = env.start().connect().await;
        assert_eq!(ids(&list_with(&mut peer, "b").await), ["a", "b"], "{wire}");
        let key =
            if wire == "messages" { "x-api-key: secret-key" } else { "x-goog-api-key: secret-key" };
        for (_, path) in pages {
            let head = server.heads.recv().await.unwrap();
            assert!(head.starts_with(&format!("get {path}")) && head.contains(key), "{head}");
        }
    }
}

#[tokio::test]
async fn the_models_of_each_provider_are_listed_with_its_own_errors() {
    let env = TestEnvironment::with_responses(json!([says("Unused.")])).await;
    let (good, bad) = (ModelsServer::serve().await, ModelsServer::serve().await);
    env.write_config(&format!(
        "model_provider = \"offline\"\n{}{}[model_providers.keyless]\nbase_url = \"https://h.example/v1\"\nenv_key = \"NOT_SET\"\n",
        provider_of_wire(&good, "good", "chat", KEY),
        provider_of_wire(&bad, "bad", "messages", KEY),
    ));
    let mut peer = env.start().connect_with(json!({ "experimentalApi": true })).await;
    let list = peer.call("modelProvider/list", json!({})).await;
    let of = |id: &str| {
        let all = list["data"].as_array().unwrap();
        all.iter().find(|it| it["id"] == id).unwrap_or_else(|| panic!("{list}")).clone()
    };
    assert_eq!(list["data"][0]["id"], "offline", "the one of new threads is first");
    assert_eq!(
        (&of("good")["displayName"], &of("good")["wireApi"]),
        (&json!("good!"), &json!("chat"))
    );
    assert_eq!((&of("good")["problem"], &of("bad")["isDefault"]), (&Value::Null, &json!(false)));
    assert!(of("keyless")["problem"].as_str().unwrap().contains("NOT_SET"), "{list}");
    assert_eq!((&of("ollama")["isLocal"], &of("offline")["baseUrl"]), (&json!(true), &Value::Null));

    good.will_answer("200 OK", "", br#"{"data":[{"id":"m"}]}"#);
    let listed = peer.call("model/list", json!({ "modelProvider": "good" })).await;
    assert_eq!(ids(&listed), ["m"]);
    bad.will_answer("401 Unauthorized", "", br#"{"error":{"message":"no such key"}}"#);
    let fault = peer.refused("model/list", json!({ "modelProvider": "bad" })).await;
    assert!(fault.message.contains("`bad`") && fault.message.contains("no such key"), "{fault:?}");
    // After a failure it is asked again.
    bad.will_answer("200 OK", "", br#"{"data":[{"id":"claude-haiku-4-5"}]}"#);
    let listed = peer.call("model/list", json!({ "modelProvider": "bad" })).await;
    assert_eq!(ids(&listed), ["claude-haiku-4-5"]);
    assert_eq!(listed["data"][0]["supportedReasoningEfforts"].as_array().unwrap().len(), 3);
    let fault = peer.refused("model/list", json!({ "modelProvider": "keyless" })).await;
    assert!(fault.message.contains("NOT_SET"), "{fault:?}");
    let fault = peer.refused("model/list", json!({ "modelProvider": "absent" })).await;
    assert!(fault.message.contains("no model provider `absent`"), "{fault:?}");
    // Its own list is that of the configured provider.
    assert_eq!(ids(&peer.call("model/list", json!({})).await), ["demo", "echo"]);
}

#[tokio::test]
async fn a_key_of_the_environment_is_offered_unless_a_provider_uses_it() {
    let mut env = TestEnvironment::with_responses(json!([says("Unused.")])).await;
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "sk-ant-secret"),
        ("GOOGLE_API_KEY", "AIza"),
        ("OPENROUTER_API_KEY", ""),
    ] {
        env.variables.push((name.into(), value.into()));
    }
    env.write_config("model_provider = \"offline\"\n");
    let mut peer = env.start().connect_with(json!({ "experimentalApi": true })).await;
    let list = peer.call("modelProvider/list", json!({})).await;
    let expected = json!([
        { "id": "anthropic", "displayName": "Claude", "baseUrl": "https://api.anthropic.com",
          "wireApi": "messages", "envKey": "ANTHROPIC_API_KEY" },
        { "id": "google", "displayName": "Gemini",
          "baseUrl": "https://generativelanguage.googleapis.com", "wireApi": "gemini",
          "envKey": "GOOGLE_API_KEY" },
    ]);
    assert_eq!(list["available"], expected);
    assert!(!list.to_string().contains("sk-ant-secret"));
    assert!(list["data"].as_array().unwrap().iter().all(|it| it["id"] != "anthropic"), "{list}");
    env.write_config(
        "model_provider = \"offline\"\n[model_providers.mine]\nbase_url = \"https://api.anthropic.com/v1\"\n\
         env_key = \"ANTHROPIC_API_KEY\"\nwire_api = \"auto\"\n[model_providers.google]\nbase_url = \"https://h/v1\"\n",
    );
    let mut peer = env.start().connect_with(json!({ "experimentalApi": true })).await;
    let list = peer.call("modelProvider/list", json!({})).await;
    let available = list["available"].as_array().unwrap();
    assert_eq!((available.len(), &available[0]["id"]), (1, &json!("google-2")), "the id is free");
    let mine = list["data"].as_array().unwrap().iter().find(|it| it["id"] == "mine").unwrap();
    assert_eq!((&mine["wireApi"], &mine["problem"]), (&json!("messages"), &Value::Null));
}

#[tokio::test]
async fn the_protocol_of_a_server_is_found_with_its_models() {
    let env = TestEnvironment::with_responses(json!([says("Unused.")])).await;
    let mut server = ModelsServer::serve().await;
    env.write_config("model_provider = \"offline\"\n");
    let mut peer = env.start().connect_with(json!({ "experimentalApi": true })).await;
    server.will_answer("200 OK", "", br#"{"data":[{"id":"m"},{"id":"n"}]}"#);
    server.will_answer("404 Not Found", "", b"{}");
    server.will_answer("422 Unprocessable Entity", "", b"{}");
    let params = json!({ "address": server.base_url, "apiKey": "k" });
    let found = peer.call("modelProvider/find", params).await;
    let expected = json!({ "baseUrl": server.base_url, "wireApi": "chat", "models": ["m", "n"],
        "defaultModel": "m" });
    assert_eq!(found, expected);
    for start in ["get /v1/models", "post /v1/responses", "post /v1/chat/completions"] {
        let head = server.heads.recv().await.unwrap();
        assert!(head.starts_with(start) && head.contains("bearer k"), "{head}");
    }
    let fault = peer.refused("modelProvider/find", json!({ "address": "house" })).await;
    assert_eq!(fault.code, -32602);
    assert!(fault.message.contains("begins with http"), "{fault:?}");
    let mut other = env.start().connect().await;
    let fault = other.refused("modelProvider/list", json!({})).await;
    assert!(fault.message.contains("experimentalApi"), "{fault:?}");
}

#[tokio::test]
async fn overrides_of_a_catalog_file_change_single_facts_of_any_provider() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let server = ModelsServer::serve().await;
    let path = env.home().join("models.json");
    let overrides = json!({ "overrides": [{ "id": "m", "supported_efforts":
        [{ "effort": "high", "description": "Hard" }], "display_name": "Mine" }] });
    std::fs::write(&path, overrides.to_string()).unwrap();
    env.write_config(&format!(
        "model_provider = \"p\"\nmodel_catalog_json = \"{}\"\n{}",
        path.display(),
        provider_of_wire(&server, "p", "chat", KEY)
    ));
    // The provider is still asked.
    server.will_answer("200 OK", "", br#"{"data":[{"id":"m","name":"Theirs"},{"id":"n"}]}"#);
    let mut peer = env.start().connect().await;
    let listed = list_with(&mut peer, "n").await;
    assert_eq!(ids(&listed), ["m", "n"]);
    let model = &listed["data"][0];
    assert_eq!(
        (&model["displayName"], &model["defaultReasoningEffort"]),
        (&json!("Mine"), &json!("high"))
    );
}
