//! Resolves the parsed file to [`Settings`]: applies defaults, validates, and looks names up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::context::LoadContext;
use super::error::{Error, Fault};
use super::file::{self, File};
use super::models;
use super::resolve_upstreams;
use super::secret_file;
use super::{LimitsUrl, Server, Settings, StoreUrl, Upstream};

/// Largest configuration file, in bytes; far above any hand-written one.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The upstream and the model that exist when the file has no upstream.
const OFFLINE: &str = "offline";

impl Settings {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// One line that names the file, the line and the key.
    pub fn load(path: &Path, around: LoadContext<'_>) -> Result<Self, Error> {
        let text = files::read_text(path, MAX_FILE_BYTES)
            .map_err(|error| Error::unreadable(path, error.into_io()))?;
        Self::read(&text, path, around)
    }

    /// The same, for the text of a file.
    ///
    /// # Errors
    /// See [`Settings::load`].
    pub fn read(text: &str, path: &Path, around: LoadContext<'_>) -> Result<Self, Error> {
        let file: File = toml::from_str(text).map_err(|error| Error::syntax(path, text, &error))?;
        let first = first_upstream(text);
        resolve(file, first.as_deref(), around).map_err(|fault| Error::fault(path, text, &fault))
    }
}

fn first_upstream(text: &str) -> Option<String> {
    let document = toml_edit::Document::parse(text).ok()?;
    let (name, _) = document.get("upstreams")?.as_table_like()?.iter().next()?;
    Some(name.to_owned())
}

fn resolve(file: File, first: Option<&str>, around: LoadContext<'_>) -> Result<Settings, Fault> {
    static VERSIONS: AtomicU64 = AtomicU64::new(1);
    let network = http_client::Network::from_variables(around.environment);
    if let Some(mistake) = network.mistakes().first() {
        return Err(Fault::new(&["upstreams"], mistake.to_string()));
    }
    let mut warnings = Vec::new();
    let mut upstreams = Vec::new();
    for (name, upstream) in &file.upstreams {
        upstreams.push(Arc::new(resolve_upstreams::resolve(
            name,
            upstream,
            around,
            &mut warnings,
        )?));
    }
    let mut named_models = file.models;
    if upstreams.is_empty() {
        let base_url = Some(around.offline.to_owned());
        let offline = file::Upstream { base_url, ..file::Upstream::default() };
        upstreams.push(Arc::new(resolve_upstreams::resolve(
            OFFLINE,
            &offline,
            around,
            &mut warnings,
        )?));
        if named_models.is_empty() {
            named_models.insert(OFFLINE.to_owned(), file::Model::default());
        }
        // What this program serves itself costs nothing, unless the file says so.
        for model in named_models.values_mut() {
            model.free |= model.price.is_none() && model.prices.is_none();
        }
    }
    let named = file.default_upstream.as_deref();
    let default_upstream = match named.or(first) {
        None => upstreams.first().cloned(),
        Some(name) => Some(upstream_named(&upstreams, name, &["default_upstream"])?),
    };
    let calls = super::price::default_calls(file.defaults.tool_calls.as_ref())?;
    let default = default_upstream.as_ref();
    let catalog = models::resolve(&named_models, &file.tiers, &upstreams, default, calls)?;
    let counts_money = super::price_check::counts_money(&catalog, &file.tiers)?;
    let moderation_model = file.defaults.moderation_model;
    if let Some(name) = &moderation_model
        && catalog.find(name).is_none()
    {
        let message = format!("there is no model or alias `{name}`");
        return Err(Fault::new(&["defaults", "moderation_model"], message));
    }
    let token_file = file.admin.token_file;
    let admin_token = token_file
        .map(|path| secret_file::token(&around.folder.join(path), &["admin", "token_file"]));
    let (admin_token, warning) = admin_token.transpose()?.unzip();
    let (metrics, metrics_warning) = super::Metrics::resolve(&file.metrics, around.folder)?;
    let (webhook, webhook_warnings) = super::Webhook::resolve(&file.alerts, around.folder)?;
    let (trusted_proxies, proxies_warning) =
        super::TrustedProxies::resolve(&file.server.trusted_proxies)?;
    warnings.extend(proxies_warning);
    warnings.extend(warning.flatten().into_iter().chain(metrics_warning).chain(webhook_warnings));
    Ok(Settings {
        listen: file.listen.unwrap_or_else(|| "127.0.0.1:8080".to_owned()),
        admin_token,
        warnings,
        webhook,
        metrics,
        store: store_url(file.store.url.as_deref(), around.folder)?,
        limits: limits_url(&file.limits)?,
        server: server(&file.server)?,
        pass_through: super::pass_through::resolve(&file.server.pass_through)?,
        trusted_proxies,
        batches: super::Batches::resolve(&file.batches)?,
        upstreams,
        default_upstream,
        catalog,
        counts_money,
        tiers: models::tiers(&file.tiers)?,
        regions: file.regions.prefixes.iter().map(|prefix| prefix.to_lowercase().into()).collect(),
        moderation_model: moderation_model.map(Into::into),
        otlp_endpoint: file.telemetry.otlp_endpoint,
        version: VERSIONS.fetch_add(1, Ordering::Relaxed),
    })
}

