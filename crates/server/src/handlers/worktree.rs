//! Worktrees of threads: `thread/start` makes them, these methods list, merge and remove them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::{
    ThreadWorktreeParams, Worktree, WorktreeErrorReason, WorktreeListParams, WorktreeListResponse,
    WorktreeMergeParams, WorktreeMergeResponse, WorktreeMethods, WorktreeRemoveParams,
    WorktreeRemoveResponse, WorktreeState,
};
use session::Status;
use store::{ListQuery, TurnElsewhere};
use tokio::time::Instant;

use crate::git_command::GitServices;
use crate::server::Server;
use crate::worktrees::{
    self, GitState, Journal, Made, Record, Repository, Request, Target, WorktreesFolder, refused,
};
use services::error::Error;
use services::folders;
use services::peer::Caller;
use services::thread_port::Extra;

/// Time limit of a list, for all runs of git together.
const MAX_LIST: Duration = Duration::from_secs(30);
/// Maximum wait for another program that changes a worktree of the same repository.
const MAX_WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Threads of one worktree that a list has.
const MAX_THREADS: u32 = 100;

impl WorktreeMethods<Caller> for Server {
    async fn worktree_list(
        &self,
        _: Caller,
        params: WorktreeListParams,
    ) -> Result<WorktreeListResponse, Error> {
        let cwd = folders::optional_cwd(&self.services.files, params.cwd.as_deref()).await?;
        let own = self.services.configurations.own()?.resolved.config;
        let folder = WorktreesFolder::configured(&own, &self.services.options.home)?;
        let wanted = folder.clone();
        let find = move || {
            let repository = cwd.as_deref().map(Repository::find).transpose()?;
            wanted.found(repository.as_ref())
        };
        let found = self.services.files.run(folder.path(), find).await??;
        let problems = self.recover_merges(&folder, &found).await?;
        let deadline = Instant::now() + MAX_LIST;
        let (services, loaded) = (self.git_services(), self.loaded_folders().await);
        let mut data = Vec::with_capacity(found.len());
        for worktree in found {
            let problem = problems.iter().find(|(folder, _)| worktree.path.starts_with(folder));
            let listed = self.listed_worktree(&services, worktree, &loaded, deadline).await?;
            let problem = problem.map(|(_, problem)| problem.clone());
            data.push(Worktree { problem: problem.or(listed.problem), ..listed });
        }
        Ok(WorktreeListResponse { data, folder: folder.path().display().to_string() })
    }

    async fn worktree_merge(
        &self,
        _: Caller,
        params: WorktreeMergeParams,
    ) -> Result<WorktreeMergeResponse, Error> {
        let named = self.named_worktree(&params.path).await?;
        let _lock = self.services.threads.lock(&named.lock()).await;
        let _file = self.lock_repository(&named).await?;
        self.refuse_busy(&named.path).await?;
        let checkout = match &params.checkout {
            Some(folder) => folders::absolute("checkout", folder)?,
            None => named.record.repository.clone(),
        };
        let common = named.record.common.clone();
        let find = move || {
            let found = Repository::find(&checkout).map_err(|error| error.within("`checkout`"))?;
            match found.common == common {
                true => Ok(found),
                false => Err(Error::invalid_params(format!(
                    "`checkout`: {} is another repository than that of the worktree",
                    found.root.display()
                ))),
            }
        };
        let checkout = self.services.files.run(&named.path, find).await??;
        let config = self.services.configurations.in_folder(named.config_folder(), None).await?;
        let config = config.resolved.config;
        let target = named.target(&config);
        let worktree = target.worktree().await?;
        let token = self.services.options.ids.next();
        worktrees::merge(&target, &params, (&worktree, &checkout), &token).await
    }

    async fn worktree_remove(
        &self,
        _: Caller,
        params: WorktreeRemoveParams,
    ) -> Result<WorktreeRemoveResponse, Error> {
        let named = self.named_worktree(&params.path).await?;
        let _lock = self.services.threads.lock(&named.lock()).await;
        let _file = self.lock_repository(&named).await?;
        self.refuse_busy(&named.path).await?;
        let config = self.services.configurations.in_folder(named.config_folder(), None).await?;
        let config = config.resolved.config;
        worktrees::remove(&named.target(&config), named.state, params.force).await
    }
}

/// The worktree that a client names.
struct Named {
    services: GitServices,
    path: PathBuf,
    record: Record,
    state: WorktreeState,
}

