//! Dialogs, for the pictures of `states`.

use serde_json::{Value, json};
use tui::app::Event;
use tui::here::{Found, LocalServer};
use tui::terminal::input::{Code, Key};

use crate::harness::{Bench, THREAD, message};
use crate::start::{chooser, hosted_chooser};

fn in_turn(columns: usize, rows: usize, method: &str, params: Value) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("Mend the parser.");
    let mut all = json!({ "threadId": THREAD, "turnId": "t1", "itemId": "i1", "startedAtMs": 0 });
    all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
    bench.ask(7, method, all);
    bench.now += 1_000;
    bench
}

pub(crate) fn approval_host(columns: usize, rows: usize) -> Bench {
    let params = json!({
        "command": "cargo fetch", "cwd": "/work", "reason": "to reach crates.example:443 over HTTPS",
        "networkApprovalContext": { "host": "crates.example", "protocol": "https" },
        "proposedNetworkPolicyAmendments": [
            { "host": "crates.example", "action": "allow" }, { "host": "crates.example", "action": "deny" },
        ],
    });
    in_turn(columns, rows, "item/commandExecution/requestApproval", params)
}

pub(crate) fn approval_tool(columns: usize, rows: usize) -> Bench {
    let message = "Allow the agent to call the tool \"create\" of the MCP server \"tickets\"? (its server \
                   says that it can destroy something)\nArguments: {\"title\":\"Mend the parser\"}";
    let schema =
        json!({ "type": "object", "properties": { "allowForSession": { "type": "boolean" } } });
    let meta = json!({ "agentd/toolCall": { "itemId": "i1", "tool": "create" } });
    let params = json!({
        "serverName": "tickets", "mode": "form", "message": message, "requestedSchema": schema, "_meta": meta,
    });
    in_turn(columns, rows, "mcpServer/elicitation/request", params)
}

pub(crate) fn elicitation_page(columns: usize, rows: usize) -> Bench {
    let params = json!({
        "serverName": "bank", "mode": "url", "message": "Log in to see the account.",
        "url": "https://bank.example/login?from=agent", "elicitationId": "e",
    });
    in_turn(columns, rows, "mcpServer/elicitation/request", params)
}

pub(crate) fn question_text(columns: usize, rows: usize) -> Bench {
    let question = json!({ "id": "n", "header": "Name", "question": "What is the crate called?", "isOther": true, "isSecret": false, "options": null });
    let params = json!({ "questions": [question] });
    in_turn(columns, rows, "item/tool/requestUserInput", params)
}

/// A word was typed into a question.
pub(crate) fn approval_typed_into(columns: usize, rows: usize) -> Bench {
    let mut bench = in_turn(
        columns,
        rows,
        "item/commandExecution/requestApproval",
        json!({ "command": "make", "cwd": "/work" }),
    );
    bench.type_text("yes please");
    bench
}

pub(crate) fn full_access(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/approvals full-access");
    bench
}

pub(crate) fn logout(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/logout");
    let account = json!({ "account": { "type": "apiKey" }, "requiresDefaultAuth": true });
    bench.answer("account/read", account);
    bench
}

pub(crate) fn delete(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/delete");
    bench
}

/// A plan was proposed in plan mode.
pub(crate) fn implement_plan(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/plan Mend the parser.");
    let modes = json!({ "data": [{ "name": "Plan", "mode": "plan", "reasoning_effort": "high" }] });
    bench.answer("collaborationMode/list", modes);
    let turn = json!({ "id": "t1", "status": "inProgress", "items": [], "error": null });
    bench.answer("turn/start", json!({ "turn": turn }));
    bench.turn("turn/started", "inProgress", Value::Null);
    let text = "1. Read numbers in one place.\n2. Test exponents.";
    bench.item("item/completed", json!({ "type": "plan", "id": "p1", "text": text }));
    bench.turn("turn/completed", "completed", Value::Null);
    bench.now += 1_000;
    bench
}

