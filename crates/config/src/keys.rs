//! The table of every key that the specification has: its type, and whether this version acts on it.
//! Says nothing about defaults or meaning; those stand with the resolved types.

use crate::types::{
    ApprovalPolicy, EnvironmentInherit, Personality, ReasoningEffort, ReasoningSummary,
    SandboxMode, ServiceTier, Verbosity,
};

/// One key. In its path, `<…>` stands for any text within one part.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Dotted path, as `model_providers.<id>.name`.
    pub path: &'static str,
    /// What its value must be.
    pub kind: Kind,
    /// False: the key is accepted, and a warning says that it has no effect yet.
    pub acted_on: bool,
}

/// What a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    /// A whole number from 0 to this bound.
    Whole(u64),
    Text,
    /// Text that names a file or folder; relative to the folder of the declaring file.
    Path,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// An array of strings.
    Texts,
    /// A table from names to strings.
    TextMap,
    /// A table whose keys are further entries of the table of keys, or an array of tables.
    Tables,
    /// A boolean, a string or an array of strings, or null.
    Loose,
}

/// A key that has a new name: the value counts for the new one, and a warning says so.
pub const RENAMED: &[(&str, &str)] = &[
    ("experimental_instructions_file", "model_instructions_file"),
    ("background_terminal_timeout", "background_terminal_max_timeout"),
];

/// A day: no timeout needs more, and every sum of two fits.
pub(crate) const MAX_MILLISECONDS: u64 = 24 * 60 * 60 * 1000;
/// Retries beyond this only hide a provider that is down.
pub(crate) const MAX_RETRIES: u64 = 100;
const MAX_TOKENS: u64 = 1_000_000_000;
const MAX_DOC_BYTES: u64 = 16 * 1024 * 1024;
const ANY: u64 = i64::MAX as u64;

const fn on(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, acted_on: true }
}

const fn off(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, acted_on: false }
}

use Kind::{Boolean, Choice, Loose, Path, Tables, Text, TextMap, Texts, Whole};

const EXPORTERS: Kind = Choice(&["none", "otlp-http", "otlp-grpc"]);
const TOOL_APPROVAL: Kind = Choice(&["auto", "prompt", "approve"]);
const STORES: Kind = Choice(&["auto", "file", "keyring"]);
const ACCESS: Kind = Choice(&["read", "write", "none"]);

