//! `agentd exec` from outside: the real program, real files and commands, a scripted model.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::{Running, TestEnvironment, stderr, stdout};
use serde_json::{Value, json};

const OFFLINE: [&str; 3] = ["exec", "-c", r#"model_provider="offline""#];

fn exec<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&OFFLINE[..], &["-m", model], more].concat()
}

fn message(text: &str) -> Value {
    json!({"steps": [{"message": {"text": text, "phase": "final_answer"}}]})
}

/// A repository with a failing test.
fn repository(env: &TestEnvironment) {
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
            .args(arguments)
            .env("HOME", env.home())
            .current_dir(env.work())
            .status()
            .unwrap();
        assert!(done.success(), "git {arguments:?}");
    };
    std::fs::write(env.work().join("value.txt"), "broken\n").unwrap();
    std::fs::write(env.work().join("test.sh"), "grep -q fixed value.txt && echo all is well\n")
        .unwrap();
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "start"]);
}

const PATCH: &str =
    "*** Begin Patch\n*** Update File: value.txt\n@@\n-broken\n+fixed\n*** End Patch\n";

fn repair(env: &TestEnvironment) -> String {
    env.script(&json!([
        {"expect": {"user_text_contains": "repair it"}, "steps": [
            {"message": {"text": "I look at it.", "phase": "commentary"}},
            {"custom_tool_call": {"name": "apply_patch", "input": PATCH}}]},
        {"expect": {"tool_output_contains": "value.txt"}, "steps": [
            {"function_call": {"name": "exec_command", "arguments": {"cmd": "sh test.sh"}}}]},
        {"expect": {"tool_output_contains": "all is well"}, "steps": [
            {"message": {"text": "It works now.", "phase": "final_answer"}}]},
    ]))
}

#[test]
fn a_repository_is_changed_and_tested_in_the_sandbox() {
    let env = TestEnvironment::new();
    repository(&env);
    let script = repair(&env);
    let output = env.run(&exec(&script, &["--sandbox", "workspace-write", "repair it"]));
    let stderr_text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{stderr_text}");
    assert_eq!(stdout(&output), "It works now.\n");
    assert_eq!(std::fs::read_to_string(env.work().join("value.txt")).unwrap(), "fixed\n");
    for part in [
        "thread  ",
        "sandbox workspace-write\n",
        "agent I look at it.\n",
        "change 1 file\n  edit value.txt  +1 -1\n  applied\n",
        "$ sh test.sh\n  all is well\n  exit 0",
        "tokens ",
    ] {
        assert!(stderr_text.contains(part), "{part:?} is not in:\n{stderr_text}");
    }
    assert!(!stderr_text.contains('\x1b'));
}

#[test]
fn without_write_permission_the_change_is_declined_and_reported() {
    let env = TestEnvironment::new();
    repository(&env);
    let script = env.script(&json!([
        {"steps": [{"custom_tool_call": {"name": "apply_patch", "input": PATCH}}]},
        message("I may not."),
    ]));
    let output = env.run(&exec(&script, &["--sandbox", "read-only", "repair it"]));
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "I may not.\n"));
    assert!(stderr(&output).contains("--sandbox workspace-write"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(env.work().join("value.txt")).unwrap(), "broken\n");
}

