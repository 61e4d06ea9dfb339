//! How rows end: what is final, and what runs again when the job goes on.

use serde_json::{Value, json};

use super::{
    environment, idle, job, job_statuses, prompts, report, reports, results, started, stored,
};
use crate::agents::{outputs, parsed};
use crate::{runs, says};

fn small(csv: &str) -> Value {
    json!({ "csv_path": csv, "instruction": "Do {a}.", "output_csv_path": "out.csv",
        "max_concurrency": 1 })
}

/// The statuses of the rows, by the results.
fn column(environment: &testkit::TestEnvironment, output: &Value) -> Vec<String> {
    results(environment, output).into_iter().skip(1).map(|mut row| row.remove(1)).collect()
}

#[tokio::test]
async fn rows_of_workers_that_clients_end_are_stopped_and_run_again() {
    let thread = vec![job(small("in.csv")), job(small("in.csv")), says("Done.")];
    let rest = vec![report(json!({ "result": {} }))];
    let environment =
        environment(thread, vec![vec![idle()], vec![idle()]], rest, "a\n1\n2\n3\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    for (ended, end) in ["turn/interrupt", "thread/archive"].into_iter().enumerate() {
        let of_worker = |params: &Value| params["thread"]["threadSource"] == "subagent";
        let worker = peer.expect_where("thread/started", of_worker).await["thread"]["id"].clone();
        let resumed = peer.call("thread/resume", json!({ "threadId": worker })).await;
        let turn = match resumed["thread"]["turns"].as_array().unwrap().last() {
            Some(turn) => turn["id"].clone(),
            None => {
                let of_worker = |params: &Value| params["threadId"] == worker;
                peer.expect_where("turn/started", of_worker).await["turn"]["id"].clone()
            }
        };
        // The script gives its answers to workers in the order of their first requests.
        while prompts(&environment, &thread).len() <= ended {
            // tidy: sleep between two looks, because the model announces no request
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let params = match end {
            "turn/interrupt" => json!({ "threadId": worker, "turnId": turn }),
            _ => json!({ "threadId": worker }),
        };
        peer.call(end, params).await;
    }
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let outputs = outputs(&environment, &thread);
    let first = parsed(&outputs[0]);
    let counts = (&first["status"], &first["completed"], &first["failed"], &first["stopped"]);
    assert_eq!(counts, (&json!("stopped"), &json!(1), &json!(0), &json!(2)), "{first}");
    assert_eq!(first["first_stopped"][0]["error"], "the worker was interrupted");
    assert_eq!(first["first_stopped"][1]["row"], 2);
    assert!(first["next_step"].as_str().unwrap().contains("same arguments"));
    let second = parsed(&outputs[1]);
    let counts = (&second["status"], &second["continued"], &second["finished_before_this_call"]);
    assert_eq!(counts, (&json!("completed"), &json!(true), &json!(1)), "{second}");
    assert_eq!(column(&environment, &second), ["completed"; 3]);
    assert_eq!(prompts(&environment, &thread).len(), 5);
    assert_eq!(job_statuses(&environment), [1]);
}

#[tokio::test]
async fn only_a_failure_of_the_row_itself_is_final() {
    let refused =
        |status: u16| json!({ "steps": [{ "error": { "status": status, "message": "no" } }] });
    // The status of the provider's answer to the first worker; the statuses of the rows after the
    // first call; workers of the first call.
    for (status, expected, workers) in [
        (400, ["failed", "completed", "completed"], 3),
        (500, ["stopped", "completed", "completed"], 3),
        (401, ["stopped", "stopped", "stopped"], 1),
    ] {
        let thread = vec![job(small("in.csv")), says("Well."), job(small("in.csv")), says("Done.")];
        let rest = vec![report(json!({ "result": {} }))];
        let environment =
            environment(thread, vec![vec![refused(status)]], rest, "a\n1\n2\n3\n").await;
        let server = environment.start();
        let mut peer = server.connect().await;
        let thread = started(&environment, &mut peer).await;
        peer.run_turn(&thread, "Go.").await;
        let first = parsed(outputs(&environment, &thread).last().unwrap());
        assert_eq!(column(&environment, &first), expected, "{first}");
        assert_eq!(prompts(&environment, &thread).len(), workers, "{status}");
        peer.run_turn(&thread, "Go on.").await;
        let second = parsed(outputs(&environment, &thread).last().unwrap());
        assert_eq!(second["continued"], status != 400, "{second}");
        assert_eq!(column(&environment, &second), ["completed"; 3], "{second}");
        let again = expected.iter().filter(|status| **status == "stopped").count();
        let again = if status == 400 { 3 } else { again };
        assert_eq!(prompts(&environment, &thread).len(), workers + again, "{status}");
    }
}

#[tokio::test]
async fn a_row_whose_budget_is_used_up_runs_again() {
    let mut spending = runs("true");
    let usage = json!({ "usage": { "input_tokens": 90_000, "output_tokens": 0 } });
    spending["steps"].as_array_mut().unwrap().push(usage);
    let thread = vec![job(small("in.csv")), job(small("in.csv")), says("Done.")];
    let rest = vec![report(json!({ "result": {} }))];
    let mut environment = environment(thread, vec![vec![spending]], rest, "a\n1\n2\n").await;
    environment.config_overrides.push("agents.max_total_tokens=80000".to_owned());
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "failed");
    let end = peer.run_turn(&thread, "Go on.").await;
    assert_eq!(end["status"], "completed", "{end}");
    let output = parsed(outputs(&environment, &thread).last().unwrap());
    let counts = (&output["continued"], &output["completed"], &output["failed"]);
    assert_eq!(counts, (&json!(true), &json!(2), &json!(0)), "{output}");
}

