//! The values that keys resolve to. Their names on disk are the specification's; they are not wire
//! types and carry no behaviour.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// An enumeration with the names that a configuration file writes.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every name, in the specification's order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The value of that exact name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The name as a configuration file writes it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }
    };
}

choices! {
    /// `model_reasoning_effort`: how much the model thinks before it answers.
    ReasoningEffort { Minimal = "minimal", Low = "low", Medium = "medium", High = "high", XHigh = "xhigh" }
}
choices! {
    /// `model_reasoning_summary`: how detailed the summaries of its reasoning are.
    ReasoningSummary { Auto = "auto", Concise = "concise", Detailed = "detailed", None = "none" }
}
choices! {
    /// `model_verbosity`: how long answers are.
    Verbosity { Low = "low", Medium = "medium", High = "high" }
}
choices! {
    /// `personality`: the style of answers, for models that have one.
    Personality { None = "none", Friendly = "friendly", Pragmatic = "pragmatic" }
}
choices! {
    /// `service_tier`: the preferred tier at the provider.
    ServiceTier { Flex = "flex", Fast = "fast" }
}
choices! {
    /// `sandbox_mode`: what commands may do to files and the network.
    SandboxMode {
        ReadOnly = "read-only",
        WorkspaceWrite = "workspace-write",
        DangerFullAccess = "danger-full-access",
    }
}
choices! {
    /// `shell_environment_policy.inherit`: the environment that a command starts from.
    EnvironmentInherit {
        All = "all",
        /// Only what a shell needs: `HOME`, `PATH`, `USER`, `SHELL`, `LANG`, `TERM`, `TMPDIR`, …
        Core = "core",
        None = "none",
    }
}

/// `approval_policy`: when a turn pauses and asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Asks for every command that is not known to be harmless (`untrusted`, `unlessTrusted`).
    Untrusted,
    /// Asks when the sandbox is not enough (`on-request`, `onRequest`).
    OnRequest,
    /// Never asks; what would need an approval is refused.
    Never,
    /// Asks for the listed kinds of prompts only; the others are refused without asking.
    Granular(Granular),
}

impl ApprovalPolicy {
    /// Every accepted name of the policies that have one; the last is deprecated.
    pub const NAMES: &'static [&'static str] =
        &["untrusted", "on-request", "never", "unlessTrusted", "onRequest", "on-failure"];

    /// The policy of that name; `on-failure` counts as `on-request`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "untrusted" | "unlessTrusted" => Some(Self::Untrusted),
            "on-request" | "onRequest" | "on-failure" => Some(Self::OnRequest),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// `approval_policy.granular`: which prompts may surface; one that is not listed does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Granular {
    /// Prompts to run outside the sandbox.
    pub sandbox_approval: bool,
    /// Prompts of command rules.
    pub rules: bool,
    /// Questions of MCP servers.
    pub mcp_elicitations: bool,
    /// Prompts of the `request_permissions` tool.
    pub request_permissions: bool,
    /// Prompts for scripts of skills.
    pub skill_approval: bool,
}

/// `sandbox_workspace_write`: what `workspace-write` allows beyond the working folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceWrite {
    /// Absolute paths.
    pub writable_roots: Vec<PathBuf>,
    /// Outbound network for commands.
    pub network_access: bool,
    /// `/tmp` is not writable.
    pub exclude_slash_tmp: bool,
    /// `$TMPDIR` is not writable.
    pub exclude_tmpdir_env_var: bool,
}

/// `shell_environment_policy`: the environment of every command, in the order of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellEnvironmentPolicy {
    /// Where to start from; default `all`.
    pub inherit: EnvironmentInherit,
    /// False (default): variables whose name holds KEY, SECRET or TOKEN are removed first.
    pub ignore_default_excludes: bool,
    /// Globs of names to remove.
    pub exclude: Vec<String>,
    /// Set in every command, after the removals.
    pub set: BTreeMap<String, String>,
    /// When not empty, only names that match one of these patterns are kept.
    pub include_only: Vec<String>,
    /// Runs commands through the user's shell profile; default false.
    pub experimental_use_profile: bool,
}

impl Default for ShellEnvironmentPolicy {
    fn default() -> Self {
        Self {
            inherit: EnvironmentInherit::All,
            ignore_default_excludes: false,
            exclude: Vec::new(),
            set: BTreeMap::new(),
            include_only: Vec::new(),
            experimental_use_profile: false,
        }
    }
}
