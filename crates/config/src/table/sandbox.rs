//! Keys about the sandbox, approvals, permissions and the environment of commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::parts::{MANAGED_NETWORK, WINDOWS};
use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE};
use crate::kind::{Effect, Kind, Reading, Setting, done, misread};
use crate::options::{choices, options};
use crate::value::{Node, Value};

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
choices! {
    /// Access of a permission profile to a file or folder.
    Access { Read = "read", Write = "write", None = "none" }
}
choices! {
    /// `permissions.<name>.network.mode`.
    NetworkMode { Limited = "limited", Full = "full" }
}
choices! {
    /// `windows.sandbox`.
    WindowsSandboxMode { Unelevated = "unelevated", Elevated = "elevated" }
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
    /// The names of the policies that have one.
    pub const NAMES: &'static [&'static str] = &["untrusted", "on-request", "never"];
    /// Further accepted names; the last is deprecated.
    const ALSO: &'static [&'static str] = &["unlessTrusted", "onRequest", "on-failure"];

    /// The policy of that name; `on-failure` counts as `on-request`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "untrusted" | "unlessTrusted" => Some(Self::Untrusted),
            "on-request" | "onRequest" | "on-failure" => Some(Self::OnRequest),
            "never" => Some(Self::Never),
            _ => None,
        }
    }

    /// The name that requirements use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::Never => "never",
            Self::Granular(_) => "granular",
        }
    }
}

impl Setting for ApprovalPolicy {
    const KIND: Kind = Kind::Either(&[
        Kind::Choice(Self::NAMES, Self::ALSO),
        Kind::Table(GranularApproval::SECTION),
    ]);

    fn read(node: &Node, cx: &Reading<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Text(name) => Self::parse(name).ok_or_else(|| misread(node)),
            _ => Ok(Self::Granular(GranularApproval::read(node, cx)?.granular)),
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Granular(granular) => GranularApproval { granular: *granular }.show(),
            named => Some(named.as_str().into()),
        }
    }
}

options! {
    /// The table form of `approval_policy`.
    pub struct GranularApproval {
        /// Pauses only for the kinds of prompts that are `true` here; a prompt of another kind is
        /// refused without asking anybody.
        granular: Granular, ANY | PINNABLE, Effect::Parts;
    }
}
options! {
    /// `approval_policy.granular`: which prompts may surface; one that is not listed does not.
    pub struct Granular {
        /// Prompts to run a command outside the sandbox surface.
        sandbox_approval: bool = false, ANY, done("server", "config_effects::granular");
        /// Prompts that a command rule demands surface.
        rules: bool = false, ANY, done("server", "config_effects::granular");
        /// Questions of MCP servers surface instead of being rejected at once.
        mcp_elicitations: bool = false, ANY, Effect::With("the MCP client");
        /// Prompts of the `request_permissions` tool surface.
        request_permissions: bool = false, ANY, Effect::With("the `request_permissions` tool");
        /// Prompts for the scripts of skills surface.
        skill_approval: bool = false, ANY, Effect::With("skills");
    }
}
impl Copy for Granular {}
impl Eq for Granular {}

options! {
    /// `sandbox_workspace_write`: what `workspace-write` allows beyond the working folder.
    pub struct WorkspaceWrite {
        /// More folders that commands may write in.
        writable_roots: Vec<PathBuf>, ANY, done("server", "config_effects::workspace_write");
        /// Commands reach the network.
        network_access: bool = false, ANY, done("server", "config_effects::workspace_write");
        /// `/tmp` is not writable.
        exclude_slash_tmp: bool = false, ANY, done("server", "config_effects::workspace_write");
        /// The folder that `$TMPDIR` names is not writable.
        exclude_tmpdir_env_var: bool = false, ANY, done("server", "config_effects::workspace_write");
    }
}

options! {
    /// A permission profile: what sandboxed commands may touch, path by path.
    pub struct Permissions {
        /// Absolute paths, paths from `~/`, or the tokens `:root` (everything), `:minimal` (what
        /// programs of the system need to run, read-only), `:project_roots` (the project's root),
        /// `:tmpdir` and `:slash_tmp`. The deepest rule that covers a path decides; what no rule
        /// covers cannot be read. A value is an access, or a table from subpaths (`.` is the
        /// folder itself) to accesses.
        filesystem: BTreeMap<String, FileAccess>, ANY, done("server", "permissions::filesystem");
        /// The network of commands under this profile.
        network: NetworkPermissions, ANY, Effect::Parts;
    }
}

