//! Removes a worktree with its branch. What would be lost is a reason to refuse, or is kept under a ref.

use std::path::Path;

use protocol::{
    SavedWorktree, WorktreeErrorReason as Reason, WorktreeRemoveResponse, WorktreeState,
};

use super::carry::tree_with_changes;
use super::failure::{failed, refused};
use super::folder::{name_of, unusable};
use super::make::git_dir;
use super::merge::{checkout_of, commit_of};
use super::record::Record;
use super::repository::Repository;
use super::state::is_locked;
use super::status::{hidden, nested, uncommitted};
use super::{FileList, MAX_LIST, MERGED_REFS, REMOVED_REFS, Target};
use crate::git_command::{Argument, Git};
use services::error::Error;

/// Removed worktrees of one name that are kept.
const MAX_NUMBER: usize = 1_000;
/// The identity of commits that keep what a worktree had: the user may have none.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "agentd"),
    ("GIT_AUTHOR_EMAIL", "agentd@localhost"),
    ("GIT_COMMITTER_NAME", "agentd"),
    ("GIT_COMMITTER_EMAIL", "agentd@localhost"),
];

/// Removes a worktree. `state`: the condition of its folder.
///
/// # Errors
/// A refusal with its reason; git failed.
pub(crate) async fn remove(
    target: &Target<'_>,
    state: WorktreeState,
    force: bool,
) -> Result<WorktreeRemoveResponse, Error> {
    let folder = match state {
        WorktreeState::Ready => Some(target.worktree().await?),
        WorktreeState::Missing => None,
        WorktreeState::Broken => {
            target.take_away_empty().await?;
            None
        }
    };
    if !force && target.is_locked().await? {
        let message = format!("{} is locked", target.path.display());
        return Err(refused(Reason::Locked, message, Vec::new())
            .next_step("run `git worktree unlock`, or give `force`"));
    }
    let read: Vec<&Path> = folder.iter().map(|folder| &*folder.root).collect();
    let git = target.git(None, &read).await?;
    let has_links = match &folder {
        Some(folder) => check_nested(&git, folder).await?,
        None => false,
    };
    let loss = Loss::find(target, &git, folder.as_ref()).await?;
    if !force {
        loss.refuse(target, &git).await?;
    }
    let saved = match folder {
        _ if loss.is_none() => None,
        folder => Some(loss.save(target, &git, folder.as_ref()).await?),
    };
    let removed = remove_files(target, &git, (force, has_links)).await;
    let removed = match removed {
        Ok(()) => remove_branch(target, &git, &loss).await,
        failed => failed,
    };
    if let Err(error) = removed {
        return Err(match &saved {
            Some(saved) => error.next_step(format!("what it had is kept as {}", saved.reference)),
            None => error,
        });
    }
    let path = target.path.to_owned();
    target.services.files.run(target.path, move || Record::delete(&path)).await??;
    Ok(WorktreeRemoveResponse { saved })
}

/// Refuses to remove a worktree with a repository inside: a commit of the worktree keeps nothing of it. Returns
/// whether the worktree has submodules.
async fn check_nested(git: &Git<'_>, folder: &Repository) -> Result<bool, Error> {
    let (nested, has_links) = nested(git, &folder.root, &folder.own).await.map_err(failed)?;
    if nested.is_empty() {
        return Ok(has_links);
    }
    let message = "the worktree has a repository inside, which would be lost";
    Err(refused(Reason::NestedRepository, message, nested).next_step(
        "push what it has, or move it away; then delete its folder, and for a submodule also the one in \
         `git rev-parse --git-path modules`",
    ))
}

impl Target<'_> {
    /// The worktree's name.
    pub(super) fn name(&self) -> String {
        name_of(self.path)
    }

    /// The worktree, found again: its files may have changed since it was listed.
    pub(crate) async fn worktree(&self) -> Result<Repository, Error> {
        let (path, common) = (self.path.to_owned(), self.record.common.clone());
        let branch = self.record.branch.clone();
        let find = move || {
            if path.symlink_metadata().is_err() {
                let message = format!("the folder of the worktree is gone: {}", path.display());
                return Err(refused(Reason::Missing, message, Vec::new()).next_step(format!(
                    "merge its branch yourself, or restore it with `git worktree add {} {branch}`",
                    path.display()
                )));
            }
            let found = Repository::find(&path)?;
            match found.root == path && found.common == common {
                true => Ok(found),
                false => Err(refused(
                    Reason::UnknownWorktree,
                    format!("{} is no worktree of {}", path.display(), common.display()),
                    Vec::new(),
                )),
            }
        };
        self.services.files.run(self.path, find).await?
    }

    async fn is_locked(&self) -> Result<bool, Error> {
        let (path, record) = (self.path.to_owned(), self.record.clone());
        Ok(self.services.files.run(self.path, move || is_locked(&path, &record)).await?)
    }

    /// Takes away the folder of a worktree that git never made. One with anything in it is the user's to look at.
    async fn take_away_empty(&self) -> Result<(), Error> {
        let path = self.path.to_owned();
        let take = move || match std::fs::remove_dir(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                let message = format!(
                    "{} is no working folder of the repository, and has files",
                    path.display()
                );
                Err(Error::wrong_state(message).next_step(
                    "move it away, then remove the worktree again; if the repository has moved, run `git \
                     worktree repair` in it first",
                ))
            }
            Err(error) => Err(unusable(&path, &error)),
        };
        self.services.files.run(self.path, take).await?
    }
}

