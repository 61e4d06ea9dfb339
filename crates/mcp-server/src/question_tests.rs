//! Tests of the forms for requests of the server, and of the answers to them.

use super::*;

fn asked(method: &str, params: Value) -> (Question, Value) {
    match read(method, &params.to_string(), |_| None) {
        Ok((question, form)) => (question, serde_json::to_value(form).unwrap()),
        Err(unanswerable) => panic!("{}", unanswerable.note),
    }
}

fn accept(content: Value) -> Reply {
    Reply::Elicited(ElicitResult::new(ElicitationAction::Accept).with_content(content))
}

fn command_params() -> Value {
    json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1, "command": "rm -r \u{202e}x",
        "cwd": "/w", "reason": "to clean",
    })
}

const COMMAND: &str = "item/commandExecution/requestApproval";

#[test]
fn a_command_is_shown_whole_and_its_choices_are_those_of_the_server() {
    let (_, form) = asked(COMMAND, command_params());
    let message = form["message"].as_str().unwrap();
    assert!(
        message.contains("Command: rm -r \\u{202e}x\nFolder: /w\nReason: to clean"),
        "{message}"
    );
    let decision = &form["requestedSchema"]["properties"]["decision"];
    let all = json!(["accept", "acceptForSession", "decline", "cancel"]);
    assert_eq!((&decision["enum"], decision.get("default")), (&all, None));

    let mut params = command_params();
    let amendment = json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["rm"] } });
    params["availableDecisions"] = json!(["accept", amendment, "decline"]);
    let (question, form) = asked(COMMAND, params);
    let choices = &form["requestedSchema"]["properties"]["decision"]["enum"];
    assert_eq!(choices, &json!(["accept", "acceptWithPrefix", "decline"]));
    let (answer, note) = question.answer(accept(json!({ "decision": "acceptWithPrefix" })));
    assert_eq!((answer.unwrap(), note), (json!({ "decision": amendment }), None));
}

#[test]
fn what_is_no_explicit_consent_declines_and_is_noted() {
    let check = |reply: Reply, expect: &str| {
        let (answer, note) = asked(COMMAND, command_params()).0.answer(reply);
        assert_eq!(answer.unwrap(), json!({ "decision": "decline" }));
        let note = note.unwrap();
        assert!(note.starts_with("command `rm") && note.contains(expect), "{note}");
    };
    let elicited = |action| Reply::Elicited(ElicitResult::new(action));
    check(elicited(ElicitationAction::Accept), "no `decision`");
    check(accept(json!({ "decision": "yes" })), "no `decision`");
    check(accept(json!({ "decision": true })), "no `decision`");
    check(accept(json!({ "decision": "decline" })), "declined by the user");
    check(elicited(ElicitationAction::Decline), "declined by the user");
    check(elicited(ElicitationAction::Cancel), "dismissed");
    check(Reply::Unavailable("no reason".into()), "because no reason");
}

#[test]
fn changes_are_shown_with_their_diffs_up_to_the_bound() {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1 });
    let change = |path: &str, diff: String| FileUpdateChange {
        path: path.to_owned(),
        kind: protocol::PatchChangeKind::Add,
        diff,
    };
    let changes = vec![change("/w/a", "+a".into()), change("/w/b", "é".repeat(MAX_MESSAGE))];
    let read = read("item/fileChange/requestApproval", &params.to_string(), |item| {
        (item == "i").then(|| changes.clone())
    });
    let Ok((question, form)) = read else { panic!("no form") };
    let form = serde_json::to_value(form).unwrap();
    let message = form["message"].as_str().unwrap();
    assert!(message.contains("/w/a\n+a\n/w/b\né") && message.ends_with("bytes are not shown]"));
    let (answer, note) = question.answer(accept(json!({ "decision": "acceptForSession" })));
    assert_eq!((answer.unwrap(), note), (json!({ "decision": "acceptForSession" }), None));
}

#[test]
fn permissions_are_granted_as_they_were_asked_for_or_not_at_all() {
    let wanted = json!({ "network": { "enabled": true } });
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1, "cwd": "/w",
        "permissions": wanted,
    });
    let check = |decision: &str, expect: Value| {
        let (question, _) = asked("item/permissions/requestApproval", params.clone());
        let (answer, _) = question.answer(accept(json!({ "decision": decision })));
        assert_eq!(answer.unwrap(), expect);
    };
    check("grantForTurn", json!({ "permissions": wanted, "scope": "turn" }));
    check("grantForSession", json!({ "permissions": wanted, "scope": "session" }));
    check("decline", json!({ "permissions": {} }));
    check("accept", json!({ "permissions": {} }));
}

#[test]
fn questions_of_the_agent_are_asked_but_never_for_secrets() {
    let params = |secret: bool| {
        json!({
            "threadId": "t", "turnId": "u", "itemId": "i",
            "questions": [
                { "id": "a", "header": "A", "question": "Which?", "isSecret": secret,
                  "options": [{ "label": "x", "description": "1" }, { "label": "y", "description": "2" }] },
                { "id": "b", "header": "B", "question": "Why?", "isOther": true },
            ],
        })
    };
    const METHOD: &str = "item/tool/requestUserInput";
    let (question, form) = asked(METHOD, params(false));
    assert_eq!(form["requestedSchema"]["properties"]["a"]["enum"], json!(["x", "y"]));
    let (answer, note) = question.answer(accept(json!({ "a": "y", "b": "so", "c": "z" })));
    let expect = json!({ "answers": { "a": { "answers": ["y"] }, "b": { "answers": ["so"] } } });
    assert_eq!((answer.unwrap(), note), (expect, None));
    let Err(refused) = read(METHOD, &params(true).to_string(), |_| None) else { panic!("asked") };
    let error = refused.answer.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32601, "a form must not ask for a secret"));
    assert!(refused.note.contains("a form must not ask for a secret"), "{}", refused.note);
}

#[test]
fn forms_of_mcp_servers_are_passed_on() {
    let params = json!({
        "threadId": "t", "turnId": "u", "serverName": "s", "mode": "form", "message": "Name?",
        "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
    });
    let (question, form) = asked("mcpServer/elicitation/request", params);
    assert!(form["message"].as_str().unwrap().starts_with("The MCP server s asks:"), "{form}");
    let (answer, _) = question.answer(accept(json!({ "name": "n" })));
    assert_eq!(answer.unwrap(), json!({ "action": "accept", "content": { "name": "n" } }));
}

#[test]
fn a_request_that_has_no_form_is_refused() {
    let Err(refused) = read("item/tool/call", "{}", |_| None) else { panic!("asked") };
    assert_eq!(refused.answer.unwrap_err().message, "Method not found: item/tool/call");
}

#[test]
fn the_agent_asks_for_the_call_of_a_tool_and_a_server_for_itself() {
    let check = |meta: Value, expect: &str| {
        let schema = json!({ "type": "object", "properties": {} });
        let params = json!({
            "threadId": "t", "serverName": "files", "mode": "form", "message": "Allow it?",
            "requestedSchema": schema, "_meta": meta,
        });
        let (_, form) = asked("mcpServer/elicitation/request", params);
        assert_eq!(form["message"], format!("{expect}\n\nAllow it?"));
    };
    check(json!({ "agentd/toolCall": { "tool": "read" } }), "The agent wants to call a tool.");
    check(json!({ "other": 1 }), "The MCP server files asks:");
    check(Value::Null, "The MCP server files asks:");
}
