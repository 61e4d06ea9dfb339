//! Resolves `[upstreams.X]` with its backends: defaults, keys, networks, and the checks of all of them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use http_client::{Network, Roots, TlsFiles};

use ::wire::Platform;

use super::address::base;
use super::clouds::{self, Clouds};
use super::context::LoadContext;
use super::error::Fault;
use super::upstreams::{Backend, BackendNetwork, HealthCheck, KeySource, Upstream, is_sendable};
use super::wire::{self, KeyHeader, Wires};
use super::{Secret, file};

/// Most backends of an upstream.
const MAX_BACKENDS: usize = 64;
/// Most keys of a backend.
const MAX_KEYS: usize = 16;
/// Longest name of a backend.
const MAX_NAME: usize = 64;
/// Largest file of certificates.
const MAX_PEM_BYTES: u64 = 8 << 20;
const MAX_WEIGHT: u64 = 1000;
const MAX_PRIORITY: u64 = 100;
const MAX_CONCURRENCY: u64 = 1_000_000;
/// The time to connect where there is no other backend, and where there is one.
const CONNECT_TIMEOUT_MS: (u64, u64) = (10_000, 1_000);
const HEALTH_INTERVAL_MS: u64 = 10_000;

/// Resolves `[upstreams.name]`. Adds to `warnings` what the operator should know about files of keys.
///
/// # Errors
/// The first error found.
pub(super) fn resolve(
    name: &str,
    upstream: &file::Upstream,
    around: LoadContext<'_>,
    warnings: &mut Vec<String>,
) -> Result<Upstream, Fault> {
    let key = |last| ["upstreams", name, last];
    let milliseconds = |value: Option<u64>, default, last: &'static str| match value {
        Some(0) => Err(Fault::new(&key(last), "must be at least 1")),
        value => Ok(Duration::from_millis(value.unwrap_or(default))),
    };
    let several = upstream.backends.as_ref().is_some_and(|backends| backends.len() > 1);
    let connect = if several { CONNECT_TIMEOUT_MS.1 } else { CONNECT_TIMEOUT_MS.0 };
    let timeout = milliseconds(upstream.timeout_ms, 600_000, "timeout_ms")?;
    let common = Common {
        upstream: name,
        timeout,
        connect_timeout: milliseconds(upstream.connect_timeout_ms, connect, "connect_timeout_ms")?,
        around,
    };
    let mut backends = Vec::new();
    match &upstream.backends {
        None => {
            let only = file::Backend { name: Some(name.to_owned()), ..upstream.shared() };
            let only = file::Backend {
                base_url: upstream.base_url.clone(),
                base_urls: upstream.base_urls.clone(),
                ..only
            };
            backends.push(common.backend(&only, &only, name, &["upstreams", name], warnings)?);
        }
        Some(listed) => {
            check_list(name, upstream, listed)?;
            let shared = upstream.shared();
            for (at, backend) in listed.iter().enumerate() {
                let at = at.to_string();
                let key = ["upstreams", name, "backends", &at];
                let label = format!("{name}/{}", backend.name.as_deref().unwrap_or_default());
                let resolved = common.backend(backend, &shared, &label, &key, warnings)?;
                check_address(&backends, &resolved, &[&key[..], &["base_url"]].concat())?;
                backends.push(resolved);
            }
        }
    }
    Ok(Upstream {
        name: name.into(),
        backends: backends.into_iter().map(Arc::new).collect(),
        drop_members: wire::drop_members(upstream.drop_members.as_deref(), &key("drop_members"))?,
        timeout,
        idle_timeout: milliseconds(upstream.idle_timeout_ms, 300_000, "idle_timeout_ms")?,
        retry_unanswered: upstream.retry_unanswered.unwrap_or(true),
    })
}

impl file::Upstream {
    /// The settings of backends that have none of their own.
    fn shared(&self) -> file::Backend {
        file::Backend {
            wire: self.wire.clone(),
            env_key: self.env_key.clone(),
            env_keys: self.env_keys.clone(),
            key_file: self.key_file.clone(),
            key_files: self.key_files.clone(),
            key_header: self.key_header.clone(),
            platform: self.platform.clone(),
            auth: self.auth.clone(),
            aws: self.aws.clone(),
            google: self.google.clone(),
            max_concurrency: self.max_concurrency,
            prompt_cache_retention: self.prompt_cache_retention,
            structured_output: self.structured_output,
            ca_file: self.ca_file.clone(),
            proxy: self.proxy.clone(),
            health_path: self.health_path.clone(),
            health_interval_ms: self.health_interval_ms,
            first_byte_timeout_ms: self.first_byte_timeout_ms,
            ..file::Backend::default()
        }
    }
}

