//! Clients that read slowly or not at all: their messages, their memory use, and the effects on
//! other clients (docs/transports.md, "When there is too much").

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonrpc::{CloseReason, Connection, Limits, Outbox};
use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::says;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Bound of the messages in memory of each client in these tests.
const BUDGET: usize = 128 * KIB;

/// A client whose queue in the server is observable.
struct Watched {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    outbox: Outbox,
}

impl Watched {
    async fn connect(server: &TestServer, limits: Limits) -> Self {
        let (ours, theirs) = tokio::io::duplex(16 * KIB);
        let (reader, writer) = tokio::io::split(theirs);
        let connection = Connection::over(reader, writer, limits);
        let outbox = connection.outbox.clone();
        let server = server.server().clone();
        tokio::spawn(async move { server.serve(connection, ()).await });
        let (reader, writer) = tokio::io::split(ours);
        let mut client = Self { reader: BufReader::new(reader), writer, outbox };
        let info = json!({ "name": "slow", "title": "Slow", "version": "1" });
        client.send_request(0, "initialize", &json!({ "clientInfo": info })).await;
        client.answer(0).await;
        client
    }

    async fn send_request(&mut self, id: i64, method: &str, params: &Value) {
        let line = format!("{}\n", json!({ "id": id, "method": method, "params": params }));
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next message; `None` at the end of the stream, even inside a line.
    async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        serde_json::from_str(line.strip_suffix('\n')?).ok()
    }

    /// The response to a request; messages before it are dropped.
    async fn answer(&mut self, id: i64) -> Value {
        loop {
            let mut message = self.next().await.expect("an answer before the end");
            if message["id"] == id && message["method"].is_null() {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].take();
            }
        }
    }
}

fn limits() -> Limits {
    Limits { outgoing_bytes: BUDGET, ..server::connection_limits() }
}

/// A response of the model with this many bytes of text, in deltas of a kilobyte.
fn message_of_bytes(bytes: usize) -> Value {
    let piece = "0123456789abcdef".repeat(64);
    json!({ "steps": [{ "message": { "chunks": [piece], "repeat": bytes / KIB } }] })
}

