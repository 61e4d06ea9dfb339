//! Keys about the sandbox, approvals, permissions and the environment of commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::parts::WINDOWS;
use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE};
use crate::kind::{Effect, Kind, Reading, Setting, error};
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
            Value::Text(name) => Self::parse(name).ok_or_else(|| error(node)),
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
        granular: Granular, ANY | PINNABLE, Effect::Group;
    }
}
options! {
    /// `approval_policy.granular`: which prompts may surface; one that is not listed does not.
    pub struct Granular {
        /// Prompts to run a command outside the sandbox surface.
        sandbox_approval: bool = false, ANY, Effect::Active;
        /// Prompts that a command rule demands surface.
        rules: bool = false, ANY, Effect::Active;
        /// Questions of MCP servers surface instead of being rejected at once.
        mcp_elicitations: bool = false, ANY, Effect::Pending("the MCP client");
        /// Prompts of the `request_permissions` tool surface.
        request_permissions: bool = false, ANY, Effect::Pending("the `request_permissions` tool");
        /// Prompts for the scripts of skills surface.
        skill_approval: bool = false, ANY, Effect::Pending("skills");
    }
}
impl Copy for Granular {}
impl Eq for Granular {}

options! {
    /// `sandbox_workspace_write`: what `workspace-write` allows beyond the working folder.
    pub struct WorkspaceWrite {
        /// More folders that commands may write in.
        writable_roots: Vec<PathBuf>, ANY, Effect::Active;
        /// Commands reach the network.
        network_access: bool = false, ANY, Effect::Active;
        /// `/tmp` is not writable.
        exclude_slash_tmp: bool = false, ANY, Effect::Active;
        /// The folder that `$TMPDIR` names is not writable.
        exclude_tmpdir_env_var: bool = false, ANY, Effect::Active;
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
        filesystem: BTreeMap<String, FileAccess>, ANY, Effect::Active;
        /// The network of commands under this profile.
        network: NetworkPermissions, ANY, Effect::Group;
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
        /// Commands reach the network. Together with any other key of this table they reach it
        /// through the managed proxy alone, which lets through what the keys allow.
        enabled: bool = false, ANY, Effect::Active;
        /// What the managed proxy lets through: `full` every connection, `limited` only plain HTTP
        /// requests that read, because what is inside of TLS cannot be seen.
        mode: Option<NetworkMode>, ANY, Effect::Active;
        /// Hosts that the managed proxy lets through without asking: a name or an address,
        /// `*.name` for what is below it, `**.name` for both, `*` for all. A host that resolves to
        /// a private address is refused all the same.
        allowed_domains: Vec<String>, ANY, Effect::Active;
        /// Hosts that it never lets through, whatever else allows them; patterns as above.
        denied_domains: Vec<String>, ANY, Effect::Active;
        /// Absolute paths of Unix sockets that a request to the managed proxy may name in its
        /// header `x-unix-socket`.
        allow_unix_sockets: Vec<String>, ANY, Effect::Active;
        /// A request may name every Unix socket.
        dangerously_allow_all_unix_sockets: bool = false, ANY, Effect::Active;
        /// Private addresses, of this machine and its network, may be reached through the managed
        /// proxy. A command may always listen on the loopback interface of its own.
        allow_local_binding: bool = false, ANY, Effect::Active;
        /// The managed proxy goes through the HTTP proxy that the server's own environment names
        /// (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`; not for the hosts of `NO_PROXY`).
        allow_upstream_proxy: bool = false, ANY, Effect::Active;
        /// `proxy_url` and `socks_url` may name an address other than loopback. The proxy still
        /// stands inside the command's own network, where nobody else is.
        dangerously_allow_non_loopback_proxy: bool = false, ANY, Effect::Active;
        /// The managed proxy speaks SOCKS5 too.
        enable_socks5: bool = false, ANY, Effect::Active;
        /// UDP over SOCKS5; needs `enable_socks5`.
        enable_socks5_udp: bool = false, ANY, Effect::Active;
        /// Where commands find the managed proxy; `http://127.0.0.1:3128` when not set.
        proxy_url: Option<String>, ANY, Effect::Active;
        /// Where commands find its SOCKS5 side; `socks5://127.0.0.1:1080` when not set.
        socks_url: Option<String>, ANY, Effect::Active;
    }
}

impl NetworkPermissions {
    /// Whether a key is set that only the managed proxy can enforce.
    pub fn needs_proxy(&self) -> bool {
        *self != Self { enabled: self.enabled, ..Self::default() }
    }
}

impl Default for NetworkPermissions {
    fn default() -> Self {
        Self::absent().expect("every key has a default")
    }
}

options! {
    /// `shell_environment_policy`: the environment of every command, in the order of its fields.
    pub struct ShellEnvironmentPolicy {
        /// Where the environment of a command starts from: everything, what a shell needs, nothing.
        inherit: EnvironmentInherit = EnvironmentInherit::All, ANY, Effect::Active;
        /// Keeps variables whose name contains KEY, SECRET or TOKEN; otherwise they are removed
        /// first.
        ignore_default_excludes: bool = false, ANY, Effect::Active;
        /// Variables whose name fits one of these globs are removed.
        exclude: Vec<String>, ANY, Effect::Active;
        /// Set in every command, after the removals.
        set: BTreeMap<String, String>, ANY, Effect::Active;
        /// When not empty, only variables whose name fits one of these globs are kept.
        include_only: Vec<String>, ANY, Effect::Active;
        /// Commands run through the user's shell profile.
        experimental_use_profile: bool = false, ANY, Effect::Active;
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