/// The work that a removal would lose.
struct Loss {
    uncommitted: FileList,
    /// The commit of the worktree, or of its branch where there is no worktree.
    head: Option<String>,
    /// The commit of the worktree's branch, if there is one.
    tip: Option<String>,
    /// Commits that no other ref has.
    commits: u32,
}

impl Loss {
    async fn find(
        target: &Target<'_>,
        git: &Git<'_>,
        folder: Option<&Repository>,
    ) -> Result<Self, Error> {
        let common = git_dir(&target.record.common);
        let branch = format!("refs/heads/{}", target.record.branch);
        let show: [Argument<'_>; 5] = [&common, &"show-ref", &"--verify", &"--hash", &branch];
        // Without the branch, git exits with 128.
        let tip = git.text(&show).await.ok();
        let (uncommitted, head) = match folder {
            Some(folder) => {
                let changed = uncommitted(git, &folder.root).await.map_err(failed)?;
                (changed, Some(commit_of(git, &folder.root, "HEAD").await?))
            }
            None => (FileList::default(), tip.clone()),
        };
        let commits = match &head {
            Some(head) => {
                let exclude = format!("--exclude={branch}");
                // With `--all` alone, the worktree's own HEAD would count as another ref.
                let mut list: Vec<Argument<'_>> =
                    vec![&common, &"rev-list", &"--single-worktree", &"--count", head];
                list.extend(tip.iter().map(|tip| tip as Argument<'_>));
                list.extend([&"--not" as Argument<'_>, &exclude, &"--all"]);
                let counted = git.text(&list).await.map_err(failed)?;
                counted.parse().map_err(|_| Error::failed(format!("git counted {counted:?}")))?
            }
            None => 0,
        };
        Ok(Self { uncommitted, head, tip, commits })
    }

    fn is_none(&self) -> bool {
        self.uncommitted.is_empty() && self.commits == 0
    }

    async fn refuse(&self, target: &Target<'_>, git: &Git<'_>) -> Result<(), Error> {
        let next = "commit and merge first, or give `force`: then it is kept under a ref";
        if !self.uncommitted.is_empty() {
            let files = self.uncommitted.names.iter().take(super::MAX_FILES).cloned().collect();
            let message = "the worktree has uncommitted files";
            return Err(refused(Reason::Uncommitted, message, files).next_step(next));
        }
        let (1.., Some(head)) = (self.commits, &self.head) else { return Ok(()) };
        let common = git_dir(&target.record.common);
        let diff: [Argument<'_>; 7] =
            [&common, &"diff-tree", &"-r", &"--name-only", &"-z", &target.record.base, head];
        let ended = git.run(&diff, MAX_LIST).await.map_err(failed)?;
        let (files, _) = FileList::read(&ended.stdout, ended.is_cut, 0).bounded();
        let (branch, commits) = (&target.record.branch, self.commits);
        let commits =
            if commits == 1 { "a commit".to_owned() } else { format!("{commits} commits") };
        let mut message = format!("`{branch}` has {commits} that no other branch has");
        if !files.is_empty() {
            message.push_str("; changed files");
        }
        Err(refused(Reason::Unmerged, message, files).next_step(next))
    }

    /// Keeps it under a ref.
    async fn save(
        &self,
        target: &Target<'_>,
        git: &Git<'_>,
        folder: Option<&Repository>,
    ) -> Result<SavedWorktree, Error> {
        let common = git_dir(&target.record.common);
        let Some(head) = &self.head else {
            return Err(Error::failed("a worktree without a commit has nothing to keep"));
        };
        let has_other = |tip: &&String| *tip != head;
        let other = self.tip.as_ref().filter(has_other);
        let commit = if self.uncommitted.is_empty() && other.is_none() {
            head.clone()
        } else {
            let head_tree = format!("{head}^{{tree}}");
            let (tree, staged) = match folder.filter(|_| !self.uncommitted.is_empty()) {
                Some(folder) => {
                    let hidden = hidden(git, &folder.root).await.map_err(failed)?;
                    let (services, path) = (target.services, target.path);
                    let trees = tree_with_changes(git, services, folder, path, &hidden).await?;
                    let parse: [Argument<'_>; 4] = [&common, &"rev-parse", &"--verify", &head_tree];
                    let before = git.text(&parse).await.map_err(failed)?;
                    let is_other = |staged: &String| *staged != before && *staged != trees.working;
                    let staged = trees.staged.filter(is_other);
                    (trees.working, staged)
                }
                None => (head_tree, None),
            };
            let message = format!("Worktree {} as it was removed", target.name());
            let mut git = git.with_variable("GIT_EDITOR", "false");
            for (name, value) in IDENTITY {
                git = git.with_variable(name, value);
            }
            // What is staged and differs from the files is a parent, as in a stash.
            let staged = match &staged {
                Some(staged) => {
                    let message = format!("What was staged in worktree {}", target.name());
                    let commit: [Argument<'_>; 7] =
                        [&common, &"commit-tree", staged, &"-p", head, &"-m", &message];
                    Some(git.text(&commit).await.map_err(failed)?)
                }
                None => None,
            };
            let mut list: Vec<Argument<'_>> = vec![&common, &"commit-tree", &tree, &"-p", head];
            if let Some(parent) = &staged {
                list.extend([&"-p" as Argument<'_>, parent]);
            }
            if let Some(other) = other {
                list.extend([&"-p" as Argument<'_>, other]);
            }
            list.extend([&"-m" as Argument<'_>, &message]);
            git.text(&list).await.map_err(failed)?
        };
        for attempt in 1..=MAX_NUMBER {
            let name = super::branch_name::numbered(&target.name(), attempt);
            let reference = format!("{REMOVED_REFS}/{name}");
            let show: [Argument<'_>; 5] =
                [&common, &"show-ref", &"--verify", &"--quiet", &reference];
            if git.run(&show, MAX_LIST).await.map_err(failed)?.exit.success() {
                continue;
            }
            // An empty old value: it must not exist.
            let keep: [Argument<'_>; 5] = [&common, &"update-ref", &reference, &commit, &""];
            git.text(&keep).await.map_err(failed)?;
            return Ok(SavedWorktree { reference, commit });
        }
        let message = format!("there are {MAX_NUMBER} refs {REMOVED_REFS}/{}", target.name());
        Err(Error::wrong_state(message).next_step("delete some with `git update-ref -d`"))
    }
}

async fn remove_files(
    target: &Target<'_>,
    git: &Git<'_>,
    (force, has_links): (bool, bool),
) -> Result<(), Error> {
    let common = git_dir(&target.record.common);
    let path = target.path;
    if !is_registered(git, &common, path).await? {
        return Ok(());
    }
    let mut remove: Vec<Argument<'_>> = vec![&common, &"worktree", &"remove"];
    // The second one is for a lock, such as the one of a git that was killed.
    let forced: [Argument<'_>; 2] = [&"--force", &"--force"];
    match force {
        true => remove.extend(forced),
        // Git refuses those with submodules, even where these have no files.
        false => remove.extend(forced.into_iter().take(1).filter(|_| has_links)),
    }
    remove.push(&path);
    git.text(&remove).await.map(drop).map_err(failed)
}

/// Returns whether git knows the worktree.
async fn is_registered(
    git: &Git<'_>,
    common: &std::ffi::OsString,
    path: &Path,
) -> Result<bool, Error> {
    let list: [Argument<'_>; 5] = [common, &"worktree", &"list", &"--porcelain", &"-z"];
    let ended = git.run(&list, MAX_LIST).await.map_err(failed)?;
    if !ended.exit.success() {
        return Err(failed(ended.failure(&list)));
    }
    let mut line = b"worktree ".to_vec();
    line.extend_from_slice(path.as_os_str().as_encoded_bytes());
    Ok(ended.stdout.split(|byte| *byte == 0).any(|found| found == line))
}

/// Deletes the branch, unless it is checked out somewhere else or has moved, and the ref of its squashed commits.
async fn remove_branch(target: &Target<'_>, git: &Git<'_>, loss: &Loss) -> Result<(), Error> {
    let common = git_dir(&target.record.common);
    let branch = format!("refs/heads/{}", target.record.branch);
    if let Some(tip) = &loss.tip
        && checkout_of(git, &target.record.common, &branch).await?.is_none()
    {
        let delete: [Argument<'_>; 5] = [&common, &"update-ref", &"-d", &branch, tip];
        git.text(&delete).await.map_err(failed)?;
    }
    let merged = format!("{MERGED_REFS}/{}", target.name());
    let delete: [Argument<'_>; 4] = [&common, &"update-ref", &"-d", &merged];
    git.text(&delete).await.map(drop).map_err(failed)
}
