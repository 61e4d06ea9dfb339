//! The highest rate at which responses stay quick, and many streams at once: how late their first tokens are, and how
//! much memory they hold.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::{self, Contestant, ContestantName};
use super::load::Load;
use super::report::{Goal, Report, Row};
use super::rounds::{AT_ONCE, TURNS, compare, show};
use super::running::allow_files;
use super::stage::{Bench, Placement, RequestKind, request, run_load, single_load, upstream};
use super::upstream::Pace;
use crate::bench::process;

/// The 99th percentile, in microseconds, up to which responses are quick.
const QUICK: f64 = 1000.0;
/// Connections over which the rate is offered.
const CONNECTIONS: usize = 64;
/// Halvings of the interval in which the highest rate lies.
const PROBES: usize = 6;
/// Streams at once whose first tokens are timed, and the pause between their chunks.
const MANY: usize = 1000;
const SLOWLY: Pace = Pace { delay_us: 0, piece_us: 500_000 };
/// Streams that wait for their second chunk.
const IDLE: usize = 10_000;
const NEVER: Pace = Pace { delay_us: 0, piece_us: 3_600_000_000 };
const PATIENCE: Duration = Duration::from_secs(30);

/// The highest offered rate at which 99 of 100 responses arrive within a millisecond of when their request was due.
pub(crate) fn highest_rate(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let placement = Placement::Apart;
    let (_upstream, address) = upstream(&bench.starter, placement.load(), AT_ONCE)?;
    let mut cells = Vec::new();
    for who in [ContestantName::Gateway, ContestantName::LimitsOff, ContestantName::Nginx] {
        if !bench.options.has(who) {
            continue;
        }
        let (starter, programs) = (&bench.starter, &bench.programs);
        let started = contestant::start(who, starter, programs, placement.proxy(), address)?;
        if let Some(contestant) = started {
            cells.push((who, highest(bench, &contestant)?));
        }
    }
    let what = "highest rate with a 99th percentile of at most 1 ms, requests per second";
    report.rows.push(Row::new(what, "", cells));
    Ok(())
}

fn highest(bench: &Bench<'_>, contestant: &Contestant) -> Result<f64> {
    let time = (bench.options.time / TURNS).max(Duration::from_secs(1));
    let load = Load {
        connections: CONNECTIONS,
        warm_up: Duration::from_millis(200),
        ..single_load(contestant, RequestKind::Whole, time)
    };
    let most = run_load(bench, Placement::Apart, &load)?.rate;
    let (mut quick, mut slow) = (0.0, most);
    for _ in 0..PROBES {
        let offered = f64::midpoint(quick, slow);
        let load = Load { offered: Some(offered), ..load.clone() };
        let measured = run_load(bench, Placement::Apart, &load)?;
        if measured.p99 <= QUICK { quick = offered } else { slow = offered }
    }
    Ok(quick)
}

pub(crate) fn first_token_among_many(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let placement = Placement::Apart;
    let all_rounds = show(bench, placement, SLOWLY, RequestKind::Streamed, MANY)?;
    let title = format!("the first token among {MANY} streams, {}", placement.words());
    compare(&title, &all_rounds, [Goal::None, Goal::None], report);
    Ok(())
}

/// Memory for each of many streams that have begun and wait.
pub(crate) fn idle(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let count = allow_files()?.min(IDLE);
    let placement = Placement::Apart;
    let mut cells = Vec::new();
    for who in [ContestantName::Gateway, ContestantName::Nginx] {
        if !bench.options.has(who) {
            continue;
        }
        let (_upstream, address) = upstream(&bench.starter, placement.load(), NEVER)?;
        let (starter, programs) = (&bench.starter, &bench.programs);
        let started = contestant::start(who, starter, programs, placement.proxy(), address)?;
        let Some(contestant) = started else { continue };
        let pid = contestant.process.as_ref().context("it is no process")?.pid();
        let first = begin(&contestant)?;
        let before = process::resident(pid)?;
        let stream = |at| {
            begin(&contestant).with_context(|| format!("{}: stream {at} of {count}", who.name()))
        };
        let streams: Vec<TcpStream> = (1..=count).map(stream).collect::<Result<_>>()?;
        let kilobytes = process::resident(pid)?.saturating_sub(before) as f64 / 1024.0;
        cells.push((who, kilobytes / count as f64));
        drop((first, streams));
    }
    let row = Row::new(format!("memory of each of {count} idle streams"), "KB", cells);
    report.rows.push(row.goal(Goal::AtMost(30.0)));
    Ok(())
}

/// Begins a stream, and reads its first chunk.
fn begin(contestant: &Contestant) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(contestant.address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request(contestant, RequestKind::Streamed).as_bytes())?;
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while !received.windows(6).any(|part| part == b"data: ") {
        let length = stream.read(&mut buffer).context("the first chunk of a stream")?;
        if length == 0 {
            bail!("the stream ended: {}", String::from_utf8_lossy(&received));
        }
        received.extend_from_slice(&buffer[..length]);
    }
    Ok(stream)
}
