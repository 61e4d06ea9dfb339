//! From the file's keys to [`Settings`]: defaults, checks, and names that lead somewhere.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Uri;
use ratelimit::Micros;

use super::catalog::{Catalog, LimitSet, Model, NO_MODEL, Price, Shutdown, TierSettings};
use super::error::{Fault, SettingsError};
use super::file::{self, File};
use super::{Base, LimitsUrl, Secret, Server, Settings, StoreUrl, Upstream};
use crate::tenants::Tier;

/// Qualification in dollars paid and monthly limit in dollars, by tier (specification: Usage tiers).
const TIERS: [(u64, u64); 6] =
    [(0, 100), (5, 100), (50, 500), (100, 1_000), (250, 5_000), (1_000, 200_000)];
/// How long before its end a model is called deprecated.
const NOTICE: Micros = 180 * ratelimit::DAY;
const MAX_OUTPUT_TOKENS: u64 = 4096;
/// Larger numbers in a file are a slip of the finger.
const MOST: u64 = 1_000_000_000_000;
/// The upstream and the model that there are when the file names none.
const OFFLINE: &str = "offline";

/// What a file does not say.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Looks up a variable of the environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Where relative paths of the file begin, and where the store is by default.
    pub folder: &'a Path,
    /// The base URL of the offline model, which answers when the file names no upstream.
    pub offline: &'a str,
}

impl Settings {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// One line that names the file, the line and the key.
    pub fn load(path: &Path, around: Surroundings<'_>) -> Result<Self, SettingsError> {
        let text =
            fs::read_to_string(path).map_err(|error| SettingsError::unreadable(path, &error))?;
        Self::read(&text, path, around)
    }

    /// The same, from the text of a file.
    ///
    /// # Errors
    /// See [`Settings::load`].
    pub fn read(text: &str, path: &Path, around: Surroundings<'_>) -> Result<Self, SettingsError> {
        let file: File =
            toml::from_str(text).map_err(|error| SettingsError::syntax(path, text, &error))?;
        let first = first_upstream(text);
        resolve(file, first.as_deref(), around)
            .map_err(|fault| SettingsError::fault(path, text, &fault))
    }
}

fn first_upstream(text: &str) -> Option<String> {
    let document = toml_edit::Document::parse(text).ok()?;
    let (name, _) = document.get("upstreams")?.as_table_like()?.iter().next()?;
    Some(name.to_owned())
}

fn resolve(file: File, first: Option<&str>, around: Surroundings<'_>) -> Result<Settings, Fault> {
    static VERSIONS: AtomicU64 = AtomicU64::new(1);
    let mut upstreams = Vec::new();
    for (name, upstream) in &file.upstreams {
        upstreams.push(Arc::new(resolve_upstream(name, upstream, around)?));
    }
    let mut models = file.models;
    if upstreams.is_empty() {
        upstreams.push(Arc::new(offline(around)?));
        if models.is_empty() {
            models.insert(OFFLINE.to_owned(), file::Model::default());
        }
    }
    let named = file.default_upstream.as_deref();
    let default_upstream = match named.or(first) {
        None => upstreams.first().cloned(),
        Some(name) => Some(upstream_named(&upstreams, name, &["default_upstream"])?),
    };
    let catalog = resolve_models(&models, &file.tiers, &upstreams, default_upstream.as_ref())?;
    let moderation_model = file.defaults.moderation_model;
    if let Some(name) = &moderation_model
        && catalog.find(name).is_none()
    {
        let message = format!("no model and no alias is called `{name}`");
        return Err(Fault::new(&["defaults", "moderation_model"], message));
    }
    Ok(Settings {
        listen: file.listen.unwrap_or_else(|| "127.0.0.1:8080".to_owned()),
        admin_token: file
            .admin
            .token_file
            .map(|path| token(&around.folder.join(path)))
            .transpose()?,
        store: store_url(file.store.url.as_deref(), around.folder)?,
        limits: limits_url(&file.limits)?,
        server: server(&file.server)?,
        upstreams,
        default_upstream,
        catalog,
        tiers: tiers(&file.tiers)?,
        regions: file.regions.prefixes.iter().map(|prefix| prefix.to_lowercase().into()).collect(),
        moderation_model: moderation_model.map(Into::into),
        otlp_endpoint: file.telemetry.otlp_endpoint,
        version: VERSIONS.fetch_add(1, Ordering::Relaxed),
    })
}

