//! The named scenarios that every sweep runs over.

use hooks::{EventName, Outcome, Permission, Refusal};
use serde_json::json;
use session::{
    ApprovalPolicy, Decision, GrantScope, Limits, Mode, Overrides, Restored, Retry, SandboxPolicy,
};

use crate::response::{Output, call, cut, escalated, exec, failed, patch, respond, say, write};
use crate::script::{Review, Script, Start, judged, settings, verdict};
use crate::typing_stories;

/// All scenarios, by name.
pub(crate) fn all() -> Vec<(&'static str, Script)> {
    let mut all = talk();
    all.extend(commands());
    all.extend(approvals());
    all.extend(failures());
    all.extend(hooks());
    all
}

/// Hooks for every event, in turns of every kind.
fn hooks() -> Vec<(&'static str, Script)> {
    let work = [exec("a", "print:a"), escalated("b", "print:b"), patch("c", "x")];
    let busy = Script::new(&[&work, &[say("done")]]).then("again");
    let mut compacting = Script::new(&[&[exec("a", &format!("print:{}", "x".repeat(4_000)))]]);
    compacting.limits = Limits { compact_at_tokens: Some(300), ..Limits::default() };
    let refusals = vec![Refusal { run: "run".into(), reason: "no".into() }];
    let refused = Outcome { refusals, ..Outcome::default() };
    let denied = Permission::Deny("no".into());
    let denied = Outcome { permission: Some(denied), ..Outcome::default() };
    let asked = Outcome { permission: Some(Permission::Ask(None)), ..Outcome::default() };
    let refusing = [
        (EventName::PreToolUse, denied.clone()),
        (EventName::PreToolUse, asked),
        (EventName::PermissionRequest, denied),
        (EventName::PostToolUse, refused.clone()),
        (EventName::Stop, refused),
    ];
    vec![
        ("hooks", busy.clone().hooked(&[])),
        ("hooks that refuse", busy.hooked(&refusing)),
        ("hooks of a compaction", compacting.hooked(&[])),
    ]
}

fn talk() -> Vec<(&'static str, Script)> {
    let thoughts = Output::Reasoning {
        summary: vec!["first".into(), "second".into()],
        content: vec!["raw".into()],
    };
    let plan = "Look:\n<proposed_plan>\n1. do\n</proposed_plan>\nSo?";
    let mut planning = Script::new(&[&[say(plan)]]);
    planning.turns[0].overrides.mode = Some((Mode::Plan, None));
    let mut schema = Script::new(&[&[say("{}")], &[say("free")]]).then("and now?");
    schema.turns[0].output_schema = Some("{}".into());
    let mut overriding = Script::new(&[&[say("one")], &[say("two")]]).then("more");
    overriding.turns[0].overrides = Overrides {
        model: Some("other".into()),
        sandbox: Some(SandboxPolicy::DangerFullAccess),
        cwd: Some("/v".into()),
        ..Overrides::default()
    };
    vec![
        ("plain text", Script::new(&[&[say("Hello there")]])),
        ("empty response", Script::new(&[&[]])),
        ("whole message", Script::new(&[&[Output::Whole("Hello".into()), Output::Unknown]])),
        ("reasoning", Script::new(&[&[thoughts, say("Thought.")]])),
        ("plan mode", planning.then("go on")),
        ("web search", Script::new(&[&[Output::Search("rust".into()), say("Found.")]])),
        ("output schema", schema),
        ("overrides", overriding),
    ]
}

fn commands() -> Vec<(&'static str, Script)> {
    let heredocs = [exec("a", "patch path:/w/a"), exec("b", "patch path:/w/b"), exec("c", "safe")];
    let tools = [
        call("a", "update_plan", json!({ "plan": [{ "step": "x", "status": "pending" }] })),
        call("b", "view_image", json!({ "path": "/w/a.png" })),
        call("c", "view_image", json!({ "path": "/w/missing.png" })),
        call("d", "no_such_tool", json!({})),
        call("e", "exec_command", json!({ "cmd": 7 })),
        Output::Custom { id: "f".into(), name: "apply_patch".into(), input: "path:/w/f".into() },
        Output::Custom { id: "g".into(), name: "novel".into(), input: String::new() },
        exec("h", "refused"),
        patch("i", "bad"),
        patch("j", "breaks"),
        exec("k", "unstartable"),
        exec("l", "forbid"),
    ];
    let shell = |id, words: &str, ms| {
        let argv: Vec<_> = words.split(' ').collect();
        call(id, "shell", json!({ "command": argv, "timeout_ms": ms }))
    };
    let long = "after:60000 print:progress";
    let tight = Limits { calls: 3, processes: 2, ..Limits::default() };
    let mut crowded = Script::new(&[&[
        exec("a", "forever"),
        exec("b", "print:b"),
        exec("c", "print:c"),
        exec("d", "print:d"),
    ]]);
    crowded.limits = tight;
    vec![
        ("parallel commands", Script::new(&[&[exec("a", "print:one"), exec("b", "exit:2")]])),
        (
            "patch between commands",
            Script::new(&[&[exec("a", "print:a"), patch("b", "path:/w/x"), exec("c", "print:c")]]),
        ),
        ("patches in the shell", Script::new(&[&heredocs])),
        ("every tool", Script::new(&[&tools])),
        ("shell", Script::new(&[&[shell("a", "print:x", 500), shell("b", "forever", 500)]])),
        (
            "polled command",
            Script::new(&[
                &[exec("a", long)],
                &[say("it runs")],
                &[write("b", 2, ""), write("c", 2, "")],
                &[write("d", 2, "hello"), exec("e", "print:e")],
            ])
            .then("look"),
        ),
        (
            "interactive command",
            Script::new(&[&[exec("a", "forever")], &[write("b", 2, "quit\n")]]).then("still?"),
        ),
        (
            "polled in later turns",
            Script::new(&[
                &[exec("a", "forever")],
                &[say("it runs")],
                &[write("b", 2, "")],
                &[write("c", 2, "")],
            ])
            .then("look")
            .then("look again"),
        ),
        ("background for ever", Script::new(&[&[exec("a", "forever")]]).then("next")),
        ("limits", crowded),
    ]
}

