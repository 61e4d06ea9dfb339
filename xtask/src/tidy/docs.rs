//! Documents: required files exist, the table of contents lists every page, relative links resolve, and
//! the newest release in the changelog is the workspace's version. Does not read prose.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::files::text_files;
use super::finding::Finding;

const REQUIRED: [&str; 6] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", SUMMARY];
const SUMMARY: &str = "docs/SUMMARY.md";
const CHANGELOG: &str = "CHANGELOG.md";

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for required in REQUIRED.iter().filter(|file| !root.join(file).is_file()) {
        findings.push(Finding::error(Path::new(required), 0, "documents", "is missing: write it"));
    }
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    findings.extend(check_release(&read(CHANGELOG), &read("Cargo.toml")));
    let summary = read(SUMMARY);
    let listed: Vec<PathBuf> = links(&summary)
        .iter()
        .filter_map(|(_, target)| resolve(Path::new(SUMMARY), target))
        .collect();
    for file in text_files(root)?.iter().filter(|file| file.extension().is_some_and(|e| e == "md"))
    {
        let page = file.starts_with("docs") && file != Path::new(SUMMARY);
        if page && !listed.contains(file) {
            let message = format!("is in no table of contents: add a line to {SUMMARY}");
            findings.push(Finding::error(file, 0, "documents", message));
        }
        let text = std::fs::read_to_string(root.join(file))?;
        for (line, target) in links(&text) {
            match resolve(file, &target) {
                Some(path) if root.join(&path).exists() => {}
                _ if is_external(&target) => {}
                _ => {
                    let message = format!("the link to `{target}` leads nowhere: correct it");
                    findings.push(Finding::error(file, line, "links", message));
                }
            }
        }
    }
    Ok(findings)
}

/// The first section of the changelog is `## Unreleased`, the second `## VERSION – YYYY-MM-DD` with the
/// version of the workspace.
fn check_release(changelog: &str, manifest: &str) -> Option<Finding> {
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = version.map(|rest| rest.trim_end_matches('"'))?;
    let mut sections = (1..).zip(changelog.lines()).filter(|(_, line)| line.starts_with("## "));
    let is_date = |text: &str| {
        text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    match (sections.next(), sections.next()) {
        (Some((_, "## Unreleased")), Some((_, release)))
            if release.strip_prefix(&format!("## {version} – ")).is_some_and(is_date) =>
        {
            None
        }
        (first, second) => {
            let line = second.or(first).map_or(0, |(line, _)| line);
            let message = format!(
                "the first sections must be `## Unreleased` and `## {version} – YYYY-MM-DD`, the \
                 version of Cargo.toml: add or correct them"
            );
            Some(Finding::error(Path::new(CHANGELOG), line, "changelog", message))
        }
    }
}

fn is_external(target: &str) -> bool {
    ["http://", "https://", "mailto:", "#"].iter().any(|start| target.starts_with(start))
}

/// The targets of `[text](target)` outside code, with their lines.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between back-quotes is code.
        for text in line.split('`').step_by(2).chain(std::iter::once(line)) {
            for rest in text.split("](").skip(1) {
                let target = rest.split([')', ' ']).next().unwrap_or_default().to_owned();
                let entry = (number + 1, target);
                if rest.contains(')') && !found.contains(&entry) && !in_code(line, &entry.1) {
                    found.push(entry);
                }
            }
        }
    }
    found
}

/// Whether the whole link stands inside one pair of back-quotes.
fn in_code(line: &str, target: &str) -> bool {
    let link = format!("]({target}");
    line.split('`').skip(1).step_by(2).any(|code| code.contains(&link))
}

/// A relative target as a path from the root; `None` when it leaves the checkout or is external.
fn resolve(from: &Path, target: &str) -> Option<PathBuf> {
    let target = target.split('#').next().filter(|t| !t.is_empty() && !is_external(t))?;
    let mut path = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_is_the_version_of_the_workspace() {
        let manifest = "[workspace.package]\nversion = \"0.2.0\"\n";
        for (changelog, is_right) in [
            ("## Unreleased\n\n## 0.2.0 – 2026-01-02\n", true),
            ("## Unreleased\n\n## 0.1.0 – 2026-01-02\n", false),
            ("## Unreleased\n\n## 0.2.0\n", false),
            ("## 0.2.0 – 2026-01-02\n", false),
            ("", false),
        ] {
            assert_eq!(check_release(changelog, manifest).is_none(), is_right, "{changelog}");
        }
    }

    #[test]
    fn links_are_found_outside_code() {
        for (text, expected) in [
            ("[a](b.md) and [c](d.md#e)", vec!["b.md", "d.md#e"]),
            ("[`code`](b.md)", vec!["b.md"]),
            ("`[a](b.md)`", vec![]),
            ("```\n[a](b.md)\n```\n[c](d)", vec!["d"]),
            ("[a](b.md \"title\")", vec!["b.md"]),
            ("a[0](", vec![]),
        ] {
            let found: Vec<String> = links(text).into_iter().map(|(_, t)| t).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn targets_are_relative_to_their_page() {
        for (target, expected) in [
            ("b.md", Some("docs/b.md")),
            ("./b.md#part", Some("docs/b.md")),
            ("../README.md", Some("README.md")),
            ("../../etc", None),
            ("https://x.test", None),
            ("#part", None),
        ] {
            assert_eq!(
                resolve(Path::new("docs/a.md"), target),
                expected.map(PathBuf::from),
                "{target}"
            );
        }
    }
}
