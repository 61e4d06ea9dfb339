//! Merges layers and resolves them to a typed [`Config`] with every default applied. No effects: the
//! environment is a lookup of the caller's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::layer::Layer;
use crate::provider::{Provider, Providers, providers};
use crate::reader::{PathRoots, Reader};
use crate::suggest::closest;
use crate::types::{
    ApprovalPolicy, EnvironmentInherit, Granular, Personality, ReasoningEffort, ReasoningSummary,
    SandboxMode, ServiceTier, ShellEnvironmentPolicy, Verbosity, WorkspaceWrite,
};
use crate::value::{Node, Table, Value, merge};

/// What the caller knows about the world.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The agent's home folder, where `config.toml` lies; default of `sqlite_home`.
    pub home: &'a Path,
    /// What relative paths of the command line and of threads count from.
    pub cwd: &'a Path,
    /// Looks up an environment variable: credentials, headers, and `HOME` for `~/`.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// The configuration of one thread, or of the server where no thread is involved.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Model id; `None` leaves the choice to the provider's catalog.
    pub model: Option<String>,
    /// The provider that `model_provider` selects.
    pub provider: Provider,
    /// Every provider by id, `default` and `offline` among them.
    pub providers: BTreeMap<String, Provider>,
    /// Environment variables that hold credentials of providers: no child may see them.
    pub secret_variables: Vec<String>,
    pub model_reasoning_effort: Option<ReasoningEffort>,
    pub model_reasoning_summary: Option<ReasoningSummary>,
    pub model_verbosity: Option<Verbosity>,
    /// Tokens.
    pub model_context_window: Option<u64>,
    pub service_tier: Option<ServiceTier>,
    pub personality: Option<Personality>,
    /// Default: ask on request.
    pub approval_policy: ApprovalPolicy,
    /// Default: read-only, the one mode that is safe in a folder that nobody has vouched for.
    pub sandbox_mode: SandboxMode,
    pub sandbox_workspace_write: WorkspaceWrite,
    pub shell_environment_policy: ShellEnvironmentPolicy,
    /// Default true.
    pub allow_login_shell: bool,
    pub developer_instructions: Option<String>,
    /// Absolute path.
    pub model_instructions_file: Option<PathBuf>,
    /// Bytes read from a project document; default 32 KiB, 0 reads none.
    pub project_doc_max_bytes: usize,
    /// Looked for where the main project document is missing, in order.
    pub project_doc_fallback_filenames: Vec<String>,
    /// A folder with one of these is a project's root; default `.git`.
    pub project_root_markers: Vec<String>,
    /// Tokens of a tool's output kept in history; `None` leaves it to the model.
    pub tool_output_token_limit: Option<u64>,
    /// Longest wait of an empty poll of a background terminal; default 300 s.
    pub background_terminal_max_timeout: Duration,
    /// Default false.
    pub show_raw_agent_reasoning: bool,
    /// Folder of the state database, absolute; default the agent's home.
    pub sqlite_home: PathBuf,
    /// The selected profile.
    pub profile: Option<String>,
}

/// Merges `layers`, later over earlier; the selected profile lies over files and under the command
/// line and threads.
pub fn resolve(layers: &[&Layer], around: &Surroundings<'_>) -> Result<Config, Error> {
    let mut merged = Table::new();
    for layer in layers {
        merge(&mut merged, &layer.root);
    }
    let keys = Reader::root(&merged);
    let Some(profile) = keys.text("profile")? else { return typed(&merged, None, around) };
    let selected = profile_table(&merged, &profile)?;
    let mut root = Table::new();
    for layer in layers.iter().filter(|layer| layer.is_file) {
        merge(&mut root, &layer.root);
    }
    merge(&mut root, selected);
    for layer in layers.iter().filter(|layer| !layer.is_file) {
        merge(&mut root, &layer.root);
    }
    typed(&root, Some(profile), around)
}

fn profile_table<'t>(merged: &'t Table, name: &str) -> Result<&'t Table, Error> {
    let profiles = match merged.get("profiles") {
        Some(Node { value: Value::Table(all), .. }) => Some(all),
        _ => None,
    };
    if let Some(Node { value: Value::Table(table), .. }) = profiles.and_then(|all| all.get(name)) {
        return Ok(table);
    }
    let known: Vec<&str> =
        profiles.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
    Err(unknown(merged, "profile", name, &known))
}

/// The error for a key that names something that does not exist.
fn unknown(root: &Table, key: &str, name: &str, known: &[&str]) -> Error {
    let near = closest(name, known.iter().copied());
    let hint = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let listed = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let message = format!("there is no `{name}`; {hint}(defined: {listed})");
    match root.get(key) {
        Some(node) => Error::Refused { origin: node.origin.clone(), key: key.to_owned(), message },
        None => Error::Argument { argument: key.to_owned(), message },
    }
}