/// In the order of the specification's sections.
pub const KEYS: &[Key] = &[
    // Sandbox, approvals, permissions
    on("approval_policy", Choice(ApprovalPolicy::NAMES)),
    on("approval_policy.granular.sandbox_approval", Boolean),
    on("approval_policy.granular.rules", Boolean),
    on("approval_policy.granular.mcp_elicitations", Boolean),
    on("approval_policy.granular.request_permissions", Boolean),
    on("approval_policy.granular.skill_approval", Boolean),
    on("sandbox_mode", Choice(SandboxMode::NAMES)),
    on("sandbox_workspace_write.writable_roots", Texts),
    on("sandbox_workspace_write.network_access", Boolean),
    on("sandbox_workspace_write.exclude_slash_tmp", Boolean),
    on("sandbox_workspace_write.exclude_tmpdir_env_var", Boolean),
    off("default_permissions", Text),
    off("permissions.<name>.filesystem.<path>", ACCESS),
    off("permissions.<name>.filesystem.<path>.<subpath>", ACCESS),
    off("permissions.<name>.network.enabled", Boolean),
    off("permissions.<name>.network.mode", Choice(&["limited", "full"])),
    off("permissions.<name>.network.allowed_domains", Texts),
    off("permissions.<name>.network.denied_domains", Texts),
    off("permissions.<name>.network.allow_unix_sockets", Texts),
    off("permissions.<name>.network.dangerously_allow_all_unix_sockets", Boolean),
    off("permissions.<name>.network.allow_local_binding", Boolean),
    off("permissions.<name>.network.allow_upstream_proxy", Boolean),
    off("permissions.<name>.network.dangerously_allow_non_loopback_proxy", Boolean),
    off("permissions.<name>.network.enable_socks5", Boolean),
    off("permissions.<name>.network.enable_socks5_udp", Boolean),
    off("permissions.<name>.network.proxy_url", Text),
    off("permissions.<name>.network.socks_url", Text),
    on("shell_environment_policy.inherit", Choice(EnvironmentInherit::NAMES)),
    on("shell_environment_policy.set", TextMap),
    on("shell_environment_policy.exclude", Texts),
    on("shell_environment_policy.include_only", Texts),
    on("shell_environment_policy.ignore_default_excludes", Boolean),
    on("shell_environment_policy.experimental_use_profile", Boolean),
    on("allow_login_shell", Boolean),
    off("windows.sandbox", Choice(&["unelevated", "elevated"])),
    off("windows.sandbox_private_desktop", Boolean),
    off("windows_wsl_setup_acknowledged", Boolean),
    // Model and provider
    on("model", Text),
    off("review_model", Text),
    on("model_provider", Text),
    on("default_provider_base_url", Text),
    on("model_providers.<id>.name", Text),
    on("model_providers.<id>.base_url", Text),
    on("model_providers.<id>.env_key", Text),
    on("model_providers.<id>.env_key_instructions", Text),
    on("model_providers.<id>.experimental_bearer_token", Text),
    on("model_providers.<id>.http_headers", TextMap),
    on("model_providers.<id>.env_http_headers", TextMap),
    on("model_providers.<id>.query_params", TextMap),
    on("model_providers.<id>.request_max_retries", Whole(MAX_RETRIES)),
    on("model_providers.<id>.stream_max_retries", Whole(MAX_RETRIES)),
    on("model_providers.<id>.stream_idle_timeout_ms", Whole(MAX_MILLISECONDS)),
    on("model_providers.<id>.requires_default_auth", Boolean),
    off("model_providers.<id>.supports_websockets", Boolean),
    on("model_providers.<id>.wire_api", Choice(&["responses"])),
    on("model_reasoning_effort", Choice(ReasoningEffort::NAMES)),
    off(
        "plan_mode_reasoning_effort",
        Choice(&["none", "minimal", "low", "medium", "high", "xhigh"]),
    ),
    on("model_reasoning_summary", Choice(ReasoningSummary::NAMES)),
    off("model_supports_reasoning_summaries", Boolean),
    on("model_verbosity", Choice(Verbosity::NAMES)),
    on("model_context_window", Whole(MAX_TOKENS)),
    off("model_auto_compact_token_limit", Whole(MAX_TOKENS)),
    off("model_catalog_json", Path),
    on("model_instructions_file", Path),
    on("developer_instructions", Text),
    off("instructions", Text),
    off("compact_prompt", Text),
    off("experimental_compact_prompt_file", Path),
    on("personality", Choice(Personality::NAMES)),
    on("service_tier", Choice(ServiceTier::NAMES)),
    off("oss_provider", Text),
    on("tool_output_token_limit", Whole(MAX_TOKENS)),
    on("show_raw_agent_reasoning", Boolean),
    off("hide_agent_reasoning", Boolean),
    // Web search, tools, apps, agents, skills, projects
    off("web_search", Choice(&["disabled", "cached", "live"])),
    off("tools.web_search", Boolean),
    off("tools.web_search.context_size", Choice(&["low", "medium", "high"])),
    off("tools.web_search.allowed_domains", Texts),
    off("tools.web_search.location.country", Text),
    off("tools.web_search.location.region", Text),
    off("tools.web_search.location.city", Text),
    off("tools.web_search.location.timezone", Text),
    off("tools.view_image", Boolean),
    off("tools_view_image", Boolean),
    off("apps.<id>.enabled", Boolean),
    off("apps.<id>.default_tools_enabled", Boolean),
    off("apps.<id>.default_tools_approval_mode", TOOL_APPROVAL),
    off("apps.<id>.destructive_enabled", Boolean),
    off("apps.<id>.open_world_enabled", Boolean),
    off("apps.<id>.tools.<tool>.enabled", Boolean),
    off("apps.<id>.tools.<tool>.approval_mode", TOOL_APPROVAL),
    off("agents.max_threads", Whole(ANY)),
    off("agents.max_depth", Whole(ANY)),
    off("agents.job_max_runtime_seconds", Whole(ANY)),
    off("agents.<name>.config_file", Path),
    off("agents.<name>.description", Text),
    off("agents.<name>.nickname_candidates", Texts),
    off("skills.config", Tables),
    off("projects.<path>.trust_level", Choice(&["trusted", "untrusted"])),
    on("project_doc_fallback_filenames", Texts),
    on("project_doc_max_bytes", Whole(MAX_DOC_BYTES)),
    on("project_root_markers", Texts),
    on("background_terminal_max_timeout", Whole(MAX_MILLISECONDS)),
    off("experimental_use_unified_exec_tool", Boolean),
    // MCP servers
    off("mcp_servers.<id>.command", Text),
    off("mcp_servers.<id>.args", Texts),
    off("mcp_servers.<id>.cwd", Text),
    off("mcp_servers.<id>.env", TextMap),
    off("mcp_servers.<id>.env_vars", Texts),
    off("mcp_servers.<id>.url", Text),
    off("mcp_servers.<id>.bearer_token_env_var", Text),
    off("mcp_servers.<id>.http_headers", TextMap),
    off("mcp_servers.<id>.env_http_headers", TextMap),
    off("mcp_servers.<id>.enabled", Boolean),
    off("mcp_servers.<id>.required", Boolean),
    off("mcp_servers.<id>.enabled_tools", Texts),
    off("mcp_servers.<id>.disabled_tools", Texts),
    off("mcp_servers.<id>.startup_timeout_sec", Whole(ANY)),
    off("mcp_servers.<id>.startup_timeout_ms", Whole(ANY)),
    off("mcp_servers.<id>.tool_timeout_sec", Whole(ANY)),
    off("mcp_servers.<id>.scopes", Texts),
    off("mcp_servers.<id>.oauth_resource", Text),
    off("mcp_oauth_callback_port", Whole(65_535)),
    off("mcp_oauth_callback_url", Text),
    off("mcp_oauth_credentials_store", STORES),
    // Features
    off("features.apps", Boolean),
    off("features.codex_hooks", Boolean),
    off("features.enable_request_compression", Boolean),
    off("features.fast_mode", Boolean),
    off("features.multi_agent", Boolean),
    off("features.personality", Boolean),
    off("features.prevent_idle_sleep", Boolean),
    off("features.shell_snapshot", Boolean),
    off("features.shell_tool", Boolean),
    off("features.skill_mcp_dependency_install", Boolean),
    off("features.smart_approvals", Boolean),
    off("features.undo", Boolean),
    off("features.unified_exec", Boolean),
    off("features.web_search", Boolean),
    off("features.web_search_cached", Boolean),
    off("features.web_search_request", Boolean),
    // Authentication, telemetry, UI, misc
    off("forced_login_method", Choice(&["hosted", "api"])),
    off("forced_hosted_workspace_id", Text),
    off("hosted_base_url", Text),
    off("cli_auth_credentials_store", STORES),
    off("analytics.enabled", Boolean),
    off("feedback.enabled", Boolean),
    off("check_for_update_on_startup", Boolean),
    off("commit_attribution", Text),
    off("file_opener", Text),
    off("history.persistence", Choice(&["save-all", "none"])),
    off("history.max_bytes", Whole(ANY)),
    off("log_dir", Path),
    on("sqlite_home", Path),
    off("notify", Texts),
    off("suppress_unstable_features_warning", Boolean),
    off("disable_paste_burst", Boolean),
    off("otel.environment", Text),
    off("otel.exporter", EXPORTERS),
    off("otel.exporter.<id>.endpoint", Text),
    off("otel.exporter.<id>.headers", TextMap),
    off("otel.exporter.<id>.protocol", Choice(&["binary", "json"])),
    off("otel.exporter.<id>.tls.ca-certificate", Text),
    off("otel.exporter.<id>.tls.client-certificate", Text),
    off("otel.exporter.<id>.tls.client-private-key", Text),
    off("otel.trace_exporter", EXPORTERS),
    off("otel.trace_exporter.<id>.endpoint", Text),
    off("otel.trace_exporter.<id>.headers", TextMap),
    off("otel.trace_exporter.<id>.protocol", Choice(&["binary", "json"])),
    off("otel.trace_exporter.<id>.tls.ca-certificate", Text),
    off("otel.trace_exporter.<id>.tls.client-certificate", Text),
    off("otel.trace_exporter.<id>.tls.client-private-key", Text),
    off("otel.metrics_exporter", Text),
    off("otel.log_user_prompt", Boolean),
    off("notice.hide_full_access_warning", Boolean),
    off("notice.hide_world_writable_warning", Boolean),
    off("notice.hide_rate_limit_model_nudge", Boolean),
    off("notice.hide_<model>_migration_prompt", Boolean),
    off("notice.model_migrations", TextMap),
    off("tui.alternate_screen", Choice(&["auto", "always", "never"])),
    off("tui.animations", Boolean),
    off("tui.notification_method", Choice(&["auto", "osc9", "bel"])),
    off("tui.notifications", Loose),
    off("tui.show_tooltips", Boolean),
    off("tui.status_line", Texts),
    off("tui.theme", Text),
    off("tui.model_availability_nux.<model>", Whole(ANY)),
    // Profiles: `profiles.<name>.<key>` takes every key above.
    on("profile", Text),
];
