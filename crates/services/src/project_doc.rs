//! The project's own documents for agents: `AGENTS.md` from the project's root down to the
//! working folder; [`nested`] reads those below it.

pub mod nested;

use std::path::{Path, PathBuf};

use config::Config;

/// The main file name; the configuration may add others.
const NAME: &str = "AGENTS.md";

/// The documents found: the text for the model and its sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProjectDoc {
    pub text: Option<String>,
    pub sources: Vec<PathBuf>,
    /// Why documents that exist cannot be read, or not as a whole.
    pub problems: Vec<String>,
}

/// Reads the documents that apply in `cwd`, outermost first, up to the configured size. `check_read`
/// returns where a path leads, or why the thread may not read it. Waits for the file system.
pub fn read(
    config: &Config,
    cwd: &Path,
    check_read: impl Fn(&Path) -> Result<PathBuf, String>,
) -> ProjectDoc {
    let mut found = ProjectDoc::default();
    let mut left = usize::try_from(*config.project_doc_max_bytes).unwrap_or(usize::MAX);
    let mut text = String::new();
    if left == 0 {
        return found;
    }
    let folders = folders(config, cwd);
    let Ok(root) = folders[0].canonicalize() else { return found };
    for folder in folders {
        let problems = &mut found.problems;
        let read = |path: PathBuf| {
            // One more byte, to see whether there is room for all of it.
            match document(&path, &root, left.saturating_add(1), &check_read)? {
                Ok(text) => Some((path, text)),
                Err(why) => {
                    problems.push(why);
                    None
                }
            }
        };
        let Some((path, mut part)) = names(config).map(|name| folder.join(name)).find_map(read)
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

/// From the project's root to `cwd`; only `cwd` where the root is no folder above it.
fn folders(config: &Config, cwd: &Path) -> Vec<PathBuf> {
    let root = &config.project_root;
    let mut folders: Vec<PathBuf> =
        cwd.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_owned).collect();
    if folders.is_empty() {
        folders.push(cwd.to_owned());
    }
    folders.reverse();
    folders
}

/// The start of the document at `path`; `None` when there is none. A link is followed within `root`, the real
/// path of the project's root: what it could lead to elsewhere must not reach the model unasked.
fn document(
    path: &Path,
    root: &Path,
    max_bytes: usize,
    check_read: impl Fn(&Path) -> Result<PathBuf, String>,
) -> Option<Result<String, String>> {
    path.symlink_metadata().ok()?;
    let text = || -> Result<String, String> {
        let real = check_read(path)?;
        if !real.starts_with(root) {
            let (path, real) = (path.display(), real.display());
            return Err(format!(
                "{path} leads to {real}, outside of the project {}; put the file into the project",
                root.display()
            ));
        }
        let bytes =
            files::read_start(&real, max_bytes as u64).map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Some(text().map_err(|why| format!("a project document is left out: {why}")))
}
