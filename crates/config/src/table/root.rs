//! The root of `config.toml`, in the order of the documentation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::features::Features;
use super::misc::{
    Analytics, CredentialsStore, Feedback, FileOpener, History, LoginMethod, Memories, Notice,
    Realtime, StoreTable, Tui,
};
use super::model::{
    Milliseconds, ModelProvider, OssProvider, Personality, PlanReasoningEffort, ReasoningEffort,
    ReasoningSummary, ServiceTier, Tokens, Verbosity,
};
use super::otel::Otel;
use super::parts::WINDOWS;
use super::sandbox::{
    ApprovalPolicy, ApprovalsReviewer, CommandLimits, Permissions, SandboxMode,
    ShellEnvironmentPolicy, ThreadLimits, Windows, WorkspaceWrite,
};
use super::tools::{
    Agents, Apps, Hooks, McpServer, PluginSwitch, Port, Project, Skills, Tools, WebSearch,
};
use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE, RESTART, USER};
use crate::kind::{Effect, Kind, ReadContext, Setting, Url, Uuid, Whole};
use crate::options::options;
use crate::value::Node;

options! {
    /// Every key of `config.toml`.
    pub struct Keys {
        /// When the agent asks for approval: `untrusted` asks about every command that is not known
        /// to be harmless, `on-request` asks when the sandbox is not enough, `never` refuses
        /// instead of asking. `on-failure` is deprecated and means `on-request`.
        approval_policy: ApprovalPolicy = ApprovalPolicy::OnRequest, ANY | PINNABLE, Effect::Active;
        /// Who decides about approvals: the `user`, or a model that reviews each action in the user's
        /// place (`auto_review`, and `guardian_subagent` as its earlier name). When unset, `user`, or
        /// `auto_review` if `features.smart_approvals` is on.
        approvals_reviewer: Option<ApprovalsReviewer>, ANY | PINNABLE, Effect::Active;
        /// The access of commands to files and the network: `read-only` writes nothing,
        /// `workspace-write` writes in the working folder, `danger-full-access` does not confine
        /// commands.
        sandbox_mode: SandboxMode = SandboxMode::ReadOnly, ANY | PINNABLE, Effect::Active;
        /// Permissions of `workspace-write` beyond the working folder.
        sandbox_workspace_write: WorkspaceWrite, ANY, Effect::Group;
        /// Limits of a command. The specification has no such keys.
        command_limits: CommandLimits, ANY, Effect::Group;
        /// Limits of all commands of a thread together. The specification has no such keys.
        thread_limits: ThreadLimits, ANY, Effect::Group;
        /// The permission profile of sandboxed commands, a name below `permissions`. It replaces
        /// `sandbox_mode`.
        default_permissions: Option<String>, ANY, Effect::Active;
        /// Permission profiles.
        permissions: BTreeMap<String, Permissions>, ANY, Effect::Group;
        /// The environment of commands.
        shell_environment_policy: ShellEnvironmentPolicy, ANY, Effect::Group;
        /// The model may request a login shell. When false, such a call is refused, and a call that
        /// does not choose gets a shell that is not a login shell.
        allow_login_shell: bool = true, ANY, Effect::Active;
        /// The sandbox on Windows.
        windows: Windows, ANY, Effect::Group;
        /// The user has read how to set up WSL (Windows only).
        windows_wsl_setup_acknowledged: bool = false, USER, WINDOWS;

        /// Id of the model; when unset, the first one in the provider's catalog.
        model: Option<String>, ANY, Effect::Active;
        /// Model of reviews; when unset, the thread's.
        review_model: Option<String>, ANY, Effect::Active;
        /// Id of a provider: `default`, `offline`, or one of `model_providers`.
        model_provider: String = "default".to_owned(), ANY, Effect::Active;
        /// Address of the built-in provider `default`.
        default_provider_base_url: Option<Url>, ANY, Effect::Active;
        /// Model providers. The built-in ones cannot be redefined.
        model_providers: BTreeMap<String, ModelProvider>, ANY, Effect::Group;
        /// The amount of the model's reasoning; only some models support `xhigh`.
        model_reasoning_effort: Option<ReasoningEffort>, ANY, Effect::Active;
        /// The amount of the model's reasoning in plan mode; when unset, plan mode's own default.
        plan_mode_reasoning_effort: Option<PlanReasoningEffort>, ANY, Effect::Active;
        /// The level of detail in summaries of the model's reasoning.
        model_reasoning_summary: Option<ReasoningSummary>, ANY, Effect::Active;
        /// Send reasoning parameters with requests; when unset, the model catalog decides.
        model_supports_reasoning_summaries: Option<bool>, ANY, Effect::Active;
        /// The length of answers.
        model_verbosity: Option<Verbosity>, ANY, Effect::Active;
        /// Size of the model's context in tokens; when unset, the model catalog's.
        model_context_window: Option<Tokens>, ANY, Effect::Active;
        /// Tokens of a thread above which it is compacted.
        model_auto_compact_token_limit: Option<Tokens>, ANY, Effect::Active;
        /// A JSON file with the catalog of models, read when the server starts.
        model_catalog_json: Option<PathBuf>, ANY | RESTART, Effect::Active;
        /// A file with the model's base instructions, in place of the built-in ones.
        model_instructions_file: Option<PathBuf>, ANY, Effect::Active;
        /// Additional instructions, sent with the role `developer`.
        developer_instructions: Option<String>, ANY, Effect::Active;
        /// Reserved by the specification; has no effect. Write `model_instructions_file`.
        instructions: Option<String>, ANY, Effect::Pending("a later version of the specification, which reserves it; write `model_instructions_file`");
        /// The prompt for compacting a thread.
        compact_prompt: Option<String>, ANY, Effect::Active;
        /// A file with that prompt.
        experimental_compact_prompt_file: Option<PathBuf>, ANY, Effect::Active;
        /// Style of answers, for models that have one.
        personality: Option<Personality>, ANY, Effect::Active;
        /// Preferred service tier at the provider.
        service_tier: Option<ServiceTier>, ANY, Effect::Active;
        /// The local provider that `--oss` selects.
        oss_provider: Option<OssProvider>, ANY, Effect::Active;
        /// Tokens of a tool's output that the model receives; when unset, the program's default.
        tool_output_token_limit: Option<Tokens>, ANY, Effect::Active;
        /// The model's raw reasoning is shown if the provider supplies it.
        show_raw_agent_reasoning: bool = false, ANY, Effect::Active;
        /// Reasoning is omitted from the output of `agentd exec` and of the terminal interface.
        hide_agent_reasoning: bool = false, ANY, Effect::Active;

        /// The model's access to web search: `cached` searches an index without fetching pages,
        /// `live` fetches them. The default is `cached`, or `live` while commands have full access.
        web_search: Option<WebSearch>, ANY | PINNABLE, Effect::Active;
        /// Tools.
        tools: Tools, ANY, Effect::Group;
        /// Apps.
        apps: Apps, ANY, Effect::Group;
        /// Sub-agents.
        agents: Agents, ANY, Effect::Group;
        /// Skills.
        skills: Skills, ANY, Effect::Group;
        /// Lifecycle hooks; `hooks.json` defines them.
        hooks: Hooks, USER, Effect::Group;
        /// Installed plugins, by `NAME@MARKETPLACE`.
        plugins: BTreeMap<String, PluginSwitch>, USER, Effect::Group;
        /// Projects, by the path of their folder.
        projects: BTreeMap<String, Project>, USER, Effect::Group;
        /// Names of documents to read in a project without `AGENTS.md`.
        project_doc_fallback_filenames: Vec<String>, ANY, Effect::Active;
        /// Largest size of the project documents that are read, in bytes; 0 reads none.
        project_doc_max_bytes: Whole<0, 16_777_216> = Whole::new(32 * 1024), ANY, Effect::Active;
        /// A folder that contains one of these names is the root of a project.
        project_root_markers: Vec<String> = vec![".git".to_owned()], USER, Effect::Active;
        /// Longest wait, in milliseconds, of a call that polls a running command without typing.
        background_terminal_max_timeout: Milliseconds = Milliseconds::new(300_000), ANY, Effect::Active;

        /// MCP servers.
        mcp_servers: BTreeMap<String, McpServer>, ANY | PINNABLE, Effect::Group;
        /// Port of the callback of an MCP server's login; when unset, a free one.
        mcp_oauth_callback_port: Option<Port>, USER, Effect::Active;
        /// Address of the callback of an MCP server's login, without its port.
        mcp_oauth_callback_url: Option<Url>, USER, Effect::Active;
        /// Where logins at MCP servers are stored: in a private `file` of the home for each, in the `keyring`
        /// of the operating system (builds with that feature), or `auto`: in the keyring if there is one.
        /// When unset, in files.
        mcp_oauth_credentials_store: Option<CredentialsStore>, USER, Effect::Active;

        /// Feature switches.
        features: Features, ANY, Effect::Group;

        /// The only permitted way to authenticate at the default provider: `hosted` with an account of the
        /// hosted service, `api` with an API key. A login of the other kind is ended.
        forced_login_method: Option<LoginMethod>, USER, Effect::Active;
        /// The only permitted workspace of hosted logins. A login of another one is ended.
        forced_hosted_workspace_id: Option<Uuid>, USER, Effect::Active;
        /// Address of the hosted login service, an OAuth server with metadata. Without it, only API keys
        /// and tokens of clients log in.
        hosted_base_url: Option<Url>, USER, Effect::Active;
        /// The client id at the hosted login service.
        hosted_client_id: String = "agentd".to_owned(), USER, Effect::Active;
        /// Where the user's credentials are stored: in the private `file` `credentials.json` of the home, in
        /// the `keyring` of the operating system (builds with that feature), or `auto`: in the keyring if
        /// there is one. When unset, in the file.
        cli_auth_credentials_store: Option<CredentialsStore>, USER, Effect::Active;
        /// Usage reports.
        analytics: Analytics, ANY, Effect::Group;
        /// Feedback.
        feedback: Feedback, ANY, Effect::Group;
        /// Notes that threads leave for later ones.
        memories: Memories, USER, Effect::Group;
        /// Realtime conversations.
        realtime: Realtime, ANY, Effect::Group;
        /// The server looks for a newer version when it loads its first thread, at most once a day, if there
        /// is an `update_feed`.
        check_for_update_on_startup: bool = true, USER, Effect::Active;
        /// Address of the feed of new versions, a JSON document: with `https`, or on this machine. Without
        /// it, none is looked for.
        update_feed: Option<Url>, USER, Effect::Active;
        /// Co-author trailer that the model is instructed to add to commit messages; none when
        /// empty or unset.
        commit_attribution: Option<String>, ANY, Effect::Active;
        /// The scheme of links to files in answers.
        file_opener: FileOpener = FileOpener::Editor, USER, Effect::Active;
        /// The history of the user's prompts.
        history: History, USER, Effect::Group;
        /// Folder of the log; by default `log` in the agent's home.
        log_dir: Option<PathBuf>, USER | RESTART, Effect::Active;
        /// Folder of the thread database; by default the agent's home.
        sqlite_home: Option<PathBuf>, USER | RESTART, Effect::Active;
        /// The PostgreSQL database of threads.
        store: StoreTable, USER | RESTART, Effect::Group;
        /// Folder of the git worktrees of threads; by default `agentd/worktrees` in `$XDG_DATA_HOME`, or in
        /// `~/.local/share`.
        worktrees_dir: Option<PathBuf>, USER, Effect::Active;
        /// A program and its arguments, run after each turn with a JSON payload as its last
        /// argument.
        notify: Vec<String>, ANY, Effect::Active;
        /// Suppresses the warning about enabled features that are under development.
        suppress_unstable_features_warning: bool = false, USER, Effect::Active;
        /// The terminal interface does not treat a burst of keys as pasted text.
        disable_paste_burst: bool = false, USER, Effect::Active;
        /// Telemetry.
        otel: Otel, USER, Effect::Group;
        /// Notices that the user has acknowledged.
        notice: Notice, USER, Effect::Group;
        /// The terminal interface.
        tui: Tui, USER, Effect::Group;

        /// The profile to use, a name below `profiles`; the same as `--profile`.
        profile: Option<String>, USER, Effect::Active;
        /// Profiles: each can have all keys above except `profile`, and overrides the files.
        profiles: Profiles, USER, Effect::Group;
    }
}

/// The value of `profiles`. Not read, because a profile is merged as a layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profiles;

impl Setting for Profiles {
    const KIND: Kind = Kind::Map("<name>", &Kind::Profile);

    fn absent() -> Option<Self> {
        Some(Self)
    }

    fn read(_: &Node, _: &ReadContext<'_>) -> Result<Self, Error> {
        Ok(Self)
    }

    fn show(&self) -> Option<Json> {
        None
    }
}

/// A key or a value that still works, but has a replacement.
#[derive(Debug)]
pub struct Deprecated {
    /// Dotted key.
    pub key: &'static str,
    /// The deprecated value as JSON; `None` if the key is deprecated.
    pub value: Option<&'static str>,
    /// The replacement.
    pub instead: &'static str,
}

/// Every deprecated key and value that was not merely renamed.
pub const DEPRECATED: &[Deprecated] = &[
    Deprecated {
        key: "approval_policy",
        value: Some("\"on-failure\""),
        instead: "it means `on-request`; write `on-request`, or `never` if no user can answer",
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
