//! Sizes that are counted over several files: the lines of a crate, and the files of one type's `impl`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::finding::Finding;
use xtask::files::files_below;

/// Lines of the `src` folder of a crate, with its unit tests. A larger crate has floors, which become crates.
const MAX_LINES: usize = 25_000;
/// Crates that stay whole whatever their size: the pure machine, and the terminal.
const WHOLE: [&str; 2] = ["session", "tui"];
/// Types whose methods a reader finds in few files: the folder, the type, and how many files.
const TYPES: [(&str, &str, usize); 1] = [("crates/threads/src", "Actor", 4)];

/// A crate and its lines of source.
struct Counted {
    folder: PathBuf,
    lines: usize,
}

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for Counted { folder, lines } in crates(root)? {
        if lines > MAX_LINES {
            let message = format!(
                "{lines} lines of source, at most {MAX_LINES}: cut the crate where its modules \
                 depend on each other one way"
            );
            findings.push(Finding::error(&folder, 0, "crate-size", message));
        }
    }
    for (folder, name, most) in TYPES {
        let files = files_with_impl(&root.join(folder), name)?;
        if files.is_empty() || files.len() > most {
            let message = format!(
                "`impl {name}` is in {} files, in 1 to {most}: its methods are read together",
                files.len()
            );
            findings.push(Finding::error(Path::new(folder), 0, "impl-files", message));
        }
    }
    Ok(findings)
}

/// A sentence on the largest crate that has a bound.
pub(crate) fn largest(root: &Path) -> Result<String> {
    let largest = crates(root)?.into_iter().max_by_key(|counted| counted.lines);
    Ok(largest.map_or_else(String::new, |Counted { folder, lines }| {
        format!("largest crate: {} with {lines} of {MAX_LINES} lines", folder.display())
    }))
}

/// The crates that have a bound.
fn crates(root: &Path) -> Result<Vec<Counted>> {
    let mut folders = ["tools", "xtask"].map(PathBuf::from).to_vec();
    for entry in std::fs::read_dir(root.join("crates")).context("crates/")? {
        let name = entry?.file_name();
        if !WHOLE.iter().any(|whole| name == *whole) {
            folders.push(Path::new("crates").join(name));
        }
    }
    folders.sort();
    let mut counted = Vec::new();
    for folder in folders {
        let source = root.join(&folder).join("src");
        if source.is_dir() {
            let mut lines = 0;
            for text in sources(&source)? {
                lines += text.lines().count();
            }
            counted.push(Counted { folder, lines });
        }
    }
    Ok(counted)
}

fn files_with_impl(folder: &Path, name: &str) -> Result<Vec<String>> {
    let opening = format!("impl {name} {{");
    let has_impl = |text: &String| text.lines().any(|line| line == opening);
    Ok(sources(folder)?.into_iter().filter(has_impl).collect())
}

fn sources(folder: &Path) -> Result<Vec<String>> {
    let files = files_below(folder, &[])?.into_iter();
    let sources = files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    sources
        .map(|file| {
            let path = folder.join(file);
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    #[test]
    fn large_crates_and_scattered_types_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let lines = |count: usize| "const A: u8 = 1;\n".repeat(count);
        write(root.path(), "crates/a/src/lib.rs", &lines(MAX_LINES));
        write(root.path(), "crates/b/src/lib.rs", &lines(MAX_LINES / 2));
        write(root.path(), "crates/b/src/c/d.rs", &lines(MAX_LINES / 2 + 1));
        write(root.path(), "crates/b/tests/all.rs", &lines(MAX_LINES));
        write(root.path(), "crates/session/src/lib.rs", &lines(MAX_LINES * 2));
        let (folder, name, most) = TYPES[0];
        for file in 0..=most {
            let text = format!("impl {name} {{\n}}\n");
            write(root.path(), &format!("{folder}/{file}.rs"), &text);
        }
        let findings = check(root.path()).expect("it can be read");
        let found: Vec<_> =
            findings.iter().map(|found| (found.rule, found.file.to_str())).collect();
        assert_eq!(found, [("crate-size", Some("crates/b")), ("impl-files", Some(folder))]);
        let largest = largest(root.path()).expect("it can be read");
        assert_eq!(
            largest,
            format!("largest crate: crates/b with {} of {MAX_LINES} lines", MAX_LINES + 1)
        );
    }
}
