//! Hooks (`hooks.json`): real commands, models and tools at every event, and what bad ones cost.

mod agent;
mod managed;
mod switched_off;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, says};

const EVENTS: [&str; 14] = [
    "SessionStart",
    "SubagentStart",
    "UserPromptSubmit",
    "PreModelRequest",
    "PostModelRequest",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SubagentStop",
    "Interrupt",
    "SessionEnd",
];

fn command(line: &str) -> Value {
    json!({ "type": "command", "command": line })
}

fn file(events: &[(&str, Value)]) -> String {
    let group = |handler: &Value| json!([{ "hooks": [handler] }]);
    let hooks = events.iter().map(|(event, handler)| ((*event).to_owned(), group(handler)));
    json!({ "hooks": hooks.collect::<serde_json::Map<_, _>>() }).to_string()
}

/// An environment with hooks of the user.
async fn env(events: &[(&str, Value)], responses: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    write_config(&env, "[features]\ncodex_hooks = true\n");
    fs::write(env.home().join("hooks.json"), file(events)).unwrap();
    env
}

/// Adds to the configuration that the environment has.
fn write_config(env: &TestEnvironment, more: &str) {
    let path = env.home().join("config.toml");
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(path, format!("{before}\n{more}")).unwrap();
}

async fn open(env: &TestEnvironment) -> (TestServer, Peer, String) {
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    (server, peer, thread)
}

/// A command that appends what it reads to `log`.
fn logs(log: &Path) -> Value {
    command(&format!("cat >> {}", log.display()))
}

fn logged(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["hook_event_name"].as_str().unwrap()).collect()
}

async fn completed(peer: &mut Peer, event: &str) -> Value {
    let fits = |params: &Value| params["run"]["eventName"] == event;
    peer.expect_where("hook/completed", fits).await["run"].clone()
}

// Effect of `features.codex_hooks`, `features.hooks`.
#[tokio::test]
async fn hooks_run_when_the_feature_is_on() {
    for (config, runs) in [
        ("", false),
        ("[features]\ncodex_hooks = true\n", true),
        ("[features]\nhooks = true\n", true),
        ("[features]\nhooks = false\n", false),
    ] {
        let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
        write_config(&env, config);
        let log = env.root().join("log");
        fs::write(env.home().join("hooks.json"), file(&[("Stop", logs(&log))])).unwrap();
        let (_server, mut peer, thread) = open(&env).await;
        peer.run_turn(&thread, "Go.").await;
        assert_eq!(!logged(&log).is_empty(), runs, "{config}");
    }
    // What the administrator pins off is off under both names.
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    write_config(&env, "[features]\nhooks = true\n");
    let log = env.root().join("log");
    fs::write(env.home().join("hooks.json"), file(&[("Stop", logs(&log))])).unwrap();
    let pinned = "[features]\ncodex_hooks = false\n";
    fs::write(env.home().join("requirements.toml"), pinned).unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(logged(&log), [] as [Value; 0]);
}

#[tokio::test]
async fn each_event_gives_its_hooks_an_object() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let all: Vec<(&str, Value)> = EVENTS.map(|event| (event, logs(log.path()))).to_vec();
    let responses = json!([
        calls("exec_command", json!({ "cmd": "echo hello" })),
        says("Done."),
        says("A summary."),
    ]);
    let env = env(&all, responses).await;
    let (server, mut peer, thread) = open(&env).await;
    peer.run_turn(&thread, "Go.").await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    server.stop().await;
    let events = logged(log.path());
    let expected = [
        "SessionStart",
        "UserPromptSubmit",
        "PreModelRequest",
        "PreToolUse",
        "PostModelRequest",
        "PostToolUse",
        "PreModelRequest",
        "PostModelRequest",
        "Stop",
        "PreCompact",
        "PreModelRequest",
        "PostCompact",
        "SessionStart",
        "SessionEnd",
    ];
    let mut found = names(&events);
    // Hooks of two events that happen at once may run in either order.
    found.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    let of = |name: &str| events.iter().find(|it| it["hook_event_name"] == name).unwrap();
    for event in &events {
        assert_eq!(event["session_id"], json!(thread));
        assert_eq!(event["transcript_path"], Value::Null);
        assert_eq!(event["cwd"], json!(env.workspace()));
        assert_eq!(event["permission_mode"], "acceptEdits");
    }
    assert_eq!(of("UserPromptSubmit")["prompt"], "Go.");
    assert_eq!(of("PreToolUse")["tool_name"], "Bash");
    assert_eq!(of("PreToolUse")["tool_input"], json!({ "command": "echo hello" }));
    let response = of("PostToolUse")["tool_response"].as_str().unwrap();
    assert!(response.contains("hello"), "{response}");
    assert_eq!(of("Stop")["last_assistant_message"], "Done.");
    assert_eq!(of("PreCompact")["trigger"], "manual");
    assert_eq!(of("SessionEnd")["reason"], "shutdown");
}

