//! The files of the checkout that the rules look at.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Generated files that are not committed: `cargo xtask generate` writes them, and so does what needs them.
pub const BUILT: [&str; 5] = [
    "docs/protocol-items.md",
    "docs/protocol-reference.md",
    "docs/protocol-types.md",
    "sdk/typescript/src/methods.ts",
    "sdk/typescript/src/protocol.ts",
];

/// The text files that people write, relative to the root.
pub fn text_files(root: &Path) -> Result<Vec<PathBuf>> {
    const LISTED: [&str; 7] = ["rs", "toml", "md", "sh", "yml", "yaml", "json"];
    let is_listed = |file: &PathBuf| {
        let is_text = file.extension().is_some_and(|e| LISTED.iter().any(|listed| e == *listed));
        is_text || file.starts_with(".ci")
    };
    Ok(all_files(root)?.into_iter().filter(is_listed).collect())
}

/// Every file that is not generated or downloaded, relative to the root.
pub fn all_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files_below(root, &["target", ".git", "node_modules", "schema"])?;
    files.retain(|file| !is_built(file));
    Ok(files)
}

/// Returns whether a file, relative to the root, is one of [`BUILT`].
#[must_use]
pub fn is_built(file: &Path) -> bool {
    BUILT.iter().any(|built| file == *built)
}

/// Every file below `root`, relative to it, except those in folders with a name in `skipped`.
pub fn files_below(root: &Path, skipped: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let path = root.join(&folder);
        for entry in std::fs::read_dir(&path).with_context(|| path.display().to_string())? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            if !entry.file_type()?.is_dir() {
                found.push(relative);
            } else if !skipped.iter().any(|skip| entry.file_name() == *skip) {
                open.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}
