//! The contract between a handler and an event, as a table.

use proptest::prelude::*;

use super::*;
use crate::event::ToolUse;
use crate::outcome::Outcome;

fn outcome_of(answers: impl IntoIterator<Item = Answer>) -> Outcome {
    Outcome::merged(answers.into_iter().map(|answer| ("run".to_owned(), answer)))
}

fn exited(event: EventName, code: i32, output: &str, errors: &str) -> Answer {
    let (output, errors) = (output.as_bytes(), errors.as_bytes());
    read_answer(event, HandlerResult::Exited { code, output, errors })
}

fn deny(reason: &str) -> Option<Permission> {
    Some(Permission::Deny(reason.to_owned()))
}

#[test]
fn exit_codes() {
    for event in EventName::ALL {
        assert_eq!(exited(event, 0, "", "noise"), Answer::completed(), "{event}");
        let failed = exited(event, 1, r#"{"decision": "block"}"#, "no such file\n");
        assert_eq!(failed.status, Status::Failed, "{event}");
        assert_eq!(failed.entries[0].text, "it ended with the exit code 1: no such file");
        assert_eq!(outcome_of([failed]), Outcome::default(), "{event}");
        let refused = exited(event, 2, "ignored", " not on a Friday \n");
        let outcome = outcome_of([refused.clone()]);
        match event {
            EventName::PreToolUse | EventName::PermissionRequest => {
                assert_eq!(outcome.permission, deny("not on a Friday"));
            }
            event if event.can_block() => {
                assert_eq!(outcome.refused().as_deref(), Some("not on a Friday"));
            }
            _ => assert_eq!((outcome, refused.status), (Outcome::default(), Status::Failed)),
        }
    }
    assert_eq!(
        exited(EventName::Stop, 2, "", "").block.as_deref(),
        Some("a hook refused it and gave no reason")
    );
}

#[test]
fn handlers_that_do_not_answer_change_nothing() {
    let results = [
        HandlerResult::Killed { errors: b"" },
        HandlerResult::TimedOut { seconds: 3 },
        HandlerResult::TooMuchOutput { limit: 10 },
        HandlerResult::NotRun { message: "the shell cannot be started" },
    ];
    for event in EventName::ALL {
        for result in results {
            let answer = read_answer(event, result);
            assert_eq!(answer.status, Status::Failed);
            assert_eq!(answer.entries[0].kind, EntryKind::Error);
            assert_eq!(outcome_of([answer]), Outcome::default());
        }
    }
}

#[test]
fn answers_about_calls_and_approvals() {
    use EventName::{PermissionRequest, PreToolUse};
    let cases = [
        (PreToolUse, r#"{"decision": "approve"}"#, Some(Permission::Allow)),
        (PreToolUse, r#"{"decision": "block", "reason": "no"}"#, deny("no")),
        (
            PreToolUse,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}"#,
            Some(Permission::Allow),
        ),
        (
            PreToolUse,
            r#"{"hookSpecificOutput": {"permissionDecision": "ask"}}"#,
            Some(Permission::Ask(None)),
        ),
        (
            PreToolUse,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}"#,
            deny("no"),
        ),
        (
            PreToolUse,
            r#"{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}"#,
            deny("no"),
        ),
        (
            PermissionRequest,
            r#"{"hookSpecificOutput": {"decision": {"behavior": "allow"}}}"#,
            Some(Permission::Allow),
        ),
        (
            PermissionRequest,
            r#"{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}"#,
            deny("no"),
        ),
        (PermissionRequest, r#"{"decision": "approve"}"#, None),
    ];
    for (event, output, expected) in cases {
        assert_eq!(exited(event, 0, output, "").permission, expected, "{event}: {output}");
    }
}

#[test]
fn a_hook_that_may_not_consent_can_still_refuse_and_ask() {
    let say = |permission: &str| {
        let output =
            format!(r#"{{"hookSpecificOutput": {{"permissionDecision": "{permission}"}}}}"#);
        exited(EventName::PreToolUse, 0, &output, "").without_consent()
    };
    let allowed = say("allow");
    assert_eq!((allowed.permission, allowed.entries[0].kind), (None, EntryKind::Warning));
    assert_eq!(say("ask").permission, Some(Permission::Ask(None)));
    assert!(matches!(say("deny").permission, Some(Permission::Deny(_))));
}

#[test]
fn what_cannot_be_understood_refuses_calls_and_approvals() {
    let outputs = [
        r#"{"permisionDecision": "deny"}"#,
        r#"{"decision": "reject"}"#,
        r#"{"hookSpecificOutput": {"hookEventName": "Stop"}}"#,
        r#"{"hookSpecificOutput": {"updatedMCPToolOutput": 1}}"#,
        r#"{"hookSpecificOutput": {"decision": {"behavior": "allow", "updatedInput": {}}}}"#,
        r#"{"hookSpecificOutput": {"decision": {"behavior": "allow", "interrupt": true}}}"#,
        r#"{"decision": "approve"} and more"#,
        r#"{"decision": "block", "decision": "approve"}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}"#,
        r#"{"hookSpecificOutput": {"decision": {"behavior": "deny", "behavior": "allow"}}}"#,
        r#"{"hookSpecificOutput": {"permissionDecision": "deny"}, "hookSpecificOutput": {}}"#,
        r#"{"hooks": 1, "hooks": 2, "decision": "approve"}"#,
        "{",
    ];
    for event in [EventName::PreToolUse, EventName::PermissionRequest] {
        for output in outputs {
            let answer = exited(event, 0, output, "");
            assert_eq!(answer.status, Status::Failed, "{output}");
            assert!(matches!(answer.permission, Some(Permission::Deny(_))), "{event}: {output}");
        }
    }
    for event in [EventName::UserPromptSubmit, EventName::PreModelRequest, EventName::PreCompact] {
        let answer = exited(event, 0, "{", "");
        assert!(answer.status == Status::Failed && answer.block.is_some(), "{event}");
    }
    let answer = exited(EventName::Stop, 0, "{", "");
    assert_eq!((answer.status, answer.block), (Status::Failed, None));
}

#[test]
fn text_around_an_answer_does_not_lose_it() {
    let refusal = r#"{"decision": "block", "reason": "R"}"#;
    let outputs = [
        format!("checking...\n{refusal}"),
        format!("checking...\n  {refusal}\ndone"),
        format!("[{refusal}]"),
        "checking...\n{\n\"decision\": \"block\"\n}".to_owned(),
    ];
    for event in [EventName::PreToolUse, EventName::UserPromptSubmit] {
        for output in &outputs {
            let outcome = outcome_of([exited(event, 0, output, "")]);
            let is_denied = matches!(outcome.permission, Some(Permission::Deny(_)));
            assert!(is_denied || outcome.refused().is_some(), "{event}: {output}");
            assert_eq!(outcome.context, [] as [String; 0]);
        }
        let answer = exited(event, 0, &format!("\u{feff}{refusal}"), "");
        assert_eq!(answer.status, Status::Blocked, "{event}");
    }
    // Objects that decide nothing are context.
    let listed = "the tasks:\n{\"open\": 3}\n[1, 2]";
    let answer = exited(EventName::UserPromptSubmit, 0, listed, "");
    assert_eq!(answer.context.as_deref(), Some(listed));
}

#[test]
fn unknown_members_cost_nothing_where_the_rest_decides() {
    let known = r#"{"decision": "block", "reason": "R", "permissionUpdates": []}"#;
    let answer = exited(EventName::PreToolUse, 0, known, "");
    assert_eq!((answer.permission, answer.status), (deny("R"), Status::Blocked));
    assert_eq!(answer.entries[1].text, "its member `permissionUpdates` is not known");
    let misspelt = r#"{"hookSpecificOutput": {"permisionDecision": "deny"}}"#;
    let answer = exited(EventName::PreToolUse, 0, misspelt, "");
    assert_eq!(answer.status, Status::Failed);
    assert!(matches!(answer.permission, Some(Permission::Deny(_))));
}

#[test]
fn what_nothing_waits_for_blocks_nothing() {
    let answer = exited(EventName::PreToolUse, 2, "", "no").without_effect();
    assert_eq!(answer.status, Status::Completed);
}

#[test]
fn consent_is_for_the_arguments_that_the_hook_saw() {
    let allow = exited(EventName::PreToolUse, 0, r#"{"decision": "approve"}"#, "");
    let update = r#"{"hookSpecificOutput": {"updatedInput": {"command": "b"}}}"#;
    let update = exited(EventName::PreToolUse, 0, update, "");
    let both =
        r#"{"decision": "approve", "hookSpecificOutput": {"updatedInput": {"command": "c"}}}"#;
    let both = exited(EventName::PreToolUse, 0, both, "");
    let merged = |answers: [&Answer; 2]| outcome_of(answers.map(Clone::clone)).permission;
    assert_eq!(merged([&allow, &update]), None);
    assert_eq!(merged([&update, &allow]), None);
    assert_eq!(merged([&update, &both]), Some(Permission::Allow));
}

#[test]
fn further_members() {
    let answer = exited(
        EventName::PreToolUse,
        0,
        r#"{"systemMessage": "careful", "hookSpecificOutput": {"updatedInput": {"command": "ls"},
            "additionalContext": " the tests are slow "}}"#,
        "",
    );
    assert_eq!(answer.updated_input, Some(serde_json::json!({"command": "ls"})));
    assert_eq!(answer.context.as_deref(), Some("the tests are slow"));
    let kinds: Vec<EntryKind> = answer.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Warning, EntryKind::Context]);

    let hidden = r#"{"suppressOutput": true, "hookSpecificOutput": {"additionalContext": "x"}}"#;
    let answer = exited(EventName::SessionStart, 0, hidden, "");
    assert_eq!((answer.context.as_deref(), answer.entries.len()), (Some("x"), 0));

    let answer = exited(EventName::PostToolUse, 0, r#"{"continue": false}"#, "");
    assert_eq!(answer.status, Status::Stopped);
    assert_eq!(answer.stop.as_deref(), Some("a hook ended the turn"));
}

#[test]
fn a_result_of_a_tool_that_is_no_mcp_tool_is_not_replaced_and_that_is_said() {
    let output = r#"{"hookSpecificOutput": {"updatedMCPToolOutput": 1}}"#;
    for (name, is_replaced) in [("mcp__s__t", true), ("Bash", false), ("apply_patch", false)] {
        let tool = ToolUse {
            name: name.to_owned(),
            aliases: &[],
            input: Value::Null,
            call_id: "c".to_owned(),
        };
        let event = Event::PostToolUse { tool, response: Value::Null };
        let answer = exited(EventName::PostToolUse, 0, output, "").without_foreign_output(&event);
        assert_eq!(answer.updated_output.is_some(), is_replaced, "{name}");
        let kinds: Vec<EntryKind> = answer.entries.iter().map(|entry| entry.kind).collect();
        let expected: &[EntryKind] = if is_replaced { &[] } else { &[EntryKind::Warning] };
        assert_eq!(kinds, expected, "{name}");
    }
}

#[test]
fn prose_is_context_where_it_can_be() {
    for event in EventName::ALL {
        let answer = exited(event, 0, "the build is red\n", "");
        assert_eq!(answer.status, Status::Completed);
        let expected = event.takes_plain_context().then_some("the build is red");
        assert_eq!(answer.context.as_deref(), expected, "{event}");
        assert_eq!(answer.entries.len(), 1);
    }
}

#[test]
fn long_and_hidden_text_is_shown_as_such() {
    let context = "ab\u{202e}".to_owned() + &"x".repeat(20_000);
    let context = exited(EventName::SessionStart, 0, &context, "").context.unwrap();
    assert!(context.starts_with("ab\\u{202e}xxx"), "{}", &context[..20]);
    assert!(context.ends_with("\n[10010 further characters are left out]"), "{context}");
}

#[test]
fn verdicts_of_models() {
    let verdict = |event, text| read_answer(event, HandlerResult::Verdict { text });
    let cases = [
        (r#"{"ok": true}"#, None),
        ("```json\n{\"ok\": true}\n```", None),
        (r#"{"ok": false, "reason": "not tested"}"#, Some("not tested")),
        (r#"{"ok": false}"#, Some("a hook refused it and gave no reason")),
    ];
    for (text, expected) in cases {
        assert_eq!(verdict(EventName::Stop, text).block.as_deref(), expected, "{text}");
    }
    for text in ["", "yes", "{}", r#"{"ok": "no"}"#] {
        assert_eq!(verdict(EventName::Stop, text).status, Status::Failed, "{text}");
        let answer = verdict(EventName::PreToolUse, text);
        assert!(matches!(answer.permission, Some(Permission::Deny(_))), "{text}");
    }
}

#[test]
fn a_refusal_counts_over_a_question_and_that_over_consent() {
    let say = |permission: &str| {
        let output =
            format!(r#"{{"hookSpecificOutput": {{"permissionDecision": "{permission}"}}}}"#);
        exited(EventName::PreToolUse, 0, &output, "")
    };
    let merged = |said: &[&str]| outcome_of(said.iter().map(|it| say(it))).permission;
    assert_eq!(merged(&["allow", "ask", "allow"]), Some(Permission::Ask(None)));
    assert_eq!(merged(&["allow", "allow"]), Some(Permission::Allow));
    assert!(matches!(merged(&["ask", "deny", "allow"]), Some(Permission::Deny(_))));
    assert_eq!(merged(&[]), None);
}

proptest! {
    #[test]
    fn no_output_breaks_the_reader(output in ".{0,200}", code in 0..3, event in 0..14_usize) {
        let event = EventName::ALL[event];
        exited(event, code, &output, &output);
        exited(event, 0, &format!("{{{output}}}"), "");
        read_answer(event, HandlerResult::Verdict { text: &output });
    }
}
