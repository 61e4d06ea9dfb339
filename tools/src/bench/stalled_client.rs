//! A busy thread with a hundred subscribed WebSocket clients, one of which stops reading: how it
//! affects the others, and what happens to it. Then `slow_readers`.
//!
//! Turns with and without it alternate, on two threads to which the same 99 are subscribed, so that
//! other activity on the machine affects both equally.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::net::{AddressFamily, SocketType, sockopt};
use serde_json::json;

use super::load::Times;
use super::model_server::Script;
use super::report::{Figure, median};
use super::socket::{ReadBuffer, Socket, wait};
use super::target::Server;
use super::{Run, Scenario, load, process, slow_readers};

const HEALTHY: usize = 99;
const MESSAGES: usize = 16;
const DELTAS: usize = 16;
/// Bytes of text in a delta. A message is sent twice: in deltas, and whole when it is complete.
const BYTES: usize = 4096;

/// Turns of 2.6 s, with 2.2 MB to each client.
pub(crate) const SCENARIO: Scenario = Scenario {
    name: "stalled-client",
    script: Script::Messages { messages: MESSAGES, deltas: DELTAS, bytes: BYTES, delay_ms: 10 },
    measure,
};

/// Most pairs of turns: they end when the client that does not read is cut off, 30 s after the
/// server could last send to it.
const PAIRS: usize = 12;
/// Receive buffer of the client that stops reading, so that unread bytes wait in the server.
const SMALL: usize = 16 << 10;
/// Interval of the checks whether it is still connected.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for the end of a turn, and for the server to drop a client.
const PATIENCE: Duration = Duration::from_secs(60);

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let (mut server, address) = run.start_listening(None)?;
    let mut healthy = load::connect(HEALTHY, address, &[])?;
    let without = start_thread(&mut healthy, &server.work())?;
    let with = start_thread(&mut healthy, &server.work())?;
    let third = start_thread(&mut healthy, &server.work())?;
    one_turn(&mut healthy, &without, &mut |_| Ok(()))?;
    let mut stalled = narrow(address)?;
    stalled.call("thread/resume", &json!({"threadId": with}))?;
    let (mut calm, mut troubled) = (Seen::default(), Seen::default());
    let probe = ConnectionProbe::start(&mut stalled, server.pid())?;
    let (mut cut_off, began) = (None, Instant::now());
    for _ in 0..PAIRS {
        // Both are watched in the same way, because watching has a cost too.
        let alone = one_turn(&mut healthy, &without, &mut |_| {
            probe.is_gone();
            Ok(())
        })?;
        let beside = one_turn(&mut healthy, &with, &mut |_| {
            if probe.is_gone() && cut_off.is_none() {
                cut_off = Some(began.elapsed().as_secs_f64());
            }
            Ok(())
        })?;
        if cut_off.is_some() {
            break;
        }
        calm.add(alone);
        troubled.add(beside);
    }
    let read = what_came(&mut stalled)?;
    let caught_up = pause(&mut healthy, address, &third)?;
    let gave_up = stop_reading(&mut healthy, &server, address, &with)?;
    let threads = [without.as_str(), third.as_str(), with.as_str()];
    let slow = slow_readers::measure(&mut healthy, address, server.pid(), threads)?;
    drop(healthy);
    server.finish()?;
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let ratios = troubled.latest.iter().zip(&calm.latest).map(|(with, without)| with / without);
    let ratio = median(ratios.collect());
    let cut_off = cut_off.unwrap_or(f64::NAN);
    let mut figures = vec![
        row(
            "a delta to 99 clients: delay after the first client, 99th percentile",
            median(calm.latest),
            "ms",
            None,
        ),
        row("the same with one client that does not read", median(troubled.latest), "ms", None),
        row("ratio of the second to the first, turn by turn", ratio, "", Some(1.1)),
        row("longest pause between deltas", longest(&calm.pauses), "ms", None),
        row("the same with one client that does not read", longest(&troubled.pauses), "ms", None),
        row("time until that client is disconnected", cut_off, "s", Some(45.0)),
        row("bytes that had left the server for that client", read as f64 / 1e6, "MB", None),
        row("after a pause within the client's budget: missing deltas", caught_up, "", Some(0.0)),
        row(
            "a client that stops reading its responses is disconnected after",
            gave_up,
            "s",
            Some(31.0),
        ),
    ];
    figures.extend(slow);
    Ok(figures)
}