async fn round_trips(peer: &mut Peer, count: usize) {
    for _ in 0..count {
        peer.call("thread/loaded/list", json!({})).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_for_a_turn_delays_no_other_and_misses_nothing() {
    let env = TestEnvironment::with_responses(json!([message_of_bytes(4 * MIB)])).await;
    let server = env.start();
    let mut quick = server.connect().await;
    let thread = quick.start_thread(json!({})).await;
    let mut slow = Watched::connect(&server, limits()).await;
    slow.send_request(1, "thread/resume", &json!({ "threadId": thread })).await;
    slow.answer(1).await;
    let turn = quick.start_turn(&thread, "Much.").await;
    assert_eq!(quick.turn_end(&turn).await["status"], "completed");
    let waiting = slow.outbox.queued_bytes();
    assert!(waiting > 6 * MIB, "the deltas and the item wait: {waiting}");
    let held = slow.outbox.held_bytes();
    assert!(held < 6 * MIB, "{held} bytes in memory");
    let (mut streamed, mut whole) = (String::new(), String::new());
    while let Some(message) = slow.next().await {
        match message["method"].as_str() {
            Some("item/agentMessage/delta") => {
                streamed.push_str(message["params"]["delta"].as_str().unwrap());
            }
            Some("item/completed") if message["params"]["item"]["type"] == "agentMessage" => {
                message["params"]["item"]["text"].as_str().unwrap().clone_into(&mut whole);
            }
            Some("turn/completed") => break,
            _ => {}
        }
    }
    assert_eq!(whole.len(), 4 * MIB);
    assert!(streamed == whole, "{} of {} bytes were streamed", streamed.len(), whole.len());
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed_and_the_others_continue() {
    // One more request, for the compaction.
    let responses = json!([message_of_bytes(MIB), says("Much was said."), says("Still here.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let (server, _guard) = env.start_logged();
    let mut quick = server.connect().await;
    let thread = quick.start_thread(json!({})).await;
    let stall = Duration::from_millis(300);
    let mut stuck = Watched::connect(&server, Limits { stall: Some(stall), ..limits() }).await;
    stuck.send_request(1, "thread/resume", &json!({ "threadId": thread })).await;
    stuck.answer(1).await;
    assert_eq!(quick.run_turn(&thread, "Much.").await["status"], "completed");
    assert_eq!(stuck.outbox.closed().await, CloseReason::Stalled);
    while let Some(message) = stuck.next().await {
        assert_ne!(message["method"], "turn/completed", "a client that was cut off");
    }
    let more = quick.run_turn(&thread, "More.").await;
    assert_eq!(more["status"], "completed", "{more}");
    let log = std::fs::read_dir(env.home().join("log"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    assert!(log.collect::<String>().contains("the client stopped reading"));
}

#[tokio::test]
async fn an_answer_longer_than_the_budget_arrives_whole() {
    let env =
        TestEnvironment::with_responses(json!([message_of_bytes(3 * MIB), says("Short.")])).await;
    let server = env.start();
    let mut quick = server.connect().await;
    let thread = quick.start_thread(json!({})).await;
    quick.run_turn(&thread, "Much.").await;
    let mut slow = Watched::connect(&server, limits()).await;
    slow.send_request(1, "thread/resume", &json!({ "threadId": thread })).await;
    slow.answer(1).await;
    slow.send_request(2, "thread/read", &json!({ "threadId": thread, "includeTurns": true })).await;
    slow.send_request(3, "thread/loaded/list", &json!({})).await;
    // Events follow the response before any of it is read.
    quick.run_turn(&thread, "More.").await;
    let read = slow.answer(2).await;
    let text = &read["thread"]["turns"][0]["items"][1]["text"];
    assert_eq!(text.as_str().unwrap().len(), 3 * MIB);
    slow.answer(3).await;
    assert_eq!(slow.outbox.close_reason(), None);
}

#[tokio::test]
async fn a_client_that_leaves_answers_unread_is_not_read() {
    const ASKED: i64 = 200;
    let env = TestEnvironment::with_responses(json!([message_of_bytes(MIB)])).await;
    let server = env.start();
    let mut quick = server.connect().await;
    let thread = quick.start_thread(json!({})).await;
    quick.run_turn(&thread, "Much.").await;
    let mut slow = Watched::connect(&server, limits()).await;
    let read = json!({ "threadId": thread, "includeTurns": true });
    let mut most = 0;
    for id in 1..=ASKED {
        slow.send_request(id, "thread/read", &read).await;
        round_trips(&mut quick, 1).await;
        most = most.max(slow.outbox.queued_bytes());
    }
    round_trips(&mut quick, 100).await;
    most = most.max(slow.outbox.queued_bytes());
    assert!(most < 4 * MIB, "{most} bytes of answers wait");
    for id in 1..=ASKED {
        let answer = slow.answer(id).await;
        let text = &answer["thread"]["turns"][0]["items"][1]["text"];
        assert_eq!(text.as_str().unwrap().len(), MIB, "answer {id}");
    }
}

#[tokio::test]
async fn output_of_a_command_waits_with_the_client_that_runs_it() {
    const BYTES: usize = 12 * MIB;
    let env = TestEnvironment::with_responses(json!([says("Nothing.")])).await;
    let server = env.start();
    let mut slow = Watched::connect(&server, limits()).await;
    let script = format!("head -c {BYTES} /dev/zero | tr '\\0' x");
    let run = json!({ "command": ["sh", "-c", script], "processId": "p", "streamStdoutStderr": true,
        "disableOutputCap": true, "timeoutMs": 60_000,
        "sandboxPolicy": { "type": "dangerFullAccess" } });
    slow.send_request(1, "command/exec", &run).await;
    let (mut received, mut most) = (0, 0);
    loop {
        most = most.max(slow.outbox.queued_bytes());
        let Some(message) = slow.next().await else {
            panic!("the connection was closed: {:?}", slow.outbox.closed().await);
        };
        if message["id"] == 1 {
            assert_eq!(message["result"]["exitCode"], 0, "{message}");
            break;
        }
        if message["method"] == "command/exec/outputDelta" {
            let piece = message["params"]["deltaBase64"].as_str().unwrap();
            received += STANDARD.decode(piece).unwrap().len();
        }
    }
    assert_eq!(received, BYTES);
    assert!(most < 2 * MIB, "{most} bytes wait");
}

#[tokio::test]
async fn a_client_with_a_full_outbox_can_interrupt_a_turn() {
    let slow_message = json!({ "steps": [{ "message": { "chunks": ["0123456789abcdef"],
        "repeat": 400_000, "chunk_delay_ms": 1 } }] });
    let env =
        TestEnvironment::with_responses(json!([message_of_bytes(4 * MIB), slow_message])).await;
    let server = env.start();
    let mut quick = server.connect().await;
    let thread = quick.start_thread(json!({})).await;
    let mut slow = Watched::connect(&server, limits()).await;
    slow.send_request(1, "thread/resume", &json!({ "threadId": thread })).await;
    slow.answer(1).await;
    quick.run_turn(&thread, "Much.").await;
    let turn = quick.start_turn(&thread, "Without end.").await;
    // This client has read nothing of the first turn.
    slow.send_request(2, "turn/interrupt", &json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(quick.turn_end(&turn).await["status"], "interrupted");
}
