//! Keys about tools, web search, apps, sub-agents, skills, projects and MCP servers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::parts::{AGENTS, APPS, MCP, SKILLS};
use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE, USER};
use crate::kind::{Effect, Kind, Reading, Setting, Url, Whole};
use crate::options::{choices, options};
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
    /// When a tool of an app asks.
    ToolApproval { Auto = "auto", Prompt = "prompt", Approve = "approve" }
}
choices! {
    /// `projects.<path>.trust_level`.
    TrustLevel { Trusted = "trusted", Untrusted = "untrusted" }
}

options! {
    /// `tools`.
    pub struct Tools {
        /// Settings of the web search; the mode is `web_search`. A boolean is the old form: `true`
        /// counts as `web_search = "live"` and `false` as `"disabled"` while `web_search` is unset.
        web_search: Option<WebSearchTool>, ANY, Effect::Active;
        /// The model can look at local images with the tool `view_image`.
        view_image: bool = true, ANY, Effect::Active;
    }
}

/// The value of `tools.web_search`.
#[derive(Debug, Clone, PartialEq)]
pub enum WebSearchTool {
    /// The old form.
    Switch(bool),
    /// How to search.
    Settings(WebSearchSettings),
}

impl Setting for WebSearchTool {
    const KIND: Kind = Kind::Either(&[Kind::Boolean, Kind::Table(WebSearchSettings::SECTION)]);

    fn read(node: &Node, cx: &Reading<'_>) -> Result<Self, Error> {
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
        /// How much of what is found reaches the model.
        context_size: Option<ContextSize>, ANY, Effect::Active;
        /// Only these domains are searched; empty means all.
        allowed_domains: Vec<String>, ANY, Effect::Active;
        /// Where the user is, roughly, for results from nearby.
        location: Option<Location>, ANY, Effect::Group;
    }
}
options! {
    /// `tools.web_search.location`.
    pub struct Location {
        /// Two letters, as `NL`.
        country: Option<String>, ANY, Effect::Active;
        /// Region or state.
        region: Option<String>, ANY, Effect::Active;
        /// City.
        city: Option<String>, ANY, Effect::Active;
        /// Name of the time zone, as `Europe/Amsterdam`.
        timezone: Option<String>, ANY, Effect::Active;
    }
}

options! {
    /// `apps`.
    pub struct Apps {
        /// What holds for every app that does not say otherwise.
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
        enabled: bool = true, ANY, APPS;
        /// Tools that say of themselves that they destroy are allowed.
        destructive_enabled: bool = true, ANY, APPS;
        /// Tools that say of themselves that they reach the open world are allowed.
        open_world_enabled: bool = true, ANY, APPS;
    }
}
options! {
    /// `apps.<id>`.
    pub struct App {
        /// The app is on.
        enabled: bool = true, ANY, APPS;
        /// Its tools are on unless they say otherwise.
        default_tools_enabled: Option<bool>, ANY, APPS;
        /// When its tools ask unless they say otherwise.
        default_tools_approval_mode: Option<ToolApproval>, ANY, APPS;
        /// Its destructive tools are allowed.
        destructive_enabled: Option<bool>, ANY, APPS;
        /// Its tools that reach the open world are allowed.
        open_world_enabled: Option<bool>, ANY, APPS;
        /// Its tools, by name.
        tools: BTreeMap<String, AppTool>, ANY, Effect::Group;
    }
}
options! {
    /// `apps.<id>.tools.<tool>`.
    #[part("<tool>")]
    pub struct AppTool {
        /// The tool is on.
        enabled: Option<bool>, ANY, APPS;
        /// When it asks.
        approval_mode: Option<ToolApproval>, ANY, APPS;
    }
}

