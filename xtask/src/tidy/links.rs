//! Links of the documents: a relative one names a file of the checkout, its anchor a heading of that file.
//! A page that is built from the schema counts as one that is there, with all anchors.
//! What is linked to can be part of the site that `cargo xtask book` builds: a file, not a folder.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::finding::Finding;
use xtask::files::is_built;
use xtask::markdown::{Link, Page, is_external, resolve};

const RULE: &str = "links";
/// The source of a page: its links are relative to the page, and are checked there.
const SOURCE: &str = "crates/config/src/reference.md";

/// `files` are the text files of the checkout, relative to `root`.
pub(crate) fn check(root: &Path, files: &[PathBuf]) -> Result<Vec<Finding>> {
    let mut pages = HashMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "md")) {
        pages.insert(file.clone(), Page::parse(&std::fs::read_to_string(root.join(file))?));
    }
    let anchors: HashMap<&Path, &HashSet<String>> =
        pages.iter().map(|(file, page)| (file.as_path(), &page.anchors)).collect();
    let mut findings = Vec::new();
    for (file, page) in pages.iter().filter(|(file, _)| *file != Path::new(SOURCE)) {
        for link in page.links.iter().filter(|link| !is_external(&link.target)) {
            if let Some(message) = problem(root, file, link, &anchors) {
                findings.push(Finding::error(file, link.line, RULE, message));
            }
        }
    }
    Ok(findings)
}

fn problem(
    root: &Path,
    from: &Path,
    link: &Link,
    anchors: &HashMap<&Path, &HashSet<String>>,
) -> Option<String> {
    let target = &link.target;
    let exists = |file: &Path| is_built(file) || root.join(file).exists();
    let Some((file, anchor)) = resolve(from, target).filter(|(file, _)| exists(file)) else {
        return Some(format!("the link to `{target}` leads nowhere: correct it"));
    };
    if root.join(&file).is_dir() {
        return Some(format!(
            "the site has no page for the folder `{target}`: link to a file in it"
        ));
    }
    if link.place.is_none() {
        return Some(format!("write `{target}` where it is used, as `[text](target)`"));
    }
    // Whether the page exists must not change what is found; the check of the site finds wrong anchors.
    let anchor = anchor.filter(|_| !is_built(&file))?;
    match anchors.get(file.as_path()) {
        Some(anchors) if anchors.contains(&anchor) => None,
        Some(_) => Some(format!("{} has no heading with the anchor `#{anchor}`", file.display())),
        None => Some(format!("`{target}`: only headings of Markdown files have anchors")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_anchors_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("docs/a.md"), "# One\n\n## Two\n").unwrap();
        std::fs::write(root.join("b.rs"), "").unwrap();
        for (file, link, expected) in [
            ("docs/b.md", "[x](a.md#two)", None),
            ("docs/b.md", "[x](../b.rs)", None),
            ("docs/b.md", "[x](https://x.test/#y)", None),
            ("c.md", "[x](docs/a.md)", None),
            ("c.md", "[x](docs)", Some("no page for the folder")),
            ("docs/b.md", "# Own\n[x](#own)", None),
            ("docs/b.md", "[x](c.md)", Some("leads nowhere")),
            ("docs/b.md", "[x](../../c.md)", Some("leads nowhere")),
            ("docs/b.md", "[x](a.md#three)", Some("docs/a.md has no heading with the anchor")),
            ("docs/b.md", "[x](#three)", Some("docs/b.md has no heading")),
            ("docs/b.md", "[x](../b.rs#L1)", Some("only headings of Markdown")),
            ("docs/b.md", "[x](../docs)", Some("no page for the folder")),
            ("docs/b.md", "[x][y]\n\n[y]: a.md", Some("where it is used")),
        ] {
            std::fs::write(root.join(file), link).unwrap();
            let findings = check(root, &["docs/a.md".into(), file.into()]).unwrap();
            assert_eq!(findings.len(), expected.iter().len(), "{link}: {findings:?}");
            for (finding, expected) in findings.iter().zip(expected) {
                assert!(finding.message.contains(expected), "{link}: {finding}");
            }
            std::fs::remove_file(root.join(file)).unwrap();
        }
    }
}
