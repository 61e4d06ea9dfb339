//! Loads threads: new ones from the configuration and the client's overrides, stored ones from their
//! record. `fork` makes those that begin with the turns of another one.

mod agents;
mod fork;
mod overrides;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use files::Pool;
use hooks::StartSource;
use protocol::QueuedSubmission;
use serde_json::{Map, Value};
use session::{Id, Overrides, Restored, Settings, ThreadStart};
use store::{StoredThread, ThreadChanges, ThreadRecord, Write};

use crate::agents::Agents;
use services::allowed::{Allowed, LimitedMachine, PresentPolicies, ThreadBound};
use services::config_source::Loaded;
use services::configurations::{ConfigurationOrigin, Configurations};
use services::error::Error;
use services::loaded_threads::LoadedThreads;
use services::mcp_servers::McpServers;
use services::options::Options;
use services::peer::Peer;
use services::stored::Totals;
use services::thread_defaults::{Parts, ThreadDefaults};
use services::thread_port::{Extra, ThreadHandle, stored_queue};
use services::thread_store::{NewThread, ThreadStore};
use services::updates::Updates;
use services::{convert, folders, git, stored, warnings};

pub use fork::Fork;
pub use overrides::ClientOverrides;

/// The clients that are sent what is wrong with a thread's configuration.
pub(crate) type Clients<'a> = &'a [Arc<Peer>];

/// The loader of threads.
pub struct ThreadLoader {
    pub options: Arc<Options>,
    pub files: Pool,
    pub configurations: Arc<Configurations>,
    pub defaults: Arc<ThreadDefaults>,
    pub store: Arc<ThreadStore>,
    pub threads: Arc<LoadedThreads>,
    pub mcp: Arc<McpServers>,
    pub updates: Arc<Updates>,
    /// The present permissions of the threads above agents.
    pub policies: Arc<PresentPolicies>,
    /// The agents of the threads that it loads.
    pub agents: Arc<Agents>,
    /// Starts the actor of a thread.
    pub start: Box<dyn Fn(LoadedThread) -> ThreadHandle + Send + Sync>,
}

/// A thread that was loaded, and has no actor yet.
pub struct LoadedThread {
    pub machine: LimitedMachine,
    pub record: ThreadRecord,
    pub extra: Extra,
    pub ephemeral: bool,
    pub queue: Vec<QueuedSubmission>,
    pub config: Arc<Config>,
    pub origin: ConfigurationOrigin,
    pub instruction_sources: Vec<PathBuf>,
    pub context_window: Option<i64>,
}

/// The parts of a thread that are stored.
struct StoredParts {
    record: ThreadRecord,
    extra: Extra,
    /// None of them is.
    ephemeral: bool,
    queue: Vec<QueuedSubmission>,
}

impl StoredParts {
    /// Those of a thread without a queue.
    fn new(record: ThreadRecord, extra: Extra, ephemeral: bool) -> Self {
        Self { record, extra, ephemeral, queue: Vec::new() }
    }
}

impl ThreadLoader {
    /// Makes a new thread: stored before a client can see it, unless it is ephemeral. The folder that the
    /// client names need not have been looked at.
    pub async fn new_thread(
        &self,
        clients: Clients<'_>,
        mut client: ClientOverrides,
        ephemeral: bool,
        mut extra: Extra,
    ) -> Result<ThreadHandle, Error> {
        let cwd = client.cwd.clone().unwrap_or_else(|| self.options.cwd.clone());
        extra.base_instructions = client.base_instructions.take();
        extra.developer_instructions = client.developer_instructions.take();
        extra.without_memories |= ephemeral;
        let overrides = client.config.take();
        let start = |client: ClientOverrides, extra: Extra| {
            let (options, defaults) = (self.options.clone(), self.defaults.clone());
            let folder = cwd.clone();
            move |config: &Config| {
                Start::read((&options, &defaults), config, &client, folder, extra)
            }
        };
        let first = start(client.clone(), extra.clone());
        let read = self.load_configuration_and(clients, &cwd, overrides.as_ref(), None, first);
        let (mut loaded, mut start_of) = read.await?;
        if let Err(NotStarted::NoModel { provider }) = &start_of {
            self.defaults.learn_models(&loaded.resolved.config, provider).await;
            let again = start(client, extra);
            let read =
                self.configurations.in_folder_with_rules(&cwd, overrides.as_ref(), None, again);
            (loaded, _, start_of) = read.await?;
        }
        let origin = origin(&loaded, &cwd, overrides, None);
        let config = Arc::new(loaded.resolved.config);
        let Start { new, extra, parts, replacements } = start_of.map_err(Error::from)?;
        self.mcp.require(&cwd, &config).await?;
        for (peer, problem) in to_each(clients, &replacements) {
            warnings::send_plain(peer, problem.clone());
        }
        for (peer, problem) in to_each(clients, &parts.problems) {
            warnings::send_plain(peer, problem.clone());
        }
        if !ephemeral {
            self.store.create(&new).await?;
        }
        let restored = Restored { history: Some(Vec::new()), ..Restored::default() };
        let bound = self.bound(new.id(), &extra).await?;
        let stored = StoredParts::new(new.into_record(), extra, ephemeral);
        Ok(self.start_actor((config, origin), (parts, bound), stored, restored))
    }

