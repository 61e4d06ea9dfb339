//! Parameters that are unknown, in another spelling, null or invalid (specification: Errors).
//! `protocol/tests/suite/members.rs` checks with the schema that every type that decides about
//! permissions is strict.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

async fn env() -> TestEnvironment {
    TestEnvironment::with_responses(json!([says("One."), says("Two."), says("Three.")])).await
}

/// Sends each request; all must be refused with -32602 and a message that contains the text.
async fn refused(peer: &mut Peer, cases: &[(&str, Value, &str)]) {
    for (method, params, notice) in cases {
        let fault = peer.refused(method, params.clone()).await;
        assert_eq!(fault.code, -32602, "{method} {params}: {fault:?}");
        assert!(fault.message.contains(notice), "{method} {params}: {fault:?}");
    }
}

#[tokio::test]
async fn unknown_members_of_permission_types_are_refused() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(json!({})).await;
    let turn = |more: Value| {
        let mut params =
            json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }] });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let cases = [
        ("thread/start", json!({ "sandBox": "readOnly" }), "did you mean `sandbox`?"),
        ("turn/start", turn(json!({ "toolOutput": {} })), "unknown member `toolOutput`"),
        (
            "thread/start",
            json!({ "sandboxPolicy": { "type": "readOnly" } }),
            "choose the mode with `sandbox`",
        ),
        (
            "thread/resume",
            json!({ "threadId": thread, "approvals": "never" }),
            "unknown member `approvals`",
        ),
        (
            "thread/fork",
            json!({ "threadId": thread, "readonly": true }),
            "unknown member `readonly`",
        ),
        ("turn/start", turn(json!({ "sandbox": "readOnly" })), "give a `sandboxPolicy`"),
        (
            "turn/start",
            turn(json!({ "sandboxPolicy": { "type": "readOnly", "writableRoots": ["/"] } })),
            "`sandboxPolicy`: unknown member `writableRoots`",
        ),
        (
            "turn/start",
            turn(
                json!({ "sandboxPolicy": { "type": "readOnly", "access": { "type": "fullAccess", "except": ["/etc"] } } }),
            ),
            "`sandboxPolicy.access`: unknown member `except`",
        ),
        (
            "turn/start",
            turn(
                json!({ "approvalPolicy": { "granular": { "sandbox_approval": true, "rules": true, "mcp_elicitations": true, "network": false } } }),
            ),
            "unknown member `network`",
        ),
        (
            "command/exec",
            json!({ "command": ["true"], "sandbox": "readOnly" }),
            "unknown member `sandbox`",
        ),
        (
            "command/exec",
            json!({ "command": ["true"], "permissionProfile": { "type": "disabled", "network": { "enabled": false } } }),
            "unknown member `network`",
        ),
        (
            "process/spawn",
            json!({ "command": ["true"], "processHandle": "p", "cwd": "/", "sandboxPolicy": { "type": "readOnly" } }),
            "unknown member `sandboxPolicy`",
        ),
        (
            "thread/shellCommand",
            json!({ "threadId": thread, "command": "true", "timeoutMs": 5 }),
            "unknown member `timeoutMs`",
        ),
        (
            "config/value/write",
            json!({ "keyPath": "model", "value": "a", "mergeStrategy": "replace", "expectedVersions": "1" }),
            "did you mean `expectedVersion`?",
        ),
        (
            "turn/start",
            turn(
                json!({ "sandboxPolicy": { "type": "workspaceWrite", "writable_roots": [], "writableRoots": [] } }),
            ),
            "are the same member",
        ),
    ];
    refused(&mut peer, &cases).await;
    // Where no permission is involved, a newer client may send more members.
    peer.call("thread/read", json!({ "threadId": thread, "verbosely": true })).await;
}

