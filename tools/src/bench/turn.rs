//! The cost of a turn, with a model that sends one delta at once: the first turn of a thread, and
//! the 200th.

use anyhow::Result;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, milliseconds};
use super::scenario::Scenario;
use super::target::Run;
use super::target::Server;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "turn", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const LATE: usize = 200;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut server, _) = run.start_initialized()?;
    let (warm, _) = server.start_thread()?;
    server.client.turn(&warm)?;

    let mut threads = Vec::new();
    for _ in 0..run.repeats {
        threads.push(server.start_thread()?.0);
    }
    let (first_wall, first_cpu) = turns(&mut server, &threads)?;

    // The measured turns are centered on the 200th.
    let before = LATE.saturating_sub(run.repeats / 2).saturating_sub(1);
    for _ in 1..before {
        server.client.turn(&warm)?;
    }
    let (late_wall, late_cpu) = turns(&mut server, &vec![warm; run.repeats])?;
    server.finish()?;

    let row = |what, value| Figure { what, value, unit: "ms", goal: Some(2.0) };
    Ok(vec![
        row("overhead of a turn, first turn", first_wall),
        row("the same, server CPU", first_cpu),
        row("overhead of a turn, 200th turn", late_wall),
        row("the same on the 200th turn, server CPU", late_cpu),
    ])
}

/// Runs one turn in each thread; returns the median time and the mean CPU time, in milliseconds.
fn turns(server: &mut Server, threads: &[String]) -> Result<(f64, f64)> {
    let before = process::cpu(server.pid())?;
    let mut times = Vec::new();
    for thread in threads {
        times.push(milliseconds(server.client.turn(thread)?));
    }
    let used = process::cpu(server.pid())?.saturating_sub(before);
    Ok((median(times), milliseconds(used) / threads.len() as f64))
}
