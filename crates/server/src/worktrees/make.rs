//! Makes the worktree of a new thread.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::{ThreadWorktree, ThreadWorktreeParams, WorktreeErrorReason};
use tokio::time::Instant;

use super::failure::{failed, refused};
use super::folder::{self, WorktreesFolder};
use super::record::Record;
use super::repository::Repository;
use super::{MAX_LIST, MAX_MAKE, branch_name, carry};
use crate::git_command::{Argument, Git, GitAccess, GitFailure, GitServices};
use services::error::Error;

/// Worktrees with the same name but for their numbers.
const MAX_NUMBER: usize = 1_000;

/// Time for a git that was stopped to end.
const MAX_END: Duration = Duration::from_secs(10);
const END_INTERVAL: Duration = Duration::from_millis(20);

/// Words of git where the sandbox does not let it write.
const DENIED: [&str; 2] = ["Read-only file system", "Permission denied"];
/// Words of git about a text that names no commit.
const NO_COMMIT: [&str; 4] =
    ["unknown revision", "expected commit type", "Needed a single revision", "bad revision"];

/// The wish for a worktree.
pub(crate) struct Request<'a> {
    pub(crate) services: &'a GitServices,
    pub(crate) config: &'a config::Config,
    pub(crate) folder: &'a WorktreesFolder,
    /// Where the thread would work without one.
    pub(crate) cwd: &'a Path,
    pub(crate) params: &'a ThreadWorktreeParams,
    /// Makes its name when the client gives none.
    pub(crate) id: &'a str,
    /// Unix seconds.
    pub(crate) now: i64,
}

/// A worktree that was made.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    pub(crate) record: Record,
}

impl Made {
    /// As threads show it.
    pub(crate) fn on_wire(&self) -> ThreadWorktree {
        ThreadWorktree {
            path: self.path.display().to_string(),
            branch: self.record.branch.clone(),
            repository: self.record.repository.display().to_string(),
            base: self.record.base.clone(),
        }
    }
}

