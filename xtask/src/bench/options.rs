//! The command line of `cargo xtask bench`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::target::Target;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [options]
       cargo xtask bench gateway [options]   # `--help` lists its own

  --server BINARY:HOME_ENV      the server to measure, and the variable that names its home folder
                                (default: a `dist` build of this checkout, with AGENT_HOME)
  --peer NAME=BINARY:HOME_ENV   another server to compare with; may be given several times
  --model-server BINARY         the program with the scripted model (default: that `dist` build)
  --scenario NAME               only this one; may be given several times
  --runs N                      repeats of each quick measurement (default 20)
  --seconds N                   how long load is kept up in each measurement under load (default 10)
  --write FILE                  also writes the page, as in docs/benchmarks.md";

#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) server: Option<Target>,
    pub(crate) peers: Vec<Target>,
    pub(crate) model_server: Option<PathBuf>,
    pub(crate) scenarios: Vec<String>,
    pub(crate) runs: usize,
    pub(crate) time: Duration,
    pub(crate) write: Option<PathBuf>,
}

impl Options {
    /// `None` when help was asked for.
    pub(crate) fn parse(arguments: &[&str], scenarios: &[&str]) -> Result<Option<Options>> {
        let time = Duration::from_secs(10);
        let mut options = Options { runs: 20, time, ..Options::default() };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            if ["--help", "-h"].contains(option) {
                return Ok(None);
            }
            let mut value =
                || rest.next().copied().with_context(|| format!("{option} needs a value"));
            match *option {
                "--server" => options.server = Some(target("agentd", value()?)?),
                "--peer" => {
                    let peer = value()?;
                    let (name, place) = peer
                        .split_once('=')
                        .with_context(|| format!("--peer {peer}: write NAME=BINARY:HOME_ENV"))?;
                    options.peers.push(target(name, place)?);
                }
                "--model-server" => options.model_server = Some(value()?.into()),
                "--scenario" => {
                    let name = value()?;
                    if !scenarios.contains(&name) {
                        bail!("no scenario `{name}`; there are {}", scenarios.join(", "));
                    }
                    options.scenarios.push(name.to_owned());
                }
                "--runs" => {
                    options.runs = number(option, value()?, 10_000)? as usize;
                }
                "--seconds" => {
                    options.time = Duration::from_secs(number(option, value()?, 3600)?);
                }
                "--write" => options.write = Some(value()?.into()),
                other => bail!("no option `{other}`\n\n{USAGE}"),
            }
        }
        Ok(Some(options))
    }

    pub(crate) fn wants(&self, scenario: &str) -> bool {
        self.scenarios.is_empty() || self.scenarios.iter().any(|name| name == scenario)
    }
}

/// The command that makes the same page again, with programs by their file names: folders differ
/// from machine to machine.
pub(crate) fn shown(arguments: &[&str]) -> String {
    let short = arguments.iter().map(|argument| {
        let (name, place) = argument.split_once('=').map_or(("", *argument), |(n, p)| (n, p));
        let file = match place.rsplit_once(':') {
            Some((binary, _)) if binary.contains('/') => {
                place.replacen(&binary[..=binary.rfind('/').unwrap_or(0)], "", 1)
            }
            // A program by its full path.
            None if place.starts_with('/') => {
                place.rsplit('/').next().unwrap_or_default().to_owned()
            }
            _ => place.to_owned(),
        };
        if name.is_empty() { file } else { format!("{name}={file}") }
    });
    std::iter::once("cargo xtask bench".to_owned()).chain(short).collect::<Vec<_>>().join(" ")
}

fn number(option: &str, value: &str, most: u64) -> Result<u64> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.with_context(|| format!("{option} {value}: a whole number from 1 to {most}"))
}

fn target(name: &str, place: &str) -> Result<Target> {
    match place.rsplit_once(':') {
        Some((binary, home)) if !binary.is_empty() && !home.is_empty() && !name.is_empty() => {
            Ok(Target::new(name, binary, home))
        }
        _ => bail!("{place}: write BINARY:HOME_ENV, as in target/release/agentd:AGENT_HOME"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse(
            &[
                "--peer",
                "x=/a/b:HOME_X",
                "--runs",
                "3",
                "--seconds",
                "60",
                "--scenario",
                "turn",
                "--write",
                "d.md",
            ],
            &["turn", "disk"],
        );
        let options = options.unwrap().unwrap();
        assert_eq!(options.peers, [Target::new("x", "/a/b", "HOME_X")]);
        assert_eq!((options.runs, options.time), (3, Duration::from_secs(60)));
        assert!(options.wants("turn") && !options.wants("disk"));
        assert!(Options::parse(&["--help"], &[]).unwrap().is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, expected) in [
            (vec!["--runs", "0"], "--runs 0: a whole number"),
            (vec!["--seconds", "4000"], "--seconds 4000: a whole number from 1 to 3600"),
            (vec!["--runs"], "--runs needs a value"),
            (vec!["--scenario", "x"], "no scenario `x`; there are turn"),
            (vec!["--peer", "/a:B"], "write NAME=BINARY:HOME_ENV"),
            (vec!["--server", "/a"], "write BINARY:HOME_ENV"),
            (vec!["--fast"], "no option `--fast`"),
        ] {
            let message = Options::parse(&arguments, &["turn"]).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn the_shown_command_has_no_folders() {
        assert_eq!(
            shown(&[
                "--peer",
                "x=/opt/y/bin/x:X_HOME",
                "--server",
                "a/b:B",
                "--model-server",
                "/opt/z/agentd",
                "--write",
                "docs/b.md"
            ]),
            "cargo xtask bench --peer x=x:X_HOME --server b:B --model-server agentd --write docs/b.md"
        );
    }
}