fn upstream_named(
    upstreams: &[Arc<Upstream>],
    name: &str,
    key: &[&str],
) -> Result<Arc<Upstream>, Fault> {
    let found = upstreams.iter().find(|upstream| *upstream.name == *name);
    found.cloned().ok_or_else(|| {
        Fault::new(key, format!("no upstream is called `{name}`; add [upstreams.{name}]"))
    })
}

fn resolve_upstream(
    name: &str,
    upstream: &file::Upstream,
    around: Surroundings<'_>,
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
        timeout: milliseconds(upstream.timeout_ms, 600_000, "timeout_ms")?,
        idle_timeout: milliseconds(upstream.idle_timeout_ms, 300_000, "idle_timeout_ms")?,
    })
}

fn offline(around: Surroundings<'_>) -> Result<Upstream, Fault> {
    let file = file::Upstream {
        base_url: around.offline.to_owned(),
        env_key: None,
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
        return Err(fault("must not hold a user or a password; use env_key".to_owned()));
    }
    let path = uri.path().trim_end_matches('/').into();
    let origin = format!("{}://{authority}/", uri.scheme_str().unwrap_or("http"));
    let origin = origin.parse().map_err(|error| fault(format!("`{url}` is no URL: {error}")))?;
    Ok(Base { origin, path })
}

fn resolve_models(
    models: &BTreeMap<String, file::Model>,
    tiers: &BTreeMap<String, file::Tier>,
    upstreams: &[Arc<Upstream>],
    default: Option<&Arc<Upstream>>,
) -> Result<Catalog, Fault> {
    let names = names(models)?;
    let mut limits = limits_by_bucket(tiers, models, &names)?;
    let mut catalog = Catalog::default();
    for (name, model) in models {
        let upstream = match (&model.upstream, default) {
            (Some(upstream), _) => {
                upstream_named(upstreams, upstream, &["models", name, "upstream"])?
            }
            (None, Some(default)) => Arc::clone(default),
            (None, None) => return Err(Fault::new(&["models", name], "no upstream serves it")),
        };
        let own = limits.remove(&Bucket::Model(name)).unwrap_or_default();
        let group = model.shared_limit.as_deref();
        let group = group.and_then(|group| limits.get(&Bucket::Group(group)).copied());
        let resolved = resolve_model(name, model, upstream, own, group.unwrap_or_default())?;
        catalog.models.insert(name.as_str().into(), Arc::new(resolved));
    }
    for (name, model) in &names {
        if let Some(model) = catalog.models.get(*model) {
            catalog.by_name.insert((*name).into(), Arc::clone(model));
        }
    }
    if let Some(default) = default {
        let own = limits.remove(&Bucket::Model(NO_MODEL)).unwrap_or_default();
        let nothing = file::Model::default();
        let model =
            resolve_model(NO_MODEL, &nothing, Arc::clone(default), own, Default::default())?;
        catalog.no_model = Some(Arc::new(model));
    }
    Ok(catalog)
}

