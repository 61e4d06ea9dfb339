//! The root of `config.toml`, in the order of the documentation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::features::Features;
use super::misc::{
    Analytics, CredentialsStore, Feedback, FileOpener, History, LoginMethod, Notice, Otel, Tui,
};
use super::model::{
    Milliseconds, ModelProvider, OssProvider, Personality, PlanReasoningEffort, ReasoningEffort,
    ReasoningSummary, ServiceTier, Tokens, Verbosity,
};
use super::parts::{ACCOUNTS, MCP, TELEMETRY, TERMINAL, WINDOWS};
use super::sandbox::{
    ApprovalPolicy, Permissions, SandboxMode, ShellEnvironmentPolicy, Windows, WorkspaceWrite,
};
use super::tools::{Agents, Apps, McpServer, Port, Project, Skills, Tools, WebSearch};
use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE, RESTART, USER};
use crate::kind::{Effect, Kind, Reading, Setting, Url, Uuid, Whole};
use crate::options::options;
use crate::value::Node;

options! {
    /// Every key of `config.toml`.
    pub struct Keys {
        /// When the agent pauses for approval: `untrusted` asks for every command that is not
        /// known to be harmless, `on-request` asks where the sandbox is not enough, `never` asks
        /// nobody and refuses instead. `on-failure` is deprecated and counts as `on-request`.
        approval_policy: ApprovalPolicy = ApprovalPolicy::OnRequest, ANY | PINNABLE, Effect::Active;
        /// What commands may do to files and the network: `read-only` writes nothing,
        /// `workspace-write` writes in the working folder, `danger-full-access` does not confine.
        sandbox_mode: SandboxMode = SandboxMode::ReadOnly, ANY | PINNABLE, Effect::Active;
        /// What `workspace-write` allows beyond the working folder.
        sandbox_workspace_write: WorkspaceWrite, ANY, Effect::Group;
        /// The permission profile of sandboxed commands, a name below `permissions`. It takes the
        /// place of `sandbox_mode`.
        default_permissions: Option<String>, ANY, Effect::Active;
        /// Permission profiles.
        permissions: BTreeMap<String, Permissions>, ANY, Effect::Group;
        /// The environment of commands.
        shell_environment_policy: ShellEnvironmentPolicy, ANY, Effect::Group;
        /// The model may ask for a login shell. When false such a call is refused, and a call that
        /// does not say gets a shell that is none.
        allow_login_shell: bool = true, ANY, Effect::Active;
        /// The sandbox on Windows.
        windows: Windows, ANY, Effect::Group;
        /// The user has read how to set up WSL (Windows only).
        windows_wsl_setup_acknowledged: bool = false, USER, WINDOWS;

        /// Id of the model; unset takes the first of the provider's catalog.
        model: Option<String>, ANY, Effect::Active;
        /// Model of reviews; unset takes the thread's.
        review_model: Option<String>, ANY, Effect::Active;
        /// Id of a provider: `default`, `offline`, or one of `model_providers`.
        model_provider: String = "default".to_owned(), ANY, Effect::Active;
        /// Address of the built-in provider `default`.
        default_provider_base_url: Option<Url>, ANY, Effect::Active;
        /// Model providers. The built-in ones cannot be redefined.
        model_providers: BTreeMap<String, ModelProvider>, ANY, Effect::Group;
        /// How much the model thinks; `xhigh` only some models know.
        model_reasoning_effort: Option<ReasoningEffort>, ANY, Effect::Active;
        /// The same while a plan is made; unset takes the plan mode's own.
        plan_mode_reasoning_effort: Option<PlanReasoningEffort>, ANY, Effect::Active;
        /// How detailed summaries of the model's reasoning are.
        model_reasoning_summary: Option<ReasoningSummary>, ANY, Effect::Active;
        /// Forces sending (`true`) or not sending (`false`) what is about reasoning; unset asks the
        /// catalog.
        model_supports_reasoning_summaries: Option<bool>, ANY, Effect::Active;
        /// How long answers are.
        model_verbosity: Option<Verbosity>, ANY, Effect::Active;
        /// Tokens that fit the model's context; unset asks the catalog.
        model_context_window: Option<Tokens>, ANY, Effect::Active;
        /// Tokens of a thread above which it is compacted.
        model_auto_compact_token_limit: Option<Tokens>, ANY, Effect::Active;
        /// A JSON file with the catalog of models, read when the server starts.
        model_catalog_json: Option<PathBuf>, ANY | RESTART, Effect::Active;
        /// A file with the model's base instructions, in place of the built-in ones.
        model_instructions_file: Option<PathBuf>, ANY, Effect::Active;
        /// More instructions, given as the developer's.
        developer_instructions: Option<String>, ANY, Effect::Active;
        /// Reserved by the specification; has no effect. Write `model_instructions_file`.
        instructions: Option<String>, ANY, Effect::Pending("nothing yet: the specification reserves it; write `model_instructions_file`");
        /// The prompt that a thread is compacted with.
        compact_prompt: Option<String>, ANY, Effect::Active;
        /// A file with that prompt.
        experimental_compact_prompt_file: Option<PathBuf>, ANY, Effect::Active;
        /// Style of answers, for models that have one.
        personality: Option<Personality>, ANY, Effect::Active;
        /// Preferred service tier at the provider.
        service_tier: Option<ServiceTier>, ANY, Effect::Active;
        /// The local provider that `--oss` chooses.
        oss_provider: Option<OssProvider>, ANY, Effect::Active;
        /// Tokens of a tool's output that are kept for the model; unset leaves it to the program.
        tool_output_token_limit: Option<Tokens>, ANY, Effect::Active;
        /// The model's raw reasoning is shown where the provider gives it.
        show_raw_agent_reasoning: bool = false, ANY, Effect::Active;
        /// Reasoning is left out of the output of `agentd exec` and of the terminal interface.
        hide_agent_reasoning: bool = false, ANY, Effect::Active;

        /// Whether the model may search the web: `cached` in an index without live fetching,
        /// `live` for real. Unset is `cached`, and `live` while commands have full access.
        web_search: Option<WebSearch>, ANY | PINNABLE, Effect::Active;
        /// Tools.
        tools: Tools, ANY, Effect::Group;
        /// Apps.
        apps: Apps, ANY, Effect::Group;
        /// Sub-agents.
        agents: Agents, ANY, Effect::Group;
        /// Skills.
        skills: Skills, ANY, Effect::Group;
        /// What is known of projects, by the path of their folder.
        projects: BTreeMap<String, Project>, USER, Effect::Group;
        /// Names of further documents that are read where a project has no `AGENTS.md`.
        project_doc_fallback_filenames: Vec<String>, ANY, Effect::Active;
        /// Bytes that are read of project documents; 0 reads none.
        project_doc_max_bytes: Whole<0, 16_777_216> = Whole::new(32 * 1024), ANY, Effect::Active;
        /// A folder that holds one of these is a project's root.
        project_root_markers: Vec<String> = vec![".git".to_owned()], USER, Effect::Active;
        /// Longest wait in milliseconds of a poll of a running command that types nothing.
        background_terminal_max_timeout: Milliseconds = Milliseconds::new(300_000), ANY, Effect::Active;

        /// MCP servers.
        mcp_servers: BTreeMap<String, McpServer>, ANY | PINNABLE, Effect::Group;
        /// Port that a login at an MCP server comes back to; unset takes a free one.
        mcp_oauth_callback_port: Option<Port>, USER, MCP;
        /// Address that such a login comes back to; the port is still that of the other key.
        mcp_oauth_callback_url: Option<Url>, USER, MCP;
        /// Where credentials of MCP servers are kept.
        mcp_oauth_credentials_store: Option<CredentialsStore>, USER, MCP;

        /// Switches.
        features: Features, ANY, Effect::Group;

        /// The only way to log in.
        forced_login_method: Option<LoginMethod>, USER, ACCOUNTS;
        /// The only workspace to log in to.
        forced_hosted_workspace_id: Option<Uuid>, USER, ACCOUNTS;
        /// Address of the hosted login.
        hosted_base_url: Option<Url>, USER, ACCOUNTS;
        /// Where the user's credentials are kept.
        cli_auth_credentials_store: Option<CredentialsStore>, USER, ACCOUNTS;
        /// Reports of usage.
        analytics: Analytics, ANY, Effect::Group;
        /// Feedback.
        feedback: Feedback, ANY, Effect::Group;
        /// The program looks for a newer version of itself when it starts.
        check_for_update_on_startup: bool = true, USER, Effect::Pending("updates");
        /// Co-author trailer that the model is told to end commit messages with; an empty string
        /// or no value means none.
        commit_attribution: Option<String>, ANY, Effect::Active;
        /// The scheme of links to files in answers.
        file_opener: FileOpener = FileOpener::Editor, USER, TERMINAL;
        /// The file of the user's prompts.
        history: History, USER, Effect::Group;
        /// Folder of the log; unset is `log` in the agent's home.
        log_dir: Option<PathBuf>, USER | RESTART, Effect::Active;
        /// Folder of the database of threads; unset is the agent's home.
        sqlite_home: Option<PathBuf>, USER | RESTART, Effect::Active;
        /// A program and its arguments, run after each turn with a JSON payload as one argument
        /// more.
        notify: Vec<String>, ANY, Effect::Active;
        /// No warning for features under development that are on.
        suppress_unstable_features_warning: bool = false, USER, Effect::Active;
        /// The terminal interface does not treat a burst of keys as pasted text.
        disable_paste_burst: bool = false, USER, TERMINAL;
        /// Telemetry.
        otel: Otel, USER, TELEMETRY;
        /// What the user has acknowledged.
        notice: Notice, USER, Effect::Group;
        /// The terminal interface.
        tui: Tui, USER, Effect::Group;

        /// The profile to use, a name below `profiles`; `--profile` says the same.
        profile: Option<String>, USER, Effect::Active;
        /// Profiles: each holds any of the keys above but `profile`, and lies over the files.
        profiles: Profiles, USER, Effect::Group;
    }
}