/// Makes a worktree. `claimed` is set as soon as there is something that [`discard`] has to take away when this
/// fails, or is dropped.
///
/// # Errors
/// No repository, no commit; git failed or did not end in time; the folder cannot be used.
pub(crate) async fn make(request: &Request<'_>, claimed: &mut Option<Made>) -> Result<Made, Error> {
    let Request { services, config, folder, params, .. } = *request;
    if params.carry_changes && params.base_ref.is_some() {
        return Err(Error::exclusive("worktree.carryChanges", "worktree.baseRef"));
    }
    let (wanted, cwd) = (folder.clone(), request.cwd.to_owned());
    let found = services.files.run(request.cwd, move || {
        let repository = Repository::find(&cwd)?;
        let parent = wanted.make(&repository)?;
        Ok::<_, Error>((repository, parent))
    });
    let (repository, parent) = found.await??;
    let access = GitAccess::Write(vec![repository.common.clone(), parent.clone()]);
    let deadline = Instant::now() + MAX_MAKE;
    let mut git = Git::new(services, config, parent.clone(), access, deadline)?;
    git.distrust(&repository.root).await.map_err(failed)?;
    let base = base(&git, &repository, params.base_ref.as_deref()).await?;
    let prefix = "refs/heads/agentd";
    let taken: [Argument<'_>; 6] =
        [&"-C", &repository.root, &"show-ref", &"--verify", &"--quiet", &prefix];
    if git.run(&taken, MAX_LIST).await.map_err(failed)?.exit.success() {
        let message = "a branch is called `agentd`, so that none can be called `agentd/NAME`";
        return Err(refused(WorktreeErrorReason::Git, message, Vec::new())
            .next_step("rename it: git branch -m agentd OTHER-NAME"));
    }
    let name = params.name.as_deref().and_then(branch_name::slug);
    let name = name.unwrap_or_else(|| branch_name::from_id(request.id));
    for attempt in 1..=MAX_NUMBER {
        let name = branch_name::numbered(&name, attempt);
        let branch = branch_name::branch(&name);
        let reference = format!("refs/heads/{branch}");
        // The branch, or branches below it, of which git could make no folder.
        let taken: [Argument<'_>; 5] =
            [&"-C", &repository.root, &"for-each-ref", &"--count=1", &reference];
        if !git.text(&taken).await.map_err(failed)?.is_empty() {
            continue;
        }
        let path = parent.join(&name);
        let folders = (repository.root.clone(), repository.common.clone());
        // A join with nothing would add a slash.
        let cwd = match repository.inside.as_os_str().is_empty() {
            true => path.clone(),
            false => path.join(&repository.inside),
        };
        let record = Record::new(branch, folders, base.clone(), request.now, cwd);
        let made = Made { path, record };
        if !claim(services, &made).await? {
            continue;
        }
        *claimed = Some(made.clone());
        match add(&git, &repository, &made).await {
            Ok(()) => {}
            // Another process made the branch meanwhile.
            Err(GitFailure::Failed(_, said)) if said.contains("already exists") => {
                discard_claim(services, &made).await?;
                *claimed = None;
                continue;
            }
            Err(failure) => return Err(not_added(services, &repository, failure).await),
        }
        if params.carry_changes {
            carry::carry(&git, services, &repository, &made).await?;
        }
        open_cwd(services, &made).await?;
        return Ok(made);
    }
    let message = format!("there are {MAX_NUMBER} worktrees called {name}");
    Err(Error::wrong_state(message).next_step("give another name, or remove some of them"))
}

/// The error of git, in plain words where the reason is a link in the git folder: the sandbox keeps those to
/// what configures git from being replaced, so that git can make no file next to them.
async fn not_added(services: &GitServices, repository: &Repository, failure: GitFailure) -> Error {
    let common = repository.common.clone();
    let find = move || {
        let entries = std::fs::read_dir(&common).into_iter().flatten().flatten();
        let mut links = entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_symlink()));
        links.next().map(|link| link.path())
    };
    let is_denied = |failure: &GitFailure| match failure {
        GitFailure::Failed(_, said) => DENIED.iter().any(|words| said.contains(words)),
        GitFailure::NotStarted(_) | GitFailure::TimedOut(_) => false,
    };
    let link = match is_denied(&failure) {
        true => services.files.run(&repository.common, find).await.ok().flatten(),
        false => None,
    };
    let Some(link) = link else { return failed(failure) };
    let message =
        format!("{} is a link, next to which git can write nothing in the sandbox", link.display());
    let next = match link.ends_with("hooks") {
        true => "remove it, and set `git config core.hooksPath` to the folder that it leads to",
        false => "put what it leads to in its place",
    };
    refused(WorktreeErrorReason::Protected, message, Vec::new()).next_step(next)
}

/// The commit to begin with.
async fn base(
    git: &Git<'_>,
    repository: &Repository,
    wanted: Option<&str>,
) -> Result<String, Error> {
    if wanted.is_some_and(|wanted| wanted.contains('\0')) {
        return Err(Error::invalid_params("`worktree.baseRef` must not contain a NUL character"));
    }
    let commit = format!("{}^{{commit}}", wanted.unwrap_or("HEAD"));
    let parse: [Argument<'_>; 7] = [
        &"-C",
        &repository.root,
        &"rev-parse",
        &"--verify",
        &"--quiet",
        &"--end-of-options",
        &commit,
    ];
    let ended = git.run(&parse, MAX_LIST).await.map_err(failed)?;
    let found = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    // `^main` is no commit, but all that `main` has not.
    let is_hash = !found.is_empty() && found.chars().all(|c| c.is_ascii_hexdigit());
    if ended.exit.success() && is_hash {
        return Ok(found);
    }
    let silent = matches!(ended.exit.code, Some(0 | 1)) && ended.stderr.trim().is_empty();
    match wanted {
        None if silent => {
            let message = format!("{} has no commit yet", repository.root.display());
            Err(refused(WorktreeErrorReason::NoRepository, message, Vec::new())
                .next_step("make a first commit"))
        }
        Some(wanted) if silent || NO_COMMIT.iter().any(|said| ended.stderr.contains(said)) => {
            let wanted = services::error::start_of(wanted);
            let message = format!("`worktree.baseRef`: the repository has no commit `{wanted}`");
            Err(Error::invalid_params(message))
        }
        _ => Err(failed(ended.failure(&parse))),
    }
}