#[test]
fn a_plan_is_carried_out_after_a_question() {
    let mut bench = implement_plan(80, 24);
    assert!(bench.shown().contains("Implement this plan?"), "{}", bench.shown());
    bench.press('y');
    let (_, params) = bench.call("turn/start");
    assert_eq!(params["input"][0]["text"], "Implement the plan.");
    assert_eq!(params["collaborationMode"]["mode"], "default");
    let mut bench = implement_plan(80, 24);
    bench.key(Key::plain(Code::Esc));
    assert!(bench.calls.is_empty() && bench.shown().contains("plan mode ·"), "{}", bench.shown());
    // A turn without a plan, and one outside of plan mode, ask nothing.
    bench.begin_turn("and then?");
    bench.turn("turn/completed", "completed", Value::Null);
    assert!(!bench.shown().contains("Implement this plan?"), "{}", bench.shown());
}

pub(crate) fn memory_reset(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/memory reset");
    bench
}

pub(crate) fn feedback_kind(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/feedback it hung");
    bench
}

pub(crate) fn feedback_parts(columns: usize, rows: usize) -> Bench {
    let mut bench = feedback_kind(columns, rows);
    bench.key(Key::plain(Code::Char('b')));
    bench
}

pub(crate) fn feedback_report(columns: usize, rows: usize) -> Bench {
    let mut bench = feedback_parts(columns, rows);
    bench.key(Key::plain(Code::Char('o')));
    let report = json!({ "reason": "it hung", "redacted": 2, "logs": {} });
    bench.answer("feedback/upload", json!({ "threadId": "r1", "report": report }));
    bench
}

pub(crate) fn local_models(columns: usize, rows: usize) -> Bench {
    let mut bench = chooser(columns, rows);
    bench.press('m');
    let server = |id: &str, name: &str, models| LocalServer {
        id: id.to_owned(),
        name: name.to_owned(),
        address: "http://127.0.0.1:11434".to_owned(),
        models,
    };
    bench.event(Event::Found(Found::Servers(vec![
        server("ollama", "Ollama", Ok(vec!["qwen3".to_owned(), "gpt-oss:20b".to_owned()])),
        server("lmstudio", "LM Studio", Err("no server answers there".to_owned())),
    ])));
    bench
}

/// Ollama and LM Studio are being looked for.
pub(crate) fn local_models_searched(columns: usize, rows: usize) -> Bench {
    let mut bench = chooser(columns, rows);
    bench.press('m');
    bench
}

fn login(columns: usize, rows: usize, letter: char, begun: Value) -> Bench {
    let mut bench = hosted_chooser(columns, rows);
    bench.press(letter);
    bench.answer("account/login/start", begun);
    bench
}

pub(crate) fn login_page(columns: usize, rows: usize) -> Bench {
    let begun =
        json!({ "type": "hosted", "loginId": "l1", "authUrl": "https://login.example/a?state=1" });
    login(columns, rows, 'a', begun)
}

pub(crate) fn login_code(columns: usize, rows: usize) -> Bench {
    let begun = json!({
        "type": "hostedDeviceCode", "loginId": "l1", "verificationUrl": "https://login.example/code",
        "userCode": "ABCD-1234",
    });
    login(columns, rows, 'c', begun)
}

pub(crate) fn feedback_note(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.send("/feedback");
    bench.key(Key::plain(Code::Char('b')));
    bench
}

pub(crate) fn copy_code(columns: usize, rows: usize) -> Bench {
    let mut bench = Bench::open(columns, rows);
    bench.begin_turn("Show me.");
    let text = "```sh\ncargo test\n```\n\nand\n\n```rust\nfn main() {}\n```\n";
    bench.item("item/completed", message(text));
    bench.turn("turn/completed", "completed", Value::Null);
    bench.send("/copy code");
    bench
}
