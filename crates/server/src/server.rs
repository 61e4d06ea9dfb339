//! The server as a whole: its start, which builds the services and is the only place that holds them
//! all, and its end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use file_watch::Watcher;
use files::Pool;
use hooks::EndReason;
use jsonrpc::{CloseReason, Spool};
use sandbox::Sandbox;
use tokio::sync::Semaphore;

use crate::client_processes::ClientProcesses;
use crate::client_watches::ClientWatches;
use crate::elsewhere::joined::Elsewhere;
use crate::file_searches::FileSearches;
use crate::in_flight::InFlight;
use crate::input_reader::InputReader;
use crate::plugins::Plugins;
use crate::realtime_sessions::RealtimeSessions;
use crate::text_searches::TextSearches;
use services::accounts::Accounts;
use services::command_runner::CommandRunner;
use services::config_source::ConfigSource;
use services::configurations::Configurations;
use services::connections::Connections;
use services::direct_requests::DirectRequests;
use services::error::Error;
use services::home::make_home;
use services::idle_sleep::IdleSleep;
use services::image_reader::ImageReader;
use services::installed_plugins::InstalledPlugins;
use services::loaded_threads::LoadedThreads;
use services::mcp_servers::McpServers;
use services::memories::Memories;
use services::models::{Listings, Models};
use services::notify::Notifier;
use services::options::Options;
use services::prompt_history::PromptHistory;
use services::rules::CommandRules;
use services::search_index::SearchIndex;
use services::skills::{Skills, ThreadSkills};
use services::snapshots::ShellSnapshots;
use services::telemetry::Telemetry;
use services::thread_defaults::{ModelName, ThreadDefaults};
use services::thread_hooks::HookRunner;
use services::thread_port::{Command, ThreadHandle};
use services::thread_store::ThreadStore;
use services::undo::UndoRecords;
use services::updates::Updates;
use threads::agents::{Agents, CallSenders};
use threads::requests::ClientRequests;
use threads::thread::{
    Actor, AgentCalls, Broadcast, CommandServices, HookRuns, InspectionServices, Journal, Mailbox,
    ModelStream, Questions, ReadInput, Reviewer, RunningCommands, ServerCalls, SkillNeeds,
    ThreadConfiguration, ThreadMemories, ThreadQueue, ThreadTrace, ThreadUndo, ToolInspector,
    TurnHooks, UnloadDeadline,
};
use threads::thread_loader::{LoadedThread, ThreadLoader};
use threads::warm_up::WarmUp;

/// The application server. Cheap to clone: all clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) services: Arc<Services>,
}

/// The services that connections and threads share. Handlers pass on what a function needs; nothing
/// else holds all of it.
pub(crate) struct Services {
    pub(crate) options: Arc<Options>,
    /// For work on files that a client, the model or a workspace names.
    pub(crate) files: Pool,
    /// For copies and removals, which may take minutes: others do not wait for them.
    pub(crate) long_files: Pool,
    pub(crate) undo: Arc<UndoRecords>,
    pub(crate) memories: Arc<Memories>,
    pub(crate) images: Arc<ImageReader>,
    pub(crate) inputs: InputReader,
    pub(crate) configurations: Arc<Configurations>,
    pub(crate) defaults: Arc<ThreadDefaults>,
    pub(crate) models: Arc<Models>,
    pub(crate) rules: Arc<CommandRules>,
    pub(crate) skills: Arc<Skills>,
    pub(crate) plugins: Plugins,
    pub(crate) runner: CommandRunner,
    pub(crate) store: Arc<ThreadStore>,
    pub(crate) search_index: SearchIndex,
    pub(crate) threads: Arc<LoadedThreads>,
    pub(crate) loader: Arc<ThreadLoader>,
    pub(crate) mcp: Arc<McpServers>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) requests: Arc<ClientRequests>,
    pub(crate) processes: Arc<ClientProcesses>,
    pub(crate) searches: Arc<FileSearches>,
    pub(crate) text_searches: Arc<TextSearches>,
    pub(crate) watches: ClientWatches,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) realtime: Arc<RealtimeSessions>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) direct_requests: Arc<DirectRequests>,
    pub(crate) elsewhere: Elsewhere,
    /// The server is about to end: no new work starts.
    pub(crate) draining: Flag,
    /// Requests that have no response yet. Those that arrive while the server drains do not count.
    pub(crate) unanswered: InFlight,
    /// Where messages wait that clients have not read.
    pub(crate) spool: Arc<Spool>,
    /// See [`LONG_ANSWERS_AT_ONCE`].
    pub(crate) long_answers: Semaphore,
}

