//! Measurements of all contestants side by side, and their latencies as rows of the report.

use std::time::Duration;

use anyhow::Result;

use super::contestant::ContestantName;
use super::load::Measured;
use super::report::{Goal, Report, Row};
use super::stage::{
    Bench, ContestantRounds, Placement, RequestKind, RoundPlan, Stage, median_difference,
    median_over_rounds,
};
use super::upstream::Pace;

pub(super) const TURNS: u32 = 5;
pub(super) const AT_ONCE: Pace = Pace { delay_us: 0, piece_us: 1000 };
/// LiteLLM works from time to time even without requests, so it has a separate stage.
const QUICK: &[ContestantName] = &[
    ContestantName::Direct,
    ContestantName::Gateway,
    ContestantName::Nginx,
    ContestantName::LimitsOff,
];
const SLOW: &[ContestantName] = &[ContestantName::LiteLlm];

/// Those of [`QUICK`] that translate, and what they are compared with.
pub(super) const TRANSLATING: &[ContestantName] =
    &[ContestantName::Direct, ContestantName::Gateway, ContestantName::LimitsOff];

/// Measures the contestants that run together first, then each of the others alone.
pub(super) fn show(
    bench: &Bench<'_>,
    placement: Placement,
    pace: Pace,
    ask: RequestKind,
    connections: usize,
) -> Result<Vec<ContestantRounds>> {
    show_of(bench, placement, (pace, ask), connections, QUICK)
}

/// The same with these contestants together.
pub(super) fn show_of(
    bench: &Bench<'_>,
    placement: Placement,
    (pace, ask): (Pace, RequestKind),
    connections: usize,
    together: &[ContestantName],
) -> Result<Vec<ContestantRounds>> {
    let time = bench.options.time;
    // Several whole streams of each connection.
    let least = Duration::from_secs(1).max(Duration::from_micros(pace.piece_us) * 16);
    let quick = RoundPlan {
        count: TURNS,
        warm_up: Duration::from_millis(500),
        time: (time / TURNS).max(least),
    };
    let mut all_rounds =
        Stage::set(bench, placement, pace, together)?.go_round(ask, connections, quick)?;
    // LiteLLM takes seconds for the first response on each connection, and loads modules with the
    // first request.
    let slow = RoundPlan { count: 1, warm_up: Duration::from_secs(5), time };
    all_rounds.extend(Stage::set(bench, placement, pace, SLOW)?.go_round(
        ask,
        connections,
        slow,
    )?);
    Ok(all_rounds)
}

/// Reports the latency with each contestant, and how much it adds to the direct connection.
pub(super) fn compare(
    title: &str,
    all_rounds: &[ContestantRounds],
    goals: [Goal; 2],
    report: &mut Report,
) {
    for (what, of) in quantiles() {
        let cells = cells(all_rounds, |rounds| median_over_rounds(rounds, of));
        report.rows.push(Row::new(format!("{title}: {what}"), "µs", cells));
    }
    let Some(direct) = rounds_of(all_rounds, ContestantName::Direct) else { return };
    for ((what, of), goal) in quantiles().into_iter().zip(goals) {
        let proxies = all_rounds.iter().filter(|rounds| rounds.who != ContestantName::Direct);
        let added = proxies.map(|rounds| (rounds.who, median_difference(rounds, direct, of)));
        let row = Row::new(format!("the same, added latency: {what}"), "µs", added.collect());
        report.rows.push(row.goal(goal));
    }
}

/// A name, and the function that returns the quantile.
pub(super) type Quantile = (&'static str, fn(&Measured) -> f64);

pub(super) fn quantiles() -> [Quantile; 2] {
    [("median", |turn| turn.median), ("99th percentile", |turn| turn.p99)]
}

pub(super) fn cells(
    all_rounds: &[ContestantRounds],
    value: impl Fn(&ContestantRounds) -> f64,
) -> Vec<(ContestantName, f64)> {
    all_rounds.iter().map(|rounds| (rounds.who, value(rounds))).collect()
}

pub(super) fn rounds_of(
    all_rounds: &[ContestantRounds],
    who: ContestantName,
) -> Option<&ContestantRounds> {
    all_rounds.iter().find(|rounds| rounds.who == who)
}
