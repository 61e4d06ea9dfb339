//! The command line of `cargo xtask bench`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::target::Target;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The server to measure, and the variable that names its home folder [default: a `dist` build
    /// of this checkout, with AGENT_HOME]
    #[arg(long, value_name = "BINARY:HOME_ENV", value_parser = server)]
    pub(crate) server: Option<Target>,
    /// Another server to compare with; may be repeated
    #[arg(long = "peer", value_name = "NAME=BINARY:HOME_ENV", value_parser = peer)]
    pub(crate) peers: Vec<Target>,
    /// The program with the scripted model [default: the `dist` build]
    #[arg(long, value_name = "BINARY")]
    pub(crate) model_server: Option<PathBuf>,
    /// Run only this scenario; may be repeated
    #[arg(long = "scenario", value_name = "NAME")]
    scenarios: Vec<String>,
    /// Repeats of each quick measurement
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: u32,
    /// Duration of each measurement under load, in seconds
    #[arg(long = "seconds", value_name = "N", default_value = "10", value_parser = seconds)]
    pub(crate) time: Duration,
    /// Also write the page, as in docs/benchmarks.md
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
}

/// Returns the command that repeats this run, with programs by their file names, because folders
/// differ between machines. `arguments` are those after `cargo xtask bench`.
pub(crate) fn command_line(arguments: &[String]) -> String {
    let short = arguments.iter().map(|argument| {
        let (name, path) = argument.split_once('=').map_or(("", argument.as_str()), |pair| pair);
        let file = match path.rsplit_once(':') {
            Some((binary, _)) if binary.contains('/') => {
                path.replacen(&binary[..=binary.rfind('/').unwrap_or(0)], "", 1)
            }
            None if path.starts_with('/') => path.rsplit('/').next().unwrap_or_default().to_owned(),
            _ => path.to_owned(),
        };
        if name.is_empty() { file } else { format!("{name}={file}") }
    });
    std::iter::once("cargo xtask bench".to_owned()).chain(short).collect::<Vec<_>>().join(" ")
}

/// Parses a duration of 1 to 3600 whole seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration> {
    let seconds = text.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds.map(Duration::from_secs).context("expected a whole number from 1 to 3600")
}

/// Returns an error for a scenario in `given` that is not in `known`.
pub(crate) fn check_scenarios(given: &[String], known: &[&str]) -> Result<()> {
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => bail!("no scenario is named `{name}`; known ones: {}", known.join(", ")),
        None => Ok(()),
    }
}

fn server(text: &str) -> Result<Target> {
    target("agentd", text)
}

fn peer(text: &str) -> Result<Target> {
    let (name, target_text) =
        text.split_once('=').context("expected NAME=BINARY:HOME_ENV, as in mine=/bin/mine:HOME")?;
    target(name, target_text)
}

fn target(name: &str, text: &str) -> Result<Target> {
    match text.rsplit_once(':') {
        Some((binary, home)) if !binary.is_empty() && !home.is_empty() && !name.is_empty() => {
            Ok(Target::new(name, binary, home))
        }
        _ => bail!("expected BINARY:HOME_ENV, as in target/release/agentd:AGENT_HOME"),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn parse(line: &[&str]) -> Result<Options, clap::Error> {
        let command = Options::augment_args(clap::Command::new("bench").no_binary_name(true));
        Options::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    #[test]
    fn options_are_parsed() {
        let line = "--peer x=/a/b:HOME_X --runs 3 --seconds 60 --scenario turn --write d.md";
        let options = parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(options.peers, [Target::new("x", "/a/b", "HOME_X")]);
        assert_eq!((options.runs, options.time), (3, Duration::from_secs(60)));
        assert!(options.includes("turn") && !options.includes("disk"));
    }

    #[test]
    fn errors_name_what_is_expected() {
        for (line, expected) in [
            ("--runs 0", "0 is not in 1..=10000"),
            ("--seconds 4000", "expected a whole number from 1 to 3600"),
            ("--runs", "a value is required"),
            ("--peer /a:B", "expected NAME=BINARY:HOME_ENV"),
            ("--server /a", "expected BINARY:HOME_ENV"),
            ("--fast", "unexpected argument '--fast'"),
        ] {
            let message = parse(&line.split(' ').collect::<Vec<_>>()).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn an_unknown_scenario_is_refused() {
        let options = parse(&["--scenario", "x"]).unwrap();
        let message = options.check_scenarios(&["turn", "disk"]).unwrap_err().to_string();
        assert_eq!(message, "no scenario is named `x`; known ones: turn, disk");
        assert!(options.check_scenarios(&["x"]).is_ok());
    }

    #[test]
    fn the_command_line_names_no_folders() {
        let arguments = "--peer x=/opt/y/bin/x:X_HOME --server a/b:B --model-server /opt/z/agentd \
                         --write docs/b.md";
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        assert_eq!(
            command_line(&arguments),
            "cargo xtask bench --peer x=x:X_HOME --server b:B --model-server agentd --write docs/b.md"
        );
    }
}