impl Named {
    /// The folder that has the worktrees of its repository.
    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// The folder whose configuration applies.
    fn config_folder(&self) -> &Path {
        match self.state {
            WorktreeState::Ready => &self.path,
            WorktreeState::Missing | WorktreeState::Broken => &self.record.repository,
        }
    }

    /// The name of its lock: changes of the worktrees of one repository wait for each other.
    fn lock(&self) -> String {
        format!("worktrees {}", self.folder().display())
    }

    fn target<'a>(&'a self, config: &'a config::Config) -> Target<'a> {
        Target { services: &self.services, config, record: &self.record, path: &self.path }
    }
}

/// A folder in which a loaded thread works.
struct LoadedFolder {
    thread: String,
    cwd: PathBuf,
    is_active: bool,
}

impl Server {
    /// The services for running git.
    pub(crate) fn git_services(&self) -> GitServices {
        GitServices {
            runner: self.services.runner.clone(),
            files: self.services.files.clone(),
            options: self.services.options.clone(),
        }
    }

    /// Makes the worktree of a new thread, which would work in `cwd`. Ends with the client's connection.
    pub(crate) async fn make_worktree(
        &self,
        caller: &Caller,
        cwd: Option<&Path>,
        params: &ThreadWorktreeParams,
    ) -> Result<Made, Error> {
        let options = &self.services.options;
        let cwd = folders::check_cwd(&self.services.files, cwd.unwrap_or(&options.cwd).to_owned());
        let cwd = cwd.await?;
        let config = self.services.configurations.in_folder(&cwd, None).await?.resolved.config;
        let folder = WorktreesFolder::configured(&config, &options.home)?;
        let (id, services) = (options.ids.next(), self.git_services());
        let request = Request {
            services: &services,
            config: &config,
            folder: &folder,
            cwd: &cwd,
            params,
            id: &id,
            now: options.clock.now_ms() / 1000,
        };
        let mut claimed = None;
        let made = tokio::select! {
            made = worktrees::make(&request, &mut claimed) => made,
            _ = caller.peer.outbox.closed() => {
                Err(Error::wrong_state("the client left while its worktree was made"))
            }
        };
        if let (Err(_), Some(claimed)) = (&made, &claimed) {
            worktrees::discard(&services, &config, claimed).await;
        }
        made
    }

    /// Takes a worktree away whose thread did not come to be.
    pub(crate) async fn discard_worktree(&self, made: &Made) {
        match self.services.configurations.in_folder(&made.record.repository, None).await {
            Ok(loaded) => {
                let config = loaded.resolved.config;
                worktrees::discard(&self.git_services(), &config, made).await;
            }
            Err(error) => {
                let path = made.path.display();
                tracing::warn!(target: "server::worktrees", "{path} was not taken away: {error}");
            }
        }
    }

    /// Refuses to open a thread whose worktree is gone, unless the client names another folder.
    pub(crate) async fn check_worktree(&self, id: &str, cwd: Option<&Path>) -> Result<(), Error> {
        let Some(found) = self.services.store.get().await?.thread(id).await? else {
            return Ok(());
        };
        let Some(worktree) = Extra::read(&found.record)?.worktree else { return Ok(()) };
        let folder = PathBuf::from(&found.record.cwd);
        if cwd.is_some() || !folder.starts_with(&worktree.path) {
            return Ok(());
        }
        let path = folder.clone();
        if self.services.files.run(&folder, move || path.is_dir()).await? {
            return Ok(());
        }
        let message = format!("the worktree of the thread is gone: {}", worktree.path);
        Err(refused(WorktreeErrorReason::Missing, message, Vec::new()).next_step(format!(
            "give `cwd`, such as {}, or restore it with `git worktree add {} {}`, unless its branch was \
             removed with it",
            worktree.repository, worktree.path, worktree.branch
        )))
    }

    /// Keeps other programs from changing the worktrees of the repository until the file is dropped, and ends
    /// what a killed one began.
    async fn lock_repository(&self, named: &Named) -> Result<File, Error> {
        let folder = named.folder();
        let until = Instant::now() + MAX_WAIT;
        let file = loop {
            let path = folder.to_owned();
            let lock = move || worktrees::try_lock(&path);
            match self.services.files.run(folder, lock).await?? {
                Some(file) => break file,
                None if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                None => return Err(worktrees::in_use(folder)),
            }
        };
        self.recover_merge(folder).await?;
        Ok(file)
    }

