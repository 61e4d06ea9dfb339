//! Merges the branch of a worktree. The commit of what is uncommitted there, the merged tree and its commit are
//! made without changing any file, index or branch, and everything is checked with them; only then `publish`
//! moves the branches on.

use std::path::Path;

use protocol::{
    WorktreeErrorReason as Reason, WorktreeMergeParams, WorktreeMergeResponse,
    WorktreeMergeStrategy as Strategy,
};

use super::carry::tree_with_changes;
use super::check::{changes, check_checkout, check_finished};
use super::failure::{failed, refused};
use super::folder;
use super::journal::{Journal, NewCommit, WorkingFolder};
use super::publish::Place;
use super::repository::Repository;
use super::status::Status;
use super::{FileList, MAX_LIST, MERGED_REFS, Target};
use crate::git_command::{Argument, Git};
use services::error::Error;

/// Longest message of a commit, in characters.
const MAX_MESSAGE: usize = 10_000;

/// Merges. `worktree` and `checkout` are working folders of the same repository. The caller has the lock of the
/// folder of worktrees. `token`: a new id.
///
/// # Errors
/// A refusal with its reason, and nothing has changed; git failed.
pub(crate) async fn merge(
    target: &Target<'_>,
    params: &WorktreeMergeParams,
    (worktree, checkout): (&Repository, &Repository),
    token: &str,
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
    check_finished(target, worktree, "the worktree").await?;
    let head = commit_of(&git, &worktree.root, "HEAD").await?;
    let message = params.commit_message.as_deref();
    let tip = commit_changes(target, &git, message, worktree, &head).await?;
    let merged = count(&git, &checkout.root, &format!("{}..{tip}", destination.commit)).await?;
    let into = destination.branch.clone();
    if merged == 0 {
        return Ok(WorktreeMergeResponse { into, commit: destination.commit, merged });
    }
    let strategy = params.strategy.unwrap_or_default();
    let message = params.message.clone().unwrap_or_else(|| match strategy {
        Strategy::Squash => format!("Squashed branch '{}'", target.record.branch),
        _ => format!("Merge branch '{}' into {into}", target.record.branch),
    });
    let merge = Merge { git: &git, checkout, destination: &destination, tip: &tip };
    let commit = merge.commit(strategy, &message).await?;
    let is_moved = commit.is_some();
    let commit = commit.unwrap_or_else(|| destination.commit.clone());
    if destination.is_checked_out && is_moved {
        let changes = changes(&git, &checkout.root, (&destination.commit, &commit)).await?;
        check_checkout(target, &git, checkout, &changes).await?;
    }
    let record = target.record;
    let folders = (record.repository.clone(), record.common.clone());
    let working = |it: &Repository| WorkingFolder { root: it.root.clone(), own: it.own.clone() };
    let journal = Journal {
        reference: format!("refs/heads/{into}"),
        from: destination.commit.clone(),
        to: commit.clone(),
        checkout: Some(working(checkout)).filter(|_| destination.is_checked_out && is_moved),
        commit: Some(NewCommit { folder: working(worktree), from: head.clone(), to: tip.clone() })
            .filter(|_| head != tip),
        // The branch's own commits are in no other branch, and are not lost all the same.
        kept: Some((format!("{MERGED_REFS}/{}", target.name()), tip.clone()))
            .filter(|_| strategy == Strategy::Squash),
        ..Journal::new(folders.0, folders.1, format!("agentd {token}"))
    };
    let folder = folder::parent(target.path);
    Place { git: &git, services: target.services, folder }.publish(&journal).await?;
    Ok(WorktreeMergeResponse { into, commit, merged: if is_moved { merged } else { 0 } })
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

/// The commit of the worktree with what is uncommitted there, or a refusal. Neither the worktree nor its index
/// nor its branch change.
async fn commit_changes(
    target: &Target<'_>,
    git: &Git<'_>,
    message: Option<&str>,
    worktree: &Repository,
    head: &String,
) -> Result<String, Error> {
    let root = &worktree.root;
    let Status { changed, nested, unmerged } = Status::read(git, root).await.map_err(failed)?;
    if !unmerged.is_empty() {
        return Err(refused(Reason::Unfinished, "the worktree has files with conflicts", unmerged)
            .next_step("resolve them there first"));
    }
    if changed.is_empty() {
        return Ok(head.clone());
    }
    let Some(message) = message else {
        let (files, _) = changed.bounded();
        return Err(refused(Reason::Uncommitted, "the worktree has uncommitted files", files)
            .next_step("commit them there, or give `commitMessage`"));
    };
    if !nested.is_empty() {
        let message = "the worktree has a repository inside, whose files no commit of it can have";
        return Err(refused(Reason::NestedRepository, message, nested)
            .next_step("move it away, or list it in .gitignore"));
    }
    let trees = tree_with_changes(git, target.services, worktree, target.path, &[]).await?;
    let head_tree = commit_of(git, root, &format!("{head}^{{tree}}")).await?;
    if trees.working == head_tree {
        return Ok(head.clone());
    }
    let commit: [Argument<'_>; 8] =
        [&"-C", root, &"commit-tree", &trees.working, &"-p", head, &"-m", &message.trim()];
    git.text(&commit).await.map_err(failed)
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
    /// The commit that the destination gets; `None` if a squash has nothing for it.
    async fn commit(&self, strategy: Strategy, message: &str) -> Result<Option<String>, Error> {
        let (root, from) = (&self.checkout.root, &self.destination.commit);
        if strategy == Strategy::FastForward {
            let ancestor: [Argument<'_>; 6] =
                [&"-C", root, &"merge-base", &"--is-ancestor", from, self.tip];
            let ended = self.git.run(&ancestor, MAX_LIST).await.map_err(failed)?;
            return match ended.exit.code {
                Some(0) => Ok(Some(self.tip.clone())),
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
        let before = commit_of(self.git, root, &format!("{from}^{{tree}}")).await?;
        if strategy == Strategy::Squash && tree == before {
            return Ok(None);
        }
        let mut commit: Vec<Argument<'_>> = vec![&"-C", root, &"commit-tree", &tree, &"-p", from];
        if strategy == Strategy::MergeCommit {
            commit.extend([&"-p" as Argument<'_>, self.tip]);
        }
        commit.extend([&"-m" as Argument<'_>, &message]);
        self.git.text(&commit).await.map(Some).map_err(failed)
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
