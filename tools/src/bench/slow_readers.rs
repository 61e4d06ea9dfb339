//! Part of `stalled-client`: a client that reads 200 MB of responses and streams at a megabyte per
//! second and must receive every byte; and ten clients that request much and read nothing, which
//! must cost little memory and hardly affect others.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::process;
use super::report::{Figure, median};
use super::socket::{ReadBuffer, Socket, wait};
use super::stalled_client::{idle, narrow, one_turn};

/// Bytes per second.
const RATE: f64 = 1e6;
/// Bytes that the slow reader receives as responses; the streams add about as many.
const ANSWERS: usize = 100_000_000;
/// Bytes of output, which the wire carries as base64.
const STREAMED: usize = 75_000_000;
/// Requests in flight before the first response is read.
const AHEAD: usize = 16;
/// A line of the streamed output.
const PATTERN: &[u8] = b"0123456789abcdef\n";
/// Longest wait for the next byte.
const PATIENCE: Duration = Duration::from_secs(60);

const STUCK: usize = 10;
/// Requests of each client that reads nothing.
const UNREAD: usize = 50;
/// Pairs of turns with and without these clients, which are dropped after 30 s.
const PAIRS: usize = 4;

/// Measures both kinds concurrently. The thread `quiet` stays unchanged, and the slow client reads
/// it repeatedly. The others have turns on `without`, and on `with`, to which the clients that read
/// nothing are subscribed.
pub(crate) fn measure(
    healthy: &mut [Socket],
    address: SocketAddr,
    pid: u32,
    [quiet, without, with]: [&str; 3],
) -> Result<Vec<Figure>> {
    let first = healthy.first_mut().context("a client")?;
    let reference = reference(first, quiet)?;
    let length = reference.len();
    let slow = read_slowly(address, quiet, reference);
    let cost = stop_reading(healthy, address, pid, (without, with))?;
    while !slow.is_finished() {
        idle(healthy)?;
    }
    let slow = slow.join().map_err(|_| anyhow::anyhow!("the slow reader panicked"))??;
    eprintln!("stalled-client: {slow:?}, in answers of {length} bytes");
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let read = slow.bytes as f64 / 1e6;
    Ok(vec![
        row(
            "a client that reads 200 MB of responses and streams at 1 MB/s: missing bytes",
            slow.missing as f64,
            "",
            Some(0.0),
        ),
        row("the same: amount read", read, "MB", None),
        row("the same: rate", read / slow.seconds, "MB/s", None),
        row(
            "ten clients that leave large responses unread: memory",
            cost.memory as f64 / 1e6,
            "MB",
            Some(150.0),
        ),
        row(
            "the same: time of the other clients, relative to without them",
            median(cost.ratios),
            "",
            Some(1.1),
        ),
    ])
}

/// Observations of the slow reader.
#[derive(Debug, Default, PartialEq)]
struct Received {
    /// Bytes of responses and of output that are wrong or missing.
    missing: usize,
    bytes: usize,
    seconds: f64,
}

/// Starts to read in a separate thread.
fn read_slowly(
    address: SocketAddr,
    thread: &str,
    reference: Vec<u8>,
) -> JoinHandle<Result<Received>> {
    let thread = thread.to_owned();
    std::thread::spawn(move || {
        let socket = narrow(address)?;
        Reader { socket, checked: Checked::new(reference, STREAMED) }.run(&thread)
    })
}

/// Returns the `result` of every `thread/read` of this thread while it is unchanged.
fn reference(socket: &mut Socket, thread: &str) -> Result<Vec<u8>> {
    let id = socket.take_id();
    socket.queue(read_request(id, thread).as_bytes());
    let (mut buffer, mut found) = (ReadBuffer::default(), None);
    let began = Instant::now();
    while found.is_none() {
        ensure!(began.elapsed() < PATIENCE, "no response to thread/read");
        socket.flush()?;
        wait(std::iter::once(&*socket), Duration::from_millis(100))?;
        socket.receive(&mut buffer, |text| {
            found = found.take().or_else(|| result_of(text).map(<[u8]>::to_vec));
        })?;
    }
    found.context("an answer")
}

fn read_request(id: u64, thread: &str) -> String {
    json!({"id": id, "method": "thread/read",
        "params": {"threadId": thread, "includeTurns": true}})
    .to_string()
}