impl file::Backend {
    pub(super) fn names_keys(&self) -> bool {
        self.env_key.is_some()
            || self.env_keys.is_some()
            || self.key_file.is_some()
            || self.key_files.is_some()
    }
}

/// Checks the list as a whole: its length, and the names.
fn check_list(
    upstream: &str,
    settings: &file::Upstream,
    listed: &[file::Backend],
) -> Result<(), Fault> {
    let list = ["upstreams", upstream, "backends"];
    let own =
        [(settings.base_url.is_some(), "base_url"), (!settings.base_urls.is_empty(), "base_urls")];
    if let Some((_, last)) = own.into_iter().find(|(is_there, _)| *is_there) {
        let message = "stands next to `backends`; move it into one of them";
        return Err(Fault::new(&["upstreams", upstream, last], message));
    }
    if !(1..=MAX_BACKENDS).contains(&listed.len()) {
        let message = format!("has {} backends; 1 to {MAX_BACKENDS} are possible", listed.len());
        return Err(Fault::new(&list, message));
    }
    for (at, backend) in listed.iter().enumerate() {
        let index = at.to_string();
        let key = ["upstreams", upstream, "backends", &index, "name"];
        let Some(name) = &backend.name else {
            return Err(Fault::new(&key[..4], "has no `name`; add one"));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(is_plain) {
            let message = format!(
                "`{name}` is not a name: 1 to {MAX_NAME} letters, digits, `-`, `_` and `.` are"
            );
            return Err(Fault::new(&key, message));
        }
        let is_same = |other: &&file::Backend| other.name.as_ref() == Some(name);
        if listed[..at].iter().any(|other| is_same(&other)) {
            let message = format!("`{name}` is the name of another backend already; rename one");
            return Err(Fault::new(&key, message));
        }
    }
    Ok(())
}

/// Checks that no other backend has the same address and the same keys: it would be a copy that was not changed.
fn check_address(others: &[Backend], backend: &Backend, key: &[&str]) -> Result<(), Fault> {
    let keys = |of: &Backend| of.keys.iter().map(|key| key.key().clone()).collect::<Vec<_>>();
    let is_same = |other: &&Backend| {
        other.base == backend.base
            && keys(other) == keys(backend)
            && other.account == backend.account
    };
    let Some(other) = others.iter().find(is_same) else { return Ok(()) };
    let message = format!(
        "is that of the backend `{}`, with the same keys; change one of them, or give one backend \
         more `weight`",
        other.name
    );
    Err(Fault::new(key, message))
}

/// The properties that the backends of an upstream have in common.
struct Common<'a> {
    upstream: &'a str,
    connect_timeout: Duration,
    timeout: Duration,
    around: LoadContext<'a>,
}

