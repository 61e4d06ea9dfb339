//! The cost of a request in system calls, instructions and misses of the instruction cache: figures that hardly depend on
//! how fast the machine is. `strace` and `perf` count them while one connection asks again and again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};

use super::contestant::{self, Contestant, ContestantName};
use super::report::{Goal, Report, Row};
use super::rounds::AT_ONCE;
use super::stage::{Bench, Placement, RequestKind, run_load, single_load, upstream};
use crate::bench::system_calls;

const CONTESTANTS: [ContestantName; 2] = [ContestantName::Gateway, ContestantName::Nginx];
/// The counters of `perf`, each with its name in the report.
const COUNTERS: [(&str, &str); 3] = [
    ("instructions:u", "instructions of the program"),
    ("instructions:k", "instructions of the kernel"),
    ("L1-icache-load-misses", "misses of the instruction cache"),
];
/// `perf` does not say when it has begun to count.
const UNTIL_PERF_COUNTS: Duration = Duration::from_millis(500);

pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let placement = Placement::Free;
    let (_upstream, address) = upstream(&bench.starter, placement.load(), AT_ONCE)?;
    let mut calls = Vec::new();
    let mut counted: Vec<Vec<(ContestantName, f64)>> = vec![Vec::new(); COUNTERS.len()];
    for who in CONTESTANTS.into_iter().filter(|who| bench.options.has(*who)) {
        let (starter, programs) = (&bench.starter, &bench.programs);
        let started = contestant::start(who, starter, programs, placement.proxy(), address)?;
        let Some(contestant) = started else { continue };
        // Connections, caches and the first rows of the ledger exist from here on.
        requests(bench, &contestant)?;
        calls.push((who, system_calls_of_a_request(bench, &contestant)?));
        let counters = counters_of_a_request(bench, &contestant)?;
        for (cells, value) in counted.iter_mut().zip(counters) {
            cells.extend(value.map(|value| (who, value)));
        }
    }
    let beyond = difference(&calls, |ours, nginx| ours - nginx);
    let title = "one connection, all cores";
    report.rows.push(Row::new(format!("{title}: system calls of a request"), "", calls));
    report.rows.push(Row::new("the same, beyond nginx", "", beyond).goal(Goal::AtMost(3.0)));
    for ((event, what), cells) in COUNTERS.into_iter().zip(counted) {
        if cells.is_empty() {
            report.notes.push(format!("This machine does not count `{event}`."));
            continue;
        }
        let ratio = difference(&cells, |ours, nginx| ours / nginx);
        report.rows.push(Row::new(format!("{title}: {what}, of a request"), "", cells));
        let goal = if event == "instructions:u" { Goal::AtMost(2.5) } else { Goal::None };
        report.rows.push(Row::new("the same, as a multiple of nginx's", "", ratio).goal(goal));
    }
    Ok(())
}

/// Our figure compared with nginx's, if both were measured.
fn difference(
    cells: &[(ContestantName, f64)],
    of: fn(f64, f64) -> f64,
) -> Vec<(ContestantName, f64)> {
    let find = |who| cells.iter().find(|(found, _)| *found == who).map(|(_, value)| *value);
    match (find(ContestantName::Gateway), find(ContestantName::Nginx)) {
        (Some(ours), Some(nginx)) => vec![(ContestantName::Gateway, of(ours, nginx))],
        _ => Vec::new(),
    }
}

/// Sends requests, one after the other; returns how many were answered.
fn requests(bench: &Bench<'_>, contestant: &Contestant) -> Result<f64> {
    let time = bench.options.time.max(Duration::from_secs(2)) / 2;
    let load = single_load(contestant, RequestKind::Whole, time);
    Ok(run_load(bench, Placement::Free, &load)?.rate * time.as_secs_f64())
}

fn system_calls_of_a_request(bench: &Bench<'_>, contestant: &Contestant) -> Result<f64> {
    let file = tempfile::NamedTempFile::new().context("a file for the counts")?;
    let mut command = Command::new("strace");
    command
        .args(["-f", "-c", "-U", "calls,name", "-o"])
        .arg(file.path())
        .arg("-p")
        .arg(pid(contestant)?.to_string());
    let mut strace = command.stderr(Stdio::piped()).spawn().context("strace: install it first")?;
    let errors = strace.stderr.take().context("its standard error")?;
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line)?;
    ensure!(line.contains("attached"), "strace does not attach: {}", line.trim());
    let requests = requests(bench, contestant)?;
    interrupt(strace)?;
    Ok(system_calls::total(file.path())? as f64 / requests)
}

/// The counters, each as `None` where the machine does not have it.
fn counters_of_a_request(bench: &Bench<'_>, contestant: &Contestant) -> Result<Vec<Option<f64>>> {
    let file = tempfile::NamedTempFile::new().context("a file for the counts")?;
    let events = COUNTERS.map(|(event, _)| event).join(",");
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", &events, "-o"]).arg(file.path());
    command.arg("-p").arg(pid(contestant)?.to_string());
    let Ok(perf) = command.stderr(Stdio::null()).spawn() else {
        return Ok(vec![None; COUNTERS.len()]);
    };
    std::thread::sleep(UNTIL_PERF_COUNTS);
    let requests = requests(bench, contestant)?;
    interrupt(perf)?;
    let text = std::fs::read_to_string(file.path())?;
    Ok(COUNTERS.map(|(event, _)| Some(count(&text, event)? as f64 / requests)).into())
}

fn pid(contestant: &Contestant) -> Result<u32> {
    Ok(contestant.process.as_ref().context("it is no process")?.pid())
}

fn interrupt(mut child: Child) -> Result<()> {
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT)?;
    child.wait()?;
    Ok(())
}

/// The count of an event in `VALUE,UNIT,EVENT,…`; `None` if it is not supported.
fn count(text: &str, event: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split(',');
        let value = fields.next()?;
        (fields.nth(1)? == event).then(|| value.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_missing_ones_are_none() {
        let text = "# started on\n\n4711,,instructions:u,1000,100.00,,\n<not supported>,,L1-icache-load-misses,0,100.00,,\n";
        for (event, expected) in
            [("instructions:u", Some(4711)), ("L1-icache-load-misses", None), ("cycles", None)]
        {
            assert_eq!(count(text, event), expected, "{event}");
        }
    }

    #[test]
    fn a_figure_is_compared_only_with_one_that_was_measured() {
        let both = [(ContestantName::Gateway, 10.0), (ContestantName::Nginx, 8.0)];
        assert_eq!(difference(&both, |ours, nginx| ours - nginx), [(ContestantName::Gateway, 2.0)]);
        assert_eq!(difference(&both[..1], |ours, nginx| ours - nginx), []);
    }
}
