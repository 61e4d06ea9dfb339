//! The switches in `[features]`, and what stage each is in.

use super::parts::{AGENTS, APPS, SKILLS};
use crate::kind::scope::{ANY, PINNABLE};
use crate::kind::{Effect, done};
use crate::options::options;
use crate::suggest::closest;

options! {
    /// `features`.
    pub struct Features {
        /// Connectors to apps. Experimental.
        apps: bool = false, ANY | PINNABLE, APPS;
        /// Lifecycle hooks from `hooks.json`. Under development.
        codex_hooks: bool = false, ANY | PINNABLE, Effect::With("hooks");
        /// Large requests to the default provider are sent compressed (zstd).
        enable_request_compression: bool = true, ANY | PINNABLE, done("model", "compression::large_bodies");
        /// `service_tier = "fast"` is passed on.
        fast_mode: bool = true, ANY | PINNABLE, done("server", "config_effects::fast_mode");
        /// Threads can have goals (`thread/goal/*`). Experimental.
        goals: bool = false, ANY | PINNABLE, done("server", "goals::the_feature_and_the_capability_are_needed");
        /// The model can start sub-agents.
        multi_agent: bool = true, ANY | PINNABLE, AGENTS;
        /// `personality` is passed on to the model.
        personality: bool = true, ANY | PINNABLE, done("server", "config_effects::personality");
        /// The machine does not go to sleep while a turn runs. Experimental.
        prevent_idle_sleep: bool = false, ANY | PINNABLE, Effect::With("desktop integration");
        /// What the profile of a login shell leaves behind is captured once and reused, so that
        /// commands in a login shell do not wait for it.
        shell_snapshot: bool = true, ANY | PINNABLE, done("server", "config_effects::shell_snapshot");
        /// The model can run commands.
        shell_tool: bool = true, ANY | PINNABLE, done("server", "config_effects::shell_tool");
        /// MCP servers that a skill depends on can be installed.
        skill_mcp_dependency_install: bool = true, ANY | PINNABLE, SKILLS;
        /// Approvals go to a reviewing sub-agent first. Experimental.
        smart_approvals: bool = false, ANY | PINNABLE, AGENTS;
        /// Changes of a turn can be undone.
        undo: bool = false, ANY | PINNABLE, Effect::With("undo");
        /// Commands run in terminals that outlive a call (`exec_command`, `write_stdin`); otherwise
        /// the one-shot tool `shell` is offered.
        unified_exec: bool = cfg!(not(windows)), ANY | PINNABLE, done("server", "config_effects::unified_exec");
        /// Deprecated: while `web_search` is unset, `true` counts as `cached`.
        web_search: Option<bool>, ANY, done("config", "resolve::web_search_mode");
        /// Deprecated: while `web_search` is unset, `true` counts as `cached`.
        web_search_cached: Option<bool>, ANY, done("config", "resolve::web_search_mode");
        /// Deprecated: while `web_search` is unset, `true` counts as `live`.
        web_search_request: Option<bool>, ANY, done("config", "resolve::web_search_mode");
    }
}

/// What is wrong with a name that no feature has, and which one was probably meant.
pub fn unknown_feature(name: &str) -> Option<String> {
    let names = || Features::SECTION.entries.iter().map(|entry| entry.name);
    if names().any(|known| known == name) {
        return None;
    }
    let hint = match closest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the features are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Some(format!("there is no feature `{name}`; {hint}"))
}

/// How mature a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Complete.
    Stable,
    /// Usable, and may change.
    Experimental,
    /// Not for use.
    UnderDevelopment,
    /// To be replaced.
    Deprecated,
}

/// The stage of the feature of that name; every feature that is not listed is stable.
pub fn stage(name: &str) -> Stage {
    match name {
        "apps" | "goals" | "prevent_idle_sleep" | "smart_approvals" => Stage::Experimental,
        "codex_hooks" => Stage::UnderDevelopment,
        "web_search" | "web_search_cached" | "web_search_request" => Stage::Deprecated,
        _ => Stage::Stable,
    }
}
