//! Ten times the durable requests that the server can handle, from many WebSocket clients that do
//! not wait for each other: refusals are immediate, accepted requests are stored, memory is stable,
//! and other clients are still served.

use std::collections::VecDeque;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::load::{self, Load, Outcome, Times};
use super::model_server::Script;
use super::process;
use super::report::{Figure, megabytes};
use super::scenario::Scenario;
use super::socket::Socket;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "overload", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const CLIENTS: usize = 64;
/// Threads that each client renames in rotation.
const THREADS: usize = 4;
/// Requests that each client keeps in flight while the server's limit is measured: as many as are
/// not refused.
const DEPTH: usize = 16;
const TIMES_TOO_MUCH: f64 = 10.0;
const TICK: Duration = Duration::from_millis(1);
/// Interval between requests of the client outside the load.
const OTHER_EVERY: Duration = Duration::from_millis(20);
/// Suppressed, because notifications about threads go to all clients and would outnumber the
/// responses.
const NOT: &[&str] = &["thread/started", "thread/name/updated", "thread/status/changed"];

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let kept = tempfile::tempdir()?;
    let home = kept.path().join("home");
    std::fs::create_dir(&home)?;
    let (mut server, address) = run.start_listening(Some(&home))?;
    let pid = server.pid();
    let mut sockets = load::connect(CLIENTS, address, NOT)?;
    let threads = start_threads(&mut sockets, &server.work())?;
    let names = threads.clone();
    let mut load = Load::over(sockets, move |client, id, text: &mut Vec<u8>| {
        let thread = &names[client][id as usize % THREADS];
        // Writing to memory cannot fail.
        let _ = write!(
            text,
            r#"{{"id":{id},"method":"thread/name/set","params":{{"threadId":"{thread}","name":"{id}"}}}}"#
        );
    });
    load.closed(DEPTH, Duration::from_secs(1))?;
    let closed = load.closed(DEPTH, (run.time / 4).min(Duration::from_secs(5)))?;
    let capacity = closed.accepted.count() as f64 / closed.took.as_secs_f64();
    let other = OtherClient::start(address);
    let memory = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (seen, began) = (memory.clone(), Instant::now());
    load.watch = Some(Box::new(move || {
        let now = (began.elapsed(), process::private(pid)?);
        seen.lock().map_err(|_| anyhow::anyhow!("poisoned"))?.push(now);
        Ok(())
    }));
    let before = process::cpu(pid)?;
    let outcome = load.open(capacity * TIMES_TOO_MUCH, TICK, run.time)?;
    let used = process::cpu(pid)?.saturating_sub(before);
    let other = other.stop()?;
    let accepted = load.accepted();
    server.finish()?;
    let lost = lost(run, &home, &threads, &accepted)?;
    let memory = memory.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
    let grown = grown(&memory, run.time / 6);
    let cpu = used.as_secs_f64() * 100.0 / outcome.took.as_secs_f64();
    Ok(figures(outcome, other, capacity, lost, grown, cpu))
}

fn figures(
    mut load: Outcome,
    mut other: OtherClientResult,
    capacity: f64,
    lost: usize,
    grown: f64,
    cpu: f64,
) -> Vec<Figure> {
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let took = load.took.as_secs_f64();
    let made = load.lag.count();
    let offered = (made as u64 + load.left_out) as f64;
    vec![
        row(
            "`thread/name/set` from 64 WebSockets, 16 in flight each: per second",
            capacity,
            "",
            None,
        ),
        row("ten times that load: offered per second", offered / took, "", None),
        row("sent over the connections per second", made as f64 / took, "", None),
        row("accepted per second", load.accepted.count() as f64 / took, "", None),
        row("accepted and lost", lost as f64, "", Some(0.0)),
        row("a refusal: median", load.refused.quantile(0.5), "ms", None),
        row("a refusal: 99th percentile", load.refused.quantile(0.99), "ms", None),
        row("a refusal: maximum", load.refused.quantile(1.0), "ms", Some(100.0)),
        row("delay of writes: 99th percentile", load.blocked.quantile(0.99), "ms", None),
        row("delay of writes: maximum", load.blocked.quantile(1.0), "ms", None),
        row("an accepted request: median", load.accepted.quantile(0.5), "ms", None),
        row("an accepted request: maximum", load.accepted.quantile(1.0), "ms", None),
        row("memory growth from the first sixth to the last", grown, "MB", Some(1.0)),
        row("server CPU, as a share of one core", cpu, "%", None),
        row(
            "small request of another client during the load: median",
            other.times.quantile(0.5),
            "ms",
            None,
        ),
        row("the same, 99th percentile", other.times.quantile(0.99), "ms", None),
        row("the same, refused", other.refused * 100.0, "%", None),
        row("delay of the load generator, 99th percentile", load.lag.quantile(0.99), "ms", None),
        row("delay of the load generator, maximum", load.lag.quantile(1.0), "ms", None),
    ]
}