/// Where plugins are, in the home.
const PLUGINS_FOLDER: &str = "plugins";
/// Bytes that wait on disk for all slow clients together.
const SPOOL_BYTES: usize = 1 << 30;
/// Answers as long as a thread that are made at the same time, for all connections. Those that are
/// made and not read wait on disk.
const LONG_ANSWERS_AT_ONCE: usize = 2;

/// Maximum wait of the server's end for clients to read the last messages.
pub const CLOSE_GRACE: Duration = Duration::from_secs(2);
/// Maximum wait of the server's end for its threads, and then for its store.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(4);

/// A flag that is set once.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Server {
    /// Makes a server. Nothing slow happens here: the store opens in the background.
    ///
    /// # Errors
    /// The home folder cannot be created.
    pub fn start(options: Options, sandbox: Sandbox) -> Result<Self, Error> {
        make_home(&options.home).map_err(|source| {
            let home = options.home.display();
            Error::failed(format!("the agent's home {home} cannot be created: {source}"))
                .next_step("set AGENT_HOME to a folder that you can write")
        })?;
        let services = Arc::new(services(Arc::new(options), Arc::new(sandbox)));
        let opening = services.store.clone();
        tokio::spawn(async move {
            // A failure is reported by the first request that needs the store.
            let _ = opening.get().await;
        });
        let (store, weak) = (services.store.clone(), Arc::downgrade(&services));
        let door = tokio::spawn(async move {
            if let Some(door) = store.door().await {
                drop(store);
                Self::serve_door(weak, door).await;
            }
        });
        let _ = services.elsewhere.door.set(door.abort_handle());
        services.search_index.start();
        Ok(Self { services })
    }

    /// Starts no new work, and waits until every running turn has reached a safe point and every
    /// request has its response, for `grace` at most. Call [`Server::shutdown`] next.
    pub async fn drain(&self, grace: Duration) {
        self.services.draining.set();
        let ends = self.services.threads.begin_draining().into_iter().map(|handle| async move {
            handle.send(Command::Drain).await;
            handle.idle().await;
        });
        let all = async {
            let mut running: tokio::task::JoinSet<()> = ends.collect();
            while running.join_next().await.is_some() {}
            self.services.realtime.shut_down().await;
            self.services.unanswered.done().await;
        };
        // Work that is not done by then is interrupted.
        let _ = tokio::time::timeout(grace, all).await;
    }

    /// Closes every connection and waits until its client has read what is queued.
    pub async fn close(&self) {
        let peers = self.services.connections.all();
        for peer in &peers {
            peer.outbox.close(CloseReason::Shutdown);
        }
        let all = async {
            for peer in &peers {
                peer.outbox.ended().await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_GRACE, all).await;
    }

    /// Interrupts running turns, kills running commands, stores everything. Idempotent.
    pub async fn shutdown(&self) {
        if let Some(door) = self.services.elsewhere.door.get() {
            door.abort();
        }
        let threads = self.services.threads.clone();
        let mut loaded = threads.drain();
        self.services.processes.shut_down();
        let all = async {
            // A thread that is ending may have started an agent meanwhile.
            while !loaded.is_empty() {
                let ends = loaded.into_iter().map(|handle| async move {
                    handle.end(EndReason::Shutdown).await;
                    handle.ended().await;
                });
                let mut running: tokio::task::JoinSet<()> = ends.collect();
                while running.join_next().await.is_some() {}
                loaded = threads.drain();
            }
            self.services.processes.done().await;
            self.services.realtime.shut_down().await;
            self.services.unanswered.done().await;
        };
        // A thread that waits for a dead file system must not delay the end without limit.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, all).await;
        let others = self.services.connections.all().into_iter().filter(|peer| peer.is_server);
        others.for_each(|peer| peer.outbox.close(CloseReason::Shutdown));
        self.services.accounts.settled().await;
        self.services.telemetry.close().await;
        // A server that does not end is killed with this process.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, self.services.mcp.close()).await;
        // A salvage that does not finish in time is started over by the next server.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, self.services.store.close()).await;
    }
}

