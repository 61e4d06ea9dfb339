//! The configuration file as parsed, unresolved. Unknown keys are errors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) listen: Option<String>,
    pub(super) state_folder: Option<PathBuf>,
    pub(super) admin: Admin,
    pub(super) store: Store,
    pub(super) limits: Limits,
    pub(super) server: Server,
    pub(super) upstreams: BTreeMap<String, Upstream>,
    pub(super) default_upstream: Option<String>,
    pub(super) models: BTreeMap<String, Model>,
    pub(super) tiers: BTreeMap<String, Tier>,
    pub(super) regions: Regions,
    pub(super) batches: Batches,
    pub(super) responses: Responses,
    pub(super) defaults: Defaults,
    pub(super) telemetry: Telemetry,
    pub(super) metrics: Metrics,
    pub(super) alerts: Alerts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Admin {
    pub(super) token_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Responses {
    pub(super) keep: bool,
    pub(super) retention_days: Option<u64>,
    pub(super) max_project_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Store {
    pub(super) url: Option<String>,
    pub(super) url_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) url: Option<String>,
    pub(super) url_file: Option<PathBuf>,
    pub(super) lease_ms: Option<u64>,
    pub(super) durable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Server {
    pub(super) max_body_bytes: Option<u64>,
    pub(super) body_timeout_ms: Option<u64>,
    pub(super) header_timeout_ms: Option<u64>,
    pub(super) drain_seconds: Option<u64>,
    pub(super) drain_delay_seconds: Option<u64>,
    pub(super) drain_idle_seconds: Option<u64>,
    pub(super) background_expiry_seconds: Option<u64>,
    #[serde(default)]
    pub(super) pass_through: Vec<String>,
    #[serde(default)]
    pub(super) trusted_proxies: Vec<String>,
}

/// Members of [`Backend`] are those of its only backend, or apply to all that do not have them.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Upstream {
    /// Read by `wire.rs`: a name, or a list of them.
    pub(super) wire: Option<toml::Value>,
    pub(super) base_url: Option<String>,
    pub(super) base_urls: BTreeMap<String, String>,
    pub(super) env_key: Option<String>,
    pub(super) env_keys: Option<Vec<String>>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) key_files: Option<Vec<PathBuf>>,
    pub(super) key_header: Option<String>,
    pub(super) platform: Option<String>,
    pub(super) auth: Option<String>,
    pub(super) aws: Option<super::clouds::Aws>,
    pub(super) google: Option<super::clouds::Google>,
    pub(super) max_concurrency: Option<u64>,
    pub(super) prompt_cache_retention: Option<bool>,
    pub(super) structured_output: Option<bool>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) proxy: Option<String>,
    pub(super) health_path: Option<String>,
    pub(super) health_interval_ms: Option<u64>,
    pub(super) drop_members: Option<Vec<String>>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) idle_timeout_ms: Option<u64>,
    pub(super) connect_timeout_ms: Option<u64>,
    pub(super) retry_unanswered: Option<bool>,
    pub(super) first_byte_timeout_ms: Option<u64>,
    pub(super) backends: Option<Vec<Backend>>,
}

/// `[[upstreams.X.backends]]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Backend {
    pub(super) wire: Option<toml::Value>,
    pub(super) name: Option<String>,
    pub(super) base_url: Option<String>,
    pub(super) base_urls: BTreeMap<String, String>,
    pub(super) weight: Option<u64>,
    pub(super) priority: Option<u64>,
    pub(super) env_key: Option<String>,
    pub(super) env_keys: Option<Vec<String>>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) key_files: Option<Vec<PathBuf>>,
    pub(super) key_header: Option<String>,
    pub(super) platform: Option<String>,
    pub(super) auth: Option<String>,
    pub(super) aws: Option<super::clouds::Aws>,
    pub(super) google: Option<super::clouds::Google>,
    pub(super) max_concurrency: Option<u64>,
    pub(super) prompt_cache_retention: Option<bool>,
    pub(super) structured_output: Option<bool>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) proxy: Option<String>,
    pub(super) health_path: Option<String>,
    pub(super) health_interval_ms: Option<u64>,
    pub(super) first_byte_timeout_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Model {
    pub(super) upstream: Option<String>,
    pub(super) upstream_model: Option<String>,
    pub(super) aliases: Vec<String>,
    pub(super) shared_limit: Option<String>,
    pub(super) long_context_tokens: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) max_reported_tokens: Option<u64>,
    pub(super) max_trained_tokens: Option<u64>,
    pub(super) first_byte_timeout_ms: Option<u64>,
    pub(super) shutdown_date: Option<String>,
    pub(super) deprecation_date: Option<String>,
    pub(super) successor: Option<String>,
    pub(super) free: bool,
    /// Prices are read by `price.rs`, which names the place of a mistake.
    pub(super) price: Option<toml::Value>,
    pub(super) prices: Option<toml::Value>,
    pub(super) batch_price: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Batches {
    pub(super) lines_at_once: Option<u64>,
    pub(super) lines_per_node: Option<u64>,
    pub(super) attempts: Option<u64>,
    pub(super) backoff_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tier {
    pub(super) paid_usd: Option<u64>,
    pub(super) monthly_limit_usd: Option<u64>,
    pub(super) limits: BTreeMap<String, super::LimitSet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Regions {
    pub(super) prefixes: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Defaults {
    pub(super) moderation_model: Option<String>,
    pub(super) tool_calls: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Alerts {
    pub(super) webhook_url: Option<String>,
    pub(super) secret_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Metrics {
    pub(super) listen: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) top_projects: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Telemetry {
    pub(super) otlp_endpoint: Option<String>,
}
