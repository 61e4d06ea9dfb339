//! Keys about the sandbox, approvals, permissions and the environment of commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::parts::WINDOWS;
use crate::error::Error;
use crate::kind::scope::{ANY, PINNABLE};
use crate::kind::{Effect, Kind, ReadContext, Setting, Whole, unexpected_value};
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
    /// `approvals_reviewer`: who decides about approvals.
    ApprovalsReviewer {
        User = "user",
        AutoReview = "auto_review",
        /// The earlier name of `auto_review`.
        GuardianSubagent = "guardian_subagent",
    }
}
choices! {
    /// `shell_environment_policy.inherit`: the variables that a command inherits.
    EnvironmentInherit {
        All = "all",
        /// Only what a shell needs: `HOME`, `PATH`, `USER`, `SHELL`, `LANG`, `TERM`, `TMPDIR`, …
        Core = "core",
        None = "none",
    }
}
choices! {
    /// The access that a permission profile grants to a file or folder.
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

impl ApprovalsReviewer {
    /// The reviewer when none is set; `is_on`: the feature `smart_approvals`.
    pub(crate) fn default_with(is_on: bool) -> Self {
        if is_on { Self::AutoReview } else { Self::User }
    }
}

/// `approval_policy`: when a turn pauses to ask for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Asks about every command that is not known to be harmless (`untrusted`, `unlessTrusted`).
    Untrusted,
    /// Asks when the sandbox is not enough (`on-request`, `onRequest`).
    OnRequest,
    /// Refuses what would need an approval.
    Never,
    /// Asks only prompts of the listed kinds, and refuses the others.
    Granular(Granular),
}

impl ApprovalPolicy {
    /// The names of the policies that are not tables.
    pub const NAMES: &'static [&'static str] = &["untrusted", "on-request", "never"];
    /// Alternative names; the last one is deprecated.
    const ALSO: &'static [&'static str] = &["unlessTrusted", "onRequest", "on-failure"];

    /// The policy with this name; `on-failure` means `on-request`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "untrusted" | "unlessTrusted" => Some(Self::Untrusted),
            "on-request" | "onRequest" | "on-failure" => Some(Self::OnRequest),
            "never" => Some(Self::Never),
            _ => None,
        }
    }

    /// The name in requirements.
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

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Text(name) => Self::parse(name).ok_or_else(|| unexpected_value(node)),
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
        /// Asks only prompts whose kind is `true` here; prompts of other kinds are refused.
        granular: Granular, ANY | PINNABLE, Effect::Group;
    }
}
options! {
    /// `approval_policy.granular`: the kinds of prompts that the user is asked.
    pub struct Granular {
        /// Prompts to run a command outside of the sandbox.
        sandbox_approval: bool = false, ANY, Effect::Active;
        /// Prompts that a command rule requires.
        rules: bool = false, ANY, Effect::Active;
        /// Questions of MCP servers, which are otherwise rejected.
        mcp_elicitations: bool = false, ANY, Effect::Active;
        /// Prompts of the tool `request_permissions`.
        request_permissions: bool = false, ANY, Effect::Active;
        /// Prompts to run scripts of skills, in place of those of `sandbox_approval`.
        skill_approval: bool = false, ANY, Effect::Active;
    }
}
impl Copy for Granular {}
impl Eq for Granular {}

options! {
    /// `sandbox_workspace_write`: what `workspace-write` allows beyond the working folder.
    pub struct WorkspaceWrite {
        /// Additional folders that commands may write.
        writable_roots: Vec<PathBuf>, ANY, Effect::Active;
        /// Commands have network access.
        network_access: bool = false, ANY, Effect::Active;
        /// `/tmp` is not writable.
        exclude_slash_tmp: bool = false, ANY, Effect::Active;
        /// The folder that `$TMPDIR` names is not writable.
        exclude_tmpdir_env_var: bool = false, ANY, Effect::Active;
    }
}

/// A number of MiB; 0: no limit.
pub type Mebibytes = Whole<0, { 1 << 40 }>;
/// A number of processes; 0: no limit.
pub type Processes = Whole<0, 4_194_304>;
/// Seconds on processors; 0: no limit.
pub type CpuSeconds = Whole<0, 31_536_000>;

options! {
    /// `command_limits`: what a command may use, together with all processes that it starts.
    pub struct CommandLimits {
        /// Memory and swap in MiB; 0: no limit. The default is three quarters of the memory of the machine, or of the
        /// container that the server runs in.
        memory_mib: Option<Mebibytes>, ANY | PINNABLE, Effect::Active;
        /// Processes and their threads at a time; 0: no limit.
        processes: Processes = Whole::new(4_096), ANY | PINNABLE, Effect::Active;
        /// Time on processors in seconds; 0: no limit.
        cpu_seconds: CpuSeconds = Whole::new(0), ANY | PINNABLE, Effect::Active;
        /// MiB written to disk; 0: no limit.
        disk_written_mib: Mebibytes = Whole::new(65_536), ANY | PINNABLE, Effect::Active;
        /// Largest size in MiB of a file that the command writes; 0: no limit.
        file_mib: Mebibytes = Whole::new(32_768), ANY | PINNABLE, Effect::Active;
        /// MiB that the command prints; 0: no limit. What the model and clients get is shortened in any case.
        output_mib: Mebibytes = Whole::new(0), ANY | PINNABLE, Effect::Active;
        /// Added to the niceness of commands, so that the server and other programs go first.
        nice: Whole<0, 19> = Whole::new(5), ANY, Effect::Active;
    }
}
options! {
    /// `thread_limits`: what all commands of a thread may use together. The one that uses the most is ended.
    pub struct ThreadLimits {
        /// Memory and swap in MiB of the commands that run; 0: no limit. The default is that of a command.
        memory_mib: Option<Mebibytes>, ANY | PINNABLE, Effect::Active;
        /// Processes and threads of the commands that run; 0: no limit.
        processes: Processes = Whole::new(8_192), ANY | PINNABLE, Effect::Active;
        /// Time on processors in seconds, of all commands since the thread was loaded; 0: no limit.
        cpu_seconds: CpuSeconds = Whole::new(0), ANY | PINNABLE, Effect::Active;
        /// MiB written to disk by all commands since the thread was loaded; 0: no limit.
        disk_written_mib: Mebibytes = Whole::new(0), ANY | PINNABLE, Effect::Active;
    }
}

