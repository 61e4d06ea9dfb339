//! The switches in `[features]`, and what stage each is in.

use super::parts::{AGENTS, APPS, SKILLS};
use crate::kind::Effect;
use crate::kind::scope::{ANY, PINNABLE};
use crate::options::options;
use crate::suggest::closest;

options! {
    /// `features`.
    pub struct Features {
        /// Connectors to apps. Experimental.
        apps: bool = false, ANY | PINNABLE, APPS;
        /// Lifecycle hooks from `hooks.json`. Under development.
        codex_hooks: bool = false, ANY | PINNABLE, Effect::Pending("hooks");
        /// Large requests to the default provider are sent compressed (zstd).
        enable_request_compression: bool = true, ANY | PINNABLE, Effect::Active;
        /// `service_tier = "fast"` is passed on.
        fast_mode: bool = true, ANY | PINNABLE, Effect::Active;
        /// Threads can have goals (`thread/goal/*`). Experimental.
        goals: bool = false, ANY | PINNABLE, Effect::Active;
        /// The model can start sub-agents.
        multi_agent: bool = true, ANY | PINNABLE, AGENTS;
        /// `personality` is passed on to the model.
        personality: bool = true, ANY | PINNABLE, Effect::Active;
        /// The machine does not go to sleep while a turn runs. Experimental.
        prevent_idle_sleep: bool = false, ANY | PINNABLE, Effect::Pending("desktop integration");
        /// What the profile of a login shell leaves behind is captured once and reused, so that
        /// commands in a login shell do not wait for it.
        shell_snapshot: bool = true, ANY | PINNABLE, Effect::Active;
        /// The model can run commands.
        shell_tool: bool = true, ANY | PINNABLE, Effect::Active;
        /// MCP servers that a skill depends on can be installed.
        skill_mcp_dependency_install: bool = true, ANY | PINNABLE, SKILLS;
        /// Approvals go to a reviewing sub-agent first. Experimental.
        smart_approvals: bool = false, ANY | PINNABLE, AGENTS;
        /// Changes of a turn can be undone.
        undo: bool = false, ANY | PINNABLE, Effect::Pending("undo");
        /// Commands run in terminals that outlive a call (`exec_command`, `write_stdin`); otherwise
        /// the one-shot tool `shell` is offered.
        unified_exec: bool = cfg!(not(windows)), ANY | PINNABLE, Effect::Active;
        /// Deprecated: while `web_search` is unset, `true` counts as `cached`.
        web_search: Option<bool>, ANY, Effect::Active;
        /// Deprecated: while `web_search` is unset, `true` counts as `cached`.
        web_search_cached: Option<bool>, ANY, Effect::Active;
        /// Deprecated: while `web_search` is unset, `true` counts as `live`.
        web_search_request: Option<bool>, ANY, Effect::Active;
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

/// What a client can tell people about an experimental feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The feature's name for people.
    pub display_name: &'static str,
    /// What it brings, one sentence.
    pub text: &'static str,
}

/// Features that may change, by name.
const EXPERIMENTAL: &[(&str, Announcement)] = &[
    (
        "apps",
        Announcement {
            display_name: "Apps",
            text: "Connect apps to a thread, and let the agent use them.",
        },
    ),
    (
        "goals",
        Announcement {
            display_name: "Goals",
            text: "Give a thread a goal: the agent works towards it turn after turn, within a \
                   budget of tokens.",
        },
    ),
    (
        "prevent_idle_sleep",
        Announcement {
            display_name: "Stay awake",
            text: "Keep the computer awake while the agent works.",
        },
    ),
    (
        "smart_approvals",
        Announcement {
            display_name: "Smart approvals",
            text: "Let a reviewing agent answer approval requests before you are asked.",
        },
    ),
];

/// The stage of the feature of that name, as it is in this version: one whose part of the program
/// is missing is under development, however mature it will be.
pub fn stage(name: &str) -> Stage {
    match maturity(name) {
        Stage::Deprecated => Stage::Deprecated,
        _ if !acts(name) => Stage::UnderDevelopment,
        maturity => maturity,
    }
}

/// How mature a feature is, or will be when its part is there. Every feature that is not listed is
/// stable.
pub(crate) fn maturity(name: &str) -> Stage {
    match name {
        "codex_hooks" => Stage::UnderDevelopment,
        "web_search" | "web_search_cached" | "web_search_request" => Stage::Deprecated,
        _ if EXPERIMENTAL.iter().any(|(known, _)| *known == name) => Stage::Experimental,
        _ => Stage::Stable,
    }
}

/// Why a feature cannot be switched on: its part of the program is missing.
pub fn missing_feature(name: &str) -> Option<String> {
    match Features::SECTION.entry(name)?.effect {
        Effect::Pending(part) => Some(format!(
            "`{name}` cannot be switched on: it comes with {part}, which this version does not have"
        )),
        Effect::Active | Effect::Group => None,
    }
}

/// Whether the part of the program that a feature switches is there.
pub fn acts(name: &str) -> bool {
    let entry = Features::SECTION.entry(name);
    entry.is_some_and(|entry| matches!(entry.effect, Effect::Active))
}

/// What to tell people about an experimental feature.
pub fn announcement(name: &str) -> Option<Announcement> {
    let found = EXPERIMENTAL.iter().find(|(known, _)| *known == name);
    found.map(|(_, announcement)| *announcement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_without_its_part_is_under_development() {
        for entry in Features::SECTION.entries {
            let waits = matches!(entry.effect, Effect::Pending(_));
            assert_eq!(stage(entry.name) == Stage::UnderDevelopment, waits, "{}", entry.name);
        }
        assert_eq!(stage("goals"), Stage::Experimental);
        assert_eq!(stage("shell_tool"), Stage::Stable);
        assert_eq!(stage("multi_agent"), Stage::UnderDevelopment);
        assert_eq!(stage("web_search"), Stage::Deprecated);
    }

    #[test]
    fn every_experimental_feature_can_be_announced() {
        for (name, told) in EXPERIMENTAL {
            let entry = Features::SECTION.entry(name).unwrap();
            assert!(!told.display_name.is_empty() && told.text.ends_with('.'), "{name}");
            assert!(entry.doc.contains("Experimental"), "{name}");
        }
    }
}