options! {
    /// `agents`.
    pub struct Agents {
        /// Sub-agents that work at the same time.
        max_threads: Whole<1, 1000> = Whole::new(6), ANY, AGENTS;
        /// How deep sub-agents may start sub-agents; the thread itself has depth 0.
        max_depth: Whole<0, 100> = Whole::new(1), ANY, AGENTS;
        /// Seconds that one worker of a CSV job may take.
        job_max_runtime_seconds: Whole<1, 604_800> = Whole::new(1800), ANY, AGENTS;
        rest {
            /// A role for sub-agents.
            roles as "<name>": AgentRole, ANY, Effect::Group;
        }
    }
}
options! {
    /// `agents.<name>`.
    pub struct AgentRole {
        /// A configuration file that is laid over this one for the role.
        config_file: Option<PathBuf>, ANY, AGENTS;
        /// What the role is for.
        description: Option<String>, ANY, AGENTS;
        /// Names that agents of the role are called by.
        nickname_candidates: Vec<String>, ANY, AGENTS;
    }
}

options! {
    /// `skills`.
    pub struct Skills {
        /// Overrides, one a skill.
        config: Vec<SkillOverride>, ANY, Effect::Group;
    }
}
options! {
    /// `skills.config.<index>`.
    pub struct SkillOverride {
        /// Folder of the skill, the one with its definition.
        path: Option<PathBuf>, ANY, SKILLS;
        /// Whether the skill is offered.
        enabled: Option<bool>, ANY, SKILLS;
    }
}

options! {
    /// `projects.<path>`.
    #[part("<path>")]
    pub struct Project {
        /// Whether the project's own configuration, rules, hooks, skills and MCP servers are used.
        /// Counts for the project or the folder at this path, not for folders below it, which an
        /// agent that works here can write: each needs an entry of its own. The worktrees of a
        /// repository share its trust; without an entry a folder is untrusted.
        trust_level: Option<TrustLevel>, USER, Effect::Active;
    }
}

/// A TCP port; 0 leaves the choice to the system.
pub type Port = Whole<0, 65_535>;

options! {
    /// An MCP server.
    #[part("<id>")]
    pub struct McpServer {
        /// Program that speaks MCP on its standard streams.
        command: Option<String>, ANY | PINNABLE, MCP;
        /// Its arguments.
        args: Vec<String>, ANY, MCP;
        /// Its working folder.
        cwd: Option<PathBuf>, ANY, MCP;
        /// Environment variables that it gets.
        env: BTreeMap<String, String>, ANY, MCP;
        /// Variables of the agent's environment that it may see too.
        env_vars: Vec<String>, ANY, MCP;
        /// Address of a server that is reached over HTTP.
        url: Option<Url>, ANY | PINNABLE, MCP;
        /// Environment variable that holds the bearer token for it.
        bearer_token_env_var: Option<String>, ANY, MCP;
        /// Headers of every request to it.
        http_headers: BTreeMap<String, String>, ANY, MCP;
        /// Headers of every request, filled from these environment variables.
        env_http_headers: BTreeMap<String, String>, ANY, MCP;
        /// `false` keeps the entry and does not start the server.
        enabled: bool = true, ANY, MCP;
        /// A thread does not start while this server cannot.
        required: bool = false, ANY, MCP;
        /// Only these tools are offered.
        enabled_tools: Option<Vec<String>>, ANY, MCP;
        /// These tools are not offered, whatever `enabled_tools` says.
        disabled_tools: Vec<String>, ANY, MCP;
        /// Seconds that the server may take to start; default 10.
        startup_timeout_sec: Option<Whole<0, 86_400>>, ANY, MCP;
        /// The same in milliseconds; counts when both are set.
        startup_timeout_ms: Option<Whole<0, 86_400_000>>, ANY, MCP;
        /// Seconds that one call of a tool may take.
        tool_timeout_sec: Whole<0, 86_400> = Whole::new(60), ANY, MCP;
        /// OAuth scopes to ask for.
        scopes: Vec<String>, ANY, MCP;
        /// The `resource` parameter of RFC 8707 at login.
        oauth_resource: Option<String>, ANY, MCP;
    }
}
