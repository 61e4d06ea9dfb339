//! Random sequences of thread methods, with kills of the server (SIGKILL) in between, checked
//! against a model of the expected state: after each start every acknowledged change is present
//! exactly once, and the model provider receives exactly the remaining history.
//!
//! `AGENTD_TEST_SEQUENCES` sets the number of sequences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// Default number of sequences.
const SEQUENCES: usize = 60;
/// Sequences run in parallel.
const WORKERS: usize = 4;
/// Steps of a sequence, including kills.
const STEPS: usize = 18;

#[test]
fn acknowledged_state_survives_any_crash() {
    let count =
        std::env::var("AGENTD_TEST_SEQUENCES").map_or(SEQUENCES, |count| count.parse().unwrap());
    let next = AtomicUsize::new(0);
    let kills = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let env = TestEnvironment::new();
                let provider = Provider::start(&env);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    kills.fetch_add(sequence(number as u64, &provider), Ordering::Relaxed);
                }
            });
        }
    });
    println!("{count} sequences, {} kills: no difference", kills.into_inner());
}

/// A model server that answers every request and records it.
struct Provider {
    _running: Running,
    address: String,
    log: PathBuf,
}

impl Provider {
    fn start(env: &TestEnvironment) -> Self {
        let script = json!({ "responses": [{ "steps": [{ "message": "Yes: {{last_user_text}}" }] }],
            "on_exhausted": "repeat_last" });
        let path = env.work().join("answers.json");
        std::fs::write(&path, script.to_string()).unwrap();
        let log = env.work().join("requests.log");
        let (script, written) = (path.to_str().unwrap(), log.to_str().unwrap());
        let arguments = ["model-server", "--script", script, "--log", written];
        let running = Running::start(&mut env.agentd(&arguments));
        let line = running.line_with("http://");
        let at = line.find("http://").unwrap();
        let address =
            line[at..].split_whitespace().next().unwrap().trim_end_matches('/').to_owned();
        Self { _running: running, address, log }
    }

    /// Returns the user's texts in the last request.
    fn last_user_texts(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let last = log.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let request =
            last.map(|mut line| line["body"].take()).find(|body| !body.is_null()).unwrap();
        let input = request["input"].as_array().unwrap();
        let users = input.iter().filter(|item| item["role"] == "user");
        let texts = users.filter_map(|item| item["content"][0]["text"].as_str().map(str::to_owned));
        texts.filter(|text| !text.trim_start().starts_with('<')).collect()
    }
}

/// A turn as it is expected to be read.
#[derive(Clone, Debug, PartialEq)]
struct Turn {
    id: String,
    text: String,
    status: String,
}

/// Part of a thread: a turn, or the time before or between turns, with its texts.
#[derive(Clone, Debug, Default)]
struct Part {
    turn: Option<Turn>,
    said: Vec<UserText>,
}

/// A text of the user.
#[derive(Clone, Debug)]
struct UserText {
    text: String,
    /// `false` if the server was killed before it responded.
    sure: bool,
}

fn confirmed_text(text: &str) -> UserText {
    UserText { text: text.to_owned(), sure: true }
}

#[derive(Clone, Debug, Default)]
struct Thread {
    parts: Vec<Part>,
    name: Option<String>,
    sha: Option<String>,
    archived: bool,
    loaded: bool,
    forked_from: Option<String>,
}

impl Thread {
    fn turns(&self) -> Vec<Turn> {
        self.parts.iter().filter_map(|part| part.turn.clone()).collect()
    }

    /// Removes unconfirmed texts that the provider did not receive. With the confirmed ones, the
    /// others must be all that it received.
    fn reconcile(&mut self, sent: &[String]) {
        let mut sent = sent.iter().peekable();
        for part in &mut self.parts {
            part.said.retain_mut(|said| {
                let found = sent.next_if(|sent| **sent == said.text).is_some();
                assert!(found || !said.sure, "`{}` was not sent", said.text);
                said.sure = true;
                found
            });
        }
        assert_eq!(sent.next(), None, "no user sent that");
    }