pub(super) fn upstream_named(
    upstreams: &[Arc<Upstream>],
    name: &str,
    key: &[&str],
) -> Result<Arc<Upstream>, Fault> {
    let found = upstreams.iter().find(|upstream| *upstream.name == *name);
    found.cloned().ok_or_else(|| {
        Fault::new(key, format!("there is no upstream `{name}`; add [upstreams.{name}]"))
    })
}

fn store_url(url: Option<&str>, folder: &Path) -> Result<StoreUrl, Fault> {
    let Some(url) = url else { return Ok(StoreUrl::Sqlite(folder.join("gateway.db"))) };
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(StoreUrl::Postgres(url.to_owned()));
    }
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() => Ok(StoreUrl::Sqlite(folder.join(path))),
        _ => {
            let message = "must be sqlite:///path/gateway.db or postgres://user@host/name";
            Err(Fault::new(&["store", "url"], message))
        }
    }
}

fn limits_url(limits: &file::Limits) -> Result<LimitsUrl, Fault> {
    let lease = limits.lease_ms.unwrap_or(1000);
    if !(10..=60_000).contains(&lease) {
        return Err(Fault::new(&["limits", "lease_ms"], "must be 10 to 60000"));
    }
    match limits.url.as_deref() {
        None | Some("memory:") => Ok(LimitsUrl::Memory),
        Some("off:") => Ok(LimitsUrl::Off),
        Some(url)
            if ["redis://", "rediss://", "redis+unix://", "unix://"]
                .iter()
                .any(|scheme| url.starts_with(scheme)) =>
        {
            let lease = Duration::from_millis(lease);
            Ok(LimitsUrl::Redis { url: url.to_owned(), lease, durable: limits.durable })
        }
        Some(_) => {
            let message = "must be memory:, off: or redis://host:port";
            Err(Fault::new(&["limits", "url"], message))
        }
    }
}

fn server(server: &file::Server) -> Result<Server, Fault> {
    let within = |value: Option<u64>, default: u64, range: std::ops::RangeInclusive<u64>, key| {
        let value = value.unwrap_or(default);
        if range.contains(&value) {
            return Ok(value);
        }
        let message = format!("must be {} to {}", range.start(), range.end());
        Err(Fault::new(&["server", key], message))
    };
    let milliseconds = |value, default, key| {
        within(value, default, 1..=86_400_000, key).map(Duration::from_millis)
    };
    let expiry = within(
        server.background_expiry_seconds,
        86_400,
        60..=30 * 86_400,
        "background_expiry_seconds",
    )?;
    Ok(Server {
        background_expiry: Duration::from_secs(expiry),
        max_body_bytes: within(server.max_body_bytes, 100 << 20, 1..=1 << 30, "max_body_bytes")?,
        body_timeout: milliseconds(server.body_timeout_ms, 30_000, "body_timeout_ms")?,
        header_timeout: milliseconds(server.header_timeout_ms, 10_000, "header_timeout_ms")?,
        drain: Duration::from_secs(within(server.drain_seconds, 30, 0..=86_400, "drain_seconds")?),
    })
}
