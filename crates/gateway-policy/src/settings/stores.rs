//! `[store]` and `[limits]`: where keys, usage and counters are kept. Their URLs may have passwords, so they may also
//! come from files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::Fault;
use super::{LimitsUrl, StoreUrl, file, secret_file};

/// Schemes of a Redis server.
const REDIS: [&str; 4] = ["redis://", "rediss://", "redis+unix://", "unix://"];

pub(super) fn store(
    store: &file::Store,
    folder: &Path,
    warnings: &mut Vec<String>,
) -> Result<StoreUrl, Fault> {
    let (url, key) =
        url("store", store.url.as_deref(), store.url_file.as_deref(), folder, warnings)?;
    let Some(url) = url else { return Ok(StoreUrl::Sqlite(folder.join("gateway.db"))) };
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(StoreUrl::Postgres(url.into_owned()));
    }
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() => Ok(StoreUrl::Sqlite(folder.join(path))),
        _ => {
            let message = "must be sqlite:///path/gateway.db or postgres://user@host/name";
            Err(Fault::new(&["store", key], message))
        }
    }
}

pub(super) fn limits(
    limits: &file::Limits,
    folder: &Path,
    warnings: &mut Vec<String>,
) -> Result<LimitsUrl, Fault> {
    let lease = limits.lease_ms.unwrap_or(1000);
    if !(10..=60_000).contains(&lease) {
        return Err(Fault::new(&["limits", "lease_ms"], "must be 10 to 60000"));
    }
    let (url, key) =
        url("limits", limits.url.as_deref(), limits.url_file.as_deref(), folder, warnings)?;
    match url.as_deref() {
        None | Some("memory:") => Ok(LimitsUrl::Memory),
        Some("off:") => Ok(LimitsUrl::Off),
        Some(url) if REDIS.iter().any(|scheme| url.starts_with(scheme)) => {
            let lease = Duration::from_millis(lease);
            Ok(LimitsUrl::Redis { url: url.to_owned(), lease, durable: limits.durable })
        }
        Some(_) => {
            let message = "must be memory:, off: or redis://host:port";
            Err(Fault::new(&["limits", key], message))
        }
    }
}

/// The URL of a table, and the key that has it.
fn url<'a>(
    table: &str,
    url: Option<&'a str>,
    url_file: Option<&Path>,
    folder: &Path,
    warnings: &mut Vec<String>,
) -> Result<(Option<Cow<'a, str>>, &'static str), Fault> {
    let key = [table, "url_file"];
    match (url, url_file) {
        (Some(_), Some(_)) => Err(Fault::new(&key, "there is `url`, too; remove one of them")),
        (url, None) => Ok((url.map(Cow::Borrowed), "url")),
        (None, Some(path)) => {
            let path: PathBuf = folder.join(path);
            let (text, warning) = secret_file::text(&path, &key)?;
            warnings.extend(warning);
            Ok((Some(Cow::Owned(text)), "url_file"))
        }
    }
}
