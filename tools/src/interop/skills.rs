//! The public validator of the skills format against `agentd skills`: on the table of the crate `skills`,
//! and on what `agentd skills new` makes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::clients::{SKILLS, install_python};
use xtask::checkout::{agentd, target};
use xtask::steps::{Counts, Done, Failed, Outcome};

const TABLE: &str = "crates/skills/tests/table";
/// Names of skills that are made.
const NEW: [(&str, &str); 4] = [
    ("a", "x"),
    ("pdf-tools", "Reads PDF files: text, \"tables\" and C:\\paths. #1 for forms"),
    ("überblick", "[Fasst] {alles} zusammen — wenn: jemand fragt"),
    ("n-64-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "- a\n- b"),
];

/// Skipped where the validator cannot be installed.
pub(super) fn check(root: &Path) -> Outcome {
    let validator = match install_python(root, &target(root), &SKILLS) {
        Ok(validator) => validator,
        Err(error) => return Ok(Done::Skipped(format!("{error:#}"))),
    };
    let agentd = agentd(root)?;
    let made = tempfile::tempdir()?;
    let mut expected = BTreeMap::new();
    for kind in ["valid", "invalid"] {
        for folder in folders(&root.join(TABLE).join(kind))? {
            expected.insert(folder, kind == "valid");
        }
    }
    for (name, description) in NEW {
        let mut new = Command::new(&agentd);
        // A description may begin as an option does.
        let description = format!("--description={description}");
        new.args(["skills", "new", name, &description]).current_dir(made.path());
        new.env("AGENT_HOME", made.path().join("home"));
        ensure_success(&mut new)?;
        expected.insert(made.path().join(name), true);
    }
    let theirs = validator.command().args(expected.keys()).output()?;
    ensure_ok(theirs.status.success(), "the validator failed", &theirs.stderr)?;
    let theirs = String::from_utf8(theirs.stdout)?;
    let theirs: BTreeMap<PathBuf, bool> = theirs
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(verdict, folder)| (folder.into(), verdict == "valid"))
        .collect();
    let mut own = Command::new(&agentd);
    own.args(["skills", "validate", "--json"]).args(expected.keys());
    own.env("AGENT_HOME", made.path().join("home"));
    let own: Vec<Value> = serde_json::from_slice(&own.output()?.stdout)?;
    let own: BTreeMap<PathBuf, bool> = own
        .iter()
        .map(|row| (row["path"].as_str().unwrap_or_default().into(), row["valid"] == true))
        .collect();
    let mut counts = Counts::default();
    for (folder, valid) in &expected {
        let verdicts = (theirs.get(folder), own.get(folder));
        if verdicts == (Some(valid), Some(valid)) {
            counts.passed += 1;
        } else {
            counts.failed += 1;
            println!("FAIL {}: expected {valid}, found {verdicts:?}", folder.display());
        }
    }
    match counts.failed {
        0 => Ok(Done::Tests(counts)),
        failed => Err(Failed {
            message: format!("{failed} verdicts differ: see the lines above"),
            counts,
        }),
    }
}

/// The folders of the cases, each in the folder of its case.
fn folders(kind: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for case in std::fs::read_dir(kind).with_context(|| kind.display().to_string())? {
        for folder in std::fs::read_dir(case?.path())? {
            found.push(folder?.path());
        }
    }
    Ok(found)
}

fn ensure_success(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    ensure_ok(output.status.success(), "`agentd skills new` failed", &output.stderr)
}

fn ensure_ok(is_ok: bool, what: &str, errors: &[u8]) -> Result<()> {
    ensure!(is_ok, "{what}: {}", String::from_utf8_lossy(errors));
    Ok(())
}
