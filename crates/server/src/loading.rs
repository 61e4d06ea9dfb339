//! Loads threads: new ones from the configuration and the client's wishes, stored ones from their
//! record and history.

mod parts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use protocol::permission::PermissionProfileSelectionParams;
use protocol::{ApprovalsReviewer, AskForApproval, Personality, SandboxMode, ThreadSource};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use session::{DynamicTool, Id, Machine, Mode, Overrides, Restored, SandboxPolicy, Settings};
use store::{StoredThread, ThreadRecord, Write};

use crate::connection::Peer;
use crate::convert;
use crate::convert::settings::{
    approval, configured_approval, configured_mode, mode_policy, name, named_model, profile_policy,
    service_tier,
};
use crate::error::Error;
use crate::server::Core;
use crate::thread::reload::Source;
use crate::thread::{Start, ThreadHandle};
use crate::{required, warnings};

pub(crate) use parts::{Parts, parts};

/// What `thread/start` and `thread/resume` may set alike.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) model: Option<String>,
    pub(crate) model_provider: Option<String>,
    pub(crate) service_tier: Option<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) approval_policy: Option<AskForApproval>,
    pub(crate) approvals_reviewer: Option<ApprovalsReviewer>,
    pub(crate) sandbox: Option<SandboxMode>,
    pub(crate) permissions: Option<PermissionProfileSelectionParams>,
    pub(crate) personality: Option<Personality>,
    pub(crate) base_instructions: Option<String>,
    pub(crate) developer_instructions: Option<String>,
    pub(crate) config: Option<Map<String, Value>>,
}

/// What is kept with a thread beyond its settings, as JSON of our own.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Extra {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) developer_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread_source: Option<ThreadSource>,
    /// The settings as the model was last told them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) introduced: Option<Settings>,
    /// What the thread works towards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<session::Goal>,
    /// Tools that the client runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dynamic_tools: Vec<DynamicTool>,
}