#[tokio::test]
async fn the_wait_for_a_place_is_not_a_rows_time() {
    let mut one = small("in.csv");
    one["max_runtime_seconds"] = json!(1);
    let mut other = one.clone();
    other["output_csv_path"] = json!("other.csv");
    let call = |arguments: &Value| json!({ "function_call": { "name": "spawn_agents_on_csv", "arguments": arguments } });
    let both = json!({ "steps": [call(&one), call(&other)] });
    let rest = vec![report(json!({ "result": {} }))];
    let thread = vec![both, says("Done.")];
    let mut environment = environment(thread, vec![vec![idle()]], rest, "a\n1\n").await;
    environment.config_overrides.push("agents.max_threads=1".to_owned());
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs: Vec<Value> =
        outputs(&environment, &thread).iter().map(|output| parsed(output)).collect();
    let sum = |name: &str| outputs.iter().map(|output| output[name].as_u64().unwrap()).sum::<u64>();
    // The worker that had the place first has no result, and the one that waited for it has.
    assert_eq!((sum("failed"), sum("completed")), (1, 1), "{outputs:?}");
}

#[tokio::test]
async fn an_ephemeral_thread_keeps_its_jobs_in_memory() {
    let thread =
        vec![job(small("in.csv")), job(small("in.csv")), job(small("in.csv")), says("Done.")];
    let workers = vec![vec![report(json!({ "result": { "n": 0 } }))], vec![idle()]];
    let rest = vec![reports(&[json!({ "result": { "n": 1 } })])];
    let environment = environment(thread, workers, rest, "a\n1\n2\n3\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let cwd = environment.workspace();
    let params = json!({ "cwd": cwd, "sandbox": "workspace-write", "ephemeral": true });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let is_second = |params: &Value| {
        let message = params["message"].as_str().unwrap_or_default();
        message.contains("\"completed\":1") && message.contains("\"running\":1")
    };
    peer.expect_where("item/mcpToolCall/progress", is_second).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    peer.run_turn(&thread, "Go on.").await;
    let outputs = outputs(&environment, &thread);
    let [.., continued, again] = &outputs[..] else { panic!("{outputs:?}") };
    let continued = parsed(continued);
    let counts = (&continued["continued"], &continued["completed"], &continued["status"]);
    assert_eq!(counts, (&json!(true), &json!(3), &json!("completed")), "{continued}");
    // After a completed job, the same call starts a new one.
    let again = parsed(again);
    assert_eq!((&again["continued"], &again["completed"]), (&json!(false), &json!(3)), "{again}");
    assert_eq!(prompts(&environment, &thread).len(), 1 + 1 + 2 + 3);
    assert!(stored(&environment).is_empty() && job_statuses(&environment).is_empty());
}
