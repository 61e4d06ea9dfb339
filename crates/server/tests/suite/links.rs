//! Symbolic links that change between a decision and what it is about: what runs or is written is
//! what was decided about, or nothing.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, patches, runs, says, tool_outputs};

const PATCH: &str = "item/fileChange/requestApproval";
const COMMAND: &str = "item/commandExecution/requestApproval";
const PERMISSIONS: &str = "item/permissions/requestApproval";
const REVIEWED: &str = "item/autoApprovalReview/completed";

/// The environment with the folders `one` and `two` outside of the workspace, and a link to `one` in
/// it.
async fn env(responses: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    for name in ["one", "two"] {
        std::fs::create_dir(env.root().join(name)).unwrap();
    }
    symlink(env.root().join("one"), env.workspace().join("link")).unwrap();
    env
}

fn redirect(link: &Path, to: &Path) {
    let removed = match link.symlink_metadata().unwrap().is_dir() {
        true => std::fs::remove_dir(link),
        false => std::fs::remove_file(link),
    };
    removed.unwrap();
    symlink(to, link).unwrap();
}

async fn open(server: &TestServer, start: Value) -> (Peer, String) {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(start).await;
    peer.forget();
    (peer, thread)
}

fn asking(policy: &str) -> Value {
    json!({ "approvalPolicy": policy, "sandbox": "workspaceWrite" })
}

#[tokio::test]
async fn a_patch_is_asked_about_by_where_it_leads_and_written_nowhere_else() {
    for moves in [false, true] {
        let body = "*** Add File: link/made\n+x";
        let env = env(json!([patches(body), says("Done.")])).await;
        let (one, two) = (env.root().join("one"), env.root().join("two"));
        let server = env.start();
        let (mut peer, thread) = open(&server, asking("onRequest")).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(PATCH).await;
        let reason = asked.params["reason"].as_str().unwrap();
        let (named, real) = (env.workspace().join("link/made"), one.join("made"));
        let led = format!("{} leads to {}", named.display(), real.display());
        assert!(reason.contains(&led), "{reason}");
        if moves {
            redirect(&env.workspace().join("link"), &two);
        }
        peer.decide(&asked, "accept").await;
        peer.turn_end(&turn).await;
        assert_eq!(real.exists(), !moves);
        assert!(!two.join("made").exists());
        let output = &tool_outputs(&env)[0];
        assert_eq!(
            output.contains("elsewhere than when this was decided about"),
            moves,
            "{output}"
        );
    }
}

#[tokio::test]
async fn a_patch_within_the_workspace_is_written_where_it_was_decided_about_too() {
    let body = "*** Add File: to/made\n+x";
    let env = env(json!([patches(body), says("Done.")])).await;
    let (here, there) = (env.workspace().join("here"), env.workspace().join("there"));
    std::fs::create_dir(&here).unwrap();
    std::fs::create_dir(&there).unwrap();
    symlink("here", env.workspace().join("to")).unwrap();
    let server = env.start();
    let (mut peer, thread) = open(&server, asking("unlessTrusted")).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    assert!(asked.params["reason"].as_str().unwrap().contains("leads to"), "{}", asked.params);
    redirect(&env.workspace().join("to"), &there);
    peer.decide(&asked, "accept").await;
    peer.turn_end(&turn).await;
    assert!(!here.join("made").exists() && !there.join("made").exists());
}

#[tokio::test]
async fn a_grant_for_the_session_is_for_the_file_and_not_for_the_link() {
    let update =
        |from: &str, to: &str| patches(&format!("*** Update File: link/a\n@@\n-{from}\n+{to}"));
    let responses =
        json!(
            [update("1", "2"), update("2", "3"), says("Done."), update("1", "2"), says("Done."),]
        );
    let env = env(responses).await;
    let (one, two) = (env.root().join("one"), env.root().join("two"));
    for folder in [&one, &two] {
        std::fs::write(folder.join("a"), "1\n").unwrap();
    }
    let server = env.start();
    let (mut peer, thread) = open(&server, asking("onRequest")).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "acceptForSession").await;
    peer.turn_end(&turn).await;
    assert_eq!(std::fs::read_to_string(one.join("a")).unwrap(), "3\n", "it is asked once");
    redirect(&env.workspace().join("link"), &two);
    let turn = peer.start_turn(&thread, "Again.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    assert_eq!(std::fs::read_to_string(two.join("a")).unwrap(), "1\n");
}

/// A command in the folder `link`.
fn in_link(command: &str) -> Value {
    calls("exec_command", json!({ "cmd": command, "workdir": "link" }))
}

#[tokio::test]
async fn a_command_runs_in_the_folder_that_was_shown_or_not_at_all() {
    for sandbox in ["workspaceWrite", "dangerFullAccess"] {
        for changed in ["nothing", "link", "folder"] {
            let row = format!("{sandbox} {changed}");
            let env = env(json!([in_link("echo \"in $(pwd -P)\"; exit 1"), says("Done.")])).await;
            let (one, two) = (env.root().join("one"), env.root().join("two"));
            let server = env.start();
            let start = json!({ "approvalPolicy": "unlessTrusted", "sandbox": sandbox });
            let (mut peer, thread) = open(&server, start).await;
            let turn = peer.start_turn(&thread, "Go.").await;
            let asked = peer.asked(COMMAND).await;
            assert_eq!(asked.params["cwd"], json!(one), "{row}");
            let reason = asked.params["reason"].as_str().unwrap();
            assert!(
                reason.contains("the working folder") && reason.contains("leads to"),
                "{reason}"
            );
            match changed {
                "link" => redirect(&env.workspace().join("link"), &two),
                "folder" => redirect(&one, &two),
                _ => {}
            }
            peer.decide(&asked, "accept").await;
            peer.turn_end(&turn).await;
            let output = tool_outputs(&env)[0].clone();
            let ran = output.contains(&format!("in {}\n", one.display()));
            assert_eq!(ran, changed != "folder", "{row}: {output}");
            assert!(!output.contains(&format!("in {}", two.display())), "{row}: {output}");
            if changed == "folder" {
                let why = "leads elsewhere than when the command was decided about";
                assert!(output.contains(why), "{row}: {output}");
            }
        }
    }
}

