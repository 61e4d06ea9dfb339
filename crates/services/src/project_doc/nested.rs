//! Project documents of folders below the working folder, which the model gets when a call works there.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use config::Config;
use session::ProjectDocument;

/// Folders that are looked at for one call.
const MAX_FOLDERS: usize = 256;

/// The documents found for a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NestedDocs {
    /// Outermost first, then those that are gone.
    pub documents: Vec<ProjectDocument>,
    /// Why documents that exist are left out.
    pub problems: Vec<String>,
}

/// The documents of the folders on the way from `cwd` to `places`, files or folders, without that of
/// `cwd` itself. One of `known` that is gone from these folders is there without text. `check_read` returns
/// where a path leads, or why the thread may not read it. Waits for the file system.
pub fn read(
    config: &Config,
    cwd: &Path,
    places: impl IntoIterator<Item = PathBuf>,
    known: &[PathBuf],
    check_read: impl Fn(&Path) -> Result<PathBuf, String>,
) -> NestedDocs {
    let mut found = NestedDocs::default();
    let max_bytes = usize::try_from(*config.project_doc_max_bytes).unwrap_or(usize::MAX);
    let mut left = max_bytes;
    let root = super::folders(config, cwd).swap_remove(0);
    let Ok(root) = root.canonicalize() else { return found };
    let folders = folders_below(cwd, places);
    for folder in &folders {
        for name in super::names(config) {
            let path = folder.join(name);
            // The thread has at most as much room, and finds by one more byte that there is not enough.
            match super::document(&path, &root, left.saturating_add(1), &check_read) {
                None => {}
                Some(Ok(text)) => {
                    left -= text.len().min(left);
                    let path = path.display().to_string();
                    found.documents.push(ProjectDocument { path, text });
                    break;
                }
                Some(Err(why)) => found.problems.push(why),
            }
        }
    }
    let is_in = |path: &Path| path.parent().is_some_and(|folder| folders.contains(folder));
    for path in known.iter().filter(|path| is_in(path) && is_gone(path)) {
        let path = path.display().to_string();
        found.documents.push(ProjectDocument { path, text: String::new() });
    }
    found
}

fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// The folders below `cwd` on the way to `places`, outermost first.
fn folders_below(cwd: &Path, places: impl IntoIterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for place in places {
        let place = cwd.join(place);
        let Ok(below) = place.strip_prefix(cwd) else { continue };
        // `..` could lead elsewhere than it says, after a link.
        if below.components().any(|part| !matches!(part, Component::Normal(_))) {
            continue;
        }
        for folder in place.ancestors().take_while(|folder| *folder != cwd) {
            if folders.len() >= MAX_FOLDERS {
                return folders;
            }
            if folder.is_dir() {
                folders.insert(folder.to_owned());
            }
        }
    }
    folders
}

/// The files and folders that commands name, by their words; `cd` changes the folder of those after it.
pub fn named_places(commands: &[Vec<String>], cwd: &Path) -> Vec<PathBuf> {
    let mut folder = cwd.to_owned();
    let mut places = Vec::new();
    for words in commands {
        if let [program, target] = &words[..]
            && program == "cd"
        {
            folder = normal(&folder.join(target));
            places.push(folder.clone());
            continue;
        }
        // A program of the project may be what is worked with, too.
        let paths = words.iter().filter(|word| !word.starts_with('-') && !word.is_empty());
        places.extend(paths.map(|word| normal(&folder.join(word))));
    }
    places
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(commands: &[&[&str]]) -> Vec<String> {
        let commands: Vec<Vec<String>> = commands
            .iter()
            .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
            .collect();
        let places = named_places(&commands, Path::new("/w"));
        places.iter().map(|place| place.display().to_string()).collect()
    }

    #[test]
    fn commands_name_places_below_the_folder_that_they_run_in() {
        assert_eq!(named(&[&["cat", "-n", "a/b.rs"]]), ["/w/cat", "/w/a/b.rs"]);
        assert_eq!(named(&[&["cd", "a"], &["make"]]), ["/w/a", "/w/a/make"]);
        assert_eq!(named(&[&["cd", "a"], &["cd", ".."], &["x"]]), ["/w/a", "/w", "/w/x"]);
        assert_eq!(named(&[&["ls", "/etc", "./a/../b"]]), ["/w/ls", "/etc", "/w/b"]);
    }

    #[test]
    fn folders_are_those_below_the_working_folder() {
        let files = tempfile::tempdir().unwrap();
        let cwd = files.path();
        std::fs::create_dir_all(cwd.join("a/b")).unwrap();
        std::fs::write(cwd.join("a/b/file"), "").unwrap();
        let of = |places: &[&str]| -> Vec<String> {
            let found = folders_below(cwd, places.iter().map(|place| cwd.join(place)));
            let below = |it: &PathBuf| it.strip_prefix(cwd).unwrap().display().to_string();
            found.iter().map(below).collect()
        };
        assert_eq!(of(&["a/b/file", "a/b/new"]), ["a", "a/b"]);
        assert_eq!(of(&["", "missing/x", "/", "../a"]), Vec::<String>::new());
        assert_eq!(of(&["a/../a/b"]), Vec::<String>::new());
    }
}
