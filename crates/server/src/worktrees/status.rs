//! The files of a working folder that no commit has: uncommitted ones, also those that git leaves out on
//! request, and repositories inside of it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::{FileList, MAX_LIST};
use crate::git_command::{Argument, Git, GitFailure};

/// Bytes of the list of all files of an index. A longer one is not looked through.
const MAX_INDEX_LIST: usize = 64 << 20;
/// Paths that one run of git gets as arguments.
const BATCH: usize = 200;
/// The mode of a link to the commit of a repository inside.
const GITLINK: &str = "160000";
/// Folders of a git folder that are looked through for those of submodules.
const MAX_MODULES: usize = 1_000;

/// The state of a working folder.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Files with uncommitted changes, untracked ones included.
    pub(super) changed: FileList,
    /// Untracked folders with a repository of their own.
    pub(super) nested: Vec<String>,
    /// Files with conflicts that are not resolved.
    pub(super) unmerged: Vec<String>,
}

impl Status {
    pub(super) async fn read(git: &Git<'_>, root: &Path) -> Result<Self, GitFailure> {
        let status: [Argument<'_>; 7] = [
            &"-C",
            &root,
            &"status",
            &"--porcelain",
            &"-z",
            &"--no-renames",
            &"--untracked-files=all",
        ];
        let ended = git.run(&status, MAX_LIST).await?;
        if !ended.is_cut && !ended.exit.success() {
            return Err(ended.failure(&status));
        }
        let entries = FileList::read(&ended.stdout, ended.is_cut, 0);
        let changed = FileList { names: Vec::new(), is_cut: entries.is_cut };
        let mut found = Self { changed, ..Self::default() };
        for entry in entries.names {
            // Two letters and a space come before each name.
            let (Some(letters), Some(name)) = (entry.get(..2), entry.get(3..)) else { continue };
            if let Some(folder) = name.strip_suffix('/') {
                found.nested.push(folder.to_owned());
            }
            if letters.contains('U') || matches!(letters, "AA" | "DD") {
                found.unmerged.push(name.to_owned());
            }
            found.changed.names.push(name.to_owned());
        }
        Ok(found)
    }
}

/// The files with uncommitted changes of a working folder, hidden ones included.
pub(super) async fn uncommitted(git: &Git<'_>, root: &Path) -> Result<FileList, GitFailure> {
    let mut changed = Status::read(git, root).await?.changed;
    changed.names.extend(hidden(git, root).await?);
    Ok(changed)
}

