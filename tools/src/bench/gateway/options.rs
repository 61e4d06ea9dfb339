//! The command line of `cargo xtask bench gateway`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::contestant::ContestantName;
use crate::bench::options::{check_scenarios, seconds};

/// Measure the gateway against nginx and LiteLLM. Needs two cores that nothing else uses.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The program to measure [default: a `dist` build of this checkout]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) agentd: Option<PathBuf>,
    /// nginx, to compare with [default: the one on the path, if any]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) nginx: Option<PathBuf>,
    /// LiteLLM's proxy, to compare with [default: the one on the path, if any]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) litellm: Option<PathBuf>,
    /// Measure only this contestant; may be repeated
    #[arg(long = "contestant", value_name = "NAME", value_enum)]
    contestants: Vec<ContestantName>,
    /// Run only this scenario; may be repeated
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// Duration of each measurement, in seconds
    #[arg(long = "seconds", value_name = "N", default_value = "10", value_parser = seconds)]
    pub(crate) time: Duration,
    /// Also write the page, as in docs/gateway-benchmarks.md
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

impl Options {
    /// Returns an error for a scenario that is not in `known`.
    pub(crate) fn check_scenarios(&self, known: &[&str]) -> Result<()> {
        check_scenarios(&self.scenarios, known)
    }

    pub(crate) fn includes(&self, scenario: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|name| name == scenario)
    }

    pub(crate) fn has(&self, who: ContestantName) -> bool {
        self.contestants.is_empty() || self.contestants.contains(&who)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn parse(line: &[&str]) -> Result<Options, clap::Error> {
        let command = Options::augment_args(clap::Command::new("gateway").no_binary_name(true));
        Options::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    #[test]
    fn options_are_parsed() {
        let line = ["--contestant", "limits-off", "--seconds", "3", "--scenario", "a"];
        let options = parse(&line).unwrap();
        assert_eq!(options.time, Duration::from_secs(3));
        assert!(options.has(ContestantName::LimitsOff) && !options.has(ContestantName::Nginx));
        assert!(options.includes("a") && !options.includes("b"));
    }

    #[test]
    fn errors_name_what_is_expected() {
        for (line, expected) in [
            ("--seconds 0", "expected a whole number from 1 to 3600"),
            ("--contestant x", "possible values: agentd, limits-off, nginx, litellm, direct"),
            ("--nginx", "a value is required"),
            ("--fast", "unexpected argument '--fast'"),
        ] {
            let message = parse(&line.split(' ').collect::<Vec<_>>()).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