/// Starts a thread to which all of them are subscribed.
fn start_thread(sockets: &mut [Socket], work: &Path) -> Result<String> {
    let (first, others) = sockets.split_first_mut().context("a client")?;
    let started = first.call("thread/start", &json!({"cwd": work}))?;
    let thread = started["thread"]["id"]
        .as_str()
        .context("the response to thread/start has no thread.id")?;
    for other in others {
        other.call("thread/resume", &json!({"threadId": thread}))?;
    }
    Ok(thread.to_owned())
}

/// Creates a client with a small receive buffer.
pub(crate) fn narrow(address: SocketAddr) -> Result<Socket> {
    let stream = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&stream, SMALL)?;
    rustix::net::connect(&stream, &address)?;
    Socket::over(stream.into(), &[])
}

/// Observations of the clients, one value for each turn.
#[derive(Default)]
struct Seen {
    /// 99th percentile of the delay of a delta relative to the first client, in ms.
    latest: Vec<f64>,
    /// Longest time between two deltas, in ms.
    pauses: Vec<f64>,
}

impl Seen {
    fn add(&mut self, (latest, pause): (f64, f64)) {
        self.latest.push(latest);
        self.pauses.push(pause);
    }
}

fn longest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// Runs one turn, read by all to its end; calls `watch` at intervals.
pub(crate) fn one_turn(
    sockets: &mut [Socket],
    thread: &str,
    watch: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<(f64, f64)> {
    let mut progress = vec![Progress::default(); sockets.len()];
    let mut first_at: Vec<Instant> = Vec::new();
    let (mut later, mut buffer, began) = (Times::default(), ReadBuffer::default(), Instant::now());
    let mut next_watch = began;
    let first = sockets.first_mut().context("a client")?;
    let input = json!([{"type": "text", "text": "go on"}]);
    first.call("turn/start", &json!({"threadId": thread, "input": input}))?;
    while progress.iter().any(|client| !client.is_done) {
        ensure!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for the end of a turn");
        wait(sockets.iter(), Duration::from_millis(100))?;
        for (socket, progress) in sockets.iter_mut().zip(&mut progress) {
            let mut now = None;
            socket.receive(&mut buffer, |text| {
                let before = progress.deltas;
                progress.see(text);
                let now = *now.get_or_insert_with(Instant::now);
                for at in before..progress.deltas {
                    match first_at.get(at) {
                        Some(first) => later.push(now.saturating_duration_since(*first)),
                        None => first_at.push(now),
                    }
                }
            })?;
            if let Some(ended) = socket.ended() {
                anyhow::bail!("a client that reads was disconnected: {ended:?}");
            }
        }
        if Instant::now() >= next_watch {
            watch(first_at.len())?;
            next_watch = Instant::now() + WATCH_EVERY;
        }
    }
    let mut pauses = Times::default();
    for pair in first_at.windows(2) {
        pauses.push(pair[1].saturating_duration_since(pair[0]));
    }
    Ok((later.quantile(0.99), pauses.quantile(1.0)))
}

/// Progress of a client in a turn.
#[derive(Clone, Default)]
struct Progress {
    deltas: usize,
    is_done: bool,
}

impl Progress {
    fn see(&mut self, text: &[u8]) {
        if text.starts_with(br#"{"method":"item/agentMessage/delta""#) {
            // A merged message counts as its deltas: its frame adds less than one text.
            self.deltas += text.len() / BYTES;
        }
        self.is_done |= text.starts_with(br#"{"method":"turn/completed""#);
    }
}

/// Reads the rest of a connection that was cut off; returns the number of bytes.
fn what_came(socket: &mut Socket) -> Result<usize> {
    let mut bytes = 0;
    load::read_to_end(socket, Duration::from_secs(10), |text| bytes += text.len())?;
    socket.ended().context("a client that never read was not disconnected")?;
    Ok(bytes)
}

/// A client that reads nothing for two turns, and then everything; returns how many deltas it
/// misses.
fn pause(sockets: &mut [Socket], address: SocketAddr, thread: &str) -> Result<f64> {
    let mut late = narrow(address)?;
    late.call("thread/resume", &json!({"threadId": thread}))?;
    for _ in 0..2 {
        one_turn(sockets, thread, &mut |_| Ok(()))?;
    }
    let (mut buffer, mut progress, mut turns) = (ReadBuffer::default(), Progress::default(), 0);
    let began = Instant::now();
    while turns < 2 {
        ensure!(began.elapsed() < PATIENCE, "a client that paused does not receive its messages");
        wait(std::iter::once(&late), Duration::from_millis(100))?;
        late.receive(&mut buffer, |text| {
            progress.is_done = false;
            progress.see(text);
            turns += usize::from(progress.is_done);
        })?;
        if let Some(ended) = late.ended() {
            anyhow::bail!("a client that paused within its budget was disconnected: {ended:?}");
        }
    }
    Ok((2 * MESSAGES * DELTAS) as f64 - progress.deltas as f64)
}

/// A client that requests much, within its budget, and never reads it; returns after how many
/// seconds the server drops it.
fn stop_reading(
    healthy: &mut [Socket],
    server: &Server,
    address: SocketAddr,
    thread: &str,
) -> Result<f64> {
    let mut stalled = narrow(address)?;
    let probe = ConnectionProbe::start(&mut stalled, server.pid())?;
    let ask = json!({"id": stalled.take_id(), "method": "thread/read",
        "params": {"threadId": thread, "includeTurns": true}});
    stalled.queue(ask.to_string().as_bytes());
    stalled.flush()?;
    let began = Instant::now();
    while !probe.is_gone() {
        ensure!(began.elapsed() < PATIENCE, "a client that reads nothing is never disconnected");
        idle(healthy)?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Reads for a moment on idle clients, so that they answer pings.
pub(crate) fn idle(sockets: &mut [Socket]) -> Result<()> {
    wait(sockets.iter(), Duration::from_millis(20))?;
    let mut buffer = ReadBuffer::default();
    for socket in sockets {
        socket.receive(&mut buffer, |_| {})?;
    }
    Ok(())
}

/// A command that a client runs and that ends with its connection: makes the end visible from
/// outside.
struct ConnectionProbe {
    pid: u32,
    /// Number of server processes while it runs.
    processes: usize,
}

impl ConnectionProbe {
    fn start(client: &mut Socket, pid: u32) -> Result<ConnectionProbe> {
        let before = process::held(pid).0;
        let id = client.take_id();
        let params = json!({"command": ["sleep", "1000"], "timeoutMs": 1_000_000,
            "sandboxPolicy": {"type": "dangerFullAccess"}});
        let ask = json!({"id": id, "method": "command/exec", "params": params});
        client.queue(ask.to_string().as_bytes());
        client.flush()?;
        let began = Instant::now();
        loop {
            ensure!(began.elapsed() < PATIENCE, "the client's command does not start");
            std::thread::sleep(Duration::from_millis(200));
            let processes = process::held(pid).0;
            // A process that starts commands may have been created besides the command.
            if processes > before && processes == process::held(pid).0 {
                return Ok(ConnectionProbe { pid, processes });
            }
        }
    }

    fn is_gone(&self) -> bool {
        process::held(self.pid).0 < self.processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_deltas_count_as_many() {
        let mut progress = Progress::default();
        let delta = |texts: usize| {
            let text = "x".repeat(texts * BYTES);
            format!(r#"{{"method":"item/agentMessage/delta","params":{{"delta":"{text}"}}}}"#)
        };
        progress.see(delta(1).as_bytes());
        progress.see(delta(16).as_bytes());
        progress.see(br#"{"method":"item/completed","params":{}}"#);
        assert_eq!((progress.deltas, progress.is_done), (17, false));
        progress.see(br#"{"method":"turn/completed","params":{}}"#);
        assert!(progress.is_done);
    }
}