fn services(options: Arc<Options>, sandbox: Arc<Sandbox>) -> Services {
    let files = Pool::default();
    let (connections, direct_requests) = <(Arc<Connections>, Arc<DirectRequests>)>::default();
    let installed = installed_plugins(&options, &sandbox);
    let source = Arc::new(ConfigSource::with_plugins(options.clone(), installed.clone()));
    set_log_folder(&options, &source);
    let network = model::Network::from_variables(|name| options.variable(name));
    let client = model_server::ScriptedTransport::client(network.clone());
    let telemetry = Arc::new(Telemetry::new(options.clone(), network.clone()));
    let requests = Arc::new(ClientRequests::new(direct_requests.clone()));
    let with = (connections.clone(), direct_requests.clone());
    let accounts = Arc::new(Accounts::new(options.clone(), with.0, with.1));
    let models = models((client.clone(), accounts.clone()), &options, &files);
    let rules = Arc::new(CommandRules::new(&options));
    let with = (models.clone(), rules.clone(), accounts.clone());
    let configurations = configurations(&source, with, (&files, &options, &connections));
    let defaults = Arc::new(ThreadDefaults::new(options.clone(), models.clone(), files.clone()));
    let store = Arc::new(ThreadStore::new(options.clone(), source, connections.clone()));
    let threads = Arc::new(LoadedThreads::new(connections.clone()));
    let runner = CommandRunner::new(sandbox);
    let idle_sleep = IdleSleep::new(runner.clone(), options.clone(), connections.clone());
    let for_apps = (threads.clone(), configurations.clone());
    let updates = Updates::new(&options, &network, &files, &connections);
    let mcp = Arc::new(McpServers::new(options.clone(), runner.clone(), network, for_apps));
    let commands = command_services(&options, &runner);
    let images = Arc::new(ImageReader::new(files.clone()));
    let skills = Skills::shared(options.clone(), files.clone(), connections.clone());
    let plugins = Plugins::new(installed, files.clone(), configurations.clone(), skills.clone());
    let inspection = inspection_services(&options, &files, (&images, &models, &rules, &skills));
    let undo = Arc::new(UndoRecords::default());
    let memories = Arc::new(Memories::new(&options.home, &files, &connections));
    let realtime = Arc::new(RealtimeSessions::new(client.clone(), accounts.clone()));
    let inputs = InputReader {
        configurations: configurations.clone(),
        images: images.clone(),
        mcp: mcp.clone(),
        skills: skills.clone(),
    };
    let actor_services = ActorServices {
        read_input: inputs.clone().for_queues(threads.clone()),
        client,
        accounts: accounts.clone(),
        models: models.clone(),
        store: store.clone(),
        threads: threads.clone(),
        requests: requests.clone(),
        connections: connections.clone(),
        configurations: configurations.clone(),
        defaults: defaults.clone(),
        notifier: Arc::new(Notifier::new(runner.clone(), options.clone())),
        idle_sleep: Arc::new(idle_sleep),
        prompts: Arc::new(PromptHistory::new(&options.home)),
        mcp: mcp.clone(),
        skills: skills.clone(),
        undo: undo.clone(),
        memories: memories.clone(),
        telemetry: telemetry.clone(),
        hooks: Arc::new(HookRunner::new(runner.clone(), options.clone(), files.clone())),
    };
    let parts = LoaderParts { actor: actor_services, commands, inspection, updates };
    let loader = thread_loader(parts, &options, &files, &images);
    let watcher = Watcher::default();
    Services {
        spool: spool(options.home.clone()),
        processes: Arc::new(ClientProcesses::new(runner.clone(), connections.clone())),
        searches: Arc::new(FileSearches::new(&options, connections.clone(), watcher.clone())),
        text_searches: Arc::default(),
        options,
        files,
        images,
        inputs,
        configurations,
        defaults,
        models,
        rules,
        skills,
        plugins,
        runner,
        search_index: SearchIndex::new(store.clone()),
        store,
        threads,
        agents: loader.agents.clone(),
        accounts,
        loader,
        mcp,
        requests,
        connections,
        direct_requests,
        elsewhere: Elsewhere::default(),
        draining: Flag::default(),
        unanswered: InFlight::default(),
        long_answers: Semaphore::new(LONG_ANSWERS_AT_ONCE),
        long_files: Pool::default(),
        undo,
        memories,
        watches: ClientWatches::new(watcher),
        telemetry,
        realtime,
    }
}

