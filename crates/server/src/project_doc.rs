//! The project's own documents for agents: `AGENTS.md` from the project's root down to the
//! working folder; [`nested`] reads those below it.

pub(crate) mod nested;

use std::path::{Path, PathBuf};

use config::Config;

/// The main file name; the configuration may add others.
const NAME: &str = "AGENTS.md";

/// What was found: the text for the model and where it came from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectDoc {
    pub(crate) text: Option<String>,
    pub(crate) sources: Vec<PathBuf>,
    /// Why documents that exist cannot be read, or not as a whole.
    pub(crate) problems: Vec<String>,
}

/// Reads the documents that apply in `cwd`, outermost first, up to the configured size.
pub(crate) fn read(config: &Config, cwd: &Path) -> ProjectDoc {
    let mut found = ProjectDoc::default();
    let mut left = usize::try_from(*config.project_doc_max_bytes).unwrap_or(usize::MAX);
    let mut text = String::new();
    if left == 0 {
        return found;
    }
    for folder in folders(config, cwd) {
        let mut paths = names(config).map(|name| folder.join(name));
        let problems = &mut found.problems;
        let Some((path, mut part)) =
            paths.find_map(|path| read_text(&path, left, problems).map(|text| (path, text)))
        else {
            continue;
        };
        if part.trim_end().len() > left {
            problems.push(format!(
                "the project document {} does not fit, and is cut off or left out: project documents have \
                 reached `project_doc_max_bytes`; shorten them, or raise that key",
                path.display()
            ));
        }
        part.truncate(part.floor_char_boundary(left));
        left -= part.len();
        if !part.trim().is_empty() {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&part);
            found.sources.push(path);
        }
    }
    found.text = (!text.is_empty()).then_some(text);
    found
}

/// The names that a folder's document may have; the first that exists counts.
fn names(config: &Config) -> impl Iterator<Item = &str> {
    std::iter::once(NAME).chain(config.project_doc_fallback_filenames.iter().map(String::as_str))
}

/// From the project's root to `cwd`; only `cwd` where there is no root.
fn folders(config: &Config, cwd: &Path) -> Vec<PathBuf> {
    let is_root = |folder: &&Path| {
        config.project_root_markers.iter().any(|marker| folder.join(marker).exists())
    };
    let Some(root) = cwd.ancestors().find(is_root) else { return vec![cwd.to_owned()] };
    let mut folders: Vec<PathBuf> =
        cwd.ancestors().take_while(|folder| *folder != root).map(Path::to_owned).collect();
    folders.push(root.to_owned());
    folders.reverse();
    folders
}

fn read_text(path: &Path, max_bytes: usize, problems: &mut Vec<String>) -> Option<String> {
    // One more byte, to see whether there is room for all of it.
    match files::read_start(path, (max_bytes as u64).saturating_add(1)) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.is_not_found() && path.symlink_metadata().is_err() => None,
        Err(error) => {
            problems.push(format!("a project document is left out: {error}"));
            None
        }
    }
}
