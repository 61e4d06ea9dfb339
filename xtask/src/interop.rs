//! `cargo xtask interop`: other people's programs against this one, as they come from their registries.
//! It needs a network the first time, and is no part of `cargo xtask test`.

mod checkout;
mod clients;
mod patches;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::steps::When::InTurn;
use crate::steps::{self, Step};

const USAGE: &str = "\
usage: cargo xtask interop [STEP…] [--write]

  --write               also writes the pages of docs/ that show what was tried

It needs python3 with venv and pip, node and npm.";

const STEPS: &[Step] = &[
    Step { name: "patches", when: InTurn, check: patches::check },
    Step { name: "gateway clients", when: InTurn, check: clients::check },
];

/// A step's name, and what writes its page.
type Writer = (&'static str, fn(&Path) -> Result<()>);

const WRITERS: &[Writer] = &[("patches", patches::write), ("gateway clients", clients::write)];

pub(crate) fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let options = match Options::parse(arguments) {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    if options.write {
        let chosen = WRITERS.iter().filter(|(name, _)| options.includes(name));
        for (name, write) in chosen {
            if let Err(error) = write(root) {
                eprintln!("error: {name}: {error:#}");
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<Step> =
        STEPS.iter().filter(|step| options.includes(step.name)).copied().collect();
    steps::run(root, &chosen)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Empty: all.
    steps: Vec<&'static str>,
    write: bool,
}

impl Options {
    /// `None` when help was asked for.
    fn parse(arguments: &[&str]) -> Result<Option<Options>> {
        let mut options = Options::default();
        for argument in arguments {
            match *argument {
                "--help" | "-h" => return Ok(None),
                "--write" => options.write = true,
                name => match STEPS.iter().find(|step| step.name == name) {
                    Some(step) => options.steps.push(step.name),
                    None => {
                        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                        bail!("no step `{name}`; there are: {}\n\n{USAGE}", known.join(", "));
                    }
                },
            }
        }
        Ok(Some(options))
    }

    fn includes(&self, name: &str) -> bool {
        self.steps.is_empty() || self.steps.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |arguments: &[&str]| Options::parse(arguments).map_err(|e| e.to_string());
        assert_eq!(read(&[]), Ok(Some(Options::default())));
        let one = Options { steps: vec!["gateway clients"], write: true };
        assert_eq!(read(&["gateway clients", "--write"]), Ok(Some(one)));
        assert_eq!(read(&["--help"]), Ok(None));
        let message = read(&["--fast"]).unwrap_err();
        assert!(
            message.starts_with("no step `--fast`; there are: patches, gateway clients"),
            "{message}"
        );
    }
}