#[tokio::test]
async fn what_the_user_approves_after_a_denial_is_not_what_a_moved_link_leads_to() {
    let deny = json!({ "reviewId": "{{review_id}}", "verdict": "deny", "riskLevel": "high",
        "userAuthorization": "unknown", "rationale": "It leaves the project." })
    .to_string();
    let of = |number: u64, responses: &[Value]| -> Vec<Value> {
        let mut responses = responses.to_vec();
        responses.iter_mut().for_each(|response| response["conversation"] = number.into());
        responses
    };
    let patch = || patches("*** Add File: link/made\n+x");
    for moves in [false, true] {
        let thread = [patch(), says("Done."), patch(), says("Done.")];
        let reviews = [says(&deny), says(&deny)];
        let env = env(json!([of(0, &thread), of(1, &reviews)].concat())).await;
        let (one, two) = (env.root().join("one"), env.root().join("two"));
        let server = env.start();
        let mut start = asking("onRequest");
        start["approvalsReviewer"] = "auto_review".into();
        let (mut peer, thread) = open(&server, start).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let denied = peer.expect(REVIEWED).await;
        let files = [env.workspace().join("link/made"), one.join("made")];
        assert_eq!(denied["action"]["files"], json!(files));
        peer.turn_end(&turn).await;
        let params = json!({ "threadId": thread, "event": denied });
        peer.call("thread/approveGuardianDeniedAction", params).await;
        if moves {
            redirect(&env.workspace().join("link"), &two);
        }
        peer.run_turn(&thread, "Again.").await;
        assert_eq!(one.join("made").exists(), !moves);
        assert!(!two.join("made").exists());
        let is_review = |request: &&Value| {
            request["prompt_cache_key"].as_str().is_some_and(|key| key.ends_with("/approvals"))
        };
        let requests = env.model().requests();
        assert_eq!(requests.iter().filter(is_review).count(), 1 + usize::from(moves));
        let first = requests.iter().find(is_review).unwrap()["input"].to_string();
        assert!(first.contains("realPath"), "{first}");
    }
}

#[tokio::test]
async fn a_granted_folder_that_leads_elsewhere_grants_nothing() {
    for (profile, access) in [(false, "write"), (true, "read"), (true, "write")] {
        let row = format!("profile {profile} {access}");
        let mut permissions = json!({ "file_system": {} });
        permissions["file_system"][access] = json!(["../one"]);
        let uses = if access == "write" { "touch ../one/made" } else { "cat ../one/secret" };
        let env = env(json!([
            calls("request_permissions", json!({ "permissions": permissions })),
            runs(uses),
            says("Done."),
            runs(&format!("{uses}; echo over")),
            patches("*** Add File: ../one/patched\n+x"),
            says("Done."),
            runs(uses),
            says("Done."),
        ]))
        .await;
        let (one, two) = (env.root().join("one"), env.root().join("two"));
        std::fs::write(one.join("secret"), "first").unwrap();
        std::fs::write(two.join("secret"), "other").unwrap();
        let mut start = asking("onRequest");
        if profile {
            let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
            env.write_config(&format!(
                "{config}\n[permissions.careful.filesystem]\n\":minimal\" = \"read\"\n\
                 \":project_roots\" = {{ \".\" = \"write\" }}\n"
            ));
            let selected = json!({ "type": "profile", "id": "careful" });
            start = json!({ "approvalPolicy": "onRequest", "permissions": selected });
        }
        let server = env.start();
        let (mut peer, thread) = open(&server, start).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(PERMISSIONS).await;
        let answer = json!({ "permissions": asked.params["permissions"], "scope": "session" });
        peer.answer(&asked, answer).await;
        peer.turn_end(&turn).await;
        let works = |at: usize| match access {
            "write" => tool_outputs(&env)[at].contains("exited with code 0"),
            _ => tool_outputs(&env)[at].contains("first"),
        };
        assert!(works(1), "{row}: {:?}", tool_outputs(&env));
        // What was granted is moved away, and a link stands in its place.
        let away = env.root().join("away");
        std::fs::rename(&one, &away).unwrap();
        symlink(&two, &one).unwrap();
        let turn = peer.start_turn(&thread, "Again.").await;
        // Without the right to read there, a patch is refused at once.
        if !profile {
            let asked = peer.asked(PATCH).await;
            let reason = asked.params["reason"].as_str().unwrap();
            assert!(reason.contains("leads to"), "{reason}");
            peer.decide(&asked, "decline").await;
        }
        peer.turn_end(&turn).await;
        let output = tool_outputs(&env)[2].clone();
        let why = format!("the granted folder {} is gone or leads elsewhere", one.display());
        assert!(output.contains(&why) && output.contains("over"), "{row}: {output}");
        assert!(!output.contains("other"), "{row}: {output}");
        assert!(!two.join("made").exists() && !two.join("patched").exists(), "{row}");
        // The folder that was granted is back in its place.
        std::fs::remove_file(&one).unwrap();
        std::fs::rename(&away, &one).unwrap();
        peer.run_turn(&thread, "Once more.").await;
        assert!(works(4), "{row}: {:?}", tool_outputs(&env));
    }
}