/// Every name and alias, with the model that it means.
fn names(models: &BTreeMap<String, file::Model>) -> Result<HashMap<&str, &str>, Fault> {
    let mut names: HashMap<&str, &str> =
        models.keys().map(|name| (name.as_str(), name.as_str())).collect();
    if models.contains_key(NO_MODEL) {
        return Err(Fault::new(
            &["models", NO_MODEL],
            "this name stands for requests without a model",
        ));
    }
    for (name, model) in models {
        for alias in &model.aliases {
            let key = ["models", name, "aliases"];
            match names.insert(alias, name) {
                None if alias == NO_MODEL || alias.is_empty() => {
                    return Err(Fault::new(&key, format!("`{alias}` is no name for a model")));
                }
                None => {}
                Some(other) => {
                    let message = format!("`{alias}` already leads to the model `{other}`");
                    return Err(Fault::new(&key, message));
                }
            }
        }
    }
    Ok(names)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Bucket<'a> {
    Model(&'a str),
    Group(&'a str),
}

type ByTier = [Option<LimitSet>; 6];

fn limits_by_bucket<'a>(
    tiers: &'a BTreeMap<String, file::Tier>,
    models: &'a BTreeMap<String, file::Model>,
    names: &HashMap<&'a str, &'a str>,
) -> Result<HashMap<Bucket<'a>, ByTier>, Fault> {
    let mut limits: HashMap<Bucket<'a>, ByTier> = HashMap::new();
    for (tier_name, tier) in tiers {
        let Some(known) = Tier::named(tier_name) else {
            let message = "is no tier; the tiers are free, 1, 2, 3, 4 and 5";
            return Err(Fault::new(&["tiers", tier_name], message));
        };
        for (name, set) in &tier.limits {
            let key = ["tiers", tier_name, "limits", name];
            let is_group = models.values().any(|model| model.shared_limit.as_ref() == Some(name));
            let bucket = match names.get(name.as_str()) {
                Some(_) if is_group => {
                    let message =
                        "is both a model and a shared limit; give one of them another name";
                    return Err(Fault::new(&key, message));
                }
                Some(model) => Bucket::Model(model),
                None if is_group => Bucket::Group(name),
                None if name == NO_MODEL => Bucket::Model(NO_MODEL),
                None => {
                    let message = format!("no model, alias or shared limit is called `{name}`");
                    return Err(Fault::new(&key, message));
                }
            };
            check_amounts(&key, set)?;
            let place = &mut limits.entry(bucket).or_default()[known as usize];
            if place.replace(*set).is_some() {
                let message = "its model has limits in this tier already, under another of its \
                               names: they are one bucket, so give one of them";
                return Err(Fault::new(&key, message));
            }
        }
    }
    Ok(limits)
}

fn check_amounts(key: &[&str], set: &LimitSet) -> Result<(), Fault> {
    let all = [
        set.rpm,
        set.rpd,
        set.tpm,
        set.tpd,
        set.ipm,
        set.audio_minutes_per_minute,
        set.batch_queue_tokens,
        set.long_context_tpm,
    ];
    match all.into_iter().flatten().find(|amount| *amount > MOST) {
        Some(amount) => Err(Fault::new(key, format!("{amount} is more than {MOST}"))),
        None => Ok(()),
    }
}

fn resolve_model(
    name: &str,
    model: &file::Model,
    upstream: Arc<Upstream>,
    limits: ByTier,
    group_limits: ByTier,
) -> Result<Model, Fault> {
    let key = |last| ["models", name, last];
    let max_output_tokens = model.max_output_tokens.unwrap_or(MAX_OUTPUT_TOKENS);
    if !(1..=MOST).contains(&max_output_tokens) {
        return Err(Fault::new(&key("max_output_tokens"), format!("must be 1 to {MOST}")));
    }
    let price = model.price.map(|price| resolve_price(&key("price"), price)).transpose()?;
    let batch = model.batch_price.map(|price| resolve_price(&key("batch_price"), price));
    Ok(Model {
        name: name.into(),
        aliases: model.aliases.iter().map(|alias| alias.as_str().into()).collect(),
        upstream,
        upstream_model: model.upstream_model.as_deref().unwrap_or(name).into(),
        shared_limit: model.shared_limit.as_deref().map(Into::into),
        long_context_tokens: model.long_context_tokens,
        max_output_tokens,
        shutdown: shutdown(name, model)?,
        price,
        batch_price: batch.transpose()?,
        limits,
        group_limits,
    })
}