#[test]
fn events_are_one_json_object_a_line() {
    let env = TestEnvironment::new();
    let file = env.work().join("last.txt");
    let output = env.run(&exec("echo", &["--json", "-o", "last.txt", "hello"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let events: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event["params"].is_object()));
    let methods: Vec<&str> = events.iter().map(|e| e["method"].as_str().unwrap()).collect();
    assert_eq!(methods.first(), Some(&"thread/started"));
    for method in ["turn/started", "item/agentMessage/delta", "item/completed", "turn/completed"] {
        assert!(methods.contains(&method), "{method} is not in {methods:?}");
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello");
}

#[test]
fn the_schema_reaches_the_model() {
    let env = TestEnvironment::new();
    let schema = json!({"type": "object", "properties": {"zebra": {"type": "string"}},
        "required": ["zebra"], "additionalProperties": false});
    std::fs::write(env.work().join("schema.json"), schema.to_string()).unwrap();
    let script = env.script(&json!([{
        "expect": {"equals": {"/text/format/type": "json_schema", "/text/format/schema": schema}},
        "steps": [{"message": "{\"zebra\":\"x\"}"}]
    }]));
    let output = env.run(&exec(&script, &["--output-schema", "schema.json", "name one"]));
    assert_eq!(stdout(&output), "{\"zebra\":\"x\"}\n", "{}", stderr(&output));
}

#[test]
fn an_answer_that_breaks_its_schema_is_asked_for_once_more() {
    let env = TestEnvironment::new();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"], "additionalProperties": false});
    std::fs::write(env.work().join("schema.json"), schema.to_string()).unwrap();
    let check = |answers: [&str; 2], why: &str, code: i32| {
        let script = env.script(&json!([
            {"steps": [{"message": answers[0]}]},
            {"expect": {"user_text_contains": why, "equals": {"/text/format/schema": schema}},
                "steps": [{"message": answers[1]}]},
        ]));
        let output = env
            .run(&exec(&script, &["--output-schema", "schema.json", "-o", "answer", "name one"]));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_eq!(stdout(&output), format!("{}\n", answers[1]));
        assert_eq!(std::fs::read_to_string(env.work().join("answer")).unwrap(), answers[1]);
        assert_eq!(text.contains("even after a second request"), code == 4, "{text}");
    };
    check([r#"{"n":"x"}"#, r#"{"n":1}"#], "at /n: \"x\" is not of type", 0);
    check(["One.", r#"{"n":1}"#], "it is not JSON", 0);
    check(["{}", "[]"], "\"n\" is a required property", 4);
}

#[test]
fn a_failing_model_is_a_failure_with_advice() {
    let check = |steps: Value, expect: &[&str]| {
        let env = TestEnvironment::new();
        let script = env.script(&json!([{"steps": steps}]));
        let output = env.run(&exec(&script, &["hello"]));
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
        let stderr_text = stderr(&output);
        assert!(expect.iter().all(|part| stderr_text.contains(part)), "{expect:?}: {stderr_text}");
    };
    let refused = |status: u16| json!([{"error": {"status": status, "code": "x", "message": "no such thing"}}]);
    check(refused(400), &["the turn failed", "no such thing", "check the name of the model"]);
    check(refused(401), &["the turn failed", "OPENAI_API_KEY"]);
    let full = json!([{"error": {"code": "context_length_exceeded", "message": "too long"}}]);
    check(full, &["the turn failed", "start a new one"]);
}

#[test]
fn the_prompt_is_read_from_standard_input() {
    let env = TestEnvironment::new();
    let check = |arguments: &[&str], input: &str, code: i32, out: &str, stderr_text: &str| {
        let output = env.pipe(&exec("echo", arguments), input);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), out));
        assert!(stderr(&output).contains(stderr_text), "{}", stderr(&output));
    };
    check(&["-"], "from a pipe\n", 0, "from a pipe\n", "");
    check(&[], "from a pipe", 0, "from a pipe\n", "");
    let both = "from arguments\n\n<stdin>\nfrom a pipe\n</stdin>\n";
    check(&["from arguments"], "from a pipe", 0, both, "");
    check(&["from arguments"], "", 0, "from arguments\n", "");
    check(&["resume", "--last", "again"], "more", 0, "again\n\n<stdin>\nmore\n</stdin>\n", "");
    check(&["-"], " \n", 2, "", "the prompt is empty");
    let large = env.work().join("large");
    std::fs::write(&large, "line\n".repeat(200_000)).unwrap();
    let mut command = env.agentd(&exec("echo", &["Review"]));
    let output = command.stdin(std::fs::File::open(large).unwrap()).output().unwrap();
    let (sent, said) = (stdout(&output), stderr(&output));
    assert!(sent.ends_with("\n[the rest was cut]\n</stdin>\n"), "{}: {said}", sent.len());
    assert!(said.contains("larger than 512 KiB: only its beginning"), "{said}");
}

#[test]
fn invalid_arguments_have_exit_code_2() {
    let env = TestEnvironment::new();
    std::fs::write(env.work().join("file"), "").unwrap();
    let check = |arguments: &[&str], expect: &str| {
        let output = env.pipe(&exec("echo", arguments), "");
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
        assert!(stderr(&output).contains(expect), "{arguments:?}: {}", stderr(&output));
        let causes = stderr(&output).matches("No such file").count();
        assert!(causes <= 1, "{}", stderr(&output));
    };
    check(&[], "the prompt is empty");
    check(&["resume", "none"], "the prompt is empty");
    check(&["--cd", "nowhere", "hello"], "--cd: cannot use");
    check(&["--add-dir", "nowhere", "hello"], "--add-dir: cannot use");
    check(&["--add-dir", "file", "hello"], "file is not a folder");
    check(&["--output-schema", "none.json", "hello"], "none.json: No such file");
    check(&["--ephemeral", "resume", "none", "hello"], "is already stored");
    check(&["-c", r#"sandbox_mode="zork""#, "hello"], "sandbox_mode");
    check(&["--enable", "zork", "hello"], "zork");
    check(&["-o", "none/last", "hello"], "cannot use the folder");
    check(&["-o", "/dev/stdout", "hello"], "is a stream of this program");
}

#[test]
fn errors_name_a_remedy() {
    let env = TestEnvironment::new();
    let check = |arguments: &[&str], code: i32, expect: &str| {
        let output = env.run(arguments);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), ""));
        assert!(stderr(&output).contains(expect), "{}", stderr(&output));
    };
    check(
        &["exec", "--model-provider", "unknown", "hello"],
        2,
        "the configuration has default, lmstudio, offline",
    );
    check(&["exec", "--resume", "none", "hello"], 1, "thread not found: none");
    check(&exec("echo", &["-i", "no.png", "hello"]), 2, "no.png");
    check(&["exec", "hello"], 1, "OPENAI_API_KEY");
}

#[test]
fn a_stored_thread_is_resumed_and_an_ephemeral_one_is_not_found() {
    let env = TestEnvironment::new();
    let id_of = |output: &std::process::Output| {
        let first = stdout(output).lines().next().unwrap().to_owned();
        let started: Value = serde_json::from_str(&first).unwrap();
        started["params"]["thread"]["id"].as_str().unwrap().to_owned()
    };
    let kept = id_of(&env.run(&exec("echo", &["--json", "one"])));
    let output = env.run(&["exec", "--resume", &kept, "two"]);
    assert_eq!(stdout(&output), "two\n", "{}", stderr(&output));
    let gone = id_of(&env.run(&exec("echo", &["--json", "--ephemeral", "one"])));
    let output = env.run(&["exec", "--resume", &gone, "two"]);
    assert!(stderr(&output).contains("thread not found"), "{}", stderr(&output));
}

#[test]
fn a_model_behind_http_needs_a_key_and_an_address() {
    let env = TestEnvironment::new();
    let server = Running::start(&mut env.agentd(&["model-server", "--script", "echo"]));
    let line = server.line_with("http://");
    let (_, address) = line.split_once("listening on ").unwrap();
    let address = format!("default_provider_base_url={address}");
    let mut command = env.agentd(&["exec", "-c", &address, "over HTTP"]);
    let output = command.env("OPENAI_API_KEY", "key").output().unwrap();
    assert_eq!(stdout(&output), "over HTTP\n", "{}", stderr(&output));
}

#[test]
fn an_interrupt_ends_the_turn_and_keeps_the_thread() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let env = TestEnvironment::new();
        let script = env.script(&json!([{"steps": ["idle"]}, message("Again.")]));
        let mut running = Running::start(&mut env.agentd(&exec(&script, &["--json", "wait"])));
        running.close_input();
        let started = running.notification("turn/started");
        running.signal(signal);
        let ended = running.notification("turn/completed");
        assert_eq!(ended["turn"]["status"], "interrupted");
        let (status, _) = running.end();
        assert_eq!(status.code(), Some(code));
        let id = started["threadId"].as_str().unwrap();
        let output = env.run(&exec("echo", &["--resume", id, "again"]));
        assert_eq!(stdout(&output), "again\n", "{}", stderr(&output));
    }
}

