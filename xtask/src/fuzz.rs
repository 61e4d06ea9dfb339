//! `cargo xtask fuzz`: builds the targets of `fuzz/` with coverage counters, and runs them side by
//! side. What they find worth keeping stays in the build folder and is where the next run begins.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::builder::PossibleValuesParser;

/// The targets, and how long their inputs may be.
const TARGETS: &[(&str, usize)] = &[
    ("catalog", 2048),
    ("gateway_answer", 2048),
    ("gateway_body", 1024),
    ("gateway_multipart", 2048),
    ("hooks", 4096),
    ("images", 4096),
    ("limits", 2048),
    ("markdown", 2048),
    ("migration", 4096),
    ("output", 2048),
    ("patch", 2048),
    ("plugins", 2048),
    ("realtime", 2048),
    ("rules", 1024),
    ("search", 1024),
    ("shell", 1024),
    ("skill", 2048),
    ("token", 1024),
    ("tool_schema", 2048),
    ("websocket", 2048),
    ("wire", 16 << 10),
];
/// The compiler's additions for libFuzzer: counters of edges, and the operands of comparisons.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];
/// Scripts, one a line, that the shell's target begins with.
const SCRIPTS: &str = "crates/sandbox/src/rules/tests";

/// Time for which the checks run each target: long enough to replay the corpus and to vary it.
pub(crate) const SECONDS_IN_CHECKS: u64 = 5;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The targets to run [default: all]
    #[arg(value_name = "TARGET", value_parser = target_names())]
    targets: Vec<String>,
    /// Time to run each target, in seconds
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
}

fn target_names() -> PossibleValuesParser {
    TARGETS.iter().map(|(name, _)| *name).into()
}

/// Runs the targets that `options` name, or all.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let is_chosen = |name: &str| {
        options.targets.is_empty() || options.targets.iter().any(|target| target == name)
    };
    let chosen = TARGETS.iter().filter(|(name, _)| is_chosen(name));
    let chosen = chosen.copied().collect::<Vec<_>>();
    all(root, &chosen, Duration::from_secs(options.seconds), "release").map(drop)
}

/// Runs every target for `seconds`, built in less time than for a long run; how many there are.
pub(crate) fn run_all(root: &Path, seconds: u64) -> Result<usize> {
    all(root, TARGETS, Duration::from_secs(seconds), "quick")
}

fn all(root: &Path, targets: &[(&str, usize)], time: Duration, profile: &str) -> Result<usize> {
    let place = build_folder(root);
    let programs = build(root, &place, profile)?;
    let mut running = Vec::new();
    for (name, longest) in targets {
        running.push(start(root, &place, &programs, (name, *longest), time)?);
    }
    let mut failed = Vec::new();
    for Running { name, mut child, log } in running {
        let status = child.wait().with_context(|| format!("waiting for the target `{name}`"))?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let runs = text.lines().rev().find(|line| line.starts_with("Done "));
        println!("fuzz {name}: {}", runs.unwrap_or("ended early"));
        if !status.success() {
            let end: Vec<&str> = text.lines().rev().take(30).collect();
            eprintln!("{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
            failed.push(name);
        }
    }
    if failed.is_empty() {
        return Ok(targets.len());
    }
    let found = place.join("found");
    bail!(
        "fuzzing found failing inputs for {}; the inputs are in {}. Add each as a test next to the parser",
        failed.join(", "),
        found.display()
    )
}

fn build_folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(|folder| root.join(folder));
    target.unwrap_or_else(|| root.join("target")).join("fuzz")
}

/// Builds the targets with a profile of `fuzz/Cargo.toml`; where the programs are.
fn build(root: &Path, place: &Path, profile: &str) -> Result<PathBuf> {
    // With a target given, build scripts and macros get no counters.
    let host = host()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--profile",
            profile,
            "--locked",
            "--quiet",
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(place)
        .current_dir(root.join("fuzz"))
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        .stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
    let status = command.status().context("cargo cannot be started")?;
    if !status.success() {
        bail!("the fuzz targets cannot be built ({status}); they need a C++ compiler");
    }
    Ok(place.join(host).join(profile))
}

fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| anyhow!("`rustc -vV` names no host"))
}

struct Running {
    name: String,
    child: Child,
    log: PathBuf,
}

fn start(
    root: &Path,
    place: &Path,
    programs: &Path,
    (name, longest): (&str, usize),
    time: Duration,
) -> Result<Running> {
    let corpus = place.join("corpus").join(name);
    let found = place.join("found");
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let mut seeds = vec![root.join("fuzz/seeds").join(name)];
    if name == "shell" {
        let scripts = place.join("scripts");
        write_scripts(&root.join(SCRIPTS), &scripts)?;
        seeds = vec![scripts];
    }
    let log = place.join(format!("{name}.log"));
    let printed = File::create(&log).with_context(|| format!("making {}", log.display()))?;
    let dictionary = root.join("fuzz/dictionaries").join(format!("{name}.dict"));
    let mut command = Command::new(programs.join(name));
    command
        .arg(format!("-max_total_time={}", time.as_secs()))
        .arg(format!("-max_len={longest}"))
        .args(["-timeout=20", "-rss_limit_mb=2048", "-verbosity=1"])
        .arg(format!("-artifact_prefix={}/{name}-", found.display()))
        .arg(&corpus)
        .args(&seeds)
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(printed);
    // Inputs that are numbers rather than words have no dictionary.
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    let child = command.spawn().with_context(|| format!("starting the target `{name}`"))?;
    Ok(Running { name: name.to_owned(), child, log })
}

/// One file a script of the tables that tests judge.
fn write_scripts(tables: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for table in ["safe.txt", "unsafe.txt", "ordinary.txt"] {
        let path = tables.join(table);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        for (number, line) in text.lines().enumerate() {
            let script = line.split_once('\t').map_or(line, |(_, script)| script);
            fs::write(to.join(format!("{table}-{number}")), script)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_run() {
        let folder = xtask::workspace_root().join("crates/fuzz-targets/src");
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| !["input", "lib"].contains(&name.as_str()))
            .collect();
        files.sort_unstable();
        let run: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(run, files);
    }
}