impl Extra {
    pub(crate) fn read(record: &ThreadRecord) -> Self {
        let extra = record.extra.as_deref().and_then(|json| serde_json::from_str(json).ok());
        extra.unwrap_or_default()
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}

/// Makes a new thread: stored before anybody hears of it, unless it is ephemeral.
pub(crate) async fn new_thread(
    core: &Arc<Core>,
    peer: &Peer,
    wishes: Wishes,
    ephemeral: bool,
    mut extra: Extra,
) -> Result<(String, ThreadHandle), Error> {
    let options = &core.options;
    let cwd = wishes.cwd.clone().unwrap_or_else(|| options.cwd.clone());
    let (config, source) = configuration(core, peer, &cwd, &wishes).await?;
    let settings = new_settings(core, &config, &wishes, cwd, peer)?;
    extra.base_instructions = wishes.base_instructions;
    extra.developer_instructions = wishes.developer_instructions;
    let id = options.ids.next();
    let now = options.clock.now_ms() / 1000;
    let record = ThreadRecord {
        id: id.clone(),
        session_id: id.clone(),
        model_provider: settings.provider.clone(),
        model: settings.model.clone(),
        cwd: settings.cwd.display().to_string(),
        created_at: now,
        updated_at: now,
        source_kind: convert::thread::source_kind(&options.session_source),
        source: convert::thread::source_json(&options.session_source),
        git_info: git_info(core, &settings).await?,
        settings: serde_json::to_string(&settings).expect("settings are plain data"),
        cli_version: options.version.clone(),
        extra: Some(extra.json()),
        ..ThreadRecord::default()
    };
    let parts = told_parts(core, peer, &config, &extra, settings).await?;
    if !ephemeral {
        let create = Write::CreateThread(Box::new(record.clone()));
        core.store().await?.commit(vec![create]).await?;
    }
    let restored = Restored { history: Some(Vec::new()), ..Restored::default() };
    let start = start(core, config, source, parts, record, extra, restored);
    let handle = ThreadHandle::spawn(Start { ephemeral, ..start });
    core.threads().insert(id.clone(), handle.clone());
    Ok((id, handle))
}

/// The loaded thread of that id, loaded now if need be; with the overrides that a client wishes.
/// Loading reads the thread's head only: its history comes with the first turn.
pub(crate) async fn resume_thread(
    core: &Arc<Core>,
    peer: &Peer,
    id: &str,
    wishes: &Wishes,
) -> Result<(ThreadHandle, Overrides), Error> {
    loop {
        let Some(loaded) = core.loaded(id).filter(ThreadHandle::lives) else {
            match load_thread(core, peer, id, wishes).await? {
                Some(loaded) => return Ok(loaded),
                // Somebody else has loaded it, or changed it, meanwhile.
                None => continue,
            }
        };
        let cwd = wishes.cwd.clone().unwrap_or_else(|| core.options.cwd.clone());
        let (config, _) = configuration(core, peer, &cwd, wishes).await?;
        if !loaded.lives() {
            continue;
        }
        return Ok((loaded, overrides(&config, wishes, cwd, core.options.tmpdir())?));
    }
}

/// Loads a thread. `None` when it was loaded or changed while its files were read, which is done
/// without the lock: a file system that does not answer holds up no other thread.
async fn load_thread(
    core: &Arc<Core>,
    peer: &Peer,
    id: &str,
    wishes: &Wishes,
) -> Result<Option<(ThreadHandle, Overrides)>, Error> {
    let store = core.store().await?;
    let found = store.thread(id).await?;
    let Some(StoredThread { record, .. }) = found else { return Err(Error::unknown_thread(id)) };
    if record.archived {
        return Err(Error::wrong_state(format!("thread {id} is archived"))
            .next_step("call thread/unarchive first"));
    }
    let mut settings = settings_of(core, &record).await?;
    let cwd = wishes.cwd.clone().unwrap_or_else(|| settings.cwd.clone());
    let (config, source) = configuration(core, peer, &cwd, wishes).await?;
    for told in required::constrain_settings(&mut settings, &config) {
        warnings::tell_plain(peer, told);
    }
    let overrides = overrides(&config, wishes, cwd, core.options.tmpdir())?;
    let mut extra = Extra::read(&record);
    let introduced = extra.introduced.clone();
    let goal = extra.goal.clone().filter(|_| config.features.goals);
    if let Some(instructions) = &wishes.base_instructions {
        extra.base_instructions = Some(instructions.clone());
    }
    if let Some(instructions) = &wishes.developer_instructions {
        extra.developer_instructions = Some(instructions.clone());
    }
    let parts = told_parts(core, peer, &config, &extra, settings).await?;
    // There is one actor a thread, and none while it is archived or deleted.
    let _loading = core.loading.lock().await;
    if let Some(ending) = core.loaded(id).filter(|handle| !handle.lives()) {
        // Its last turn is being closed.
        ending.ended().await;
    }
    let now = store.thread(id).await?;
    let is_loaded = core.loaded(id).is_some_and(|handle| handle.lives());
    if is_loaded || now.is_none_or(|now| now.record != record) {
        return Ok(None);
    }
    core.lease(id).await?;
    let last = store.last_turn(id).await?;
    let restored = Restored {
        history: None,
        introduced,
        usage: record.token_usage.as_deref().map(total_usage).unwrap_or_default(),
        failed: last.is_some_and(|turn| turn.status == store::TurnStatus::Failed),
        previewed: !record.preview.is_empty(),
        goal,
    };
    let start = start(core, config, source, parts, record, extra, restored);
    let handle = ThreadHandle::spawn(start);
    core.threads().insert(id.to_owned(), handle.clone());
    Ok(Some((handle, overrides)))
}

/// Where a fork ends, and whether it is kept.
pub(crate) struct Fork<'a> {
    pub(crate) parent: &'a str,
    /// `None`: with the last turn that has ended.
    pub(crate) last_turn: Option<String>,
    pub(crate) ephemeral: bool,
    pub(crate) source: Option<ThreadSource>,
    /// The kind of thread that lists show it as, when it is not the server's usual one.
    pub(crate) session_source: Option<(String, String)>,
}

