//! The keys of `requirements.toml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::sandbox::{ApprovalsReviewer, SandboxMode};
use super::tools::WebSearch;
use crate::error::Error;
use crate::kind::scope::ANY;
use crate::kind::{Effect, Kind, ReadContext, Setting, Whole, unexpected_value};
use crate::options::{choices, options};
use crate::value::Node;

choices! {
    /// A value of `allowed_approval_policies`.
    AllowedApproval {
        Untrusted = "untrusted",
        OnRequest = "on-request",
        Never = "never",
        Granular = "granular",
    }
}
choices! {
    /// The decision of a required command rule.
    RequiredDecision { Prompt = "prompt", Forbidden = "forbidden" }
}

options! {
    /// Every key of `requirements.toml`.
    pub struct RequirementsFile {
        /// The values that `approval_policy` may have; `granular` allows every table.
        allowed_approval_policies: Option<Vec<AllowedApproval>>, ANY, Effect::Active;
        /// The values that `approvals_reviewer` may have; `auto_review` and `guardian_subagent` are one
        /// value.
        allowed_approvals_reviewers: Option<Vec<ApprovalsReviewer>>, ANY, Effect::Active;
        /// The values that `sandbox_mode` may have.
        allowed_sandbox_modes: Option<Vec<SandboxMode>>, ANY, Effect::Active;
        /// The values that `web_search` may have; `disabled` is always allowed.
        allowed_web_search_modes: Option<Vec<WebSearch>>, ANY, Effect::Active;
        /// The highest limits that a command may have.
        command_limits: RequiredCommandLimits, ANY, Effect::Group;
        /// Features that must be on (`true`) or off (`false`), by their names in `[features]`.
        features: BTreeMap<String, bool>, ANY, Effect::Active;
        /// Hooks of the administrator, by event, in the form of `hooks.json`. They run without a sandbox,
        /// and users cannot switch them off.
        hooks: RequiredHooks, ANY, Effect::Active;
        /// The MCP servers that may be used, by name; both name and identity must match.
        mcp_servers: Option<BTreeMap<String, AllowedServer>>, ANY, Effect::Active;
        /// Where plugins may come from.
        plugins: AllowedPlugins, ANY, Effect::Group;
        /// Command rules that apply in addition to those of `.rules` files.
        rules: Rules, ANY, Effect::Group;
        /// The highest limits that the commands of a thread may have together.
        thread_limits: RequiredThreadLimits, ANY, Effect::Group;
    }
}
/// The highest value of a limit.
type Ceiling = Whole<1, { 1 << 40 }>;
options! {
    /// `command_limits`: the highest values of the keys of the same names.
    pub struct RequiredCommandLimits {
        /// Highest value of `command_limits.memory_mib`: MiB of memory and swap of a command.
        memory_mib: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `command_limits.processes`: processes and threads of a command.
        processes: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `command_limits.cpu_seconds`: seconds of processor time of a command.
        cpu_seconds: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `command_limits.disk_written_mib`: MiB that a command writes to disk.
        disk_written_mib: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `command_limits.file_mib`: MiB of a file that a command writes.
        file_mib: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `command_limits.output_mib`: MiB that a command prints.
        output_mib: Option<Ceiling>, ANY, Effect::Active;
    }
}
options! {
    /// `thread_limits`: the highest values of the keys of the same names.
    pub struct RequiredThreadLimits {
        /// Highest value of `thread_limits.memory_mib`: MiB of memory and swap of a thread's running commands.
        memory_mib: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `thread_limits.processes`: processes and threads of a thread's running commands.
        processes: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `thread_limits.cpu_seconds`: seconds of processor time of all commands of a thread.
        cpu_seconds: Option<Ceiling>, ANY, Effect::Active;
        /// Highest value of `thread_limits.disk_written_mib`: MiB that all commands of a thread write to disk.
        disk_written_mib: Option<Ceiling>, ANY, Effect::Active;
    }
}
options! {
    /// `mcp_servers.<id>`.
    #[part("<id>")]
    pub struct AllowedServer {
        /// The identity that the server must have.
        identity: Identity, ANY, Effect::Group;
    }
}
options! {
    /// `mcp_servers.<id>.identity`: exactly one of the two.
    pub struct Identity {
        /// The server's `command`.
        command: Option<String>, ANY, Effect::Active;
        /// The server's `url`.
        url: Option<String>, ANY, Effect::Active;
    }
}
options! {
    /// `plugins`.
    pub struct AllowedPlugins {
        /// The marketplaces that plugins may be installed and used from; an empty list forbids all.
        allowed_marketplaces: Option<Vec<AllowedMarketplace>>, ANY, Effect::Active;
    }
}
options! {
    /// `plugins.allowed_marketplaces[]`: exactly one of `url` and `path`.
    pub struct AllowedMarketplace {
        /// Address of its git repository.
        url: Option<String>, ANY, Effect::Active;
        /// Its folder, an absolute path.
        path: Option<PathBuf>, ANY, Effect::Active;
        /// The branch, tag or commit that it must be added with.
        reference as "ref": Option<String>, ANY, Effect::Active;
        /// The commit that it must be at: 40 hexadecimal digits.
        sha: Option<String>, ANY, Effect::Active;
    }
}
options! {
    /// `rules`.
    pub struct Rules {
        /// The rules. The strictest rule that matches a command applies.
        prefix_rules: Vec<PrefixRule>, ANY, Effect::Active;
    }
}
options! {
    /// `rules.prefix_rules[]`.
    pub struct PrefixRule {
        /// The first words of a command.
        pattern: Vec<Token>, ANY, Effect::Active;
        /// The decision about such a command: ask for an approval, or refuse it.
        decision: Option<RequiredDecision>, ANY, Effect::Active;
        /// The reason, shown with the question or the refusal.
        justification: Option<String>, ANY, Effect::Active;
    }
}
options! {
    /// `rules.prefix_rules[].pattern[]`: exactly one of the two.
    pub struct Token {
        /// The word in this position.
        token: Option<String>, ANY, Effect::Active;
        /// The words allowed in this position.
        any_of: Vec<String>, ANY, Effect::Active;
    }
}

/// `hooks`: the groups of each event, as the crate `hooks` reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequiredHooks(pub Map<String, Json>);

impl Setting for RequiredHooks {
    /// The inside of a handler is checked by the crate `hooks`, which knows its kinds.
    const KIND: Kind = Kind::Map("<event>", &Kind::List(&GROUP));

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn read(node: &Node, _: &ReadContext<'_>) -> Result<Self, Error> {
        match node.value.to_json() {
            Json::Object(events) => Ok(Self(events)),
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        Some(Json::Object(self.0.clone()))
    }
}

const WHOLE: Kind = Kind::Whole { min: 0, max: i64::MAX as u64 };
const GROUP: Kind = Kind::Map("<key>", &Kind::Either(&[Kind::Text, Kind::List(&HANDLER)]));
const HANDLER: Kind = Kind::Map(
    "<key>",
    &Kind::Either(&[Kind::Text, Kind::Boolean, WHOLE, Kind::Map("<argument>", &ARGUMENT)]),
);
const ARGUMENT: Kind = Kind::Either(&[Kind::Text, Kind::Boolean, WHOLE]);
