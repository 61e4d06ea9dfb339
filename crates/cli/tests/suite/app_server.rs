//! `agentd app-server` over its real standard input and output.

use std::path::Path;
use std::process::Command;

use crate::common::{Running, TestEnvironment, listing, stderr, stdout};
use serde_json::{Value, json};

/// The JSON-RPC error codes in these tests.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

#[test]
fn a_conversation_in_raw_lines() {
    let env = TestEnvironment::new();
    let mut server = Running::start(&mut env.agentd(&["app-server"]));
    let early = server.call(7, "thread/list", json!({}));
    assert_eq!(early["error"], json!({"code": INVALID_REQUEST, "message": "Not initialized"}));
    let client = json!({"clientInfo": {"name": "by_hand", "version": "1"}});
    let opened = server.call(0, "initialize", client.clone());
    assert_eq!(opened["result"]["agentHome"], env.home().to_str().unwrap());
    let again = server.call(1, "initialize", client);
    assert_eq!(again["error"]["message"], "Already initialized");
    server.send(r#"{"method":"initialized"}"#);

    let thread = server.thread("echo");
    let text = json!([{"type": "text", "text": "Hello, agent."}]);
    let started = server.call(3, "turn/start", json!({"threadId": thread, "input": text}));
    assert_eq!(started["result"]["turn"]["status"], "inProgress");
    let turn = &started["result"]["turn"]["id"];
    let item = server.message(|message| {
        message["method"] == "item/completed" && message["params"]["item"]["type"] == "agentMessage"
    });
    assert_eq!(item["params"]["item"]["text"], "Hello, agent.");
    let completed = server.notification("turn/completed");
    assert_eq!(
        (&completed["turn"]["id"], &completed["turn"]["status"]),
        (turn, &"completed".into())
    );
    let listed = server.call(4, "thread/list", json!({}));
    assert_eq!(listed["result"]["data"][0]["preview"], "Hello, agent.");
    assert!(server.end().0.success());
}

#[test]
fn invalid_lines_are_answered_and_the_connection_continues() {
    let env = TestEnvironment::new();
    let mut server = Running::server(&env, &["--max-line-bytes", "2048"]);
    let check = |server: &mut Running, line: &str, code: i64| {
        server.send(line);
        let answer = server.message(|message| message.get("error").is_some());
        assert_eq!(answer["error"]["code"], code, "{line:?}: {answer}");
    };
    check(&mut server, "garbage", PARSE_ERROR);
    check(&mut server, "{\"id\":", PARSE_ERROR);
    check(&mut server, "[]", INVALID_REQUEST);
    check(&mut server, "{\"id\":1}", INVALID_REQUEST);
    check(&mut server, "{\"id\":1,\"method\":\"no/such\"}", METHOD_NOT_FOUND);
    check(&mut server, "{\"id\":1,\"method\":\"thread/read\"}", INVALID_PARAMS);
    check(&mut server, &"x".repeat(5000), INVALID_REQUEST);
    check(&mut server, "\u{0}\u{1b}[31m\u{fffd}", PARSE_ERROR);
    server.send("");
    let alive = server.call(2, "thread/loaded/list", json!({}));
    assert_eq!(alive["result"]["data"], json!([]));
    assert!(server.end().0.success());
}

/// Ends a server in the middle of a turn, and reads the thread with the next server.
fn cut_short(end: impl Fn(&mut Running)) {
    let env = TestEnvironment::new();
    let script = env.script(&json!([
        {"steps": [{"message": {"text": "I have begun. ", "phase": "commentary"}},
            {"function_call": {"name": "exec_command", "arguments": {"cmd": "sleep 100"}}}]},
    ]));
    let mut server = Running::server(&env, &[]);
    let thread = server.thread(&script);
    let text = json!([{"type": "text", "text": "Begin."}]);
    server.call(
        3,
        "turn/start",
        json!({"threadId": thread, "input": text,
        "approvalPolicy": "never", "sandboxPolicy": {"type": "dangerFullAccess"}}),
    );
    server.message(|message| {
        message["method"] == "item/started"
            && message["params"]["item"]["type"] == "commandExecution"
    });
    end(&mut server);
    let (status, rest) = server.end();
    assert!(status.success(), "{status}");
    let ends = rest.iter().filter(|line| line.contains("\"turn/completed\"")).count();
    assert!(ends <= 1, "the turn's end is reported once: {rest:?}");

    let mut server = Running::server(&env, &[]);
    let read = server.call(1, "thread/read", json!({"threadId": thread, "includeTurns": true}));
    let turns = read["result"]["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0]["status"], "interrupted");
    let kinds: Vec<&Value> =
        turns[0]["items"].as_array().unwrap().iter().map(|i| &i["type"]).collect();
    assert_eq!(kinds, ["userMessage", "agentMessage", "commandExecution"]);
    assert_eq!(turns[0]["items"][1]["text"], "I have begun. ");
}

#[test]
fn end_of_input_during_a_turn_stores_everything() {
    cut_short(Running::close_input);
}

#[test]
fn termination_during_a_turn_stores_everything() {
    cut_short(|server| server.signal("TERM"));
}

#[test]
fn written_schemas_equal_what_the_types_generate() {
    let env = TestEnvironment::new();
    for (flag, experimental) in [(None, false), (Some("--experimental"), true)] {
        for (generator, expected) in [
            ("generate-ts", protocol::generate::typescript(experimental)),
            ("generate-json-schema", protocol::generate::json_schema(experimental)),
        ] {
            let out = env.work().join(format!("{generator}-{experimental}"));
            let mut arguments = vec!["app-server", generator, "--out", out.to_str().unwrap()];
            arguments.extend(flag);
            let output = env.run(&arguments);
            assert!(output.status.success(), "{}", stderr(&output));
            let written = listing(&out);
            let expected =
                expected.into_iter().map(|(name, text)| (out.join(name), text.into_bytes()));
            assert!(written == expected.collect::<Vec<_>>(), "{generator} {flag:?}");
        }
    }
}

#[test]
fn the_example_client_works() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let env = TestEnvironment::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/client.py");
    let output = Command::new("python3")
        .arg(example)
        .arg(env!("CARGO_BIN_EXE_agentd"))
        .env("AGENT_HOME", env.home())
        .env("HOME", env.home())
        .current_dir(env.work())
        .output()
        .unwrap();
    let shown = stdout(&output);
    assert!(output.status.success(), "{shown}{}", stderr(&output));
    assert!(shown.contains("Hello from a client of ten lines"), "{shown}");
    assert!(shown.contains("completed"), "{shown}");
}

#[test]
fn the_log_follows_its_environment_variables() {
    let env = TestEnvironment::new();
    let run = |variables: &[(&str, &str)]| {
        let mut command = env.agentd(&["app-server"]);
        let mut server = Running::start(command.envs(variables.iter().copied()));
        server.call(0, "initialize", json!({"clientInfo": {"name": "by_hand", "version": "1"}}));
        let thread = server.thread("echo");
        let input = json!([{"type": "text", "text": "Hello, agent."}]);
        server.call(3, "turn/start", json!({"threadId": thread, "input": input}));
        let turn = server.notification("turn/completed")["turn"]["id"].as_str().unwrap().to_owned();
        assert!(server.end().0.success());
        let log = std::fs::read_to_string(env.home().join("log/agentd.log"));
        (thread, turn, log.unwrap_or_default())
    };

    let (_, _, log) = run(&[]);
    assert_eq!(log, "", "nothing goes wrong");

    let (thread, turn, log) = run(&[("RUST_LOG", "server=debug"), ("LOG_FORMAT", "json")]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = lines.iter().find(|line| line["message"] == "ended").unwrap();
    assert_eq!((&ended["level"], &ended["target"]), (&json!("DEBUG"), &json!("server::turn")));
    assert_eq!(
        ended["spans"],
        json!([{"name": "thread", "thread": thread}, {"name": "turn", "turn": turn}])
    );
    let answered = lines.iter().find(|line| line["message"] == "answered").unwrap();
    assert_eq!(answered["spans"][0]["name"], "request");

    let before = log.len();
    let (thread, turn, log) = run(&[("RUST_LOG", "warn,server::turn=debug")]);
    let text = &log[before..];
    let line = format!(" DEBUG server::turn: ended status=Completed turn={turn} thread={thread}\n");
    assert!(text.contains(&line), "{text}");
}

#[test]
fn an_invalid_log_filter_is_reported_and_ignored() {
    let env = TestEnvironment::new();
    let mut command = env.agentd(&["app-server"]);
    let output = command.env("RUST_LOG", "server=loud").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let stderr_text = stderr(&output);
    assert!(stderr_text.contains("RUST_LOG: `server=loud` is not a filter"), "{stderr_text}");
}