fn typed(
    root: &Table,
    profile: Option<String>,
    around: &Surroundings<'_>,
) -> Result<Config, Error> {
    let keys = Reader::root(root);
    let roots = PathRoots { cwd: around.cwd, user_home: (around.env)("HOME").map(PathBuf::from) };
    let Providers { by_id, secret_variables } = providers(root, around)?;
    let model_provider = keys.text("model_provider")?.unwrap_or_else(|| "default".to_owned());
    let Some(provider) = by_id.get(&model_provider).cloned() else {
        let known: Vec<&str> = by_id.keys().map(String::as_str).collect();
        return Err(unknown(root, "model_provider", &model_provider, &known));
    };
    Ok(Config {
        model: keys.text("model")?,
        provider,
        providers: by_id,
        secret_variables,
        model_reasoning_effort: keys.choice("model_reasoning_effort", ReasoningEffort::parse)?,
        model_reasoning_summary: keys.choice("model_reasoning_summary", ReasoningSummary::parse)?,
        model_verbosity: keys.choice("model_verbosity", Verbosity::parse)?,
        model_context_window: keys.whole("model_context_window")?,
        service_tier: keys.choice("service_tier", ServiceTier::parse)?,
        personality: keys.choice("personality", Personality::parse)?,
        approval_policy: approval_policy(root)?,
        sandbox_mode: keys
            .choice("sandbox_mode", SandboxMode::parse)?
            .unwrap_or(SandboxMode::ReadOnly),
        sandbox_workspace_write: workspace_write(root, &roots)?,
        shell_environment_policy: shell_environment_policy(root)?,
        allow_login_shell: keys.boolean("allow_login_shell")?.unwrap_or(true),
        developer_instructions: keys.text("developer_instructions")?,
        model_instructions_file: keys.path("model_instructions_file", &roots)?,
        project_doc_max_bytes: keys
            .whole("project_doc_max_bytes")?
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(32 * 1024),
        project_doc_fallback_filenames: keys
            .texts("project_doc_fallback_filenames")?
            .unwrap_or_default(),
        project_root_markers: keys
            .texts("project_root_markers")?
            .unwrap_or_else(|| vec![".git".to_owned()]),
        tool_output_token_limit: keys.whole("tool_output_token_limit")?,
        background_terminal_max_timeout: keys
            .whole("background_terminal_max_timeout")?
            .map_or(Duration::from_secs(300), Duration::from_millis),
        show_raw_agent_reasoning: keys.boolean("show_raw_agent_reasoning")?.unwrap_or(false),
        sqlite_home: keys.path("sqlite_home", &roots)?.unwrap_or_else(|| around.home.to_owned()),
        profile,
    })
}

fn approval_policy(root: &Table) -> Result<ApprovalPolicy, Error> {
    let keys = Reader::root(root);
    if !matches!(keys.node("approval_policy"), Some(Node { value: Value::Table(_), .. })) {
        let named = keys.choice("approval_policy", ApprovalPolicy::parse)?;
        return Ok(named.unwrap_or(ApprovalPolicy::OnRequest));
    }
    let table = Reader::table(root, &["approval_policy", "granular"]);
    let allows = |key: &str| Ok::<_, Error>(table.boolean(key)?.unwrap_or(false));
    Ok(ApprovalPolicy::Granular(Granular {
        sandbox_approval: allows("sandbox_approval")?,
        rules: allows("rules")?,
        mcp_elicitations: allows("mcp_elicitations")?,
        request_permissions: allows("request_permissions")?,
        skill_approval: allows("skill_approval")?,
    }))
}

fn workspace_write(root: &Table, roots: &PathRoots<'_>) -> Result<WorkspaceWrite, Error> {
    let table = Reader::table(root, &["sandbox_workspace_write"]);
    let set = |key: &str| Ok::<_, Error>(table.boolean(key)?.unwrap_or(false));
    Ok(WorkspaceWrite {
        writable_roots: table.paths("writable_roots", roots)?,
        network_access: set("network_access")?,
        exclude_slash_tmp: set("exclude_slash_tmp")?,
        exclude_tmpdir_env_var: set("exclude_tmpdir_env_var")?,
    })
}

fn shell_environment_policy(root: &Table) -> Result<ShellEnvironmentPolicy, Error> {
    let table = Reader::table(root, &["shell_environment_policy"]);
    let default = ShellEnvironmentPolicy::default();
    Ok(ShellEnvironmentPolicy {
        inherit: table.choice("inherit", EnvironmentInherit::parse)?.unwrap_or(default.inherit),
        ignore_default_excludes: table
            .boolean("ignore_default_excludes")?
            .unwrap_or(default.ignore_default_excludes),
        exclude: table.texts("exclude")?.unwrap_or_default(),
        set: table.text_map("set")?,
        include_only: table.texts("include_only")?.unwrap_or_default(),
        experimental_use_profile: table
            .boolean("experimental_use_profile")?
            .unwrap_or(default.experimental_use_profile),
    })
}
