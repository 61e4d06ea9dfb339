//! Keys about tools, web search, apps, sub-agents, skills, projects and MCP servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE, USER};
use crate::kind::{
    Country, Effect, Host, Kind, Nickname, ReadContext, Setting, TimeZone, Url, Whole,
};
use crate::options::{choices, options};
use crate::table::{Milliseconds, SandboxMode, Seconds};
use crate::value::{Node, Value};

choices! {
    /// `web_search`: whether and how the model may search the web.
    WebSearch { Disabled = "disabled", Cached = "cached", Live = "live" }
}
choices! {
    /// `tools.web_search.context_size`.
    ContextSize { Low = "low", Medium = "medium", High = "high" }
}
choices! {
    /// When a tool of an app asks for approval.
    ToolApproval { Auto = "auto", Prompt = "prompt", Approve = "approve" }
}
choices! {
    /// `projects.<path>.trust_level`.
    TrustLevel { Trusted = "trusted", Untrusted = "untrusted" }
}
choices! {
    /// `projects.<path>.access`: what the agent may do in a project.
    ProjectAccess { ReadOnly = "read-only", Ask = "ask", Edit = "edit", FullAccess = "full-access" }
}

options! {
    /// `tools`.
    pub struct Tools {
        /// Settings of the web search; the mode is `web_search`. A boolean is the old form: `true`
        /// means `web_search = "live"` and `false` means `"disabled"`, unless `web_search` is set.
        web_search: Option<WebSearchTool>, ANY, Effect::Active;
        /// The model can view local images with the tool `view_image`.
        view_image: bool = true, ANY, Effect::Active;
    }
}

/// The value of `tools.web_search`.
#[derive(Debug, Clone, PartialEq)]
pub enum WebSearchTool {
    /// The old form.
    Switch(bool),
    /// Search with these settings.
    Settings(WebSearchSettings),
}

impl Setting for WebSearchTool {
    const KIND: Kind = Kind::Either(&[Kind::Boolean, Kind::Table(WebSearchSettings::SECTION)]);

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Boolean(on) => Ok(Self::Switch(*on)),
            _ => WebSearchSettings::read(node, cx).map(Self::Settings),
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Switch(on) => Some((*on).into()),
            Self::Settings(settings) => settings.show(),
        }
    }
}

options! {
    /// `tools.web_search`.
    pub struct WebSearchSettings {
        /// The share of the results that the model receives.
        context_size: Option<ContextSize>, ANY, Effect::Active;
        /// Searches only these domains and those below them; all when empty.
        allowed_domains: Vec<Host>, ANY, Effect::Active;
        /// Approximate location of the user, for nearby results.
        location: Option<Location>, ANY, Effect::Group;
    }
}
options! {
    /// `tools.web_search.location`.
    pub struct Location {
        /// Two-letter country code, such as `NL`.
        country: Option<Country>, ANY, Effect::Active;
        /// Region or state.
        region: Option<String>, ANY, Effect::Active;
        /// City.
        city: Option<String>, ANY, Effect::Active;
        /// Name of the time zone, such as `Europe/Amsterdam`.
        timezone: Option<TimeZone>, ANY, Effect::Active;
    }
}

options! {
    /// `apps`.
    pub struct Apps {
        /// Defaults for all apps.
        default as "_default": AppDefaults, ANY, Effect::Group;
        rest {
            /// One app.
            by_id as "<id>": App, ANY, Effect::Group;
        }
    }
}
options! {
    /// `apps._default`.
    pub struct AppDefaults {
        /// Apps are on.
        enabled: bool = true, ANY, Effect::Active;
        /// Tools with `destructiveHint` are on.
        destructive_enabled: bool = true, ANY, Effect::Active;
        /// Tools with `openWorldHint` are on.
        open_world_enabled: bool = true, ANY, Effect::Active;
    }
}
options! {
    /// `apps.<id>`.
    pub struct App {
        /// The app is on.
        enabled: bool = true, ANY, Effect::Active;
        /// Its tools are on by default.
        default_tools_enabled: Option<bool>, ANY, Effect::Active;
        /// When its tools ask for approval by default; a stricter one of their server holds.
        default_tools_approval_mode: Option<ToolApproval>, ANY, Effect::Active;
        /// Its tools with `destructiveHint` are on.
        destructive_enabled: Option<bool>, ANY, Effect::Active;
        /// Its tools with `openWorldHint` are on.
        open_world_enabled: Option<bool>, ANY, Effect::Active;
        /// Its tools, by name.
        tools: BTreeMap<String, AppTool>, ANY, Effect::Group;
    }
}
options! {
    /// `apps.<id>.tools.<tool>`.
    #[part("<tool>")]
    pub struct AppTool {
        /// The tool is on, whatever its hints are.
        enabled: Option<bool>, ANY, Effect::Active;
        /// When it asks for approval; a stricter one of its server holds.
        approval_mode: Option<ToolApproval>, ANY, Effect::Active;
    }
}

