//! Disk usage of 300 threads of one turn, and of one thread of 300 turns.

use anyhow::Result;

use super::model_server::Script;
use super::report::{Figure, megabytes};
use super::scenario::Scenario;
use super::target::Run;
use super::target::disk_bytes;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "disk", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const COUNT: usize = 300;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    let (mut server, _) = run.start_initialized()?;
    for _ in 0..COUNT {
        let (thread, _) = server.start_thread()?;
        server.client.turn(&thread)?;
    }
    let (long, _) = server.start_thread()?;
    for _ in 0..COUNT {
        server.client.turn(&long)?;
    }
    server.finish()?;
    Ok(vec![Figure {
        what: "disk for 300 one-turn threads and one of 300 turns",
        value: megabytes(disk_bytes(&server.home())?),
        unit: "MB",
        goal: Some(3.0),
    }])
}