/// Parts that only the loader of threads holds.
struct LoaderParts {
    actor: ActorServices,
    commands: CommandServices,
    inspection: InspectionServices,
    updates: Arc<Updates>,
}

/// The loader of threads, and with it the agents, which start threads themselves.
fn thread_loader(
    LoaderParts { actor, commands, inspection, updates }: LoaderParts,
    options: &Arc<Options>,
    files: &Pool,
    images: &Arc<ImageReader>,
) -> Arc<ThreadLoader> {
    Arc::new_cyclic(|loader: &Weak<ThreadLoader>| {
        let agents = Agents::new(
            loader.clone(),
            actor.threads.clone(),
            actor.store.clone(),
            images.clone(),
            options.clone(),
            files.clone(),
        );
        let agents = Arc::new(agents);
        ThreadLoader {
            options: options.clone(),
            files: files.clone(),
            configurations: actor.configurations.clone(),
            defaults: actor.defaults.clone(),
            store: actor.store.clone(),
            threads: actor.threads.clone(),
            mcp: actor.mcp.clone(),
            updates,
            policies: Arc::default(),
            agents: agents.clone(),
            start: Box::new(start_actor(actor, agents, commands, inspection)),
        }
    })
}

fn configurations(
    source: &Arc<ConfigSource>,
    with: (Arc<Models>, Arc<CommandRules>, Arc<Accounts>),
    (files, options, connections): (&Pool, &Arc<Options>, &Arc<Connections>),
) -> Arc<Configurations> {
    let (source, files) = (source.clone(), files.clone());
    let (options, connections) = (options.clone(), connections.clone());
    Arc::new(Configurations::new(source, with, files, options, connections))
}

fn models(
    services: (model::Client, Arc<Accounts>),
    options: &Arc<Options>,
    files: &Pool,
) -> Arc<Models> {
    Arc::new(Models::new(Listings::new(services, options.clone(), files.clone())))
}

fn set_log_folder(options: &Options, source: &Arc<ConfigSource>) {
    let (source, home) = (Arc::downgrade(source), options.home.clone());
    options.log_file.set_folder(move || log_folder(&source, &home));
}

fn installed_plugins(options: &Options, sandbox: &Arc<Sandbox>) -> Arc<InstalledPlugins> {
    let git = plugins::Git::new(sandbox.clone(), options.environment.clone());
    let folder = options.home.join(PLUGINS_FOLDER);
    let home = plugins::Home::new(folder.clone(), git);
    Arc::new(InstalledPlugins::new(folder, home))
}

fn command_services(options: &Arc<Options>, runner: &CommandRunner) -> CommandServices {
    CommandServices {
        options: options.clone(),
        runner: runner.clone(),
        snapshots: Arc::new(ShellSnapshots::new(runner.clone())),
    }
}

fn inspection_services(
    options: &Arc<Options>,
    files: &Pool,
    (images, models, rules, skills): (
        &Arc<ImageReader>,
        &Arc<Models>,
        &Arc<CommandRules>,
        &Arc<Skills>,
    ),
) -> InspectionServices {
    InspectionServices {
        files: files.clone(),
        images: images.clone(),
        models: models.clone(),
        rules: rules.clone(),
        skills: skills.clone(),
        options: options.clone(),
    }
}

/// The services for the owners of a thread's state.
struct ActorServices {
    read_input: ReadInput,
    client: model::Client,
    accounts: Arc<Accounts>,
    models: Arc<Models>,
    store: Arc<ThreadStore>,
    threads: Arc<LoadedThreads>,
    requests: Arc<ClientRequests>,
    connections: Arc<Connections>,
    configurations: Arc<Configurations>,
    defaults: Arc<ThreadDefaults>,
    notifier: Arc<Notifier>,
    idle_sleep: Arc<IdleSleep>,
    prompts: Arc<PromptHistory>,
    mcp: Arc<McpServers>,
    skills: Arc<Skills>,
    undo: Arc<UndoRecords>,
    memories: Arc<Memories>,
    telemetry: Arc<Telemetry>,
    hooks: Arc<HookRunner>,
}

