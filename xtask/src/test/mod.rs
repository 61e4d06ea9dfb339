//! `cargo xtask test`: everything a change must pass, step by step, with the time of each. Stops at
//! the first step that fails; its last line counts tests and steps.

mod counts;
pub(crate) mod program;
mod system;
mod typescript;

use std::path::Path;
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use counts::Counts;
use program::Program;

/// What a step that did not fail reports.
pub(crate) enum Done {
    /// A check without tests of its own.
    Passed,
    /// A check that cannot run on this machine, and why.
    Skipped(String),
    /// Tests ran, and these are their numbers.
    Tests(Counts),
}

/// What went wrong, and the numbers when tests ran.
pub(crate) struct Failed {
    pub(crate) message: String,
    pub(crate) counts: Counts,
}

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed { message: format!("{:#}", error.into()), counts: Counts::default() }
    }
}

type Outcome = Result<Done, Failed>;
type Check = fn(&Path) -> Outcome;
type Step = (&'static str, When, Check);

/// When a step begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// After the steps before it.
    InTurn,
    /// At once: it waits for the network more than it computes.
    AtOnce,
}

const STEPS: &[Step] = &[
    ("system packages", When::InTurn, system::packages),
    ("format", When::InTurn, format),
    ("lints", When::InTurn, lints),
    ("tidy", When::InTurn, |root| Ok(crate::tidy::run(root).map(|()| Done::Passed)?)),
    ("generated files", When::InTurn, |root| {
        Ok(crate::generate::check(root).map(|()| Done::Passed)?)
    }),
    ("tests", When::InTurn, tests),
    ("doc tests", When::InTurn, doc_tests),
    ("fuzzing", When::InTurn, fuzzing),
    ("TypeScript", When::AtOnce, typescript::check),
];

/// The features of every step: the same everywhere, so that nothing is compiled twice.
const SCOPE: [&str; 2] = ["--workspace", "--all-features"];

pub(crate) fn run(root: &Path) -> ExitCode {
    let started = Instant::now();
    let mut total = Counts::default();
    let mut rows = Vec::new();
    let begun: Vec<Option<JoinHandle<Outcome>>> = STEPS
        .iter()
        .map(|(_, when, step)| {
            let root = root.to_owned();
            (*when == When::AtOnce).then(|| std::thread::spawn(move || step(&root)))
        })
        .collect();
    for ((name, _, step), begun) in STEPS.iter().zip(begun) {
        println!("── {name}");
        let began = Instant::now();
        let outcome = match begun {
            Some(begun) => begun.join().unwrap_or_else(|_| Err(anyhow!("{name} panicked").into())),
            None => step(root),
        };
        let (verdict, stop) = judge(outcome, &mut total);
        println!("── {name}: {verdict} ({:.1} s)\n", began.elapsed().as_secs_f64());
        rows.push((*name, verdict, began.elapsed()));
        if stop {
            break;
        }
    }
    print_summary(&rows, started.elapsed());
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One line about a step, and whether the run ends with it; `total` grows by what it counted.
fn judge(outcome: Outcome, total: &mut Counts) -> (String, bool) {
    match outcome {
        Ok(Done::Passed) => {
            total.passed += 1;
            ("ok".to_owned(), false)
        }
        Ok(Done::Skipped(reason)) => {
            total.skipped += 1;
            (format!("skipped: {reason}"), false)
        }
        Ok(Done::Tests(counts)) => {
            *total += counts;
            (format!("ok: {counts}"), false)
        }
        Err(Failed { message, counts }) => {
            eprintln!("error: {message}");
            *total += counts;
            if counts.failed == 0 {
                total.failed += 1;
            }
            let first = message.lines().next().unwrap_or_default();
            (format!("FAILED: {first}"), true)
        }
    }
}

fn print_summary(rows: &[(&str, String, Duration)], elapsed: Duration) {
    for (name, verdict, took) in rows {
        println!("{name:<16} {:>7.1} s  {verdict}", took.as_secs_f64());
    }
    for (name, ..) in &STEPS[rows.len()..] {
        println!("{name:<16} {:>9}  not run: an earlier step failed", "");
    }
    println!("{:<16} {:>7.1} s", "total", elapsed.as_secs_f64());
}

fn format(root: &Path) -> Outcome {
    Program::cargo(root, &["fmt", "--all", "--check"])
        .succeed("rewrite the files with `cargo fmt --all`")
}

fn lints(root: &Path) -> Outcome {
    let scope = [&["clippy"][..], &SCOPE, &["--all-targets", "--", "-D", "warnings"]].concat();
    Program::cargo(root, &scope).succeed("mend what clippy lists above")
}

fn tests(root: &Path) -> Outcome {
    if Program::exists("cargo-nextest") {
        let options = ["nextest", "run", "--no-fail-fast", "--status-level", "slow"];
        let program = Program::cargo(root, &[&options[..], &SCOPE].concat());
        return program.run_tests(counts::nextest);
    }
    let options = ["test", "--no-fail-fast", "--all-targets"];
    Program::cargo(root, &[&options[..], &SCOPE].concat()).run_tests(counts::libtest)
}

fn doc_tests(root: &Path) -> Outcome {
    Program::cargo(root, &[&["test", "--doc"][..], &SCOPE].concat()).run_tests(counts::libtest)
}

/// Each target for a minute, or for as long as `AGENTD_FUZZ_SECONDS` says.
fn fuzzing(root: &Path) -> Outcome {
    let seconds = match std::env::var("AGENTD_FUZZ_SECONDS") {
        Ok(given) => given.parse().context("AGENTD_FUZZ_SECONDS is no number of seconds")?,
        Err(_) => crate::fuzz::SECONDS,
    };
    let passed = crate::fuzz::run_all(root, seconds)?;
    Ok(Done::Tests(Counts { passed, failed: 0, skipped: 0 }))
}

#[cfg(test)]
mod judging {
    use super::*;

    #[test]
    fn every_step_is_counted_once() {
        let counts = |passed, failed, skipped| Counts { passed, failed, skipped };
        let failed = |message: &str, counts| Err(Failed { message: message.to_owned(), counts });
        for (outcome, expected, stop) in [
            (Ok(Done::Passed), counts(1, 0, 0), false),
            (Ok(Done::Skipped("no node".to_owned())), counts(0, 0, 1), false),
            (Ok(Done::Tests(counts(5, 0, 1))), counts(5, 0, 1), false),
            (failed("x", counts(4, 2, 0)), counts(4, 2, 0), true),
            (failed("does not compile", counts(0, 0, 0)), counts(0, 1, 0), true),
        ] {
            let mut total = Counts::default();
            let (_, stopped) = judge(outcome, &mut total);
            assert_eq!((total, stopped), (expected, stop));
        }
    }
}
