//! The scenarios: throughput, latency, the first streamed token, start and memory, the cost of a
//! decision.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::admin::exchange;
use super::contestant::{self, ContestantName};
use super::cost;
use super::fill;
use super::report::{Goal, Report, Row};
use super::rounds::{AT_ONCE, TRANSLATING, cells, compare, quantiles, rounds_of, show, show_of};
use super::running::Cores;
use super::stage::{
    Bench, ContestantRounds, Placement, RequestKind, median_difference, median_over_rounds,
    request, upstream,
};
use super::streams;
use super::upstream::Pace;
use crate::bench::process;
use crate::bench::report::{median, megabytes, milliseconds};

type Measure = fn(&Bench<'_>, &mut Report) -> Result<()>;

pub(crate) const SCENARIOS: &[(&str, Measure)] = &[
    ("throughput", throughput),
    ("latency", latency),
    ("translation", translation),
    ("rate", streams::highest_rate),
    ("first-token", first_token),
    ("many-streams", streams::first_token_among_many),
    ("idle-streams", streams::idle),
    ("cost", cost::measure),
    ("idle", idle),
    ("million-keys", million_keys),
    ("decision", decision),
];

const CONNECTIONS: usize = 512;
const IN_20_MS: Pace = Pace { delay_us: 20_000, piece_us: 1000 };
fn throughput(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let all_rounds = show(bench, Placement::Apart, IN_20_MS, RequestKind::Whole, CONNECTIONS)?;
    let rates = cells(&all_rounds, |rounds| median_over_rounds(rounds, |turn| turn.rate));
    let what =
        "requests per second, 512 connections, an upstream that takes 20 ms, a dedicated core";
    report.rows.push(Row::new(what, "", rates).goal(Goal::AtLeast(12_000.0)));
    if let (Some(on), Some(off)) = (
        rounds_of(&all_rounds, ContestantName::Gateway),
        rounds_of(&all_rounds, ContestantName::LimitsOff),
    ) {
        let pairs = on.measured.iter().zip(&off.measured);
        let lost = median(pairs.map(|(on, off)| (1.0 - on.rate / off.rate) * 100.0).collect());
        let row = Row::new(
            "the same, throughput lost to limits",
            "%",
            vec![(ContestantName::Gateway, lost)],
        );
        report.rows.push(row.goal(Goal::AtMost(10.0)));
    }
    let with_cpu: Vec<&ContestantRounds> =
        all_rounds.iter().filter(|s| !s.cpu.is_empty()).collect();
    let cpu = with_cpu.iter().map(|rounds| (rounds.who, median(rounds.cpu.clone()))).collect();
    report.rows.push(Row::new("the same, CPU time per request", "µs", cpu));
    for (what, of) in quantiles() {
        let cells = cells(&all_rounds, |rounds| median_over_rounds(rounds, of) / 1e3);
        report.rows.push(Row::new(format!("the same, latency: {what}"), "ms", cells));
    }
    Ok(())
}

fn latency(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for placement in [Placement::Together, Placement::Apart] {
        let all_rounds = show(bench, placement, AT_ONCE, RequestKind::Whole, 1)?;
        let goals = match placement {
            Placement::Together => [Goal::AtMost(60.0), Goal::AtMost(150.0)],
            Placement::Apart | Placement::Free => [Goal::None, Goal::None],
        };
        let title = format!("one connection, {}", placement.words());
        compare(&title, &all_rounds, goals, report);
        let found = (
            rounds_of(&all_rounds, ContestantName::Gateway),
            rounds_of(&all_rounds, ContestantName::Nginx),
        );
        if let (Placement::Apart, (Some(ours), Some(nginx))) = (placement, found) {
            for ((what, of), most) in quantiles().into_iter().zip([40.0, 150.0]) {
                let more = vec![(ContestantName::Gateway, median_difference(ours, nginx, of))];
                let row =
                    Row::new(format!("the same, added latency beyond nginx: {what}"), "µs", more);
                report.rows.push(row.goal(Goal::AtMost(most)));
            }
        }
    }
    Ok(())
}

fn first_token(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for placement in [Placement::Together, Placement::Apart] {
        let all_rounds = show(bench, placement, AT_ONCE, RequestKind::Streamed, 1)?;
        let goals = [Goal::None, Goal::AtMost(200.0)];
        let title = format!("the first token of a stream, {}", placement.words());
        compare(&title, &all_rounds, goals, report);
    }
    Ok(())
}

/// Requests of Messages to a model that speaks Chat Completions, and the time that this takes beyond passing a chat on.
fn translation(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let placement = Placement::Together;
    for (title, passed, translated, most) in [
        (
            "a request of Messages to a server of chats",
            RequestKind::Whole,
            RequestKind::Translated,
            60.0,
        ),
        (
            "the first token of such a stream",
            RequestKind::Streamed,
            RequestKind::TranslatedStream,
            100.0,
        ),
    ] {
        let show = |ask| show_of(bench, placement, (AT_ONCE, ask), 1, TRANSLATING);
        let (plain, all_rounds) = (show(passed)?, show(translated)?);
        let title = format!("{title}, {}", placement.words());
        compare(&title, &all_rounds, [Goal::None, Goal::None], report);
        for ((what, of), goal) in quantiles().into_iter().zip([Goal::AtMost(most), Goal::None]) {
            let added = all_rounds.iter().filter_map(|rounds| {
                let plain = rounds_of(&plain, rounds.who)?;
                let is_proxy = rounds.who != ContestantName::Direct;
                let more = median_over_rounds(rounds, of) - median_over_rounds(plain, of);
                is_proxy.then_some((rounds.who, more))
            });
            let row = format!("the same, beyond a chat that passes as it is: {what}");
            report.rows.push(Row::new(row, "µs", added.collect()).goal(goal));
        }
    }
    Ok(())
}

/// Start and memory of a gateway that has served one request.
fn idle(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let placement = Placement::Apart;
    let (_upstream, address) = upstream(&bench.starter, placement.load(), AT_ONCE)?;
    let [mut starts, mut resident, mut anonymous] = [(); 3].map(|()| Vec::new());
    for who in [ContestantName::Gateway, ContestantName::Nginx, ContestantName::LiteLlm] {
        if !bench.options.has(who) {
            continue;
        }
        let (starter, programs) = (&bench.starter, &bench.programs);
        let started = contestant::start(who, starter, programs, placement.proxy(), address)?;
        let Some(contestant) = started else { continue };
        let (status, body) =
            exchange(contestant.address, &request(&contestant, RequestKind::Whole))?;
        let body = String::from_utf8_lossy(&body);
        ensure!(status == 200, "{} answered {status}: {body}", who.name());
        let Some(process) = &contestant.process else { continue };
        if who == ContestantName::Gateway {
            starts.push((who, milliseconds(contestant.started_in)));
        }
        resident.push((who, megabytes(process::resident(process.pid())?)));
        anonymous.push((who, megabytes(process::anonymous(process.pid())?)));
    }
    report.rows.push(Row::new("start to `listening on`, an empty database", "ms", starts));
    let row = Row::new("resident memory after one request", "MB", resident);
    report.rows.push(row.goal(Goal::AtMost(12.0)));
    report.rows.push(Row::new("the same, not backed by files", "MB", anonymous));
    Ok(())
}

/// Start and memory with as many keys as the largest organizations have together.
fn million_keys(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    if !bench.options.has(ContestantName::Gateway) {
        return Ok(());
    }
    let (_upstream, address) = upstream(&bench.starter, Placement::Apart.load(), AT_ONCE)?;
    let start = |folder| {
        let (starter, agentd) = (&bench.starter, &bench.programs.agentd);
        contestant::start_gateway(
            ContestantName::Gateway,
            starter,
            agentd,
            Cores::One(0),
            address,
            folder,
        )
    };
    // The first start creates the tables.
    let folder = start(tempfile::tempdir()?)?.end()?;
    let key = fill::database(&folder.path().join("gateway.db"), 1_000_000, 10_000)?;
    let mut gateway = start(folder)?;
    gateway.key = Some(key);
    let (status, body) = exchange(gateway.address, &request(&gateway, RequestKind::Whole))?;
    let body = String::from_utf8_lossy(&body);
    ensure!(status == 200, "the response to a key among a million is {status}: {body}");
    let process = gateway.process.as_ref().context("a gateway is a process")?;
    let pid = process.pid();
    let row = |what, unit, value, most| {
        Row::new(what, unit, vec![(ContestantName::Gateway, value)]).goal(Goal::AtMost(most))
    };
    let what = "start with 1,000,000 keys of 10,000 organizations";
    report.rows.push(row(what, "ms", milliseconds(gateway.started_in), 1000.0));
    let what = "the same, resident memory after one request";
    report.rows.push(row(what, "MB", megabytes(process::resident(pid)?), 300.0));
    Ok(())
}

/// Runs the example in the crate itself, and passes its output on unchanged.
fn decision(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    const EXAMPLE: &str = "crates/ratelimit/examples/decision_cost.rs";
    if !bench.options.has(ContestantName::Gateway) {
        return Ok(());
    }
    ensure!(bench.root.join(EXAMPLE).is_file(), "{EXAMPLE} is missing");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--profile",
            "dist",
            "--package",
            "ratelimit",
            "--example",
            "decision_cost",
        ])
        .current_dir(bench.root)
        .output()
        .context("cargo")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the example decision_cost failed: {errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    report.notes.push(format!(
        "The cost of a decision over seven dimensions in memory (goal: ≤ 5 µs at the 99th \
         percentile), as `cargo run --profile dist -p ratelimit --example decision_cost` prints it:\n\n\
         ```text\n{}\n```",
        text.trim_end()
    ));
    Ok(())
}
