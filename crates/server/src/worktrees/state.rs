//! The state of a worktree in git. Git is confined to reading.

use std::path::{Path, PathBuf};

use protocol::{Worktree, WorktreeState};
use tokio::time::Instant;

use super::MERGED_REFS;
use super::failure::failed;
use super::folder::{self, WorktreesFolder};
use super::make::git_dir;
use super::record::Record;
use super::repository::Repository;
use super::status::uncommitted;
use crate::git_command::{Argument, Git, GitAccess, GitServices};
use services::error::Error;

/// Bytes of the reason of a lock that are compared.
const MAX_REASON: u64 = 64;
/// The reason of git's own lock while it makes a worktree, which it leaves behind when it is killed.
const INITIALIZING: &[u8] = b"initializing";

/// A worktree as git knows it.
pub(crate) struct GitState {
    pub(crate) path: PathBuf,
    pub(crate) record: Record,
    pub(crate) state: WorktreeState,
    is_locked: bool,
    /// Commits that its branch has and the checkout lacks, and the reverse.
    distance: Option<(u32, u32)>,
    uncommitted: (Vec<String>, bool),
    problem: Option<String>,
}

impl GitState {
    /// A worktree that was found, before git was asked.
    pub(crate) fn found(path: PathBuf, record: Record) -> Self {
        let uncommitted = (Vec::new(), false);
        let (state, problem) = condition(&path, &record);
        let is_locked = is_locked(&path, &record);
        Self { path, record, state, is_locked, distance: None, uncommitted, problem }
    }

    /// As the client gets it.
    pub(crate) fn on_wire(self, thread_ids: Vec<String>) -> Worktree {
        let (uncommitted, has_more_uncommitted) = self.uncommitted;
        Worktree {
            path: self.path.display().to_string(),
            branch: self.record.branch,
            repository: self.record.repository.display().to_string(),
            base: self.record.base,
            created_at: self.record.created_at,
            state: self.state,
            thread_ids,
            locked: self.is_locked,
            ahead: self.distance.map(|(ahead, _)| ahead),
            behind: self.distance.map(|(_, behind)| behind),
            uncommitted,
            has_more_uncommitted,
            problem: self.problem,
        }
    }
}

impl WorktreesFolder {
    /// The worktrees with their records, of one repository or of all, newest first. Waits for the file system.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn found(&self, of: Option<&Repository>) -> Result<Vec<GitState>, Error> {
        let mut found = Vec::new();
        for path in self.worktrees(of)? {
            match Record::read(&path) {
                Ok(record) => found.push(GitState::found(path, record)),
                Err(error) => tracing::warn!(target: "server::worktrees", "{error}"),
            }
        }
        found.sort_by(|a, b| (b.record.created_at, &b.path).cmp(&(a.record.created_at, &a.path)));
        Ok(found)
    }
}

impl WorktreesFolder {
    /// The worktree that a client names. Waits for the file system.
    ///
    /// # Errors
    /// There is none, or its record cannot be read.
    pub(crate) fn find(&self, path: &str) -> Result<GitState, Error> {
        let path = self.named(path)?;
        let record = Record::read(&path)?;
        Ok(GitState::found(path, record))
    }
}

/// The condition of a worktree, from its files.
fn condition(path: &Path, record: &Record) -> (WorktreeState, Option<String>) {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (WorktreeState::Missing, None)
        }
        Err(error) => (WorktreeState::Broken, Some(error.to_string())),
        Ok(meta) if !meta.is_dir() => {
            (WorktreeState::Broken, Some(format!("{} is no folder", path.display())))
        }
        Ok(_) => match Repository::find(path) {
            Err(error) => (WorktreeState::Broken, Some(error.to_string())),
            Ok(found) if found.root != path || found.common != record.common => {
                let why = format!("{} is no worktree of the repository", path.display());
                (WorktreeState::Broken, Some(why))
            }
            Ok(_) => (WorktreeState::Ready, None),
        },
    }
}

/// Returns whether the user locked the worktree.
pub(super) fn is_locked(path: &Path, record: &Record) -> bool {
    let is_worktree = |found: &Repository| found.root == path && found.common == record.common;
    Repository::find(path).ok().filter(is_worktree).is_some_and(|found| {
        let reason = files::read_start(&found.own.join("locked"), MAX_REASON);
        reason.is_ok_and(|reason| reason.trim_ascii() != INITIALIZING)
    })
}

/// Asks git for the state of a worktree. What it does not find out is reported in the result.
pub(crate) async fn state(
    services: &GitServices,
    config: &config::Config,
    mut found: GitState,
    deadline: Instant,
) -> GitState {
    if found.state == WorktreeState::Broken {
        return found;
    }
    if let Err(error) = ask(services, config, &mut found, deadline).await {
        found.problem = Some(error.to_string());
    }
    found
}

async fn ask(
    services: &GitServices,
    config: &config::Config,
    found: &mut GitState,
    deadline: Instant,
) -> Result<(), Error> {
    let parent = folder::parent(&found.path).to_owned();
    let mut git = Git::new(services, config, parent, GitAccess::Read, deadline)?;
    let common = git_dir(&found.record.common);
    if found.state == WorktreeState::Ready {
        git.distrust(&found.path).await.map_err(failed)?;
        found.uncommitted = uncommitted(&git, &found.path).await.map_err(failed)?.bounded();
    }
    let head = head(services, &git, &found.record).await?;
    let branch = format!("refs/heads/{}", found.record.branch);
    let tip = match found.state {
        WorktreeState::Ready => {
            let parse: [Argument<'_>; 5] = [&"-C", &found.path, &"rev-parse", &"--verify", &"HEAD"];
            git.text(&parse).await.map_err(failed)?
        }
        _ => {
            let parse: [Argument<'_>; 4] = [&common, &"rev-parse", &"--verify", &branch];
            git.text(&parse).await.map_err(failed)?
        }
    };
    let range = format!("{head}...{tip}");
    // The commits of a squash are merged, though no branch has them.
    let squashed = format!("{MERGED_REFS}/{}", folder::name_of(&found.path));
    let show: [Argument<'_>; 5] = [&common, &"rev-parse", &"--verify", &"--quiet", &squashed];
    let squashed = git.text(&show).await.ok().map(|commit| format!("^{commit}"));
    let mut count: Vec<Argument<'_>> =
        vec![&common, &"rev-list", &"--left-right", &"--count", &range];
    count.extend(squashed.iter().map(|commit| commit as Argument<'_>));
    let counted = git.text(&count).await.map_err(failed)?;
    found.distance = counted.split_once('\t').and_then(|(behind, ahead)| {
        Some((ahead.trim().parse().ok()?, behind.trim().parse().ok()?))
    });
    Ok(())
}

/// The commit that the user's checkout has; that of the main working folder, if the checkout is gone.
async fn head(services: &GitServices, git: &Git<'_>, record: &Record) -> Result<String, Error> {
    let (root, common) = (record.repository.clone(), record.common.clone());
    let found = services.files.run(&record.repository, move || {
        Repository::find(&root).ok().filter(|found| found.common == common)
    });
    let own = found.await?.map_or_else(|| record.common.clone(), |found| found.own);
    let own = git_dir(&own);
    let parse: [Argument<'_>; 4] = [&own, &"rev-parse", &"--verify", &"HEAD"];
    git.text(&parse).await.map_err(failed)
}
