//! `cargo xtask interop`: other people's programs against this one, as they come from their registries.
//! It needs a network the first time, and is no part of `cargo xtask test`.

mod clients;
mod patches;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};

use crate::steps::When::InTurn;
use crate::steps::{self, Program, Step};
use crate::test::SCOPE;

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

/// A debug build of `agentd`, made as the tests make it.
fn agentd(root: &Path) -> Result<PathBuf> {
    // Of this program alone: a build of xtask would replace the one that runs.
    let build = [&["build", "--locked", "--bin", "agentd"][..], &SCOPE].concat();
    let built = Program::cargo(root, &build).succeed("mend what the compiler says above");
    built.map_err(|failed| anyhow!(failed.message))?;
    Ok(target(root).join("debug/agentd"))
}

fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
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

/// Writes a page of `docs/`.
fn write_page(root: &Path, page: &str, text: &str) -> Result<()> {
    let path = root.join(page);
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("wrote {page}");
    Ok(())
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
