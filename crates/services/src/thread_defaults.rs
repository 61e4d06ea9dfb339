//! The parts of a thread that come from its configuration: its settings, the context and tools of
//! its model, and its bounds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use config::Config;
use config::SandboxMode;
use config::table::ToolType;
use files::Pool;
use model::catalog::{self, ModelInfo};
use protocol::permission::PermissionProfileSelectionParams;
use sandbox::Resolved;
use serde_json::json;
use session::{
    AgentRole, AgentTools, CommandTool, Configured, Context, Limits, Mode, OfferCache, PatchTool,
    Permissions, SandboxPolicy, SearchTool, ServerTool, Settings, ToolSet,
};

use crate::allowed::Allowed;
use crate::command_environment::command_tmpdir;
use crate::convert::policies::{
    approval_policy, approvals_reviewer, configured_sandbox, mode_policy, profile_policy,
};
use crate::error::Error;
use crate::memories;
use crate::models::Models;
use crate::options::Options;
use crate::project_doc::{self, ProjectDoc};
use crate::seen_warnings::SeenWarnings;
use crate::thread_port::Extra;

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    pub provider: String,
    pub model: String,
}

impl ModelName {
    pub fn new(settings: &Settings) -> Self {
        Self { provider: settings.provider.clone(), model: settings.model.clone() }
    }
}

/// Reads it. Files are read off the runtime's threads.
pub struct ThreadDefaults {
    options: Arc<Options>,
    models: Arc<Models>,
    files: Pool,
    seen_warnings: SeenWarnings,
    /// Tools that threads offer, with their definitions written once.
    offers: Arc<Mutex<OfferCache>>,
}

/// The parts of a thread that come from its configuration.
pub struct Parts {
    pub configured: Allowed<Configured>,
    pub instruction_sources: Vec<PathBuf>,
    pub context_window: Option<i64>,
    /// Files that exist and cannot be read, for the clients.
    pub problems: Vec<String>,
}

/// Largest file of instructions that the configuration names.
pub(crate) const MAX_INSTRUCTIONS_BYTES: u64 = 1 << 20;

impl ThreadDefaults {
    pub fn new(options: Arc<Options>, models: Arc<Models>, files: Pool) -> Self {
        let seen_warnings = SeenWarnings::new(options.clone(), files.clone());
        Self { options, models, files, seen_warnings, offers: Arc::default() }
    }