impl Common<'_> {
    fn backend(
        &self,
        own: &file::Backend,
        shared: &file::Backend,
        label: &str,
        at: &[&str],
        warnings: &mut Vec<String>,
    ) -> Result<Backend, Fault> {
        let fault = |last: &str, message: String| Fault::new(&[at, &[last]].concat(), message);
        let name: Box<str> = own.name.as_deref().unwrap_or(self.upstream).into();
        let Some(base_url) = &own.base_url else {
            return Err(Fault::new(at, "has no `base_url`; set it, such as https://host/v1"));
        };
        let of_cloud = clouds::Settings { own, shared };
        let platform = of_cloud.platform(base_url, (Clouds::BUILT, at))?;
        let wires = self.wires((own, shared), clouds::wire_of(platform, base_url), at)?;
        clouds::Settings::check_wires(platform, &wires, at)?;
        let base_at = |url: &str, key: &[&str]| {
            let base = base(url, key)?;
            wire::check_version(&wires, &base, key).map(|()| base)
        };
        let address = base_at(base_url, &[at, &["base_url"]].concat())?;
        let mut regions = Vec::new();
        for (region, url) in &own.base_urls {
            let key = [at, &["base_urls", region]].concat();
            regions.push((region.to_lowercase().into(), base_at(url, &key)?));
        }
        let account = of_cloud.account(&address, self.around, (Clouds::BUILT, at))?;
        // An error is shown where the setting stands.
        let inherits = !own.names_keys();
        let (keys_of, keys_at) =
            if inherits { (shared, &["upstreams", self.upstream][..]) } else { (own, at) };
        let health_check = match health_check(own, shared) {
            Ok(Some(_)) if account.is_some() => {
                let message = "probes have no account; remove it";
                return Err(fault("health_path", message.to_owned()));
            }
            check => check.map_err(|(last, text)| fault(last, text))?,
        };
        let keys = match account {
            Some(_) => Vec::new(),
            None => self.keys(keys_of, keys_at, warnings)?,
        };
        let number = |value: Option<u64>, default: u64, least: u64, most: u64, last: &str| {
            let value = value.unwrap_or(default);
            match u32::try_from(value) {
                Ok(number) if (least..=most).contains(&value) => Ok(number),
                _ => Err(fault(last, format!("must be {least} to {most}"))),
            }
        };
        let max_concurrency = own.max_concurrency.or(shared.max_concurrency);
        let max_concurrency = max_concurrency
            .map(|most| number(Some(most), 1, 1, MAX_CONCURRENCY, "max_concurrency"))
            .transpose()?;
        let first_byte = own.first_byte_timeout_ms.or(shared.first_byte_timeout_ms);
        let first_byte_timeout = first_byte_timeout(first_byte, self.timeout)
            .map_err(|why| fault("first_byte_timeout_ms", why))?;
        let mut hasher = DefaultHasher::new();
        (self.upstream, &name, address.origin.to_string(), &address.path).hash(&mut hasher);
        Ok(Backend {
            label: label.into(),
            id: hasher.finish(),
            regions,
            keys,
            key_header: match platform {
                Platform::Direct => self.key_header(own, shared, &wires, at)?,
                // A key of a cloud is a token on every wire.
                _ => KeyHeader::Authorization,
            },
            platform,
            account,
            wires,
            weight: number(own.weight, 1, 1, MAX_WEIGHT, "weight")?,
            priority: number(own.priority, 0, 0, MAX_PRIORITY, "priority")?,
            max_concurrency,
            prompt_cache_retention: own
                .prompt_cache_retention
                .or(shared.prompt_cache_retention)
                .unwrap_or(true),
            structured_output: own.structured_output.or(shared.structured_output),
            first_byte_timeout,
            health_check,
            network: self.network(own, shared).map_err(|(last, text)| fault(last, text))?,
            base: address,
            name,
        })
    }

    /// `of_cloud` is the wire of its cloud.
    fn wires(
        &self,
        (own, shared): (&file::Backend, &file::Backend),
        of_cloud: Option<&str>,
        at: &[&str],
    ) -> Result<Wires, Fault> {
        match (&own.wire, of_cloud) {
            (Some(named), _) => wire::wires(Some(named), &[at, &["wire"]].concat()),
            (None, Some(name)) if shared.wire.is_none() => {
                wire::wires(Some(&toml::Value::from(name)), at)
            }
            (None, _) => wire::wires(shared.wire.as_ref(), &["upstreams", self.upstream, "wire"]),
        }
    }

    fn key_header(
        &self,
        own: &file::Backend,
        shared: &file::Backend,
        wires: &Wires,
        at: &[&str],
    ) -> Result<KeyHeader, Fault> {
        match &own.key_header {
            Some(named) => wire::key_header(Some(named), wires, &[at, &["key_header"]].concat()),
            None => {
                let key = ["upstreams", self.upstream, "key_header"];
                wire::key_header(shared.key_header.as_deref(), wires, &key)
            }
        }
    }

    fn keys(
        &self,
        of: &file::Backend,
        at: &[&str],
        warnings: &mut Vec<String>,
    ) -> Result<Vec<KeySource>, Fault> {
        let fault = |last: &str, message: String| Fault::new(&[at, &[last]].concat(), message);
        let listed = |one: Option<&String>, list: Option<&Vec<String>>| -> Vec<(bool, String)> {
            let one = one.map(|name| (true, name.clone()));
            one.into_iter()
                .chain(list.into_iter().flatten().map(|name| (false, name.clone())))
                .collect()
        };
        let mut keys: Vec<KeySource> = Vec::new();
        for (is_one, variable) in listed(of.env_key.as_ref(), of.env_keys.as_ref()) {
            let last = if is_one { "env_key" } else { "env_keys" };
            let value = (self.around.environment)(&variable).filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| {
                let message = format!(
                    "the environment variable {variable} is not set; set it to the upstream's key"
                );
                fault(last, message)
            })?;
            if !is_sendable(&value) {
                let message = format!(
                    "the value of {variable} cannot be sent in a header: only visible ASCII can"
                );
                return Err(fault(last, message));
            }
            keys.push(KeySource::Variable { name: variable.into(), key: Secret::new(value) });
        }
        let one = of.key_file.iter().map(|path| ("key_file", path));
        let list = of.key_files.iter().flatten().map(|path| ("key_files", path));
        for (last, path) in one.chain(list) {
            let path = self.around.folder.join(path);
            let (key, warning) = KeySource::read_file(&path).map_err(|text| fault(last, text))?;
            warnings.extend(warning.filter(|warning| !warnings.contains(warning)));
            keys.push(KeySource::File { path, key });
        }
        let last = if of.key_files.is_some() { "key_files" } else { "env_keys" };
        for (at, key) in keys.iter().enumerate() {
            if let Some(other) = keys[..at].iter().find(|other| other.key() == key.key()) {
                let (one, other) = (other.shown(), key.shown());
                let message = format!("the key {one} is the same as that {other}; remove one");
                return Err(fault(last, message));
            }
        }
        let is_empty = keys.is_empty() && of.names_keys();
        if is_empty || keys.len() > MAX_KEYS {
            let message = format!("names {} keys; 1 to {MAX_KEYS} are possible", keys.len());
            return Err(fault(last, message));
        }
        Ok(keys)
    }

    fn network(
        &self,
        own: &file::Backend,
        shared: &file::Backend,
    ) -> Result<BackendNetwork, (&'static str, String)> {
        let ca_file = own.ca_file.as_ref().or(shared.ca_file.as_ref());
        let ca_file = ca_file.map(|path| self.around.folder.join(path));
        let proxy = own.proxy.as_ref().or(shared.proxy.as_ref());
        let mut hasher = DefaultHasher::new();
        (self.connect_timeout, proxy, &ca_file).hash(&mut hasher);
        if let Some(path) = &ca_file {
            let shown = path.display();
            let pem = files::read(path, MAX_PEM_BYTES)
                .map_err(|error| ("ca_file", format!("{shown}: {error}")))?;
            http_client::client_config(&Roots::Pem(pem.clone()), None, None)
                .map_err(|error| ("ca_file", format!("{shown}: {error}")))?;
            pem.hash(&mut hasher);
        }
        let mut network = Network::from_variables(self.around.environment);
        if let Some(proxy) = proxy {
            network = network.with_proxy(proxy).map_err(|_| {
                let message = "is not the address of a proxy; write it as http://host:port, \
                               https://host:port or socks5://host:port";
                ("proxy", message.to_owned())
            })?;
        }
        Ok(BackendNetwork {
            network,
            files: TlsFiles { ca_certificate: ca_file, ..TlsFiles::default() },
            connect_timeout: self.connect_timeout,
            fingerprint: hasher.finish(),
        })
    }
}

