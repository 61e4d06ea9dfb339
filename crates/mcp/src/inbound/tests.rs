#![allow(clippy::unwrap_used)]

use std::io;
use std::time::Duration;

use futures_util::FutureExt;
use rmcp::model::{
    ClientJsonRpcMessage, ClientResult, EmptyResult, Implementation, ServerJsonRpcMessage,
};
use serde_json::json;
use tokio::sync::mpsc;

use super::*;
use crate::calls::ActiveCall;
use crate::definition::{Definition, Transport as Unused};
use crate::end_reason::EndReason;
use crate::intake::MAX_REQUESTS;
use crate::port::{Answer, Audience, BoxFuture, Child, ChildControl, Elicitation, Output};
use crate::reports::reports;
use crate::server::{Server, State};
use crate::stdio::StdioTransport;

/// A program that reads nothing.
struct Deaf;

impl ChildControl for Deaf {
    fn ended(&self) -> BoxFuture<'_, String> {
        Box::pin(std::future::pending())
    }

    fn write<'a>(&'a self, _: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(std::future::pending())
    }
}

struct NoAudience;

impl Audience for NoAudience {
    fn state_changed(&self, _: &[String], _: &str, _: &State) {}

    fn tools_changed(&self, _: &[String], _: &str, _: &State) {}

    fn elicit(&self, _: Elicitation) -> BoxFuture<'_, Answer> {
        Box::pin(std::future::pending())
    }
}

fn shared() -> Arc<Shared> {
    let definition = Definition {
        name: "s".to_owned(),
        transport: Unused::Unusable(String::new()),
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: Duration::ZERO,
        tool_timeout: Duration::ZERO,
    };
    Server::new(Arc::new(definition), Implementation::new("t", "1"), Arc::new(NoAudience)).shared
}

/// A program that has written these lines.
fn wrote(lines: &str, shared: Arc<Shared>) -> (Inbound<StdioTransport>, mpsc::Sender<Output>) {
    let (sender, output) = mpsc::channel(1);
    let child = Child { output, control: Arc::new(Deaf) };
    sender.try_send(Output::Stdout(lines.to_owned().into())).unwrap();
    let intake = Intake::default();
    let stdio = StdioTransport::new("s".to_owned(), child, EndReason::default(), intake.clone());
    (Inbound::new(stdio, shared, intake), sender)
}

fn ping(id: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
}

#[tokio::test(start_paused = true)]
async fn a_program_that_reads_no_answers_is_not_read_either() {
    let (mut transport, _sender) = wrote(&(0..1000).map(ping).collect::<String>(), shared());
    let mut answers = Vec::new();
    while let Ok(message) =
        tokio::time::timeout(Duration::from_millis(200), transport.receive()).await
    {
        let Some(ServerJsonRpcMessage::Request(request)) = message else { panic!("{message:?}") };
        let result = ClientResult::EmptyResult(EmptyResult {});
        let mut answer =
            Box::pin(transport.send(ClientJsonRpcMessage::response(result, request.id)));
        assert!(answer.as_mut().now_or_never().is_none());
        answers.push(answer);
    }
    assert_eq!(answers.len(), MAX_REQUESTS);
    // When answers are written or given up, reading goes on.
    answers.clear();
    assert!(transport.receive().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_without_an_answer_are_bounded() {
    // No handler has answered yet.
    let (mut transport, _sender) = wrote(&(0..1000).map(ping).collect::<String>(), shared());
    let mut taken = 0;
    while let Ok(Some(_)) =
        tokio::time::timeout(Duration::from_millis(200), transport.receive()).await
    {
        taken += 1;
    }
    assert_eq!(taken, MAX_REQUESTS);
    // Requests with one id are one request; a withdrawn one makes room.
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": 7}});
    let lines = format!("{}{}{cancelled}\n{}", ping(7), ping(7), ping(7));
    let (mut transport, _sender) = wrote(&lines, shared());
    let mut kinds = Vec::new();
    while let Some(Some(message)) = transport.receive().now_or_never() {
        kinds.push(matches!(message, ServerJsonRpcMessage::Request(_)));
    }
    assert_eq!(kinds, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn reports_are_handled_in_order_and_not_passed_on() {
    let shared = shared();
    let (sender, mut received) = reports();
    let call = ActiveCall::new(None, None, Some(sender));
    let token = serde_json::from_value(json!(5)).unwrap();
    let _registered = shared.calls.register(&call, RequestId::Number(1), token);
    let note = |method: &str, params: serde_json::Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string() + "\n"
    };
    let mut lines = String::new();
    for number in 0..1000 {
        lines += &note("notifications/progress", json!({"progressToken": 5, "progress": number}));
        lines += &note("notifications/message", json!({"level": "info", "data": "x"}));
        lines += &note("notifications/tools/list_changed", json!({}));
        lines += &note("notifications/unknown", json!({}));
    }
    lines += &ping(1);
    let (mut transport, _sender) = wrote(&lines, shared.clone());
    assert!(matches!(transport.receive().await, Some(ServerJsonRpcMessage::Request(_))));
    assert_eq!(received.recv().await.unwrap().progress, 999.0);
    shared.refresh.notified().await;
}