    /// The loaded thread of that id, loaded now if need be, with the overrides of the client. Loading
    /// reads the thread's row only: its history is read with the first turn.
    pub async fn resume_thread(
        &self,
        clients: Clients<'_>,
        id: &str,
        client: &ClientOverrides,
    ) -> Result<(ThreadHandle, Overrides), Error> {
        loop {
            let Some(loaded) = self.threads.get(id).filter(ThreadHandle::is_alive) else {
                match self.load_thread(clients, id, client).await? {
                    Some(loaded) => return Ok(loaded),
                    // Another request has loaded or changed it meanwhile.
                    None => continue,
                }
            };
            let cwd = client.cwd.clone().unwrap_or_else(|| self.options.cwd.clone());
            let (config, _) = self.configuration(clients, &cwd, client).await?;
            if !loaded.is_alive() {
                continue;
            }
            self.check_tools(id, client).await?;
            return Ok((loaded, client.checked(&config, &self.defaults, &cwd)?));
        }
    }

    /// Refuses other tools for a thread that is loaded: its clients answer calls of those that it has.
    async fn check_tools(&self, id: &str, client: &ClientOverrides) -> Result<(), Error> {
        let Some(tools) = &client.dynamic_tools else { return Ok(()) };
        let stored = self.store.get().await?.thread(id).await?;
        let extra = stored.map(|stored| Extra::read(&stored.record)).transpose()?;
        if extra.is_some_and(|extra| extra.dynamic_tools == *tools) {
            return Ok(());
        }
        Err(Error::wrong_state(format!("thread {id} is loaded, with other `dynamicTools`"))
            .next_step("leave them out, or resume the thread when it is not loaded"))
    }

    /// Loads a thread. `None` when it was loaded or changed while its files were read. They are read
    /// without its lock: a file system that does not answer delays no change of the thread.
    async fn load_thread(
        &self,
        clients: Clients<'_>,
        id: &str,
        client: &ClientOverrides,
    ) -> Result<Option<(ThreadHandle, Overrides)>, Error> {
        let store = self.store.get().await?;
        let found = store.thread(id).await?;
        let Some(StoredThread { record, .. }) = found else {
            return Err(Error::unknown_thread(id));
        };
        if record.archived {
            return Err(Error::archived(id));
        }
        let settings = self.stored_settings(&record).await?;
        let cwd = client.cwd.clone().unwrap_or_else(|| settings.cwd.clone());
        let mut extra = Extra::read(&record)?;
        let (config, origin) = self.configuration(clients, &cwd, client).await?;
        let role = extra.agent.as_ref().and_then(|agent| agent.role.as_deref());
        let (config, origin) = self.with_role(clients, config, origin, role).await?;
        self.mcp.require(&cwd, &config).await?;
        let settings = limit(clients, settings, &config);
        let overrides = client.checked(&config, &self.defaults, &cwd)?;
        let introduced = extra.introduced.clone();
        let goal = extra.goal.clone().filter(|_| config.features.goals);
        let as_stored = extra.clone();
        client.change_extra(&mut extra);
        let parts = self.parts(clients, &config, &extra, settings).await?;
        let bound = self.bound(id, &extra).await?;
        // A thread has one actor, and none while it is archived or deleted.
        let _lock = self.threads.lock(id).await;
        if let Some(ending) = self.threads.get(id).filter(|handle| !handle.is_alive()) {
            // Its last turn is being closed.
            ending.ended().await;
        }
        if self.threads.get(id).is_some_and(|handle| handle.is_alive()) {
            return Ok(None);
        }
        let (now, last, queue) = self.store.open_thread(id).await?;
        if now.record != record {
            self.store.release(id).await;
            return Ok(None);
        }
        if extra != as_stored {
            let changes =
                ThreadChanges { extra: Some(Some(extra.json())), ..ThreadChanges::default() };
            let (thread, changes) = (id.to_owned(), Box::new(changes));
            let written = store.commit(vec![Write::UpdateThread { thread, changes }]).await;
            if let Err(error) = written {
                self.store.release(id).await;
                return Err(error.into());
            }
        }
        let (usage, cost) = Totals::read(id, record.token_usage.as_deref());
        let restored = Restored {
            history: None,
            introduced,
            usage,
            cost,
            failed: last.is_some_and(|turn| turn.status == store::TurnStatus::Failed),
            previewed: !record.preview.is_empty(),
            goal,
            approved_actions: extra.approved_actions.clone(),
            concessions: extra.concessions.clone(),
            documents: extra.documents.clone(),
            start: match extra.agent {
                Some(_) => ThreadStart::Agent,
                None => ThreadStart::User(StartSource::Resume),
            },
            ..Restored::default()
        };
        let stored = StoredParts { record, extra, ephemeral: false, queue: stored_queue(&queue) };
        let handle = self.start_actor((config, origin), (parts, bound), stored, restored);
        Ok(Some((handle, overrides)))
    }