fn shutdown(name: &str, model: &file::Model) -> Result<Option<Shutdown>, Fault> {
    let key = |last| ["models", name, last];
    let Some(date) = &model.shutdown_date else {
        let alone = [
            (model.deprecation_date.is_some(), "deprecation_date"),
            (model.successor.is_some(), "successor"),
        ];
        return match alone.into_iter().find(|(is_there, _)| *is_there) {
            Some((_, last)) => Err(Fault::new(&key(last), "needs a shutdown_date beside it")),
            None => Ok(None),
        };
    };
    let at = midnight(date, &key("shutdown_date"))?;
    let deprecated_from = match &model.deprecation_date {
        Some(date) => midnight(date, &key("deprecation_date"))?,
        None => at.saturating_sub(NOTICE),
    };
    if deprecated_from > at {
        return Err(Fault::new(&key("deprecation_date"), "is after the shutdown_date"));
    }
    let successor = model.successor.as_deref().map(Into::into);
    Ok(Some(Shutdown { deprecated_from, at, date: date.as_str().into(), successor }))
}

fn midnight(date: &str, key: &[&str]) -> Result<Micros, Fault> {
    let fault = || Fault::new(key, format!("`{date}` is no date such as 2027-02-26"));
    let date: jiff::civil::Date = date.parse().map_err(|_| fault())?;
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| fault())?;
    Micros::try_from(midnight.timestamp().as_microsecond()).map_err(|_| fault())
}

fn resolve_price(key: &[&str], price: file::Price) -> Result<Price, Fault> {
    let one = |usd: f64| {
        if !(0.0..=1_000_000.0).contains(&usd) {
            return Err(Fault::new(key, format!("{usd} is no price in USD per million tokens")));
        }
        // In range, so that nothing is cut off.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok((usd * 1_000_000.0).round() as u64)
    };
    Ok(Price {
        input: one(price.input)?,
        cached_input: one(price.cached_input.unwrap_or(price.input))?,
        output: one(price.output)?,
    })
}

fn tiers(tiers: &BTreeMap<String, file::Tier>) -> Result<[TierSettings; 6], Fault> {
    let mut all =
        TIERS.map(|(paid_usd, limit)| TierSettings { paid_usd, monthly_limit: limit * 1_000_000 });
    for (name, tier) in tiers {
        let Some(place) = Tier::named(name).map(|tier| &mut all[tier as usize]) else { continue };
        for (amount, key) in
            [(tier.paid_usd, "paid_usd"), (tier.monthly_limit_usd, "monthly_limit_usd")]
        {
            if amount.is_some_and(|amount| amount > MOST) {
                return Err(Fault::new(&["tiers", name, key], format!("is more than {MOST}")));
            }
        }
        place.paid_usd = tier.paid_usd.unwrap_or(place.paid_usd);
        if let Some(limit) = tier.monthly_limit_usd {
            place.monthly_limit = limit * 1_000_000;
        }
    }
    Ok(all)
}

fn token(path: &Path) -> Result<Secret, Fault> {
    let fault = |message: String| {
        Fault::new(&["admin", "token_file"], format!("{} {message}", path.display()))
    };
    let unreadable = |error: std::io::Error| fault(format!("cannot be read: {error}"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
        if mode & 0o077 != 0 {
            let message = format!("can be read by others (mode {:o}); chmod 600 it", mode & 0o777);
            return Err(fault(message));
        }
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let token = text.trim();
    if token.len() < 16 || !token.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
        return Err(fault("must hold a token of at least 16 visible ASCII characters".to_owned()));
    }
    Ok(Secret::new(token))
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
    Ok(Server {
        max_body_bytes: within(server.max_body_bytes, 100 << 20, 1..=1 << 30, "max_body_bytes")?,
        body_timeout: milliseconds(server.body_timeout_ms, 30_000, "body_timeout_ms")?,
        header_timeout: milliseconds(server.header_timeout_ms, 10_000, "header_timeout_ms")?,
        drain: Duration::from_secs(within(server.drain_seconds, 30, 0..=86_400, "drain_seconds")?),
    })
}
