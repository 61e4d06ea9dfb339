//! Jobs over the rows of a CSV file: `spawn_agents_on_csv` and `report_agent_job_result`.

mod approvals;
mod crashes;
mod ends;
mod outputs;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::agents::{of, outputs, parsed};
use crate::{calls, runs, says};

fn job(arguments: Value) -> Value {
    calls("spawn_agents_on_csv", arguments)
}

fn report(arguments: Value) -> Value {
    calls("report_agent_job_result", arguments)
}

/// A response with several reports.
fn reports(all: &[Value]) -> Value {
    let step = |arguments: &Value| json!({ "function_call": { "name": "report_agent_job_result", "arguments": arguments } });
    json!({ "steps": all.iter().map(step).collect::<Vec<_>>() })
}

/// A response that never comes.
fn idle() -> Value {
    json!({ "steps": ["idle"] })
}

/// A model whose thread has the first responses, and whose workers have the others, in the order in
/// which they start; workers beyond these have the responses `rest`.
async fn environment(
    thread: Vec<Value>,
    workers: Vec<Vec<Value>>,
    rest: Vec<Value>,
    csv: &str,
) -> TestEnvironment {
    let own: Vec<Vec<Value>> = std::iter::once(thread).chain(workers).collect();
    let named = own.into_iter().enumerate();
    let mut responses: Vec<Value> = named.flat_map(|(at, list)| of(at as u64, list)).collect();
    responses.extend(rest);
    let environment = TestEnvironment::with_responses(Value::from(responses)).await;
    fs::write(environment.workspace().join("in.csv"), csv).unwrap();
    environment
}

async fn started(environment: &TestEnvironment, peer: &mut Peer) -> String {
    let cwd = environment.workspace();
    peer.start_thread(json!({ "cwd": cwd, "sandbox": "workspace-write" })).await
}

/// The lines of the results.
fn results(environment: &TestEnvironment, output: &Value) -> Vec<Vec<String>> {
    let path = output["output_csv_path"].as_str().unwrap_or_else(|| panic!("{output}"));
    let path = environment.workspace().join(path);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(path).unwrap();
    let record = |record: csv::Result<csv::StringRecord>| {
        record.unwrap().iter().map(str::to_owned).collect()
    };
    reader.records().map(record).collect()
}

