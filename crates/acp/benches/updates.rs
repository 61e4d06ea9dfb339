//! What an update costs: from a notification of the server to the line for the editor, on one thread and
//! without a model. The whole way between two connections in memory, with both protocols' framing.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints its figures")]

use std::time::{Duration, Instant};

use acp::Options;
use jsonrpc::{Connection, Incoming, Limits, Message, Outbox};
use serde_json::{Value, json};

const UPDATES: u32 = 20_000;
const ROUNDS: usize = 5;
const MOST: Duration = Duration::from_micros(50);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let delta = |number: u32| {
        json!({ "method": "item/agentMessage/delta", "params": {
            "threadId": "t", "turnId": "u", "itemId": "i", "delta": format!("word {number} ") } })
    };
    let item = |number: u32| {
        json!({ "method": "item/completed", "params": {
            "threadId": "t", "turnId": "u", "completedAtMs": 0,
            "item": { "type": "commandExecution", "id": format!("i{number}"), "command": "cargo test",
                "cwd": "/w", "status": "completed", "commandActions": [], "exitCode": 0,
                "aggregatedOutput": "test result: ok. 12 passed; 0 failed\n".repeat(20) } } })
    };
    let mut is_slow = false;
    for (name, message) in
        [("a piece of a message", &delta as &dyn Fn(u32) -> Value), ("a command", &item)]
    {
        let best = (0..ROUNDS).map(|_| runtime.block_on(measure(message))).min().unwrap();
        println!("{name}: {best:?} an update");
        is_slow |= best > MOST;
    }
    assert!(!is_slow, "an update costs more than {MOST:?}");
}

/// The time of an update, of many that follow one another.
async fn measure(message: &dyn Fn(u32) -> Value) -> Duration {
    let limits = Limits::default();
    let (ours, server) = Connection::pair(limits);
    let (mut editor, agent) = Connection::pair(limits);
    let options = Options {
        limits,
        version: "0".to_owned(),
        model: None,
        model_provider: None,
        speaks_v2: false,
        browse: Box::new(|_| false),
    };
    let serving = tokio::spawn(acp::serve(agent, ours, options, std::future::pending()));
    let feed = tokio::spawn(play(server));
    let call = |id: u32, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    editor.outbox.push(bytes(call(1, "initialize", json!({ "protocolVersion": 1 })))).unwrap();
    let place = json!({ "cwd": "/w", "mcpServers": [] });
    editor.outbox.push(bytes(call(2, "session/new", place))).unwrap();
    while !method_of(&editor.incoming.recv().await.unwrap()).contains("session/update") {}
    let outbox = feed.await.unwrap();
    let lines: Vec<_> = (0..UPDATES).map(|number| bytes(message(number).to_string())).collect();
    let begun = Instant::now();
    let sending = async {
        for line in lines {
            outbox.room().await;
            outbox.push(line).unwrap();
        }
    };
    let receiving = async {
        for _ in 0..UPDATES {
            editor.incoming.recv().await.unwrap();
        }
    };
    tokio::join!(sending, receiving);
    let taken = begun.elapsed() / UPDATES;
    drop(editor);
    drop(outbox);
    serving.await.unwrap().unwrap();
    taken
}

/// Answers what opening a session asks for.
async fn play(server: Connection) -> Outbox {
    let Connection { mut incoming, outbox } = server;
    let thread = json!({
        "id": "t", "sessionId": "t", "preview": "", "ephemeral": false, "modelProvider": "p",
        "createdAt": 0, "updatedAt": 0, "status": { "type": "idle" }, "cwd": "/w", "cliVersion": "0",
        "source": "editor", "name": null, "gitInfo": null,
    });
    let started = json!({
        "thread": thread, "model": "m", "modelProvider": "p", "serviceTier": null, "cwd": "/w",
        "approvalPolicy": "onRequest", "approvalsReviewer": "user", "reasoningEffort": null,
        "sandbox": { "type": "readOnly", "networkAccess": false },
    });
    loop {
        let Some(Incoming::Message(Message::Request { id, method, .. })) = incoming.recv().await
        else {
            continue;
        };
        let result = match method.as_str() {
            "initialize" => json!({
                "userAgent": "a", "agentHome": "/h", "platformFamily": "unix", "platformOs": "linux",
            }),
            "account/read" => json!({ "account": null, "requiresDefaultAuth": false }),
            "thread/start" => started.clone(),
            "model/list" | "skills/list" => json!({ "data": [], "nextCursor": null }),
            method => panic!("{method}"),
        };
        outbox.push(bytes(json!({ "id": id, "result": result }).to_string())).unwrap();
        if method == "skills/list" {
            // Kept open: nothing else is read.
            tokio::spawn(async move { while incoming.recv().await.is_some() {} });
            return outbox;
        }
    }
}

fn method_of(incoming: &Incoming) -> String {
    match incoming {
        Incoming::Message(Message::Notification { method, .. }) => method.clone(),
        _ => String::new(),
    }
}

fn bytes(text: String) -> bytes::Bytes {
    text.into()
}
