//! Names and sizes of what is stored: of the folders that the program keeps things in, one line an entry. No
//! file is opened.

use std::fmt::Write;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use files::Pool;

/// Entries that are looked at in one folder, those below it included. Beyond, sizes are lower bounds.
const MAX_ENTRIES: usize = 20_000;
/// Entries of one folder that are listed.
const MAX_LISTED: usize = 500;
/// Maximum depth of searched folders.
const MAX_DEPTH: usize = 8;

/// The list. A folder that does not answer is named so.
pub(super) async fn describe(folders: &[PathBuf]) -> String {
    let pool = Pool::default();
    let mut text = String::new();
    for folder in folders {
        let path = folder.clone();
        let list = pool.run(folder, move || list(&path)).await;
        let _ = writeln!(text, "{}", folder.display());
        text.push_str(&list.unwrap_or_else(|error| format!("  {error}\n")));
    }
    text
}

/// The totals below an entry.
#[derive(Default)]
struct Total {
    files: usize,
    bytes: u64,
    /// Not everything was looked at.
    is_partial: bool,
}

fn list(folder: &Path) -> String {
    let mut left = MAX_ENTRIES;
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return format!("  cannot be read: {error}\n"),
    };
    let mut paths: Vec<PathBuf> =
        entries.take(MAX_ENTRIES).filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort_unstable();
    let mut text = String::new();
    for path in paths.iter().take(MAX_LISTED) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // A name with line breaks or escape sequences stays one line of text.
        let _ = writeln!(text, "  {}: {}", name.escape_debug(), entry(path, &mut left));
    }
    if paths.len() > MAX_LISTED {
        let _ = writeln!(text, "  and {} more", paths.len() - MAX_LISTED);
    }
    text
}

fn entry(path: &Path, left: &mut usize) -> String {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) => return error.to_string(),
    };
    let is_folder = metadata.is_dir();
    if !is_folder {
        return kind(&metadata);
    }
    let mut total = Total::default();
    add(path, 1, left, &mut total);
    let at_least = if total.is_partial { "at least " } else { "" };
    format!("folder, {at_least}{} files, {} bytes", total.files, total.bytes)
}

fn kind(metadata: &Metadata) -> String {
    let file_type = metadata.file_type();
    if file_type.is_file() {
        return format!("{} bytes", metadata.len());
    }
    if file_type.is_symlink() { "a symbolic link" } else { "not a regular file" }.to_owned()
}

/// Adds what is below a folder. Follows no links.
fn add(folder: &Path, depth: usize, left: &mut usize, total: &mut Total) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        total.is_partial = true;
        return;
    };
    for entry in entries {
        let (Some(rest), true) = (left.checked_sub(1), depth <= MAX_DEPTH) else {
            total.is_partial = true;
            return;
        };
        *left = rest;
        // An entry that was removed meanwhile is not counted.
        let Ok(entry) = entry else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            add(&entry.path(), depth + 1, left, total);
        } else {
            total.files += 1;
            total.bytes = total.bytes.saturating_add(metadata.len());
        }
    }
}
