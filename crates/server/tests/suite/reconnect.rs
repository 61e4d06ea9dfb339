//! Clients that lost their connection and reconnect with a cursor (docs/reconnecting.md): the events
//! before the loss, the replayed ones and the later ones are together complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{runs, says};

fn capabilities() -> Value {
    json!({ "experimentalApi": true, "eventCursor": true })
}

async fn come_back(server: &TestServer, thread: &str, cursor: &str) -> (Peer, Value) {
    let mut peer = server.connect_with(capabilities()).await;
    let params = json!({ "threadId": thread, "eventCursor": cursor });
    let resumed = peer.call("thread/resume", params).await;
    (peer, resumed)
}

#[tokio::test]
async fn cursors_are_for_clients_that_ask_for_them() {
    let env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    let server = env.start();
    let mut plain = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = plain.start_thread(json!({})).await;
    plain.run_turn(&thread, "Begin.").await;
    assert!(!plain.raw_lines().iter().any(|line| line.contains("\"eventCursor\":")));
    let params = json!({ "threadId": thread, "eventCursor": "e.1.t" });
    let refused = plain.refused("thread/resume", params).await;
    assert_eq!(refused.message, "`eventCursor` needs `capabilities.eventCursor` in `initialize`");

    let mut asking = server.connect_with(capabilities()).await;
    let resumed = asking.call("thread/resume", json!({ "threadId": thread })).await;
    assert!(resumed["eventCursor"].is_string() && resumed.get("eventReplay").is_none());
    let turn = plain.start_turn(&thread, "Again.").await;
    for peer in [&mut plain, &mut asking] {
        peer.turn_end(&turn).await;
        peer.settled().await;
    }
    assert!(!plain.raw_lines().iter().any(|line| line.contains("\"eventCursor\":")));
    // What a client without missed events is sent besides is not an event.
    let since = asking.raw_lines().iter().skip_while(|line| !line.contains("\"turn/started\""));
    let of_thread = since.filter(|line| line.contains("\"params\""));
    let with_cursor = of_thread.filter(|line| line.contains(&thread));
    assert!(with_cursor.clone().count() > 5);
    assert!(with_cursor.clone().all(|line| line.contains("\"eventCursor\":")), "every one");
    plain.call("thread/name/set", json!({ "threadId": thread, "name": "Named" })).await;
    let before = asking.cursor(&thread).unwrap().to_owned();
    asking.expect("thread/name/updated").await;
    assert_ne!(asking.cursor(&thread), Some(&*before));

    let params = json!({ "threadId": thread, "eventCursor": "nonsense" });
    let refused = asking.refused("thread/resume", params).await;
    assert_eq!((refused.code, refused.message.contains("resume without it")), (-32602, true));
    let mut bare = server.open(jsonrpc::Limits::default());
    let hello = json!({ "clientInfo": { "name": "x", "version": "1" },
        "capabilities": { "eventCursor": true } });
    let refused = bare.refused("initialize", hello).await;
    let expect = "initialize.capabilities.eventCursor requires experimentalApi capability";
    assert_eq!(refused.message, expect);
}

#[tokio::test]
async fn the_rest_of_a_stream_follows_in_one_piece() {
    let words = json!({ "steps": [{ "message":
        { "chunks": ["one ", "two ", "three ", "four"], "chunk_delay_ms": 100 } }] });
    let env = TestEnvironment::with_responses(json!([words])).await;
    let server = env.start();
    let mut first = server.connect_with(capabilities()).await;
    let thread = first.start_thread(json!({})).await;
    let turn = first.start_turn(&thread, "Count.").await;
    let delta = first.expect("item/agentMessage/delta").await;
    let mut text = delta["delta"].as_str().unwrap().to_owned();
    let cursor = first.cursor(&thread).unwrap().to_owned();
    // Another client receives more events meanwhile.
    let mut watching = server.connect_with(capabilities()).await;
    watching.call("thread/resume", json!({ "threadId": thread })).await;
    first.expect("item/agentMessage/delta").await;
    watching.expect("item/agentMessage/delta").await;
    drop(first);
    let (mut back, resumed) = come_back(&server, &thread, &cursor).await;
    assert_eq!(resumed["eventReplay"]["type"], "replayed");
    assert_eq!(resumed["thread"]["turns"], json!([]));
    back.turn_end(&turn).await;
    for line in back.raw_lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if message["method"] == "item/agentMessage/delta" {
            text.push_str(message["params"]["delta"].as_str().unwrap());
        }
    }
    assert_eq!(text, "one two three four", "no gap and no repeat");
}