    fn roll_back(&mut self, turns: usize) {
        for _ in 0..turns {
            let at = self.parts.iter().rposition(|part| part.turn.is_some()).unwrap();
            self.parts.truncate(at);
        }
        self.parts.push(Part::default());
    }
}

/// One method with its parameters.
#[derive(Clone, Debug)]
enum Step {
    Turn { text: String },
    Shell,
    Compact,
    Inject { text: String },
    Name { name: String },
    Metadata { sha: Option<String> },
    Fork { at: Option<usize> },
    RollBack { turns: usize },
    Archive,
    Unarchive,
    Delete,
    Resume,
    Unsubscribe,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as usize % limit.max(1)
    }
}

struct Sequence<'p> {
    env: TestEnvironment,
    server: Option<Running>,
    provider: &'p Provider,
    threads: BTreeMap<String, Thread>,
    /// Ids of deleted threads.
    gone: BTreeSet<String>,
    random: Random,
    id: i64,
    kills: usize,
}

fn sequence(seed: u64, provider: &Provider) -> usize {
    let env = TestEnvironment::new();
    let config = format!(
        "model = \"gpt-5\"\nmodel_provider = \"local\"\napproval_policy = \"never\"\n\
         sandbox_mode = \"danger-full-access\"\n\n[model_providers.local]\nname = \"Local\"\n\
         base_url = \"{}\"\n",
        provider.address
    );
    std::fs::write(env.home().join("config.toml"), config).unwrap();
    let threads = BTreeMap::new();
    let random = Random(seed);
    let mut run = Sequence {
        env,
        server: None,
        provider,
        threads,
        gone: BTreeSet::new(),
        random,
        id: 10,
        kills: 0,
    };
    run.start();
    for number in 0..STEPS {
        run.step(number);
    }
    run.kill();
    run.start();
    run.kills
}

