//! Effects of configuration keys, mostly observed in the requests to the model.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{calls, runs, says, tool_outputs};

/// Adds `-c` arguments.
fn configure(env: &mut TestEnvironment, overrides: &[&str]) {
    env.config_overrides.extend(overrides.iter().map(|text| (*text).to_owned()));
}

/// Runs one turn with these overrides and returns the last request to the model.
async fn request_with(overrides: &[&str], params: Value) -> Value {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    configure(&mut env, overrides);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(params).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    env.model().requests().pop().unwrap()
}

fn tool_names(request: &Value) -> Vec<String> {
    let name =
        |tool: &Value| tool.get("name").unwrap_or(&tool["type"]).as_str().unwrap().to_owned();
    request["tools"].as_array().unwrap().iter().map(name).collect()
}

fn tool<'r>(request: &'r Value, kind: &str) -> Option<&'r Value> {
    request["tools"].as_array().unwrap().iter().find(|tool| tool["type"] == kind)
}

/// The whole input of a request to the model, as one text.
fn request_text(request: &Value) -> String {
    request["input"].to_string()
}

// Effect of `web_search`, `tools.web_search`, `tools.web_search.context_size`.
// Effect of `tools.web_search.allowed_domains`, `tools.web_search.location.country`.
// Effect of `tools.web_search.location.region`, `tools.web_search.location.city`.
// Effect of `tools.web_search.location.timezone`.
#[tokio::test]
async fn web_search() {
    let live = |request: &Value| {
        tool(request, "web_search").map(|tool| tool["external_web_access"].as_bool().unwrap())
    };
    for (overrides, params, expect) in [
        (&[][..], json!({}), Some(false)),
        (&[], json!({ "sandbox": "dangerFullAccess" }), Some(true)),
        (&["web_search=cached"], json!({ "sandbox": "dangerFullAccess" }), Some(false)),
        (&["web_search=live"], json!({}), Some(true)),
        (&["web_search=disabled"], json!({ "sandbox": "dangerFullAccess" }), None),
        (&["tools.web_search=false"], json!({}), None),
        (&["tools.web_search=true"], json!({}), Some(true)),
        (&["features.web_search_request=true"], json!({}), Some(true)),
    ] {
        assert_eq!(live(&request_with(overrides, params).await), expect, "{overrides:?}");
    }
    let request = request_with(
        &[
            "tools.web_search.context_size=high",
            "tools.web_search.allowed_domains=[\"a.example\"]",
            "tools.web_search.location={country=\"nl\", region=\"Zuid-Holland\", city=\"Delft\", \
             timezone=\"America/Argentina/Buenos_Aires\"}",
        ],
        json!({}),
    )
    .await;
    let expect = json!({
        "type": "web_search", "external_web_access": false, "search_context_size": "high",
        "filters": { "allowed_domains": ["a.example"] },
        "user_location": { "type": "approximate", "country": "NL", "region": "Zuid-Holland",
            "city": "Delft", "timezone": "America/Argentina/Buenos_Aires" },
    });
    assert_eq!(tool(&request, "web_search"), Some(&expect));
}

