//! Worktrees of threads: working folders of git below one folder of the user, each with a branch of its own.
//!
//! `<worktrees_dir>/<repository>/<name>` is a worktree, and `<name>.json` next to it says what it is: it is
//! written before git makes the worktree, so that one whose making was cut off is found again. Commands of
//! threads can write below `<name>` only.
//!
//! `repository` finds the user's checkout, `record` keeps those files, `make`, `state`, `merge` and `remove` run
//! git, which `git_command` confines. A merge is checked first (`check`), then done (`publish`) with a `journal`,
//! a private `index`, and a way back (`put_back`). Nothing here ever removes a worktree by itself.

mod branch_name;
mod carry;
mod check;
mod failure;
mod folder;
mod index;
mod journal;
mod make;
mod merge;
mod publish;
mod put_back;
mod record;
mod remove;
mod repository;
mod state;
mod status;

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use crate::git_command::{Git, GitAccess, GitServices};
use services::error::Error;

use failure::failed;

pub(crate) use failure::refused;
pub(crate) use folder::WorktreesFolder;
pub(crate) use journal::{Journal, try_lock};
pub(crate) use make::{Made, Request, discard, make};
pub(crate) use merge::merge;
pub(crate) use publish::{in_use, recover, with_journals};
pub(crate) use record::Record;
pub(crate) use remove::remove;
pub(crate) use repository::Repository;
pub(crate) use state::{GitState, state};

/// Time limit of making a worktree, whose files git writes.
pub(crate) const MAX_MAKE: Duration = Duration::from_secs(120);
/// Time limit of a merge, and of the run of git in a removal.
const MAX_CHANGE: Duration = Duration::from_secs(120);
/// Files that a response lists; beyond that, it says that there are more.
const MAX_FILES: usize = 1_000;
/// Bytes of a list of files that are read of git. A longer one counts as cut.
const MAX_LIST: usize = 4 << 20;

/// The refs that this program writes, besides branches.
const REMOVED_REFS: &str = "refs/agentd/removed";
const MERGED_REFS: &str = "refs/agentd/merged";

/// A worktree that git is about to change, with what is needed for it.
pub(crate) struct Target<'a> {
    pub(crate) services: &'a GitServices,
    /// Of the worktree's folder, or of the user's checkout where that is gone.
    pub(crate) config: &'a config::Config,
    pub(crate) record: &'a Record,
    pub(crate) path: &'a Path,
}

impl Target<'_> {
    /// Git that can write the repository, the folder of its worktrees, and the user's checkout if it is given.
    /// `read`: the working folders that it reads.
    async fn git(&self, checkout: Option<&Repository>, read: &[&Path]) -> Result<Git<'_>, Error> {
        let parent = folder::parent(self.path).to_owned();
        let mut folders = vec![self.record.common.clone(), parent.clone()];
        // The git folder of a checkout is protected below it, unless it is named.
        folders.extend(checkout.into_iter().flat_map(|it| [it.root.clone(), it.own.clone()]));
        let deadline = Instant::now() + MAX_CHANGE;
        let access = GitAccess::Write(folders);
        let mut git = Git::new(self.services, self.config, parent, access, deadline)?;
        for folder in std::iter::once(&*self.record.common).chain(read.iter().copied()) {
            git.distrust(folder).await.map_err(failed)?;
        }
        Ok(git)
    }
}

/// A list of files.
#[derive(Debug, Default)]
struct FileList {
    names: Vec<String>,
    /// It was too long to be read to its end.
    is_cut: bool,
}

impl FileList {
    /// A list of git's, in which NUL ends each entry; its first `skipped` bytes are no name.
    fn read(list: &[u8], is_cut: bool, skipped: usize) -> Self {
        let text = String::from_utf8_lossy(list);
        let entries = text.split('\0').filter(|entry| !entry.is_empty());
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.get(skipped..)).map(str::to_owned).collect();
        if is_cut {
            // The last one may be incomplete.
            names.pop();
        }
        Self { names, is_cut }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.is_cut
    }

    /// Those that a response lists, and whether there are more.
    fn bounded(mut self) -> (Vec<String>, bool) {
        let has_more = self.is_cut || self.names.len() > MAX_FILES;
        self.names.truncate(MAX_FILES);
        (self.names, has_more)
    }
}
