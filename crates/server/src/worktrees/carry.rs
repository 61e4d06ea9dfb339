//! Brings the uncommitted changes of the user's checkout into a new worktree. The checkout, its index and its
//! list of stashes stay as they are: git works on a copy of the index.

use std::path::{Path, PathBuf};

use super::failure::failed;
use super::folder::{name_of, parent};
use super::index::{copy_index, remove_copy};
use super::make::Made;
use super::repository::Repository;
use crate::git_command::{Argument, Git, GitServices};
use services::error::Error;

/// Paths that one run of git gets as arguments.
const BATCH: usize = 200;

/// # Errors
/// Git failed, or the index cannot be copied.
pub(super) async fn carry(
    git: &Git<'_>,
    services: &GitServices,
    repository: &Repository,
    made: &Made,
) -> Result<(), Error> {
    let tree = tree_with_changes(git, services, repository, &made.path, &[]).await?.working;
    let (path, base) = (&made.path, &made.record.base);
    let write: [Argument<'_>; 7] = [&"-C", path, &"read-tree", &"-m", &"-u", base, &tree];
    git.text(&write).await.map_err(failed)?;
    // They are uncommitted there, too.
    let unstage: [Argument<'_>; 5] = [&"-C", path, &"reset", &"--quiet", &"--mixed"];
    git.text(&unstage).await.map_err(failed)?;
    Ok(())
}

/// The trees of a working folder.
#[derive(Debug)]
pub(super) struct Trees {
    /// Of its index; `None` while that has conflicts.
    pub(super) staged: Option<String>,
    /// Of its files, untracked ones included.
    pub(super) working: String,
}

/// The trees of a working folder with its uncommitted changes. Its index stays as it is; the copy lies next to
/// the worktree `path`. `hidden`: changed files that git leaves out on request.
pub(super) async fn tree_with_changes(
    git: &Git<'_>,
    services: &GitServices,
    repository: &Repository,
    path: &Path,
    hidden: &[String],
) -> Result<Trees, Error> {
    let copy = IndexCopy::make(services, repository, path).await?;
    let trees = trees_of(git, repository, &copy.0, hidden).await;
    copy.delete(services).await?;
    trees
}

async fn trees_of(
    git: &Git<'_>,
    repository: &Repository,
    index: &Path,
    hidden: &[String],
) -> Result<Trees, Error> {
    let git = git.with_variable("GIT_INDEX_FILE", index);
    let root = &repository.root;
    let write: [Argument<'_>; 3] = [&"-C", root, &"write-tree"];
    let staged = git.text(&write).await.ok();
    for names in hidden.chunks(BATCH) {
        for option in ["--no-skip-worktree", "--no-assume-unchanged"] {
            let mut show: Vec<Argument<'_>> = vec![&"-C", root, &"update-index", &option, &"--"];
            show.extend(names.iter().map(|name| name as Argument<'_>));
            git.text(&show).await.map_err(failed)?;
        }
        let mut update: Vec<Argument<'_>> = vec![&"-C", root, &"update-index", &"--"];
        update.extend(names.iter().map(|name| name as Argument<'_>));
        git.text(&update).await.map_err(failed)?;
    }
    let add: [Argument<'_>; 5] = [&"-C", root, &"add", &"--all", &"."];
    git.text(&add).await.map_err(failed)?;
    let working = git.text(&write).await.map_err(failed)?;
    Ok(Trees { staged, working })
}

/// A copy of the checkout's index, so that git reads only the files that changed.
struct IndexCopy(PathBuf);

impl IndexCopy {
    async fn make(
        services: &GitServices,
        repository: &Repository,
        path: &Path,
    ) -> Result<Self, Error> {
        // No name of a worktree begins so.
        let copy = parent(path).join(format!(".{}.index", name_of(path)));
        let target = copy.clone();
        let own = repository.own.clone();
        let work = move || copy_index(&own, &target);
        services.files.run(&copy, work).await??;
        Ok(Self(copy))
    }

    async fn delete(self, services: &GitServices) -> Result<(), Error> {
        let copy = self.0.clone();
        let work = move || remove_copy(&copy);
        services.files.run(&self.0, work).await?
    }
}