/// Statuses and workers of the rows of all jobs, by id.
fn stored(environment: &TestEnvironment) -> BTreeMap<String, (i64, Option<String>)> {
    let conn = rusqlite::Connection::open(environment.home().join("threads.db")).unwrap();
    let mut rows = conn.prepare("SELECT id, status, worker FROM job_item").unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)));
    rows.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn job_statuses(environment: &TestEnvironment) -> Vec<i64> {
    let conn = rusqlite::Connection::open(environment.home().join("threads.db")).unwrap();
    let mut rows = conn.prepare("SELECT status FROM job ORDER BY pk").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// The input of each worker, in the order in which they started.
fn prompts(environment: &TestEnvironment, thread: &str) -> Vec<String> {
    let requests = environment.model().requests();
    let workers = requests.iter().filter(|request| request["prompt_cache_key"] != thread);
    workers.map(|request| request["input"].to_string()).collect()
}

#[tokio::test]
async fn each_row_gets_a_worker_whose_result_is_exported() {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Look at {name}: {{x}}.",
        "id_column": "id", "max_concurrency": 1 });
    let workers = vec![
        vec![report(json!({ "result": { "n": 1 } }))],
        vec![report(json!({ "item_id": "b", "result": "{\"text\":\"a,\\\"b\\\"\\nc\"}" }))],
        vec![says("I do not feel like it.")],
    ];
    let csv = "\u{feff}id,name,status\na,Ann,=1\nb,\"Bo\nB.\",-\na,Cy,\n";
    let environment = environment(vec![job(arguments), says("Done.")], workers, vec![], csv).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let worker = |params: &Value| params["thread"]["threadSource"] == "subagent";
    let first = peer.expect_where("thread/started", worker).await;
    let is_last = |params: &Value| {
        let message = params["message"].as_str().unwrap_or_default();
        message.contains("\"running\":0") && message.contains("\"pending\":0")
    };
    let progress = peer.expect_where("item/mcpToolCall/progress", is_last).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");

    let output = parsed(&outputs(&environment, &thread)[0]);
    let path = output["output_csv_path"].as_str().unwrap();
    assert!(path.contains("in-results-") && path.ends_with(".csv"), "{path}");
    let counted = (&output["total"], &output["completed"], &output["failed"], &output["continued"]);
    assert_eq!(counted, (&json!(3), &json!(2), &json!(1), &json!(false)));
    let failure = &output["first_failures"][0];
    assert_eq!((&failure["row"], &failure["item_id"]), (&json!(3), &json!("a-2")));
    let error = "the worker ended without a result (`report_agent_job_result`); its last message: \
         I do not feel like it.";
    assert_eq!(failure["error"], error);
    let expected = [
        vec!["id", "name", "status", "status_2", "result", "error"],
        vec!["a", "Ann", "=1", "completed", "{\"n\":1}", ""],
        vec!["b", "Bo\nB.", "-", "completed", "{\"text\":\"a,\\\"b\\\"\\nc\"}", ""],
        vec!["a", "Cy", "", "failed", "", error],
    ];
    assert_eq!(results(&environment, &output), expected);
    assert_eq!(job_statuses(&environment), [1]);

    let message: Value = serde_json::from_str(progress["message"].as_str().unwrap()).unwrap();
    assert_eq!(message["jobId"], output["job_id"]);
    let counts = (&message["total"], &message["completed"], &message["failed"]);
    assert_eq!(counts, (&json!(3), &json!(2), &json!(1)));
    assert_eq!(message["etaSeconds"], 0.0);

    let asked = prompts(&environment, &thread);
    // One request each: a report ends the turn.
    assert_eq!(asked.len(), 3);
    assert!(asked[0].contains("Look at Ann: {x}."), "{}", asked[0]);
    assert!(asked[0].contains("item_id `a`"), "{}", asked[0]);
    let requests = environment.model().requests();
    let offers = |thread: bool, tool: &str| {
        let is_own =
            |request: &&Value| (request["prompt_cache_key"] == first["thread"]["id"]) != thread;
        let request = requests.iter().find(is_own).unwrap();
        request["tools"].as_array().unwrap().iter().any(|offered| offered["name"] == tool)
    };
    assert!(offers(true, "spawn_agents_on_csv") && !offers(true, "report_agent_job_result"));
    assert!(!offers(false, "spawn_agents_on_csv") && offers(false, "report_agent_job_result"));

    // The worker's thread is closed and can be read.
    let loaded = peer.call("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([thread]));
    let params = json!({ "threadId": first["thread"]["id"], "includeTurns": true });
    let read = peer.call("thread/read", params).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[0]["status"]), (1, &json!("completed")));
    assert_eq!(turns[0]["items"][1]["tool"], "report_agent_job_result");
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let item = &read["thread"]["turns"][0]["items"][1];
    assert_eq!(
        (&item["type"], &item["tool"]),
        (&json!("dynamicToolCall"), &json!("spawn_agents_on_csv"))
    );
    assert_eq!((&item["status"], &item["success"]), (&json!("completed"), &json!(true)));
    assert_eq!(item["id"], progress["itemId"]);
}

