//! Tests of approvals as permissions.

use super::*;

fn selected(id: &str) -> Outcome {
    Outcome::Selected { option_id: id.to_owned() }
}

fn asked(params: Value) -> CommandExecutionRequestApprovalParams {
    let mut whole = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0 });
    whole.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn ids(permission: &Permission) -> Vec<String> {
    permission.options().into_iter().map(|option| option.option_id).collect()
}

#[test]
fn a_command_is_shown_whole_with_every_decision() {
    let long = format!("echo {}\nrm -rf x", "a".repeat(10_000));
    let params = json!({
        "command": long, "cwd": "/w", "reason": "needs\u{1b} it",
        "availableDecisions": [
            "accept", "acceptForSession",
            { "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["npm", "run x"] } },
            { "applyNetworkPolicyAmendment": {
                "network_policy_amendment": { "host": "h", "action": "deny" } } },
            "decline", "cancel",
        ],
    });
    let make = || command(&asked(params.clone()), None);
    let permission = make();
    let call = serde_json::to_value(&permission.tool_call).unwrap();
    assert_eq!(call["title"], json!(long));
    let text = call["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains(&long) && text.contains("Folder: /w"), "{text}");
    assert!(text.contains("needs\\u{1b} it"), "{text}");
    assert_eq!(
        ids(&permission),
        ["accept", "acceptForSession", "acceptWithPrefix", "deny:h", "decline", "cancel"]
    );
    assert_eq!(
        permission.options()[2].name,
        "Allow, and always commands that start with `npm 'run x'`"
    );
    let check = |outcome: Outcome, expect: Value| {
        assert_eq!(make().answer(&outcome)["decision"], expect);
    };
    check(selected("accept"), json!("accept"));
    check(selected("acceptForSession"), json!("acceptForSession"));
    let prefix =
        json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["npm", "run x"] } });
    check(selected("acceptWithPrefix"), prefix);
    check(selected("deny:h"), params["availableDecisions"][3].clone());
    check(selected("decline"), json!("decline"));
    check(selected("always"), json!("decline"));
    check(Outcome::Cancelled, json!("cancel"));
}

#[test]
fn what_a_request_leaves_out_stands_in_the_item() {
    let item = json!({
        "id": "i", "command": "make", "cwd": "/w", "status": "inProgress", "commandActions": [],
    });
    let item: CommandExecutionItem = serde_json::from_value(item).unwrap();
    let permission = command(&asked(json!({})), Some(&item));
    assert_eq!(permission.tool_call.title.as_deref(), Some("make"));
    assert_eq!(ids(&permission), ["accept", "acceptForSession", "decline", "cancel"]);
    let network = json!({ "networkApprovalContext": { "host": "h.example", "protocol": "https" } });
    let permission = command(&asked(network), None);
    assert_eq!(permission.tool_call.title.as_deref(), Some("Connect to h.example"));
}

#[test]
fn changes_of_files_have_diffs() {
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "reason": "why",
    });
    let params: FileChangeRequestApprovalParams = serde_json::from_value(params).unwrap();
    let item = json!({ "id": "i", "status": "inProgress", "changes": [
        { "path": "a.rs", "kind": { "type": "update" }, "diff": "@@ -3 +3 @@\n-x\n+y\n" },
    ] });
    let item: FileChangeItem = serde_json::from_value(item).unwrap();
    let permission = file_change(&params, Some(&item), "/w", Version::First);
    let call = serde_json::to_value(&permission.tool_call).unwrap();
    let diff = json!({ "type": "diff", "path": "/w/a.rs", "oldText": "x\n", "newText": "y\n" });
    assert_eq!((&call["content"][1], &call["kind"]), (&diff, &json!("edit")));
    assert_eq!(call["locations"], json!([{ "path": "/w/a.rs", "line": 3 }]));
    assert_eq!(
        permission.answer(&selected("acceptForSession")),
        json!({ "decision": "acceptForSession" })
    );
}

#[test]
fn permissions_and_tools() {
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "cwd": "/w",
        "permissions": { "network": { "enabled": true } },
    });
    let params: PermissionsRequestApprovalParams = serde_json::from_value(params).unwrap();
    let granted = permissions(&params).answer(&selected("grantForSession"));
    assert_eq!(
        (&granted["scope"], &granted["permissions"]["network"]["enabled"]),
        (&json!("session"), &json!(true))
    );
    assert_eq!(permissions(&params).answer(&Outcome::Cancelled), json!({ "permissions": {} }));

    let call = json!({ "itemId": "i", "tool": "write", "arguments": { "a": 1 } });
    assert_eq!(ids(&tool_call("s", "m", &call, false)), ["accept", "decline", "cancel"]);
    let answer = |id: &str| tool_call("s", "m", &call, true).answer(&selected(id));
    assert_eq!(answer("acceptForSession")["content"], json!({ "allowForSession": true }));
    assert_eq!(answer("decline"), json!({ "action": "decline" }));
}