/// Makes a thread that begins with the turns of another one, and loads it.
pub(crate) async fn fork_thread(
    core: &Arc<Core>,
    peer: &Peer,
    fork: Fork<'_>,
    wishes: Wishes,
) -> Result<ThreadHandle, Error> {
    let store = core.store().await?;
    let found = store.thread(fork.parent).await?;
    let Some(StoredThread { record: parent, .. }) = found else {
        return Err(match core.loaded(fork.parent) {
            Some(_) => {
                Error::wrong_state("an ephemeral thread cannot be forked: nothing of it is stored")
            }
            None => Error::unknown_thread(fork.parent),
        });
    };
    let mut settings = settings_of(core, &parent).await?;
    let cwd = wishes.cwd.clone().unwrap_or_else(|| settings.cwd.clone());
    let (config, source) = configuration(core, peer, &cwd, &wishes).await?;
    settings.apply(overrides(&config, &wishes, cwd, core.options.tmpdir())?);
    for told in required::constrain_settings(&mut settings, &config) {
        warnings::tell_plain(peer, told);
    }
    let told = Extra::read(&parent);
    let extra = Extra {
        base_instructions: wishes.base_instructions.or(told.base_instructions),
        developer_instructions: wishes.developer_instructions.or(told.developer_instructions),
        thread_source: fork.source,
        dynamic_tools: told.dynamic_tools,
        // What an earlier part of the thread was told is not known any more: it is told again.
        introduced: told.introduced.filter(|_| fork.last_turn.is_none()),
        ..Extra::default()
    };
    let options = &core.options;
    let now = options.clock.now_ms() / 1000;
    let (source_kind, source_json) = fork.session_source.unwrap_or_else(|| {
        let name = &options.session_source;
        (convert::thread::source_kind(name), convert::thread::source_json(name))
    });
    let record = ThreadRecord {
        id: options.ids.next(),
        session_id: parent.session_id.clone(),
        forked_from_id: Some(parent.id.clone()),
        preview: parent.preview.clone(),
        name: None,
        model_provider: settings.provider.clone(),
        model: settings.model.clone(),
        cwd: settings.cwd.display().to_string(),
        created_at: now,
        updated_at: now,
        source_kind,
        source: source_json,
        archived: false,
        git_info: git_info(core, &settings).await?,
        settings: serde_json::to_string(&settings).expect("settings are plain data"),
        cli_version: options.version.clone(),
        token_usage: parent.token_usage.clone(),
        extra: Some(extra.json()),
    };
    let parts = told_parts(core, peer, &config, &extra, settings).await?;
    let mut restored = Restored {
        introduced: extra.introduced.clone(),
        usage: record.token_usage.as_deref().map(total_usage).unwrap_or_default(),
        previewed: !record.preview.is_empty(),
        ..Restored::default()
    };
    if fork.ephemeral {
        let history = store.history(fork.parent).await?;
        restored.history = Some(convert::thread::fragments(history));
    } else {
        let (record, parent) = (Box::new(record.clone()), parent.id.clone());
        let write = Write::Fork { record, parent, last_turn: fork.last_turn };
        store.commit(vec![write]).await?;
    }
    let id = record.id.clone();
    let start = start(core, config, source, parts, record, extra, restored);
    let handle = ThreadHandle::spawn(Start { ephemeral: fork.ephemeral, ..start });
    core.threads().insert(id, handle.clone());
    Ok(handle)
}