/// The wait for a first byte, which must end before that of all attempts.
pub(super) fn first_byte_timeout(
    wait: Option<u64>,
    timeout: Duration,
) -> Result<Option<Duration>, String> {
    let Some(wait) = wait.map(Duration::from_millis) else { return Ok(None) };
    if wait.is_zero() || wait >= timeout {
        return Err(format!(
            "must be at least 1 and less than the timeout_ms of the upstream, {}",
            timeout.as_millis()
        ));
    }
    Ok(Some(wait))
}

fn health_check(
    own: &file::Backend,
    shared: &file::Backend,
) -> Result<Option<HealthCheck>, (&'static str, String)> {
    let path = own.health_path.as_ref().or(shared.health_path.as_ref());
    let interval = own.health_interval_ms.or(shared.health_interval_ms);
    let Some(path) = path else {
        return match interval {
            Some(_) => Err(("health_interval_ms", "requires a health_path".to_owned())),
            None => Ok(None),
        };
    };
    let is_path = path.starts_with('/') && !path.starts_with("//");
    let parsed = path.parse::<hyper::http::uri::PathAndQuery>();
    let (true, Ok(parsed)) = (is_path, parsed) else {
        return Err(("health_path", format!("`{path}` is not a path such as /health")));
    };
    let interval = interval.unwrap_or(HEALTH_INTERVAL_MS);
    if !(10..=3_600_000).contains(&interval) {
        return Err(("health_interval_ms", "must be 10 to 3600000".to_owned()));
    }
    let interval = Duration::from_millis(interval);
    Ok(Some(HealthCheck { path: parsed.as_str().into(), interval }))
}

#[cfg(test)]
#[cfg(unix)]
#[path = "resolve_upstreams_tests.rs"]
mod tests;
