//! `cargo xtask walkthrough`: the walk-throughs of `CONTRIBUTING.md`, applied to a copy of the checkout
//! that is then compiled. It fails when a step no longer applies, when a walk-through changes more files
//! than it promises, and when the result does not compile or does not pass its own test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};

use xtask::files::files_below;
use xtask::markdown::Page;
use xtask::steps::{Done, Outcome, PROGRAM_SCOPE, Program};

const GUIDE: &str = "CONTRIBUTING.md";
const REMEDY: &str =
    "correct the walk-through in CONTRIBUTING.md, or the code, so that it holds again";

/// The promise of a section of the guide.
struct Promise {
    /// The heading of the section.
    heading: &'static str,
    /// Files that its steps change or add.
    files: usize,
}

const PROMISES: &[Promise] = &[
    Promise { heading: "Add a tool of the model", files: 2 },
    Promise { heading: "Add a method of the protocol", files: 2 },
    Promise { heading: "Add a kind of item", files: 5 },
    Promise { heading: "Add a key of the configuration", files: 1 },
    Promise { heading: "Add a route of the gateway", files: 3 },
];
/// Builds a program that has all the crates that the walk-throughs change, and those that must still fit to
/// them. Not `cargo check`: the dependencies that the tests use are compiled already.
pub(crate) const BUILD: [&str; 3] = ["build", "--bin", "agentd"];

/// A wrapper that only calls the compiler. Because of it, cargo keeps the crates of the copy apart from those of the
/// checkout, which it would take for the same; the dependencies are those of the checkout.
pub(crate) const OWN_ARTIFACTS: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "/usr/bin/env");

/// A code block of the guide that changes a file.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    file: PathBuf,
    change: Change,
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// The content of a new file.
    Create(String),
    /// Replacements of consecutive lines, each of which occurs once.
    Replace(Vec<(String, String)>),
}

/// Runs [`check`] as a task.
pub(crate) fn run(root: &Path) -> Result<()> {
    check(root).map(drop).map_err(|failed| anyhow!(failed.message))
}

/// Applies the walk-throughs to a copy below the target folder, and compiles and tests it there. The
/// copy stays, so that the next run compiles only what has changed since.
pub(crate) fn check(root: &Path) -> Outcome {
    let Copy { folder, target } = copy(root, BTreeMap::new())?;
    let run = |arguments: &[&str]| {
        Program::cargo(&folder, arguments)
            .env("CARGO_TARGET_DIR", &target)
            .env(OWN_ARTIFACTS.0, OWN_ARTIFACTS.1)
            .succeed(REMEDY)
    };
    run(&[&BUILD[..], &PROGRAM_SCOPE].concat())?;
    run(&["test", "--quiet", "--package", "session", "--lib", "walkthrough"])?;
    Ok(Done::Passed)
}

/// A changed copy of the checkout.
pub(crate) struct Copy {
    pub(crate) folder: PathBuf,
    /// The target folder that it shares with the checkout.
    pub(crate) target: String,
}

/// Brings the copy below the target folder up to date: the checkout, with the files that the walk-throughs
/// and `more` change.
pub(crate) fn copy(root: &Path, more: BTreeMap<PathBuf, String>) -> Result<Copy> {
    let mut changed = changed_files(root)?;
    changed.extend(more);
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |folder| root.join(folder));
    let folder = target.join("walkthrough");
    synchronize(root, &folder, &changed)?;
    Ok(Copy { folder, target: target.to_string_lossy().into_owned() })
}

/// The files that the walk-throughs change, with their new content, relative to the root.
fn changed_files(root: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let guide = std::fs::read_to_string(root.join(GUIDE)).context(GUIDE)?;
    let mut contents: BTreeMap<PathBuf, String> = BTreeMap::new();
    for Promise { heading, files } in PROMISES {
        let steps = steps(&guide, heading)?;
        let changed: BTreeSet<&Path> = steps.iter().map(|step| step.file.as_path()).collect();
        ensure!(
            changed.len() == *files,
            "{GUIDE}, \"{heading}\": it changes {} files instead of the stated {files}",
            changed.len()
        );
        for step in &steps {
            let old = match contents.get(&step.file) {
                Some(text) => Some(text.clone()),
                None => std::fs::read_to_string(root.join(&step.file)).ok(),
            };
            let new = step.apply(old.as_deref()).with_context(|| {
                format!("{GUIDE}, \"{heading}\": {} does not apply", step.file.display())
            })?;
            contents.insert(step.file.clone(), new);
        }
    }
    Ok(contents)
}

/// The steps in the section with that heading: the fenced blocks that begin with `--- FILE` (a diff)
/// or `// FILE (new)` (a new file).
fn steps(guide: &str, heading: &str) -> Result<Vec<Step>> {
    let title = format!("## {heading}\n");
    let (_, rest) =
        guide.split_once(&title).with_context(|| format!("{GUIDE} has no section {heading:?}"))?;
    let section = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
    let blocks = Page::parse(section).blocks;
    let steps: Vec<Step> = blocks.iter().filter_map(|block| Step::parse(&block.text)).collect();
    ensure!(!steps.is_empty(), "{GUIDE}, \"{heading}\": the section has no steps");
    Ok(steps)
}

