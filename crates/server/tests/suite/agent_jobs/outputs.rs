//! The file that a job writes: a file of others is never replaced.

use std::fs;

use serde_json::{Value, json};

use super::{environment, job, job_statuses, prompts, report, reports, results, started};
use crate::agents::{outputs, parsed};
use crate::{runs, says};

fn arguments(output: Option<&str>) -> Value {
    let mut arguments = json!({ "csv_path": "in.csv", "instruction": "Do {a}." });
    if let Some(output) = output {
        arguments["output_csv_path"] = json!(output);
    }
    arguments
}

#[tokio::test]
async fn a_job_replaces_no_file_that_it_did_not_write() {
    for ephemeral in [false, true] {
        let mut thread = vec![job(arguments(Some("Makefile"))); 6];
        thread.push(job(arguments(Some("out.csv"))));
        thread.push(says("Well."));
        let worker = vec![report(json!({ "result": {} }))];
        let environment = environment(thread, vec![worker], vec![], "a\n1\n").await;
        let makefile = environment.workspace().join("Makefile");
        fs::write(&makefile, "all:\n").unwrap();
        let server = environment.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let params = json!({ "cwd": environment.workspace(), "sandbox": "workspace-write",
            "ephemeral": ephemeral });
        let thread = peer.start_thread(params).await;
        peer.run_turn(&thread, "Go.").await;
        let mut outputs = outputs(&environment, &thread);
        assert_eq!(parsed(&outputs.pop().unwrap())["completed"], 1);
        for output in outputs {
            assert!(output.contains("choose another `output_csv_path`"), "{output}");
        }
        assert_eq!(fs::read_to_string(makefile).unwrap(), "all:\n");
        assert_eq!(prompts(&environment, &thread).len(), 1);
        assert_eq!(job_statuses(&environment).len(), usize::from(!ephemeral));
    }
}

#[tokio::test]
async fn a_file_that_appears_during_the_job_stays() {
    let remove = runs("rm out.csv");
    let call = job(arguments(Some("out.csv")));
    let thread = vec![call.clone(), remove, call, says("Well.")];
    let worker = vec![runs("echo mine > out.csv"), report(json!({ "result": {} }))];
    let environment = environment(thread, vec![worker], vec![], "a\n1\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = outputs(&environment, &thread);
    assert!(outputs[0].contains("this job did not write it"), "{outputs:?}");
    let output = parsed(&outputs[2]);
    assert_eq!(output["finished_before_this_call"], 1);
    assert_eq!(results(&environment, &output).len(), 2);
    assert_eq!(prompts(&environment, &thread).len(), 2);
}

#[tokio::test]
async fn the_same_job_replaces_its_results_unless_they_were_changed() {
    let call = || job(arguments(None));
    let thread = vec![call(), call(), runs("echo more >> in-results-*.csv"), call(), says("Well.")];
    let rest = vec![report(json!({ "result": {} }))];
    let environment = environment(thread, vec![], rest, "a\n1\n").await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = outputs(&environment, &thread);
    for output in &outputs[..2] {
        assert_eq!(parsed(output)["completed"], 1);
    }
    assert!(outputs[3].contains("this job did not write it as it is"), "{outputs:?}");
}

// On one thread the calls would take place in order by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_of_several_reports_counts() {
    let thread = vec![job(arguments(None)), says("Done.")];
    let all: Vec<Value> = (1..=3).map(|a| json!({ "result": { "a": a } })).collect();
    let csv: String = (1..=40).map(|row| format!("{row}\n")).collect();
    let environment = environment(thread, vec![], vec![reports(&all)], &format!("a\n{csv}")).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = started(&environment, &mut peer).await;
    peer.run_turn(&thread, "Go.").await;
    let output = parsed(&outputs(&environment, &thread)[0]);
    let results = results(&environment, &output);
    assert_eq!(results.len(), 41);
    for row in &results[1..] {
        assert_eq!(row[1..3], ["completed", "{\"a\":1}"], "{row:?}");
    }
}