/// The changed files that `git status` leaves out, since they are marked `skip-worktree` or `assume-unchanged`.
pub(super) async fn hidden(git: &Git<'_>, root: &Path) -> Result<Vec<String>, GitFailure> {
    let list: [Argument<'_>; 5] = [&"-C", &root, &"ls-files", &"-v", &"-z"];
    let ended = git.run(&list, MAX_INDEX_LIST).await?;
    if ended.is_cut || !ended.exit.success() {
        return Err(ended.failure(&list));
    }
    let text = String::from_utf8_lossy(&ended.stdout);
    let is_marked = |tag: &str| tag == "S" || tag.chars().all(|c| c.is_ascii_lowercase());
    let marked = text.split('\0').filter_map(|entry| entry.split_once(' '));
    let marked: Vec<&str> =
        marked.filter(|(tag, _)| is_marked(tag)).map(|(_, name)| name).collect();
    // Those of a sparse checkout are not there.
    let is_there =
        |name: &&str| root.join(name).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
    let there: Vec<&str> = marked.into_iter().filter(is_there).collect();
    let mut changed = Vec::new();
    for batch in there.chunks(BATCH) {
        changed.extend(differing(git, root, batch).await?);
    }
    Ok(changed)
}

/// Those of these files whose contents are not those of the index.
async fn differing(git: &Git<'_>, root: &Path, names: &[&str]) -> Result<Vec<String>, GitFailure> {
    let literal = git.with_variable("GIT_LITERAL_PATHSPECS", "1");
    let mut stage: Vec<Argument<'_>> = vec![&"-C", &root, &"ls-files", &"--stage", &"-z", &"--"];
    stage.extend(names.iter().map(|name| name as Argument<'_>));
    let ended = literal.run(&stage, MAX_LIST).await?;
    if ended.is_cut || !ended.exit.success() {
        return Err(ended.failure(&stage));
    }
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    // Mode, object and stage, a tab, and the name.
    let entries = text.split('\0').filter_map(|entry| entry.split_once('\t'));
    let objects: HashMap<&str, (&str, &str)> = entries
        .filter_map(|(facts, name)| {
            let mut facts = facts.split(' ');
            Some((name, (facts.next()?, facts.next()?)))
        })
        .collect();
    let mut hash: Vec<Argument<'_>> = vec![&"-C", &root, &"hash-object", &"--"];
    let (mut hashed, mut changed) = (Vec::new(), Vec::new());
    for name in names {
        let Some((mode, object)) = objects.get(name) else { continue };
        let is_link = root.join(name).symlink_metadata().is_ok_and(|meta| meta.is_symlink());
        match (is_link, *mode == "120000") {
            (false, false) if *mode != GITLINK => {
                hash.push(name);
                hashed.push((*name, *object));
            }
            (false, true) | (true, false) => changed.push((*name).to_owned()),
            // Where a link leads is no work that could be lost.
            _ => {}
        }
    }
    if hashed.is_empty() {
        return Ok(changed);
    }
    let ended = git.run(&hash, MAX_LIST).await?;
    if !ended.exit.success() {
        return Err(ended.failure(&hash));
    }
    let found = String::from_utf8_lossy(&ended.stdout).into_owned();
    let pairs = hashed.into_iter().zip(found.lines());
    let differs = pairs.filter(|((_, object), found)| object != found);
    changed.extend(differs.map(|((name, _), _)| name.to_owned()));
    Ok(changed)
}

/// The repositories inside of a worktree: submodules whose files are there, and other repositories in folders
/// that git does not ignore. `own`: its git folder, which has those of its submodules.
pub(super) async fn nested(
    git: &Git<'_>,
    root: &Path,
    own: &Path,
) -> Result<(Vec<String>, bool), GitFailure> {
    let list: [Argument<'_>; 5] = [&"-C", &root, &"ls-files", &"--stage", &"-z"];
    let ended = git.run(&list, MAX_INDEX_LIST).await?;
    if ended.is_cut || !ended.exit.success() {
        return Err(ended.failure(&list));
    }
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let entries = text.split('\0').filter_map(|entry| entry.split_once('\t'));
    let links: Vec<&str> =
        entries.filter(|(facts, _)| facts.starts_with(GITLINK)).map(|(_, name)| name).collect();
    let has_links = !links.is_empty();
    let is_repository = |name: &str| root.join(name).join(".git").symlink_metadata().is_ok();
    let mut found: Vec<String> =
        links.into_iter().filter(|name| is_repository(name)).map(str::to_owned).collect();
    let known: HashSet<String> = found.iter().cloned().collect();
    let untracked = Status::read(git, root).await?.nested;
    found.extend(untracked.into_iter().filter(|name| !known.contains(name)));
    if found.is_empty() {
        // Of a submodule whose files were taken away.
        found.extend(modules(&own.join("modules")).into_iter().map(|it| it.display().to_string()));
    }
    found.sort();
    Ok((found, has_links))
}

/// The git folders of submodules. A folder that cannot be read to its end counts as one: it may have some.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending, mut seen) = (Vec::new(), vec![folder.to_owned()], 0);
    while let Some(folder) = pending.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(_) => {
                found.push(folder);
                continue;
            }
        };
        for entry in entries {
            seen += 1;
            let Ok(entry) = entry else {
                found.push(folder);
                break;
            };
            if seen > MAX_MODULES {
                found.push(folder);
                return found;
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            match entry.path().join("HEAD").exists() {
                true => found.push(entry.path()),
                false => pending.push(entry.path()),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_not_read_to_their_end_count_as_repositories() {
        let folder = tempfile::tempdir().unwrap();
        let modules_in = |folder: &Path| modules(folder).len();
        assert_eq!(modules_in(&folder.path().join("none")), 0);
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        assert_eq!(modules_in(folder.path()), 0);
        std::fs::write(folder.path().join("a/b/HEAD"), "").unwrap();
        assert_eq!(modules(folder.path()), [folder.path().join("a/b")]);
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert_eq!(modules(&folder.path().join("file")), [folder.path().join("file")]);
        let many = tempfile::tempdir().unwrap();
        for number in 0..=MAX_MODULES {
            std::fs::create_dir(many.path().join(number.to_string())).unwrap();
        }
        assert_eq!(modules(many.path()), [many.path()]);
    }
}