options! {
    /// A permission profile: what sandboxed commands may read and write, path by path.
    pub struct Permissions {
        /// Absolute paths, paths from `~/`, or the tokens `:root` (everything), `:minimal` (what
        /// the system's programs need to run, read-only), `:project_roots` (the project's root),
        /// `:tmpdir` and `:slash_tmp`. The deepest rule that covers a path applies; what no rule
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
    /// An access for the path and everything below it.
    Whole(Access),
    /// An access for each subpath.
    Nested(BTreeMap<String, Access>),
}

impl Setting for FileAccess {
    const KIND: Kind = Kind::Either(&[Access::KIND, <BTreeMap<String, Access> as Setting>::KIND]);
    const PART: &'static str = "<path>";

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
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
        /// Commands have network access. If any other key of this table is set, they have it only
        /// through the managed proxy, which allows what the keys allow.
        enabled: bool = false, ANY, Effect::Active;
        /// The connections that the managed proxy allows: `full` allows every connection, `limited`
        /// only HTTP requests that read, without TLS, whose contents the proxy cannot see.
        mode: Option<NetworkMode>, ANY, Effect::Active;
        /// Hosts that the managed proxy allows without asking: a name or an address, `*.name` for
        /// subdomains, `**.name` for both, `*` for all. A host that resolves to a private address
        /// is still refused.
        allowed_domains: Vec<String>, ANY, Effect::Active;
        /// Hosts that it always refuses; patterns as in `allowed_domains`.
        denied_domains: Vec<String>, ANY, Effect::Active;
        /// Absolute paths of Unix sockets that a request to the managed proxy may name in its
        /// header `x-unix-socket`.
        allow_unix_sockets: Vec<String>, ANY, Effect::Active;
        /// A request may name any Unix socket.
        dangerously_allow_all_unix_sockets: bool = false, ANY, Effect::Active;
        /// The managed proxy allows private addresses, those of this machine and of its network. A
        /// command may always listen on its own loopback interface. `localhost`, `127.0.0.1` and `::1`
        /// mean that interface, unless `allowed_domains` names them: then programs reach this machine.
        allow_local_binding: bool = false, ANY, Effect::Active;
        /// The managed proxy uses the HTTP proxy that the server's own environment names
        /// (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`; not for the hosts of `NO_PROXY`).
        allow_upstream_proxy: bool = false, ANY, Effect::Active;
        /// `proxy_url` and `socks_url` may name an address other than loopback. The proxy still
        /// listens only in the command's own network.
        dangerously_allow_non_loopback_proxy: bool = false, ANY, Effect::Active;
        /// The managed proxy also speaks SOCKS5.
        enable_socks5: bool = false, ANY, Effect::Active;
        /// UDP over SOCKS5; needs `enable_socks5`.
        enable_socks5_udp: bool = false, ANY, Effect::Active;
        /// Address of the managed proxy for commands; `http://127.0.0.1:3128` by default.
        proxy_url: Option<String>, ANY, Effect::Active;
        /// Address of its SOCKS5 port for commands; `socks5://127.0.0.1:1080` by default.
        socks_url: Option<String>, ANY, Effect::Active;
    }
}

impl NetworkPermissions {
    /// Returns whether a key is set that only the managed proxy can enforce.
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
    /// `shell_environment_policy`: the environment of every command. Applied in the order of the
    /// fields.
    pub struct ShellEnvironmentPolicy {
        /// The variables that a command inherits: all, those that a shell needs, or none.
        inherit: EnvironmentInherit = EnvironmentInherit::All, ANY, Effect::Active;
        /// Keeps variables whose name contains KEY, SECRET or TOKEN, which are otherwise removed.
        ignore_default_excludes: bool = false, ANY, Effect::Active;
        /// Removes variables whose name matches one of these globs.
        exclude: Vec<String>, ANY, Effect::Active;
        /// Variables to set in every command, after the removals.
        set: BTreeMap<String, String>, ANY, Effect::Active;
        /// When not empty, keeps only variables whose name matches one of these globs.
        include_only: Vec<String>, ANY, Effect::Active;
        /// Commands run with the user's shell profile.
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
        /// The native sandbox that confines commands.
        sandbox: Option<WindowsSandboxMode>, ANY, WINDOWS;
        /// Commands run on a separate desktop; `false` supports old programs.
        sandbox_private_desktop: bool = true, ANY, WINDOWS;
    }
}