impl Sequence<'_> {
    fn start(&mut self) {
        let mut command = self.env.agentd(&["app-server"]);
        let mut server = Running::start(&mut command);
        let params = json!({ "clientInfo": { "name": "test", "version": "1" },
            "capabilities": { "experimentalApi": true } });
        server.call(0, "initialize", params);
        server.send(r#"{"method":"initialized"}"#);
        self.server = Some(server);
        for thread in self.threads.values_mut() {
            thread.loaded = false;
        }
        self.check();
    }

    fn kill(&mut self) {
        self.kills += 1;
        // Dropping it sends SIGKILL and waits for the exit.
        self.server = None;
    }

    fn send(&mut self, method: &str, params: Value) -> i64 {
        self.id += 1;
        let line = json!({ "id": self.id, "method": method, "params": params }).to_string();
        self.server.as_mut().unwrap().send(&line);
        self.id
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.send(method, params);
        let server = self.server.as_ref().unwrap();
        let mut answer =
            server.message(|message| message["id"] == id && message["method"].is_null());
        match answer["error"]["message"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["result"].take()),
        }
    }

    /// Compares the store with the model of it.
    fn check(&mut self) {
        let mut listed = BTreeSet::new();
        for archived in [false, true] {
            let params = json!({ "archived": archived, "limit": 100 });
            let page = self.call("thread/list", params).unwrap();
            for row in page["data"].as_array().unwrap() {
                let id = row["id"].as_str().unwrap().to_owned();
                let known = self.threads.get(&id);
                assert!(known.is_none_or(|thread| thread.archived == archived), "{id}: {archived}");
                assert!(!self.gone.contains(&id), "{id} was deleted");
                assert!(listed.insert(id.clone()), "{id} is listed twice");
            }
        }
        for (id, thread) in self.threads.clone() {
            let params = json!({ "threadId": id, "includeTurns": true });
            let read = self.call("thread/read", params).unwrap()["thread"].take();
            assert_eq!(turns(&read), thread.turns(), "{id}");
            assert_eq!(read["name"].as_str(), thread.name.as_deref(), "{id}");
            assert_eq!(read["gitInfo"]["sha"].as_str(), thread.sha.as_deref(), "{id}");
            assert_eq!(read["forkedFromId"].as_str(), thread.forked_from.as_deref(), "{id}");
            if !thread.turns().is_empty() {
                assert!(listed.contains(&id), "{id} is not listed");
            }
        }
        for id in self.gone.clone() {
            let read = self.call("thread/read", json!({ "threadId": id }));
            assert!(read.unwrap_err().contains("thread not found"), "{id} is back");
        }
    }

    fn step(&mut self, number: usize) {
        if self.threads.is_empty() || self.random.below(8) == 0 {
            let started = self.call("thread/start", json!({})).unwrap();
            let id = started["thread"]["id"].as_str().unwrap().to_owned();
            let parts = vec![Part::default()];
            self.threads.insert(id, Thread { parts, loaded: true, ..Thread::default() });
            return;
        }
        let ids: Vec<String> = self.threads.keys().cloned().collect();
        let id = ids[self.random.below(ids.len())].clone();
        let step = self.choose(&id, number);
        let before = self.threads[&id].clone();
        let (method, params) = request(&id, &before, &step);
        if self.random.below(6) == 0 {
            // Killed before, during or after the method.
            self.send(method, params);
            for _ in 0..self.random.below(400) {
                std::thread::yield_now();
            }
            self.kill();
            self.settle(&id, &before, &step);
            return;
        }
        let answer = self.call(method, params);
        self.answered(&id, &step, answer);
    }

    fn choose(&mut self, id: &str, number: usize) -> Step {
        let text = format!("said {number}");
        let turns = self.threads[id].turns().len();
        match self.random.below(22) {
            0..6 => Step::Turn { text },
            6 => Step::Shell,
            7..9 => Step::Compact,
            9..11 => Step::Inject { text },
            11 => Step::Name { name: format!("name {number}") },
            12 => {
                Step::Metadata { sha: (!number.is_multiple_of(3)).then(|| format!("sha{number}")) }
            }
            13..15 => {
                let at = self.random.below(turns + 1);
                Step::Fork { at: (at < turns).then_some(at) }
            }
            15..17 => Step::RollBack { turns: 1 + self.random.below(turns.max(1) + 1) },
            17 => Step::Archive,
            18 => Step::Unarchive,
            19 if number.is_multiple_of(2) => Step::Delete,
            20 => Step::Unsubscribe,
            _ => Step::Resume,
        }
    }

    /// Applies a response and its consequences to the model.
    fn answered(&mut self, id: &str, step: &Step, answer: Result<Value, String>) {
        let thread = self.threads.get_mut(id).unwrap();
        let (turns, archived, loaded) = (thread.turns().len(), thread.archived, thread.loaded);
        let empty = turns == 0 && thread.parts.iter().all(|part| part.said.is_empty());
        let expected = match step {
            Step::Turn { .. } | Step::Shell | Step::Inject { .. } => loaded,
            Step::Compact => loaded && !empty,
            Step::RollBack { turns: dropped } => loaded && *dropped <= turns,
            Step::Archive => archived || turns > 0 || had_turns(thread),
            Step::Resume => loaded || !archived,
            Step::Fork { .. }
            | Step::Name { .. }
            | Step::Metadata { .. }
            | Step::Unarchive
            | Step::Delete
            | Step::Unsubscribe => true,
        };
        let unclear = matches!(step, Step::Compact | Step::Archive) && answer.is_ok() != expected;
        assert!(unclear || answer.is_ok() == expected, "{step:?} of {thread:?}: {answer:?}");
        let Ok(result) = answer else { return };
        let thread = self.threads.get_mut(id).unwrap();
        match step {
            Step::Turn { text } => {
                let turn = result["turn"]["id"].as_str().unwrap().to_owned();
                self.turn_ended(id, &turn, text);
                let sent = self.provider.last_user_texts();
                let thread = self.threads.get_mut(id).unwrap();
                let before = thread.clone();
                let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    thread.reconcile(&sent);
                }));
                assert!(checked.is_ok(), "{sent:?} of {before:?}");
            }
            Step::Shell | Step::Compact => {
                let server = self.server.as_ref().unwrap();
                let ended = server.message(|message| {
                    message["method"] == "turn/completed" && message["params"]["threadId"] == id
                });
                let turn = ended["params"]["turn"]["id"].as_str().unwrap().to_owned();
                let status = ended["params"]["turn"]["status"].as_str().unwrap().to_owned();
                let turn = Some(Turn { id: turn, text: String::new(), status });
                self.threads.get_mut(id).unwrap().parts.push(Part { turn, said: Vec::new() });
            }
            Step::Inject { text } => {
                thread.parts.last_mut().unwrap().said.push(confirmed_text(text));
            }
            Step::Name { name } => thread.name = Some(name.clone()),
            Step::Metadata { sha } => thread.sha.clone_from(sha),
            Step::Fork { .. } => {
                let fork = result["thread"]["id"].as_str().unwrap().to_owned();
                self.forked(id, step, fork, true);
            }
            Step::RollBack { turns } => thread.roll_back(*turns),
            Step::Archive => (thread.archived, thread.loaded) = (true, thread.loaded && archived),
            Step::Unarchive => thread.archived = false,
            Step::Delete => {
                self.threads.remove(id);
                self.gone.insert(id.to_owned());
            }
            Step::Resume => thread.loaded = true,
            Step::Unsubscribe => {
                let status = result["status"].as_str().unwrap();
                let fits = if loaded { status != "notLoaded" } else { status == "notLoaded" };
                assert!(fits, "{status} of {thread:?}");
                // Its events are no longer received, so subscribe again at once.
                if loaded {
                    self.call("thread/resume", json!({ "threadId": id })).unwrap();
                }
            }
        }
    }

    fn turn_ended(&mut self, id: &str, turn: &str, text: &str) {
        let server = self.server.as_ref().unwrap();
        let ended = server.message(|message| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == turn
        });
        assert_eq!(ended["params"]["turn"]["status"], "completed", "{ended}");
        let (turn, status) = (turn.to_owned(), "completed".to_owned());
        let turn = Some(Turn { id: turn, text: text.to_owned(), status });
        let said = vec![confirmed_text(text)];
        self.threads.get_mut(id).unwrap().parts.push(Part { turn, said });
    }

    fn forked(&mut self, id: &str, step: &Step, fork: String, loaded: bool) {
        let Step::Fork { at } = step else { return };
        let mut thread = self.threads[id].clone();
        if let Some(at) = at {
            let last = thread.turns()[*at].clone();
            let env =
                thread.parts.iter().position(|part| part.turn.as_ref() == Some(&last)).unwrap();
            thread.parts.truncate(env + 1);
        }
        thread.parts.push(Part::default());
        let parts = thread.parts;
        let new = Thread { parts, loaded, forked_from: Some(id.to_owned()), ..Thread::default() };
        self.threads.insert(fork, new);
    }

    /// After a kill: a request without a response has either taken full effect or none.
    fn settle(&mut self, id: &str, before: &Thread, step: &Step) {
        let mut command = self.env.agentd(&["app-server"]);
        self.server = Some(Running::start(&mut command));
        let params = json!({ "clientInfo": { "name": "test", "version": "1" },
            "capabilities": { "experimentalApi": true } });
        self.call("initialize", params).unwrap();
        let params = json!({ "threadId": id, "includeTurns": true });
        let read = self.call("thread/read", params);
        let Ok(mut read) = read else {
            assert!(matches!(step, Step::Delete), "{id} is gone after {step:?}");
            self.threads.remove(id);
            self.gone.insert(id.to_owned());
            return self.restart();
        };
        let read = read["thread"].take();
        let (found, old) = (turns(&read), before.turns());
        let thread = self.threads.get_mut(id).unwrap();
        match step {
            Step::Turn { .. } | Step::Shell | Step::Compact if found.len() == old.len() + 1 => {
                let turn = found.last().unwrap().clone();
                assert!(["completed", "interrupted"].contains(&turn.status.as_str()), "{turn:?}");
                let text = match step {
                    Step::Turn { text } => text.as_str(),
                    _ => "",
                };
                assert_eq!(turn.text, text);
                let said = if text.is_empty() { Vec::new() } else { vec![confirmed_text(text)] };
                thread.parts.push(Part { turn: Some(turn), said });
            }
            Step::RollBack { turns } if found.len() + turns == old.len() && *turns > 0 => {
                thread.roll_back(*turns);
            }
            Step::Inject { text } => {
                let perhaps = UserText { text: text.clone(), sure: false };
                thread.parts.last_mut().unwrap().said.push(perhaps);
            }
            Step::Name { .. } => thread.name = read["name"].as_str().map(str::to_owned),
            Step::Metadata { .. } => {
                thread.sha = read["gitInfo"]["sha"].as_str().map(str::to_owned);
            }
            Step::Archive | Step::Unarchive => {
                let page = self.call("thread/list", json!({ "archived": true, "limit": 100 }));
                let page = page.unwrap();
                let rows = page["data"].as_array().unwrap();
                let archived = rows.iter().any(|row| row["id"] == id);
                self.threads.get_mut(id).unwrap().archived = archived;
            }
            _ => {}
        }
        if matches!(step, Step::Fork { .. }) {
            self.adopt_fork(id, step);
        }
        self.restart();
    }

    fn adopt_fork(&mut self, id: &str, step: &Step) {
        let page = self.call("thread/list", json!({ "limit": 100 })).unwrap();
        for row in page["data"].as_array().unwrap() {
            let fork = row["id"].as_str().unwrap().to_owned();
            if !self.threads.contains_key(&fork) {
                assert_eq!(row["forkedFromId"], id, "an unknown thread");
                self.forked(id, step, fork, false);
            }
        }
    }

    /// Restarts the server, which must recover the same state a second time.
    fn restart(&mut self) {
        self.server = None;
        self.start();
    }
}