fn approvals() -> Vec<(&'static str, Script)> {
    let careful = |script: Script| script.asking(ApprovalPolicy::UnlessTrusted);
    let both = [exec("a", "amend print:a"), patch("b", "path:/w/x"), exec("c", "safe")];
    let amendment = Decision::AcceptWithAmendment(vec!["make".into()]);
    let again = &[exec("d", "amend print:a"), patch("e", "path:/w/x")];
    let outside = [escalated("a", "print:a"), patch("b", "path:/etc/x outside")];
    let decided =
        |decision: Decision| careful(Script::new(&[&both])).deciding(&[decision.clone(), decision]);
    let mut two_clients = decided(Decision::Accept);
    two_clients.second_answer = Some(Decision::Decline);
    let mut cancelling = decided(Decision::Accept);
    cancelling.second_answer = Some(Decision::Cancel);
    let reviewed =
        [exec("a", "print:a"), patch("b", "path:/w/x"), exec("c", "safe reach:a after:50")];
    let deny = judged(verdict("deny", "high", "low"));
    let reviews = careful(Script::new(&[&reviewed, &reviewed, &both])).reviewed(&[
        judged(verdict("approve", "low", "high")),
        deny,
        Review::IsSilent,
        Review::Fails,
    ]);
    vec![
        ("accept", decided(Decision::Accept)),
        ("accept with amendment", decided(amendment)),
        ("decline", decided(Decision::Decline)),
        ("cancel", decided(Decision::Cancel).then("again")),
        (
            "session grants",
            careful(Script::new(&[&both, again]))
                .deciding(&[Decision::AcceptForSession, Decision::AcceptForSession]),
        ),
        ("outside the sandbox", Script::new(&[&outside])),
        ("no client to ask", Script::new(&[&outside]).asking(ApprovalPolicy::Never)),
        (
            "two questions at once",
            careful(Script::new(&[&[
                exec("a", "print:a"),
                exec("b", "print:b"),
                exec("c", "patch path:/w/c"),
            ]]))
            .deciding(&[Decision::Decline, Decision::Accept, Decision::Accept]),
        ),
        (
            "cancel beside commands",
            careful(Script::new(&[&[
                exec("a", "safe after:5000"),
                exec("b", "b"),
                exec("c", "c"),
            ]]))
            .deciding(&[Decision::Cancel]),
        ),
        ("reviews", reviews),
        (
            "text outside the sandbox",
            Script::new(&[&[typing_stories::outside("forever")], &[write("b", 2, "quit\n")]]),
        ),
        ("a grant of the turn", typing_stories::granted(GrantScope::Turn)),
        ("two clients", two_clients),
        ("two clients, one cancels", cancelling),
    ]
}

fn failures() -> Vec<(&'static str, Script)> {
    let broken = |outputs: &[Output], retry| {
        let mut response = cut(outputs);
        response.push(failed(retry));
        response
    };
    let mut retries = Script::new(&[]);
    retries.responses = vec![
        broken(&[], Retry::Stream),
        broken(&[say("half")], Retry::Stream),
        broken(&[exec("a", "print:slow after:5000"), say("cut")], Retry::Stream),
        respond(&[say("at last")]),
    ];
    let mut refused = Script::new(&[]);
    refused.responses = vec![broken(&[], Retry::Request); 2];
    let mut unconfined = Script::new(&[&[exec("a", "unconfined"), exec("b", "after:5000")]]);
    unconfined = unconfined.then("again");
    let mut searching = Script::new(&[]);
    searching.responses = vec![cut(&[Output::Search("rust".into())])];
    searching.responses[0].pop();
    searching.responses[0].push(failed(Retry::Never));
    let mut fatal = Script::new(&[]).then("try again");
    fatal.responses = vec![broken(&[exec("a", "after:5000"), patch("b", "x")], Retry::Never)];
    let mut exhausted = Script::new(&[]).then("try again");
    exhausted.responses = vec![broken(&[say("x")], Retry::Stream); 6];
    let mut restored = Script::new(&[&[say("welcome back")]]).then("more");
    let history = [
        r#"{"type":"message","role":"user","content":[]}"#,
        r#"{"type":"function_call","call_id":"x","name":"exec_command","arguments":"{}"}"#,
        r#"{"type":"custom_tool_call","call_id":"y","name":"apply_patch","input":""}"#,
        r#"{"type":"function_call_output","call_id":"x","output":""}"#,
    ];
    restored.restored = Restored {
        history: Some(history.map(crate::script::fragment).into()),
        introduced: Some(settings()),
        failed: true,
        previewed: true,
        ..Restored::default()
    };
    let mut too_long = Script::new(&[&[say(&"long ".repeat(100))]]);
    too_long.limits.response_bytes = 300;
    let mut unclosed = Script::new(&[]);
    unclosed.responses = vec![cut(&[say("never done")])];
    unclosed.responses[0].pop();
    unclosed.responses[0].push(crate::response::completed());
    let start = Start { text: "a third".into(), ..Start::default() };
    unclosed.turns.push(start);
    vec![
        ("retries", retries),
        ("refused requests", refused),
        ("no sandbox", unconfined),
        ("search cut", searching),
        ("fatal failure", fatal),
        ("retries used up", exhausted),
        ("restored", restored),
        ("response too long", too_long),
        ("unclosed item", unclosed),
    ]
}