#[test]
fn a_closed_standard_output_ends_the_turn_quietly() {
    let env = TestEnvironment::new();
    let script = env.script(&json!([{"steps": [{"message": {"text": "word ", "repeat": 2000}}]}]));
    let mut command = env.agentd(&exec(&script, &["--json", "hello"]));
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(141), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(!said.contains("panicked") && !said.contains("standard output"), "{said}");
}

// Effect of `hide_agent_reasoning`.
#[test]
fn hidden_reasoning() {
    let env = TestEnvironment::new();
    let script = env.script(&json!([{"steps": [
        {"reasoning": "**Deep thoughts**"},
        {"message": {"text": "Done.", "phase": "final_answer"}},
    ]}]));
    for (more, shown) in [(&[][..], true), (&["-c", "hide_agent_reasoning=true"], false)] {
        let output = env.run(&[&exec(&script, &["go"]), more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("Deep thoughts"), shown, "{}", stderr(&output));
    }
}

/// A model server of this machine, which lists one model and answers every request with `hi`. Returns its port
/// and the bodies of the requests.
fn local_server(list: &'static str, models: &'static str) -> (u16, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let bodies = Arc::<Mutex<Vec<Value>>>::default();
    let log = Arc::clone(&bodies);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                head.push_str(&std::mem::take(&mut line));
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let (status, kind, answer) = if head.starts_with("POST /v1/responses ") {
                log.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                let item = json!({"type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": "hi"}]});
                let events = [
                    json!({"type": "response.created", "response": {"id": "r"}}),
                    json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                    json!({"type": "response.completed", "response": {"id": "r"}}),
                ];
                let stream: String =
                    events.iter().map(|event| format!("data: {event}\n\n")).collect();
                ("200 OK", "text/event-stream", stream)
            } else if head.starts_with(&format!("GET {list} ")) {
                ("200 OK", "application/json", models.to_owned())
            } else {
                ("404 Not Found", "application/json", "{}".to_owned())
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\
                 content-length: {}\r\n\r\n",
                answer.len()
            );
            // The client may be gone.
            let _ = stream.write_all(format!("{head}{answer}").as_bytes());
        }
    });
    (port, bodies)
}