#[tokio::test]
async fn other_spellings_are_understood() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread =
        peer.start_thread(json!({ "approval_policy": "on_request", "sandbox": "read_only" })).await;
    let root = env.workspace().display().to_string();
    for (policy, access) in [
        ("workspace-write", "full_access"),
        ("workspace_write", "full-access"),
        ("workspaceWrite", "fullAccess"),
    ] {
        peer.run_turn_with(json!({
            "threadId": thread, "input": [{ "type": "text", "text": "Go." }],
            "sandbox_policy": {
                "type": policy, "writable_roots": [root], "network-access": true,
                "read_only_access": { "type": access }, "exclude_slash_tmp": true,
            },
        }))
        .await;
        let now = peer.call("thread/resume", json!({ "threadId": thread })).await;
        let expect = json!({
            "type": "workspaceWrite", "writableRoots": [root], "networkAccess": true,
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": true,
        });
        assert_eq!(now["sandbox"], expect, "{policy}");
    }
    // The gate of experimental members recognizes other spellings too.
    let fault = peer.refused("thread/start", json!({ "dynamic_tools": [] })).await;
    assert!(fault.message.contains("requires experimentalApi"), "{fault:?}");
}

#[tokio::test]
async fn a_running_turn_takes_no_overrides() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for (member, value) in [
        ("model", json!("gpt-5")),
        ("sandboxPolicy", json!({ "type": "readOnly" })),
        ("output_schema", json!({})),
    ] {
        let params = json!({
            "threadId": thread, "expectedTurnId": "t", "input": [{ "type": "text", "text": "Go." }],
            member: value,
        });
        let fault = peer.refused("turn/steer", params).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains("with the next `turn/start`"), "{fault:?}");
    }
}

#[tokio::test]
async fn null_members_are_omitted() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let exec = json!({
        "command": ["echo", "hi"], "cwd": null, "env": null, "sandboxPolicy": null, "timeoutMs": null,
        "disableTimeout": null, "outputBytesCap": null, "disableOutputCap": null, "processId": null,
        "tty": null, "size": null, "streamStdin": null, "streamStdoutStderr": null, "later": null,
    });
    assert_eq!(peer.call("command/exec", exec).await["stdout"], "hi\n");
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn_with(json!({
        "threadId": thread, "input": [{ "type": "text", "text": "Go.", "text_elements": null }],
        "sandboxPolicy": { "type": "readOnly", "access": null, "networkAccess": null },
    }))
    .await;
    peer.call("thread/read", json!({ "threadId": thread, "includeTurns": null })).await;
    peer.call("thread/list", json!({ "limit": null, "useStateDbOnly": null })).await;
}