/// The value of `permissions.<name>.filesystem.<path>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAccess {
    /// One access for the path and what lies below it.
    Whole(Access),
    /// An access a subpath.
    Nested(BTreeMap<String, Access>),
}

impl Setting for FileAccess {
    const KIND: Kind = Kind::Either(&[Access::KIND, <BTreeMap<String, Access> as Setting>::KIND]);
    const PART: &'static str = "<path>";

    fn read(node: &Node, cx: &Reading<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Table(_) => BTreeMap::read(node, cx).map(Self::Nested),
            _ => Access::read(node, cx).map(Self::Whole),
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Self::Whole(access) => access.show(),
            Self::Nested(all) => all.show(),
        }
    }
}

options! {
    /// `permissions.<name>.network`.
    pub struct NetworkPermissions {
        /// Commands reach the network. Together with a key that only the managed proxy can
        /// enforce, the network stays off until the proxy exists.
        enabled: bool = false, ANY, done("server", "permissions::network");
        /// Through the managed proxy: `limited` lets only reading requests to allowed domains
        /// out, `full` every request.
        mode: Option<NetworkMode>, ANY, MANAGED_NETWORK;
        /// Domains that the managed proxy lets through.
        allowed_domains: Vec<String>, ANY, MANAGED_NETWORK;
        /// Domains that it never lets through.
        denied_domains: Vec<String>, ANY, MANAGED_NETWORK;
        /// Unix sockets that commands may connect to.
        allow_unix_sockets: Vec<String>, ANY, MANAGED_NETWORK;
        /// Commands may connect to every Unix socket.
        dangerously_allow_all_unix_sockets: bool = false, ANY, MANAGED_NETWORK;
        /// Commands may bind and listen on this machine.
        allow_local_binding: bool = false, ANY, MANAGED_NETWORK;
        /// The managed proxy may go through another proxy.
        allow_upstream_proxy: bool = false, ANY, MANAGED_NETWORK;
        /// The managed proxy may listen on an address that others reach.
        dangerously_allow_non_loopback_proxy: bool = false, ANY, MANAGED_NETWORK;
        /// The managed proxy speaks SOCKS5 too.
        enable_socks5: bool = false, ANY, MANAGED_NETWORK;
        /// UDP over SOCKS5.
        enable_socks5_udp: bool = false, ANY, MANAGED_NETWORK;
        /// Address of the managed proxy for HTTP.
        proxy_url: Option<String>, ANY, MANAGED_NETWORK;
        /// Address of the managed proxy for SOCKS5.
        socks_url: Option<String>, ANY, MANAGED_NETWORK;
    }
}

impl NetworkPermissions {
    /// Whether a key is set that only the managed proxy can enforce.
    pub fn needs_proxy(&self) -> bool {
        let open =
            Self { enabled: self.enabled, ..Self::absent().expect("every key has a default") };
        // Loosenings that the proxy would grant do not need it to be denied.
        *self != open
            && (self.mode.is_some()
                || !self.allowed_domains.is_empty()
                || !self.denied_domains.is_empty()
                || self.proxy_url.is_some()
                || self.socks_url.is_some())
    }
}

options! {
    /// `shell_environment_policy`: the environment of every command, in the order of its fields.
    pub struct ShellEnvironmentPolicy {
        /// Where the environment of a command starts from: everything, what a shell needs, nothing.
        inherit: EnvironmentInherit = EnvironmentInherit::All, ANY, done("server", "config_effects::shell_environment");
        /// Keeps variables whose name contains KEY, SECRET or TOKEN; otherwise they are removed
        /// first.
        ignore_default_excludes: bool = false, ANY, done("server", "config_effects::shell_environment");
        /// Variables whose name fits one of these globs are removed.
        exclude: Vec<String>, ANY, done("server", "config_effects::shell_environment");
        /// Set in every command, after the removals.
        set: BTreeMap<String, String>, ANY, done("server", "config_effects::shell_environment");
        /// When not empty, only variables whose name fits one of these globs are kept.
        include_only: Vec<String>, ANY, done("server", "config_effects::shell_environment");
        /// Commands run through the user's shell profile.
        experimental_use_profile: bool = false, ANY, done("server", "config_effects::shell_profile");
    }
}

impl Default for ShellEnvironmentPolicy {
    fn default() -> Self {
        Self::absent().expect("every key has a default")
    }
}

options! {
    /// `windows`: the sandbox on Windows.
    pub struct Windows {
        /// Which native sandbox confines commands.
        sandbox: Option<WindowsSandboxMode>, ANY, WINDOWS;
        /// Commands run on a desktop of their own; `false` is for old programs only.
        sandbox_private_desktop: bool = true, ANY, WINDOWS;
    }
}