options! {
    /// `agents`.
    pub struct Agents {
        /// Largest number of concurrent sub-agents.
        max_threads: Whole<1, 1000> = Whole::new(6), ANY, Effect::Active;
        /// Largest nesting depth of sub-agents; the thread itself has depth 0.
        max_depth: Whole<0, 100> = Whole::new(1), ANY, Effect::Active;
        /// Time limit of one worker of a CSV job, in seconds.
        job_max_runtime_seconds: Seconds<1, 604_800> = Seconds::new(1800), ANY,
            Effect::Active;
        /// Most tokens, input and output, that a turn and all agents that it starts may use
        /// together.
        max_total_tokens: Option<Whole<1, 1_000_000_000_000>>, ANY, Effect::Active;
        /// Longest duration of a turn and of all agents that it starts, in seconds.
        max_total_seconds: Option<Seconds<1, 604_800>>, ANY, Effect::Active;
        rest {
            /// A role for sub-agents.
            roles as "<name>": AgentRole, ANY, Effect::Group;
        }
    }
}
options! {
    /// `agents.<name>`.
    pub struct AgentRole {
        /// A configuration file that overrides all others for agents of the role. It cannot give them more
        /// than the thread has that starts them.
        config_file: Option<PathBuf>, ANY, Effect::Active;
        /// Purpose of the role.
        description: Option<String>, ANY, Effect::Active;
        /// Names for agents of the role.
        nickname_candidates: Vec<Nickname>, ANY, Effect::Active;
    }
}

options! {
    /// `skills`.
    pub struct Skills {
        /// Overrides of single skills.
        config: Vec<SkillOverride>, USER, Effect::Group;
    }
}
options! {
    /// `skills.config.<index>`.
    pub struct SkillOverride {
        /// Folder of the skill's definition, as `skills/list` shows it.
        path: Option<PathBuf>, USER, Effect::Active;
        /// Offer the skill to the model, and let inputs use it.
        enabled: Option<bool>, USER, Effect::Active;
    }
}

options! {
    /// `hooks`.
    pub struct Hooks {
        /// The user's decisions about single hooks, by their keys in `hooks/list`.
        state: BTreeMap<String, HookState>, USER, Effect::Group;
    }
}
options! {
    /// `hooks.state.<key>`.
    #[part("<key>")]
    pub struct HookState {
        /// Run the hook.
        enabled: bool = true, USER, Effect::Active;
        /// The hook of a project or plugin that the user trusts: its `currentHash` in `hooks/list`. A
        /// hook that changes has another one, and does not run.
        trusted_hash: Option<String>, USER, Effect::Active;
    }
}

options! {
    /// `plugins.<id>`.
    #[part("<id>")]
    pub struct PluginSwitch {
        /// Give threads the skills, hooks, MCP servers and apps of the installed plugin.
        enabled: bool = true, USER, Effect::Active;
    }
}

options! {
    /// `projects.<path>`.
    #[part("<path>")]
    pub struct Project {
        /// Trust in the project, which is needed to use its own configuration, rules, hooks, skills
        /// and MCP servers. Applies to the folder at this path, but not to its subfolders, which an
        /// agent that works here can write: each needs its own entry. The worktrees of a repository
        /// share its trust; a folder without an entry is untrusted.
        trust_level: Option<TrustLevel>, USER, Effect::Active;
        /// The rights of the agent in the project, in place of `sandbox_mode`, `approval_policy` and
        /// `default_permissions` of your own file: `read-only` changes nothing and never asks
        /// (`read-only` with `never`), `ask` asks before each edit (`read-only` with `on-request`),
        /// `edit` changes files in the working folder and runs commands in the sandbox
        /// (`workspace-write` with `on-request`), `full-access` runs every command with your rights
        /// (`danger-full-access` with `never`). The nearest entry from the working folder up to the
        /// project's root applies; the worktrees of a repository share its entry. The project's own
        /// file, a profile and the command line come after it.
        access: Option<ProjectAccess>, USER, Effect::Active;
    }
}

