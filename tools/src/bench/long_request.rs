//! A request of a thread of 1,000 turns and 2 million characters: the CPU time from the turn's input to the
//! bytes of the request, which contain the whole history. An example of the crate `server` measures it inside
//! one process, because sending the request costs more than building it.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::dist::dist_example;
use super::model_server::Script;
use super::report::Figure;
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "long-request", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

/// The output of the example.
#[derive(Deserialize)]
struct Measured {
    build_ms: f64,
    copy_ms: f64,
}

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let program = dist_example(run.root, "server", "request_cost")?;
    let output = Command::new(&program).output().with_context(|| program.display().to_string())?;
    ensure!(output.status.success(), "{}: {}", program.display(), output.status);
    let measured: Measured = serde_json::from_slice(&output.stdout).context("its figures")?;
    let row = |what, value, goal| Figure { what, value, unit: "ms", goal };
    let beyond = measured.build_ms - measured.copy_ms;
    Ok(vec![
        row(
            "request of turn 1,000, 2 million characters: CPU beyond copying it",
            beyond,
            Some(1.0),
        ),
        row("copying it", measured.copy_ms, None),
    ])
}
