//! Files of hooks: what is read, what is left out, and which hooks an event starts.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use hooks::{
    Agent, CompactionTrigger, Context, Definitions, EndReason, Event, EventName, Handler, Hook,
    Origin, PermissionMode, Source, StartSource, ToolUse, read_file,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn origin() -> Origin {
    Origin { source: Source::User, path: PathBuf::from("/home/u/.agent/hooks.json"), plugin: None }
}

fn read(file: &Value) -> Definitions {
    read_file(file.to_string().as_bytes(), &origin()).unwrap()
}

fn warnings(file: &Value) -> Vec<String> {
    read(file).warnings.iter().map(ToString::to_string).collect()
}

fn one(handler: Value) -> Hook {
    let mut read = read(&json!({"hooks": {"Stop": [{"hooks": [handler]}]}}));
    assert_eq!(read.warnings, [], "{:?}", read.hooks);
    read.hooks.remove(0)
}

#[test]
fn every_kind_of_handler_is_read() {
    let hook =
        one(json!({"type": "command", "command": "make lint", "timeout": 2.5, "async": true,
        "statusMessage": "Linting"}));
    assert_eq!(hook.handler, Handler::Command("make lint".into()));
    assert_eq!((hook.timeout_sec, hook.is_async), (3, true));
    assert_eq!(hook.status_message.as_deref(), Some("Linting"));
    assert_eq!(hook.key, "/home/u/.agent/hooks.json:Stop:0:0");
    assert_eq!(one(json!({"type": "command", "command": "a", "timeoutSec": 5})).timeout_sec, 5);
    let defaults = [
        (json!({"type": "command", "command": "a"}), 600),
        (json!({"type": "prompt", "prompt": "Is it done? $ARGUMENTS", "model": "m"}), 30),
        (json!({"type": "agent", "prompt": "Is it done?"}), 60),
        (json!({"type": "mcpTool", "server": "s", "tool": "t", "arguments": {"a": 1}}), 60),
        (json!({"type": "mcp_tool", "server": "s", "tool": "t"}), 60),
    ];
    for (handler, timeout) in defaults {
        let hook = one(handler.clone());
        assert_eq!((hook.timeout_sec, hook.is_async), (timeout, false), "{handler}");
    }
}

