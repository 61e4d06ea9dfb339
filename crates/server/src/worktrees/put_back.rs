//! Takes back what a merge that git did not finish has changed in the user's checkout. Only files that differ
//! between the two commits are touched, and of these only the ones that are as the merge made them, or as it
//! left them when it was cut off: all of them had no changes of the user's before.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::check::{Change, changes};
use super::failure::failed;
use super::folder::unusable;
use super::index::{copy_index, remove_copy, remove_if_there};
use super::journal::WorkingFolder;
use super::{FileList, MAX_LIST};
use crate::git_command::{Argument, Git, GitServices};
use services::error::Error;

/// Larger files are not compared with what the merge would have written.
const MAX_FILE: usize = 64 << 20;
/// Files that may be a part of what git was writing. It writes one after the other.
const MAX_PARTS: usize = 32;
/// Files in the folder of worktrees.
const FROM: &str = ".merge.from";
const TO: &str = ".merge.to";
const PATHS: &str = ".merge.paths";

/// The outcome.
#[derive(Debug, Default)]
pub(super) struct PutBack {
    /// Files that are as they were before.
    pub(super) restored: usize,
    /// Files that have other contents than either commit, and were left alone.
    pub(super) left: Vec<String>,
}

/// Puts the files back. `scratch`: the folder of worktrees, for this program's own files.
///
/// # Errors
/// Git failed, or a file cannot be written.
pub(super) async fn put_back(
    (git, services): (&Git<'_>, &GitServices),
    scratch: &Path,
    checkout: &WorkingFolder,
    commits: (&String, &String),
) -> Result<PutBack, Error> {
    let done = put_back_with(git, services, scratch, checkout, commits).await;
    let folder = scratch.to_owned();
    let clean =
        move || [FROM, TO, PATHS].iter().try_for_each(|name| remove_copy(&folder.join(name)));
    let cleaned = services.files.run(scratch, clean).await?;
    let done = done?;
    cleaned.map(|()| done)
}

async fn put_back_with(
    git: &Git<'_>,
    services: &GitServices,
    scratch: &Path,
    checkout: &WorkingFolder,
    (from, to): (&String, &String),
) -> Result<PutBack, Error> {
    let root = &checkout.root;
    let (from_index, to_index) = (scratch.join(FROM), scratch.join(TO));
    let (own, copies) = (checkout.own.clone(), [from_index.clone(), to_index.clone()]);
    let copy = move || copies.iter().try_for_each(|copy| copy_index(&own, copy));
    services.files.run(scratch, copy).await??;
    let git_from = git.with_variable("GIT_INDEX_FILE", &from_index);
    let git_to =
        git.with_variable("GIT_INDEX_FILE", &to_index).with_variable("GIT_LITERAL_PATHSPECS", "1");
    let read: [Argument<'_>; 6] = [&"-C", root, &"read-tree", &"-m", &"-i", to];
    git_to.text(&read).await.map_err(failed)?;
    let unlike_from = differing(&git_from, root).await?;
    let unlike_to = differing(&git_to, root).await?;
    let changes = changes(git, root, (from, to)).await?;

    let (mut added, mut restored, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let mut parts = 0;
    for Change { kind, name } in &changes {
        let is_changed = match kind {
            'A' => state_of(root, name) != State::Missing,
            _ => unlike_from.contains(name),
        };
        if !is_changed || *kind == 'D' {
            continue;
        }
        if name.contains(char::REPLACEMENT_CHARACTER) {
            // It is no text, so that git cannot be given it.
            left.push(name.clone());
            continue;
        }
        let is_made = !unlike_to.contains(name) || state_of(root, name) == State::Missing || {
            parts += 1;
            parts <= MAX_PARTS && is_part(git, services, root, (to, name)).await?
        };
        match (is_made, kind) {
            (true, 'A') => added.push(name.clone()),
            (true, _) => restored.push(name.clone()),
            (false, _) => left.push(name.clone()),
        }
    }
    if !added.is_empty() {
        write_paths(services, scratch, &added).await?;
        let paths = paths_option(scratch);
        let remove: [Argument<'_>; 9] = [
            &"-C",
            root,
            &"rm",
            &"--force",
            &"--quiet",
            &"--sparse",
            &"--ignore-unmatch",
            &paths,
            &"--pathspec-file-nul",
        ];
        git_to.text(&remove).await.map_err(failed)?;
    }
    // A file that was replaced by a folder is missing only now.
    for Change { name, .. } in changes.iter().filter(|change| change.kind == 'D') {
        if unlike_from.contains(name) {
            match state_of(root, name) {
                State::Missing => restored.push(name.clone()),
                State::There => left.push(name.clone()),
            }
        }
    }
    if !restored.is_empty() {
        write_paths(services, scratch, &restored).await?;
        let (source, paths) = (format!("--source={from}"), paths_option(scratch));
        let restore: [Argument<'_>; 7] =
            [&"-C", root, &"restore", &source, &"--worktree", &paths, &"--pathspec-file-nul"];
        let git = git_from.with_variable("GIT_LITERAL_PATHSPECS", "1");
        git.text(&restore).await.map_err(failed)?;
    }
    Ok(PutBack { restored: added.len() + restored.len(), left })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    There,
}

/// The state of a file: it is missing, too, where its folder is none.
fn state_of(root: &Path, name: &str) -> State {
    match root.join(name).symlink_metadata() {
        Ok(_) => State::There,
        Err(_) => State::Missing,
    }
}

/// The files that are unlike the index.
async fn differing(git: &Git<'_>, root: &Path) -> Result<HashSet<String>, Error> {
    let refresh: [Argument<'_>; 5] = [&"-C", &root, &"update-index", &"-q", &"--refresh"];
    // Where a file differs, git exits with 1.
    git.run(&refresh, MAX_LIST).await.map_err(failed)?;
    let diff: [Argument<'_>; 6] =
        [&"-C", &root, &"diff-files", &"--no-renames", &"--name-only", &"-z"];
    let ended = git.run(&diff, 4 * MAX_LIST).await.map_err(failed)?;
    if ended.is_cut || !ended.exit.success() {
        return Err(failed(ended.failure(&diff)));
    }
    Ok(FileList::read(&ended.stdout, false, 0).names.into_iter().collect())
}

/// Returns whether a file is the beginning of what the commit has under its name.
async fn is_part(
    git: &Git<'_>,
    services: &GitServices,
    root: &Path,
    (to, name): (&String, &String),
) -> Result<bool, Error> {
    let path = root.join(name);
    let read = move || match path.symlink_metadata() {
        Ok(meta) if meta.is_file() => files::read(&path, MAX_FILE as u64).ok(),
        _ => None,
    };
    let Some(found) = services.files.run(root, read).await? else { return Ok(false) };
    let object = format!("{to}:{name}");
    let show: [Argument<'_>; 5] = [&"-C", &root, &"cat-file", &"--filters", &object];
    let ended = git.run(&show, MAX_FILE).await.map_err(failed)?;
    Ok(!ended.is_cut && ended.exit.success() && ended.stdout.starts_with(&found))
}

fn paths_option(scratch: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from("--pathspec-from-file=");
    option.push(scratch.join(PATHS));
    option
}

async fn write_paths(
    services: &GitServices,
    scratch: &Path,
    names: &[String],
) -> Result<(), Error> {
    let (file, text): (PathBuf, String) = (scratch.join(PATHS), names.join("\0"));
    let write = move || {
        remove_if_there(&file)
            .and_then(|()| std::fs::write(&file, text))
            .map_err(|error| unusable(&file, &error))
    };
    services.files.run(scratch, write).await?
}
