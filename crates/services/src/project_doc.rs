//! The documents for agents: the user's own `AGENTS.md` in the agent's home, and the project's from its
//! root down to the working folder; [`nested`] reads those below it. In each folder,
//! `AGENTS.override.md` takes the place of `AGENTS.md`.

pub mod nested;

use std::path::{Path, PathBuf};

use config::Config;

/// The file names, the first of which counts; the configuration may add others.
const NAMES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// The documents found: the text for the model and its sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProjectDoc {
    pub text: Option<String>,
    pub sources: Vec<PathBuf>,
    /// Why documents that exist cannot be read, or not as a whole.
    pub problems: Vec<String>,
}

/// Reads the documents that apply in `cwd`, that of `home` and then the outermost first, up to the
/// configured size. `check_read` returns where a path of the project leads, or why the thread may not
/// read it. Waits for the file system.
pub fn read(
    config: &Config,
    home: &Path,
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
    let own = (!folders.iter().any(|folder| folder == home)).then(|| home.to_owned());
    // The user's own document can be anywhere, such as among the user's dotfiles.
    let anywhere =
        |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    for folder in own.into_iter().chain(folders) {
        let problems = &mut found.problems;
        let is_own = folder == home;
        let read = |path: PathBuf| {
            // One more byte, to see whether there is room for all of it.
            let most = left.saturating_add(1);
            let document = match is_own {
                true => document(&path, Path::new("/"), most, anywhere),
                false => document(&path, &root, most, &check_read),
            };
            match document? {
                Ok(text) => Some((path, text)),
                Err(why) => {
                    problems.push(why);
                    None
                }
            }
        };
        let names = names(config).take(if is_own { NAMES.len() } else { usize::MAX });
        let Some((path, mut part)) = names.map(|name| folder.join(name)).find_map(read) else {
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
    NAMES.into_iter().chain(config.project_doc_fallback_filenames.iter().map(String::as_str))
}

/// From the project's root to `cwd`; only `cwd` where the root is not a folder above it.
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
        // Twice as much, since UTF-16 needs two bytes for what is one here.
        let most = (max_bytes as u64).saturating_mul(2);
        let bytes = files::read_start(&real, most).map_err(|error| error.to_string())?;
        let mut text = files::decoded(bytes)
            .unwrap_or_else(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.truncate(text.floor_char_boundary(max_bytes));
        Ok(text)
    };
    Some(text().map_err(|why| format!("a project document is left out: {why}")))
}
