//! The real program, killed with SIGKILL at random points of running turns, repeatedly on the same
//! homes. After each kill the store opens, no data sent to a client is lost, duplicated or changed,
//! every turn has exactly one end, and the thread continues.
//!
//! A point is a number of bytes read from the program's output, so that it does not depend on time.
//! `AGENTD_CRASH_POINTS` sets the number of points.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};

use crate::common::{PATIENCE, Running, TestEnvironment};
use serde_json::{Value, json};

/// Default number of points.
const POINTS: usize = 80;
/// Number of points in turns with long texts.
const POINTS_IN_TEXTS: usize = 24;
/// Text of an item that is stored at the latest when its client has so much of it (docs/threads.md); from
/// there on, each time it has doubled.
const FIRST_STORED: usize = 16 * 1024;
/// Homes used in parallel.
const HOMES: usize = 4;
/// Threads of each process: one continues a thread of the process before.
const THREADS: usize = 3;
/// Consecutive turns of each thread.
const TURNS: usize = 2;

#[test]
fn reported_records_survive_a_kill_exactly_once() {
    let points = points(POINTS);
    let Tally { kills, cut, items, turns, .. } = die(points, &script());
    println!(
        "{kills} kills: {turns} turns reported, {cut} of them interrupted, {items} items reported; all kept"
    );
    assert_eq!(kills, points);
    assert!(points < POINTS || cut > 0, "no kill met a running turn");
}

#[test]
fn text_of_running_items_survives_a_kill() {
    let points = points(POINTS_IN_TEXTS);
    let Tally { kills, running, .. } = die(points, &long_texts());
    println!("{kills} kills while {running} items were long enough to be stored in part");
    assert!(kills == points && running > 0);
}

/// The number of kills: `ordinary`, or what `AGENTD_CRASH_POINTS` says.
fn points(ordinary: usize) -> usize {
    std::env::var("AGENTD_CRASH_POINTS").map_or(ordinary, |points| points.parse().unwrap())
}

/// Kills processes at so many points of turns of this script.
fn die(points: usize, script: &Value) -> Tally {
    let workers: Vec<_> = (0..HOMES)
        .map(|home| {
            let lives = points / HOMES + usize::from(home < points % HOMES);
            let script = script.clone();
            std::thread::spawn(move || die_again_and_again(home as u64, lives, &script))
        })
        .collect();
    let mut sum = Tally::default();
    for worker in workers {
        let tally = worker.join().expect("what was reported is kept");
        sum.kills += tally.kills;
        sum.cut += tally.cut;
        sum.items += tally.items;
        sum.turns += tally.turns;
        sum.running += tally.running;
    }
    sum
}

/// Counts over all processes of a run.
#[derive(Default)]
struct Tally {
    kills: usize,
    /// Turns cut off by a kill.
    cut: usize,
    items: usize,
    turns: usize,
    /// Long texts that were cut off by a kill.
    running: usize,
}

fn die_again_and_again(seed: u64, lives: usize, script: &Value) -> Tally {
    let env = TestEnvironment::new();
    let model = env.script(script);
    let mut ledger = Ledger::default();
    let mut random = Random(seed);
    // The first process runs to the end, to measure the output of a whole one.
    let whole = ServerRun::start(&env, &model, &mut ledger, usize::MAX).run_until_kill();
    for _ in 0..lives {
        let point = random.below(whole as u64) as usize;
        ServerRun::start(&env, &model, &mut ledger, point).run_until_kill();
    }
    let mut server = Running::server(&env, &[]);
    for thread in ledger.threads.keys() {
        let read = json!({ "threadId": thread, "includeTurns": true });
        let answer = server.call(1, "thread/read", read);
        ledger.check(thread, &answer["result"]["thread"]);
    }
    go_on(&mut server, ledger.last());
    assert!(server.end().0.success());
    let turns = ledger.threads.values().flatten();
    let cut = turns.filter(|(_, turn)| turn.status.is_none()).count();
    let items = ledger.threads.values().flatten().map(|(_, turn)| turn.items.len()).sum();
    let reported = ledger.threads.values().flatten();
    let running = reported.map(|(_, turn)| turn.long_running_texts().count()).sum();
    let turns = ledger.threads.values().map(BTreeMap::len).sum();
    Tally { kills: lives, cut, items, turns, running }
}

fn go_on(server: &mut Running, thread: Option<String>) {
    let Some(thread) = thread else { return };
    server.call(2, "thread/resume", json!({ "threadId": thread }));
    let started = server.call(3, "turn/start", turn(&thread));
    let ended = server.notification("turn/completed");
    assert_eq!(ended["turn"]["id"], started["result"]["turn"]["id"]);
    assert_eq!(ended["turn"]["status"], "completed", "{ended}");
}