#[test]
fn one_bad_part_hides_no_other() {
    let good = json!({"type": "command", "command": "true"});
    let file = json!({
        "description": "ours",
        "version": 2,
        "hooks": {
            "Nightly": [],
            "Stop": {"hooks": [good]},
            "PreToolUse": [
                7,
                {"matcher": 3, "hooks": [good]},
                {"matcher": "(", "hooks": [good]},
                {"matcher": "Bash"},
                {"matcher": "Bash", "hooks": [good, {"type": "http", "url": "x"}, {"type": "command"}, good], "if": 1},
            ],
            "UserPromptSubmit": [{"matcher": "x", "hooks": [{"type": "command", "command": "true", "timeout": -1}]}],
        }
    });
    let read = read(&file);
    let keys: Vec<&str> =
        read.hooks.iter().map(|hook| hook.key.rsplit_once(".json:").unwrap().1).collect();
    assert_eq!(keys, ["PreToolUse:4:0", "PreToolUse:4:3"]);
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    let expected = [
        "Nightly: there is no event of this name; its hooks never run",
        "UserPromptSubmit[0]: this event has nothing that a matcher could be about; it is ignored",
        "UserPromptSubmit[0].hooks[0]: the timeout must be a number of seconds above 0",
        "PreToolUse[0]: a group must be an object with the member `hooks`",
        "PreToolUse[1]: the matcher must be a string",
        "PreToolUse[2]: the matcher is not a regular expression: error: unclosed group",
        "PreToolUse[3]: the member `hooks` must be an array of handlers",
        "PreToolUse[4]: the member `if` is not known and has no effect",
        "PreToolUse[4].hooks[1]: there are no handlers of the type `http`; use `command`, `prompt`, `agent` or `mcpTool`",
        "PreToolUse[4].hooks[2]: the member `command` is missing or empty",
        "Stop: it must be an array of groups",
        "version: this member is not known and has no effect",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn files_that_are_none() {
    let cases = [
        ("", "it is not valid JSON: EOF while parsing a value at line 1 column 0"),
        ("[]", "it must be an object with the member `hooks`"),
        ("{}", "the member `hooks` must be an object of events"),
        (r#"{"hooks": []}"#, "the member `hooks` must be an object of events"),
    ];
    for (text, expected) in cases {
        assert_eq!(read_file(text.as_bytes(), &origin()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_file_has_a_bounded_number_of_hooks_and_warnings() {
    let group = json!({"hooks": vec![json!({"type": "command", "command": "true"}); 1_000]});
    let read = read(&json!({"hooks": {"Stop": [group]}}));
    assert_eq!((read.hooks.len(), read.warnings.len()), (256, 1));
    assert_eq!(warnings(&json!({"hooks": {"Stop": vec![json!(1); 1_000]}})).len(), 256);
}

fn tool(name: &str) -> ToolUse {
    ToolUse {
        name: name.into(),
        aliases: if name == "apply_patch" { &["Edit", "Write"] } else { &[] },
        input: json!({"command": "ls"}),
        call_id: "call_1".into(),
    }
}

#[test]
fn an_event_starts_the_hooks_that_match() {
    let hook = |event: &str, matcher: &str| {
        let handler = json!({"type": "command", "command": "true"});
        let file = json!({"hooks": {event: [{"matcher": matcher, "hooks": [handler]}]}});
        read(&file).hooks.remove(0)
    };
    let compact = Event::PreCompact { trigger: CompactionTrigger::Auto };
    let cases = [
        (hook("PreToolUse", "Bash"), Event::PreToolUse(tool("Bash")), None, true),
        (hook("PreToolUse", "Bash"), Event::PermissionRequest(tool("Bash")), None, false),
        (hook("PreToolUse", "Write"), Event::PreToolUse(tool("apply_patch")), None, true),
        (hook("PreToolUse", "apply_patch"), Event::PreToolUse(tool("apply_patch")), None, true),
        (hook("PreToolUse", "Read"), Event::PreToolUse(tool("apply_patch")), None, false),
        (
            hook("SessionStart", "resume|fork"),
            Event::SessionStart { source: StartSource::Fork },
            None,
            true,
        ),
        (
            hook("SessionStart", "resume"),
            Event::SessionStart { source: StartSource::Startup },
            None,
            false,
        ),
        (
            hook("SessionEnd", "shutdown"),
            Event::SessionEnd { reason: EndReason::Shutdown },
            None,
            true,
        ),
        (hook("PreCompact", "manual"), compact.clone(), None, false),
        (hook("PreCompact", "auto"), compact, None, true),
        (hook("SubagentStart", "worker"), Event::SubagentStart, Some("worker"), true),
        (hook("SubagentStart", "worker"), Event::SubagentStart, Some("explorer"), false),
        (
            hook("Stop", "anything"),
            Event::Stop { last_message: None, is_continued: false },
            None,
            true,
        ),
    ];
    for (hook, event, agent, expected) in cases {
        assert_eq!(hook.is_for(&event, agent), expected, "{} {event:?}", hook.key);
    }
}

#[test]
fn handlers_read_one_object() {
    let context = |agent| Context {
        thread: "thr".into(),
        turn: Some("turn".into()),
        cwd: "/work".into(),
        model: "m".into(),
        mode: PermissionMode::Plan,
        agent,
    };
    let agent = Some(Agent { id: "a1".into(), kind: "worker".into() });
    let common = json!({"session_id": "thr", "transcript_path": null, "cwd": "/work", "model": "m",
        "permission_mode": "plan", "turn_id": "turn"});
    let used =
        json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "call_1"});
    let cases = [
        (Event::SessionStart { source: StartSource::Resume }, None, json!({"source": "resume"})),
        (Event::SubagentStart, agent.clone(), json!({"agent_id": "a1", "agent_type": "worker"})),
        (Event::UserPromptSubmit { prompt: "hi".into() }, None, json!({"prompt": "hi"})),
        (Event::PreModelRequest, None, json!({})),
        (Event::PreToolUse(tool("Bash")), None, used.clone()),
        (
            Event::PermissionRequest(tool("Bash")),
            None,
            json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ),
        (
            Event::PostToolUse { tool: tool("Bash"), response: json!("a\nb") },
            None,
            merged(&used, &json!({"tool_response": "a\nb"})),
        ),
        (
            Event::PostCompact { trigger: CompactionTrigger::Manual },
            None,
            json!({"trigger": "manual"}),
        ),
        (
            Event::Stop { last_message: Some("done".into()), is_continued: true },
            None,
            json!({"last_assistant_message": "done", "stop_hook_active": true}),
        ),
        (
            Event::SubagentStop { last_message: None, is_continued: false },
            agent,
            json!({"agent_id": "a1", "agent_type": "worker", "agent_transcript_path": null,
                "last_assistant_message": null, "stop_hook_active": false}),
        ),
        (Event::SessionEnd { reason: EndReason::Closed }, None, json!({"reason": "closed"})),
    ];
    for (event, agent, expected) in cases {
        let input: Value = serde_json::from_str(&event.input(&context(agent))).unwrap();
        let name = json!({"hook_event_name": event.name().as_str()});
        assert_eq!(input, merged(&merged(&common, &name), &expected), "{event:?}");
    }
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut all = one.as_object().unwrap().clone();
    all.extend(other.as_object().unwrap().clone());
    Value::Object(all)
}

#[test]
fn the_digest_covers_all_that_decides_what_runs() {
    let base = json!({"type": "command", "command": "sh check.sh"});
    let variants = [
        json!({"type": "command", "command": "sh check2.sh"}),
        json!({"type": "command", "command": "sh check.sh", "timeout": 5}),
        json!({"type": "command", "command": "sh check.sh", "async": true}),
        json!({"type": "prompt", "prompt": "sh check.sh"}),
        json!({"type": "agent", "prompt": "sh check.sh"}),
    ];
    let digest = one(base.clone()).digest([]);
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    assert_eq!(one(base.clone()).digest([]), digest);
    // Only shown.
    let shown = json!({"type": "command", "command": "sh check.sh", "statusMessage": "Checking"});
    assert_eq!(one(shown).digest([]), digest);
    for variant in variants {
        assert_ne!(one(variant.clone()).digest([]), digest, "{variant}");
    }
    let with_file =
        |contents: &'static str| one(base.clone()).digest([("check.sh", contents.as_bytes())]);
    assert_ne!(with_file("exit 0"), digest);
    assert_ne!(with_file("exit 0"), with_file("exit 1"));
}

#[test]
fn names_of_events_are_read_back() {
    for event in EventName::ALL {
        assert_eq!(event.as_str().parse(), Ok(event));
    }
    assert!("preToolUse".parse::<EventName>().is_err());
}

proptest! {
    #[test]
    fn no_file_breaks_the_reader(text in r#"[\[\]{}":,a-zA-Z0-9 ]{0,80}"#) {
        let _ = read_file(text.as_bytes(), &origin());
        let _ = read_file(format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{text}]}}]}}}}"#).as_bytes(), &origin());
    }
}

#[test]
fn a_group_without_handlers_is_reported() {
    let file = json!({"hooks": {"PreToolUse": [{"hooks": []}]}});
    assert_eq!(warnings(&file), ["PreToolUse[0]: it has no handlers, and does nothing"]);
}
