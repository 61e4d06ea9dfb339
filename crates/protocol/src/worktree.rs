//! Worktrees of threads (experimental): working folders of git in which threads work apart from the user's
//! checkout, on branches of their own.

use serde::{Deserialize, Serialize};

use crate::common::AbsolutePath;
use crate::table::methods;
use crate::wire;

methods! {
    Worktree, WorktreeMethods;

    /// Lists the worktrees that `thread/start` made, newest first, with their state in git. Those whose thread
    /// was deleted, or never came to be, are listed too.
    WorktreeList = "worktree/list",
        worktree_list(WorktreeListParams) -> WorktreeListResponse,
        Experimental, Concurrent, [];

    /// Merges the branch of a worktree. On a conflict, and where the user's own changes would be overwritten,
    /// nothing is changed, and `data.files` of the error has the files.
    WorktreeMerge = "worktree/merge",
        worktree_merge(WorktreeMergeParams) -> WorktreeMergeResponse,
        Experimental, Independent, [];

    /// Removes a worktree and its branch. Refused while it has uncommitted files or commits that no other
    /// branch has, unless `force` is set: they are then kept as a commit under a ref.
    WorktreeRemove = "worktree/remove",
        worktree_remove(WorktreeRemoveParams) -> WorktreeRemoveResponse,
        Experimental, Independent, [];
}

/// The worktree that `thread/start` makes for the thread. `cwd` lies in a repository with a commit; the thread
/// works in the same folder of the worktree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadWorktreeParams {
    /// The branch is called `agentd/NAME`, with a number when there is one already. Characters other than
    /// letters, digits, `.`, `_` and `-` become `-`. When absent, a short id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Branch, tag or commit to begin with; by default the commit that is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// Also brings the uncommitted changes of the checkout, untracked files included. The checkout keeps them.
    /// Excludes `baseRef`.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub carry_changes: bool,
}

/// Words of a message that name a worktree.
const NAME_WORDS: usize = 5;

impl ThreadWorktreeParams {
    /// Those of a worktree that is called `name`, or else by the first words of the message to begin with.
    #[must_use]
    pub fn named(name: Option<&str>, message: Option<&str>) -> Self {
        let given = name.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let words = |message: &str| {
            let words = message.split_whitespace().take(NAME_WORDS);
            words.collect::<Vec<_>>().join(" ")
        };
        let name = given.or_else(|| message.map(words).filter(|name| !name.is_empty()));
        Self { name, ..Self::default() }
    }
}

/// The worktree that a thread works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadWorktree {
    /// Its folder.
    pub path: AbsolutePath,
    /// The branch that it was made with.
    pub branch: String,
    /// The user's checkout of the repository, from which it was made.
    pub repository: AbsolutePath,
    /// The commit that it began with.
    pub base: String,
}

/// A worktree with its state in git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worktree {
    /// Its folder; its name for `worktree/merge` and `worktree/remove`.
    pub path: AbsolutePath,
    /// The branch that it was made with.
    pub branch: String,
    /// The user's checkout of the repository, from which it was made.
    pub repository: AbsolutePath,
    /// The commit that it began with.
    pub base: String,
    /// Unix time in seconds.
    pub created_at: i64,
    pub state: WorktreeState,
    /// Threads that work in its folder, archived ones included; empty when they were deleted.
    pub thread_ids: Vec<String>,
    /// Locked with `git worktree lock`.
    pub locked: bool,
    /// Commits of its branch that the user's checkout lacks; null when unknown.
    pub ahead: Option<u32>,
    /// Commits of the user's checkout that its branch lacks; null when unknown.
    pub behind: Option<u32>,
    /// Files with changes that are not committed, relative to `path`: at most 1,000.
    pub uncommitted: Vec<String>,
    /// True if there are more.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub has_more_uncommitted: bool,
    /// Why its state in git is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The condition of a worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorktreeState {
    /// Its folder is a working folder of the repository.
    Ready,
    /// Its folder is gone.
    Missing,
    /// Its folder is no working folder of the repository: its making was cut off, or the repository moved.
    Broken,
}

/// Parameters of `worktree/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorktreeListParams {
    /// Only those of the repository of this folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsolutePath>,
}

/// Result of `worktree/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeListResponse {
    pub data: Vec<Worktree>,
    /// The folder that has them.
    pub folder: AbsolutePath,
}

/// The kind of commit that a merge makes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum WorktreeMergeStrategy {
    /// A commit with both branches as parents.
    #[default]
    MergeCommit,
    /// One commit with all changes, without the branch's own commits.
    Squash,
    /// No commit: refused when the branches have diverged.
    FastForward,
}

/// Parameters of `worktree/merge`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorktreeMergeParams {
    /// The worktree's folder.
    pub path: AbsolutePath,
    /// A folder of the user's checkout; by default the one that the worktree was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<AbsolutePath>,
    /// The branch to merge into; by default the one that the user's checkout has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<WorktreeMergeStrategy>,
    /// Commits all uncommitted files of the worktree with this message first; without it, they are a reason to
    /// refuse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_message: Option<String>,
    /// Message of the merge, or of the one commit of `squash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of `worktree/merge`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeMergeResponse {
    /// The branch that has the changes now.
    pub into: String,
    /// Its commit.
    pub commit: String,
    /// Number of merged commits; 0 if the branch had all of them.
    pub merged: u32,
}

/// Parameters of `worktree/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorktreeRemoveParams {
    /// The worktree's folder.
    pub path: AbsolutePath,
    /// Removes it with what is uncommitted and unmerged, and although it is locked.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub force: bool,
}

/// Result of `worktree/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeRemoveResponse {
    /// The commit that keeps what would have been lost; null when nothing would have been.
    pub saved: Option<SavedWorktree>,
}

/// A commit with all that a removed worktree had: ignored files are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedWorktree {
    /// The ref that names it, `refs/agentd/removed/NAME`.
    #[serde(rename = "ref")]
    pub reference: String,
    pub commit: String,
}

/// `data` of an error of a method on worktrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeErrorData {
    pub reason: WorktreeErrorReason,
    /// The files that it is about, at most 1,000.
    #[serde(default)]
    pub files: Vec<String>,
}

/// Why a worktree was not made, merged or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorktreeErrorReason {
    /// The folder is in no repository with a working folder, or the repository has no commit.
    NoRepository,
    /// `path` is none of the worktrees.
    UnknownWorktree,
    /// The folder of the thread's worktree is gone.
    Missing,
    /// A turn runs in it, here or in another server, or another program merges or removes a worktree of the
    /// repository.
    Busy,
    /// It is locked with `git worktree lock`.
    Locked,
    /// The worktree has uncommitted files.
    Uncommitted,
    /// Its branch has commits that no other branch has.
    Unmerged,
    /// The branches change the same lines.
    Conflict,
    /// The user's checkout has uncommitted, untracked or ignored files that the merge would change.
    Overwrites,
    /// The branches have diverged, so there is no fast-forward.
    Diverged,
    /// The merge changes files that configure git or the agent: `.git`, `.agent`, and what these lead to.
    Protected,
    /// Another repository lies in it, of which git would keep nothing but the name of a commit: `files` has
    /// the folders.
    NestedRepository,
    /// Something of git is not finished in the worktree or in the user's checkout: a merge, a rebase, unmerged
    /// files, or a lock of the index.
    Unfinished,
    /// Git did not end in time.
    TimedOut,
    /// Git is missing, or failed.
    Git,
}
