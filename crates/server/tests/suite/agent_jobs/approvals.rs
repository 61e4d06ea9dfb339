//! The file that a job writes is asked about as a patch is, before the job begins.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use super::{environment, idle, job, job_statuses, prompts, report, results};
use crate::agents::{outputs, parsed};
use crate::auto_review::{answer, document, requests};
use crate::says;

const PATCH: &str = "item/fileChange/requestApproval";

fn call() -> Value {
    job(json!({ "csv_path": "in.csv", "instruction": "Do {a}.", "output_csv_path": "out.csv" }))
}

fn done() -> Value {
    report(json!({ "result": {} }))
}

/// A thread whose model makes these calls, under the approval policy `approval`.
async fn opened(
    environment: &TestEnvironment,
    approval: &str,
    sandbox: &str,
) -> (TestServer, Peer, String) {
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let cwd = environment.workspace();
    let params = json!({ "cwd": cwd, "sandbox": sandbox, "approvalPolicy": approval });
    let thread = peer.start_thread(params).await;
    (server, peer, thread)
}

/// Waits until this many workers have made a request: the script gives its answers to them in the order
/// of their first requests.
async fn requested(environment: &TestEnvironment, thread: &str, workers: usize) {
    while prompts(environment, thread).len() < workers {
        // tidy: sleep between two looks, because the model announces no request
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// The last state of the item that shows the file.
async fn change(peer: &mut Peer) -> Value {
    let is_change = |params: &Value| params["item"]["type"] == "fileChange";
    peer.expect_where("item/completed", is_change).await["item"].clone()
}

#[tokio::test]
async fn a_policy_that_asks_for_each_change_asks_for_each_job() {
    let thread = vec![call(), call(), says("Well.")];
    let environment = environment(thread, vec![], vec![done()], "a\n1\n").await;
    let out = environment.workspace().join("out.csv");
    let (_server, mut peer, thread) = opened(&environment, "untrusted", "workspace-write").await;
    let turn = peer.start_turn(&thread, "Go.").await;

    let is_change = |params: &Value| params["item"]["type"] == "fileChange";
    let shown = peer.expect_where("item/started", is_change).await["item"].clone();
    let expected = json!([{ "path": out, "kind": { "type": "add" }, "diff": "" }]);
    assert_eq!((&shown["changes"], &shown["status"]), (&expected, &json!("inProgress")));
    let asked = peer.asked(PATCH).await;
    let params = &asked.params;
    assert_eq!(params["itemId"], shown["id"]);
    assert!(params["reason"].as_str().unwrap().contains("spawn_agents_on_csv"), "{params}");
    // Nothing has begun.
    assert!(job_statuses(&environment).is_empty());
    peer.decide(&asked, "accept").await;
    let is_call = |params: &Value| params["item"]["type"] == "dynamicToolCall";
    peer.expect_where("item/started", is_call).await;
    let completed = change(&mut peer).await;
    assert_eq!((&completed["id"], &completed["status"]), (&shown["id"], &json!("completed")));
    let written = fs::read_to_string(&out).unwrap();

    // The same call again is a new job: the approval was for the one that is completed.
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "decline").await;
    let declined = change(&mut peer).await;
    assert_eq!(declined["status"], "declined");
    assert_eq!(declined["changes"][0]["kind"]["type"], "update");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");

    let outputs = outputs(&environment, &thread);
    assert_eq!(parsed(&outputs[0])["completed"], 1);
    assert_eq!(outputs[1], "the user declined this");
    assert_eq!(job_statuses(&environment), [1]);
    assert_eq!(prompts(&environment, &thread).len(), 1);
    assert_eq!(fs::read_to_string(&out).unwrap(), written);
}

#[tokio::test]
async fn an_approval_for_the_session_is_for_the_file() {
    let thread = vec![call(), call(), says("Well.")];
    let environment = environment(thread, vec![], vec![done()], "a\n1\n").await;
    let (_server, mut peer, thread) = opened(&environment, "untrusted", "workspace-write").await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "acceptForSession").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(job_statuses(&environment), [1, 1]);
}

#[tokio::test]
async fn a_cancelled_approval_ends_the_turn() {
    let environment = environment(vec![call()], vec![], vec![done()], "a\n1\n").await;
    let (_server, mut peer, thread) = opened(&environment, "untrusted", "workspace-write").await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "cancel").await;
    assert_eq!(change(&mut peer).await["status"], "declined");
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    assert!(job_statuses(&environment).is_empty());
    assert!(prompts(&environment, &thread).is_empty());
}

#[tokio::test]
async fn a_job_that_goes_on_is_asked_about_again_only_after_a_restart() {
    let thread = vec![call(), call(), call(), says("Well.")];
    let workers = vec![vec![idle()], vec![idle()]];
    let mut environment = environment(thread, workers, vec![done()], "a\n1\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let cwd = environment.workspace();
    let params = json!({ "cwd": cwd, "sandbox": "workspace-write", "approvalPolicy": "untrusted" });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "accept").await;
    requested(&environment, &thread, 1).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    let cut_off = change(&mut peer).await;
    assert_eq!(cut_off["status"], "failed");
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");

    // The worker starts although nobody answers a question.
    peer.start_turn(&thread, "Go on.").await;
    requested(&environment, &thread, 2).await;
    environment.crash();
    drop(server);

    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "Go on.").await;
    let asked = peer.asked(PATCH).await;
    peer.decide(&asked, "accept").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let output = parsed(outputs(&environment, &thread).last().unwrap());
    assert_eq!((&output["continued"], &output["completed"]), (&json!(true), &json!(1)), "{output}");
    assert_eq!(job_statuses(&environment), [1]);
    server.stop().await;
}