/// Whether a thread has ever had turns, including turns rolled back.
fn had_turns(thread: &Thread) -> bool {
    thread.parts.len() > 1
}

fn request(id: &str, thread: &Thread, step: &Step) -> (&'static str, Value) {
    let plain = json!({ "threadId": id });
    match step {
        Step::Turn { text } => {
            let input = json!([{ "type": "text", "text": text }]);
            ("turn/start", json!({ "threadId": id, "input": input }))
        }
        Step::Shell => ("thread/shellCommand", json!({ "threadId": id, "command": "echo shell" })),
        Step::Compact => ("thread/compact/start", plain),
        Step::Inject { text } => {
            let content = json!([{ "type": "input_text", "text": text }]);
            let item = json!({ "type": "message", "role": "user", "content": content });
            ("thread/inject_items", json!({ "threadId": id, "items": [item] }))
        }
        Step::Name { name } => ("thread/name/set", json!({ "threadId": id, "name": name })),
        Step::Metadata { sha } => {
            let update = json!({ "threadId": id, "gitInfo": { "sha": sha } });
            ("thread/metadata/update", update)
        }
        Step::Fork { at } => {
            let last = at.map(|at| thread.turns()[at].id.clone());
            ("thread/fork", json!({ "threadId": id, "lastTurnId": last }))
        }
        Step::RollBack { turns } => {
            ("thread/rollback", json!({ "threadId": id, "numTurns": turns }))
        }
        Step::Archive => ("thread/archive", plain),
        Step::Unarchive => ("thread/unarchive", plain),
        Step::Delete => ("thread/delete", plain),
        Step::Resume => ("thread/resume", plain),
        Step::Unsubscribe => ("thread/unsubscribe", plain),
    }
}

fn turns(read: &Value) -> Vec<Turn> {
    let turn = |turn: &Value| {
        let first = &turn["items"][0];
        let text = match first["type"].as_str() {
            Some("userMessage") => first["content"][0]["text"].as_str().unwrap().to_owned(),
            _ => String::new(),
        };
        let of = |name: &str| turn[name].as_str().unwrap().to_owned();
        Turn { id: of("id"), text, status: of("status") }
    };
    read["turns"].as_array().unwrap().iter().map(turn).collect()
}
