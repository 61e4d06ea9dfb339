//! Generated files: one list of generators, one command that rewrites their output, one check that
//! the committed files equal it. What the files hold is the generators' business.
//!
//! What users read or build without the checkout's tools is committed. The rest of it, `BUILT` in
//! `xtask::files`, is built from the protocol's schema by what needs it: the book, the TypeScript SDK.

pub(crate) mod key_status;
mod models;
mod page;
mod pictures;
mod python;
mod reference;
mod typescript;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::examples::{self, Examples};

/// Each file's path below the folder of its generator, and its content.
type Files = Vec<(String, String)>;

/// Makes files of one folder.
struct Generator {
    /// Relative to the root.
    folder: &'static str,
    /// True if the folder holds nothing else: files that are no longer generated are removed.
    alone: bool,
    /// Its files, for the checkout at a root.
    files: fn(&Path) -> Result<Files>,
}

const GENERATORS: &[Generator] = &[
    Generator { folder: "schema", alone: true, files: schema_files },
    Generator { folder: "docs", alone: false, files: pages },
    Generator { folder: pictures::FOLDER, alone: false, files: pictures::files },
    Generator { folder: "crates/web/assets", alone: false, files: |_| page::files() },
    Generator { folder: "sdk/python/src/agentd_embed", alone: false, files: |_| python::files() },
];

/// Those whose files are not committed.
const BUILDERS: &[Generator] = &[
    Generator { folder: "docs", alone: false, files: reference_pages },
    Generator { folder: "sdk/typescript/src", alone: false, files: |_| typescript::files() },
];

fn schema_files(root: &Path) -> Result<Files> {
    // Recorded, not generated: only its form is.
    let examples = (examples::FILE.to_owned(), Examples::read(root)?.file()?);
    let protocol = protocol::generate::json_schema(true).into_iter();
    let protocol = protocol.map(|(name, content)| (name.to_owned(), content));
    Ok(protocol.chain(config::schema::files()).chain([examples]).collect())
}

/// The pages of the book that are committed: the README leads its readers there.
fn pages(root: &Path) -> Result<Files> {
    Ok(vec![
        ("configuration.md".to_owned(), config::docs::reference()),
        (key_status::PAGE.to_owned(), key_status::page(root)?),
        (models::PAGE.to_owned(), models::page(root)?),
    ])
}

fn reference_pages(root: &Path) -> Result<Files> {
    Ok(reference::pages(&Examples::read(root)?)?.into())
}

impl Generator {
    /// The files of the checkout that this generator answers for.
    fn present(&self, root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files = contents(&root.join(self.folder))?;
        if !self.alone {
            let own = self.fresh(root)?;
            files.retain(|path, _| own.contains_key(path));
        }
        Ok(files)
    }

    fn fresh(&self, root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let files = (self.files)(root)?.into_iter();
        Ok(files.map(|(path, content)| (PathBuf::from(path), content.into_bytes())).collect())
    }
}

/// Rewrites every generated file of the checkout that differs, and removes those that are no longer
/// generated.
pub(crate) fn write(root: &Path) -> Result<()> {
    GENERATORS.iter().chain(BUILDERS).try_for_each(|generator| write_files(root, generator))
}

/// Writes the files that are not committed, where they are absent or outdated.
pub(crate) fn build(root: &Path) -> Result<()> {
    BUILDERS.iter().try_for_each(|generator| write_files(root, generator))
}

fn write_files(root: &Path, generator: &Generator) -> Result<()> {
    let folder = root.join(generator.folder);
    let (fresh, present) = (generator.fresh(root)?, generator.present(root)?);
    for (path, content) in fresh.iter().filter(|(path, text)| present.get(*path) != Some(*text)) {
        let file = folder.join(path);
        let parent = file.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        std::fs::write(&file, content).with_context(|| file.display().to_string())?;
        println!("wrote {}/{}", generator.folder, path.display());
    }
    for path in present.keys().filter(|path| !fresh.contains_key(*path)) {
        std::fs::remove_file(folder.join(path)).with_context(|| path.display().to_string())?;
        println!("removed {}/{}", generator.folder, path.display());
    }
    Ok(())
}

/// Compares the committed files with what [`write`] would write; changes nothing.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut stale = Vec::new();
    for generator in GENERATORS {
        let lines = differences(&generator.fresh(root)?, &generator.present(root)?);
        stale.extend(lines.iter().map(|line| format!("{}/{line}", generator.folder)));
    }
    if !stale.is_empty() {
        bail!(
            "generated files differ from their source:\n  {}\nrewrite them with `cargo xtask generate` and commit the result",
            stale.join("\n  ")
        );
    }
    Ok(())
}

/// One line for every file that is not the same on both sides.
fn differences(
    expected: &BTreeMap<PathBuf, Vec<u8>>,
    committed: &BTreeMap<PathBuf, Vec<u8>>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, fresh) in expected {
        match committed.get(path) {
            None => lines.push(format!("{}: missing", path.display())),
            Some(old) if old != fresh => {
                lines.push(format!("{}: line {}", path.display(), first_difference(old, fresh)));
            }
            Some(_) => {}
        }
    }
    let extra = committed.keys().filter(|path| !expected.contains_key(*path));
    lines.extend(extra.map(|path| format!("{}: no longer generated", path.display())));
    lines
}

fn first_difference(old: &[u8], fresh: &[u8]) -> usize {
    let same = old.iter().zip(fresh).take_while(|(a, b)| a == b).count();
    1 + old[..same].iter().filter(|byte| **byte == b'\n').count()
}

/// Every file below `folder`, by its path from there; a folder that is absent is empty.
fn contents(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        let path = folder.join(&relative);
        if !path.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let entry = entry?;
            let below = relative.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(below);
            } else {
                found.insert(below, std::fs::read(entry.path())?);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use xtask::files::BUILT;

    use super::*;

    #[test]
    fn differences_name_file_and_line() {
        let side = |files: &[(&str, &str)]| {
            files.iter().map(|(p, t)| (PathBuf::from(p), t.as_bytes().to_vec())).collect()
        };
        let expected = side(&[("a", "1\n2\n3"), ("b", "x"), ("c", "same")]);
        let committed = side(&[("a", "1\n2\n4"), ("c", "same"), ("d", "old")]);
        let lines = differences(&expected, &committed);
        assert_eq!(lines, ["a: line 3", "b: missing", "d: no longer generated"]);
        assert!(differences(&expected, &expected).is_empty());
    }

    #[test]
    fn files_that_are_not_committed_are_built_and_ignored() {
        let root = xtask::workspace_root();
        let mut built: Vec<String> = BUILDERS
            .iter()
            .flat_map(|generator| {
                let files = generator.fresh(&root).unwrap().into_keys();
                files.map(move |file| format!("{}/{}", generator.folder, file.display()))
            })
            .collect();
        built.sort();
        assert_eq!(built, BUILT);
        let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap();
        for file in BUILT {
            assert!(ignored.lines().any(|line| line == format!("/{file}")), "{file}");
        }
    }

    #[test]
    fn committed_files_equal_their_source() {
        check(&xtask::workspace_root()).unwrap();
    }
}