/// Returns the result in a response to `thread/read`.
fn result_of(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(br#"{"id":"#)?;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let result = text[digits..].strip_prefix(br#","result":"#)?.strip_suffix(b"}")?;
    result.starts_with(br#"{"thread":"#).then_some(result)
}

/// Compares received with expected bytes.
struct Checked {
    reference: Vec<u8>,
    wanted: usize,
    answers: usize,
    streamed: usize,
    has_exited: bool,
    wrong: usize,
    bytes: usize,
}

impl Checked {
    fn new(reference: Vec<u8>, wanted: usize) -> Self {
        Self { reference, wanted, answers: 0, streamed: 0, has_exited: false, wrong: 0, bytes: 0 }
    }

    fn see(&mut self, text: &[u8]) {
        self.bytes += text.len();
        if let Some(result) = result_of(text) {
            self.answers += 1;
            if result != self.reference {
                self.wrong += self.reference.len();
            }
        } else if text.starts_with(br#"{"method":"command/exec/outputDelta""#) {
            self.see_output(text);
        } else if is_exit(text) {
            self.has_exited = true;
        }
    }

    fn see_output(&mut self, text: &[u8]) {
        let message: Value = serde_json::from_slice(text).unwrap_or_default();
        let piece = message["params"]["deltaBase64"].as_str().unwrap_or_default();
        for byte in STANDARD.decode(piece).unwrap_or_default() {
            self.wrong += usize::from(byte != PATTERN[self.streamed % PATTERN.len()]);
            self.streamed += 1;
        }
    }

    fn missing(&self, asked: usize) -> usize {
        let answers = asked.saturating_sub(self.answers) * self.reference.len();
        self.wrong + answers + self.wanted.saturating_sub(self.streamed)
    }
}

/// Returns whether this is the response to the command.
fn is_exit(text: &[u8]) -> bool {
    const MEMBER: &[u8] = br#""exitCode":"#;
    text.len() < 1000 && text.windows(MEMBER.len()).any(|window| window == MEMBER)
}

struct Reader {
    socket: Socket,
    checked: Checked,
}

impl Reader {
    fn run(mut self, thread: &str) -> Result<Received> {
        let began = Instant::now();
        let asks = ANSWERS.div_ceil(self.checked.reference.len());
        let script = format!("yes 0123456789abcdef | head -c {STREAMED}");
        let run = json!({"id": self.socket.take_id(), "method": "command/exec", "params": {
            "command": ["sh", "-c", script], "processId": "stream", "streamStdoutStderr": true,
            "disableOutputCap": true, "disableTimeout": true,
            "sandboxPolicy": {"type": "dangerFullAccess"}}});
        self.socket.queue(run.to_string().as_bytes());
        let (mut buffer, mut asked, mut last) = (ReadBuffer::default(), 0, Instant::now());
        while self.checked.answers < asks || !self.checked.has_exited {
            ensure!(last.elapsed() < PATIENCE, "a slow reader receives nothing more");
            while asked < asks && asked < self.checked.answers + AHEAD {
                let id = self.socket.take_id();
                self.socket.queue(read_request(id, thread).as_bytes());
                asked += 1;
            }
            self.socket.flush()?;
            wait(std::iter::once(&self.socket), Duration::from_millis(100))?;
            let checked = &mut self.checked;
            if self.socket.receive(&mut buffer, |text| checked.see(text))? {
                last = Instant::now();
            }
            if let Some(ended) = self.socket.ended() {
                anyhow::bail!("a client that reads slowly was disconnected: {ended:?}");
            }
            let due = Duration::from_secs_f64(self.socket.received_bytes() as f64 / RATE);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
        }
        Ok(Received {
            missing: self.checked.missing(asks),
            bytes: self.checked.bytes,
            seconds: began.elapsed().as_secs_f64(),
        })
    }
}

/// Cost of the ten clients that read nothing.
struct Cost {
    /// Peak of resident memory above the value before they connected, in bytes.
    memory: u64,
    /// Arrival time of a delta at the others, with these clients relative to without, for each pair
    /// of turns.
    ratios: Vec<f64>,
}

/// Ten clients subscribe to `with`, request much and read nothing, while the others have turns on
/// both threads alternately.
fn stop_reading(
    healthy: &mut [Socket],
    address: SocketAddr,
    pid: u32,
    (without, with): (&str, &str),
) -> Result<Cost> {
    let before = process::resident(pid)?;
    let mut stuck = Vec::new();
    for _ in 0..STUCK {
        let mut client = narrow(address)?;
        client.call("thread/resume", &json!({"threadId": with}))?;
        for _ in 0..UNREAD {
            let id = client.take_id();
            client.queue(read_request(id, with).as_bytes());
        }
        client.flush()?;
        stuck.push(client);
    }
    let (mut memory, mut ratios) = (0, Vec::new());
    for _ in 0..PAIRS {
        let mut watch = |_: usize| {
            memory = memory.max(process::resident(pid)?.saturating_sub(before));
            Ok(())
        };
        let (alone, _) = one_turn(healthy, without, &mut watch)?;
        let (beside, _) = one_turn(healthy, with, &mut watch)?;
        ratios.push(beside / alone);
    }
    Ok(Cost { memory, ratios })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_wrong_messages_are_counted() {
        let mut checked = Checked::new(br#"{"thread":{}}"#.to_vec(), 20);
        checked.see(br#"{"id":17,"result":{"thread":{}}}"#);
        assert_eq!(checked.missing(1), 20);
        let output = |text: &[u8]| {
            let piece = STANDARD.encode(text);
            format!(
                r#"{{"method":"command/exec/outputDelta","params":{{"deltaBase64":"{piece}"}}}}"#
            )
        };
        checked.see(output(b"0123456789abc").as_bytes());
        checked.see(output(b"def\n012").as_bytes());
        assert_eq!(checked.missing(1), 0);
        assert!(!checked.has_exited);
        checked.see(br#"{"id":1,"result":{"exitCode":0,"stdout":"","stderr":""}}"#);
        assert!(checked.has_exited);
        assert_eq!(checked.missing(2), 13, "an answer that did not come");
        checked.see(br#"{"id":18,"result":{"thread":{"x":1}}}"#);
        assert_eq!(checked.missing(2), 13, "an answer that is wrong");
        checked.see(output(b"x").as_bytes());
        assert_eq!(checked.missing(2), 14);
    }
}
