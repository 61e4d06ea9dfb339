//! Resolves a path like the kernel, and records everything that the result depends on, so that it
//! can be protected from changes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::placeholder::is_placeholder;

/// Symbolic links that the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// Everything that the resolution of a path depends on. All paths are real except for their last
/// name.
#[derive(Debug, Default)]
pub(super) struct Resolution {
    /// The followed symbolic links.
    pub(super) links: Vec<PathBuf>,
    /// The passed folders. Renaming one changes the result.
    pub(super) folders: Vec<PathBuf>,
    pub(super) end: End,
}

#[derive(Debug, Default)]
pub(super) enum End {
    /// The path leads to this file or folder.
    Exists(PathBuf, Metadata),
    /// The path continues below this file, or below this folder, which cannot be searched.
    Blocked(PathBuf),
    /// The first name that does not exist, or a placeholder for it.
    Missing(PathBuf),
    /// More links than the kernel follows. The path leads nowhere as long as these links exist.
    #[default]
    Loop,
}

enum Step {
    Root,
    Up,
    Into(OsString),
}

/// Resolves `path`, which is absolute.
pub(super) fn resolve(path: &Path) -> Resolution {
    let mut found = Resolution::default();
    let mut current = PathBuf::from("/");
    let mut pending: VecDeque<Step> = steps(path).collect();
    while let Some(step) = pending.pop_front() {
        let name = match step {
            Step::Into(name) => name,
            Step::Root => {
                current = PathBuf::from("/");
                continue;
            }
            Step::Up => {
                found.folders.push(current.clone());
                current.pop();
                continue;
            }
        };
        let next = current.join(name);
        match next.symlink_metadata() {
            Ok(meta) if meta.is_symlink() => {
                found.links.push(next.clone());
                if found.links.len() > MAX_LINKS {
                    return found;
                }
                let Ok(target) = next.read_link() else {
                    found.end = End::Missing(next);
                    return found;
                };
                for step in steps(&target).rev() {
                    pending.push_front(step);
                }
            }
            Ok(meta) if is_placeholder(&next, &meta) => {
                found.end = End::Missing(next);
                return found;
            }
            Ok(meta) if meta.is_dir() && !pending.is_empty() => {
                found.folders.push(next.clone());
                current = next;
            }
            Ok(meta) if pending.is_empty() => {
                found.end = End::Exists(next, meta);
                return found;
            }
            Ok(_) => {
                found.end = End::Blocked(next);
                return found;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                found.end = End::Missing(next);
                return found;
            }
            Err(_) => {
                found.end = End::Blocked(current);
                return found;
            }
        }
    }
    found.end = match current.symlink_metadata() {
        Ok(meta) => End::Exists(current, meta),
        Err(_) => End::Missing(current),
    };
    found
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}