    /// The settings that a thread was stored with. A thread that lost them to damage of the database
    /// gets those of the configuration.
    async fn stored_settings(&self, record: &ThreadRecord) -> Result<Settings, Error> {
        if record.settings.is_empty() {
            let cwd = Some(&record.cwd).filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
            let cwd = cwd.unwrap_or_else(|| self.options.cwd.clone());
            let loaded = self.configurations.in_folder(&cwd, None).await?;
            return Ok(self.defaults.settings(&loaded.resolved.config, &cwd));
        }
        stored::settings(&record.id, &record.settings)
    }

    async fn git_info(&self, settings: &Settings) -> Result<Option<String>, Error> {
        let cwd = settings.cwd.clone();
        let info = self.files.run(&settings.cwd, move || git::info(&cwd)).await?;
        Ok(info.and_then(|info| serde_json::to_string(&info).ok()))
    }

    /// Returns the parts that the thread takes from its configuration; the client is sent the
    /// unreadable ones.
    async fn parts(
        &self,
        clients: Clients<'_>,
        config: &Arc<Config>,
        extra: &Extra,
        settings: Allowed<Settings>,
    ) -> Result<Parts, Error> {
        let parts = self.defaults.parts(config, extra, settings).await?;
        for (peer, problem) in to_each(clients, &parts.problems) {
            warnings::send_plain(peer, problem.clone());
        }
        Ok(parts)
    }

    /// The configuration of a thread; the client is sent its warnings.
    async fn configuration(
        &self,
        clients: Clients<'_>,
        cwd: &Path,
        client: &ClientOverrides,
    ) -> Result<(Arc<Config>, ConfigurationOrigin), Error> {
        let loaded = self.load_configuration(clients, cwd, client.config.as_ref(), None).await?;
        let origin = origin(&loaded, cwd, client.config.clone(), None);
        Ok((Arc::new(loaded.resolved.config), origin))
    }

    /// Reads a configuration; the clients are sent its warnings. `role`: the file of an agent's role.
    async fn load_configuration(
        &self,
        clients: Clients<'_>,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
    ) -> Result<Loaded, Error> {
        let read = self.load_configuration_and(clients, cwd, overrides, role, |_| ());
        Ok(read.await?.0)
    }

    /// As [`ThreadLoader::load_configuration`]; `and` reads more, in the same piece of work.
    async fn load_configuration_and<T: Send + 'static>(
        &self,
        clients: Clients<'_>,
        cwd: &Path,
        overrides: Option<&Map<String, Value>>,
        role: Option<&Path>,
        and: impl FnOnce(&Config) -> T + Send + 'static,
    ) -> Result<(Loaded, T), Error> {
        let read = self.configurations.in_folder_with_rules(cwd, overrides, role, and);
        let (loaded, problems, also) = read.await?;
        clients.iter().for_each(|peer| warnings::send(peer, &loaded.resolved.warnings));
        self.updates.begin(&loaded.resolved.config);
        for (peer, problem) in to_each(clients, &problems) {
            warnings::send_plain(peer, problem.clone());
        }
        Ok((loaded, also))
    }

    fn start_actor(
        &self,
        (config, origin): (Arc<Config>, ConfigurationOrigin),
        (parts, bound): (Parts, ThreadBound),
        stored: StoredParts,
        restored: Restored,
    ) -> ThreadHandle {
        let StoredParts { record, extra, ephemeral, queue } = stored;
        let restored = Restored { thread: record.id.as_str().into(), ..restored };
        let Parts { configured, instruction_sources, context_window, .. } = parts;
        let ids = Box::new(SessionIds(self.options.clone()));
        let clock = self.options.clock.clone();
        let machine = LimitedMachine::new(configured, bound, ids, restored, clock);
        let id = record.id.clone();
        let handle = (self.start)(LoadedThread {
            machine,
            record,
            extra,
            ephemeral,
            queue,
            config,
            origin,
            instruction_sources,
            context_window,
        });
        self.threads.insert(id, handle.clone());
        handle
    }
}

