//! The option table: every key of `config.toml` and `requirements.toml`, one entry each.
//!
//! An entry is a field of an `options!` struct: its name, the type of its value (which checks it),
//! its default, its scope, its effect and its documentation. The check of files, the resolved
//! types, the JSON Schema and the reference page are derived from it.

mod features;
mod misc;
mod model;
mod otel;
mod parts;
mod requirements;
mod root;
mod sandbox;
mod tools;

pub use crate::renamed::{RENAMED, Renamed};
pub use features::{Announcement, Features, Stage, announcement, stage, unknown_feature};
pub(crate) use misc::StoreTable;
pub use misc::{CredentialsStore, FileOpener, History, LoginMethod, Notifications, Persistence};
pub use model::{
    Milliseconds, ModelProvider, OssProvider, Personality, PlanReasoningEffort, PromptCache,
    ProviderAuth, ProviderPlatform, ReasoningEffort, ReasoningSummary, Retries, Seconds,
    ServiceTier, Tokens, ToolType, Verbosity, WireApi,
};
pub(crate) use otel::SECRET_VARIABLES;
pub use otel::{
    Exporter, ExporterChoice, ExporterName, ExporterSettings, ExporterTls, MetricsExporter,
    MetricsExporterName, Otel, OtlpProtocol, OtlpTransport,
};
pub use requirements::{
    AllowedApproval, AllowedMarketplace, AllowedServer, Identity, PrefixRule,
    RequiredCommandLimits, RequiredDecision, RequiredThreadLimits, RequirementsFile, Token,
};
pub use root::{DEPRECATED, Deprecated, Keys};
pub use sandbox::{
    Access, ApprovalPolicy, ApprovalsReviewer, CommandLimits, CpuSeconds, EnvironmentInherit,
    FileAccess, Granular, GranularApproval, Mebibytes, NetworkMode, NetworkPermissions,
    Permissions, Processes, SandboxMode, ShellEnvironmentPolicy, ThreadLimits, WorkspaceWrite,
};
pub use tools::{
    AgentRole, Agents, App, ContextSize, HookState, Hooks, Location, McpServer, PluginSwitch, Port,
    Project, ProjectAccess, ToolApproval, TrustLevel, WebSearch, WebSearchSettings, WebSearchTool,
};
