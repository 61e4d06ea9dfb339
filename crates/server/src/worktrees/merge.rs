//! Merges the branch of a worktree. The merged tree and its commit are made without any working folder; only
//! then the user's checkout moves on to the commit, by a fast-forward that git does wholly or not at all.

use std::collections::HashSet;
use std::path::Path;

use policy::PROTECTED_NAMES;
use protocol::{
    WorktreeErrorReason as Reason, WorktreeMergeParams, WorktreeMergeResponse,
    WorktreeMergeStrategy as Strategy,
};

use super::failure::{failed, refused};
use super::make::git_dir;
use super::repository::Repository;
use super::state::uncommitted;
use super::{FileList, MAX_FILES, MAX_LIST, MERGED_REFS, Target};
use crate::git_command::{Argument, Git};
use services::error::Error;

/// Longest message of a commit, in characters.
const MAX_MESSAGE: usize = 10_000;
/// The files of a repository that stand for something unfinished.
const UNFINISHED: [&str; 5] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"];

/// Merges. `worktree` and `checkout` are working folders of the same repository.
///
/// # Errors
/// A refusal with its reason; git failed. Nothing but a commit of `commitMessage` has happened then.
pub(crate) async fn merge(
    target: &Target<'_>,
    params: &WorktreeMergeParams,
    (worktree, checkout): (&Repository, &Repository),
) -> Result<WorktreeMergeResponse, Error> {
    check_message("commitMessage", params.commit_message.as_deref())?;
    check_message("message", params.message.as_deref())?;
    let git = target.git(Some(checkout), &[&checkout.root, &worktree.root]).await?;
    let own = || Error::invalid_params("`into` is the branch of the worktree itself");
    if params.into.as_ref() == Some(&target.record.branch) {
        return Err(own());
    }
    let destination = Destination::find(&git, params.into.as_deref(), checkout).await?;
    if destination.branch == target.record.branch {
        return Err(own());
    }
    commit_changes(target, &git, params.commit_message.as_deref(), worktree).await?;
    let tip = commit_of(&git, &worktree.root, "HEAD").await?;
    let merged = count(&git, &checkout.root, &format!("{}..{tip}", destination.commit)).await?;
    let into = destination.branch.clone();
    if merged == 0 {
        return Ok(WorktreeMergeResponse { into, commit: destination.commit, merged });
    }
    let merge = Merge { git: &git, checkout, destination: &destination, tip: &tip };
    let strategy = params.strategy.unwrap_or_default();
    let message = params.message.clone().unwrap_or_else(|| match strategy {
        Strategy::Squash => format!("Squashed branch '{}'", target.record.branch),
        _ => format!("Merge branch '{}' into {into}", target.record.branch),
    });
    let commit = merge.commit(strategy, &message).await?;
    merge.publish(&commit).await?;
    if strategy == Strategy::Squash {
        // The branch's own commits are in no other branch, and are not lost all the same.
        let reference = format!("{MERGED_REFS}/{}", target.name());
        let git_dir = git_dir(&target.record.common);
        let keep: [Argument<'_>; 4] = [&git_dir, &"update-ref", &reference, &tip];
        git.text(&keep).await.map_err(failed)?;
    }
    Ok(WorktreeMergeResponse { into, commit, merged })
}

fn check_message(member: &str, message: Option<&str>) -> Result<(), Error> {
    let Some(message) = message else { return Ok(()) };
    let characters = message.chars().count();
    if message.trim().is_empty() || characters > MAX_MESSAGE || message.contains('\0') {
        return Err(Error::invalid_params(format!(
            "`{member}` must be a text of 1 to {MAX_MESSAGE} characters"
        )));
    }
    Ok(())
}

/// Commits what is uncommitted in the worktree, or refuses it.
async fn commit_changes(
    target: &Target<'_>,
    git: &Git<'_>,
    message: Option<&str>,
    worktree: &Repository,
) -> Result<(), Error> {
    let own = worktree.own.clone();
    let unfinished = target.services.files.run(&worktree.own, move || {
        UNFINISHED.into_iter().find(|name| own.join(name).symlink_metadata().is_ok())
    });
    if let Some(name) = unfinished.await? {
        let message = format!("a merge or rebase in the worktree is not finished ({name})");
        return Err(refused(Reason::Uncommitted, message, Vec::new())
            .next_step("finish or abort it there first"));
    }
    let root = &worktree.root;
    let changed = uncommitted(git, root).await.map_err(failed)?;
    if changed.is_empty() {
        return Ok(());
    }
    let Some(message) = message else {
        let (files, _) = changed.bounded();
        return Err(refused(Reason::Uncommitted, "the worktree has uncommitted files", files)
            .next_step("commit them there, or give `commitMessage`"));
    };
    let add: [Argument<'_>; 5] = [&"-C", root, &"add", &"--all", &"."];
    git.text(&add).await.map_err(failed)?;
    let message = format!("--message={message}");
    let commit: [Argument<'_>; 6] = [&"-C", root, &"commit", &"--quiet", &"--no-verify", &message];
    git.text(&commit).await.map_err(failed)?;
    Ok(())
}

/// The branch that is merged into.
struct Destination {
    branch: String,
    commit: String,
    /// The user's checkout has it.
    is_checked_out: bool,
}

impl Destination {
    async fn find(git: &Git<'_>, into: Option<&str>, checkout: &Repository) -> Result<Self, Error> {
        let root = &checkout.root;
        let head: [Argument<'_>; 6] =
            [&"-C", root, &"symbolic-ref", &"--quiet", &"--short", &"HEAD"];
        let ended = git.run(&head, MAX_LIST).await.map_err(failed)?;
        let current = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        let current = Some(current).filter(|_| ended.exit.success());
        let branch = match (into, &current) {
            (Some(into), _) => into.to_owned(),
            (None, Some(current)) => current.clone(),
            (None, None) => {
                let message = format!("{} has no branch checked out", root.display());
                return Err(refused(Reason::Git, message, Vec::new()).next_step("give `into`"));
            }
        };
        let reference = format!("refs/heads/{branch}");
        let is_checked_out = current.as_ref() == Some(&branch);
        let show: [Argument<'_>; 6] =
            [&"-C", root, &"show-ref", &"--verify", &"--hash", &reference];
        let commit = match git.text(&show).await {
            Ok(commit) => commit,
            Err(_) if into.is_some() => {
                let branch = services::error::start_of(&branch);
                let message = format!("`into`: the repository has no branch `{branch}`");
                return Err(Error::invalid_params(message));
            }
            Err(failure) => return Err(failed(failure)),
        };
        if !is_checked_out && let Some(elsewhere) = checkout_of(git, root, &reference).await? {
            let message = format!("`{branch}` is checked out in {elsewhere}");
            return Err(refused(Reason::Git, message, Vec::new())
                .next_step("give that folder as `checkout`"));
        }
        Ok(Self { branch, commit, is_checked_out })
    }
}

struct Merge<'a> {
    git: &'a Git<'a>,
    checkout: &'a Repository,
    destination: &'a Destination,
    /// The commit to merge.
    tip: &'a String,
}

impl Merge<'_> {
    /// The commit that the destination gets.
    async fn commit(&self, strategy: Strategy, message: &str) -> Result<String, Error> {
        let (root, from) = (&self.checkout.root, &self.destination.commit);
        if strategy == Strategy::FastForward {
            let ancestor: [Argument<'_>; 6] =
                [&"-C", root, &"merge-base", &"--is-ancestor", from, self.tip];
            let ended = self.git.run(&ancestor, MAX_LIST).await.map_err(failed)?;
            return match ended.exit.code {
                Some(0) => Ok(self.tip.clone()),
                Some(1) => {
                    let branch = &self.destination.branch;
                    let message = format!("`{branch}` has commits that the worktree lacks");
                    Err(refused(Reason::Diverged, message, Vec::new())
                        .next_step("choose another `strategy`"))
                }
                _ => Err(failed(ended.failure(&ancestor))),
            };
        }
        let tree = self.tree().await?;
        let mut commit: Vec<Argument<'_>> = vec![&"-C", root, &"commit-tree", &tree, &"-p", from];
        if strategy == Strategy::MergeCommit {
            commit.extend([&"-p" as Argument<'_>, self.tip]);
        }
        commit.extend([&"-m" as Argument<'_>, &message]);
        self.git.text(&commit).await.map_err(failed)
    }

    /// The merged tree.
    async fn tree(&self) -> Result<String, Error> {
        let merge: [Argument<'_>; 9] = [
            &"-C",
            &self.checkout.root,
            &"merge-tree",
            &"--write-tree",
            &"-z",
            &"--name-only",
            &"--no-messages",
            &self.destination.commit,
            self.tip,
        ];
        let ended = self.git.run(&merge, MAX_LIST).await.map_err(failed)?;
        let mut list = FileList::read(&ended.stdout, ended.is_cut, 0);
        match ended.exit.code {
            Some(0) if !list.names.is_empty() => Ok(list.names.swap_remove(0)),
            // The first entry is the tree.
            Some(1) if list.names.len() > 1 => {
                list.names.remove(0);
                let (files, _) = list.bounded();
                let into = &self.destination.branch;
                let message = format!("the worktree and `{into}` change the same lines");
                Err(refused(Reason::Conflict, message, files)
                    .next_step("merge that branch in the worktree and resolve the conflicts there"))
            }
            _ => Err(failed(ended.failure(&merge))
                .next_step("merging needs git 2.38 or newer; else merge the branch yourself")),
        }
    }

    /// Moves the destination on to the commit.
    async fn publish(&self, commit: &str) -> Result<(), Error> {
        let Destination { branch, commit: from, is_checked_out } = self.destination;
        let root = &self.checkout.root;
        if !is_checked_out {
            let reference = format!("refs/heads/{branch}");
            let update: [Argument<'_>; 6] = [&"-C", root, &"update-ref", &reference, &commit, from];
            return self.git.text(&update).await.map(drop).map_err(failed);
        }
        self.check_checkout(commit).await?;
        let forward: [Argument<'_>; 8] = [
            &"-C",
            root,
            &"merge",
            &"--quiet",
            &"--ff-only",
            &"--no-autostash",
            &"--no-overwrite-ignore",
            &commit,
        ];
        self.git.text(&forward).await.map(drop).map_err(failed)
    }

    /// Refuses what the user's checkout would lose, or should not get from an agent unseen.
    async fn check_checkout(&self, commit: &str) -> Result<(), Error> {
        let root = &self.checkout.root;
        let diff: [Argument<'_>; 9] = [
            &"-C",
            root,
            &"diff-tree",
            &"-r",
            &"--no-renames",
            &"--name-only",
            &"-z",
            &self.destination.commit,
            &commit,
        ];
        let ended = self.git.run(&diff, MAX_LIST).await.map_err(failed)?;
        if !ended.is_cut && !ended.exit.success() {
            return Err(failed(ended.failure(&diff)));
        }
        let merged = FileList::read(&ended.stdout, ended.is_cut, 0);
        let is_protected = |name: &&String| {
            let first = Path::new(name).iter().next();
            let is = |protected: &&str| first.is_some_and(|it| it.eq_ignore_ascii_case(protected));
            PROTECTED_NAMES.iter().any(is)
        };
        let protected: Vec<String> = merged.names.iter().filter(is_protected).cloned().collect();
        if !protected.is_empty() {
            let message = "the worktree changes files that configure the agent";
            return Err(refused(Reason::Protected, message, protected)
                .next_step("look at them, and merge the branch yourself"));
        }
        let dirty = uncommitted(self.git, root).await.map_err(failed)?;
        if dirty.is_cut || (merged.is_cut && !dirty.is_empty()) {
            let message = format!("{} has too many changed files to compare", root.display());
            return Err(refused(Reason::Overwrites, message, Vec::new())
                .next_step("commit them, or merge the branch yourself"));
        }
        let merged: HashSet<&String> = merged.names.iter().collect();
        let lost = dirty.names.into_iter().filter(|name| merged.contains(name));
        let lost: Vec<String> = lost.take(MAX_FILES).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let message =
            format!("{} has uncommitted changes that would be overwritten", root.display());
        Err(refused(Reason::Overwrites, message, lost).next_step("commit or stash them first"))
    }
}

/// The commit that `name` means in the working folder `root`.
pub(super) async fn commit_of(git: &Git<'_>, root: &Path, name: &str) -> Result<String, Error> {
    let parse: [Argument<'_>; 5] = [&"-C", &root, &"rev-parse", &"--verify", &name];
    git.text(&parse).await.map_err(failed)
}

async fn count(git: &Git<'_>, root: &Path, range: &str) -> Result<u32, Error> {
    let list: [Argument<'_>; 5] = [&"-C", &root, &"rev-list", &"--count", &range];
    let counted = git.text(&list).await.map_err(failed)?;
    counted.parse().map_err(|_| Error::failed(format!("git counted {counted:?} commits")))
}

/// The working folder that has a branch checked out.
pub(super) async fn checkout_of(
    git: &Git<'_>,
    root: &Path,
    reference: &str,
) -> Result<Option<String>, Error> {
    let list: [Argument<'_>; 6] = [&"-C", &root, &"worktree", &"list", &"--porcelain", &"-z"];
    let ended = git.run(&list, MAX_LIST).await.map_err(failed)?;
    if !ended.exit.success() {
        return Err(failed(ended.failure(&list)));
    }
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let mut folder = "";
    for line in text.split('\0') {
        if let Some(path) = line.strip_prefix("worktree ") {
            folder = path;
        } else if line.strip_prefix("branch ") == Some(reference) {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}
