//! Documents: the ones that must exist, a table of contents that misses no page, links that lead
//! somewhere inside the checkout. Does not read prose.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::files::text_files;
use super::finding::Finding;

const REQUIRED: [&str; 6] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", SUMMARY];
const SUMMARY: &str = "docs/SUMMARY.md";

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for required in REQUIRED.iter().filter(|file| !root.join(file).is_file()) {
        findings.push(Finding::error(Path::new(required), 0, "documents", "is missing: write it"));
    }
    let summary = std::fs::read_to_string(root.join(SUMMARY)).unwrap_or_default();
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
