//! Formatting: rustfmt visits every source file of the checkout and would change none. rustfmt follows
//! plain `mod` items only, so a module that a macro declares escapes `cargo fmt` without a word.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use super::finding::Finding;

const RULE: &str = "formatting";
/// The manifests of the checkout's two workspaces.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// `files` are the text files of the checkout, relative to `root`.
pub(crate) fn check(root: &Path, files: &[PathBuf]) -> Result<Vec<Finding>> {
    let mut visited = BTreeSet::new();
    let mut findings = Vec::new();
    for manifest in MANIFESTS.iter().filter(|manifest| root.join(manifest).is_file()) {
        let report = rustfmt(root, manifest)?;
        visited.extend(visited_files(root, &report));
        findings.extend(differences(root, &report));
    }
    let sources = files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
    for file in sources.filter(|file| !visited.contains(*file)) {
        let message = "rustfmt does not visit this file: declare it with a plain `mod` item, not \
                       inside a macro";
        findings.push(Finding::error(file, 0, RULE, message));
    }
    Ok(findings)
}

/// Returns the report of `cargo fmt --check` about the workspace of `manifest`.
fn rustfmt(root: &Path, manifest: &str) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let Output { status, stdout, stderr } = Command::new(cargo)
        .args(["fmt", "--all", "--manifest-path", manifest, "--", "--check", "--verbose"])
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .context("cannot start cargo")?;
    let report = String::from_utf8_lossy(&stdout).into_owned();
    // Status 1 with a report also means "would change something".
    if !status.success() && differences(root, &report).is_empty() {
        bail!(
            "`cargo fmt` failed ({status}): {}\nif rustfmt is missing, install it with `rustup component add rustfmt`",
            String::from_utf8_lossy(&stderr).trim_end()
        );
    }
    Ok(report)
}

/// The files of lines `Formatting /checkout/file.rs`, relative to `root`.
fn visited_files<'r>(root: &'r Path, report: &'r str) -> impl Iterator<Item = PathBuf> + 'r {
    let paths = report.lines().filter_map(|line| line.strip_prefix("Formatting "));
    paths.filter_map(move |path| Path::new(path).strip_prefix(root).ok()).map(Path::to_owned)
}

/// One finding per line `Diff in /checkout/file.rs:7:`.
fn differences(root: &Path, report: &str) -> Vec<Finding> {
    let places = report.lines().filter_map(|line| line.strip_prefix("Diff in "));
    let findings = places.filter_map(|place| {
        let (path, line) = place.trim_end_matches(':').rsplit_once(':')?;
        let file = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path));
        let message = "is not formatted: run `cargo fmt --all`";
        Some(Finding::error(file, line.parse().ok()?, RULE, message))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_visited_files_and_differences() {
        let root = Path::new("/checkout");
        let report = "Using rustfmt config file /checkout/rustfmt.toml for /checkout/a.rs\n\
                      Formatting /checkout/a.rs\n\
                      Diff in /checkout/a.rs:7:\n fn a() {}\n\
                      Formatting /checkout/b/c.rs\nSpent 0.000 secs in the parsing phase";
        let visited: Vec<PathBuf> = visited_files(root, report).collect();
        assert_eq!(visited, [PathBuf::from("a.rs"), PathBuf::from("b/c.rs")]);
        let lines: Vec<String> =
            differences(root, report).iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["a.rs:7: error: formatting: is not formatted: run `cargo fmt --all`"]);
    }

    #[test]
    fn a_module_declared_by_a_macro_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "[package]\nname = \"p\"\nedition = \"2024\"\n");
        write(
            "src/lib.rs",
            "macro_rules! declare {\n    ($name:ident) => {\n        mod $name;\n    };\n}\n\nmod plain;\ndeclare!(hidden);\n",
        );
        write("src/plain.rs", "fn  f() {}\n");
        write("src/hidden.rs", "fn  f() {}\n");
        let files = ["src/hidden.rs", "src/lib.rs", "src/plain.rs"].map(PathBuf::from);
        let findings = check(&root, &files).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("src/plain.rs:1: error: formatting: is not"), "{lines:?}");
        assert!(lines[1].starts_with("src/hidden.rs: error: formatting: rustfmt"), "{lines:?}");
    }
}
