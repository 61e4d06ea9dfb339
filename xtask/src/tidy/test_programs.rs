//! Programs of tests: linking one takes seconds, so a crate has at most one in `tests/`, with a module for each
//! area, and `cargo test` builds documentation tests only where there are some.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::{Table, Value};
use xtask::files::files_below;

use super::finding::Finding;

const RULE: &str = "test-programs";

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut folders = ["tools", "xtask"].map(PathBuf::from).to_vec();
    for entry in std::fs::read_dir(root.join("crates")).context("crates/")? {
        folders.push(Path::new("crates").join(entry?.file_name()));
    }
    let mut findings = Vec::new();
    for folder in folders.iter().filter(|folder| root.join(folder).join("Cargo.toml").is_file()) {
        findings.extend(check_crate(root, folder)?);
    }
    Ok(findings)
}

/// `folder` is that of the crate, relative to `root`.
fn check_crate(root: &Path, folder: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let programs = programs(&root.join(folder).join("tests"))?;
    if let [first, second, ..] = &programs[..] {
        let message = format!(
            "`{first}` is a test program of the crate already: make this file a module of it, or move both \
             into `tests/suite/`"
        );
        findings.push(Finding::error(&folder.join("tests").join(second), 0, RULE, message));
    }
    if root.join(folder).join("src/lib.rs").is_file() {
        let manifest = folder.join("Cargo.toml");
        let text = std::fs::read_to_string(root.join(&manifest))?;
        let manifest_table: Table = text.parse().with_context(|| manifest.display().to_string())?;
        let is_tested = has_doc_tests(&root.join(folder).join("src"))?;
        if is_tested != builds_doc_tests(&manifest_table) {
            let message = match is_tested {
                true => "the documentation has code that is tested: remove `doctest = false`",
                false => {
                    "no documentation has code that is tested: write `doctest = false` in `[lib]`"
                }
            };
            findings.push(Finding::error(&manifest, 0, RULE, message));
        }
    }
    Ok(findings)
}

/// The files and folders that cargo makes programs of, relative to the folder `tests`.
fn programs(tests: &Path) -> Result<Vec<String>> {
    if !tests.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(tests).with_context(|| tests.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rs") {
            found.push(name);
        } else if tests.join(&name).join("main.rs").is_file() {
            found.push(format!("{name}/main.rs"));
        }
    }
    found.sort();
    Ok(found)
}

fn builds_doc_tests(manifest: &Table) -> bool {
    let setting = manifest.get("lib").and_then(|lib| lib.get("doctest"));
    setting.and_then(Value::as_bool).unwrap_or(true)
}

fn has_doc_tests(source: &Path) -> Result<bool> {
    for file in files_below(source, &[])? {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(source.join(&file))
                .with_context(|| file.display().to_string())?;
            if has_tested_block(&text) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// True if a doc comment has a block of Rust.
fn has_tested_block(text: &str) -> bool {
    let mut is_open = false;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|comment| comment.trim().strip_prefix("```")) else {
            continue;
        };
        if is_open {
            is_open = false;
        } else if ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&fence) {
            return true;
        } else {
            is_open = true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join("a").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let findings = check_crate(root.path(), Path::new("a")).unwrap();
        findings.iter().map(|finding| finding.file.display().to_string()).collect()
    }

    #[test]
    fn a_second_test_program_is_found() {
        let manifest = ("Cargo.toml", "");
        let one = ("tests/suite/main.rs", "mod area;");
        assert!(found(&[manifest, one, ("tests/suite/area.rs", "")]).is_empty());
        assert_eq!(found(&[manifest, one, ("tests/more.rs", "")]), ["a/tests/suite/main.rs"]);
    }

    #[test]
    fn documentation_tests_are_built_where_there_are_some() {
        let tested = ("src/lib.rs", "//! D.\n//! ```\n//! f();\n//! ```\n");
        let shown = ("src/lib.rs", "//! D.\n//! ```text\n//! f();\n//! ```\n");
        let (on, off) = (("Cargo.toml", ""), ("Cargo.toml", "[lib]\ndoctest = false\n"));
        for (files, expected) in [
            ([tested, on], vec![]),
            ([tested, off], vec!["a/Cargo.toml"]),
            ([shown, on], vec!["a/Cargo.toml"]),
            ([shown, off], vec![]),
        ] {
            assert_eq!(found(&files), expected, "{files:?}");
        }
    }
}