/// The settings that a thread was stored with. A thread that lost them to damage of the database gets
/// those of the configuration.
async fn settings_of(core: &Arc<Core>, record: &ThreadRecord) -> Result<Settings, Error> {
    if record.settings.is_empty() {
        let cwd = Some(&record.cwd).filter(|cwd| !cwd.is_empty()).map(PathBuf::from);
        let cwd = cwd.unwrap_or_else(|| core.options.cwd.clone());
        let loaded = core.configuration(&cwd, None).await?;
        return Ok(configured(core, &loaded.resolved.config, &cwd));
    }
    serde_json::from_str(&record.settings).map_err(|error| {
        let id = &record.id;
        Error::failed(format!("the settings of thread {id} cannot be read: {error}"))
    })
}

async fn git_info(core: &Core, settings: &Settings) -> Result<Option<String>, Error> {
    let cwd = settings.cwd.clone();
    let info = core.on_files(&settings.cwd, move || crate::git::info(&cwd)).await?;
    Ok(info.and_then(|info| serde_json::to_string(&info).ok()))
}

/// What the thread takes from its configuration; the client hears what cannot be read.
async fn told_parts(
    core: &Arc<Core>,
    peer: &Peer,
    config: &Arc<Config>,
    extra: &Extra,
    settings: Settings,
) -> Result<Parts, Error> {
    let parts = parts(core, config, extra, settings).await?;
    parts.problems.iter().for_each(|problem| warnings::tell_plain(peer, problem.clone()));
    Ok(parts)
}

/// The configuration of a thread; the client hears what is remarkable about it.
async fn configuration(
    core: &Arc<Core>,
    peer: &Peer,
    cwd: &Path,
    wishes: &Wishes,
) -> Result<(Arc<Config>, Source), Error> {
    let (loaded, problems) = core.configuration_and_rules(cwd, wishes.config.as_ref()).await?;
    warnings::tell(peer, &loaded.resolved.warnings);
    for problem in problems {
        warnings::tell_plain(peer, problem);
    }
    let source = Source {
        cwd: cwd.to_owned(),
        files: loaded.files,
        generation: loaded.generation,
        overrides: wishes.config.clone(),
    };
    Ok((Arc::new(loaded.resolved.config), source))
}

fn start(
    core: &Arc<Core>,
    config: Arc<Config>,
    source: Source,
    parts: Parts,
    record: ThreadRecord,
    extra: Extra,
    restored: Restored,
) -> Start {
    if let Some(configured) = config.providers.get(&parts.configured.settings.provider) {
        core.warm_up(crate::provider::provider(configured, None));
    }
    let ids = Box::new(SessionIds(core.clone()));
    Start {
        core: core.clone(),
        machine: Machine::new(parts.configured, ids, restored),
        record,
        extra,
        ephemeral: false,
        instruction_sources: parts.instruction_sources,
        config,
        source,
        context_window: parts.context_window,
    }
}

fn new_settings(
    core: &Core,
    config: &Config,
    wishes: &Wishes,
    cwd: PathBuf,
    peer: &Peer,
) -> Result<Settings, Error> {
    let mut settings = configured(core, config, &cwd);
    let mut overrides = overrides(config, wishes, cwd.clone(), core.options.tmpdir())?;
    let workspace = &config.sandbox_workspace_write;
    for told in required::constrain(&mut overrides, &config.requirements, workspace, &cwd) {
        warnings::tell_plain(peer, told);
    }
    let chosen = overrides.model.is_some() || config.model.is_some();
    settings.apply(overrides);
    if !chosen {
        settings.model = core.models.default_of(config, &settings.provider);
    }
    Ok(settings)
}

/// The settings of a thread in `cwd` whose client wishes nothing.
pub(crate) fn configured(core: &Core, config: &Config, cwd: &Path) -> Settings {
    let provider = config.provider.id().to_owned();
    let model = config.model.clone();
    Settings {
        model: model.unwrap_or_else(|| core.models.default_of(config, &provider)),
        provider,
        approval: configured_approval(config.approval_policy),
        sandbox: configured_sandbox(config, cwd, core.options.tmpdir()),
        effort: config.model_reasoning_effort.map(|effort| effort.as_str().to_owned()),
        summary: config.model_reasoning_summary.map(|summary| summary.as_str().to_owned()),
        verbosity: config.model_verbosity.map(|verbosity| verbosity.as_str().to_owned()),
        personality: config.personality.map(|style| style.as_str().to_owned()),
        service_tier: config.service_tier.map(|tier| tier.as_str().to_owned()),
        mode: Mode::Default,
        mode_instructions: None,
        cwd: cwd.to_owned(),
    }
}