#[tokio::test]
async fn the_end_of_a_thread_says_why() {
    for (method, reason) in [("thread/archive", "archived"), ("thread/delete", "deleted")] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let env = env(&[("SessionEnd", logs(log.path()))], json!([says("Done.")])).await;
        let (_server, mut peer, thread) = open(&env).await;
        peer.run_turn(&thread, "Go.").await;
        peer.call(method, json!({ "threadId": thread })).await;
        assert_eq!(logged(log.path())[0]["reason"], reason);
    }
}

#[tokio::test]
async fn clients_see_each_run() {
    let handler =
        json!({ "type": "command", "command": "echo be brief", "statusMessage": "Looking" });
    let env = env(&[("UserPromptSubmit", handler)], json!([says("Done.")])).await;
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let started = peer.expect("hook/started").await;
    assert_eq!(
        (started["threadId"].as_str(), started["turnId"].as_str()),
        (Some(&*thread), Some(&*turn))
    );
    let run = &started["run"];
    assert_eq!(run["status"], "running");
    assert_eq!(run["statusMessage"], "Looking");
    let ended = completed(&mut peer, "userPromptSubmit").await;
    assert_eq!((&ended["id"], &ended["status"]), (&run["id"], &json!("completed")));
    assert_eq!(ended["entries"], json!([{ "kind": "context", "text": "be brief" }]));
    for (name, value) in [
        ("scope", "turn"),
        ("source", "user"),
        ("handlerType", "command"),
        ("executionMode", "sync"),
    ] {
        assert_eq!(ended[name], value, "{name}");
    }
    peer.turn_end(&turn).await;
    let input = env.model().requests()[0]["input"].to_string();
    assert!(input.contains("be brief"), "{input}");
}

#[tokio::test]
async fn a_hook_blocks_a_command_before_it_runs() {
    let guard = command("echo 'no tests on a Friday' >&2; exit 2");
    let responses = json!([calls("exec_command", json!({ "cmd": "touch ran" })), says("Done.")]);
    let env = env(&[("PreToolUse", guard)], responses).await;
    let (_server, mut peer, thread) = open(&env).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(!env.workspace().join("ran").exists());
    let input = env.model().requests()[1]["input"].to_string();
    assert!(input.contains("a hook refused the call: no tests on a Friday"), "{input}");
}

#[tokio::test]
async fn a_turn_goes_on_until_its_hook_is_content() {
    let line = "grep -q '\"stop_hook_active\":true' || { echo 'run the tests' >&2; exit 2; }";
    let env = env(&[("Stop", command(line))], json!([says("Done."), says("Tested.")])).await;
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let prompt = peer.item("hookPrompt").await;
    assert_eq!(prompt["fragments"][0]["text"], "run the tests");
    peer.turn_end(&turn).await;
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["userMessage", "agentMessage", "hookPrompt", "agentMessage"]);
}

