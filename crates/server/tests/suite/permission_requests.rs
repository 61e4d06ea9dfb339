//! Requests of the model for permissions: what clients are asked, what a grant lets commands do in
//! the real sandbox, how long it lasts, and what can never be granted.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Peer, ReceivedRequest, TestEnvironment, TestServer};

use crate::{calls, patches, runs, says, tool_outputs};

const ASKS: &str = "item/permissions/requestApproval";

/// A response with a request to write in folders.
fn requests(write: &[&str]) -> Value {
    let permissions = json!({ "file_system": { "write": write } });
    calls("request_permissions", json!({ "reason": "To build.", "permissions": permissions }))
}

async fn open(server: &TestServer, params: Value) -> (Peer, String) {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let mut start = json!({ "approvalPolicy": "onRequest", "sandbox": "workspaceWrite" });
    for (member, value) in params.as_object().unwrap() {
        start[member] = value.clone();
    }
    let thread = peer.start_thread(start).await;
    peer.forget();
    (peer, thread)
}

/// The environment with a folder `out` outside of the workspace.
async fn env(responses: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    std::fs::create_dir(env.root().join("out")).unwrap();
    env
}

async fn grant(peer: &mut Peer, asked: &ReceivedRequest, write: &[&Path], scope: &str) {
    let permissions = json!({ "fileSystem": { "write": write } });
    peer.answer(asked, json!({ "permissions": permissions, "scope": scope })).await;
}

async fn sandbox(peer: &mut Peer, thread: &str) -> Value {
    peer.call("thread/resume", json!({ "threadId": thread })).await["sandbox"].clone()
}

#[tokio::test]
async fn a_command_can_write_after_the_grant_only_and_a_turn_grant_ends_with_the_turn() {
    let writes = |name: &str| runs(&format!("touch ../out/{name}"));
    for (scope, in_next_turn) in [("turn", false), ("session", true)] {
        let responses = json!([
            writes("before"),
            requests(&["../out"]),
            writes("after"),
            patches("*** Add File: ../out/patched\n+x"),
            says("Done."),
            writes("later"),
            says("Done.")
        ]);
        let env = env(responses).await;
        let (out, made) = (env.root().join("out"), |name: &str| env.root().join("out").join(name));
        let server = env.start();
        let (mut peer, thread) = open(&server, json!({})).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(ASKS).await;
        assert_eq!(asked.params["reason"], "To build.");
        assert_eq!(asked.params["permissions"], json!({ "fileSystem": { "write": [out] } }));
        assert!(!made("before").exists());
        grant(&mut peer, &asked, &[&out], scope).await;
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        assert!(made("after").exists() && made("patched").exists());
        let output = tool_outputs(&env)[1].clone();
        assert!(output.contains(&format!("\"scope\":\"{scope}\"")), "{output}");
        let roots = sandbox(&mut peer, &thread).await["writableRoots"].clone();
        let shown = json!([env.workspace(), out]);
        assert_eq!(roots, if in_next_turn { shown } else { json!([]) });
        peer.run_turn(&thread, "Again.").await;
        assert_eq!(made("later").exists(), in_next_turn, "{:?}", tool_outputs(&env));
        // A grant lives as long as the thread is loaded.
        server.stop().await;
        let server = env.start();
        let mut peer = server.connect().await;
        assert_eq!(sandbox(&mut peer, &thread).await["writableRoots"], json!([]));
    }
}

#[tokio::test]
async fn a_grant_is_shown_while_it_holds() {
    let env = env(json!([requests(&["../out"]), runs("sleep 100"), says("Done.")])).await;
    let out = env.root().join("out");
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    peer.expect_where("thread/status/changed", |notice| {
        notice["status"]["activeFlags"] == json!(["waitingOnApproval"])
    })
    .await;
    let asked = peer.asked(ASKS).await;
    grant(&mut peer, &asked, &[&out], "turn").await;
    assert_eq!(peer.item("dynamicToolCall").await["success"], true);
    let roots = sandbox(&mut peer, &thread).await["writableRoots"].clone();
    assert_eq!(roots, json!([env.workspace(), out]));
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(sandbox(&mut peer, &thread).await["writableRoots"], json!([]));
}