#[tokio::test]
async fn reports_that_do_not_fit_are_refused_and_the_first_good_one_counts() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } },
        "required": ["n"], "additionalProperties": false });
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}.", "max_workers": 1,
        "output_schema": schema, "output_csv_path": "out.csv" });
    let good = json!({ "result": { "n": 1 } });
    let worker = vec![
        report(json!({ "result": { "n": "1" } })),
        report(json!({ "job_id": "other", "result": { "n": 1 } })),
        report(json!({ "item_id": "row-2", "result": { "n": 1 } })),
        report(json!({ "result": [1] })),
        report(json!({ "reslt": {} })),
        reports(&[good.clone(), json!({ "result": { "n": 2 } })]),
    ];
    let rest = vec![report(good)];
    let environment =
        environment(vec![job(arguments), says("Done.")], vec![worker], rest, "a\n1\n2\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let output = parsed(&outputs(&environment, &thread)[0]);
    assert_eq!((&output["completed"], &output["failed"]), (&json!(2), &json!(0)), "{output}");
    assert_eq!(results(&environment, &output)[1][2], "{\"n\":1}");
    let (_, worker) = &stored(&environment)["row-1"];
    let returned = outputs(&environment, worker.as_deref().unwrap());
    for (output, expected) in returned.iter().zip([
        "at /n: \"1\" is not of type \"integer\"; correct it and report again",
        "`job_id` is `other`, but yours is",
        "`item_id` is `row-2`, but yours is `row-1`",
        "`result` is `[1]`; give an object",
        "there is no member `\"reslt\"`",
    ]) {
        assert!(output.contains(expected), "{expected}: {output}");
    }
    // The second report of the last response.
    let params = json!({ "threadId": worker, "includeTurns": true });
    let read = peer.call("thread/read", params).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let last = items.last().unwrap()["contentItems"][0]["text"].as_str().unwrap();
    assert!(last.contains("report exactly once"), "{last}");
}

// Effect of `agents.job_max_runtime_seconds`.
#[tokio::test]
async fn a_worker_can_stop_the_job_and_has_a_limited_time() {
    let call = |rows: &str, seconds: Option<u64>| {
        job(json!({ "csv_path": rows, "instruction": "Do {a}.", "max_concurrency": 1,
            "max_runtime_seconds": seconds }))
    };
    let workers = vec![vec![report(json!({ "result": {}, "stop": true }))], vec![idle()]];
    let thread = vec![call("in.csv", Some(60)), call("one.csv", None), says("Done.")];
    let environment = environment(thread, workers, vec![], "a\n1\n2\n3\n").await;
    fs::write(environment.workspace().join("one.csv"), "a\n1\n").unwrap();
    let server = environment.start();
    let mut peer = server.connect().await;
    let config = json!({ "agents": { "job_max_runtime_seconds": 1 } });
    let cwd = environment.workspace();
    let params = json!({ "cwd": cwd, "sandbox": "workspace-write", "config": config });
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = outputs(&environment, &thread);
    let stopped = parsed(&outputs[0]);
    assert_eq!(stopped["status"], "stopped by a worker");
    let counts = (&stopped["completed"], &stopped["cancelled"]);
    assert_eq!(counts, (&json!(1), &json!(2)));
    let statuses: Vec<String> =
        results(&environment, &stopped).into_iter().map(|mut row| row.remove(1)).collect();
    assert_eq!(statuses, ["status", "completed", "cancelled", "cancelled"]);
    let late = parsed(&outputs[1]);
    let error = "the worker reported no result within 1 s";
    assert_eq!(late["first_failures"][0]["error"], error);
    assert_eq!(job_statuses(&environment), [1, 1]);
}

// Effect of `agents.max_threads` and of the number of workers.
#[tokio::test]
async fn an_interrupted_job_stops_its_workers_and_the_same_call_continues_it() {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}.", "max_concurrency": 5 });
    let thread = vec![job(arguments.clone()), job(arguments), says("Done.")];
    let mut workers = vec![vec![report(json!({ "result": { "n": 0 } }))]];
    workers.extend(vec![vec![idle()]; 4]);
    let rest = vec![report(json!({ "result": { "n": 1 } }))];
    let csv = "a\n1\n2\n3\n4\n5\n6\n7\n";
    let environment = environment(thread, workers, rest, csv).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let config = json!({ "agents": { "max_threads": 4 } });
    let cwd = environment.workspace();
    let params = json!({ "cwd": cwd, "sandbox": "workspace-write", "config": config });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    // One has reported, and as many as may work at once do.
    let is_full = |params: &Value| {
        let message = params["message"].as_str().unwrap_or_default();
        message.contains("\"completed\":1") && message.contains("\"running\":4")
    };
    peer.expect_where("item/mcpToolCall/progress", is_full).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    let end = peer.run_turn(&thread, "Go on.").await;
    assert_eq!(end["status"], "completed");
    let output = parsed(outputs(&environment, &thread).last().unwrap());
    assert_eq!((&output["continued"], &output["completed"]), (&json!(true), &json!(7)), "{output}");
    assert_eq!(output["finished_before_this_call"], 1);
    assert_eq!(job_statuses(&environment), [1]);
    let first: Vec<String> =
        results(&environment, &output).into_iter().map(|row| row[2].clone()).collect();
    assert_eq!(first.iter().filter(|result| *result == "{\"n\":0}").count(), 1);
    // The row that had its result was not worked on again.
    assert_eq!(prompts(&environment, &thread).len(), 1 + 4 + 6);
    let loaded = peer.call("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([thread]));
}