    /// The settings of a thread in `cwd` whose client chooses none.
    pub fn settings(&self, config: &Config, cwd: &Path) -> Settings {
        let provider = config.provider.id().to_owned();
        let model = config.model.clone();
        Settings {
            model: model.unwrap_or_else(|| self.models.default_model(config, &provider)),
            provider,
            approval: approval_policy(config.approval_policy),
            reviewer: approvals_reviewer(config.reviewer()),
            sandbox: configured_sandbox(config, cwd, command_tmpdir(&self.options, config)),
            granted: Permissions::default(),
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

    /// The model of a provider that is used when neither client nor configuration names one.
    pub fn model(&self, config: &Config, provider: &str) -> String {
        self.models.default_model(config, provider)
    }

    /// Asks a provider of which no model is known yet.
    pub async fn learn_models(&self, config: &Config, provider: &str) {
        self.models.learn(config, provider).await;
    }

    /// The policy of the permission profile that a client selects for a thread in this folder.
    ///
    /// # Errors
    /// Invalid parameters for a name that is not configured; modifications are not implemented.
    pub fn profile_policy(
        &self,
        config: &Config,
        selection: &PermissionProfileSelectionParams,
        cwd: &Path,
    ) -> Result<SandboxPolicy, Error> {
        if selection.modifications.as_ref().is_some_and(|all| !all.is_empty()) {
            return Err(Error::not_implemented("permissions.modifications"));
        }
        let Some(profile) = config.permission_profiles.get(&selection.id) else {
            if let Some(mode) = built_in_profile(&selection.id) {
                return Ok(mode_policy(mode, cwd, &config.sandbox_workspace_write));
            }
            return Err(unknown_profile(config, &selection.id).within("`permissions`"));
        };
        Ok(profile_policy(profile, &config.project_root, command_tmpdir(&self.options, config)))
    }

    /// Returns the parts that a thread with these settings takes from its configuration.
    ///
    /// # Errors
    /// A file that the configuration names and that cannot be read; a file system that does not answer.
    pub async fn parts(
        &self,
        config: &Arc<Config>,
        extra: &Extra,
        settings: Allowed<Settings>,
    ) -> Result<Parts, Error> {
        let model = ModelName::new(&settings);
        self.parts_for(config, (extra, &Arc::default()), settings, &model).await
    }

    /// As [`ThreadDefaults::parts`], on a thread that may wait for the file system.
    ///
    /// # Errors
    /// A file that the configuration names and that cannot be read.
    pub fn read_parts(
        &self,
        config: &Config,
        extra: &Extra,
        settings: Allowed<Settings>,
    ) -> Result<Parts, Error> {
        let ModelName { provider, model } = ModelName::new(&settings);
        let info = self.models.info(config, &provider, &model);
        read_parts(&self.options, &info, &self.offers, config, (extra, Arc::default()), settings)
    }

    /// As [`ThreadDefaults::parts`], for a model that may be another one than that of the settings, and
    /// with tools of MCP servers.
    ///
    /// # Errors
    /// As [`ThreadDefaults::parts`].
    pub async fn parts_for(
        &self,
        config: &Arc<Config>,
        (extra, server_tools): (&Extra, &Arc<[ServerTool]>),
        settings: Allowed<Settings>,
        model: &ModelName,
    ) -> Result<Parts, Error> {
        let cwd = settings.cwd.clone();
        let info = self.models.info(config, &model.provider, &model.model);
        let (options, offers) = (self.options.clone(), self.offers.clone());
        let (config, extra, server_tools) = (config.clone(), extra.clone(), server_tools.clone());
        let read = move || {
            let given = (&extra, server_tools);
            read_parts(&options, &info, &offers, &config, given, settings)
        };
        self.files.run(&cwd, read).await?
    }

    /// Returns the warnings about a model before a turn with it that no client of this home was sent: that
    /// the model is unknown, or lacks the requested effort.
    pub async fn new_model_warnings(
        &self,
        config: &Config,
        model: &ModelName,
        effort: Option<&str>,
    ) -> Vec<String> {
        let info = self.models.info(config, &model.provider, &model.model);
        let mut warnings = Vec::new();
        if !info.is_known {
            warnings.push(unknown_model(config, &info));
        }
        if let Some(effort) = effort
            && info.supports_reasoning
            && let Some(nearest) = info.nearest_effort(effort)
        {
            warnings.push(format!(
                "the model `{}` has no reasoning effort `{effort}`; `{nearest}` is used",
                info.id
            ));
        }
        let mut new = Vec::new();
        for warning in warnings {
            if self.seen_warnings.is_first(&warning).await {
                new.push(warning);
            }
        }
        new
    }
}

fn unknown_model(config: &Config, info: &ModelInfo) -> String {
    let window = config.model_context_window.map_or(info.context_window, |tokens| *tokens);
    format!(
        "nothing is known of the model `{}`: a context window of {window} tokens, no reasoning \
         options, and `apply_patch` as a function are assumed; describe it in a catalog \
         (`model_catalog_json`), or set `model_context_window`",
        info.id
    )
}

/// The mode that a profile with a name of newer clients stands for; such names cannot be configured.
fn built_in_profile(id: &str) -> Option<SandboxMode> {
    match id {
        ":read-only" => Some(SandboxMode::ReadOnly),
        ":workspace" => Some(SandboxMode::WorkspaceWrite),
        ":danger-full-access" => Some(SandboxMode::DangerFullAccess),
        _ => None,
    }
}

/// The error for a permission profile that is not configured.
pub fn unknown_profile(config: &Config, name: &str) -> Error {
    let known: Vec<&str> = config.permission_profiles.keys().map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::invalid_params(format!(
        "there is no permission profile `{name}`; the configuration has {known}"
    ))
}

fn read_parts(
    options: &Options,
    info: &ModelInfo,
    offers: &Mutex<OfferCache>,
    config: &Config,
    (extra, server_tools): (&Extra, Arc<[ServerTool]>),
    settings: Allowed<Settings>,
) -> Result<Parts, Error> {
    let doc = project_doc(options, config, &settings);
    let window = config.model_context_window.map_or_else(|| info.max_input(), |tokens| *tokens);
    let mut problems = doc.problems.clone();
    let notes = match extra.takes_part_in_memories(config) {
        true => memories::notes(&options.home, config),
        false => Ok(None),
    };
    let memories = notes.unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let context = Context { memories, ..context(options, config, extra, &doc, info)? };
    let tools = ToolSet {
        dynamic: extra.dynamic_tools.clone(),
        server_tools,
        agents: agent_tools(config, extra),
        ..tools(config, info, &settings.provider)
    }
    .deferring();
    let offer = offers.lock().unwrap_or_else(PoisonError::into_inner).offer(tools);
    let limits = limits(config, &settings.provider, window);
    let plan_effort = config.plan_mode_reasoning_effort.map(|e| e.as_str().to_owned());
    Ok(Parts {
        configured: settings.configured(context, offer, limits, plan_effort),
        instruction_sources: doc.sources,
        context_window: i64::try_from(window).ok(),
        problems,
    })
}

fn tools(config: &Config, info: &ModelInfo, provider: &str) -> ToolSet {
    let features = &config.features;
    let provider = config.providers.get(provider);
    let takes = |tool| provider.is_some_and(|it| it.takes(tool));
    let may_search = info.supports_web_search && takes(ToolType::WebSearch);
    ToolSet {
        patch: match info.patch_tool {
            catalog::PatchTool::Custom if takes(ToolType::Custom) => PatchTool::Custom,
            catalog::PatchTool::Custom | catalog::PatchTool::Function => PatchTool::Function,
            catalog::PatchTool::Shell => PatchTool::Shell,
        },
        commands: match (features.shell_tool, features.unified_exec, info.command_tool) {
            (false, ..) => CommandTool::Off,
            (true, true, catalog::CommandTool::Terminal) => CommandTool::Terminal,
            (true, false, _) | (true, _, catalog::CommandTool::OneShot) => CommandTool::OneShot,
        },
        view_image: config.tools.view_image && info.accepts_images(),
        goal: false,
        user_input: true,
        request_permissions: true,
        login_shell: config.allow_login_shell,
        web_search: [false, true]
            .map(|full_access| may_search.then(|| web_search(config, full_access)).flatten()),
        agents: None,
        dynamic: Arc::default(),
        server_tools: Arc::default(),
        search: match info.tool_search {
            catalog::SearchTool::Native if takes(ToolType::ToolSearch) => SearchTool::Native,
            catalog::SearchTool::Native | catalog::SearchTool::Function => SearchTool::Function,
        },
        deferred_from: None,
        withheld: info.withheld_tools.clone(),
        reads_only: false,
    }
}

/// The tools for agents.
fn agent_tools(config: &Config, extra: &Extra) -> Option<Arc<AgentTools>> {
    if !config.features.multi_agent {
        return None;
    }
    let agent = extra.agent.as_ref();
    // The file of a role does not raise the limits of its tree.
    let limits = agent.and_then(|agent| agent.limits);
    let of_tree = limits.map_or(u64::MAX, |limits| limits.max_depth.into());
    let depth = u64::from(agent.map_or(0, |agent| agent.depth));
    let may_spawn = depth < of_tree.min(*config.agents.max_depth);
    let role = |(name, role): (&String, &config::table::AgentRole)| AgentRole {
        name: name.clone(),
        description: role.description.clone(),
    };
    Some(Arc::new(AgentTools {
        are_offered: may_spawn || agent.is_some_and(|agent| agent.has_parents_history),
        roles: config.usable_roles().map(role).collect(),
        is_job_worker: agent.is_some_and(|agent| agent.job.is_some()),
    }))
}

/// The provider's own search, as the JSON that offers it.
fn web_search(config: &Config, full_access: bool) -> Option<Arc<str>> {
    let live = match config.web_search_mode(full_access).0 {
        config::WebSearch::Disabled => return None,
        config::WebSearch::Cached => false,
        config::WebSearch::Live => true,
    };
    let mut tool = json!({ "type": "web_search", "external_web_access": live });
    if let Some(config::table::WebSearchTool::Settings(settings)) = &config.tools.web_search {
        if let Some(size) = settings.context_size {
            tool["search_context_size"] = size.as_str().into();
        }
        if !settings.allowed_domains.is_empty() {
            let domains: Vec<&str> = settings.allowed_domains.iter().map(|host| &**host).collect();
            tool["filters"] = json!({ "allowed_domains": domains });
        }
        if let Some(location) = &settings.location {
            let country = location.country.as_ref().map(|code| code.to_ascii_uppercase());
            let parts = [
                ("country", country.as_deref()),
                ("region", location.region.as_deref()),
                ("city", location.city.as_deref()),
                ("timezone", location.timezone.as_deref()),
            ];
            tool["user_location"] = json!({ "type": "approximate" });
            for (name, value) in parts {
                if let Some(value) = value {
                    tool["user_location"][name] = value.into();
                }
            }
        }
    }
    Some(tool.to_string().into())
}

fn context(
    options: &Options,
    config: &Config,
    extra: &Extra,
    doc: &ProjectDoc,
    info: &ModelInfo,
) -> Result<Context, Error> {
    let instructions: Option<Arc<str>> = match &extra.base_instructions {
        Some(given) => Some(given.as_str().into()),
        None => from_file("model_instructions_file", config.model_instructions_file.as_deref())?
            .map(Arc::from)
            .or_else(|| info.instructions.clone()),
    };
    let shell = options.shell.file_name().unwrap_or_default();
    Ok(Context {
        instructions,
        developer: extra
            .developer_instructions
            .clone()
            .or_else(|| config.developer_instructions.clone()),
        project_doc: doc.text.clone(),
        memories: None,
        commit_attribution: config.commit_attribution.clone().filter(|text| !text.is_empty()),
        takes_personality: config.features.personality && info.supports_personality,
        shell: shell.to_string_lossy().into_owned(),
        tmpdir: command_tmpdir(options, config),
        sandbox_limits: None,
        date: options.clock.today(),
        time_zone: options.clock.time_zone(),
        compact_prompt: compact_prompt(config)?,
    })
}

/// The project's documents, as far as the thread may read them.
fn project_doc(options: &Options, config: &Config, settings: &Allowed<Settings>) -> ProjectDoc {
    let cwd = &settings.cwd;
    let policy = settings.sandbox.restricts_reading().then(|| {
        let confinement = settings.sandbox().confinement(cwd);
        Resolved::new(&confinement, command_tmpdir(options, config).as_deref()).settle()
    });
    project_doc::read(config, &options.home, cwd, |path| match &policy {
        Some(policy) => policy.check_read(path).map_err(|denied| denied.to_string()),
        None => path.canonicalize().map_err(|error| format!("{}: {error}", path.display())),
    })
}

/// The prompt of compactions: given in the configuration, or in a file that it names.
fn compact_prompt(config: &Config) -> Result<Option<Arc<str>>, Error> {
    const KEY: &str = "experimental_compact_prompt_file";
    let prompt = match &config.compact_prompt {
        Some(given) => Some(given.clone()),
        None => from_file(KEY, config.experimental_compact_prompt_file.as_deref())?,
    };
    Ok(prompt.map(Arc::from))
}

/// The text of a file that the configuration names.
fn from_file(key: &str, path: Option<&Path>) -> Result<Option<String>, Error> {
    let read = path.map(|path| files::read_text(path, MAX_INSTRUCTIONS_BYTES)).transpose();
    read.map_err(|error| Error::invalid_params(format!("`{key}`: {error}")).with_source(error))
}

/// Of a model's input, in percent, what a history may take before it is compacted.
const COMPACT_AT_PERCENT: u64 = 90;

fn limits(config: &Config, provider: &str, window: u64) -> Limits {
    let mut limits = Limits::default();
    if let Some(config::Provider::Http(http)) = config.providers.get(provider) {
        limits.request_retries = http.request_max_retries;
        limits.stream_retries = http.stream_max_retries;
    }
    if let Some(tokens) = config.tool_output_token_limit {
        limits.tool_output_tokens = *tokens;
    }
    limits.reviewer_leaves_sandbox = Allowed::reviewer_leaves_sandbox(config);
    limits.project_doc_bytes = usize::try_from(*config.project_doc_max_bytes).unwrap_or(usize::MAX);
    limits.max_poll_ms = config.background_terminal_max_timeout.milliseconds();
    let configured = config.model_auto_compact_token_limit.map(|tokens| *tokens);
    limits.compact_at_tokens = Some(configured.unwrap_or(window / 100 * COMPACT_AT_PERCENT));
    limits
}