/// Starts the threads of each client.
fn start_threads(sockets: &mut [Socket], work: &Path) -> Result<Vec<Vec<String>>> {
    let start = |socket: &mut Socket| {
        let started = socket.call("thread/start", &json!({"cwd": work}))?;
        let id = started["thread"]["id"]
            .as_str()
            .context("the response to thread/start has no thread.id")?;
        Ok(id.to_owned())
    };
    sockets
        .iter_mut()
        .map(|socket| (0..THREADS).map(|_| start(socket)).collect::<Result<Vec<_>>>())
        .collect()
}

/// Returns how many threads lack the last accepted name, as another process reads them.
fn lost(
    run: &Run<'_>,
    home: &Path,
    threads: &[Vec<String>],
    accepted: &[VecDeque<u64>],
) -> Result<usize> {
    let (mut server, _) = run.start_on(home)?;
    let mut lost = 0;
    for (threads, accepted) in threads.iter().zip(accepted) {
        for (at, thread) in threads.iter().enumerate() {
            let last = accepted.iter().filter(|id| **id as usize % THREADS == at).max();
            let last = last.context("no request of a client was accepted")?;
            let params = json!({"threadId": thread});
            let (read, _) = server.client.request("thread/read", params)?;
            let name = read["thread"]["name"].as_str().and_then(|name| name.parse().ok());
            lost += usize::from(name != Some(*last));
        }
    }
    server.finish()?;
    Ok(lost)
}

/// Returns by how much the mean of the last `part` exceeds that of the first, in MB.
fn grown(memory: &[(Duration, u64)], part: Duration) -> f64 {
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let end = memory.last().map_or(Duration::ZERO, |(at, _)| *at);
    let of = |wanted: &dyn Fn(Duration) -> bool| {
        mean(memory.iter().filter(|(at, _)| wanted(*at)).map(|(_, b)| megabytes(*b)).collect())
    };
    of(&|at| at + part >= end) - of(&|at| at <= part)
}

/// A client outside the load that sends a small request at intervals.
struct OtherClient {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<OtherClientResult>>,
}

struct OtherClientResult {
    times: Times,
    /// Share of its requests that were refused.
    refused: f64,
}

impl OtherClient {
    fn start(address: SocketAddr) -> OtherClient {
        let ends = Arc::new(AtomicBool::new(false));
        let until = ends.clone();
        let thread = std::thread::spawn(move || {
            let socket = Socket::connect(address, NOT)?;
            let mut load = Load::over(vec![socket], |_, id, text: &mut Vec<u8>| {
                // Writing to memory cannot fail.
                let _ =
                    write!(text, r#"{{"id":{id},"method":"thread/loaded/list","params":{{}}}}"#);
            });
            let (mut times, mut refused, mut asked) = (Times::default(), 0, 0);
            while !until.load(Ordering::Relaxed) {
                let one = load.once()?;
                asked += 1;
                refused += one.refused.count();
                times.append(one.accepted);
                std::thread::sleep(OTHER_EVERY);
            }
            ensure!(asked > 0, "the other client sent no request");
            Ok(OtherClientResult { times, refused: refused as f64 / asked as f64 })
        });
        OtherClient { ends, thread }
    }

    fn stop(self) -> Result<OtherClientResult> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the other client panicked"))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_compares_the_end_with_the_beginning() {
        let memory: Vec<(Duration, u64)> =
            (0..60).map(|at| (Duration::from_secs(at), 1_000_000 * (100 + at / 20))).collect();
        assert!((grown(&memory, Duration::from_secs(10)) - 2.0).abs() < 1e-9);
    }
}
