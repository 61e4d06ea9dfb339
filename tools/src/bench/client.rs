//! A light client of the protocol over blocking pipes: one reader thread that timestamps messages
//! as they arrive and only counts streamed deltas, so that the client's own cost does not distort
//! the figures.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Capacity between the reader thread and the scenario, in messages; beyond it the client reads
/// slowly.
const QUEUE: usize = 4096;
/// Longest wait for one message.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Client {
    /// `None` once the server's input is closed.
    input: Option<Box<dyn Write + Send>>,
    arriving: Receiver<Arrived>,
    deltas: Arc<AtomicU64>,
    next_id: u64,
    /// Notifications received during a wait for a response.
    waiting: Vec<Arrived>,
}

/// A message other than a delta, and when its last byte was read.
#[derive(Debug)]
struct Arrived {
    message: Value,
    at: Instant,
}

impl Client {
    /// Creates a client on the two ends of a server's pipes.
    pub(crate) fn over(
        output: impl Read + Send + 'static,
        input: impl Write + Send + 'static,
    ) -> Client {
        let (sender, arriving) = sync_channel(QUEUE);
        let deltas = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&deltas);
        std::thread::spawn(move || read_messages(output, &sender, &counter));
        Client { input: Some(Box::new(input)), arriving, deltas, next_id: 1, waiting: Vec::new() }
    }

    /// Performs the handshake; returns the time of the response to `initialize`.
    pub(crate) fn initialize(&mut self) -> Result<Instant> {
        self.initialize_with(json!({}))
    }

    /// As [`Client::initialize`], with these capabilities.
    pub(crate) fn initialize_with(&mut self, capabilities: Value) -> Result<Instant> {
        let params = json!({
            "clientInfo": {"name": "bench", "title": "Benchmark", "version": "1"},
            "capabilities": capabilities,
        });
        let (_, at) = self.request("initialize", params)?;
        self.send(&json!({"method": "initialized", "params": {}}))?;
        Ok(at)
    }

    /// Starts a thread; returns its id, and the time from writing the request to reading the
    /// response.
    pub(crate) fn start_thread(&mut self, cwd: &Path) -> Result<(String, Duration)> {
        let began = Instant::now();
        let (result, at) = self.request("thread/start", json!({"cwd": cwd}))?;
        let id = result["thread"]["id"]
            .as_str()
            .context("the response to thread/start has no thread.id")?;
        Ok((id.to_owned(), at.duration_since(began)))
    }

    /// Runs one turn; returns the time from writing `turn/start` to reading `turn/completed`.
    pub(crate) fn turn(&mut self, thread: &str) -> Result<Duration> {
        let began = Instant::now();
        let turn = self.start_turn(thread)?;
        Ok(self.completed(&turn)?.duration_since(began))
    }

    /// Starts a turn without waiting for its end; returns its id.
    pub(crate) fn start_turn(&mut self, thread: &str) -> Result<String> {
        let input = json!([{"type": "text", "text": "go on"}]);
        let params = json!({"threadId": thread, "input": input});
        let (result, _) = self.request("turn/start", params)?;
        let id =
            result["turn"]["id"].as_str().context("the response to turn/start has no turn.id")?;
        Ok(id.to_owned())
    }

    /// Waits for the successful end of a turn; returns when it was read.
    pub(crate) fn completed(&mut self, turn: &str) -> Result<Instant> {
        let ends = |arrived: &Arrived| {
            arrived.message["method"] == "turn/completed"
                && arrived.message["params"]["turn"]["id"] == turn
        };
        let found = self.waiting.iter().position(&ends);
        let ended = match found {
            Some(at) => self.waiting.swap_remove(at),
            None => loop {
                let arrived = self.next(&format!("the end of turn {turn}"))?;
                if ends(&arrived) {
                    break arrived;
                }
                self.keep(arrived);
            },
        };
        let turn = &ended.message["params"]["turn"];
        if turn["status"] != "completed" {
            bail!("a turn ended as {}: {}", turn["status"], turn["error"]);
        }
        Ok(ended.at)
    }

    /// Waits until so many agents were started; returns the time from the first call on.
    pub(crate) fn spawned(&mut self, agents: usize) -> Result<Duration> {
        let mut first = None;
        let mut left = agents;
        loop {
            let arrived = self.next("the start of an agent")?;
            let item = &arrived.message["params"]["item"];
            if item["tool"] == "spawnAgent" {
                let first = *first.get_or_insert(arrived.at);
                if item["status"] == "failed" {
                    bail!("an agent was not started: {}", item["reason"]);
                }
                left -= usize::from(item["status"] == "completed");
                if left == 0 {
                    return Ok(arrived.at.duration_since(first));
                }
            }
            self.keep(arrived);
        }
    }

    /// Waits for the next notification of this method; returns its parameters, and when it was read.
    pub(crate) fn notification(&mut self, method: &str) -> Result<(Value, Instant)> {
        loop {
            let mut arrived = self.next(method)?;
            if arrived.message["method"] == method {
                return Ok((arrived.message["params"].take(), arrived.at));
            }
            self.keep(arrived);
        }
    }

    /// Number of message deltas read so far.
    pub(crate) fn deltas(&self) -> u64 {
        self.deltas.load(Ordering::Acquire)
    }

    /// Closes the server's input.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Sends a request and waits for its response; returns the result, and when it was read.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<(Value, Instant)> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}))?;
        loop {
            let mut arrived = self.next(&format!("the response to {method}"))?;
            if arrived.message.get("method").is_some() || arrived.message["id"] != id {
                self.keep(arrived);
                continue;
            }
            return match arrived.message.get("error") {
                Some(error) => bail!("{method} was refused: {error}"),
                None => Ok((arrived.message["result"].take(), arrived.at)),
            };
        }
    }

    /// Sends all requests at once; returns their results in the same order.
    pub(crate) fn requests(&mut self, calls: Vec<(&str, Value)>) -> Result<Vec<Value>> {
        let first = self.next_id;
        let mut results = vec![None; calls.len()];
        for (method, params) in calls {
            self.send(&json!({"id": self.next_id, "method": method, "params": params}))?;
            self.next_id += 1;
        }
        while results.contains(&None) {
            let mut arrived = self.next("the responses to concurrent requests")?;
            let place = arrived.message["id"].as_u64().and_then(|id| id.checked_sub(first));
            let place = place.and_then(|place| results.get_mut(usize::try_from(place).ok()?));
            match place.filter(|_| arrived.message.get("method").is_none()) {
                Some(place) => match arrived.message.get("error") {
                    Some(error) => bail!("a request was refused: {error}"),
                    None => *place = Some(arrived.message["result"].take()),
                },
                None => self.keep(arrived),
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Keeps ends of turns, the only notifications that are waited for later.
    fn keep(&mut self, arrived: Arrived) {
        if arrived.message["method"] == "turn/completed" {
            self.waiting.push(arrived);
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("the server's input is closed")?;
        let mut line = message.to_string();
        line.push('\n');
        input.write_all(line.as_bytes()).context("writing to the server")?;
        input.flush().context("writing to the server")
    }

    fn next(&mut self, what: &str) -> Result<Arrived> {
        let arrived = match self.arriving.recv_timeout(PATIENCE) {
            Ok(arrived) => arrived,
            Err(RecvTimeoutError::Timeout) => bail!("waited {PATIENCE:?} for {what}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the server ended before {what}"),
        };
        let message = &arrived.message;
        if let (Some(method), Some(_)) = (message.get("method"), message.get("id")) {
            bail!("the server sent the request {method}, although nothing here needs an approval");
        }
        Ok(arrived)
    }
}

/// The reader thread, which ends with the server's output.
fn read_messages(output: impl Read, sender: &SyncSender<Arrived>, deltas: &AtomicU64) {
    let mut output = BufReader::with_capacity(64 * 1024, output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let at = Instant::now();
        if is_delta(&line) {
            deltas.fetch_add(1, Ordering::Release);
        } else if let Ok(message) = serde_json::from_slice(&line)
            && sender.send(Arrived { message, at }).is_err()
        {
            return;
        }
        line.clear();
    }
}

/// Returns whether a line is a message delta, without parsing it as JSON, because there are 50,000
/// in a row. The quoted method name can only be the value of `method`, because quotes within text
/// are escaped.
fn is_delta(line: &[u8]) -> bool {
    const NAME: &[u8] = b"\"item/agentMessage/delta\"";
    let head = &line[..line.len().min(128)];
    head.windows(NAME.len()).any(|window| window == NAME)
        || line.len() > 128 && line[line.len() - 128..].windows(NAME.len()).any(|w| w == NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = fn(&Value) -> Vec<Value>;

    /// Creates a client whose server responds to each line with the lines that `answer` returns.
    fn client(answer: Answer) -> Client {
        let (requests, to_server) = std::io::pipe().unwrap();
        let (from_server, mut answers) = std::io::pipe().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(requests).lines().map_while(Result::ok) {
                for answer in answer(&serde_json::from_str(&line).unwrap()) {
                    writeln!(answers, "{answer}").unwrap();
                }
            }
        });
        Client::over(from_server, to_server)
    }

    fn well_behaved(request: &Value) -> Vec<Value> {
        let result = match request["method"].as_str() {
            Some("thread/start") => json!({"thread": {"id": "t1"}}),
            Some("turn/start") => json!({"turn": {"id": "u1"}}),
            Some("initialize") => json!({}),
            _ => return vec![],
        };
        let mut lines = vec![json!({"id": request["id"], "result": result})];
        if request["method"] == "turn/start" {
            let delta = json!({"method": "item/agentMessage/delta", "params": {"delta": "x"}});
            lines.extend([delta.clone(), delta]);
            // The end of the turn may arrive before the response, because they are not ordered.
            let turn = json!({"id": "u1", "status": "completed"});
            lines.insert(0, json!({"method": "turn/completed", "params": {"turn": turn}}));
        }
        lines
    }

    #[test]
    fn a_turn_is_driven_to_its_end() {
        let mut client = client(well_behaved);
        client.initialize().unwrap();
        let (thread, _) = client.start_thread(Path::new("/w")).unwrap();
        client.turn(&thread).unwrap();
        client.start_turn(&thread).unwrap();
        assert!(client.deltas() >= 2);
    }

    #[test]
    fn failures_are_reported() {
        let answers: [(Answer, &str); 3] = [
            (
                |r| vec![json!({"id": r["id"], "error": {"code": -1, "message": "no"}})],
                "initialize was refused",
            ),
            (
                |_| vec![json!({"id": 0, "method": "item/x", "params": {}})],
                "the server sent the request \"item/x\"",
            ),
            (|_| panic!("ends the server"), "the server ended before the response to initialize"),
        ];
        for (answer, expected) in answers {
            let message = client(answer).initialize().unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn deltas_are_recognised_by_their_method() {
        let long = "y".repeat(500);
        for (line, expected) in [
            (json!({"method": "item/agentMessage/delta", "params": {"delta": long}}).to_string(), true),
            (format!("{{\"params\":{{\"delta\":\"{long}\"}},\"method\":\"item/agentMessage/delta\"}}"), true),
            (json!({"method": "item/completed", "params": {"text": "\"item/agentMessage/delta\""}}).to_string(), false),
            (json!({"method": "item/agentMessage/deltas"}).to_string(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_delta(line.as_bytes()), expected, "{line}");
        }
    }
}
