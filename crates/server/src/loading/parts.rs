//! What a thread takes from its configuration: what the model is told and offered, and its bounds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use config::Config;
use model::catalog::ModelInfo;
use serde_json::json;
use session::{CommandTool, Configured, Context, Limits, PatchTool, Settings, ToolSet};

use crate::error::Error;
use crate::loading::Extra;
use crate::options::Options;
use crate::project_doc::{self, ProjectDoc};
use crate::server::Core;

/// What a thread takes from its configuration.
pub(crate) struct Parts {
    pub(crate) configured: Configured,
    pub(crate) instruction_sources: Vec<PathBuf>,
    pub(crate) context_window: Option<i64>,
    /// What is there and cannot be read, for the clients.
    pub(crate) problems: Vec<String>,
}

/// Largest file of instructions that the configuration names.
const MAX_INSTRUCTIONS_BYTES: u64 = 1 << 20;

/// See [`Parts`].
///
/// # Errors
/// A file that the configuration names and that cannot be read; a file system that does not answer.
pub(crate) async fn parts(
    core: &Arc<Core>,
    config: &Arc<Config>,
    extra: &Extra,
    settings: Settings,
) -> Result<Parts, Error> {
    let place = settings.cwd.clone();
    let (own, config, extra) = (core.clone(), config.clone(), extra.clone());
    let read = core.on_files(&place, move || read_parts(&own, &config, &extra, settings));
    read.await?
}

fn read_parts(
    core: &Core,
    config: &Config,
    extra: &Extra,
    settings: Settings,
) -> Result<Parts, Error> {
    let doc = project_doc::read(config, &settings.cwd);
    let info = core.models.info(config, &settings.provider, &settings.model);
    let window = config.model_context_window.map_or_else(|| info.max_input(), |tokens| *tokens);
    Ok(Parts {
        configured: Configured {
            context: context(&core.options, config, extra, &doc, &info)?,
            offer: core.offers.lock().unwrap_or_else(PoisonError::into_inner).offer(ToolSet {
                dynamic: extra.dynamic_tools.clone().into(),
                ..tools(config, &info)
            }),
            limits: limits(config, &settings.provider, window),
            plan_effort: config.plan_mode_reasoning_effort.map(|e| e.as_str().to_owned()),
            settings,
        },
        instruction_sources: doc.sources,
        context_window: i64::try_from(window).ok(),
        problems: doc.problems,
    })
}

fn tools(config: &Config, info: &ModelInfo) -> ToolSet {
    let features = &config.features;
    ToolSet {
        patch: if info.supports_custom_apply_patch {
            PatchTool::Custom
        } else {
            PatchTool::Function
        },
        commands: match (features.shell_tool, features.unified_exec) {
            (false, _) => CommandTool::Off,
            (true, true) => CommandTool::Terminal,
            (true, false) => CommandTool::OneShot,
        },
        view_image: config.tools.view_image,
        goal: false,
        login_shell: config.allow_login_shell,
        web_search: [false, true].map(|full_access| web_search(config, full_access)),
        dynamic: Arc::default(),
        reads_only: false,
    }
}

/// The provider's own search, as the JSON that offers it. The offline model has none.
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
            tool["filters"] = json!({ "allowed_domains": settings.allowed_domains });
        }
        if let Some(location) = &settings.location {
            let parts = [
                ("country", &location.country),
                ("region", &location.region),
                ("city", &location.city),
                ("timezone", &location.timezone),
            ];
            tool["user_location"] = json!({ "type": "approximate" });
            for (name, value) in parts {
                if let Some(value) = value {
                    tool["user_location"][name] = value.as_str().into();
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
    let instructions = match &extra.base_instructions {
        Some(given) => Some(given.clone()),
        None => from_file("model_instructions_file", config.model_instructions_file.as_deref())?,
    };
    let shell = options.shell.file_name().unwrap_or_default();
    Ok(Context {
        instructions: instructions.map(Arc::from),
        developer: extra
            .developer_instructions
            .clone()
            .or_else(|| config.developer_instructions.clone()),
        project_doc: doc.text.clone(),
        commit_attribution: config.commit_attribution.clone().filter(|text| !text.is_empty()),
        takes_personality: config.features.personality && info.supports_personality,
        shell: shell.to_string_lossy().into_owned(),
        date: options.clock.today(),
        time_zone: options.clock.time_zone(),
        compact_prompt: compact_prompt(config)?,
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
    limits.max_poll_ms = *config.background_terminal_max_timeout;
    let configured = config.model_auto_compact_token_limit.map(|tokens| *tokens);
    limits.compact_at_tokens = Some(configured.unwrap_or(window / 100 * COMPACT_AT_PERCENT));
    limits
}
