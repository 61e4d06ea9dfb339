//! Small requests from many WebSocket clients: how long each takes at 10,000 per second, and how
//! many the server can handle.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;

use super::load::{self, Load};
use super::model_server::Script;
use super::process;
use super::report::Figure;
use super::scenario::Scenario;
use super::target::Run;

pub(crate) const SCENARIO: Scenario =
    Scenario { name: "requests", script: Script::Deltas { count: 1, delay_ms: 0 }, measure };

const CLIENTS: usize = 50;
const RATE: f64 = 10_000.0;
/// Half of this is the generator's share of each measured time.
const TICK: Duration = Duration::from_micros(100);
/// Requests that each client keeps in flight while the server's limit is measured.
const DEPTH: usize = 8;

fn measure(run: &Run<'_>) -> Result<Vec<Figure>> {
    if !run.target.is_own() {
        return Ok(Vec::new());
    }
    let (mut server, address) = run.start_listening(None)?;
    let sockets = load::connect(CLIENTS, address, &[])?;
    let mut load = Load::over(sockets, |_, id, text: &mut Vec<u8>| {
        // Writing to memory cannot fail.
        let _ = write!(text, r#"{{"id":{id},"method":"thread/loaded/list","params":{{}}}}"#);
    });
    load.closed(1, Duration::from_millis(500))?;
    let before = process::cpu(server.pid())?;
    let mut open = load.open(RATE, TICK, run.time)?;
    let used = process::cpu(server.pid())?.saturating_sub(before);
    let (answered, refused) = (open.accepted.count(), open.refused.count());
    let before = process::cpu(server.pid())?;
    let closed = load.closed(DEPTH, run.time / 4)?;
    let most = closed.accepted.count() as f64 / closed.took.as_secs_f64();
    let at_most = process::cpu(server.pid())?.saturating_sub(before);
    drop(load);
    server.finish()?;
    let row = |what, value, unit, goal| Figure { what, value, unit, goal };
    let share = used.as_secs_f64() * 100.0 / open.took.as_secs_f64();
    let each = at_most.as_secs_f64() * 1e6 / closed.accepted.count() as f64;
    Ok(vec![
        row(
            "10,000 small requests per second over 50 WebSockets: median",
            open.accepted.quantile(0.5),
            "ms",
            None,
        ),
        row("the same, 99th percentile", open.accepted.quantile(0.99), "ms", Some(5.0)),
        row("the same, maximum", open.accepted.quantile(1.0), "ms", None),
        row("refused or skipped", (refused as u64 + open.left_out) as f64, "", Some(0.0)),
        row("delay of the load generator, 99th percentile", open.lag.quantile(0.99), "ms", None),
        row("responses per second", answered as f64 / open.took.as_secs_f64(), "", None),
        row("server CPU, as a share of one core", share, "%", None),
        row("maximum requests per second, 8 in flight per client", most, "", None),
        row("server CPU per request", each, "µs", None),
    ])
}