async fn claim(services: &GitServices, made: &Made) -> Result<bool, Error> {
    let Made { path, record } = made.clone();
    let claim = move || {
        if !folder::claim(&path)? {
            return Ok(false);
        }
        record.write(&path).inspect_err(|_| {
            // It is empty, and the first error is the one to report.
            let _ = std::fs::remove_dir(&path);
        })?;
        Ok(true)
    };
    services.files.run(&made.path, claim).await?
}

async fn discard_claim(services: &GitServices, made: &Made) -> Result<(), Error> {
    let path = made.path.clone();
    let discard = move || {
        Record::delete(&path)?;
        std::fs::remove_dir(&path).map_err(|error| folder::unusable(&path, &error))
    };
    services.files.run(&made.path, discard).await?
}

async fn add(git: &Git<'_>, repository: &Repository, made: &Made) -> Result<(), GitFailure> {
    let Record { branch, base, .. } = &made.record;
    let add: [Argument<'_>; 9] =
        [&"-C", &repository.root, &"worktree", &"add", &"--quiet", &"-b", branch, &made.path, base];
    git.text(&add).await.map(drop)
}

/// Opens the folder that the thread works in: git has none without tracked files.
async fn open_cwd(services: &GitServices, made: &Made) -> Result<(), Error> {
    let (path, cwd) = (made.path.clone(), made.record.cwd.clone());
    let open = move || {
        let unusable = |error| folder::unusable(&cwd, &error);
        std::fs::create_dir_all(&cwd).map_err(unusable)?;
        let real = cwd.canonicalize().map_err(unusable)?;
        match real.starts_with(&path) {
            true => Ok(()),
            false => Err(Error::wrong_state(format!(
                "{} is a link out of the repository in the commit of the worktree",
                cwd.display()
            ))),
        }
    };
    services.files.run(&made.path, open).await?
}

/// Takes a worktree away whose making failed, or whose thread did not come to be. What cannot be taken away is
/// listed as a worktree without a thread.
pub(crate) async fn discard(services: &GitServices, config: &config::Config, made: &Made) {
    if let Err(error) = try_discard(services, config, made).await {
        let path = made.path.display();
        tracing::warn!(target: "server::worktrees", "{path} was not taken away: {error}");
    }
}

async fn try_discard(
    services: &GitServices,
    config: &config::Config,
    made: &Made,
) -> Result<(), Error> {
    let path = made.path.clone();
    let removed = services.files.run_within(MAX_MAKE, &made.path, move || remove_all(&path));
    removed.await??;
    let Record { common, branch, base, .. } = &made.record;
    let parent = folder::parent(&made.path).to_owned();
    let access = GitAccess::Write(vec![common.clone(), parent.clone()]);
    let deadline = Instant::now() + MAX_MAKE;
    let git = Git::new(services, config, parent, access, deadline)?;
    let git_dir = git_dir(common);
    let forget: [Argument<'_>; 6] =
        [&git_dir, &"worktree", &"remove", &"--force", &"--force", &made.path];
    // Git may not have known it yet, nor its branch.
    let _ = git.text(&forget).await;
    let reference = format!("refs/heads/{branch}");
    let delete: [Argument<'_>; 5] = [&git_dir, &"update-ref", &"-d", &reference, base];
    let _ = git.text(&delete).await;
    let path = made.path.clone();
    services.files.run(&made.path, move || Record::delete(&path)).await?
}

/// Removes a folder in which a git that was stopped may write until it has ended.
fn remove_all(path: &Path) -> Result<(), Error> {
    let until = Instant::now() + MAX_END;
    loop {
        match std::fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == ErrorKind::DirectoryNotEmpty && Instant::now() < until =>
            {
                std::thread::sleep(END_INTERVAL);
            }
            Err(error) => return Err(folder::unusable(path, &error)),
        }
    }
}

/// The option that names a repository by its git folder.
pub(super) fn git_dir(common: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from("--git-dir=");
    option.push(common);
    option
}