/// `profiles`: kept as written, because a profile is a layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profiles;

impl Setting for Profiles {
    const KIND: Kind = Kind::Map("<name>", &Kind::Profile);

    fn absent() -> Option<Self> {
        Some(Self)
    }

    fn read(_: &Node, _: &Reading<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn show(&self) -> Option<Json> {
        None
    }
}

/// A key that has a new name: its value counts for the new one while that is unset.
#[derive(Debug)]
pub struct Renamed {
    /// As it used to be written, dotted.
    pub old: &'static str,
    /// As it is written now, dotted.
    pub new: &'static str,
}

/// Every renamed key.
pub const RENAMED: &[Renamed] = &[
    Renamed { old: "experimental_instructions_file", new: "model_instructions_file" },
    Renamed { old: "background_terminal_timeout", new: "background_terminal_max_timeout" },
    Renamed { old: "experimental_use_unified_exec_tool", new: "features.unified_exec" },
    Renamed { old: "tools_view_image", new: "tools.view_image" },
];

/// A key or a value that still works and should not be written any more.
#[derive(Debug)]
pub struct Deprecated {
    /// Dotted key.
    pub key: &'static str,
    /// The one value that is deprecated, as JSON; `None` means the key.
    pub value: Option<&'static str>,
    /// What to write instead.
    pub instead: &'static str,
}

/// Everything deprecated that was not merely renamed.
pub const DEPRECATED: &[Deprecated] = &[
    Deprecated {
        key: "approval_policy",
        value: Some("\"on-failure\""),
        instead: "it counts as `on-request`; write `on-request`, or `never` where nobody can answer",
    },
    Deprecated {
        key: "features.web_search",
        value: None,
        instead: "write `web_search = \"cached\"`, or `\"disabled\"`",
    },
    Deprecated {
        key: "features.web_search_cached",
        value: None,
        instead: "write `web_search = \"cached\"`, or `\"disabled\"`",
    },
    Deprecated {
        key: "features.web_search_request",
        value: None,
        instead: "write `web_search = \"live\"`, or `\"disabled\"`",
    },
    Deprecated {
        key: "tools.web_search",
        value: Some("true"),
        instead: "write `web_search = \"live\"`",
    },
    Deprecated {
        key: "tools.web_search",
        value: Some("false"),
        instead: "write `web_search = \"disabled\"`",
    },
    Deprecated {
        key: "instructions",
        value: None,
        instead: "it has no effect; write `model_instructions_file`",
    },
];