#[tokio::test]
async fn a_model_decides_for_a_prompt_hook() {
    let handler = json!({ "type": "prompt", "prompt": "Is it tested? $ARGUMENTS" });
    // The hook's requests are a conversation of their own, with the same responses.
    let responses =
        json!([says("{\"ok\": false, \"reason\": \"not tested\"}"), says("{\"ok\": true}")]);
    let env = env(&[("Stop", handler)], responses).await;
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let run = completed(&mut peer, "stop").await;
    assert_eq!(
        (&run["status"], &run["handlerType"]),
        (&json!("blocked"), &json!("prompt")),
        "{run}"
    );
    peer.turn_end(&turn).await;
    let requests = env.model().requests();
    assert_eq!(requests.len(), 4);
    let asked = requests[1]["input"].to_string();
    assert!(asked.contains("Is it tested?") && asked.contains("hook_event_name"), "{asked}");
    assert!(requests[2]["input"].to_string().contains("not tested"));
}

#[tokio::test]
async fn bad_hooks_delay_a_turn_by_their_time_at_most() {
    let cases = [
        ("sleep 1000", "failed", "it did not end within 1 s, and was ended"),
        ("trap '' TERM; sleep 1000", "failed", "it did not end within 1 s, and was ended"),
        ("yes", "failed", "it "),
        ("head -c 2000000 /dev/zero", "failed", "it wrote more than 1048576 bytes"),
        ("head -c 2000000 /dev/zero; echo no >&2; exit 2", "blocked", "no"),
        ("exit 7", "failed", "it ended with the exit code 7"),
        ("kill -9 $$", "failed", "it was ended by a signal"),
        ("/nonexistent", "failed", "it ended with the exit code 127"),
        ("echo prose", "completed", "it printed text"),
        ("echo '{\"decision\": \"maybe\"}'", "failed", "its answer cannot be understood"),
        ("(sleep 1000 &) ; (sleep 1000 &) ; exit 0", "completed", ""),
    ];
    for (line, status, expected) in cases {
        let handler = json!({ "type": "command", "command": line, "timeout": 1 });
        let env = env(&[("Stop", handler)], json!([says("Done.")])).await;
        let (server, mut peer, thread) = open(&env).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let run = completed(&mut peer, "stop").await;
        assert_eq!(run["status"], status, "{line}: {run}");
        let text = run["entries"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with(expected), "{line}: {text}");
        let ended = peer.turn_end(&turn).await;
        // A hook that never lets the turn end uses up the scripted responses.
        assert!(status == "blocked" || ended["status"] == "completed", "{line}: {ended}");
        server.stop().await;
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_hooks_of_the_turn() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let slow = command("sleep 1000");
    let env =
        env(&[("UserPromptSubmit", slow), ("Interrupt", logs(log.path()))], json!([says("Done.")]))
            .await;
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    peer.expect("hook/started").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    let run = completed(&mut peer, "userPromptSubmit").await;
    assert_eq!(run["status"], "failed");
    completed(&mut peer, "interrupt").await;
    assert_eq!(names(&logged(log.path())), ["Interrupt"]);
}

fn trust_project(env: &TestEnvironment) {
    let path = env.workspace();
    write_config(env, &format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", path.display()));
}

fn write_project_hook(env: &TestEnvironment, events: &[(&str, Value)]) {
    let folder = env.workspace().join(".agent");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("hooks.json"), file(events)).unwrap();
}

async fn listed(peer: &mut Peer) -> Value {
    peer.call("hooks/list", json!({})).await["data"][0].clone()
}

#[tokio::test]
async fn the_files_that_a_command_names_are_part_of_what_is_trusted() {
    let env = env(&[], json!([says("1")])).await;
    trust_project(&env);
    let script = env.workspace().join("hooks/check.sh");
    fs::create_dir(env.workspace().join("hooks")).unwrap();
    let absolute = format!("sh {}", script.display());
    let lines = [
        "sh hooks/check.sh",
        "sh ./hooks/check.sh",
        &*absolute,
        "sh \"$AGENT_PROJECT_DIR/hooks/check.sh\"",
        "sh ${AGENT_PROJECT_DIR}/hooks/check.sh",
        "CHECK=1 sh -e 'hooks/check.sh'; true",
        "\"$AGENT_PROJECT_DIR\"/hooks/check.sh",
        "\".\"/hooks/check.sh",
        "sh hooks/{check,x}.sh",
        "sh -c 'cd hooks && sh \"check.sh\"'",
        "cd hooks; sh check\\.sh",
        "\"$(cat hooks/check.sh)\"",
    ];
    let server = env.start();
    let mut peer = server.connect().await;
    for line in lines {
        write_project_hook(&env, &[("Stop", command(line))]);
        let mut digests = Vec::new();
        for text in ["true", "false"] {
            fs::write(&script, text).unwrap();
            digests.push(listed(&mut peer).await["hooks"][0]["currentHash"].clone());
        }
        assert_ne!(digests[0], digests[1], "{line}");
    }
}

#[tokio::test]
async fn the_hook_of_a_project_runs_where_it_was_trusted_and_calls_no_tools() {
    let env = env(&[], json!([says("1")])).await;
    trust_project(&env);
    let root = env.workspace();
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("check.sh"), "touch trusted").unwrap();
    fs::write(root.join("sub/check.sh"), "touch unseen").unwrap();
    let tool = json!({ "type": "mcpTool", "server": "s", "tool": "t" });
    write_project_hook(&env, &[("Stop", command("sh check.sh")), ("PreToolUse", tool)]);
    let sub = root.join("sub");
    write_config(&env, &format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", sub.display()));
    let server = env.start();
    let mut peer = server.connect().await;
    let entry = listed(&mut peer).await;
    let warning = entry["warnings"][0].as_str().unwrap();
    assert!(warning.ends_with("put it into your own file"), "{entry}");
    let hooks = entry["hooks"].as_array().unwrap();
    let hook = hooks.iter().find(|it| it["eventName"] == "stop").unwrap();
    let key = format!("hooks.state.\"{}\".trusted_hash", hook["key"].as_str().unwrap());
    let change =
        json!({ "keyPath": key, "value": hook["currentHash"], "mergeStrategy": "replace" });
    peer.call("config/value/write", change).await;
    let thread = peer.start_thread(json!({ "cwd": sub, "sandbox": "workspaceWrite" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    completed(&mut peer, "stop").await;
    peer.turn_end(&turn).await;
    assert!(!root.join("unseen").exists() && !sub.join("unseen").exists());
}

#[tokio::test]
async fn a_review_runs_the_hooks_of_its_calls() {
    let guard = command("echo no >&2; exit 2");
    let responses = json!([calls("exec_command", json!({ "cmd": "touch ran" })), says("Fine.")]);
    let env = env(&[("PreToolUse", guard)], responses).await;
    let (_server, mut peer, thread) = open(&env).await;
    let target = json!({ "type": "custom", "instructions": "Look." });
    peer.call("review/start", json!({ "threadId": thread, "target": target })).await;
    completed(&mut peer, "preToolUse").await;
    peer.expect("turn/completed").await;
    assert!(!env.workspace().join("ran").exists());
}

#[tokio::test]
async fn a_compaction_of_a_resumed_thread_runs_its_hooks() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let responses = json!([says("Done."), says("A summary.")]);
    let env = env(&[("PreCompact", logs(log.path()))], responses).await;
    let (server, mut peer, thread) = open(&env).await;
    peer.run_turn(&thread, "Go.").await;
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.call("thread/compact/start", json!({ "threadId": thread })).await;
    peer.expect("turn/completed").await;
    assert_eq!(names(&logged(log.path())), ["PreCompact"]);
}

// Effect of `hooks.state.<key>.enabled`, `hooks.state.<key>.trusted_hash`.
#[tokio::test]
async fn the_hook_of_a_project_runs_once_the_user_trusts_exactly_it() {
    let env =
        env(&[("Stop", command("true"))], json!([says("1"), says("2"), says("3"), says("4")]))
            .await;
    trust_project(&env);
    write_project_hook(&env, &[("Stop", command("sh check.sh"))]);
    fs::write(env.workspace().join("check.sh"), "touch ran").unwrap();
    let ran = || fs::remove_file(env.workspace().join("ran")).is_ok();
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "One.").await;
    let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
    assert!(warning.contains("a hook of Stop is not trusted, and does not run"), "{warning}");
    peer.turn_end(&turn).await;
    assert!(!ran());
    let entry = listed(&mut peer).await;
    let [user, project] = entry["hooks"].as_array().unwrap().as_slice() else { panic!("{entry}") };
    assert_eq!((&user["source"], &user["trustStatus"]), (&json!("user"), &json!("trusted")));
    assert_eq!(
        (&project["source"], &project["trustStatus"]),
        (&json!("project"), &json!("untrusted"))
    );
    let key = format!("hooks.state.\"{}\"", project["key"].as_str().unwrap());
    let set = async |peer: &mut Peer, name: &str, value: Value| {
        let change = json!({ "keyPath": format!("{key}.{name}"), "value": value, "mergeStrategy": "replace" });
        peer.call("config/value/write", change).await;
    };
    set(&mut peer, "trusted_hash", project["currentHash"].clone()).await;
    peer.run_turn(&thread, "Two.").await;
    assert!(ran());
    // The script is part of what is trusted.
    fs::write(env.workspace().join("check.sh"), "touch ran; touch more").unwrap();
    peer.run_turn(&thread, "Three.").await;
    assert!(!ran());
    let entry = listed(&mut peer).await;
    assert_eq!(entry["hooks"][1]["trustStatus"], "modified");
    set(&mut peer, "trusted_hash", entry["hooks"][1]["currentHash"].clone()).await;
    set(&mut peer, "enabled", json!(false)).await;
    peer.run_turn(&thread, "Four.").await;
    assert!(!ran());
    assert_eq!(listed(&mut peer).await["hooks"][1]["enabled"], false);
}

#[tokio::test]
async fn who_changes_a_trusted_guard_is_not_rid_of_its_refusals_in_the_turn() {
    let guard = "echo no >&2; exit 2";
    let change = "*** Begin Patch\n*** Update File: check.sh\n@@\n-echo no >&2; exit 2\n+exit 0\n*** End Patch";
    let responses = json!([
        calls("apply_patch", json!({ "input": change })),
        calls("exec_command", json!({ "cmd": "touch ran" })),
        says("Done."),
    ]);
    let env = env(&[], responses).await;
    trust_project(&env);
    let hook = json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": [command("sh check.sh")] }] });
    write_project_hook(&env, &[]);
    let file = env.workspace().join(".agent/hooks.json");
    fs::write(&file, json!({ "hooks": hook }).to_string()).unwrap();
    fs::write(env.workspace().join("check.sh"), format!("{guard}\n")).unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    let hook = listed(&mut peer).await["hooks"][0].clone();
    let key = format!("hooks.state.\"{}\".trusted_hash", hook["key"].as_str().unwrap());
    let trust = json!({ "keyPath": key, "value": hook["currentHash"], "mergeStrategy": "replace" });
    peer.call("config/value/write", trust).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(fs::read_to_string(env.workspace().join("check.sh")).unwrap(), "exit 0\n");
    assert!(!env.workspace().join("ran").exists());
    let requests = env.model().raw_requests();
    assert!(requests[2].contains("has changed since you trusted it"), "{}", requests[2]);
}

#[tokio::test]
async fn a_project_does_not_switch_hooks_off() {
    let responses = json!([calls("exec_command", json!({ "cmd": "touch ran" })), says("Done.")]);
    let env = env(&[("PreToolUse", command("exit 2"))], responses).await;
    trust_project(&env);
    write_project_hook(&env, &[]);
    let features = "[features]\ncodex_hooks = false\nhooks = false\n";
    fs::write(env.workspace().join(".agent/config.toml"), features).unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(!env.workspace().join("ran").exists());
}

#[tokio::test]
async fn a_project_cannot_trust_its_own_hooks() {
    let env = env(&[], json!([says("1")])).await;
    trust_project(&env);
    write_project_hook(&env, &[("Stop", command("touch ran"))]);
    let file = env.workspace().join(".agent/hooks.json");
    let digest = {
        let (_server, mut peer, _) = open(&env).await;
        listed(&mut peer).await["hooks"][0]["currentHash"].as_str().unwrap().to_owned()
    };
    let state =
        format!("[hooks.state.\"{}:Stop:0:0\"]\ntrusted_hash = \"{digest}\"\n", file.display());
    fs::write(env.workspace().join(".agent/config.toml"), state).unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(!env.workspace().join("ran").exists());
    assert_eq!(listed(&mut peer).await["hooks"][0]["trustStatus"], "untrusted");
}

#[tokio::test]
async fn the_hook_of_a_project_stays_in_the_sandbox() {
    let env = env(&[], json!([says("Done.")])).await;
    trust_project(&env);
    let outside = env.root().join("outside");
    let line = format!("touch inside; touch {} || touch refused", outside.display());
    write_project_hook(&env, &[("Stop", command(&line))]);
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let hook = listed(&mut peer).await["hooks"][0].clone();
    let key = format!("hooks.state.\"{}\".trusted_hash", hook["key"].as_str().unwrap());
    let change =
        json!({ "keyPath": key, "value": hook["currentHash"], "mergeStrategy": "replace" });
    peer.call("config/value/write", change).await;
    // Also where the thread itself has no sandbox.
    let thread = peer.start_thread(json!({ "sandbox": "dangerFullAccess" })).await;
    peer.run_turn(&thread, "Go.").await;
    let made = |name: &str| env.workspace().join(name).exists();
    assert!(made("inside") && made("refused") && !outside.exists());
}

#[tokio::test]
async fn the_hook_of_a_project_does_not_consent_in_the_users_place() {
    let allow = r#"echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'"#;
    let escalated = json!({ "cmd": "true", "sandbox_permissions": "require_escalated",
        "justification": "please" });
    for of_project in [true, false] {
        let responses = json!([calls("exec_command", escalated.clone()), says("Done.")]);
        let own: &[(&str, Value)] = &[("PreToolUse", command(allow))];
        let env = env(if of_project { &[] } else { own }, responses).await;
        trust_project(&env);
        if of_project {
            write_project_hook(&env, own);
        }
        let server = env.start();
        let mut peer = server.connect().await;
        let hook = listed(&mut peer).await["hooks"][0].clone();
        let key = format!("hooks.state.\"{}\".trusted_hash", hook["key"].as_str().unwrap());
        let change =
            json!({ "keyPath": key, "value": hook["currentHash"], "mergeStrategy": "replace" });
        peer.call("config/value/write", change).await;
        let policy = json!({ "approvalPolicy": "on-request", "sandbox": "workspaceWrite" });
        let thread = peer.start_thread(policy).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        if of_project {
            let asked = peer.asked("item/commandExecution/requestApproval").await;
            peer.decide(&asked, "decline").await;
        }
        peer.turn_end(&turn).await;
    }
}

#[tokio::test]
async fn files_that_cannot_be_read_are_reported_and_stop_nothing() {
    let env = env(&[], json!([says("Done."), says("1"), says("2")])).await;
    let path = env.home().join("hooks.json");
    fs::write(&path, "{").unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
    assert!(warning.contains("the hooks cannot be read: it is not valid JSON"), "{warning}");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let entry = listed(&mut peer).await;
    assert_eq!(entry["errors"][0]["path"], json!(path));
    // What could be read before stays in force.
    fs::write(&path, file(&[("PreToolUse", command("exit 2"))])).unwrap();
    peer.run_turn(&thread, "Go.").await;
    fs::write(&path, "{").unwrap();
    let turn = peer.start_turn(&thread, "Go.").await;
    let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
    assert!(warning.ends_with("its last valid content stays in force"), "{warning}");
    peer.turn_end(&turn).await;
    // A file that would block whoever opens it.
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let entry = listed(&mut peer).await;
    assert!(!entry["errors"].as_array().unwrap().is_empty(), "{entry}");
    let many = vec!["."; 65];
    let refused = peer.refused("hooks/list", json!({ "cwds": many })).await;
    assert!(refused.message.contains("more than 64 folders"), "{refused:?}");
}