#[tokio::test]
async fn results_beyond_the_sandbox_need_an_approval() {
    for (policy, decision) in [("never", None), ("on-request", Some("accept"))] {
        let thread = vec![call(), says("Well.")];
        let environment = environment(thread, vec![], vec![done()], "a\n1\n").await;
        let (_server, mut peer, thread) = opened(&environment, policy, "read-only").await;
        let turn = peer.start_turn(&thread, "Go.").await;
        if let Some(decision) = decision {
            let asked = peer.asked(PATCH).await;
            peer.decide(&asked, decision).await;
        }
        let status = change(&mut peer).await["status"].clone();
        assert_eq!(peer.turn_end(&turn).await["status"], "completed");
        let output = outputs(&environment, &thread).remove(0);
        match decision {
            None => {
                assert!(output.contains("no approval can be requested"), "{output}");
                assert_eq!(status, "declined");
                assert!(prompts(&environment, &thread).is_empty());
                assert!(!environment.workspace().join("out.csv").exists());
            }
            Some(_) => {
                assert_eq!(results(&environment, &parsed(&output)).len(), 2);
                assert_eq!(status, "completed");
            }
        }
    }
}

#[tokio::test]
async fn what_was_approved_is_the_place_that_was_shown() {
    let thread = vec![call(), says("Well.")];
    let environment = environment(thread, vec![], vec![done()], "a\n1\n").await;
    let (_server, mut peer, thread) = opened(&environment, "untrusted", "workspace-write").await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(PATCH).await;
    let workspace = environment.workspace();
    fs::write(workspace.join("other.csv"), "mine").unwrap();
    symlink(workspace.join("other.csv"), workspace.join("out.csv")).unwrap();
    peer.decide(&asked, "accept").await;
    assert_eq!(change(&mut peer).await["status"], "failed");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let output = outputs(&environment, &thread).remove(0);
    assert!(output.contains("elsewhere than when the call was decided about"), "{output}");
    assert_eq!(fs::read_to_string(workspace.join("other.csv")).unwrap(), "mine");
    assert!(prompts(&environment, &thread).is_empty());
    assert!(job_statuses(&environment).is_empty());
}

#[tokio::test]
async fn what_was_approved_is_the_job_that_was_there() {
    let thread = vec![call(), call(), says("Well.")];
    let environment = environment(thread, vec![vec![idle()]], vec![done()], "a\n1\n").await;
    let (_server, mut peer, thread) = opened(&environment, "on-request", "workspace-write").await;
    let works =
        |params: &Value| params["message"].as_str().unwrap_or_default().contains("\"running\":1");
    let turn = peer.start_turn(&thread, "Go.").await;
    peer.expect_where("item/mcpToolCall/progress", works).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.turn_end(&turn).await;

    // Nobody was asked so far, so nothing was approved for the job.
    let input = json!([{ "type": "text", "text": "Go on." }]);
    let params = json!({ "threadId": thread, "input": input, "approvalPolicy": "untrusted" });
    let turn = peer.call("turn/start", params).await["turn"]["id"].as_str().unwrap().to_owned();
    let asked = peer.asked(PATCH).await;
    fs::write(environment.workspace().join("in.csv"), "a\n2\n").unwrap();
    peer.decide(&asked, "accept").await;
    assert_eq!(change(&mut peer).await["status"], "failed");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let output = outputs(&environment, &thread).pop().unwrap();
    assert!(output.contains("or its input changed"), "{output}");
    assert_eq!(job_statuses(&environment).len(), 1);
}

#[tokio::test]
async fn a_reviewer_decides_about_the_results() {
    for verdict in ["approve", "deny"] {
        let of = |number: u64, mut response: Value| {
            response["conversation"] = number.into();
            response
        };
        let mut responses = vec![of(0, call()), of(0, says("Well."))];
        responses.push(of(1, says(&answer(verdict, "low", "high"))));
        responses.push(done());
        let environment = TestEnvironment::with_responses(Value::from(responses)).await;
        fs::write(environment.workspace().join("in.csv"), "a\n1\n").unwrap();
        let server = environment.start();
        let mut peer = server.connect().await;
        let params = json!({ "cwd": environment.workspace(), "sandbox": "workspace-write",
            "approvalPolicy": "untrusted", "approvalsReviewer": "auto_review" });
        let thread = peer.start_thread(params).await;
        let end = peer.run_turn(&thread, "Go.").await;
        assert_eq!(end["status"], "completed");
        let out = environment.workspace().join("out.csv");
        assert_eq!(out.exists(), verdict == "approve");
        let action = document(&requests(&environment)[0])["data"]["action"].clone();
        assert_eq!(action["type"], "jobOutput");
        assert_eq!(action["instruction"], "Do {a}.");
        assert_eq!(action["output"]["realPath"], json!(out));
        assert_eq!(job_statuses(&environment).len(), usize::from(verdict == "approve"));
        server.stop().await;
    }
}
