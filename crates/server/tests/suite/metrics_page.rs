//! The page of metrics of a server that exports nothing: what turns, approvals, refused requests and clients
//! leave on it, and what never appears there.

use serde_json::json;
use telemetry::names::{Metric, OPERATION_DURATION, READINGS};
use testkit::{TestEnvironment, TestServer};

use crate::{calls, runs, says};

fn page(server: &TestServer) -> String {
    server.server().metrics().render()
}

/// The value of the series whose line begins so; `None` when there is none.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[tokio::test]
async fn turns_requests_and_calls_are_summed_up_without_an_exporter() {
    let responses = json!([runs("exit 3"), says("Done."), says("Again.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let before = page(&server);
    assert_eq!(value(&before, "agentd_turns_started_total"), Some(0.0), "{before}");
    assert_eq!(value(&before, "agentd_threads_loaded"), Some(0.0));
    assert!(!before.contains("gen_ai_client"), "{before}");
    let mut peer = server.connect().await;
    let params = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "A secret prompt.").await;
    peer.run_turn(&thread, "And another.").await;
    let page = page(&server);
    let name = Metric::prometheus(&OPERATION_DURATION);
    let of_model = "gen_ai_provider_name=\"scripted\",gen_ai_request_model=\"gpt-5\"";
    let chat = format!("gen_ai_operation_name=\"chat\",{of_model}");
    let turn = format!("gen_ai_operation_name=\"invoke_agent\",{of_model}");
    let tool = "gen_ai_operation_name=\"execute_tool\",agentd_tool_kind=\"command\",\
                error_type=\"failed\"";
    let first = "gen_ai_client_operation_time_to_first_chunk_seconds_count";
    for (series, expected) in [
        ("agentd_turns_started_total".to_owned(), 2.0),
        ("agentd_turns_ended_total{status=\"completed\"}".to_owned(), 2.0),
        ("agentd_turns_ended_total{status=\"failed\"}".to_owned(), 0.0),
        ("agentd_turns_running".to_owned(), 0.0),
        ("agentd_threads_loaded".to_owned(), 1.0),
        ("agentd_connections".to_owned(), 1.0),
        ("agentd_requests_running".to_owned(), 0.0),
        ("agentd_telemetry_queue_records".to_owned(), 0.0),
        ("agentd_thread_commands".to_owned(), 0.0),
        (format!("{name}_count{{{turn}}}"), 2.0),
        (format!("{name}_count{{{chat}}}"), 3.0),
        (format!("{name}_count{{{tool}}}"), 1.0),
        (format!("{first}{{{chat}}}"), 3.0),
    ] {
        assert_eq!(value(&page, &series), Some(expected), "{series}:\n{page}");
    }
    let home = env.home().display().to_string();
    for hidden in ["secret prompt", "exit 3", "Done.", &thread, &home, "exec_command"] {
        assert!(!page.contains(hidden), "{hidden}:\n{page}");
    }
    assert!(page.ends_with("# EOF\n"));
}

#[tokio::test]
async fn approvals_and_refused_requests_are_counted() {
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    let during = page(&server);
    assert_eq!(value(&during, "agentd_turns_running"), Some(1.0), "{during}");
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    peer.refused("no/suchMethod", json!({})).await;
    peer.refused("thread/read", json!({ "threadId": "none" })).await;
    peer.refused("thread/read", json!({ "threadId": 5 })).await;
    let page = page(&server);
    let approval = "agentd_approval_duration_seconds_count{agentd_approval_kind=\"command\",\
                    agentd_approval_decision=\"decline\"}";
    for (series, expected) in [
        (approval, 1.0),
        ("agentd_requests_refused_total{code=\"-32601\"}", 1.0),
        ("agentd_requests_refused_total{code=\"-32600\"}", 1.0),
        ("agentd_requests_refused_total{code=\"-32602\"}", 1.0),
        ("agentd_turns_running", 0.0),
    ] {
        assert_eq!(value(&page, series), Some(expected), "{series}:\n{page}");
    }
}

#[tokio::test]
async fn tools_that_a_model_names_are_no_series() {
    let named = (0..20).map(|number| calls(&format!("tool{number}"), json!({})));
    let responses: Vec<_> = named.chain([says("Done.")]).collect();
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let page = page(&server);
    assert!(!page.contains("tool1"), "{page}");
}

#[tokio::test]
async fn every_reading_of_a_server_is_in_the_table() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let server = env.start();
    let page = page(&server);
    for line in page.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(READINGS.iter().any(|reading| reading.text == name), "{line}");
    }
}