/// Builds the owners of a loaded thread's state, each with the services that it needs, and starts
/// its actor.
fn start_actor(
    services: ActorServices,
    agents: Arc<Agents>,
    commands: CommandServices,
    inspection: InspectionServices,
) -> impl Fn(LoadedThread) -> ThreadHandle + Send + Sync {
    let warm_up = WarmUp::new(
        commands.runner.clone(),
        (services.client.clone(), services.accounts.clone()),
        services.models.clone(),
    );
    move |loaded| {
        let LoadedThread {
            machine,
            record,
            extra,
            ephemeral,
            queue,
            config,
            origin,
            instruction_sources,
            context_window,
        } = loaded;
        let model = ModelName::new(machine.settings());
        warm_up.begin(&config, &machine.settings().provider);
        let id: session::Id = record.id.as_str().into();
        let options = commands.options.clone();
        let mailbox = Mailbox::new(id.to_string(), machine.status(), services.threads.clone());
        let sender = mailbox.sender();
        let shared =
            (services.notifier.clone(), services.idle_sleep.clone(), services.prompts.clone());
        let hooks =
            TurnHooks::new(id.clone(), (ephemeral, extra.agent.is_some()), options.clone(), shared);
        let agent = extra.agent.clone();
        let call_senders =
            CallSenders { answers: mailbox.agent_answers(), commands: mailbox.sender() };
        let nickname = agent.as_ref().map(|agent| agent.nickname.clone());
        let trace = ThreadTrace::new(id.clone(), nickname, services.telemetry.clone());
        let is_stored = machine.needs_history();
        let mcp = services.mcp.of_thread(&record.id, &machine.settings().cwd, &config, &origin);
        let memories = (services.memories.clone(), services.store.clone());
        let memories = ThreadMemories::new(memories.0, memories.1, sender.clone());
        let server_calls = ServerCalls::new(record.id.clone(), sender.clone());
        let hook_runs = HookRuns::new(services.hooks.clone(), sender.clone());
        let queue = ThreadQueue::new(queue, extra.queue_pause.as_ref());
        let journal = (record, extra, ephemeral);
        let actor = Actor {
            machine,
            journal: Journal::new(journal, services.store.clone(), options.clone()),
            broadcast: Broadcast::new(
                id.clone(),
                context_window,
                hooks,
                services.connections.clone(),
            ),
            questions: Questions::new(id.clone(), sender.clone(), services.requests.clone()),
            commands: RunningCommands::new(commands.clone(), sender.clone()),
            tools: ToolInspector::new(id.clone(), inspection.clone(), sender.clone()),
            configuration: ThreadConfiguration::new(
                config,
                origin,
                instruction_sources,
                services.configurations.clone(),
                services.defaults.clone(),
                model,
            ),
            agents: AgentCalls::new(
                id.clone(),
                agents.clone(),
                call_senders,
                (agent.as_ref(), is_stored),
            ),
            model: ModelStream::new(
                id,
                (services.client.clone(), services.accounts.clone()),
                services.models.clone(),
                options,
                Reviewer::new(sender),
            ),
            mailbox,
            mcp,
            memories,
            undo: ThreadUndo::new(services.undo.clone()),
            trace,
            skills: ThreadSkills::new(services.skills.clone()),
            skill_needs: SkillNeeds::default(),
            server_calls,
            hooks: hook_runs,
            unload_deadline: UnloadDeadline::default(),
            queue,
            read_input: services.read_input.clone(),
            stores_texts: false,
            shown_settings: None,
        };
        actor.spawn()
    }
}

/// Room on disk for what clients have not read; its errors go into the log.
fn spool(folder: PathBuf) -> Arc<Spool> {
    Spool::new(folder, SPOOL_BYTES, |error| {
        tracing::warn!(
            target: "server::spool",
            "messages for slow clients cannot be stored on disk: {error}"
        );
    })
}

/// The folder of the server's log; a broken configuration has the default one.
fn log_folder(source: &Weak<ConfigSource>, home: &Path) -> PathBuf {
    match source.upgrade().map(|source| source.own()) {
        Some(Ok(loaded)) => loaded.resolved.config.log_dir,
        _ => home.join("log"),
    }
}
