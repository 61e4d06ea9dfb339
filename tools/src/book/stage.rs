//! The source of the site: a copy of `docs/`, in which links out of `docs/` lead to copies of what they name.
//! So one text works in the checkout and on the site, and the site needs no address of a repository. The
//! copies are below `repository/`; Markdown among them becomes pages of their own, in a last part.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use xtask::files::files_below;
use xtask::markdown::{Page, is_external, resolve};

const DOCS: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
const CONFIGURATION: &str = "book.toml";
/// The folder of copies, in the site.
const OUTSIDE: &str = "repository";

/// Fills the empty `folder`. Returns the pages, relative to the site and with the extension `md`.
pub(super) fn stage(root: &Path, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut open: Vec<PathBuf> =
        files_below(&root.join(DOCS), &[])?.iter().map(|file| Path::new(DOCS).join(file)).collect();
    let mut staged: BTreeSet<PathBuf> = open.iter().cloned().collect();
    let mut pages = Vec::new();
    write(folder, Path::new(CONFIGURATION), &read(root, Path::new(CONFIGURATION))?)?;
    while let Some(file) = open.pop() {
        let mut content = read(root, &file)?;
        if file.extension().is_some_and(|extension| extension == "md") {
            let text = String::from_utf8(content).with_context(|| file.display().to_string())?;
            let (text, linked) = relink(&file, text)?;
            content = text.into_bytes();
            open.extend(linked.into_iter().filter(|file| staged.insert(file.clone())));
            pages.push(file.clone());
        }
        write(folder, &Path::new(DOCS).join(place(&file)), &content)?;
    }
    pages.retain(|page| page != Path::new(SUMMARY));
    pages.sort();
    add_part(folder, &pages)?;
    Ok(pages.iter().map(|page| place(page)).collect())
}

/// Where a file of the checkout is in the site.
fn place(file: &Path) -> PathBuf {
    file.strip_prefix(DOCS).map_or_else(|_| Path::new(OUTSIDE).join(file), Path::to_owned)
}

/// The text with its links as they are in the site, and the files that they name, from the root.
fn relink(file: &Path, mut text: String) -> Result<(String, Vec<PathBuf>)> {
    let page = Page::parse(&text);
    let mut linked = Vec::new();
    // From the end, so that the places before stay right.
    for link in page.links.iter().rev().filter(|link| !is_external(&link.target)) {
        let context = || format!("{}:{}: `{}`", file.display(), link.line, link.target);
        let (to, anchor) = resolve(file, &link.target).with_context(context)?;
        let from = place(file);
        let mut target = relative(&from, &place(&to)).display().to_string();
        if let Some(anchor) = anchor {
            target = format!("{target}#{anchor}");
        }
        let range = link.place.clone();
        text.replace_range(range.with_context(context)?, &target);
        linked.push(to);
    }
    Ok((text, linked))
}

/// The path that leads from one file to another; both are relative to the same folder.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let shared = from[..from.len() - 1].iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n(Path::new(".."), from.len() - 1 - shared);
    up.map(Path::to_owned).chain(to[shared..].iter().map(|part| part.into())).collect()
}

/// Adds the pages from outside of `docs/` to the table of contents.
fn add_part(folder: &Path, pages: &[PathBuf]) -> Result<()> {
    let outside: Vec<&PathBuf> = pages.iter().filter(|page| !page.starts_with(DOCS)).collect();
    if outside.is_empty() {
        return Ok(());
    }
    let mut summary = String::from_utf8(read(folder, Path::new(SUMMARY))?)?;
    summary.push_str("\n# The repository\n\n");
    for page in outside {
        summary.push_str(&format!("- [{}]({})\n", page.display(), place(page).display()));
    }
    write(folder, Path::new(SUMMARY), summary.as_bytes())
}

fn read(root: &Path, file: &Path) -> Result<Vec<u8>> {
    let path = root.join(file);
    ensure!(!path.is_dir(), "{} is a folder, for which the site has no page", file.display());
    std::fs::read(&path).with_context(|| path.display().to_string())
}

fn write(folder: &Path, file: &Path, content: &[u8]) -> Result<()> {
    let path = folder.join(file);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    }
    std::fs::write(&path, content).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_docs_lead_to_copies() {
        let folder = tempfile::tempdir().unwrap();
        let (root, source) = (folder.path().join("root"), folder.path().join("source"));
        for (file, text) in [
            ("book.toml", ""),
            ("README.md", "[a](docs/a.md#x) [c](web/c.js)"),
            ("unlinked.md", ""),
            ("web/c.js", "c"),
            ("docs/SUMMARY.md", "# Summary\n\n- [A](a.md)\n- [B](more/b.md)\n"),
            ("docs/a.md", "[README.md](../README.md) and [b](more/b.md) and <https://x.test>"),
            ("docs/more/b.md", "[a](../a.md) [r](../../README.md) [c](../../web/c.js) [x](#x)"),
        ] {
            write(&root, Path::new(file), text.as_bytes()).unwrap();
        }
        let pages = stage(&root, &source).unwrap();
        assert_eq!(pages, ["repository/README.md", "a.md", "more/b.md"].map(PathBuf::from));
        for (file, expected) in [
            ("repository/README.md", "[a](../a.md#x) [c](web/c.js)"),
            ("repository/web/c.js", "c"),
            (
                "SUMMARY.md",
                "# Summary\n\n- [A](a.md)\n- [B](more/b.md)\n\n# The repository\n\n\
                 - [README.md](repository/README.md)\n",
            ),
            ("a.md", "[README.md](repository/README.md) and [b](more/b.md) and <https://x.test>"),
            (
                "more/b.md",
                "[a](../a.md) [r](../repository/README.md) [c](../repository/web/c.js) [x](b.md#x)",
            ),
        ] {
            let text = String::from_utf8(read(&source.join("docs"), Path::new(file)).unwrap());
            assert_eq!(text.unwrap(), expected, "{file}");
        }
        write(&root, Path::new("docs/a.md"), b"[x](../web)").unwrap();
        let message = stage(&root, &source).unwrap_err().to_string();
        assert!(message.contains("web is a folder"), "{message}");
    }
}