#[cfg(unix)]
#[tokio::test]
async fn the_question_names_where_a_link_leads_and_a_link_that_moves_is_refused() {
    let responses = json!([
        requests(&["link"]),
        runs("touch link/first"),
        requests(&["moving"]),
        runs("touch moving/second; touch ../other/second"),
        says("Done.")
    ]);
    let env = env(responses).await;
    let (out, other) = (env.root().join("out"), env.root().join("other"));
    let moving = env.root().join("user/folder");
    for folder in [&other, &moving] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&out, env.workspace().join("link")).unwrap();
    std::os::unix::fs::symlink(&moving, env.workspace().join("moving")).unwrap();
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(asked.params["permissions"]["fileSystem"]["write"], json!([out]));
    grant(&mut peer, &asked, &[&out], "turn").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(asked.params["permissions"]["fileSystem"]["write"], json!([moving]));
    std::fs::remove_dir(&moving).unwrap();
    std::os::unix::fs::symlink(&other, &moving).unwrap();
    grant(&mut peer, &asked, &[&moving], "turn").await;
    peer.turn_end(&turn).await;
    assert!(out.join("first").exists());
    assert!(!other.join("second").exists());
    let outputs = tool_outputs(&env);
    assert!(outputs[2].contains("leads elsewhere than when the user was asked"), "{outputs:?}");
}