/// The sandbox policy of the configuration.
pub(crate) fn configured_sandbox(
    config: &Config,
    cwd: &Path,
    tmpdir: Option<PathBuf>,
) -> SandboxPolicy {
    let mode = configured_mode(config.sandbox_mode);
    match &config.permission_profile {
        Some(profile) => profile_policy(profile, &config.project_root, tmpdir),
        None => mode_policy(mode, cwd, &config.sandbox_workspace_write),
    }
}

fn overrides(
    config: &Config,
    wishes: &Wishes,
    cwd: PathBuf,
    tmpdir: Option<PathBuf>,
) -> Result<Overrides, Error> {
    named_model("model", wishes.model.as_deref())?;
    service_tier(wishes.service_tier.as_deref())?;
    if let Some(provider) = &wishes.model_provider {
        known_provider(config, provider)?;
    }
    if wishes.approvals_reviewer.is_some_and(|reviewer| reviewer != ApprovalsReviewer::User) {
        return Err(Error::not_implemented("an `approvalsReviewer` other than `user`"));
    }
    let workspace = &config.sandbox_workspace_write;
    let permissions = match (&wishes.permissions, &wishes.sandbox) {
        (Some(_), Some(_)) => {
            return Err(Error::exclusive("permissions", "sandbox"));
        }
        (Some(wished), None) => Some(permissions(config, wished, tmpdir)?),
        (None, _) => None,
    };
    Ok(Overrides {
        model: wishes.model.clone(),
        provider: wishes.model_provider.clone(),
        approval: wishes.approval_policy.as_ref().map(approval),
        sandbox: permissions
            .or_else(|| wishes.sandbox.map(|mode| mode_policy(mode, &cwd, workspace))),
        cwd: wishes.cwd.clone(),
        personality: wishes.personality.as_ref().map(name),
        service_tier: wishes.service_tier.clone().map(Some),
        ..Overrides::default()
    })
}

/// The policy of the profile that a client selects by name.
///
/// # Errors
/// `-32602` for a name that is not configured; modifications are not there yet.
pub(crate) fn permissions(
    config: &Config,
    wished: &PermissionProfileSelectionParams,
    tmpdir: Option<PathBuf>,
) -> Result<SandboxPolicy, Error> {
    if wished.modifications.as_ref().is_some_and(|all| !all.is_empty()) {
        return Err(Error::not_implemented("permissions.modifications"));
    }
    let Some(profile) = config.permission_profiles.get(&wished.id) else {
        let known: Vec<&str> = config.permission_profiles.keys().map(String::as_str).collect();
        return Err(Error::invalid_params(format!(
            "`permissions`: there is no profile `{}`; the configuration has {}",
            wished.id,
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )));
    };
    Ok(profile_policy(profile, &config.project_root, tmpdir))
}

fn known_provider(config: &Config, provider: &str) -> Result<(), Error> {
    if config.providers.contains_key(provider) {
        return Ok(());
    }
    let known: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    Err(Error::invalid_params(format!(
        "`modelProvider`: there is no `{provider}`; the providers are {}",
        known.join(", ")
    )))
}

fn total_usage(json: &str) -> session::Usage {
    #[derive(Deserialize)]
    struct Usage {
        total: session::Usage,
    }
    serde_json::from_str::<Usage>(json).map(|usage| usage.total).unwrap_or_default()
}

/// Turn and item ids of a thread.
struct SessionIds(Arc<Core>);

impl session::Ids for SessionIds {
    fn turn(&mut self) -> Id {
        self.0.options.ids.next().into()
    }

    fn item(&mut self) -> Id {
        self.0.options.ids.next().into()
    }
}
