//! Brings the uncommitted changes of the user's checkout into a new worktree. The checkout, its index and its
//! list of stashes stay as they are: git works on a copy of the index.

use std::path::{Path, PathBuf};

use super::failure::failed;
use super::folder::unusable;
use super::make::Made;
use super::repository::Repository;
use crate::git_command::{Argument, Git, GitServices};
use services::error::Error;

/// Larger indexes are not copied.
const MAX_INDEX: u64 = 256 << 20;

/// # Errors
/// Git failed, or the index cannot be copied.
pub(super) async fn carry(
    git: &Git<'_>,
    services: &GitServices,
    repository: &Repository,
    made: &Made,
) -> Result<(), Error> {
    let tree = tree_with_changes(git, services, repository, &made.path).await?;
    let (path, base) = (&made.path, &made.record.base);
    let write: [Argument<'_>; 7] = [&"-C", path, &"read-tree", &"-m", &"-u", base, &tree];
    git.text(&write).await.map_err(failed)?;
    // They are uncommitted there, too.
    let unstage: [Argument<'_>; 5] = [&"-C", path, &"reset", &"--quiet", &"--mixed"];
    git.text(&unstage).await.map_err(failed)?;
    Ok(())
}

/// The tree of a working folder with its uncommitted changes, untracked files included. Its index stays as it
/// is; the copy lies next to the worktree `path`.
pub(super) async fn tree_with_changes(
    git: &Git<'_>,
    services: &GitServices,
    repository: &Repository,
    path: &Path,
) -> Result<String, Error> {
    let copy = IndexCopy::make(services, repository, path).await?;
    let tree = tree_of(git, repository, &copy.0).await;
    copy.delete(services).await?;
    tree
}

async fn tree_of(git: &Git<'_>, repository: &Repository, index: &Path) -> Result<String, Error> {
    let git = git.with_variable("GIT_INDEX_FILE", index);
    let root = &repository.root;
    let add: [Argument<'_>; 5] = [&"-C", root, &"add", &"--all", &"."];
    git.text(&add).await.map_err(failed)?;
    let write: [Argument<'_>; 3] = [&"-C", root, &"write-tree"];
    git.text(&write).await.map_err(failed)
}

/// A copy of the checkout's index, so that git reads only the files that changed.
struct IndexCopy(PathBuf);

impl IndexCopy {
    async fn make(
        services: &GitServices,
        repository: &Repository,
        path: &Path,
    ) -> Result<Self, Error> {
        let mut name = path.as_os_str().to_owned();
        name.push(".index");
        let (copy, index) = (PathBuf::from(name), repository.own.join("index"));
        let target = copy.clone();
        let work = move || {
            let bytes = match files::read(&index, MAX_INDEX) {
                Ok(bytes) => bytes,
                // Without an index, all files are read.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(Error::from(error)),
            };
            std::fs::write(&target, bytes).map_err(|error| unusable(&target, &error))
        };
        services.files.run(&copy, work).await??;
        Ok(Self(copy))
    }

    async fn delete(self, services: &GitServices) -> Result<(), Error> {
        let copy = self.0.clone();
        let work = move || match std::fs::remove_file(&copy) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(unusable(&copy, &error))
            }
            _ => Ok(()),
        };
        services.files.run(&self.0, work).await?
    }
}