/// A turn with text, reasoning, a command, a patch and text again: three requests to the model.
fn script() -> Value {
    let talk = |text: &str| json!({ "message": { "text": text, "chunk_chars": 4 } });
    let command = json!({ "function_call": { "name": "exec_command",
        "arguments": { "cmd": "rm -f note.txt; echo one; echo two" } } });
    let patch = json!({ "custom_tool_call": { "name": "apply_patch",
        "input": "*** Begin Patch\n*** Add File: note.txt\n+kept\n*** End Patch\n" } });
    let turn = [
        json!({ "steps": [{ "reasoning": "**Look**\n\nFirst of all." }, talk("I clear the way."), command] }),
        json!({ "steps": [talk("Now the note."), patch] }),
        json!({ "steps": [talk("All of it is done, as far as one can tell.")] }),
    ];
    // Enough for all turns of a thread in one process.
    Value::from_iter(turn.iter().cycle().take(3 * (TURNS + 1)).cloned())
}

/// A turn with a long message and a command with long output.
fn long_texts() -> Value {
    let chunks: Vec<String> = (0..40).map(|number| format!("{number:>63} ")).collect();
    let talk = json!({ "message": { "chunks": chunks, "repeat": 40 } });
    let command = json!({ "function_call": { "name": "exec_command",
        "arguments": { "cmd": "seq -f '%063.0f' 1600" } } });
    let turn = [json!({ "steps": [talk, command] }), json!({ "steps": [{ "message": "Done." }] })];
    Value::from_iter(turn.iter().cycle().take(2 * (TURNS + 1)).cloned())
}

fn turn(thread: &str) -> Value {
    json!({ "threadId": thread, "input": [{ "type": "text", "text": "Leave a note." }] })
}

/// What clients received from all processes so far: by thread, then by turn.
#[derive(Default)]
struct Ledger {
    threads: BTreeMap<String, BTreeMap<String, ReportedTurn>>,
}

#[derive(Default)]
struct ReportedTurn {
    /// Completed items by id.
    items: BTreeMap<String, Value>,
    /// What was streamed of items, by id.
    texts: BTreeMap<String, String>,
    /// The reported final status.
    status: Option<String>,
}

impl ReportedTurn {
    /// The texts of items whose end was not reported, as far as they are long.
    fn long_running_texts(&self) -> impl Iterator<Item = (&String, &String)> {
        let is_long = |(id, text): &(&String, &String)| {
            text.len() > FIRST_STORED && !self.items.contains_key(*id)
        };
        self.texts.iter().filter(is_long)
    }
}

impl Ledger {
    /// Returns the newest thread: ids sort in the order of creation.
    fn last(&self) -> Option<String> {
        self.threads.keys().next_back().cloned()
    }

    fn turn(&mut self, params: &Value, turn: &Value) -> &mut ReportedTurn {
        let thread = self.threads.entry(text(&params["threadId"])).or_default();
        thread.entry(text(turn)).or_default()
    }

    fn take(&mut self, method: &str, params: &Value) {
        match method {
            "turn/started" => {
                self.turn(params, &params["turn"]["id"]);
            }
            "item/completed" => {
                let item = &params["item"];
                let reported = self.turn(params, &params["turnId"]);
                assert!(reported.status.is_none(), "an item after its turn's end: {params}");
                let before = reported.items.insert(text(&item["id"]), item.clone());
                assert!(before.is_none(), "reported twice: {item}");
            }
            "item/agentMessage/delta" | "item/commandExecution/outputDelta" => {
                let reported = self.turn(params, &params["turnId"]);
                let received = reported.texts.entry(text(&params["itemId"])).or_default();
                received.push_str(params["delta"].as_str().unwrap());
            }
            "turn/completed" => {
                let reported = self.turn(params, &params["turn"]["id"]);
                let before = reported.status.replace(text(&params["turn"]["status"]));
                assert!(before.is_none(), "ended twice: {params}");
            }
            _ => {}
        }
    }

    /// Compares a thread, as read after a restart, with what was reported of it.
    fn check(&self, id: &str, read: &Value) {
        assert_eq!(read["id"], id, "a thread is lost");
        let turns = read["turns"].as_array().unwrap();
        let ids: BTreeSet<String> = turns.iter().map(|turn| text(&turn["id"])).collect();
        assert_eq!(ids.len(), turns.len(), "a turn is doubled: {read}");
        for reported in self.threads[id].keys() {
            assert!(ids.contains(reported), "turn {reported} of {id} is lost");
        }
        for turn in turns {
            let nothing = ReportedTurn::default();
            let reported = self.threads[id].get(&text(&turn["id"])).unwrap_or(&nothing);
            check_turn(reported, turn);
        }
    }
}

fn check_turn(reported: &ReportedTurn, turn: &Value) {
    let status = text(&turn["status"]);
    match &reported.status {
        Some(expected) => assert_eq!(&status, expected, "{turn}"),
        // Its end may have been stored and not reported.
        None => assert!(["interrupted", "completed"].contains(&status.as_str()), "{turn}"),
    }
    assert!(!turn["completedAt"].is_null(), "{turn}");
    let mut found = BTreeMap::new();
    for item in turn["items"].as_array().unwrap() {
        assert_ne!(item["status"], "inProgress", "{turn}");
        let before = found.insert(text(&item["id"]), item);
        assert!(before.is_none(), "an item is doubled: {turn}");
    }
    for (id, item) in &reported.items {
        assert_eq!(found.get(id).copied(), Some(item), "an item is lost or changed: {turn}");
    }
    for (id, received) in reported.long_running_texts() {
        let item = found.get(id).unwrap_or_else(|| panic!("a running item is lost: {turn}"));
        let stored = item["text"].as_str().or(item["aggregatedOutput"].as_str()).unwrap();
        let is_part = received.starts_with(stored) || stored.starts_with(received);
        assert!(is_part, "the text of a running item is changed: {stored}");
        let (received, stored) = (received.len(), stored.len());
        assert!(received < 2 * stored + FIRST_STORED, "{received} bytes received, {stored} stored");
    }
}

