//! `cargo xtask clients`: runs the official Python and JavaScript clients of the hosted API, as they
//! come from their registries, against `agentd gateway` with the offline model behind it. It needs a
//! network the first time, and is no part of `cargo xtask test`.

mod gateway;
mod outcome;
mod page;
mod tools;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::bench::gateway::Starter;
use crate::test::program::Program;
use outcome::{Line, Outcome};
use tools::Client;

const USAGE: &str = "\
usage: cargo xtask clients [options]

  --agentd PROGRAM      the program to test (default: a debug build of this checkout)
  --write               also writes docs/gateway-clients.md, when every check passed

It needs python3 with venv and pip, node and npm.";

/// The page that `--write` writes.
const PAGE: &str = "docs/gateway-clients.md";
/// Longer than any check waits for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where the gateway and the client run; they wait for each other most of the time.
const CORE: usize = 0;

pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let Some(options) = Options::parse(arguments)? else {
        println!("{USAGE}");
        return Ok(());
    };
    tools::check()?;
    let agentd = match options.agentd {
        Some(program) => program,
        None => build(root)?,
    };
    let starter = Starter { parts: std::env::current_exe().context("this program's own path")? };
    let mut outcomes = Vec::new();
    for client in tools::install(root, &target(root))? {
        println!("── {}", client.language);
        let outcome = try_client(&starter, root, &agentd, &client);
        outcomes.push(outcome.with_context(|| format!("the {} client", client.language))?);
    }
    println!("\n{}", page::summary(&outcomes));
    let failed: usize = outcomes.iter().map(Outcome::failed).sum();
    ensure!(failed == 0, "{failed} checks failed: see the lines above that begin with FAIL");
    if options.write {
        let path = root.join(PAGE);
        std::fs::write(&path, page::page(&outcomes)).with_context(|| path.display().to_string())?;
        println!("wrote {PAGE}");
    }
    Ok(())
}

/// One client against a gateway of its own: what the other did counts for nothing.
fn try_client(starter: &Starter, root: &Path, agentd: &Path, client: &Client) -> Result<Outcome> {
    let mut gateway = gateway::start(starter, root, agentd)?;
    let mut command = client.command();
    command.env("GATEWAY_URL", &gateway.url).env("GATEWAY_ADMIN_TOKEN", gateway::TOKEN);
    let mut script = starter.start(CORE, &command)?;
    let mut outcome = Outcome::new(client.language);
    loop {
        let (line, _) = script.line(PATIENCE, |line| Some(line.to_owned()))?;
        println!("{line}");
        match Line::read(&line) {
            Line::Count { passed, failed } => {
                outcome.check_count(passed, failed)?;
                break;
            }
            line => outcome.add(line),
        }
    }
    gateway.end()?;
    Ok(outcome)
}

fn build(root: &Path) -> Result<PathBuf> {
    let built = Program::cargo(root, &["build", "--package", "cli"]).succeed("see above");
    built.map_err(|failed| anyhow::anyhow!(failed.message))?;
    Ok(target(root).join("debug/agentd"))
}

fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    agentd: Option<PathBuf>,
    write: bool,
}

impl Options {
    /// `None` when help was asked for.
    fn parse(arguments: &[&str]) -> Result<Option<Options>> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            match *option {
                "--help" | "-h" => return Ok(None),
                "--write" => options.write = true,
                "--agentd" => {
                    let named = rest.next().context("--agentd needs a value")?;
                    // It is started in another folder.
                    let program = Path::new(named).canonicalize();
                    options.agentd = Some(program.with_context(|| format!("--agentd {named}"))?);
                }
                other => bail!("no option `{other}`\n\n{USAGE}"),
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |arguments: &[&str]| Options::parse(arguments).map_err(|e| e.to_string());
        assert_eq!(read(&[]), Ok(Some(Options::default())));
        assert_eq!(read(&["--write"]), Ok(Some(Options { write: true, agentd: None })));
        assert_eq!(read(&["--help"]), Ok(None));
        for (arguments, expected) in [
            (&["--agentd"][..], "--agentd needs a value"),
            (&["--agentd", "/no/such/program"], "--agentd /no/such/program"),
            (&["--fast"], "no option `--fast`"),
        ] {
            let message = read(arguments).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