/// A new thread, before it is stored.
struct Start {
    new: NewThread,
    extra: Extra,
    parts: Parts,
    /// Settings that the requirements replaced, for the clients.
    replacements: Vec<String>,
}

/// Why a thread does not start.
enum NotStarted {
    /// None is chosen, and the provider has not reported any.
    NoModel {
        provider: String,
    },
    Other(Error),
}

impl From<Error> for NotStarted {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<NotStarted> for Error {
    fn from(not_started: NotStarted) -> Self {
        match not_started {
            NotStarted::NoModel { provider } => Self::invalid_params(format!(
                "no model is chosen, and the models of the provider `{provider}` are not known"
            ))
            .next_step("give `model`, or set `model` in config.toml"),
            NotStarted::Other(error) => error,
        }
    }
}

impl Start {
    /// Reads what a new thread in `cwd` takes from its folder. Waits for the file system.
    fn read(
        (options, defaults): (&Options, &ThreadDefaults),
        config: &Config,
        client: &ClientOverrides,
        cwd: PathBuf,
        extra: Extra,
    ) -> Result<Self, NotStarted> {
        if client.cwd.is_some() && !cwd.is_dir() {
            return Err(folders::not_a_folder(&cwd).into());
        }
        let mut settings = defaults.settings(config, &cwd);
        let overrides = client.checked(config, defaults, &cwd)?;
        let is_chosen = overrides.model.is_some() || config.model.is_some();
        settings.apply(overrides);
        if !is_chosen {
            settings.model = defaults.model(config, &settings.provider);
        }
        if settings.model.is_empty() {
            return Err(NotStarted::NoModel { provider: settings.provider });
        }
        let (settings, replacements) = Allowed::new(settings, config, &cwd);
        let project = (&*config.project_root, &*config.project_root_markers);
        let git_info = git::info_of_project(&cwd, project);
        let id = options.ids.next();
        let now = options.clock.now_ms() / 1000;
        let record = ThreadRecord {
            id: id.clone(),
            session_id: id,
            created_at: now,
            updated_at: now,
            source_kind: convert::thread::source_kind(&options.session_source),
            source: convert::thread::source_json(&options.session_source),
            git_info: git_info.and_then(|info| serde_json::to_string(&info).ok()),
            cli_version: options.version.clone(),
            extra: Some(extra.json()),
            ..ThreadRecord::default()
        };
        let new = NewThread::new(record, &settings);
        let parts = defaults.read_parts(config, &extra, settings)?;
        Ok(Self { new, extra, parts, replacements })
    }
}

fn origin(
    loaded: &Loaded,
    cwd: &Path,
    overrides: Option<Map<String, Value>>,
    role: Option<PathBuf>,
) -> ConfigurationOrigin {
    let (cwd, files, generation) = (cwd.to_owned(), loaded.files.clone(), loaded.generation);
    ConfigurationOrigin { cwd, files, generation, overrides, role }
}

/// The settings within the requirements; the client is sent what was replaced.
fn limit(clients: Clients<'_>, settings: Settings, config: &Config) -> Allowed<Settings> {
    let cwd = settings.cwd.clone();
    let (allowed, replacements) = Allowed::new(settings, config, &cwd);
    for (peer, replaced) in to_each(clients, &replacements) {
        warnings::send_plain(peer, replaced.clone());
    }
    allowed
}

/// Every client with every text.
fn to_each<'a>(
    clients: Clients<'a>,
    texts: &'a [String],
) -> impl Iterator<Item = (&'a Arc<Peer>, &'a String)> {
    clients.iter().flat_map(move |peer| texts.iter().map(move |text| (peer, text)))
}

/// Turn and item ids of a thread.
struct SessionIds(Arc<Options>);

impl session::Ids for SessionIds {
    fn turn(&mut self) -> Id {
        self.0.ids.next().into()
    }

    fn item(&mut self) -> Id {
        self.0.ids.next().into()
    }
}