/// A TCP port; 0 leaves the choice to the system.
pub type Port = Whole<0, 65_535>;

options! {
    /// An MCP server.
    #[part("<id>")]
    pub struct McpServer {
        /// Program that speaks MCP on its standard input and output.
        command: Option<String>, ANY | PINNABLE, Effect::Active;
        /// Its arguments.
        args: Vec<String>, ANY, Effect::Active;
        /// Its working folder.
        cwd: Option<PathBuf>, ANY, Effect::Active;
        /// Environment variables to set for it.
        env: BTreeMap<String, String>, ANY, Effect::Active;
        /// Variables of the agent's environment to pass on to it.
        env_vars: Vec<String>, ANY, Effect::Active;
        /// Confines the program: with `read-only` it writes nothing, with `workspace-write` only in its
        /// working folder and the temporary folders. It can read every file of the user.
        sandbox: SandboxMode = SandboxMode::DangerFullAccess, ANY, Effect::Active;
        /// Lets a confined program reach the network.
        sandbox_network: bool = false, ANY, Effect::Active;
        /// Address of a server over HTTP.
        url: Option<Url>, ANY | PINNABLE, Effect::Active;
        /// Environment variable with its bearer token.
        bearer_token_env_var: Option<String>, ANY, Effect::Active;
        /// Headers of every request to it.
        http_headers: BTreeMap<String, String>, ANY, Effect::Active;
        /// Headers of every request, with values from these environment variables.
        env_http_headers: BTreeMap<String, String>, ANY, Effect::Active;
        /// `false` disables the server without removing its entry.
        enabled: bool = true, ANY, Effect::Active;
        /// A thread does not start if this server fails to start.
        required: bool = false, ANY, Effect::Active;
        /// Offers only these tools.
        enabled_tools: Option<Vec<String>>, ANY, Effect::Active;
        /// Never offers these tools, even if `enabled_tools` lists them.
        disabled_tools: Vec<String>, ANY, Effect::Active;
        /// When its tools ask for approval. A value of a project or a client can only add questions.
        default_tools_approval_mode: Option<ToolApproval>, ANY, Effect::Active;
        /// Its tools, by name.
        tools: BTreeMap<String, McpTool>, ANY, Effect::Group;
        /// Time limit of the server's start, in seconds; 10 by default.
        startup_timeout_sec: Option<Seconds<0, 86_400>>, ANY, Effect::Active;
        /// The same in milliseconds; has precedence if both are set.
        startup_timeout_ms: Option<Milliseconds>, ANY, Effect::Active;
        /// Time limit of a tool call, in seconds.
        tool_timeout_sec: Seconds<0, 86_400> = Seconds::new(60), ANY, Effect::Active;
        /// OAuth scopes to request; when empty, those that the server asks for.
        scopes: Vec<String>, ANY, Effect::Active;
        /// The `resource` parameter of RFC 8707 at login; when unset, what the server's metadata name.
        oauth_resource: Option<String>, ANY, Effect::Active;
        /// The client as which the program logs in at the server.
        oauth: McpOauth, ANY, Effect::Group;
    }
}
options! {
    /// `mcp_servers.<id>.tools.<tool>`.
    #[part("<tool>")]
    pub struct McpTool {
        /// When it asks for approval, in place of the server's `default_tools_approval_mode`.
        approval_mode: Option<ToolApproval>, ANY, Effect::Active;
    }
}
options! {
    /// `mcp_servers.<id>.oauth`.
    pub struct McpOauth {
        /// Id of a client that is registered at the authorization server; when unset, the program
        /// registers itself.
        client_id: Option<String>, ANY, Effect::Active;
        /// Environment variable with the secret of that client.
        client_secret_env: Option<String>, ANY, Effect::Active;
        /// Address of a client ID metadata document, which is the client's id where the authorization
        /// server supports that.
        client_metadata_url: Option<Url>, ANY, Effect::Active;
    }
}