impl Step {
    /// Parses the text of a fenced block; `None` for other blocks.
    fn parse(text: &str) -> Option<Step> {
        let (first, rest) = text.split_once('\n')?;
        if let Some(file) = first.strip_prefix("--- ") {
            let hunks = rest.split("\n@@\n").map(hunk).collect();
            return Some(Step { file: file.into(), change: Change::Replace(hunks) });
        }
        let file = first.strip_prefix("// ")?.strip_suffix(" (new)")?;
        Some(Step { file: file.into(), change: Change::Create(format!("{}\n", rest.trim_end())) })
    }

    /// The new content of the file; `old` is its present one, if there is any.
    fn apply(&self, old: Option<&str>) -> Result<String> {
        match (&self.change, old) {
            (Change::Create(text), None) => Ok(text.clone()),
            (Change::Create(_), Some(_)) => bail!("the file exists already"),
            (Change::Replace(_), None) => bail!("there is no such file"),
            (Change::Replace(hunks), Some(old)) => {
                let mut text = old.to_owned();
                for (before, after) in hunks {
                    let found = text.matches(before.as_str()).count();
                    ensure!(found == 1, "these lines occur {found} times, not once:\n{before}");
                    text = text.replacen(before.as_str(), after, 1);
                }
                Ok(text)
            }
        }
    }
}

/// The lines before and after a hunk.
fn hunk(text: &str) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for line in text.lines() {
        let (sign, content) = line.split_at_checked(1).unwrap_or((" ", ""));
        if sign != "+" {
            before.push_str(content);
            before.push('\n');
        }
        if sign != "-" {
            after.push_str(content);
            after.push('\n');
        }
    }
    (before, after)
}

/// Makes `copy` equal to the checkout with `changed` in place of its own files. Files that are equal
/// already keep their times, so that cargo compiles only what differs.
fn synchronize(root: &Path, copy: &Path, changed: &BTreeMap<PathBuf, String>) -> Result<()> {
    const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];
    let own = files_below(root, &SKIPPED)?;
    for file in own.iter().chain(changed.keys()) {
        let content = match changed.get(file) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(root.join(file)).with_context(|| file.display().to_string())?,
        };
        let path = copy.join(file);
        if std::fs::read(&path).is_ok_and(|present| present == content) {
            continue;
        }
        let folder = path.parent().unwrap_or(copy);
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        std::fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    for file in files_below(copy, &SKIPPED)? {
        if !own.contains(&file) && !changed.contains_key(&file) {
            std::fs::remove_file(copy.join(&file)).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walkthroughs_apply_to_this_checkout_within_their_stated_limits() {
        let changed = changed_files(&xtask::workspace_root()).unwrap();
        let promised: usize = PROMISES.iter().map(|promise| promise.files).sum();
        assert_eq!(changed.len(), promised, "walk-throughs share no file");
    }

    #[test]
    fn steps_are_parsed_and_applied() {
        let guide = "## A\n\n```diff\n--- a.rs\n one\n-two\n+2\n@@\n+zero\n last\n```\n\n\
                     ```sh\ncargo test\n```\n\n```rust\n// b.rs (new)\nfn b() {}\n```\n\n## B\n";
        let steps = steps(guide, "A").unwrap();
        assert_eq!(steps.len(), 2, "{steps:?}");
        let old = "one\ntwo\nlast\n";
        assert_eq!(steps[0].apply(Some(old)).unwrap(), "one\n2\nzero\nlast\n");
        let twice = "one\ntwo\none\ntwo\nlast\n";
        let message = steps[0].apply(Some(twice)).unwrap_err().to_string();
        assert!(message.contains("occur 2 times"), "{message}");
        assert_eq!(steps[1].apply(None).unwrap(), "fn b() {}\n");
        assert!(steps[1].apply(Some("")).is_err());
        assert!(super::steps(guide, "B").is_err());
    }

    #[test]
    fn a_copy_follows_the_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let (root, copy) = (folder.path().join("root"), folder.path().join("copy"));
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::create_dir_all(&copy).unwrap();
        std::fs::write(root.join("src/a"), "a").unwrap();
        std::fs::write(root.join("b"), "b").unwrap();
        let changed = BTreeMap::from([(PathBuf::from("src/c"), "c".to_owned())]);
        synchronize(&root, &copy, &changed).unwrap();
        let read = |file: &str| std::fs::read_to_string(copy.join(file)).ok();
        assert_eq!((read("src/a"), read("src/c")), (Some("a".to_owned()), Some("c".to_owned())));
        std::fs::remove_file(root.join("b")).unwrap();
        synchronize(&root, &copy, &BTreeMap::new()).unwrap();
        assert_eq!((read("b"), read("src/c")), (None, None));
    }
}
