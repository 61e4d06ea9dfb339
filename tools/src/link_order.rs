//! Writes `crates/cli/link-order.txt`: the functions that run from the start of `agentd app-server`
//! until its first thread has started, then those that the terminal program runs besides until it has
//! started, and until its first turn has ended. The linker puts them side by side in the `dist` profile.
//!
//! The file needs no upkeep to stay correct: a function that it misses stands elsewhere, and a name that
//! no longer exists is ignored. Write it again when `cargo xtask bench` shows more resident memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::model_server::{ModelServer, Script};
use crate::bench::target;
use crate::bench::terminal::{PROMPT, Terminal};

/// The file, from the root of the repository.
const FILE: &str = "crates/cli/link-order.txt";
/// The requests to the program, a line each.
const REQUESTS: &str = concat!(
    r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"link-order","version":"1"}}}"#,
    "\n",
    r#"{"method":"initialized"}"#,
    "\n",
    r#"{"id":2,"method":"thread/start","params":{}}"#,
    "\n",
);

/// Builds the program with its symbols, runs it under valgrind, and writes the file.
pub(crate) fn run(root: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["rustc", "--profile", "dist", "--package", "cli", "--bin", "agentd"])
        .args(["--", "-C", "strip=none"])
        .current_dir(root)
        .status()
        .context("cargo")?;
    ensure!(built.success(), "the program could not be built: see above");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = root.join(target).join("dist/agentd");
    let folder = tempfile::tempdir()?;
    let server = called_by_server(&program, folder.path())?;
    let start = called_by_terminal(&program, folder.path(), None)?;
    let turn = called_by_terminal(&program, folder.path(), Some("hello"))?;
    let defined = defined_functions(&program)?;
    let first: BTreeSet<String> = server.union(&start).cloned().collect();
    let of_start = start.difference(&server);
    let names: Vec<&str> = (server.iter().chain(of_start).chain(turn.difference(&first)))
        .map(String::as_str)
        .filter(|name| defined.contains_key(*name))
        .collect();
    ensure!(names.len() > 1_000, "valgrind found only {} functions", names.len());
    let bytes: u64 = names.iter().filter_map(|name| defined.get(*name)).sum();
    std::fs::write(root.join(FILE), names.join("\n") + "\n")?;
    println!("{FILE}: {} functions of {} KB", names.len(), bytes / 1024);
    Ok(())
}

/// The names of the functions that a server runs.
fn called_by_server(program: &Path, folder: &Path) -> Result<BTreeSet<String>> {
    let profile = folder.join("server");
    let mut server = profiled(program, folder, &profile)
        .arg("app-server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("valgrind: install it first")?;
    let mut stdin = server.stdin.take().context("standard input")?;
    stdin.write_all(REQUESTS.as_bytes())?;
    let stdout = server.stdout.take().context("standard output")?;
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let answered = lines.any(|line| line.contains(r#""id":2"#));
    drop(stdin);
    // A program whose output is closed fails: it has more to say, such as that the thread started.
    lines.for_each(drop);
    let ended = server.wait()?;
    ensure!(answered && ended.success(), "the program did not start a thread ({ended})");
    read_profile(&profile)
}

/// The names of the functions that the terminal program runs with a model that is asked over HTTP, until
/// it has started or, with a message, until the turn of it has ended.
fn called_by_terminal(
    program: &Path,
    folder: &Path,
    message: Option<&str>,
) -> Result<BTreeSet<String>> {
    let model = ModelServer::start(program, &Script::Deltas { count: 20, delay_ms: 10 })?;
    let name = if message.is_some() { "turn" } else { "start" };
    let home = folder.join(name);
    let work = home.join("work");
    std::fs::create_dir_all(&work)?;
    let trusted = toml::Table::from_iter([("trust_level".to_owned(), "trusted".into())]);
    let projects = toml::Table::from_iter([(work.display().to_string(), trusted.into())]);
    let mut config: toml::Table = target::config(&model.base_url).parse()?;
    config.insert("projects".to_owned(), projects.into());
    std::fs::write(home.join("config.toml"), toml::to_string(&config)?)?;
    let profile = home.join("profile");
    let mut command = profiled(program, &home, &profile);
    command.env("TERM", "xterm-256color").current_dir(&work);
    let mut terminal = Terminal::spawn(command, None)?;
    terminal.wait_for(PROMPT)?;
    terminal.settle(Duration::from_secs(5))?;
    if let Some(message) = message {
        terminal.write_message(message)?;
        terminal.send(b"\r")?;
        terminal.settle(Duration::from_secs(5))?;
    }
    // Ctrl+D, with nothing written, ends it.
    terminal.send(b"\x04")?;
    let ended = terminal.wait()?;
    ensure!(ended.success(), "the terminal program failed ({ended})");
    read_profile(&profile)
}

fn profiled(program: &Path, home: &Path, profile: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(program)
        .env("AGENT_HOME", home)
        .env("HOME", home)
        .current_dir(home);
    command
}

fn read_profile(profile: &Path) -> Result<BTreeSet<String>> {
    let profile = std::fs::read(profile).with_context(|| profile.display().to_string())?;
    Ok(names_of_profile(&String::from_utf8_lossy(&profile)))
}

/// The names in the lines `fn=(12) name` and `cfn=(12) name`; a recursion ends in `'2`.
fn names_of_profile(profile: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let call = line.strip_prefix("fn=(").or_else(|| line.strip_prefix("cfn=("))?;
        let (_, name) = call.split_once(") ")?;
        let name = name.rsplit_once('\'').map_or(name, |(name, _)| name);
        Some(name.to_owned())
    };
    profile.lines().filter_map(name).collect()
}

/// The functions of the program with their sizes in bytes.
fn defined_functions(program: &Path) -> Result<BTreeMap<String, u64>> {
    let listed = Command::new("nm").arg("-S").arg(program).output().context("nm")?;
    ensure!(listed.status.success(), "nm cannot read {}", program.display());
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let function = |line: &str| {
        let [_, size, kind, name] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let size = u64::from_str_radix(size, 16).ok()?;
        matches!(kind, "t" | "T" | "w" | "W").then(|| (name.to_owned(), size))
    };
    Ok(listed.lines().filter_map(function).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_a_profile() {
        let profile = "fn=(1) main\ncfn=(2) _ZN1a1b17h0E'2\ncalls=1 0\nfn=(2)\nfl=(3) a.rs\n";
        let names: Vec<String> = names_of_profile(profile).into_iter().collect();
        assert_eq!(names, ["_ZN1a1b17h0E", "main"]);
    }
}