#[tokio::test]
async fn a_job_continues_after_a_crash_without_its_finished_rows() {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}.", "max_concurrency": 1 });
    let thread = vec![job(arguments.clone()), job(arguments), says("Done.")];
    let workers = vec![vec![report(json!({ "result": { "n": 0 } }))], vec![idle()]];
    let rest = vec![report(json!({ "result": { "n": 1 } }))];
    let mut environment = environment(thread, workers, rest, "a\n1\n2\n3\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.start_turn(&thread, "Go.").await;
    let is_second = |params: &Value| {
        let message = params["message"].as_str().unwrap_or_default();
        message.contains("\"completed\":1") && message.contains("\"running\":1")
    };
    peer.expect_where("item/mcpToolCall/progress", is_second).await;
    let before = stored(&environment);
    assert_eq!((before["row-1"].0, before["row-2"].0, before["row-3"].0), (2, 1, 0));
    environment.crash();
    drop(server);
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let end = peer.run_turn(&thread, "Go on.").await;
    assert_eq!(end["status"], "completed");
    let output = parsed(outputs(&environment, &thread).last().unwrap());
    assert_eq!((&output["continued"], &output["completed"]), (&json!(true), &json!(3)), "{output}");
    let after = stored(&environment);
    assert_eq!(after["row-1"], before["row-1"]);
    assert_ne!(after["row-2"].1, before["row-2"].1);
    assert_eq!(prompts(&environment, &thread).len(), 4);
    server.stop().await;
}

