//! Numbers of tests, read from what the test runners print.

use std::fmt;
use std::ops::AddAssign;

/// The numbers of tests that passed, failed and did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// From cargo-nextest's line `Summary [ 1.2s] 5 tests run: 3 passed (1 slow), 1 failed, 1 timed out,
/// 2 skipped`; `None` when no such line was printed.
pub fn nextest(output: &str) -> Option<Counts> {
    let mut lines = output.lines().rev().map(without_colours);
    let summary = lines.find(|line| line.trim_start().starts_with("Summary ["))?;
    let (_, parts) = summary.split_once("run: ")?;
    let mut counts = Counts::default();
    for (number, what) in numbered(parts) {
        match what {
            "passed" => counts.passed += number,
            "skipped" => counts.skipped += number,
            "failed" | "timed" | "exec" => counts.failed += number,
            // Within brackets: slow, flaky or leaky tests are among those that passed.
            _ => {}
        }
    }
    Some(counts)
}

/// The sum of the standard runner's lines `test result: ok. 5 passed; 0 failed; 1 ignored; …`;
/// `None` when no such line was printed.
pub fn libtest(output: &str) -> Option<Counts> {
    let mut counts = None::<Counts>;
    for line in output.lines().map(without_colours) {
        let Some(parts) = line.trim_start().strip_prefix("test result: ") else { continue };
        let counts = counts.get_or_insert_default();
        for (number, what) in numbered(parts) {
            match what {
                "passed" => counts.passed += number,
                "failed" => counts.failed += number,
                "ignored" => counts.skipped += number,
                _ => {}
            }
        }
    }
    counts
}

/// Pairs like `5 passed`, wherever they stand outside brackets.
fn numbered(text: &str) -> Vec<(usize, &str)> {
    let outside = text.split('(').enumerate().map(|(at, piece)| match at {
        0 => piece,
        _ => piece.split_once(')').map_or("", |(_, after)| after),
    });
    outside
        .flat_map(|piece| piece.split([',', ';', '.']))
        .filter_map(|piece| {
            let mut words = piece.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?))
        })
        .collect()
}

fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, text)| text));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(passed: usize, failed: usize, skipped: usize) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    #[test]
    fn the_summary_of_nextest_is_parsed() {
        for (output, expected) in [
            ("  Summary [   0.217s] 21 tests run: 21 passed, 0 skipped\n", counts(21, 0, 0)),
            (
                "x\n  Summary [ 1s] 5 tests run: 2 passed (1 slow, 1 flaky), 2 failed, 1 timed out, 3 skipped\n  FAIL y",
                counts(2, 3, 3),
            ),
            ("  Summary [ 1s] 1/5 tests run: 0 passed, 1 exec failed, 0 skipped", counts(0, 1, 0)),
            (
                "\u{1b}[32;1m     Summary\u{1b}[0m [   0.1s] \u{1b}[1m1\u{1b}[0m test run: \u{1b}[1m1\u{1b}[0m passed, 0 skipped",
                counts(1, 0, 0),
            ),
            ("error: could not compile", None),
        ] {
            assert_eq!(nextest(output), expected, "{output}");
        }
    }

    #[test]
    fn lines_of_the_standard_runner_are_summed() {
        for (output, expected) in [
            (
                "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                counts(5, 0, 1),
            ),
            (
                "test result: ok. 1 passed; 0 failed; 0 ignored\ntest result: FAILED. 2 passed; 3 failed; 0 ignored",
                counts(3, 3, 0),
            ),
            ("nothing", None),
        ] {
            assert_eq!(libtest(output), expected, "{output}");
        }
    }

    #[test]
    fn the_last_line_mentions_skipped_tests_only_if_any() {
        assert_eq!(Counts { passed: 1, failed: 2, skipped: 0 }.to_string(), "1 passed, 2 failed");
        assert_eq!(
            Counts { passed: 1, failed: 0, skipped: 3 }.to_string(),
            "1 passed, 0 failed, 3 skipped"
        );
    }

    proptest! {
        #[test]
        fn any_output_is_parsed(output in ".{0,100}") {
            let _ = nextest(&format!("Summary [ run: {output}"));
            let _ = libtest(&format!("test result: {output}"));
        }
    }
}