#[tokio::test]
async fn open_requests_are_sent_again_and_answered_ones_are_not() {
    let responses = json!([runs("touch first"), runs("touch second"), says("Done.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let mut first = server.connect_with(capabilities()).await;
    let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" });
    let thread = first.start_thread(params).await;
    let turn = first.start_turn(&thread, "Go.").await;
    let asked = first.asked("item/commandExecution/requestApproval").await;
    let cursor = first.cursor(&thread).unwrap().to_owned();
    drop(first);

    let (mut second, resumed) = come_back(&server, &thread, &cursor).await;
    let replay = &resumed["eventReplay"];
    assert_eq!(replay["openRequestIds"], json!([asked.id]));
    let again = second.asked("item/commandExecution/requestApproval").await;
    assert_eq!((&again.id, &again.params), (&asked.id, &asked.params));
    let mut other = server.connect().await;
    other.call("thread/resume", json!({ "threadId": thread })).await;
    other.asked("item/commandExecution/requestApproval").await;
    second.decide(&again, "accept").await;
    let resolved = other.expect("serverRequest/resolved").await;
    assert_eq!(resolved["requestId"], asked.id, "the others hear that it is answered");
    let next = other.asked("item/commandExecution/requestApproval").await;
    drop(second);

    // The client is away while one request is answered and another one is sent.
    let (mut third, resumed) = come_back(&server, &thread, &cursor).await;
    assert_eq!(resumed["eventReplay"]["openRequestIds"], json!([next.id]));
    assert_eq!(third.expect("serverRequest/resolved").await["requestId"], asked.id);
    assert_eq!(third.item("commandExecution").await["status"], "completed");
    let again = third.asked("item/commandExecution/requestApproval").await;
    third.decide(&again, "decline").await;
    assert_eq!(third.turn_end(&turn).await["status"], "completed");
}

#[tokio::test]
async fn a_restarted_server_sends_a_snapshot() {
    let env =
        TestEnvironment::with_responses(json!([says("One."), runs("touch made"), says("Two.")]))
            .await;
    let server = env.start();
    let mut first = server.connect_with(capabilities()).await;
    let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" });
    let thread = first.start_thread(params).await;
    first.run_turn(&thread, "Begin.").await;
    let turn = first.start_turn(&thread, "Go.").await;
    first.asked("item/commandExecution/requestApproval").await;
    let cursor = first.cursor(&thread).unwrap().to_owned();
    server.stop().await;

    let server = env.start();
    let (mut second, resumed) = come_back(&server, &thread, &cursor).await;
    let expect = json!({ "type": "snapshot", "reason": "reloaded", "fromTurnId": turn,
        "isComplete": true, "openRequestIds": [] });
    assert_eq!(resumed["eventReplay"], expect, "what was asked is resolved");
    let turns = resumed["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1, "only what the client cannot know");
    assert_eq!((&turns[0]["id"], &turns[0]["status"]), (&json!(turn), &json!("interrupted")));
    assert_eq!(turns[0]["items"][1]["status"], "declined");
    let ended = second.run_turn(&thread, "Go on.").await;
    assert_eq!(ended["status"], "completed");
    assert!(second.cursor(&thread).is_some());
}

#[tokio::test]
async fn a_reconnecting_client_loses_turns_that_were_rolled_back() {
    let env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    let server = env.start();
    let mut first = server.connect_with(capabilities()).await;
    let thread = first.start_thread(json!({})).await;
    first.run_turn(&thread, "First.").await;
    first.run_turn(&thread, "Second.").await;
    first.settled().await;
    let cursor = first.cursor(&thread).unwrap().to_owned();
    first.call("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    let (_, resumed) = come_back(&server, &thread, &cursor).await;
    let replay = &resumed["eventReplay"];
    assert_eq!((&replay["type"], &replay["reason"]), (&json!("snapshot"), &json!("tooOld")));
    assert_eq!(replay["fromTurnId"], Value::Null, "everything is replaced");
    assert_eq!(replay["isComplete"], true);
    assert_eq!(resumed["thread"]["turns"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_client_that_missed_more_than_is_kept_gets_a_snapshot() {
    let much = |text: &str| {
        json!({ "steps": [{ "message":
        { "chunks": [text.repeat(1000)], "repeat": 60 } }] })
    };
    let responses = json!([says("One."), much("0123456789"), much("abcdefghij"), says("End.")]);
    let env = TestEnvironment::with_responses(responses).await;
    let server = env.start();
    let mut first = server.connect_with(capabilities()).await;
    let thread = first.start_thread(json!({})).await;
    let mut view = View::default();
    first.run_turn(&thread, "First.").await;
    first.settled().await;
    first.forget();
    let cursor = first.cursor(&thread).unwrap().to_owned();
    for text in ["Second.", "Third.", "Fourth."] {
        first.run_turn(&thread, text).await;
    }
    let (_, resumed) = come_back(&server, &thread, &cursor).await;
    let replay = &resumed["eventReplay"];
    assert_eq!((&replay["type"], &replay["reason"]), (&json!("snapshot"), &json!("tooOld")));
    view.resumed(&resumed);
    let page = json!({ "threadId": thread, "itemsView": "full", "sortDirection": "asc" });
    let stored = first.call("thread/turns/list", page).await;
    assert_eq!(json!(view.turns), stored["data"]);
    assert_eq!(replay["fromTurnId"], view.turns[0]["id"], "the turn that was seen is sent again");
}

/// A client's view of a thread.
#[derive(Default)]
struct View {
    turns: Vec<Value>,
    cursor: Option<String>,
    /// Number of replays and snapshots that the client received.
    replayed: usize,
    snapshots: usize,
}

impl View {
    fn resumed(&mut self, resumed: &Value) {
        let replay = &resumed["eventReplay"];
        match replay["type"].as_str() {
            Some("replayed") => self.replayed += 1,
            kind => {
                self.snapshots += usize::from(kind.is_some());
                let from = &replay["fromTurnId"];
                let kept = self.turns.iter().position(|turn| turn["id"] == *from).unwrap_or(0);
                self.turns.truncate(kept);
                self.turns.extend(resumed["thread"]["turns"].as_array().unwrap().iter().cloned());
            }
        }
        // Replayed events come first and set the cursor themselves.
        if replay["type"] != "replayed" {
            self.cursor = resumed["eventCursor"].as_str().map(str::to_owned);
        }
    }

    fn receive(&mut self, message: &Value) {
        let Some(cursor) = message["eventCursor"].as_str() else { return };
        self.cursor = Some(cursor.to_owned());
        let params = &message["params"];
        match message["method"].as_str().unwrap() {
            "turn/started" => self.turns.push(params["turn"].clone()),
            "turn/completed" => {
                let turn = self.turn(&params["turn"]["id"]);
                turn["status"] = params["turn"]["status"].clone();
            }
            "item/started" => {
                let items = self.turn(&params["turnId"])["items"].as_array_mut().unwrap();
                items.push(params["item"].clone());
            }
            "item/completed" => {
                let item = self.item(&params["turnId"], &params["item"]["id"]);
                if let (Some(heard), Some(all)) =
                    (item["text"].as_str(), params["item"]["text"].as_str())
                {
                    assert!(all.starts_with(heard), "{heard:?} is no beginning of {all:?}");
                }
                *item = params["item"].clone();
            }
            "item/agentMessage/delta" => {
                let item = self.item(&params["turnId"], &params["itemId"]);
                let text = format!("{}{}", item["text"].as_str().unwrap(), text(&params["delta"]));
                item["text"] = Value::from(text);
            }
            _ => {}
        }
    }

    fn turn(&mut self, id: &Value) -> &mut Value {
        let known: Vec<Value> = self.turns.iter().map(|turn| turn["id"].clone()).collect();
        let found = self.turns.iter_mut().find(|turn| turn["id"] == *id);
        found.unwrap_or_else(|| panic!("turn {id} of {known:?}"))
    }

    fn item(&mut self, turn: &Value, id: &Value) -> &mut Value {
        let items = self.turn(turn)["items"].as_array_mut().unwrap();
        items.iter_mut().find(|item| item["id"] == *id).expect("an item that was begun")
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Reads this many messages, or until a thread that is over sends none.
async fn read_some(peer: &mut Peer, view: &mut View, mut messages: usize, over: &AtomicUsize) {
    while messages > 0 && over.load(Ordering::Relaxed) == 0 {
        match peer.next().await {
            Some(message) => view.receive(&message),
            None => return,
        }
        messages -= 1;
    }
}

/// Pseudo-random numbers that are the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, bound: u64) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound) as usize
    }
}

const CLIENTS: usize = 10;

/// `AGENTD_TEST_CUTS` sets the total number of cut connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_may_be_cut_anywhere() {
    let cuts = std::env::var("AGENTD_TEST_CUTS").ok().and_then(|cuts| cuts.parse().ok());
    let each = cuts.unwrap_or(400_usize).div_ceil(CLIENTS);
    let chunks: Vec<String> = (0..40).map(|number| format!("{number} \"ö\"\n")).collect();
    let talk = json!({ "steps": [{ "message": { "chunks": chunks, "chunk_delay_ms": 0 } }] });
    let round = [
        talk.clone(),
        json!({ "steps": [{ "message": "Running." },
        { "function_call": { "name": "exec_command", "arguments": { "cmd": "echo a; echo b" } } }] }),
        talk,
    ];
    let responses: Vec<Value> = round.iter().cycle().take(3 * 2000).cloned().collect();
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let server = Arc::new(env.start());
    let mut driver = server.connect().await;
    let params = json!({ "approvalPolicy": "never", "sandbox": "dangerFullAccess" });
    let thread = driver.start_thread(params).await;
    let (left, over) = (Arc::new(AtomicUsize::new(CLIENTS)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (server, thread) = (server.clone(), thread.clone());
            let (left, over) = (left.clone(), over.clone());
            tokio::spawn(async move {
                let mut random = SeededRandom(number as u64);
                let mut view = View::default();
                for cut in 0..=each {
                    let mut peer = server.connect_with(capabilities()).await;
                    let mut params = json!({ "threadId": thread });
                    if let Some(cursor) = &view.cursor {
                        params["eventCursor"] = cursor.as_str().into();
                    }
                    // Notifications before the response do not concern this thread.
                    let resumed = peer.call("thread/resume", params).await;
                    view.resumed(&resumed);
                    peer.forget();
                    if cut < each {
                        read_some(&mut peer, &mut view, random.below(120), &over).await;
                        continue;
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                    // Read to the end of the last turn.
                    while view
                        .turns
                        .last()
                        .is_none_or(|turn| turn["items"][0]["content"][0]["text"] != "Last.")
                        || view.turns.last().is_some_and(|turn| turn["status"] == "inProgress")
                    {
                        let message = peer.next().await.expect("a connection that is not cut");
                        view.receive(&message);
                    }
                }
                view
            })
        })
        .collect();
    while left.load(Ordering::Relaxed) > 0 {
        assert!(!clients.iter().any(tokio::task::JoinHandle::is_finished), "a client failed");
        assert_eq!(driver.run_turn(&thread, "Go.").await["status"], "completed");
        driver.forget();
    }
    driver.run_turn(&thread, "Last.").await;
    let mut stored = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = json!({ "threadId": thread, "itemsView": "full", "sortDirection": "asc",
            "limit": 100, "cursor": cursor });
        let mut reader = server.connect_with(capabilities()).await;
        let page = reader.call("thread/turns/list", page).await;
        stored.extend(page["data"].as_array().unwrap().iter().cloned());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let seen = |turn: &Value| json!([turn["id"], turn["status"], turn["items"]]);
    let (mut replayed, mut snapshots) = (0, 0);
    for client in clients {
        let view = client.await.unwrap();
        (replayed, snapshots) = (replayed + view.replayed, snapshots + view.snapshots);
        let missed = stored.len() - view.turns.len();
        for (turn, kept) in view.turns.iter().zip(&stored[missed..]) {
            assert_eq!(seen(turn), seen(kept));
        }
        assert!(missed <= 1, "only what was over before the client first came");
    }
    assert!(replayed > 0);
    println!("{} cuts: {replayed} replays, {snapshots} snapshots", each * CLIENTS);
}