    /// Ends the merge that a killed program began in the folder of a repository's worktrees, if there is one.
    async fn recover_merge(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.to_owned();
        let read = move || Journal::read(&path);
        let Some(journal) = self.services.files.run(folder, read).await?? else { return Ok(()) };
        let config = self.services.configurations.in_folder(&journal.repository, None).await?;
        let config = config.resolved.config;
        worktrees::recover(&self.git_services(), &config, folder, &journal).await
    }

    /// The same for all of these worktrees, except where a merge is under way. Returns the folders in which it
    /// failed, and why.
    async fn recover_merges(
        &self,
        folder: &WorktreesFolder,
        found: &[GitState],
    ) -> Result<Vec<(PathBuf, String)>, Error> {
        let paths: Vec<PathBuf> = found.iter().map(|it| it.path.clone()).collect();
        let find = move || worktrees::with_journals(&paths);
        let folders = self.services.files.run(folder.path(), find).await?;
        let mut problems = Vec::new();
        for folder in folders {
            let path = folder.clone();
            let lock = move || worktrees::try_lock(&path);
            let Some(_file) = self.services.files.run(&folder, lock).await?? else { continue };
            if let Err(error) = self.recover_merge(&folder).await {
                problems.push((folder, error.to_string()));
            }
        }
        Ok(problems)
    }

    async fn named_worktree(&self, path: &str) -> Result<Named, Error> {
        folders::absolute("path", path)?;
        let own = self.services.configurations.own()?.resolved.config;
        let folder = WorktreesFolder::configured(&own, &self.services.options.home)?;
        let (wanted, named) = (folder.clone(), path.to_owned());
        let find = move || wanted.find(&named);
        let found = self.services.files.run(folder.path(), find).await??;
        let GitState { path, record, state, .. } = found;
        Ok(Named { services: self.git_services(), path, record, state })
    }

    async fn listed_worktree(
        &self,
        services: &GitServices,
        found: GitState,
        loaded: &[LoadedFolder],
        deadline: Instant,
    ) -> Result<Worktree, Error> {
        let folder = match found.state {
            WorktreeState::Ready => &found.path,
            WorktreeState::Missing | WorktreeState::Broken => &found.record.repository,
        };
        let config = self.services.configurations.in_folder(folder, None).await?.resolved.config;
        let mut threads: Vec<String> = Vec::new();
        let store = self.services.store.get().await?;
        for archived in [false, true] {
            let cwds = vec![found.record.cwd.display().to_string()];
            let query = ListQuery { limit: MAX_THREADS, archived, cwds, ..ListQuery::default() };
            threads.extend(store.threads(query).await?.rows.into_iter().map(|row| row.record.id));
        }
        // Those without a turn are in no list of the store.
        let here = loaded.iter().filter(|thread| thread.cwd.starts_with(&found.path));
        for LoadedFolder { thread, .. } in here {
            if !threads.contains(thread) {
                threads.push(thread.clone());
            }
        }
        Ok(worktrees::state(services, &config, found, deadline).await.on_wire(threads))
    }

    async fn loaded_folders(&self) -> Vec<LoadedFolder> {
        let mut folders = Vec::new();
        for handle in self.services.threads.all() {
            let Some(snapshot) = handle.snapshot().await else { continue };
            folders.push(LoadedFolder {
                thread: snapshot.record.id,
                cwd: snapshot.settings.cwd,
                is_active: matches!(snapshot.status, Status::Active { .. }),
            });
        }
        folders
    }

    /// Refuses a change of a worktree in which a turn runs.
    async fn refuse_busy(&self, path: &Path) -> Result<(), Error> {
        let loaded = self.loaded_folders().await;
        let busy = loaded.iter().find(|thread| thread.is_active && thread.cwd.starts_with(path));
        let message = match busy {
            Some(LoadedFolder { thread, .. }) => {
                format!("a turn of thread {thread} runs in the worktree")
            }
            None => {
                let elsewhere = self.services.store.get().await?.turns_elsewhere().await?;
                let mut elsewhere = elsewhere.into_iter();
                let busy = elsewhere.find(|turn| Path::new(&turn.cwd).starts_with(path));
                let Some(TurnElsewhere { thread, holder, .. }) = busy else { return Ok(()) };
                format!(
                    "a turn of thread {thread} runs in the worktree, in another server ({holder})"
                )
            }
        };
        Err(refused(WorktreeErrorReason::Busy, message, Vec::new())
            .next_step("wait for its end, or interrupt it"))
    }
}