#[test]
fn a_local_model_server_is_found_with_one_of_its_models() {
    let check = |more: &[&str], list, models, model: &str| {
        let env = TestEnvironment::new();
        let (port, bodies) = local_server(list, models);
        let arguments = [&["exec", "--oss"], more, &["hello"]].concat();
        let mut command = env.agentd(&arguments);
        let output = command.env("AGENT_OSS_PORT", port.to_string()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(stdout(&output), "hi\n");
        assert_eq!(bodies.lock().unwrap()[0]["model"], model, "{more:?}");
    };
    let (tags, tagged) = ("/api/tags", r#"{"models":[{"name":"small:1b"}]}"#);
    check(&[], tags, tagged, "small:1b");
    check(&["-m", "other"], tags, tagged, "other");
    let listed = r#"{"data":[{"id":"small","type":"llm"}]}"#;
    check(&[], "/api/v0/models", listed, "small");
    check(&["-c", "oss_provider=\"lmstudio\""], "/api/v0/models", listed, "small");
}

#[test]
fn threads_of_a_server_use_the_local_model_server() {
    let env = TestEnvironment::new();
    let (port, _) = local_server("/api/tags", r#"{"models":[{"name":"small:1b"}]}"#);
    let mut command = env.agentd(&["app-server", "--oss"]);
    let mut server = Running::start(command.env("AGENT_OSS_PORT", port.to_string()));
    server.call(0, "initialize", json!({"clientInfo": {"name": "by_hand", "version": "1"}}));
    server.send(r#"{"method":"initialized"}"#);
    let started = server.call(1, "thread/start", json!({}));
    let (provider, model) = (&started["result"]["modelProvider"], &started["result"]["model"]);
    assert_eq!((provider, model), (&"ollama".into(), &"small:1b".into()), "{started}");
    assert!(server.end().0.success());
}

#[test]
fn without_a_local_model_server_oss_says_how_to_start_one() {
    let env = TestEnvironment::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let check = |more: &[&str], port: u16, parts: &[&str], absent: &str| {
        let arguments = [&["exec", "--oss"], more, &["hello"]].concat();
        let mut command = env.agentd(&arguments);
        let output = command.env("AGENT_OSS_PORT", port.to_string()).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains(absent), "{text}");
    };
    check(&[], closed, &["`ollama serve`", "`lms server start`"], "panicked");
    check(&["-c", "oss_provider=\"ollama\""], closed, &["not running", "`ollama serve`"], "lms");
    let (empty, _) = local_server("/api/tags", r#"{"models":[]}"#);
    check(&["-c", "oss_provider=\"ollama\""], empty, &["no models yet", "`ollama pull"], "lms");
}
