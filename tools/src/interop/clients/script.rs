//! A script of a client while it runs.

use std::time::Duration;

use anyhow::Result;

use super::outcome::{Line, Outcome};
use crate::bench::gateway::Running;

/// Longer than any check waits for anything, the making of a new Debian included.
const PATIENCE: Duration = Duration::from_secs(900);

/// Reads the lines of a script to its count.
pub(super) fn follow(mut script: Running, language: &'static str) -> Result<Outcome> {
    let mut outcome = Outcome::new(language);
    loop {
        let (line, _) = script.line(PATIENCE, |line| Some(line.to_owned()))?;
        println!("{line}");
        match Line::read(&line) {
            Line::Count { passed, failed } => {
                outcome.check_count(passed, failed)?;
                return Ok(outcome);
            }
            line => outcome.add(line),
        }
    }
}
