//! Documents: required files exist, the table of contents lists every page, the map stays short, and the newest
//! release in the changelog is the workspace's version. Words are checked in `words.rs`, links in `links.rs`.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::finding::Finding;
use xtask::files::text_files;
use xtask::markdown::{Page, resolve};

const REQUIRED: [&str; 6] =
    ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", SUMMARY];
const SUMMARY: &str = "docs/SUMMARY.md";
const CHANGELOG: &str = "CHANGELOG.md";
const MAP: &str = "ARCHITECTURE.md";
/// Maximum size of the map in bytes: a page that a newcomer reads to its end.
const MAP_BYTES: usize = 20 * 1024;

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for required in REQUIRED.iter().filter(|file| !root.join(file).is_file()) {
        findings.push(Finding::error(Path::new(required), 0, "documents", "is missing: write it"));
    }
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    findings.extend(check_release(&read(CHANGELOG), &read("Cargo.toml")));
    findings.extend(check_map(&read(MAP)));
    let listed: Vec<PathBuf> = Page::parse(&read(SUMMARY))
        .links
        .iter()
        .filter_map(|link| Some(resolve(Path::new(SUMMARY), &link.target)?.0))
        .collect();
    for file in text_files(root)?.iter().filter(|file| file.extension().is_some_and(|e| e == "md"))
    {
        let page = file.starts_with("docs") && file != Path::new(SUMMARY);
        if page && !listed.contains(file) {
            let message = format!("is in no table of contents: add a line to {SUMMARY}");
            findings.push(Finding::error(file, 0, "documents", message));
        }
    }
    Ok(findings)
}

fn check_map(text: &str) -> Option<Finding> {
    let bytes = text.len();
    let message = format!(
        "{bytes} bytes, at most {MAP_BYTES}: move details to the documentation of the module or to docs/"
    );
    (bytes > MAP_BYTES).then(|| Finding::error(Path::new(MAP), 0, "documents", message))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_a_maximum_size() {
        assert!(check_map(&"a".repeat(MAP_BYTES)).is_none());
        assert!(check_map(&"a".repeat(MAP_BYTES + 1)).is_some());
    }

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
}