#[tokio::test]
async fn invalid_values_are_refused_by_name() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let image = |url: &str| json!({ "threadId": thread, "input": [{ "type": "text", "text": "Look." }, { "type": "image", "url": url }] });
    let turn =
        |member: &str, value: Value| json!({ "threadId": thread, "input": [], member: value });
    let mode = json!({ "mode": "plan", "settings": { "model": "" } });
    let beyond = json!([{ "type": "text", "text": "ab", "text_elements": [{ "byteRange": { "start": 1, "end": 3 } }] }]);
    let steered = json!({ "threadId": thread, "expectedTurnId": "t", "input": [{ "type": "image", "url": "x" }] });
    let item = |url: &str| {
        let content = json!([{ "type": "input_image", "image_url": url }]);
        json!({ "threadId": thread, "items": [{ "type": "message", "role": "user", "content": content }] })
    };
    let cases = [
        (
            "turn/start",
            image("file:///etc/passwd"),
            "`input[1].url`: an image cannot have a `file:` URL",
        ),
        ("turn/start", image("picture.png"), "`input[1].url`"),
        (
            "turn/start",
            image("data:text/plain;base64,AAAA"),
            "holds `text/plain`, which is not an image",
        ),
        ("turn/start", image("data:image/png;base64,%%%%"), "no valid base64"),
        ("turn/steer", steered, "`input[0].url`"),
        ("thread/inject_items", item("data:image/png,x"), "`items[0]`"),
        ("thread/start", json!({ "model": "" }), "`model` must not be empty"),
        ("thread/resume", json!({ "threadId": thread, "model": " " }), "`model` must not be empty"),
        ("thread/fork", json!({ "threadId": thread, "model": "" }), "`model` must not be empty"),
        ("turn/start", turn("model", json!("")), "`model` must not be empty"),
        ("turn/start", turn("collaborationMode", mode), "`collaborationMode.settings.model`"),
        (
            "thread/start",
            json!({ "serviceTier": "warp" }),
            "`serviceTier`: there is no tier `warp`",
        ),
        ("turn/start", turn("serviceTier", json!("warp")), "give `flex`, `fast`, `default`"),
        (
            "turn/start",
            turn("serviceTierForTurn", json!("warp")),
            "`serviceTierForTurn`: there is no tier `warp`",
        ),
        ("turn/start", turn("turnTrigger", json!("x".repeat(257))), "`turnTrigger` has at most"),
        ("thread/start", json!({ "threadSource": "" }), "`threadSource` has 1 to 64 characters"),
        (
            "thread/fork",
            json!({ "threadId": thread, "threadSource": "x".repeat(65) }),
            "`threadSource` has 1 to 64 characters",
        ),
        ("turn/start", turn("input", beyond), "`input[0].text_elements[0].byteRange`"),
    ];
    refused(&mut peer, &cases).await;
    for tier in [json!("flex"), json!("fast"), Value::Null] {
        peer.call("thread/start", json!({ "serviceTier": tier })).await;
    }
}

#[tokio::test]
async fn a_limit_means_the_same_for_every_list() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let first = peer.start_thread(json!({})).await;
    peer.run_turn(&first, "Go.").await;
    let second = peer.start_thread(json!({})).await;
    peer.run_turn(&second, "Go.").await;
    for (method, mut params) in [
        (
            "thread/list",
            json!({ "sourceKinds": ["cli", "editor", "exec", "appServer", "unknown"] }),
        ),
        ("thread/turns/list", json!({ "threadId": first })),
        ("thread/items/list", json!({ "threadId": first })),
        ("thread/loaded/list", json!({})),
        ("model/list", json!({ "includeHidden": true })),
        ("experimentalFeature/list", json!({})),
    ] {
        let default = peer.call(method, params.clone()).await;
        assert!(!default["data"].as_array().unwrap().is_empty(), "{method}");
        for limit in [json!(0), Value::Null, json!(u32::MAX)] {
            params["limit"] = limit;
            let page = peer.call(method, params.clone()).await;
            assert_eq!(page["data"], default["data"], "{method} {params}");
        }
        params["limit"] = json!(1);
        let page = peer.call(method, params.clone()).await;
        assert_eq!(page["data"].as_array().unwrap().len(), 1, "{method}");
        params["limit"] = json!(-1);
        let fault = peer.refused(method, params).await;
        assert!(fault.message.contains("`limit`"), "{method}: {fault:?}");
    }
}

#[tokio::test]
async fn text_elements_are_returned() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let elements = json!([
        { "byteRange": { "start": 5, "end": 13 }, "placeholder": "[shown-in-its-place]" },
        { "byteRange": { "start": 0, "end": 4 } },
    ]);
    let input = json!([{ "type": "text", "text": "Read @main.rs", "text_elements": elements }]);
    peer.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    assert_eq!(peer.item("userMessage").await["content"], input);
    let notice = env.model().requests()[0]["input"].to_string();
    assert!(notice.contains("Read @main.rs") && !notice.contains("shown-in-its-place"), "{notice}");
    let read = json!({ "threadId": thread, "includeTurns": true });
    let turns = peer.call("thread/read", read.clone()).await["thread"]["turns"].clone();
    assert_eq!(turns[0]["items"][0]["content"], input);
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let turns = peer.call("thread/read", read).await["thread"]["turns"].clone();
    assert_eq!(turns[0]["items"][0]["content"], input);
}
