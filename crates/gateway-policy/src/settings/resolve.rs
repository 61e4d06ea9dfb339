//! Resolves the parsed file to [`Settings`]: applies defaults, validates, and looks names up.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use files::{SecretFile, read_secret};
use hyper::Uri;
use hyper::header::{HeaderValue, InvalidHeaderValue};

use super::error::{Error, Fault};
use super::file::{self, File};
use super::models;
use super::wire;
use super::{Base, LimitsUrl, Secret, Server, Settings, StoreUrl, Upstream};

/// Largest configuration file, in bytes; far above any hand-written one.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The upstream and the model that exist when the file has no upstream.
const OFFLINE: &str = "offline";

/// Values from outside of the file.
#[derive(Clone, Copy)]
pub struct LoadContext<'a> {
    /// Looks up an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The base of relative paths in the file, and the default folder of the store.
    pub folder: &'a Path,
    /// The base URL of the offline model, which serves requests when the file has no upstream.
    pub offline: &'a str,
}

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
    let mut upstreams = Vec::new();
    for (name, upstream) in &file.upstreams {
        upstreams.push(Arc::new(resolve_upstream(name, upstream, around)?));
    }
    let mut named_models = file.models;
    if upstreams.is_empty() {
        upstreams.push(Arc::new(offline(around)?));
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
    let (admin_token, warning) =
        token_file.map(|path| token(&around.folder.join(path))).transpose()?.unzip();
    Ok(Settings {
        listen: file.listen.unwrap_or_else(|| "127.0.0.1:8080".to_owned()),
        admin_token,
        warnings: warning.flatten().into_iter().collect(),
        store: store_url(file.store.url.as_deref(), around.folder)?,
        limits: limits_url(&file.limits)?,
        server: server(&file.server)?,
        pass_through: super::pass_through::resolve(&file.server.pass_through)?,
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

fn resolve_upstream(
    name: &str,
    upstream: &file::Upstream,
    around: LoadContext<'_>,
) -> Result<Upstream, Fault> {
    let key = |last| ["upstreams", name, last];
    let secret = match &upstream.env_key {
        None => None,
        Some(variable) => {
            let value = (around.environment)(variable).filter(|value| !value.is_empty());
            let is_sendable =
                |value: &String| value.bytes().all(|byte| (0x21..0x7f).contains(&byte));
            let value = value.ok_or_else(|| {
                let message = format!(
                    "the environment variable {variable} is not set; set it to the upstream's key"
                );
                Fault::new(&key("env_key"), message)
            })?;
            if !is_sendable(&value) {
                let message = format!(
                    "the value of {variable} cannot be sent in a header: only visible ASCII can"
                );
                return Err(Fault::new(&key("env_key"), message));
            }
            Some(Secret::new(value))
        }
    };
    let mut regions = Vec::new();
    for (region, url) in &upstream.base_urls {
        let key = ["upstreams", name, "base_urls", region];
        regions.push((region.to_lowercase().into(), base(url, &key)?));
    }
    let milliseconds = |value: Option<u64>, default, last: &'static str| match value {
        Some(0) => Err(Fault::new(&key(last), "must be at least 1")),
        value => Ok(Duration::from_millis(value.unwrap_or(default))),
    };
    Ok(Upstream {
        name: name.into(),
        base: base(&upstream.base_url, &key("base_url"))?,
        regions,
        key: secret,
        key_header: wire::key_header(upstream.key_header.as_deref(), &key("key_header"))?,
        drop_members: wire::drop_members(upstream.drop_members.as_deref(), &key("drop_members"))?,
        timeout: milliseconds(upstream.timeout_ms, 600_000, "timeout_ms")?,
        idle_timeout: milliseconds(upstream.idle_timeout_ms, 300_000, "idle_timeout_ms")?,
    })
}

fn offline(around: LoadContext<'_>) -> Result<Upstream, Fault> {
    let file = file::Upstream {
        base_url: around.offline.to_owned(),
        env_key: None,
        key_header: None,
        drop_members: None,
        timeout_ms: None,
        idle_timeout_ms: None,
        base_urls: BTreeMap::new(),
    };
    resolve_upstream(OFFLINE, &file, around)
}

fn base(url: &str, key: &[&str]) -> Result<Base, Fault> {
    let fault = |message: String| Fault::new(key, message);
    let uri: Uri = url.parse().map_err(|error| fault(format!("`{url}` is no URL: {error}")))?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let Some(authority) = uri.authority().filter(|_| has_scheme && uri.query().is_none()) else {
        return Err(fault(format!("`{url}` must look like https://host/v1")));
    };
    if authority.as_str().contains('@') {
        return Err(fault("must not contain a user or a password; use env_key".to_owned()));
    }
    let path = uri.path().trim_end_matches('/').into();
    let origin = format!("{}://{authority}/", uri.scheme_str().unwrap_or("http"));
    let origin: Uri =
        origin.parse().map_err(|error| fault(format!("`{url}` is no URL: {error}")))?;
    let host = host_header(&origin);
    let host = host.map_err(|error| fault(format!("`{url}` has an invalid host: {error}")))?;
    Ok(Base { origin, host, path })
}

/// The host, with its port unless that is the scheme's default.
fn host_header(origin: &Uri) -> Result<HeaderValue, InvalidHeaderValue> {
    let host = origin.host().unwrap_or_default();
    match (origin.scheme_str(), origin.port_u16()) {
        (_, None) | (Some("http"), Some(80)) | (Some("https"), Some(443)) => {
            HeaderValue::from_str(host)
        }
        (_, Some(port)) => HeaderValue::from_str(&format!("{host}:{port}")),
    }
}

fn token(path: &Path) -> Result<(Secret, Option<String>), Fault> {
    const KEY: [&str; 2] = ["admin", "token_file"];
    let fault = |message: String| Fault::new(&KEY, format!("{} {message}", path.display()));
    let read = read_secret(path).map_err(|error| Fault::new(&KEY, error.to_string()))?;
    let SecretFile { text: token, warning } = read;
    if token.len() < 16 || !token.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return Err(fault(
            "must contain a token of at least 16 visible ASCII characters".to_owned(),
        ));
    }
    Ok((Secret::new(token), warning))
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
