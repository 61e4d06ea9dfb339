//! A hundred concurrently streaming threads: peak memory, CPU time and duration.

use std::time::Instant;

use anyhow::Result;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes};
use super::scenario::Scenario;
use super::target::Run;

const THREADS: usize = 100;

/// The delays keep all hundred streams open together, whatever a server's speed.
pub(crate) const SCENARIO: Scenario =
    Scenario { name: "streams", script: Script::Deltas { count: 100, delay_ms: 10 }, measure };

const RUNS: usize = 3;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut memory, mut cpu, mut wall) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS.min(run.repeats) {
        let (mut server, _) = run.start_initialized()?;
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            threads.push(server.start_thread()?.0);
        }
        let before = process::cpu(server.pid())?;
        let began = Instant::now();
        let mut turns = Vec::new();
        for thread in &threads {
            turns.push(server.client.start_turn(thread)?);
        }
        for turn in &turns {
            server.client.completed(turn)?;
        }
        wall.push(began.elapsed().as_secs_f64());
        cpu.push(process::cpu(server.pid())?.saturating_sub(before).as_secs_f64());
        memory.push(megabytes(process::peak(server.pid())?));
        server.finish()?;
    }
    let row = |what, values, unit, goal| Figure { what, value: median(values), unit, goal };
    Ok(vec![
        row("100 concurrent streaming threads, peak memory", memory, "MB", Some(30.0)),
        row("100 concurrent streaming threads, CPU", cpu, "s", Some(0.3)),
        row("100 concurrent streaming threads (100 deltas, 10 ms apart), time", wall, "s", None),
    ])
}
