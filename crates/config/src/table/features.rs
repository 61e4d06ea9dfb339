//! The switches in `[features]`, and the stage of each.

use crate::kind::Effect;
use crate::kind::scope::{ANY, PINNABLE, USER};
use crate::options::options;
use crate::suggest::closest;

options! {
    /// `features`.
    pub struct Features {
        /// Connectors of MCP servers count as apps (`apps`, `app/list`). Experimental.
        apps: bool = false, ANY | PINNABLE, Effect::Active;
        /// Lifecycle hooks from `hooks.json`. Under development.
        codex_hooks: bool = false, USER | PINNABLE, Effect::Active;
        /// Large requests to the default provider are compressed (zstd), unless `default_provider_base_url` is set.
        enable_request_compression: bool = true, ANY | PINNABLE, Effect::Active;
        /// `service_tier = "fast"` is sent to the provider.
        fast_mode: bool = true, ANY | PINNABLE, Effect::Active;
        /// Another name of `codex_hooks`: hooks are on when either is `true`, unless requirements pin
        /// one of them to `false`.
        hooks: Option<bool>, USER | PINNABLE, Effect::Active;
        /// Threads can have goals (`thread/goal/*`). Experimental.
        goals: bool = false, ANY | PINNABLE, Effect::Active;
        /// Threads leave notes for later ones in the agent's home. Experimental.
        memories: bool = false, USER | PINNABLE, Effect::Active;
        /// The model can start sub-agents.
        multi_agent: bool = true, ANY | PINNABLE, Effect::Active;
        /// `personality` is sent to the model.
        personality: bool = true, ANY | PINNABLE, Effect::Active;
        /// Keep the machine from going to sleep by itself while a turn runs: `systemd-inhibit` or, on
        /// macOS, `caffeinate` keeps it awake. Experimental.
        prevent_idle_sleep: bool = false, ANY | PINNABLE, Effect::Active;
        /// The environment that the profile of a login shell sets up is captured once and reused,
        /// so that commands in a login shell do not wait for it.
        shell_snapshot: bool = true, ANY | PINNABLE, Effect::Active;
        /// The model can run commands.
        shell_tool: bool = true, ANY | PINNABLE, Effect::Active;
        /// MCP servers that a skill depends on can be installed.
        skill_mcp_dependency_install: bool = true, ANY | PINNABLE, Effect::Active;
        /// A model reviews approvals in the user's place when `approvals_reviewer` is unset.
        /// Experimental.
        smart_approvals: bool = false, ANY | PINNABLE, Effect::Active;
        /// Record the changes that turns make in files, so that `thread/rollback` can undo them.
        undo: bool = false, ANY | PINNABLE, Effect::Active;
        /// Commands run in terminals that outlive a call (`exec_command`, `write_stdin`); otherwise
        /// the model is offered the one-shot tool `shell`.
        unified_exec: bool = cfg!(not(windows)), ANY | PINNABLE, Effect::Active;
        /// Deprecated: if `web_search` is unset, `true` means `cached`.
        web_search: Option<bool>, ANY, Effect::Active;
        /// Deprecated: if `web_search` is unset, `true` means `cached`.
        web_search_cached: Option<bool>, ANY, Effect::Active;
        /// Deprecated: if `web_search` is unset, `true` means `live`.
        web_search_request: Option<bool>, ANY, Effect::Active;
    }
}

/// The error message for an unknown feature, with the name that it resembles; `None` if it exists.
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

/// The maturity of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Complete.
    Stable,
    /// Usable, but can change.
    Experimental,
    /// Not for use yet.
    UnderDevelopment,
    /// Has a replacement.
    Deprecated,
}

/// The description of an experimental feature, for clients to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// Display name.
    pub display_name: &'static str,
    /// Description of the feature, one sentence.
    pub text: &'static str,
}

/// The experimental features, by name.
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
        "memories",
        Announcement {
            display_name: "Memories",
            text: "Keep short notes of what threads learned, and give them to later threads.",
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
            text: "Let a reviewing model decide about approvals in your place.",
        },
    ),
];

/// The stage of a feature. One that is not listed is stable.
pub fn stage(name: &str) -> Stage {
    match name {
        "codex_hooks" | "hooks" => Stage::UnderDevelopment,
        "web_search" | "web_search_cached" | "web_search_request" => Stage::Deprecated,
        _ if EXPERIMENTAL.iter().any(|(known, _)| *known == name) => Stage::Experimental,
        _ => Stage::Stable,
    }
}

/// The description of an experimental feature.
pub fn announcement(name: &str) -> Option<Announcement> {
    let found = EXPERIMENTAL.iter().find(|(known, _)| *known == name);
    found.map(|(_, announcement)| *announcement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_their_stages() {
        assert_eq!(stage("goals"), Stage::Experimental);
        assert_eq!(stage("shell_tool"), Stage::Stable);
        assert_eq!(stage("hooks"), Stage::UnderDevelopment);
        assert_eq!(stage("web_search"), Stage::Deprecated);
    }

    #[test]
    fn every_experimental_feature_has_an_announcement() {
        for (name, announcement) in EXPERIMENTAL {
            let entry = Features::SECTION.entry(name).unwrap();
            assert!(
                !announcement.display_name.is_empty() && announcement.text.ends_with('.'),
                "{name}"
            );
            assert!(entry.doc.contains("Experimental"), "{name}");
        }
    }
}
