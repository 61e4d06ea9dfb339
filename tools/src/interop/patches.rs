//! `apply_diff` of the Python package `openai-agents` against our crate `patch`, over random files and
//! patches. A difference without a known reason fails the step; the reasons are in `compare.rs`.

mod cases;
mod compare;
mod corpus;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};

use cases::{Case, Random};
use compare::Verdict;
use corpus::Compared;
use xtask::steps::{Done, Outcome, Program};

/// The script that calls the other implementation, and its version.
const SCRIPTS: &str = "crates/patch/tests/interop";
/// The cases of the ordinary tests.
const CORPUS: &str = "crates/patch/tests/suite/corpus.jsonl";
const CASES: usize = 20_000;
/// The corpus is chosen from this many more.
const CASES_FOR_CORPUS: usize = 60_000;
/// The corpus begins with the same cases each time it is written.
const SEED: u64 = 1;
/// The environment variable with another seed than that of each run, to look for new differences.
const SEED_VARIABLE: &str = "AGENTD_PATCH_SEED";

/// Compares other cases than those of the corpus.
pub(crate) fn check(root: &Path) -> Outcome {
    if !Program::exists("python3") {
        return Ok(Done::Skipped("python3 is not installed".to_owned()));
    }
    let seed = match std::env::var(SEED_VARIABLE) {
        Ok(seed) => {
            seed.parse().with_context(|| format!("{SEED_VARIABLE}: {seed:?} is no number"))?
        }
        Err(_) => SEED + 1,
    };
    println!("seed {seed}");
    let compared = compare_cases(root, seed, CASES)?;
    report(&compared)?;
    Ok(Done::Passed)
}

/// Writes the corpus.
pub(crate) fn write(root: &Path) -> Result<()> {
    let compared = compare_cases(root, SEED, CASES_FOR_CORPUS)?;
    report(&compared)?;
    let path = root.join(CORPUS);
    std::fs::write(&path, corpus::write(compared)?).with_context(|| path.display().to_string())?;
    println!("wrote {CORPUS}");
    Ok(())
}

/// Counts the verdicts; an error for an unexplained difference.
fn report(compared: &[Compared]) -> Result<()> {
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    for compared in compared {
        *counts.entry(compared.verdict).or_default() += 1;
    }
    for (verdict, count) in counts {
        println!("{count:6} {verdict:?}");
    }
    let unexplained = compared.iter().find(|compared| compared.verdict == Verdict::Unexplained);
    match unexplained {
        None => Ok(()),
        Some(Compared { case, ours, theirs, .. }) => Err(anyhow!(
            "an unexplained difference\nfile: {:?}\npatch:\n{}\nours:   {ours:?}\ntheirs: \
             {theirs:?}\nfix `patch`, or explain the difference in compare.rs and docs/deviations.md",
            case.before,
            case.diff
        )),
    }
}

fn compare_cases(root: &Path, seed: u64, count: usize) -> Result<Vec<Compared>> {
    let mut random = Random::new(seed);
    let cases: Vec<Case> = (0..count).map(|_| cases::case(&mut random)).collect();
    let theirs = theirs(root, &cases)?;
    ensure!(theirs.len() == cases.len(), "{} answers to {} cases", theirs.len(), cases.len());
    let compared = cases.into_iter().zip(theirs).map(|(case, theirs)| {
        let ours = compare::ours(&case);
        let verdict = compare::compare(&case, &ours, &theirs);
        Compared { case, ours, theirs, verdict }
    });
    Ok(compared.collect())
}

/// Returns the other implementation's outcomes of the cases.
fn theirs(root: &Path, cases: &[Case]) -> Result<Vec<compare::TheirOutcome>> {
    let python = install(root)?;
    let mut input = String::new();
    for case in cases {
        input.push_str(&serde_json::to_string(case)?);
        input.push('\n');
    }
    let mut child = Command::new(&python)
        .arg(root.join(SCRIPTS).join("apply_diff.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| python.display().to_string())?;
    let mut stdin = child.stdin.take().context("the script's input")?;
    // It answers while it still reads.
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "apply_diff.py: {}", output.status);
    feeder.join().map_err(|_| anyhow!("writing the cases failed"))??;
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// A Python with the package, in a folder below the target folder.
fn install(root: &Path) -> Result<PathBuf> {
    let folder = xtask::checkout::target(root).join("interop/patches");
    let python = folder.join("bin/python");
    let list = root.join(SCRIPTS).join("requirements.txt");
    let wanted = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let stamp = folder.join("installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let place = folder.to_string_lossy();
    run(Program::new("python3", &["-m", "venv", "--clear", &place]))?;
    let list = list.to_string_lossy();
    // The one module that is used needs none of the package's dependencies.
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    run(Program::new(&python, &[&install[..], &["--requirement", &list]].concat()))?;
    std::fs::write(&stamp, wanted).with_context(|| stamp.display().to_string())?;
    Ok(python)
}

fn run(program: Program) -> Result<()> {
    let done = program.succeed("check the network and the output above");
    done.map(drop).map_err(|failed| anyhow!(failed.message))
}
