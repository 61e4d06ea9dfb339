//! A stored thread of 10,000 turns: resumed, continued, forked. `cargo xtask fill` creates it, so
//! only the program of this checkout is measured.

use anyhow::Result;
use serde_json::json;

use super::model_server::Script;
use super::process;
use super::report::{Figure, median, megabytes, milliseconds};
use super::scenario::Scenario;
use super::target::Run;
use crate::fill::{self, Fill};

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "long-thread", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const TURNS: u64 = 10_000;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let kept = tempfile::tempdir()?;
    let home = kept.path().join("home");
    std::fs::create_dir(&home)?;
    let ids = fill::write(&home, kept.path(), Fill::Turns(TURNS))?;
    let thread = json!({ "threadId": ids.last() });
    let (mut resumed, mut grown, mut first, mut second, mut forked) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..run.repeats.max(5) {
        let (mut server, _) = run.start_on(&home)?;
        let (warm, _) = server.start_thread()?;
        server.client.turn(&warm)?;
        let before = process::resident(server.pid())?;
        let begun = std::time::Instant::now();
        let (_, answered) = server.client.request("thread/resume", thread.clone())?;
        resumed.push(milliseconds(answered.duration_since(begun)));
        grown.push(megabytes(process::resident(server.pid())?.saturating_sub(before)));
        let begun = std::time::Instant::now();
        let (_, answered) = server.client.request("thread/fork", thread.clone())?;
        forked.push(milliseconds(answered.duration_since(begun)));
        let id = ids.last().map_or("", String::as_str);
        first.push(milliseconds(server.client.turn(id)?));
        second.push(milliseconds(server.client.turn(id)?));
        let back = json!({ "threadId": ids.last(), "numTurns": 2 });
        let (_, _) = server.client.request("thread/rollback", back)?;
        server.finish()?;
    }
    let row = |what, values, unit, goal| Figure { what, value: median(values), unit, goal };
    Ok(vec![
        row("`thread/resume`, 10,000 turns", resumed, "ms", Some(10.0)),
        row("the same, memory", grown, "MB", Some(5.0)),
        row("`thread/fork`, 10,000 turns", forked, "ms", Some(5.0)),
        row("next turn of the fork: reads and sends its history (4.5 MB)", first, "ms", None),
        row("the turn after that: sends the history again", second, "ms", None),
    ])
}