#[tokio::test]
async fn a_search_of_the_provider_is_an_item() {
    let searches =
        json!({ "steps": [{ "web_search": { "query": "rust" } }, { "message": "Found." }] });
    let env = TestEnvironment::with_responses(json!([searches, says("Again.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.start_turn(&thread, "Search.").await;
    let item = peer.item("webSearch").await;
    assert_eq!(item["query"], "rust");
    peer.expect("turn/completed").await;
    peer.run_turn(&thread, "And?").await;
    let request = env.model().requests().pop().unwrap();
    assert!(request_text(&request).contains("web_search_call"), "{request}");
}

// Effect of `tools.view_image`.
#[tokio::test]
async fn view_image() {
    let names = tool_names(&request_with(&["tools.view_image=false"], json!({})).await);
    assert!(!names.contains(&"view_image".to_owned()), "{names:?}");
    let call = calls("view_image", json!({ "path": "x.png" }));
    let mut env = TestEnvironment::with_responses(json!([call, says("Done.")])).await;
    configure(&mut env, &["tools.view_image=false"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Look.").await;
    assert!(tool_outputs(&env)[0].contains("no tool `view_image`"), "{:?}", tool_outputs(&env));
}

// Effect of `features.shell_tool`.
#[tokio::test]
async fn shell_tool() {
    let mut env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    configure(&mut env, &["features.shell_tool=false", "sandbox_mode=workspace-write"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(tool_outputs(&env)[0].contains("no tool `exec_command`"));
    assert!(!env.workspace().join("made").exists());
    let names = tool_names(&env.model().requests()[0]);
    assert_eq!(
        names,
        [
            "update_plan",
            "apply_patch",
            "view_image",
            "request_user_input",
            "request_permissions",
            "spawn_agent",
            "send_input",
            "resume_agent",
            "wait_agent",
            "close_agent",
            "spawn_agents_on_csv",
            "web_search"
        ]
    );
}

// Effect of `features.multi_agent`.
#[tokio::test]
async fn multi_agent() {
    for (overrides, is_offered) in [(&[][..], true), (&["features.multi_agent=false"], false)] {
        let names = tool_names(&request_with(overrides, json!({})).await);
        assert_eq!(names.contains(&"spawn_agent".to_owned()), is_offered, "{names:?}");
    }
}

// Effect of `features.unified_exec`.
#[tokio::test]
async fn unified_exec() {
    let shell = calls("shell", json!({ "command": ["sh", "-c", "echo out-of-shell"] }));
    let mut env =
        TestEnvironment::with_responses(json!([shell, runs("true"), says("Done.")])).await;
    configure(&mut env, &["experimental_use_unified_exec_tool=false"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    assert!(outputs[0].contains("out-of-shell"), "{outputs:?}");
    assert!(outputs[1].contains("no tool `exec_command`"), "{outputs:?}");
    let names = tool_names(&env.model().requests()[0]);
    assert_eq!(
        names,
        [
            "shell",
            "update_plan",
            "apply_patch",
            "view_image",
            "request_user_input",
            "request_permissions",
            "spawn_agent",
            "send_input",
            "resume_agent",
            "wait_agent",
            "close_agent",
            "spawn_agents_on_csv",
            "web_search"
        ]
    );
}

// Effect of `plan_mode_reasoning_effort`.
#[tokio::test]
async fn plan_effort() {
    let mut env = TestEnvironment::with_responses(json!([says("A plan."), says("Done.")])).await;
    configure(
        &mut env,
        &["plan_mode_reasoning_effort=high", "model_reasoning_effort=low", "model=gpt-5"],
    );
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    let settings = json!({ "model": "gpt-5" });
    for (mode, effort) in [("plan", "high"), ("default", "low")] {
        peer.run_turn_with(json!({
            "threadId": thread, "input": [{ "type": "text", "text": "Go." }],
            "collaborationMode": { "mode": mode, "settings": settings },
        }))
        .await;
        let request = env.model().requests().pop().unwrap();
        assert_eq!(request["reasoning"]["effort"], effort, "{mode}");
    }
}

// Effect of `model_supports_reasoning_summaries`.
#[tokio::test]
async fn reasoning_metadata() {
    let effort = ["model_reasoning_effort=high", "model_reasoning_summary=concise"];
    for (model, forced, sent) in [
        ("model=gpt-5", None, true),
        ("model=gpt-5", Some("model_supports_reasoning_summaries=false"), false),
        ("model=unknown-model", None, false),
        ("model=unknown-model", Some("model_supports_reasoning_summaries=true"), true),
    ] {
        let overrides: Vec<&str> = effort.into_iter().chain([model]).chain(forced).collect();
        let request = request_with(&overrides, json!({})).await;
        assert_eq!(request.get("reasoning").is_some(), sent, "{overrides:?} {request}");
    }
}

// Effect of `model_context_window`.
#[tokio::test]
async fn context_window() {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    configure(&mut env, &["model_context_window=12345"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.start_turn(&thread, "Hi.").await;
    let usage = peer.expect("thread/tokenUsage/updated").await;
    assert_eq!(usage["tokenUsage"]["modelContextWindow"], 12345);
}

// Effect of `model_catalog_json`.
#[tokio::test]
async fn model_catalog() {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let path = env.home().join("models.json");
    std::fs::write(&path, r#"{"models":[{"id":"mine","display_name":"Mine","is_default":true}]}"#)
        .unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(
        &config.replace("model = \"gpt-5\"\n", "model_catalog_json = \"models.json\"\n"),
    );
    let server = env.start();
    let mut peer = server.connect().await;
    let listed = peer.call("model/list", json!({})).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(listed["data"][0]["displayName"], "Mine");
    assert_eq!(peer.call("thread/start", json!({})).await["model"], "mine");
    for (text, said) in [("[]", "no model"), ("{", "models2.json"), (r#"[{"name":"x"}]"#, "name")] {
        std::fs::write(env.home().join("models2.json"), text).unwrap();
        configure(&mut env, &["model_catalog_json=../home/models2.json"]);
        let server = env.start();
        let mut peer = server.connect().await;
        let fault = peer.refused("thread/start", json!({})).await;
        assert!(fault.message.contains(said), "{text}: {}", fault.message);
    }
}

// Effect of `personality`, `features.personality`.
#[tokio::test]
async fn personality() {
    for (overrides, friendly) in [
        (&["personality=friendly", "model=gpt-5.2-codex"][..], true),
        (&["personality=friendly"], false),
        (&["personality=none", "model=gpt-5.2-codex"], false),
        (&["personality=friendly", "model=gpt-5.2-codex", "features.personality=false"], false),
    ] {
        let request = request_with(overrides, json!({})).await;
        assert_eq!(request_text(&request).contains("<personality>"), friendly, "{overrides:?}");
    }
}

// Effect of `service_tier`, `features.fast_mode`.
#[tokio::test]
async fn fast_mode() {
    for (overrides, tier) in [
        (&["service_tier=fast"][..], json!("fast")),
        (&["service_tier=flex"], json!("flex")),
        (&["service_tier=fast", "features.fast_mode=false"], Value::Null),
        (&["service_tier=flex", "features.fast_mode=false"], json!("flex")),
    ] {
        assert_eq!(request_with(overrides, json!({})).await["service_tier"], tier, "{overrides:?}");
    }
}

#[tokio::test]
async fn the_service_tier_of_a_turn_is_for_that_turn_only() {
    let asks = calls("exec_command", json!({ "cmd": "read line", "yield_time_ms": 250 }));
    let mut env = TestEnvironment::with_responses(json!([
        says("One."),
        asks,
        says("Two."),
        says("Three."),
        says("Four."),
        says("Five.")
    ]))
    .await;
    env.config_overrides.push("service_tier=flex".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let unrestricted = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = peer.start_thread(unrestricted).await;
    let turn = |tier: Value| {
        json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }],
            "serviceTierForTurn": tier, "turnTrigger": "timer" })
    };
    peer.run_turn_with(turn(json!("default"))).await;
    let second = peer.call("turn/start", turn(json!("fast"))).await["turn"]["id"].clone();
    peer.expect_where("item/started", |params| params["item"]["type"] == "commandExecution").await;
    // It joins, and has the tier of the running turn.
    peer.call("turn/start", turn(json!("default"))).await;
    peer.turn_end(second.as_str().unwrap()).await;
    peer.run_turn_with(turn(Value::Null)).await;
    let tiers: Vec<Value> =
        env.model().requests().iter().map(|request| request["service_tier"].clone()).collect();
    assert_eq!(tiers, [Value::Null, json!("fast"), json!("fast"), json!("flex")]);
    // `default` as the thread's tier takes the configured one back, and so do later turns.
    let set = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }], "serviceTier": "default" });
    peer.run_turn_with(set).await;
    peer.run_turn_with(turn(Value::Null)).await;
    let requests = env.model().requests();
    assert!(requests[4..].iter().all(|request| request["service_tier"].is_null()), "{requests:?}");
    assert_eq!(requests.len(), 6);
}

// Effect of `commit_attribution`.
#[tokio::test]
async fn commit_attribution() {
    let request = request_with(&["commit_attribution=\"Bot <bot@example.org>\""], json!({})).await;
    assert!(request_text(&request).contains("Co-authored-by: Bot <bot@example.org>"));
    let request = request_with(&["commit_attribution=\"\""], json!({})).await;
    assert!(!request_text(&request).contains("Co-authored-by"));
}

// Effect of `tool_output_token_limit`.
#[tokio::test]
async fn output_limit() {
    let mut env = TestEnvironment::with_responses(json!([runs("seq 1 9999"), says("Done.")])).await;
    configure(&mut env, &["tool_output_token_limit=50"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let output = &tool_outputs(&env)[0];
    assert!(output.len() < 800, "{} bytes", output.len());
}

// Effect of `show_raw_agent_reasoning`.
#[tokio::test]
async fn raw_reasoning() {
    for (overrides, shown) in [(&[][..], false), (&["show_raw_agent_reasoning=true"], true)] {
        let thinks = json!({ "steps": [
            { "reasoning": { "summary": ["In short."], "content": ["Word for word."] } },
            { "message": "Hello." },
        ] });
        let mut env = TestEnvironment::with_responses(json!([thinks])).await;
        configure(&mut env, overrides);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.start_turn(&thread, "Hi.").await;
        let item = peer.item("reasoning").await;
        let content = item["content"].as_array().is_some_and(|content| !content.is_empty());
        assert_eq!(content, shown, "{item}");
    }
}

// Effect of `background_terminal_max_timeout`.
#[tokio::test]
async fn poll_window() {
    // The id that the first command of a thread gets.
    let waits = calls("write_stdin", json!({ "session_id": 2, "yield_time_ms": 600_000 }));
    let begins = calls("exec_command", json!({ "cmd": "sleep 1000", "yield_time_ms": 250 }));
    let script = json!([begins, waits, says("Done.")]);
    let mut env = TestEnvironment::with_responses(script).await;
    configure(&mut env, &["background_terminal_max_timeout=300"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let begun = std::time::Instant::now();
    let turn = peer.run_turn(&thread, "Go.").await;
    assert_eq!(turn["status"], "completed");
    // Both calls end while the command runs; without the key, the second one would wait 300 s.
    let outputs = tool_outputs(&env);
    for output in &outputs {
        assert!(output.contains("session ID 2"), "{outputs:?}");
    }
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

// Effect of `history.persistence`, `history.max_bytes`.
#[tokio::test]
async fn history() {
    let mut env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    configure(&mut env, &["history.max_bytes=10000"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "First words.").await;
    peer.run_turn(&thread, "Second words.").await;
    let file = env.home().join("history.jsonl");
    let lines = lines_of(&file, 2).await;
    assert_eq!(lines[0]["text"], "First words.");
    assert_eq!(lines[1]["session_id"], thread);
    let kept = peer.start_thread(json!({ "config": { "history.persistence": "none" } })).await;
    peer.run_turn(&kept, "Not kept.").await;
    let ephemeral = peer.start_thread(json!({ "ephemeral": true })).await;
    peer.run_turn(&ephemeral, "Not kept either.").await;
    peer.run_turn(&thread, "Last words.").await;
    assert_eq!(lines_of(&file, 3).await[2]["text"], "Last words.");
    // The oldest prompts make room for new ones.
    let answers: Vec<Value> = ["One.", "Two.", "Three.", "Four."].map(says).to_vec();
    let mut env = TestEnvironment::with_responses(json!(answers)).await;
    configure(&mut env, &["history.max_bytes=450"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for letter in ["a", "b", "c", "d"] {
        peer.run_turn(&thread, &letter.repeat(100)).await;
    }
    server.stop().await;
    let kept = std::fs::read_to_string(env.home().join("history.jsonl")).unwrap();
    assert!(kept.contains("ddd") && !kept.contains("aaa") && kept.len() <= 450, "{kept}");
}

// Effect of `notify`.
#[tokio::test]
async fn notify() {
    let mut env = TestEnvironment::with_responses(json!([says("Answer.")])).await;
    let program = env.root().join("notify");
    let out = env.root().join("received.jsonl");
    std::fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$2\" >> {}\n", out.display()))
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    configure(&mut env, &[&format!("notify=[\"{}\", \"first\"]", program.display())]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Question?").await;
    peer.turn_end(&turn).await;
    let payload = lines_of(&out, 1).await.remove(0);
    assert_eq!(payload["type"], "agent-turn-complete");
    assert_eq!(payload["thread-id"], thread);
    assert_eq!(payload["turn-id"], turn);
    assert_eq!(payload["input-messages"], json!(["Question?"]));
    assert_eq!(payload["last-assistant-message"], "Answer.");
}

// Effect of `log_dir`.
#[tokio::test]
async fn log_dir() {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    configure(&mut env, &["notify=[\"/nowhere/at/all\"]", "log_dir=\"logs\""]);
    let (server, _guard) = env.start_logged();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert!(!env.workspace().join("logs").exists(), "nothing went wrong yet");
    peer.run_turn(&thread, "Hi.").await;
    let file = env.workspace().join("logs/agentd.log");
    let text = text_of(&file, |text| text.ends_with('\n')).await;
    assert!(text.contains("WARN server::notify: `/nowhere/at/all`"), "{text}");
    assert!(text.contains(&format!(" thread={thread}")), "{text}");
}

/// The lines of a file as JSON, as soon as it has `count` of them.
async fn lines_of(path: &std::path::Path, count: usize) -> Vec<Value> {
    let text = text_of(path, |text| text.matches('\n').count() >= count).await;
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until a file that another process writes has the expected text.
async fn text_of(path: &std::path::Path, wanted: impl Fn(&str) -> bool) -> String {
    for _ in 0..1000 {
        match std::fs::read_to_string(path) {
            Ok(text) if wanted(&text) => return text,
            // tidy: sleep until another process has written, with a bound
            _ => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
    panic!("{} did not come to be as wanted", path.display());
}

#[tokio::test]
async fn a_client_of_two_threads_gets_a_warning_once() {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    configure(
        &mut env,
        &["tui.theme=\"dark\"", "tui.animations=false", "features.web_search=true"],
    );
    let server = env.start();
    let mut peer: Peer = server.open(jsonrpc::Limits::default());
    peer.initialize(Value::Null).await;
    let notice = peer.expect("deprecationNotice").await;
    assert!(notice["summary"].as_str().unwrap().contains("features.web_search"), "{notice}");
    peer.start_thread(json!({})).await;
    peer.start_thread(json!({})).await;
    let methods = peer.settled().await;
    let warnings = methods.iter().filter(|name| *name == "configWarning").count();
    assert!(warnings <= 1, "{methods:?}");
}

/// Runs a turn whose script calls this command, and returns its output.
async fn output_of(command: &str, overrides: &[&str], params: Value) -> String {
    let mut env = TestEnvironment::with_responses(json!([runs(command), says("Done.")])).await;
    configure(&mut env, overrides);
    env.variables.push(("VISIBLE".into(), "seen".into()));
    env.variables.push(("MY_TOKEN".into(), "hidden".into()));
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "Go.").await;
    tool_outputs(&env).remove(0)
}

// Effect of `approval_policy`.
#[tokio::test]
async fn approval_policy() {
    for (policy, wire) in [
        ("untrusted", json!("unlessTrusted")),
        ("on-request", json!("onRequest")),
        ("never", json!("never")),
    ] {
        let mut env = TestEnvironment::with_responses(json!([says("Hi.")])).await;
        configure(&mut env, &[&format!("approval_policy={policy}")]);
        let server = env.start();
        let mut peer = server.connect().await;
        assert_eq!(peer.call("thread/start", json!({})).await["approvalPolicy"], wire);
    }
}

// Effect of `approval_policy.granular.sandbox_approval`, `approval_policy.granular.rules`.
#[tokio::test]
async fn granular() {
    let escalates = calls(
        "exec_command",
        json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "x" }),
    );
    let rule = "[[rules.prefix_rules]]\npattern = [{ token = \"date\" }]\ndecision = \"prompt\"\n";
    for (allowed, asked) in [("sandbox_approval", 0), ("rules", 1)] {
        let script = json!([escalates, runs("date"), says("Done.")]);
        let mut env = TestEnvironment::with_responses(script).await;
        std::fs::create_dir(env.system_dir()).unwrap();
        std::fs::write(env.system_dir().join("requirements.toml"), rule).unwrap();
        configure(&mut env, &[&format!("approval_policy.granular.{allowed}=true")]);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let question = peer.asked("item/commandExecution/requestApproval").await;
        let command = question.params["command"].as_str().unwrap().to_owned();
        assert!(command.contains(["touch", "date"][asked]), "{allowed}: {command}");
        peer.decide(&question, "decline").await;
        assert_eq!(peer.turn_end(&turn).await["status"], "completed", "the other one is not asked");
    }
}

// Effect of `sandbox_mode`.
#[tokio::test]
async fn sandbox_mode() {
    for (mode, kind) in [
        ("read-only", "readOnly"),
        ("workspace-write", "workspaceWrite"),
        ("danger-full-access", "dangerFullAccess"),
    ] {
        let output =
            output_of("touch made; ls", &[&format!("sandbox_mode={mode}")], json!({})).await;
        assert_eq!(output.contains("\nmade"), kind != "readOnly", "{mode}: {output}");
    }
}

// Effect of `sandbox_workspace_write.writable_roots`, `sandbox_workspace_write.network_access`.
// Effect of `sandbox_workspace_write.exclude_slash_tmp`.
// Effect of `sandbox_workspace_write.exclude_tmpdir_env_var`.
#[tokio::test]
async fn workspace_write() {
    let mut env = TestEnvironment::with_responses(json!([says("Hi.")])).await;
    let extra = env.root().join("extra");
    let roots = format!("sandbox_workspace_write.writable_roots=[\"{}\"]", extra.display());
    configure(
        &mut env,
        &[
            "sandbox_mode=workspace-write",
            &roots,
            "sandbox_workspace_write.network_access=true",
            "sandbox_workspace_write.exclude_slash_tmp=true",
            "sandbox_workspace_write.exclude_tmpdir_env_var=true",
        ],
    );
    let server = env.start();
    let mut peer = server.connect().await;
    let sandbox = peer.call("thread/start", json!({})).await["sandbox"].take();
    assert_eq!(sandbox["writableRoots"], json!([env.workspace(), extra]));
    for member in ["networkAccess", "excludeSlashTmp", "excludeTmpdirEnvVar"] {
        assert_eq!(sandbox[member], true, "{sandbox}");
    }
    // Commands are confined accordingly, key by key.
    let extra = tempfile::tempdir_in("/var/tmp").unwrap();
    let port = crate::managed_network::service();
    let write = |folder: &str| format!("touch {folder}/$$.made && rm {folder}/$$.made && echo did");
    let reach = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo did");
    let extra = extra.path().display().to_string();
    let tmpdir = tempfile::tempdir_in("/var/tmp").unwrap();
    let key = |text: &str| format!("sandbox_workspace_write.{text}");
    for (key, script, by_default) in [
        (key(&format!("writable_roots=[\"{extra}\"]")), write(&extra), false),
        (key("network_access=true"), reach, false),
        (key("exclude_slash_tmp=true"), write("/tmp"), true),
        (key("exclude_tmpdir_env_var=true"), write("$TMPDIR"), true),
    ] {
        for is_set in [false, true] {
            let responses = json!([runs(&script), says("Done.")]);
            let mut env = TestEnvironment::with_responses(responses).await;
            configure(&mut env, &["sandbox_mode=workspace-write", "approval_policy=never"]);
            env.config_overrides.extend(is_set.then(|| key.clone()));
            env.variables.push(("TMPDIR".into(), tmpdir.path().into()));
            let server = env.start();
            let mut peer = server.connect().await;
            let thread = peer.start_thread(json!({})).await;
            peer.run_turn(&thread, "Go.").await;
            let outputs = tool_outputs(&env);
            let did = outputs[0].contains("\ndid");
            assert_eq!(did, by_default != is_set, "{key} {is_set}: {outputs:?}");
        }
    }
}

// Effect of `shell_environment_policy.inherit`, `shell_environment_policy.ignore_default_excludes`.
// Effect of `shell_environment_policy.exclude`, `shell_environment_policy.set`.
// Effect of `shell_environment_policy.include_only`.
#[tokio::test]
async fn shell_environment() {
    let policy = |text: &str| format!("shell_environment_policy.{text}");
    for (overrides, seen, absent) in [
        (vec![], "VISIBLE=seen", "MY_TOKEN"),
        (vec![policy("ignore_default_excludes=true")], "MY_TOKEN=hidden", "nothing at all"),
        (vec![policy("inherit=core")], "PATH=", "VISIBLE"),
        (vec![policy("inherit=none"), policy("set={A=\"b\"}")], "A=b", "VISIBLE"),
        (vec![policy("exclude=[\"VIS*\"]")], "PATH=", "VISIBLE"),
        (vec![policy("include_only=[\"VIS*\"]")], "VISIBLE=seen", "HOME="),
    ] {
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let output = output_of("/usr/bin/env", &overrides, json!({})).await;
        assert!(output.contains(seen) && !output.contains(absent), "{overrides:?}: {output}");
    }
}

// Effect of `shell_environment_policy.experimental_use_profile`.
#[tokio::test]
async fn shell_profile() {
    let overrides =
        ["shell_environment_policy.experimental_use_profile=true", "features.shell_snapshot=false"];
    for (overrides, login) in [(&overrides[..], true), (&[], false)] {
        let output =
            output_of("shopt -q login_shell && echo login || echo plain", overrides, json!({}))
                .await;
        assert_eq!(output.contains("\nlogin"), login, "{overrides:?}: {output}");
    }
}

// Effect of `features.shell_snapshot`.
#[tokio::test]
async fn shell_snapshot() {
    const PROFILE: &str = "export DRAWN=$RANDOM$RANDOM$RANDOM MY_TOKEN=x\n\
        greet() { echo \"hello $1\"; }\nshopt -s expand_aliases extglob\nalias hi='greet'\n\
        echo noise; touch \"$HOME/written\"\n";
    let show = "echo \"drawn $DRAWN token ${MY_TOKEN-none} $(hi you)\"";
    let login = || calls("exec_command", json!({ "cmd": show, "login": true }));
    let plain = calls("exec_command", json!({ "cmd": "echo \"drawn ${DRAWN-none}\"" }));
    for on in [true, false] {
        let responses = json!([login(), login(), plain.clone(), says("Done.")]);
        let mut env = TestEnvironment::with_responses(responses).await;
        configure(&mut env, &[&format!("features.shell_snapshot={on}")]);
        let home = env.root().join("user");
        std::fs::write(home.join(".bash_profile"), PROFILE).unwrap();
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "Go.").await;
        let outputs = tool_outputs(&env);
        let drawn = |output: &str| output.split_once("drawn ").unwrap().1.to_owned();
        assert_eq!(drawn(&outputs[0]) == drawn(&outputs[1]), on, "{outputs:?}");
        assert!(outputs[0].contains("hello you"), "{outputs:?}");
        assert_eq!(outputs[0].contains("token none"), on, "{outputs:?}");
        assert_eq!(outputs[0].contains("noise"), !on, "{outputs:?}");
        assert!(outputs[2].contains("drawn none"), "{outputs:?}");
        assert!(!home.join("written").exists(), "the profile is confined");
    }
}

/// The profile waits at a named pipe while the turn is interrupted: the command that needs the
/// profile must not start afterwards.
#[tokio::test]
async fn a_command_that_is_killed_while_the_profile_runs_never_starts() {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    const NONBLOCKING: i32 = 0o4000;
    let login = calls("exec_command", json!({ "cmd": "touch made", "login": true }));
    let env = TestEnvironment::with_responses(json!([login, says("Done."), says("Again.")])).await;
    let home = env.root().join("user");
    let gate = home.join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    std::fs::write(home.join(".bash_profile"), "read line < \"$HOME/gate\"\n").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "sandbox": "workspaceWrite", "approvalPolicy": "never" });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let mut open = std::fs::OpenOptions::new();
    open.write(true).custom_flags(NONBLOCKING);
    // This fails until the pipe has a reader.
    let opened = async {
        loop {
            match open.open(&gate) {
                Ok(writer) => break writer,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let patience = std::time::Duration::from_secs(30);
    let mut writer = tokio::time::timeout(patience, opened).await.expect("the profile runs");
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.turn_end(&turn).await;
    // The reader has ended by now, or continues.
    let _ = writer.write_all(b"\n");
    peer.run_turn(&thread, "Again.").await;
    server.stop().await;
    assert!(!env.workspace().join("made").exists());
}

// Effect of `allow_login_shell`.
#[tokio::test]
async fn login_shell() {
    let request = request_with(&["allow_login_shell=false"], json!({})).await;
    assert!(!request["tools"].to_string().contains("\"login\""));
    let login = calls("exec_command", json!({ "cmd": "echo ran", "login": true }));
    let mut env = TestEnvironment::with_responses(json!([login, says("Done.")])).await;
    configure(&mut env, &["allow_login_shell=false"]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(tool_outputs(&env)[0].contains("allow_login_shell"), "{:?}", tool_outputs(&env));
}

// Effect of `model`, `model_reasoning_effort`, `model_reasoning_summary`, `model_verbosity`.
#[tokio::test]
async fn sampling() {
    let request = request_with(
        &[
            "model=gpt-5.2",
            "model_reasoning_effort=high",
            "model_reasoning_summary=detailed",
            "model_verbosity=low",
        ],
        json!({}),
    )
    .await;
    assert_eq!(request["model"], "gpt-5.2");
    assert_eq!(request["reasoning"], json!({ "effort": "high", "summary": "detailed" }));
    assert_eq!(request["text"]["verbosity"], "low");
}

// Effect of `model_instructions_file`, `developer_instructions`.
#[tokio::test]
async fn instructions() {
    let mut env = TestEnvironment::with_responses(json!([says("Hi.")])).await;
    std::fs::write(env.home().join("base.md"), "Base of mine.").unwrap();
    let file = env.home().join("base.md");
    configure(
        &mut env,
        &[
            &format!("model_instructions_file=\"{}\"", file.display()),
            "developer_instructions=\"Speak plainly.\"",
        ],
    );
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Hi.").await;
    let request = env.model().requests().pop().unwrap();
    assert_eq!(request["instructions"], "Base of mine.");
    assert!(request_text(&request).contains("Speak plainly."));
    std::fs::remove_file(&file).unwrap();
    let fault = peer.refused("thread/start", json!({})).await;
    assert!(fault.message.contains("base.md"), "{}", fault.message);
}

// Effect of `project_doc_fallback_filenames`, `project_doc_max_bytes`.
#[tokio::test]
async fn project_doc() {
    for (overrides, said, unsaid) in [
        (
            &["project_doc_fallback_filenames=[\"NOTES.md\"]"][..],
            "From the notes.",
            "nothing at all",
        ),
        (&[], "nothing", "From the notes."),
        (
            &["project_doc_fallback_filenames=[\"NOTES.md\"]", "project_doc_max_bytes=4"],
            "From",
            "From the",
        ),
        (
            &["project_doc_fallback_filenames=[\"NOTES.md\"]", "project_doc_max_bytes=0"],
            "nothing",
            "From",
        ),
    ] {
        let mut env = TestEnvironment::with_responses(json!([says("Hi.")])).await;
        configure(&mut env, overrides);
        std::fs::write(env.workspace().join("NOTES.md"), "From the notes.").unwrap();
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "Hi.").await;
        let text = request_text(&env.model().requests()[0]);
        assert!(said == "nothing" || text.contains(said), "{overrides:?}");
        assert!(!text.contains(unsaid), "{overrides:?}");
    }
}

// Effect of `sqlite_home`.
#[tokio::test]
async fn sqlite_home() {
    let mut env = TestEnvironment::with_responses(json!([says("Hi.")])).await;
    configure(&mut env, &["sqlite_home=\"state\""]);
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Hi.").await;
    assert!(env.workspace().join("state/threads.db").exists());
    assert!(!env.home().join("threads.db").exists());
}