#[tokio::test]
async fn what_can_never_be_granted_is_refused_without_a_question() {
    for (folder, why) in [
        ("/", "the whole file system"),
        ("../home", "the agent's own home"),
        ("../home/sessions", "the agent's own home"),
        ("..", "the agent's own home"),
        ("../data", "the folder of the database or log"),
        ("../data/deeper", "the folder of the database or log"),
        ("../logs", "the folder of the database or log"),
        ("../system", "the administrator's folder"),
        ("../out/.git", "`.git` and `.agent` stay read-only"),
        ("../out/.git/hooks", "`.git` and `.agent` stay read-only"),
        ("/proc/self", "belongs to the kernel"),
        ("../nowhere", "does not exist"),
        ("../out/file", "is not a folder"),
        ("to-home", "the agent's own home"),
        (" ", "without a name"),
    ] {
        let mut env = env(json!([requests(&[folder]), says("Done.")])).await;
        for folder in ["out/.git/hooks", "home/sessions", "system", "data/deeper", "logs"] {
            std::fs::create_dir_all(env.root().join(folder)).unwrap();
        }
        for (key, folder) in [("sqlite_home", "data"), ("log_dir", "logs")] {
            let folder = env.root().join(folder);
            env.config_overrides.push(format!("{key}={}", json!(folder)));
        }
        std::fs::write(env.root().join("out/file"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(env.home(), env.workspace().join("to-home")).unwrap();
        let server = env.start();
        let (mut peer, thread) = open(&server, json!({})).await;
        peer.run_turn(&thread, "Go.").await;
        let output = &tool_outputs(&env)[0];
        assert!(output.starts_with("not granted: ") && output.contains(why), "{folder}: {output}");
        assert!(!peer.raw_lines().iter().any(|line| line.contains(ASKS)), "{folder}");
    }
}

#[tokio::test]
async fn requirements_are_never_widened() {
    let env = env(json!([requests(&["../out"]), says("Done.")])).await;
    std::fs::create_dir(env.system_dir()).unwrap();
    let requirement = "allowed_sandbox_modes = [\"read-only\"]\n";
    std::fs::write(env.system_dir().join("requirements.toml"), requirement).unwrap();
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({ "sandbox": "readOnly" })).await;
    peer.run_turn(&thread, "Go.").await;
    let output = &tool_outputs(&env)[0];
    assert!(output.contains("not allowed by") && output.contains("requirements.toml"), "{output}");
}

#[tokio::test]
async fn new_requirements_end_what_was_granted() {
    let responses =
        json!([requests(&["../out"]), says("Done."), runs("touch ../out/later"), says("x")]);
    let env = env(responses).await;
    let out = env.root().join("out");
    std::fs::create_dir(env.system_dir()).unwrap();
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({ "sandbox": "readOnly" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    grant(&mut peer, &asked, &[&out], "session").await;
    peer.turn_end(&turn).await;
    assert_eq!(sandbox(&mut peer, &thread).await["type"], "workspaceWrite");
    let requirement = "allowed_sandbox_modes = [\"read-only\"]\n";
    std::fs::write(env.system_dir().join("requirements.toml"), requirement).unwrap();
    peer.run_turn(&thread, "Again.").await;
    assert!(!out.join("later").exists());
    assert_eq!(sandbox(&mut peer, &thread).await["type"], "readOnly");
}

#[tokio::test]
async fn no_more_is_granted_than_was_asked_for() {
    let env = env(json!([requests(&["../out"]), runs("touch ../user/x"), says("Done.")])).await;
    let (out, user) = (env.root().join("out"), env.root().join("user"));
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({})).await;
    let mut second = server.connect().await;
    second.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(second.asked(ASKS).await.id, asked.id);
    grant(&mut peer, &asked, &[&out, &user], "turn").await;
    let warning = peer.expect("warning").await["message"].as_str().unwrap().to_owned();
    for part in [ASKS, "which was not requested", "The request stays open"] {
        assert!(warning.contains(part), "{part} in {warning}");
    }
    second.answer(&asked, json!({ "permissions": {} })).await;
    peer.turn_end(&turn).await;
    assert_eq!(tool_outputs(&env)[0], "the user declined this");
    assert!(!user.join("x").exists());
}

// Effect of `approval_policy.granular.request_permissions`.
#[tokio::test]
async fn granular() {
    for allowed in [true, false] {
        let mut env = env(json!([requests(&["../out"]), says("Done.")])).await;
        let key = format!("approval_policy.granular.request_permissions={allowed}");
        env.config_overrides.push(key);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        if allowed {
            let asked = peer.asked(ASKS).await;
            peer.answer(&asked, json!({ "permissions": {} })).await;
        }
        peer.turn_end(&turn).await;
        let output = &tool_outputs(&env)[0];
        let expected = if allowed { "the user declined this" } else { "switched off" };
        assert!(output.contains(expected), "{output}");
    }
}

const PROFILES: &str = r#"
[permissions.careful.filesystem]
":minimal" = "read"
":project_roots" = { "." = "write", "secret" = "none", "docs" = "read" }

[permissions.proxied.filesystem]
":root" = "read"

[permissions.proxied.network]
enabled = true
allowed_domains = ["a.example"]
"#;

#[tokio::test]
async fn profiles_are_widened_where_they_hide_nothing() {
    let asks =
        |permissions: Value| calls("request_permissions", json!({ "permissions": permissions }));
    let network = asks(json!({ "network": { "enabled": true } }));
    let docs = asks(json!({ "file_system": { "write": ["docs"], "read": ["../out"] } }));
    let secret = asks(json!({ "file_system": { "read": ["secret"] } }));
    let uses = runs("touch docs/made; cat ../out/file; wc -l < /proc/net/dev");
    let rows = [
        ("careful", docs, uses.clone(), ["docs", "out"].as_slice(), "content\n3"),
        ("careful", network.clone(), uses, [].as_slice(), "No such file"),
        ("careful", secret, runs("true"), [].as_slice(), "the permission profile hides it"),
        ("proxied", network, runs("true"), [].as_slice(), "the network of this thread is managed"),
    ];
    for (profile, request, then, folders, expected) in rows {
        let env = env(json!([request, then, says("Done.")])).await;
        let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        env.write_config(&format!("{config}{PROFILES}"));
        for folder in ["docs", "secret"] {
            std::fs::create_dir(env.workspace().join(folder)).unwrap();
        }
        std::fs::write(env.root().join("out/file"), "content\n").unwrap();
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let permissions = json!({ "type": "profile", "id": profile });
        let start = json!({ "permissions": permissions, "approvalPolicy": "onRequest" });
        let thread = peer.start_thread(start).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let refused = expected.contains("profile hides") || expected.contains("managed");
        if !refused {
            let asked = peer.asked(ASKS).await;
            let answer = json!({ "permissions": asked.params["permissions"], "scope": "session" });
            peer.answer(&asked, answer).await;
        }
        peer.turn_end(&turn).await;
        let outputs = tool_outputs(&env).join("\n");
        assert!(outputs.contains(expected), "{profile}: {outputs}");
        assert_eq!(env.workspace().join("docs/made").exists(), !folders.is_empty());
        let resumed = peer.call("thread/resume", json!({ "threadId": thread })).await;
        let shown = &resumed["activePermissionProfile"]["modifications"];
        let docs = env.workspace().join("docs");
        let added = json!([{ "type": "additionalWritableRoot", "path": docs }]);
        assert_eq!(*shown, if folders.is_empty() { Value::Null } else { added }, "{resumed}");
    }
}

#[tokio::test]
async fn a_reviewer_grants_for_the_turn_and_a_user_approves_what_it_denied() {
    let answer = |verdict: &str| {
        says(
            &json!({ "reviewId": "{{review_id}}", "verdict": verdict, "riskLevel": "low",
                "userAuthorization": "high", "rationale": "The user asked for it." })
            .to_string(),
        )
    };
    let of = |number: u64, responses: &[Value]| -> Vec<Value> {
        let mut responses = responses.to_vec();
        responses.iter_mut().for_each(|response| response["conversation"] = number.into());
        responses
    };
    let thread = [
        requests(&["../out"]),
        runs("touch ../out/first"),
        says("Done."),
        runs("touch ../out/second"),
        requests(&["../user"]),
        says("Done."),
        requests(&["../user"]),
        runs("touch ../user/third"),
        says("Done."),
    ];
    let reviews = [answer("approve"), answer("deny")];
    let env = env(json!([of(0, &thread), of(1, &reviews)].concat())).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({ "approvalsReviewer": "auto_review" })).await;
    peer.run_turn(&thread, "Go.").await;
    let made = |name: &str| env.root().join(name).exists();
    assert!(made("out/first"), "{:?}", tool_outputs(&env));
    let turn = peer.start_turn(&thread, "Again.").await;
    let denied = |notice: &Value| notice["review"]["status"] == "denied";
    let completed = peer.expect_where("item/autoApprovalReview/completed", denied).await;
    let user = env.root().join("user");
    let action = json!({ "type": "requestPermissions", "reason": "To build.",
        "permissions": { "fileSystem": { "write": [user] } } });
    assert_eq!(completed["action"], action);
    peer.turn_end(&turn).await;
    assert!(!made("out/second"), "the grant was for the turn");
    let params = json!({ "threadId": thread, "event": completed });
    peer.call("thread/approveGuardianDeniedAction", params).await;
    peer.run_turn(&thread, "Once more.").await;
    assert!(made("user/third"));
    assert!(!peer.raw_lines().iter().any(|line| line.contains(ASKS)));
}

#[tokio::test]
async fn a_grant_is_not_passed_on_to_agents() {
    let of = |number: u64, responses: &[Value]| -> Vec<Value> {
        let mut responses = responses.to_vec();
        responses.iter_mut().for_each(|response| response["conversation"] = number.into());
        responses
    };
    let parent = [
        requests(&["../out"]),
        calls("spawn_agent", json!({ "message": "Write." })),
        calls("wait_agent", json!({ "targets": ["Ada"], "timeout_ms": 10_000 })),
        runs("touch ../out/own"),
        says("Done."),
    ];
    let agent = [runs("touch ../out/passed-on"), says("Written.")];
    let env = env(json!([of(0, &parent), of(1, &agent)].concat())).await;
    let out = env.root().join("out");
    let server = env.start();
    let (mut peer, thread) = open(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(ASKS).await;
    grant(&mut peer, &asked, &[&out], "session").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert!(out.join("own").exists());
    assert!(!out.join("passed-on").exists());
}
