//! The command line of `cargo xtask bench gateway`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::contestant::Who;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench gateway [options]

  --agentd PROGRAM      the program to measure (default: a `dist` build of this checkout)
  --nginx PROGRAM       nginx, to compare with (default: the one on the path, if any)
  --litellm PROGRAM     LiteLLM's proxy, to compare with (default: the one on the path, if any)
  --contestant NAME     only this one: agentd, limits-off, nginx, litellm, straight; may be given
                        several times
  --scenario NAME       only this one; may be given several times
  --seconds N           how long each figure is measured (default 10)
  --write FILE          also writes the page, as in docs/gateway-benchmarks.md

It needs two cores that nothing else uses.";

#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) agentd: Option<PathBuf>,
    pub(crate) nginx: Option<PathBuf>,
    pub(crate) litellm: Option<PathBuf>,
    contestants: Vec<Who>,
    scenarios: Vec<String>,
    pub(crate) time: Duration,
    pub(crate) write: Option<PathBuf>,
}

impl Options {
    /// `None` when help was asked for.
    pub(crate) fn parse(arguments: &[&str], scenarios: &[&str]) -> Result<Option<Options>> {
        let mut options = Options { time: Duration::from_secs(10), ..Options::default() };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            if ["--help", "-h"].contains(option) {
                return Ok(None);
            }
            let mut value =
                || rest.next().copied().with_context(|| format!("{option} needs a value"));
            match *option {
                "--agentd" => options.agentd = Some(value()?.into()),
                "--nginx" => options.nginx = Some(value()?.into()),
                "--litellm" => options.litellm = Some(value()?.into()),
                "--contestant" => options.contestants.push(contestant(value()?)?),
                "--scenario" => {
                    let name = value()?;
                    if !scenarios.contains(&name) {
                        bail!("no scenario `{name}`; there are {}", scenarios.join(", "));
                    }
                    options.scenarios.push(name.to_owned());
                }
                "--seconds" => {
                    let value = value()?;
                    let seconds = value.parse().ok().filter(|number| (1..=3600).contains(number));
                    let seconds = seconds.with_context(|| {
                        format!("--seconds {value}: a whole number from 1 to 3600")
                    })?;
                    options.time = Duration::from_secs(seconds);
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

    pub(crate) fn has(&self, who: Who) -> bool {
        self.contestants.is_empty() || self.contestants.contains(&who)
    }
}

fn contestant(name: &str) -> Result<Who> {
    let known = |who: &Who| who.name().to_lowercase().replace(' ', "-") == name;
    Who::ALL.into_iter().find(known).with_context(|| {
        format!("no contestant `{name}`; there are agentd, limits-off, nginx, litellm, straight")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let arguments = ["--contestant", "limits-off", "--seconds", "3", "--scenario", "a"];
        let options = Options::parse(&arguments, &["a", "b"]).unwrap().unwrap();
        assert_eq!(options.time, Duration::from_secs(3));
        assert!(options.has(Who::LimitsOff) && !options.has(Who::Nginx));
        assert!(options.wants("a") && !options.wants("b"));
        assert!(Options::parse(&["-h"], &[]).unwrap().is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (arguments, expected) in [
            (vec!["--seconds", "0"], "--seconds 0: a whole number from 1 to 3600"),
            (vec!["--contestant", "x"], "no contestant `x`; there are agentd"),
            (vec!["--scenario", "x"], "no scenario `x`; there are a"),
            (vec!["--nginx"], "--nginx needs a value"),
            (vec!["--fast"], "no option `--fast`"),
        ] {
            let message = Options::parse(&arguments, &["a"]).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
