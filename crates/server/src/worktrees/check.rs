//! Checks a merge against the user's checkout before anything is changed: what the checkout would lose, and
//! what it should not get from an agent unseen.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use policy::{PROTECTED_NAMES, ReadAccess, SandboxPolicy};
use protocol::WorktreeErrorReason as Reason;
use sandbox::Resolved;

use super::failure::{failed, refused};
use super::index::check_unlocked;
use super::repository::Repository;
use super::status::{Status, hidden};
use super::{MAX_FILES, MAX_LIST, Target};
use crate::git_command::{Argument, Git};
use services::error::Error;

/// The files of a git folder that stand for something unfinished.
const UNFINISHED: [&str; 5] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];
/// Entries of a folder in the way of a file that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// A file that differs between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// `A` for added, `D` for deleted; else it is in both commits.
    pub(super) kind: char,
    pub(super) name: String,
}

/// The files that differ between two commits.
///
/// # Errors
/// Git failed, or there are too many.
pub(super) async fn changes(
    git: &Git<'_>,
    root: &Path,
    (from, to): (&String, &String),
) -> Result<Vec<Change>, Error> {
    let diff: [Argument<'_>; 9] =
        [&"-C", &root, &"diff-tree", &"-r", &"--no-renames", &"--name-status", &"-z", from, to];
    let ended = git.run(&diff, 4 * MAX_LIST).await.map_err(failed)?;
    if ended.is_cut {
        let message = "the merge changes too many files to check them one by one";
        return Err(
            refused(Reason::Overwrites, message, Vec::new()).next_step("merge the branch yourself")
        );
    }
    if !ended.exit.success() {
        return Err(failed(ended.failure(&diff)));
    }
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let (mut parts, mut found) = (text.split('\0'), Vec::new());
    while let (Some(kind), Some(name)) = (parts.next(), parts.next()) {
        let Some(kind) = kind.chars().next() else { break };
        found.push(Change { kind, name: name.to_owned() });
    }
    Ok(found)
}

/// Refuses a working folder in which something of git is not finished. `place`: its name in the message.
pub(super) async fn check_finished(
    target: &Target<'_>,
    folder: &Repository,
    place: &str,
) -> Result<(), Error> {
    let own = folder.own.clone();
    let unfinished = target.services.files.run(&folder.own, move || {
        check_unlocked(&own)?;
        Ok::<_, Error>(
            UNFINISHED.into_iter().find(|name| own.join(name).symlink_metadata().is_ok()),
        )
    });
    let Some(name) = unfinished.await?? else { return Ok(()) };
    let message = format!("a merge or rebase in {place} is not finished ({name})");
    Err(refused(Reason::Unfinished, message, Vec::new())
        .next_step("finish or abort it there first"))
}

/// Refuses what the user's checkout would lose, or should not get from an agent unseen.
pub(super) async fn check_checkout(
    target: &Target<'_>,
    git: &Git<'_>,
    checkout: &Repository,
    changes: &[Change],
) -> Result<(), Error> {
    let root = &checkout.root;
    check_finished(target, checkout, "the checkout").await?;
    let status = Status::read(git, root).await.map_err(failed)?;
    if !status.unmerged.is_empty() {
        let message = format!("{} has files with conflicts", root.display());
        return Err(refused(Reason::Unfinished, message, status.unmerged)
            .next_step("resolve them there first"));
    }
    if status.changed.is_cut {
        let message = format!("{} has too many changed files to compare", root.display());
        return Err(refused(Reason::Overwrites, message, Vec::new())
            .next_step("commit them, or merge the branch yourself"));
    }
    let merged: HashSet<&str> = changes.iter().map(|change| &*change.name).collect();
    let dirty = status.changed.names.into_iter().chain(hidden(git, root).await.map_err(failed)?);
    let mut lost: Vec<String> =
        dirty.filter(|name| merged.contains(&**name)).take(MAX_FILES).collect();
    let (own_root, own_changes) = (root.clone(), changes.to_vec());
    let in_the_way = move || in_the_way(&own_root, &own_changes);
    lost.extend(target.services.files.run(root, in_the_way).await?);
    lost.sort();
    lost.dedup();
    if !lost.is_empty() {
        lost.truncate(MAX_FILES);
        let message =
            format!("{} has uncommitted changes that would be overwritten", root.display());
        return Err(refused(Reason::Overwrites, message, lost)
            .next_step("commit or stash them first, or move files that git does not know away"));
    }
    let (folder, names) = (root.clone(), changes.to_vec());
    let trusted = target.config.trusted_folders.clone();
    let protected = move || protected(&folder, &names, &trusted);
    let protected = target.services.files.run(root, protected).await?;
    if protected.is_empty() {
        return Ok(());
    }
    let message = "the worktree changes files that configure the agent or git";
    Err(refused(Reason::Protected, message, protected)
        .next_step("look at them, and merge the branch yourself"))
}

/// The changes of protected files: of the protected names, and of what links in them lead to, also in trusted
/// subfolders.
fn protected(root: &Path, changes: &[Change], trusted: &[PathBuf]) -> Vec<String> {
    let policy = SandboxPolicy::WorkspaceWrite {
        writable_roots: vec![root.to_owned()],
        read: ReadAccess::Full,
        network: false,
        exclude_slash_tmp: true,
        exclude_tmpdir: true,
    };
    let policy = Resolved::new(&policy.rooted(root), None).guarding(trusted).settle();
    let is_protected = |change: &&Change| {
        let name = Path::new(&change.name);
        let first = name.iter().next();
        let is = |protected: &&str| first.is_some_and(|it| it.eq_ignore_ascii_case(protected));
        if PROTECTED_NAMES.iter().any(is) {
            return true;
        }
        let path = root.join(name);
        // A link that is replaced leads out of the checkout.
        let parent = path.ancestors().skip(1).find_map(|folder| folder.canonicalize().ok());
        let is_inside = parent.is_some_and(|parent| parent.starts_with(root));
        let denied = |error: sandbox::Error| error.kind() == sandbox::ErrorKind::Denied;
        is_inside && policy.check_write_entry(&path).is_err_and(denied)
    };
    let found = changes.iter().filter(is_protected).take(MAX_FILES);
    found.map(|change| change.name.clone()).collect()
}

/// The files that git does not know, ignored ones included, in the place of those that a merge adds.
fn in_the_way(root: &Path, changes: &[Change]) -> Vec<String> {
    let deleted = changes.iter().filter(|change| change.kind == 'D');
    let deleted: HashSet<&Path> = deleted.map(|change| Path::new(&change.name)).collect();
    let mut found = Vec::new();
    for added in changes.iter().filter(|change| change.kind == 'A') {
        let name = Path::new(&added.name);
        let above = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let is_no_folder =
            |it: &&Path| root.join(it).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        // The topmost one decides: below a link, other folders would be looked at.
        let blocking = above.filter(is_no_folder).last();
        match (blocking, root.join(name).symlink_metadata()) {
            (Some(blocking), _) if deleted.contains(blocking) => {}
            (Some(blocking), _) => found.push(blocking.display().to_string()),
            (None, Ok(meta)) if meta.is_dir() => found.extend(file_in(root, name, &deleted)),
            (None, Ok(_)) => found.push(added.name.clone()),
            (None, Err(_)) => {}
        }
        if found.len() >= MAX_FILES {
            break;
        }
    }
    found
}

/// A file in a folder that the merge does not delete; empty folders are no loss.
fn file_in(root: &Path, folder: &Path, deleted: &HashSet<&Path>) -> Option<String> {
    let (mut pending, mut seen) = (vec![folder.to_owned()], 0);
    while let Some(folder) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(root.join(&folder)) else {
            return Some(folder.display().to_string());
        };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            seen += 1;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match is_folder {
                true if seen < MAX_ENTRIES => pending.push(path),
                false if deleted.contains(&*path) => {}
                _ => return Some(path.display().to_string()),
            }
        }
    }
    None
}
