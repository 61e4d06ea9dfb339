//! The output of a script: the client it runs, a line for each check, and a count at the end.

use anyhow::{Result, ensure};

/// One line of a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Name, version, and what it runs on.
    Client(String),
    Check(Check),
    /// The last one.
    Count {
        passed: usize,
        failed: usize,
    },
    /// Nothing that is counted.
    Other,
}

#[derive(Debug, PartialEq, Eq, Clone)]
pub(crate) struct Check {
    pub(crate) group: String,
    /// Of one that failed, with the reason.
    pub(crate) name: String,
    pub(crate) passed: bool,
}

impl Line {
    pub(crate) fn read(line: &str) -> Line {
        if let Some(client) = line.strip_prefix("client ") {
            return Line::Client(client.to_owned());
        }
        let check = |text: &str, passed| {
            let (group, name) = text.trim_start().split_once(": ")?;
            Some(Line::Check(Check { group: group.to_owned(), name: name.to_owned(), passed }))
        };
        let checked = match (line.strip_prefix("ok "), line.strip_prefix("FAIL ")) {
            (Some(text), _) => check(text, true),
            (_, Some(text)) => check(text, false),
            _ => count(line),
        };
        checked.unwrap_or(Line::Other)
    }
}

fn count(line: &str) -> Option<Line> {
    let (passed, failed) = line.split_once(" passed, ")?;
    let failed = failed.strip_suffix(" failed")?;
    Some(Line::Count { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
}

/// The results of one client.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) language: &'static str,
    /// Empty until the script says it.
    pub(crate) client: String,
    pub(crate) checks: Vec<Check>,
}

impl Outcome {
    pub(crate) fn new(language: &'static str) -> Outcome {
        Outcome { language, client: String::new(), checks: Vec::new() }
    }

    pub(crate) fn add(&mut self, line: Line) {
        match line {
            Line::Client(client) => self.client = client,
            Line::Check(check) => self.checks.push(check),
            Line::Count { .. } | Line::Other => {}
        }
    }

    pub(crate) fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.passed).count()
    }

    /// That the lines are as many as the script says.
    pub(crate) fn check_count(&self, passed: usize, failed: usize) -> Result<()> {
        let seen = (self.checks.len() - self.failed(), self.failed());
        ensure!(
            seen == (passed, failed) && !self.client.is_empty(),
            "the script reports {passed} passed and {failed} failed, but prints {} and {} such lines",
            seen.0,
            seen.1
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(group: &str, name: &str, passed: bool) -> Line {
        Line::Check(Check { group: group.to_owned(), name: name.to_owned(), passed })
    }

    #[test]
    fn kinds_of_lines_are_distinguished() {
        for (line, expected) in [
            (
                "client openai 1.2.3 on Python 3",
                Line::Client("openai 1.2.3 on Python 3".to_owned()),
            ),
            ("ok    files: list", check("files", "list", true)),
            ("FAIL  files: list: Error: x", check("files", "list: Error: x", false)),
            ("12 passed, 1 failed", Line::Count { passed: 12, failed: 1 }),
            ("many passed, 1 failed", Line::Other),
            ("ok    files", Line::Other),
            ("", Line::Other),
        ] {
            assert_eq!(Line::read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_count_that_differs_from_the_lines_is_refused() {
        let mut outcome = Outcome::new("Python");
        outcome.add(Line::Client("openai".to_owned()));
        outcome.add(check("files", "list", true));
        outcome.add(check("files", "delete", false));
        assert!(outcome.check_count(1, 1).is_ok());
        assert!(outcome.check_count(2, 0).is_err() && outcome.check_count(1, 0).is_err());
    }
}
