//! Checks that run one after the other, with the time of each: what `cargo xtask test` and `cargo xtask
//! interop` consist of. A run stops at the first step that fails; its last lines count tests and steps,
//! and say what was skipped and why.

mod counts;
mod program;

use std::path::Path;
use std::process::ExitCode;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::anyhow;

pub use counts::{Counts, libtest, nextest};
pub use program::Program;

/// The features of every step: the same everywhere, so that nothing is compiled twice.
pub const SCOPE: [&str; 2] = ["--workspace", "--all-features"];

/// The features of every step for a build of programs alone. An example is among them because cargo leaves
/// out what dev-dependencies ask of third-party crates when a build has none of tests and examples, and
/// would compile these crates again.
pub const PROGRAM_SCOPE: [&str; 4] = ["--workspace", "--all-features", "--example", "readme"];

/// The report of a step that did not fail.
pub enum Done {
    /// A check without tests of its own.
    Passed,
    /// A check that cannot run on this machine, and why.
    Skipped(String),
    /// Tests ran, and these are their numbers.
    Tests(Counts),
}

/// The error, and the numbers when tests ran.
pub struct Failed {
    pub message: String,
    pub counts: Counts,
}

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed { message: format!("{:#}", error.into()), counts: Counts::default() }
    }
}

pub type Outcome = Result<Done, Failed>;

/// A named check of the checkout.
#[derive(Clone, Copy)]
pub struct Step {
    pub name: &'static str,
    pub when: When,
    pub check: fn(&Path) -> Outcome,
}

/// When a step begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// After the steps before it.
    InTurn,
    /// At once: it waits for the network more than it computes.
    AtOnce,
}

/// The totals of a run.
#[derive(Default)]
struct Total {
    counts: Counts,
    /// Steps that did not run, with the reason of each.
    skipped: Vec<String>,
}

/// Runs the steps, and prints what came of them.
pub fn run(root: &Path, steps: &[Step]) -> ExitCode {
    let started = Instant::now();
    let mut total = Total::default();
    let mut rows = Vec::new();
    let begun: Vec<Option<JoinHandle<Outcome>>> = steps
        .iter()
        .map(|step| {
            let (root, check) = (root.to_owned(), step.check);
            (step.when == When::AtOnce).then(|| std::thread::spawn(move || check(&root)))
        })
        .collect();
    for (Step { name, check, .. }, begun) in steps.iter().zip(begun) {
        println!("── {name}");
        let began = Instant::now();
        let outcome = match begun {
            Some(begun) => begun.join().unwrap_or_else(|_| Err(anyhow!("{name} panicked").into())),
            None => check(root),
        };
        let (verdict, stop) = judge(name, outcome, &mut total);
        println!("── {name}: {verdict} ({:.1} s)\n", began.elapsed().as_secs_f64());
        rows.push((*name, verdict, began.elapsed()));
        if stop {
            break;
        }
    }
    for (name, verdict, took) in &rows {
        println!("{name:<16} {:>7.1} s  {verdict}", took.as_secs_f64());
    }
    for Step { name, .. } in &steps[rows.len()..] {
        println!("{name:<16} {:>9}  not run: an earlier step failed", "");
    }
    println!("{}", total.summary(started.elapsed()));
    if total.counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Total {
    /// The numbers, alone on their line, and what was skipped.
    fn summary(&self, elapsed: Duration) -> String {
        let mut lines =
            format!("{:<16} {:>7.1} s\n{}", "total", elapsed.as_secs_f64(), self.counts);
        if !self.skipped.is_empty() {
            lines.push_str(&format!("\nskipped: {}", self.skipped.join("; ")));
        }
        lines
    }
}

/// One line about a step, and whether the run ends with it; `total` grows by what it counted.
fn judge(name: &str, outcome: Outcome, total: &mut Total) -> (String, bool) {
    match outcome {
        Ok(Done::Passed) => {
            total.counts.passed += 1;
            ("ok".to_owned(), false)
        }
        Ok(Done::Skipped(reason)) => {
            total.counts.skipped += 1;
            total.skipped.push(format!("{name} ({reason})"));
            (format!("skipped: {reason}"), false)
        }
        Ok(Done::Tests(counts)) => {
            total.counts += counts;
            if counts.skipped > 0 {
                total
                    .skipped
                    .push(format!("{name} ({} left out by their own rules)", counts.skipped));
            }
            (format!("ok: {counts}"), false)
        }
        Err(Failed { message, counts }) => {
            eprintln!("error: {message}");
            total.counts += counts;
            if counts.failed == 0 {
                total.counts.failed += 1;
            }
            let first = message.lines().next().unwrap_or_default();
            (format!("FAILED: {first}"), true)
        }
    }
}

#[cfg(test)]
mod tests {
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
            let mut total = Total::default();
            let (_, stopped) = judge("step", outcome, &mut total);
            assert_eq!((total.counts, stopped), (expected, stop));
        }
    }

    #[test]
    fn the_last_line_lists_skipped_steps_and_reasons() {
        let mut total = Total::default();
        judge("tests", Ok(Done::Passed), &mut total);
        let summary = total.summary(Duration::from_secs(2));
        assert!(summary.ends_with("\n1 passed, 0 failed"), "{summary}");
        judge("TypeScript", Ok(Done::Skipped("npm is not installed".to_owned())), &mut total);
        let summary = total.summary(Duration::from_secs(2));
        let last = "\n1 passed, 0 failed, 1 skipped\nskipped: TypeScript (npm is not installed)";
        assert!(summary.ends_with(last), "{summary}");
    }
}
