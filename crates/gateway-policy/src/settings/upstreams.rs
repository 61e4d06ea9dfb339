//! `[upstreams.X]`: the model servers that serve the same models under one name, with their addresses, keys and
//! networks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::wire::Platform;
use cloud::Account;
use files::{SecretFile, read_secret};
use http_client::{Network, TlsFiles};

use super::wire::{DropMembers, KeyHeader, Wires};
use super::{Base, Secret};

/// An upstream.
#[derive(Debug)]
pub struct Upstream {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// Its backends, in the order of the file; never empty.
    pub backends: Vec<Arc<Backend>>,
    /// Members that are removed from bodies.
    pub drop_members: DropMembers,
    /// Longest wait for the first byte of its response, over all attempts.
    pub timeout: Duration,
    /// Longest silence within its response.
    pub idle_timeout: Duration,
    /// True if a request that a model answers is sent to another backend when a connection ends without an answer.
    pub retry_unanswered: bool,
}

/// An address that serves an upstream's models.
#[derive(Debug)]
pub struct Backend {
    /// Its name within the upstream; that of the upstream if it is the only one of a file without a list.
    pub name: Box<str>,
    /// `upstream/backend`, or the name of both: in the log, in metrics and in the ledger.
    pub label: Box<str>,
    /// A number for its name and address: what is known of its health belongs to this.
    pub id: u64,
    /// The wires that it speaks; requests of others are translated.
    pub wires: Wires,
    /// `https://host/v1`, without a trailing slash.
    pub base: Base,
    /// The bases of its regions.
    pub regions: Vec<(Box<str>, Base)>,
    /// Our credentials for it. Requests take turns with them.
    pub keys: Vec<KeySource>,
    /// The header that has the key.
    pub key_header: KeyHeader,
    /// The cloud that serves its models, if it is not their maker.
    pub platform: Platform,
    /// The account of a cloud, in place of keys.
    pub account: Option<Account>,
    /// Its share of the requests, relative to others of its priority; at least 1.
    pub weight: u32,
    /// Backends of larger numbers serve while none of a smaller one is available.
    pub priority: u32,
    /// Most requests of this node at a time.
    pub max_concurrency: Option<u32>,
    /// True if requests get the member `prompt_cache_retention`.
    pub prompt_cache_retention: bool,
    /// True if its models take JSON Schemas of answers; `None`: by its wire and the model.
    pub structured_output: Option<bool>,
    /// The wait for the first byte of its answer after which another backend gets the request, if one may.
    pub first_byte_timeout: Option<Duration>,
    /// The probe of its health.
    pub health_check: Option<HealthCheck>,
    /// The way to it.
    pub network: BackendNetwork,
}

/// A source of a key.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// An environment variable.
    Variable {
        /// Its name.
        name: Box<str>,
        /// Its value.
        key: Secret,
    },
    /// A file, which is read again while the gateway runs.
    File {
        /// Its path.
        path: PathBuf,
        /// Its content when the configuration was read.
        key: Secret,
    },
}

/// The probe of a backend's health: a `GET` that must succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path at the backend's host.
    pub path: Box<str>,
    /// The time between two probes.
    pub interval: Duration,
}

/// The way to a backend.
#[derive(Clone, Debug)]
pub struct BackendNetwork {
    /// Trusted authorities and proxies.
    pub network: Network,
    /// The file of further authorities.
    pub files: TlsFiles,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Equal for networks that may share a client, also of different configurations.
    pub fingerprint: u64,
}

impl Upstream {
    /// Returns whether any backend has an address in a region, or outside of regions.
    #[must_use]
    pub fn serves(&self, region: Option<&str>) -> bool {
        self.backends.iter().any(|backend| backend.base_in(region).is_some())
    }

    /// The backend of that name. Objects of earlier configurations may name another one: they are those of the first.
    #[must_use]
    pub fn backend(&self, name: &str) -> &Arc<Backend> {
        let found = self.backends.iter().find(|backend| *backend.name == *name);
        found.unwrap_or(&self.backends[0])
    }
}

impl Backend {
    /// Its base in a region, or outside of regions; `None` if it has none there.
    #[must_use]
    pub fn base_in(&self, region: Option<&str>) -> Option<&Base> {
        let Some(region) = region else { return Some(&self.base) };
        self.regions.iter().find(|(name, _)| **name == *region).map(|(_, base)| base)
    }
}

impl KeySource {
    /// The key when the configuration was read.
    #[must_use]
    pub fn key(&self) -> &Secret {
        match self {
            Self::Variable { key, .. } | Self::File { key, .. } => key,
        }
    }

    /// A name for the log.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Variable { name, .. } => format!("of the variable {name}"),
            Self::File { path, .. } => format!("in {}", path.display()),
        }
    }

    /// Reads the key in a file. Returns a warning with it if other users can read the file.
    ///
    /// # Errors
    /// A message that names the path.
    pub fn read_file(path: &Path) -> Result<(Secret, Option<String>), String> {
        let SecretFile { text, warning } = read_secret(path).map_err(|error| error.to_string())?;
        match is_sendable(&text) {
            true => Ok((Secret::new(text), warning)),
            false => {
                let path = path.display();
                Err(format!("{path} cannot be sent in a header: only visible ASCII can"))
            }
        }
    }
}

/// Returns whether a key can be the value of a header.
pub(super) fn is_sendable(key: &str) -> bool {
    key.bytes().all(|byte| (0x21..0x7f).contains(&byte))
}
