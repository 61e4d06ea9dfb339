//! The order of functions in the program that is shipped: first those that run from the start of
//! `agentd app-server` until its first thread has started, then those that the terminal program runs
//! besides until it has started, and until its first turn has ended. Spread over the program they made
//! the kernel map 11 MB of it; side by side they take 3 MB.
//!
//! `cargo xtask package` makes the order from the build itself: it builds the program, runs it under
//! valgrind, and links it again. So no names are committed, and none is out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::bench::model_server::{ModelServer, Script};
use crate::bench::target;
use crate::bench::terminal::{PROMPT, Terminal};
use xtask::{checkout, steps};

/// The variable that names the file to the build script of `cli`.
pub(crate) const VARIABLE: &str = "AGENTD_LINK_ORDER";
/// Name of the file, below the target folder and among the packages.
pub(crate) const FILE: &str = "link-order.txt";
/// The profile of what is shipped.
const PROFILE: &str = "dist";
/// The order costs a second link, so it must save at least this much resident memory.
const LEAST_SAVED_KB: u64 = 1024;
/// Starts of each program, of which the one with the least memory counts.
const STARTS: usize = 3;
/// The requests to the program, a line each.
const REQUESTS: &str = concat!(
    r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"link-order","version":"1"}}}"#,
    "\n",
    r#"{"method":"initialized"}"#,
    "\n",
    r#"{"id":2,"method":"thread/start","params":{}}"#,
    "\n",
);

/// Returns whether programs of a profile are linked in an order. It takes the linker that the compiler
/// brings for this system alone.
pub(crate) fn applies(profile: &str) -> bool {
    let brings_linker = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));
    profile == PROFILE && brings_linker
}

/// The order of the last program that was packaged.
pub(crate) fn file(root: &Path) -> PathBuf {
    checkout::target(root).join(FILE)
}

/// Builds the program without an order, with its symbols, and writes the order of its functions to
/// [`file`]. Returns a copy of that program, which the next build would replace.
pub(crate) fn make(root: &Path) -> Result<PathBuf> {
    let build = ["rustc", "--locked", "--profile", PROFILE, "--package", "cli", "--bin", "agentd"];
    steps::Program::cargo(root, &[&build[..], &["--", "-C", "strip=none"]].concat())
        .env(VARIABLE, "")
        .succeed("fix the errors above")
        .map_err(|failed| anyhow!(failed.message))?;
    let folder = checkout::target(root).join(PROFILE);
    let program = folder.join("agentd-unordered");
    std::fs::copy(folder.join("agentd"), &program)
        .with_context(|| program.display().to_string())?;
    write(&program, &file(root))?;
    Ok(program)
}

/// Runs the program under valgrind, and writes the names of the functions that ran.
fn write(program: &Path, file: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = called_by_server(program, folder.path())?;
    let start = called_by_terminal(program, folder.path(), None)?;
    let turn = called_by_terminal(program, folder.path(), Some("hello"))?;
    let defined = defined_functions(program)?;
    let first: BTreeSet<String> = server.union(&start).cloned().collect();
    let of_start = start.difference(&server);
    let names: Vec<&str> = (server.iter().chain(of_start).chain(turn.difference(&first)))
        .map(String::as_str)
        .filter(|name| defined.contains_key(*name))
        .collect();
    ensure!(names.len() > 1_000, "valgrind found only {} functions", names.len());
    let bytes: u64 = names.iter().filter_map(|name| defined.get(*name)).sum();
    std::fs::write(file, names.join("\n") + "\n").with_context(|| file.display().to_string())?;
    println!("link order: {} functions of {} KB", names.len(), bytes / 1024);
    Ok(())
}

/// Fails unless the program that was linked in the order takes less memory than the one that was not.
pub(crate) fn check(unordered: &Path, ordered: &Path) -> Result<()> {
    let (before, after) = (mapped(unordered)?, mapped(ordered)?);
    println!(
        "resident memory that is mapped from files, after a thread has started: {before} KB, {after} KB in the order"
    );
    ensure!(
        before >= after + LEAST_SAVED_KB,
        "the link order saves less than {LEAST_SAVED_KB} KB of memory: find out why, or remove it (tools/src/link_order.rs)"
    );
    Ok(())
}

/// The memory that a server has mapped from files when its first thread has started, in KB.
fn mapped(program: &Path) -> Result<u64> {
    let once = || {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(program);
        at_home(&mut command, folder.path());
        let mut mapped = Ok(0);
        serve(command, |server| mapped = files_in_memory(server.id()))?;
        mapped
    };
    let starts: Vec<u64> = (0..STARTS).map(|_| once()).collect::<Result<_>>()?;
    starts.into_iter().min().context("no start")
}

fn files_in_memory(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    kilobytes(&status).context("the kernel does not tell `RssFile`")
}

/// From `RssFile:      1234 kB`.
fn kilobytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssFile:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Runs a server until its first thread has started, and calls `started` then.
fn serve(mut command: Command, started: impl FnOnce(&Child)) -> Result<()> {
    let mut server = command
        .arg("app-server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} cannot be started", command.get_program().display()))?;
    let mut stdin = server.stdin.take().context("standard input")?;
    stdin.write_all(REQUESTS.as_bytes())?;
    let stdout = server.stdout.take().context("standard output")?;
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let answered = lines.any(|line| line.contains(r#""id":2"#));
    started(&server);
    drop(stdin);
    // A program whose output is closed fails: it has more to say, such as that the thread started.
    lines.for_each(drop);
    let ended = server.wait()?;
    ensure!(answered && ended.success(), "the program did not start a thread ({ended})");
    Ok(())
}

/// The names of the functions that a server runs.
fn called_by_server(program: &Path, folder: &Path) -> Result<BTreeSet<String>> {
    let profile = folder.join("server");
    serve(profiled(program, folder, &profile), |_| ())?;
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
        .arg(program);
    at_home(&mut command, home);
    command
}

fn at_home(command: &mut Command, home: &Path) {
    command.env("AGENT_HOME", home).env("HOME", home).current_dir(home);
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
    fn mapped_memory_is_read_from_the_kernel() {
        assert_eq!(kilobytes("VmRSS:\t 9 kB\nRssFile:\t    1234 kB\n"), Some(1234));
        assert_eq!(kilobytes("VmRSS:\t 9 kB\n"), None);
    }

    #[test]
    fn names_are_read_from_a_profile() {
        let profile = "fn=(1) main\ncfn=(2) _ZN1a1b17h0E'2\ncalls=1 0\nfn=(2)\nfl=(3) a.rs\n";
        let names: Vec<String> = names_of_profile(profile).into_iter().collect();
        assert_eq!(names, ["_ZN1a1b17h0E", "main"]);
    }
}
