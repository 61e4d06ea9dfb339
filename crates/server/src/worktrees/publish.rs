//! The last step of a merge: the branch and the user's checkout move on, then the worktree. A journal goes
//! before it, so that the next call finishes or takes back what a program that was killed has begun.

use std::path::{Path, PathBuf};

use protocol::WorktreeErrorReason as Reason;
use tokio::time::Instant;

use super::MAX_CHANGE;
use super::failure::{failed, refused};
use super::index::IndexLock;
use super::journal::{Journal, NewCommit, WorkingFolder};
use super::make::git_dir;
use super::put_back::{PutBack, put_back};
use crate::git_command::{Argument, Git, GitAccess, GitServices};
use services::error::Error;

/// Files that a message names.
const NAMED: usize = 5;

/// The means of a step: git that can write the folders of the journal, and the folder of worktrees.
pub(super) struct Place<'a> {
    pub(super) git: &'a Git<'a>,
    pub(super) services: &'a GitServices,
    pub(super) folder: &'a Path,
}

impl Place<'_> {
    /// Waits for the file system.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.services.files.run(self.folder, work).await?
    }

    /// Does what the journal says.
    ///
    /// # Errors
    /// A lock of git's; git failed. The checkout and the worktree are as before then, or the message says what
    /// is not.
    pub(super) async fn publish(&self, journal: &Journal) -> Result<(), Error> {
        let (folder, written) = (self.folder.to_owned(), journal.clone());
        self.run(move || {
            written.write(&folder)?;
            if let Err(error) = take_locks(&written) {
                release_all(&written)?;
                Journal::delete(&folder)?;
                return Err(error);
            }
            Ok(())
        })
        .await?;
        let moved = match &journal.checkout {
            Some(checkout) => self.move_checkout(journal, checkout).await,
            None => self.move_reference(journal).await,
        };
        if let Err(error) = moved {
            return Err(self.take_back(journal, error).await);
        }
        let Err(error) = self.finish(journal).await else { return Ok(()) };
        let branch = short(&journal.reference);
        let error =
            error.within(&format!("`{branch}` has the merge, but the worktree has not moved on"));
        self.unlock(journal).await?;
        Err(error)
    }

    /// Lets the user go on although the journal stays.
    async fn unlock(&self, journal: &Journal) -> Result<(), Error> {
        let journal = journal.clone();
        self.run(move || release_all(&journal)).await
    }

    async fn move_checkout(
        &self,
        journal: &Journal,
        checkout: &WorkingFolder,
    ) -> Result<(), Error> {
        let lock = IndexLock::taken_before(&checkout.own, &journal.token);
        let copying = lock.clone();
        let copy = self.run(move || copying.make_copy()).await?;
        let git = self.git.with_variable("GIT_INDEX_FILE", copy);
        let forward: [Argument<'_>; 8] = [
            &"-C",
            &checkout.root,
            &"merge",
            &"--quiet",
            &"--ff-only",
            &"--no-autostash",
            &"--no-overwrite-ignore",
            &journal.to,
        ];
        git.text(&forward).await.map_err(failed)?;
        self.run(move || lock.install()).await
    }

    async fn move_reference(&self, journal: &Journal) -> Result<(), Error> {
        let common = git_dir(&journal.common);
        let Journal { reference, from, to, .. } = journal;
        let update: [Argument<'_>; 5] = [&common, &"update-ref", reference, to, from];
        self.git.text(&update).await.map(drop).map_err(failed)
    }

    /// After the branch has moved on: the commit of the worktree, the ref of a squash, and the end.
    async fn finish(&self, journal: &Journal) -> Result<(), Error> {
        if let Some(commit) = &journal.commit {
            self.commit_worktree(journal, commit).await?;
        }
        if let Some((reference, commit)) = &journal.kept {
            let common = git_dir(&journal.common);
            let keep: [Argument<'_>; 4] = [&common, &"update-ref", reference, commit];
            self.git.text(&keep).await.map_err(failed)?;
        }
        self.end(journal).await
    }

    async fn commit_worktree(&self, journal: &Journal, commit: &NewCommit) -> Result<(), Error> {
        let NewCommit { folder, from, to } = commit;
        let (own, token) = (folder.own.clone(), journal.token.clone());
        let lock = self.run(move || IndexLock::take(&own, &token)).await?;
        let copying = lock.clone();
        let copy = self.run(move || copying.make_copy()).await?;
        let git = self.git.with_variable("GIT_INDEX_FILE", copy);
        let read: [Argument<'_>; 6] = [&"-C", &folder.root, &"read-tree", &"-m", &"-i", to];
        git.text(&read).await.map_err(failed)?;
        let head: [Argument<'_>; 5] = [&"-C", &folder.root, &"rev-parse", &"--verify", &"HEAD"];
        let head = self.git.text(&head).await.map_err(failed)?;
        if head == *from {
            let update: [Argument<'_>; 8] =
                [&"-C", &folder.root, &"update-ref", &"-m", &"commit", &"HEAD", to, from];
            self.git.text(&update).await.map_err(failed)?;
        } else if head != *to {
            // The user has gone on in it.
            return Ok(());
        }
        self.run(move || lock.install()).await
    }

    async fn end(&self, journal: &Journal) -> Result<(), Error> {
        let (folder, done) = (self.folder.to_owned(), journal.clone());
        self.run(move || {
            release_all(&done)?;
            Journal::delete(&folder)
        })
        .await
    }

    /// Takes back what a failed step has changed. Returns the error with what became of it.
    async fn take_back(&self, journal: &Journal, error: Error) -> Error {
        // Git may have used up the time.
        let git = self.git.until(Instant::now() + MAX_CHANGE);
        let place = Place { git: &git, ..*self };
        let next = "worktree/list tries it again";
        let done = match &journal.checkout {
            Some(checkout) => place.undo(journal, checkout).await,
            None => Ok(PutBack::default()),
        };
        let ended = match &done {
            Ok(_) => place.end(journal).await,
            Err(_) => place.unlock(journal).await,
        };
        match (done, ended) {
            (Ok(PutBack { restored: 0, left }), Ok(())) if left.is_empty() => error,
            (Ok(PutBack { restored, left }), Ok(())) => error.next_step(outcome(restored, &left)),
            (Err(failure), _) | (_, Err(failure)) => error
                .next_step(format!("the changed files could not be put back: {failure}; {next}")),
        }
    }

    async fn undo(&self, journal: &Journal, checkout: &WorkingFolder) -> Result<PutBack, Error> {
        let (own, token) = (checkout.own.clone(), journal.token.clone());
        // The lock keeps other programs of git's away meanwhile.
        self.run(move || IndexLock::take(&own, &token)).await?;
        let commits = (&journal.from, &journal.to);
        put_back((self.git, self.services), self.folder, checkout, commits).await
    }

    /// Finishes what a killed program began, or takes it back.
    async fn recover(&self, journal: &Journal) -> Result<(), Error> {
        let common = git_dir(&journal.common);
        let show: [Argument<'_>; 5] =
            [&common, &"show-ref", &"--verify", &"--hash", &journal.reference];
        // Without the branch, git exits with 128.
        let tip = self.git.text(&show).await.unwrap_or_default();
        if tip == journal.to {
            if let Some(checkout) = &journal.checkout {
                let left = (checkout.own.clone(), journal.token.clone());
                self.run(move || match IndexLock::left_behind(&left.0, &left.1) {
                    Some(lock) => lock.install_if_there(),
                    // The user took it away, and has gone on.
                    None => Ok(()),
                })
                .await?;
            }
            return self.finish(journal).await;
        }
        if tip == journal.from
            && let Some(checkout) = &journal.checkout
        {
            let PutBack { restored, left } = self.undo(journal, checkout).await?;
            let root = checkout.root.display();
            let outcome = outcome(restored, &left);
            tracing::warn!(target: "server::worktrees", "{root}: a merge was cut off; {outcome}");
        }
        self.end(journal).await
    }
}

/// Finishes or takes back what a killed program began in the repository whose worktrees are in `folder`. The
/// caller has the lock of the folder.
///
/// # Errors
/// Git is at work in the checkout, or failed. The next call tries it again.
pub(crate) async fn recover(
    services: &GitServices,
    config: &config::Config,
    folder: &Path,
    journal: &Journal,
) -> Result<(), Error> {
    let place = folder.to_owned();
    let gone = journal.common.clone();
    let is_gone = services.files.run(folder, move || gone.symlink_metadata().is_err()).await?;
    if is_gone {
        return services.files.run(folder, move || Journal::delete(&place)).await?;
    }
    let mut journal = journal.clone();
    let checked = journal.clone();
    let is_there = move || {
        let is_folder = |it: &WorkingFolder| it.root.is_dir() && it.own.is_dir();
        let commit = checked.commit.as_ref().map(|commit| &commit.folder);
        (checked.checkout.as_ref().is_some_and(is_folder), commit.is_some_and(is_folder))
    };
    let (has_checkout, has_worktree) = services.files.run(folder, is_there).await?;
    journal.checkout = journal.checkout.filter(|_| has_checkout);
    journal.commit = journal.commit.filter(|_| has_worktree);
    let mut folders = vec![journal.common.clone(), folder.to_owned()];
    let mut read = vec![&journal.common];
    if let Some(it) = &journal.checkout {
        folders.extend([it.root.clone(), it.own.clone()]);
        read.push(&it.root);
    }
    read.extend(journal.commit.iter().map(|commit| &commit.folder.root));
    let deadline = Instant::now() + MAX_CHANGE;
    let mut git =
        Git::new(services, config, folder.to_owned(), GitAccess::Write(folders), deadline)?;
    for folder in read {
        git.distrust(folder).await.map_err(failed)?;
    }
    let place = Place { git: &git, services, folder };
    place
        .recover(&journal)
        .await
        .map_err(|error| error.within("a merge that was cut off cannot be finished or taken back"))
}

/// The folders of repositories, among those of these worktrees, in which a merge is under way or was cut off.
/// Waits for the file system.
pub(crate) fn with_journals(worktrees: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        worktrees.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
    folders.sort();
    folders.dedup();
    folders.retain(|folder| Journal::is_there(folder));
    folders
}

/// The error of a change that another program's keeps waiting.
pub(crate) fn in_use(folder: &Path) -> Error {
    let message = format!("another program merges or removes a worktree in {}", folder.display());
    refused(Reason::Busy, message, Vec::new()).next_step("wait for its end")
}

fn take_locks(journal: &Journal) -> Result<(), Error> {
    let worktree = journal.commit.as_ref().map(|commit| &commit.folder);
    for folder in journal.checkout.iter().chain(worktree) {
        IndexLock::take(&folder.own, &journal.token)?;
    }
    Ok(())
}

fn release_all(journal: &Journal) -> Result<(), Error> {
    let worktree = journal.commit.as_ref().map(|commit| &commit.folder);
    for folder in journal.checkout.iter().chain(worktree) {
        if let Some(lock) = IndexLock::left_behind(&folder.own, &journal.token) {
            lock.release()?;
        }
    }
    Ok(())
}

fn outcome(restored: usize, left: &[String]) -> String {
    let files = if restored == 1 { "file was" } else { "files were" };
    let mut text = format!("{restored} {files} put back");
    if !left.is_empty() {
        let named = left.iter().take(NAMED).map(|file| visible::line(file).into_owned());
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if left.len() > NAMED { ", …" } else { "" };
        text.push_str(&format!(
            ", and these were left as they are, since their contents are of neither commit: {named}{more}"
        ));
    }
    text
}

fn short(reference: &str) -> &str {
    reference.strip_prefix("refs/heads/").unwrap_or(reference)
}