#[tokio::test]
async fn bad_calls_say_why_and_start_nothing() {
    let call = |member: &str, value: Value| {
        let mut arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}." });
        arguments[member] = value;
        arguments
    };
    let bad = [
        (json!({}), "`csv_path` is missing"),
        (call("csv_path", json!(null)), "`csv_path` is missing"),
        (call("csv_path", json!(" ")), "give the path of a file"),
        (call("csv_path", json!("none.csv")), "none.csv"),
        (call("csv_path", json!(".")), "is a folder"),
        (call("csv_path", json!("fifo")), "fifo"),
        (call("csv_path", json!("/dev/zero")), "/dev/zero"),
        (call("csv_path", json!("big.csv")), "larger than"),
        (call("csv_path", json!("rows.csv")), "more than 100000 rows (line 100002)"),
        (call("csv_path", json!("ragged.csv")), "line 3 has 1 values"),
        (call("csv", json!("in.csv")), "there is no member `\"csv\"`"),
        (call("instruction", json!("Do {b}.")), "names the column `{b}`"),
        (call("instruction", json!("Do {a.")), "`{` without its counterpart"),
        (call("instruction", json!("x".repeat(300_000))), "more than 262144"),
        (call("id_column", json!("id")), "`id_column` is `id`"),
        (call("output_csv_path", json!("in.csv")), "is the input"),
        (call("output_csv_path", json!("no/out.csv")), "does not exist"),
        (call("output_csv_path", json!("fifo")), "not a regular file"),
        (call("output_csv_path", json!("/etc/out.csv")), "no approval can be requested"),
        (call("output_csv_path", json!("link.csv")), "give another `output_csv_path`"),
        (call("output_csv_path", json!("same.csv")), "is the input"),
        (call("output_csv_path", json!("linked/out.csv")), "no approval can be requested"),
        (call("output_schema", json!("x")), "give an object"),
        (call("output_schema", json!({ "pattern": "(" })), "`output_schema`: "),
        (call("output_schema", json!({ "$ref": "https://x.test/a" })), "`output_schema`: "),
        (call("max_concurrency", json!(0)), "give 1 to 64"),
        (call("max_concurrency", json!("many")), "not negative"),
        (call("max_runtime_seconds", json!(0)), "give 1 or more"),
    ];
    let mut thread: Vec<Value> = bad.iter().map(|(arguments, _)| job(arguments.clone())).collect();
    thread.push(says("Well."));
    let environment = environment(thread, vec![], vec![], "a\n1\n").await;
    let folder = environment.workspace();
    fs::write(folder.join("ragged.csv"), "a,b\n1,2\n3\n").unwrap();
    fs::write(folder.join("rows.csv"), format!("a\n{}", "1\n".repeat(10_000_000))).unwrap();
    fs::File::create(folder.join("big.csv")).unwrap().set_len(1 << 40).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(folder.join("fifo")).status().unwrap();
    assert!(fifo.success());
    let outside = environment.root().join("user");
    symlink(outside.join("out.csv"), folder.join("link.csv")).unwrap();
    symlink(&outside, folder.join("linked")).unwrap();
    symlink("in.csv", folder.join("same.csv")).unwrap();
    let server = environment.start();
    let mut peer = server.connect().await;
    let params = json!({ "cwd": folder, "sandbox": "workspace-write", "approvalPolicy": "never" });
    let id = peer.start_thread(params).await;
    let end = peer.run_turn(&id, "Try.").await;
    assert_eq!(end["status"], "completed");
    let outputs = outputs(&environment, &id);
    for ((arguments, expected), output) in bad.iter().zip(&outputs) {
        let shown: String = arguments.to_string().chars().take(80).collect();
        assert!(output.contains(expected), "{shown}: {output}");
    }
    assert_eq!(outputs.len(), bad.len());
    assert!(job_statuses(&environment).is_empty());
    assert!(prompts(&environment, &id).is_empty());
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[tokio::test]
async fn results_that_cannot_be_written_are_written_by_the_same_call() {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}.",
        "output_csv_path": "out/results.csv" });
    let thread = vec![job(arguments.clone()), runs("mkdir out"), job(arguments), says("Done.")];
    let worker = vec![runs("rmdir out"), report(json!({ "result": {} }))];
    let environment = environment(thread, vec![worker], vec![], "a\n1\n").await;
    fs::create_dir(environment.workspace().join("out")).unwrap();
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = outputs(&environment, &thread);
    assert!(outputs[0].contains("all rows have ended and their results are stored"), "{outputs:?}");
    let output = parsed(&outputs[2]);
    assert_eq!(output["finished_before_this_call"], 1);
    assert_eq!(results(&environment, &output).len(), 2);
    assert_eq!(prompts(&environment, &thread).len(), 2);
}

#[tokio::test]
async fn plan_mode_starts_no_job() {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}." });
    let thread = vec![job(arguments), says("Well.")];
    let environment = environment(thread, vec![], vec![], "a\n1\n").await;
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = started(&environment, &mut peer).await;
    let mode = json!({ "mode": "plan", "settings": { "model": "gpt-5" } });
    peer.run_turn_with(json!({
        "threadId": thread, "input": [{ "type": "text", "text": "Go." }], "collaborationMode": mode,
    }))
    .await;
    let output = outputs(&environment, &thread).remove(0);
    assert!(output.contains("plan mode changes nothing"), "{output}");
}

#[tokio::test]
async fn archiving_a_thread_stops_its_job() {
    let arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}." });
    let thread = vec![job(arguments)];
    let environment = environment(thread, vec![vec![idle()]], vec![], "a\n1\n").await;
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = started(&environment, &mut peer).await;
    peer.start_turn(&thread, "Go.").await;
    let worker = |params: &Value| params["thread"]["threadSource"] == "subagent";
    peer.expect_where("thread/started", worker).await;
    peer.call("thread/archive", json!({ "threadId": thread })).await;
    let loaded = peer.call("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([]));
}