/// One process, from start to kill.
struct ServerRun<'a> {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    ledger: &'a mut Ledger,
    env: &'a TestEnvironment,
    model: &'a str,
    /// Number of output bytes after which it is killed.
    point: usize,
    read: usize,
    line: Vec<u8>,
    next_id: i64,
    calls: BTreeMap<i64, Call>,
    /// Remaining turns of each thread.
    left: BTreeMap<String, usize>,
}

enum Call {
    Initialize,
    Read(String),
    Open,
    Turn,
}

impl<'a> ServerRun<'a> {
    fn start(
        env: &'a TestEnvironment,
        model: &'a str,
        ledger: &'a mut Ledger,
        point: usize,
    ) -> Self {
        let mut command = env.agentd(&["app-server"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut out = child.stdout.take().unwrap();
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(read @ 1..) = out.read(&mut buffer) {
                if sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            input,
            output,
            ledger,
            env,
            model,
            point,
            read: 0,
            line: Vec::new(),
            next_id: 0,
            calls: BTreeMap::new(),
            left: BTreeMap::new(),
        }
    }

    /// Runs to the point, or until the turns are done, and kills the process; returns the number of
    /// output bytes.
    fn run_until_kill(mut self) -> usize {
        let client = json!({ "clientInfo": { "name": "crash", "title": "C", "version": "1" } });
        self.call("initialize", client, Call::Initialize);
        while self.read < self.point && !self.is_done() {
            let bytes = self.output.recv_timeout(PATIENCE).expect("the server says something");
            self.take(&bytes);
        }
        self.child.kill().unwrap();
        // Output still in the pipe counts as received.
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.take(&bytes);
        }
        self.child.wait().unwrap();
        self.read
    }

    fn is_done(&self) -> bool {
        self.calls.is_empty() && self.left.len() == THREADS && self.left.values().all(|n| *n == 0)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.read += bytes.len();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let message: Value = serde_json::from_slice(&line).expect("each line is JSON");
            match message["method"].as_str() {
                Some(method) => self.reported(method, &message["params"]),
                None => self.receive_response(&message),
            }
        }
    }

    fn reported(&mut self, method: &str, params: &Value) {
        self.ledger.take(method, params);
        if method == "turn/completed" {
            assert_eq!(params["turn"]["status"], "completed", "{params}");
            let thread = text(&params["threadId"]);
            let left = self.left.get_mut(&thread).unwrap();
            *left -= 1;
            if *left > 0 {
                self.call("turn/start", turn(&thread), Call::Turn);
            }
        }
    }

    fn receive_response(&mut self, message: &Value) {
        let call = self.calls.remove(&message["id"].as_i64().unwrap()).unwrap();
        let result = message.get("result").unwrap_or_else(|| panic!("refused: {message}"));
        match call {
            Call::Initialize => self.begin(),
            Call::Read(thread) => {
                self.ledger.check(&thread, &result["thread"]);
                let params = json!({ "threadId": thread });
                self.call("thread/resume", params, Call::Open);
            }
            Call::Open => {
                let thread = text(&result["thread"]["id"]);
                self.ledger.threads.entry(thread.clone()).or_default();
                self.call("turn/start", turn(&thread), Call::Turn);
                self.left.insert(thread, TURNS);
            }
            Call::Turn => {}
        }
    }

    /// Checks and continues the thread of the process before, and starts new ones.
    fn begin(&mut self) {
        self.send(&json!({ "method": "initialized" }));
        let last = self.ledger.last();
        let new = THREADS - usize::from(last.is_some());
        if let Some(thread) = last {
            let params = json!({ "threadId": thread, "includeTurns": true });
            self.call("thread/read", params, Call::Read(thread));
        }
        for _ in 0..new {
            let cwd = tempfile::tempdir_in(self.env.work()).unwrap().keep();
            let params = json!({ "modelProvider": "offline", "model": self.model, "cwd": cwd,
                "approvalPolicy": "never", "sandbox": "workspaceWrite" });
            self.call("thread/start", params, Call::Open);
        }
    }

    fn call(&mut self, method: &str, params: Value, call: Call) {
        self.next_id += 1;
        self.calls.insert(self.next_id, call);
        self.send(&json!({ "id": self.next_id, "method": method, "params": params }));
    }

    fn send(&mut self, message: &Value) {
        // A killed process no longer reads.
        let _ = self.input.write_all(format!("{message}\n").as_bytes());
    }
}

/// SplitMix64: the same points in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
