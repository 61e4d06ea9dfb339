//! `cargo xtask effects`: whether the test that shows the effect of a key fails without it. Runs each test that
//! is named for a key of `config.toml`, with that key ignored (`config/src/ignored_key.rs`): one that passes all
//! the same shows nothing. A key without a test of the crates below takes its value in another way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use xtask::steps::{Program, SCOPE};

use crate::generate::key_status::{EffectTest, effect_tests};

/// Crates whose tests read a configuration from files and variables.
const CRATES: [&str; 3] = ["cli", "config", "server"];
/// Ignores a key.
const VARIABLE: &str = "AGENTD_TEST_IGNORED_KEY";
/// A test that waits so long for what the key does has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only keys that contain one of these
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
}

/// Runs the tests.
///
/// # Errors
/// A test passes without its key, or fails with it.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let programs = programs(root)?;
    let is_wanted = |key: &str| {
        options.keys.is_empty() || options.keys.iter().any(|part| key.contains(part.as_str()))
    };
    let (mut shown, mut elsewhere, mut wrong) = (0_usize, 0_usize, Vec::new());
    for (key, tests) in effect_tests(root)?.into_iter().filter(|(key, _)| is_wanted(key)) {
        let here: Vec<&EffectTest> =
            tests.iter().filter(|test| CRATES.contains(&test.krate.as_str())).collect();
        if here.is_empty() {
            elsewhere += 1;
            continue;
        }
        // One of several is enough.
        let mut passing = Vec::new();
        for test in &here {
            let program = programs.get(&test.krate).context("no program of tests")?;
            if passes(program, &test.file, &test.function, Some(&key))? {
                passing.push(test.to_string());
            }
        }
        if passing.len() < here.len() {
            shown += 1;
            continue;
        }
        println!("`{key}`: {} passes without it", passing.join(", "));
        wrong.push(key);
    }
    println!(
        "{shown} keys have a test that fails without them, {elsewhere} are tested without a configuration"
    );
    ensure!(wrong.is_empty(), "{} keys have no test that fails without them", wrong.len());
    Ok(())
}

/// Builds the tests; returns the program of each crate.
fn programs(root: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let arguments = [&["test", "--no-run", "--message-format", "json"][..], &SCOPE].concat();
    let output = Program::linted(root, &arguments).stdout()?;
    let mut programs = BTreeMap::new();
    for message in output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (Some(program), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let folder = Path::new(manifest).parent().and_then(Path::file_name);
        let is_suite = message["target"]["kind"] == serde_json::json!(["test"]);
        if let Some(name) = folder.and_then(|name| name.to_str()).filter(|_| is_suite) {
            programs.insert(name.to_owned(), PathBuf::from(program));
        }
    }
    ensure!(!programs.is_empty(), "no program of tests was built: see the messages above");
    Ok(programs)
}

/// Returns whether the tests of that name pass.
fn passes(program: &Path, file: &str, function: &str, ignored: Option<&str>) -> Result<bool> {
    let listed = Command::new(program).args(["--list", "--format", "terse"]).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let path = format!("{file}::{function}");
    let is_it = |name: &&str| *name == path || name.ends_with(&format!("::{path}"));
    let Some(name) = names.into_iter().find(is_it) else {
        bail!("{} has no test `{path}`", program.display());
    };
    let mut command = Command::new(program);
    command.args([name, "--exact"]).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(key) = ignored {
        command.env(VARIABLE, key);
    }
    let mut child = command.spawn().with_context(|| program.display().to_string())?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            child.kill().map_err(|error| anyhow!("cannot end {name}: {error}"))?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
