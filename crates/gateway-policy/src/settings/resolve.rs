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
use super::stores;
use super::{Server, Settings, Upstream};

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
    let listen = file.listen.unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    check_listen(&listen)?;
    let (metrics, metrics_warning) = super::Metrics::resolve(&file.metrics, around.folder)?;
    let store = stores::store(&file.store, around.folder, &mut warnings)?;
    let limits = stores::limits(&file.limits, around.folder, &mut warnings)?;
    if metrics.listen.is_some_and(|address| listen.parse() == Ok(address) && address.port() != 0) {
        let message = "is the address of `listen`; give the metrics a port of their own";
        return Err(Fault::new(&["metrics", "listen"], message));
    }
    let otlp_endpoint = file.telemetry.otlp_endpoint;
    if otlp_endpoint.as_deref().is_some_and(|url| !is_http(url)) {
        let message = "must look like http://host:4318";
        return Err(Fault::new(&["telemetry", "otlp_endpoint"], message));
    }
    let (webhook, webhook_warnings) = super::Webhook::resolve(&file.alerts, around.folder)?;
    let (trusted_proxies, proxies_warning) =
        super::TrustedProxies::resolve(&file.server.trusted_proxies)?;
    warnings.extend(proxies_warning);
    warnings.extend(warning.flatten().into_iter().chain(metrics_warning).chain(webhook_warnings));
    Ok(Settings {
        listen,
        admin_token,
        warnings,
        webhook,
        metrics,
        store,
        limits,
        state_folder: file.state_folder.map(|path| around.folder.join(path)),
        server: server(&file.server)?,
        pass_through: super::pass_through::resolve(&file.server.pass_through)?,
        trusted_proxies,
        batches: super::Batches::resolve(&file.batches)?,
        responses: super::Responses::resolve(&file.responses)?,
        upstreams,
        default_upstream,
        catalog,
        counts_money,
        tiers: models::tiers(&file.tiers)?,
        regions: file.regions.prefixes.iter().map(|prefix| prefix.to_lowercase().into()).collect(),
        moderation_model: moderation_model.map(Into::into),
        otlp_endpoint,
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

/// Checks the form of an address; whether it is free shows at the start.
fn check_listen(listen: &str) -> Result<(), Fault> {
    let is_address = listen.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
    });
    match is_address || listen == "systemd://" {
        true => Ok(()),
        false => {
            let message = format!(
                "`{listen}` must be an address and a port, such as 127.0.0.1:8080, or systemd://"
            );
            Err(Fault::new(&["listen"], message))
        }
    }
}

fn is_http(url: &str) -> bool {
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
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
    let seconds =
        |value, default, most, key| within(value, default, 0..=most, key).map(Duration::from_secs);
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
        drain: seconds(server.drain_seconds, 30, 86_400, "drain_seconds")?,
        drain_delay: seconds(server.drain_delay_seconds, 0, 3600, "drain_delay_seconds")?,
        drain_idle: seconds(server.drain_idle_seconds, 2, 75, "drain_idle_seconds")?,
    })
}
