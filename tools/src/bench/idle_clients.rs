//! A thousand WebSocket clients that have initialized and are idle: what each costs the server, and
//! what remains after they leave.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::load;
use super::model_server::Script;
use super::process;
use super::report::{Figure, megabytes};
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "idle-clients", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const CLIENTS: usize = 1000;
/// Clients before the measurement, so that one-time initialization is not counted.
const WARM: usize = 20;
/// Most time until the server has released clients that left.
const PATIENCE: Duration = Duration::from_secs(10);

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let (mut server, address) = run.start_listening(None)?;
    let pid = server.pid();
    drop(load::connect(WARM, address, &[])?);
    let before = settled(pid)?;
    let files = || process::held(pid).1;
    let without = files();
    let gone = || {
        let began = Instant::now();
        while files() > without && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        files()
    };
    let clients = load::connect(CLIENTS, address, &[])?;
    let with = settled(pid)?;
    let held = files();
    drop(clients);
    let left_files = gone();
    let left = settled(pid)?;
    // Memory kept for reuse is not a leak.
    drop(load::connect(CLIENTS, address, &[])?);
    gone();
    let again = settled(pid)?;
    server.finish()?;
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let grown = |from: u64, to: u64| megabytes(to) - megabytes(from);
    let each = grown(before, with) * 1e3 / CLIENTS as f64;
    let files = |count: usize| count as f64 - without as f64;
    Ok(vec![
        row("1,000 idle WebSocket clients: memory per client", each, "KB", Some(20.0)),
        row("descriptors per client", files(held) / CLIENTS as f64, "", Some(1.0)),
        row("descriptors left afterwards", files(left_files), "", Some(0.0)),
        row("memory kept for later clients", grown(before, left), "MB", None),
        row("additional memory for the next 1,000 clients", grown(left, again), "MB", Some(0.5)),
    ])
}

/// Returns the memory once both it and the number of descriptors are stable.
fn settled(pid: u32) -> Result<u64> {
    let look = || -> Result<(u64, usize)> { Ok((process::private(pid)?, process::held(pid).1)) };
    let mut last: (u64, usize) = (0, 0);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(500));
        let now = look()?;
        if now == last {
            break;
        }
        last = now;
    }
    Ok(last.0)
}
