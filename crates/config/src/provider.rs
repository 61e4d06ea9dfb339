//! Model providers: the built-in ones and those of `model_providers`. Sends nothing. A missing
//! credential fails the turn that needs it, not the start.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cloud::{AWS_SECRETS, CloudAuth, Clouds, cloud};
use crate::environment::Environment;
use crate::error::Error;
use crate::key_path::join;
use crate::origin::Origin;
use crate::table::{
    Keys, ModelProvider, OssProvider, PromptCache, ProviderAuth, ProviderPlatform,
    SECRET_VARIABLES, ToolType, WireApi,
};
use crate::value::{Table, Value};

/// Environment variables with the credential of the built-in `default` provider; the first one that
/// is set applies.
const DEFAULT_ENV_KEYS: [&str; 2] = ["AGENT_API_KEY", "OPENAI_API_KEY"];
/// Address of `default`, unless `default_provider_base_url` is set.
const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const BUILT_IN: [&str; 2] = ["default", "offline"];
/// Environment variables with the whole address of the local server, or its port.
const LOCAL_BASE_URL: &str = "AGENT_OSS_BASE_URL";
const LOCAL_PORT: &str = "AGENT_OSS_PORT";

/// A model server on this machine.
struct LocalServer {
    kind: OssProvider,
    name: &'static str,
    /// The port on which it listens by default.
    port: u16,
    /// Its own variable for the address on which it listens.
    variable: Option<&'static str>,
}

const LOCAL: [LocalServer; 2] = [
    LocalServer {
        kind: OssProvider::Ollama,
        name: "Ollama",
        port: 11434,
        variable: Some("OLLAMA_HOST"),
    },
    LocalServer { kind: OssProvider::LmStudio, name: "LM Studio", port: 1234, variable: None },
];

impl LocalServer {
    /// Where it is: `AGENT_OSS_BASE_URL`, else `AGENT_OSS_PORT` of this machine, else its own variable,
    /// else its usual port.
    fn address(&self, environment: &Environment<'_>) -> String {
        let set = |name: &str| (environment.variable)(name).filter(|value| !value.is_empty());
        if let Some(url) = set(LOCAL_BASE_URL) {
            return trimmed(&url);
        }
        if let Some(port) = set(LOCAL_PORT) {
            return format!("http://127.0.0.1:{port}/v1");
        }
        let listens = self.variable.and_then(set);
        listens.map_or_else(|| format!("http://127.0.0.1:{}/v1", self.port), |at| self.own(&at))
    }

    /// The address of a server that listens on `at`: `host`, `host:port`, `:port`, or with a scheme.
    fn own(&self, at: &str) -> String {
        let (scheme, rest) = at.trim().split_once("://").unwrap_or(("http", at.trim()));
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.to_owned()),
            _ => (rest, self.port.to_string()),
        };
        // A server that listens on every address is reached on this one.
        let host = if matches!(host, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { host };
        format!("{scheme}://{host}:{port}/v1")
    }
}

/// A model provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provider {
    /// The built-in model that answers without a network.
    Offline,
    /// A service reached over HTTP.
    Http(Arc<HttpProvider>),
}

/// A service reached over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProvider {
    pub id: String,
    /// Display name; by default the id.
    pub name: String,
    /// Without a trailing slash.
    pub base_url: String,
    /// The environment variable that holds the credential.
    pub env_key: Option<String>,
    /// Instructions for getting that credential.
    pub env_key_instructions: Option<String>,
    /// From `env_key`, else from `experimental_bearer_token`, else, with `requires_default_auth`,
    /// the default provider's.
    pub credential: Option<Secret>,
    /// Static headers and those filled from the environment; can hold secrets.
    pub http_headers: BTreeMap<String, Secret>,
    pub query_params: BTreeMap<String, String>,
    /// Default 4.
    pub request_max_retries: u32,
    /// Default 5.
    pub stream_max_retries: u32,
    /// Default 300 s.
    pub stream_idle_timeout: Duration,
    pub requires_default_auth: bool,
    /// True if the credential is the default provider's: without one, the account that is logged in
    /// is used.
    pub uses_default_credential: bool,
    /// True if large requests may be compressed (`features.enable_request_compression`): only for
    /// the default provider at its own address, which is known to accept them. A proxy in front of it is not.
    pub compress_requests: bool,
    /// PEM files of this provider.
    pub tls: TlsFiles,
    /// True if the provider is tried over a WebSocket first.
    pub supports_websockets: bool,
    /// Types of tools that it takes, besides functions.
    pub tool_types: Vec<ToolType>,
    /// True if it takes one system message, at the beginning.
    pub one_system_message: bool,
    /// True if it takes JSON Schemas of answers; `None`: by its wire and the model.
    pub structured_output: Option<bool>,
    pub wire_api: WireApi,
    pub platform: ProviderPlatform,
    /// Credentials in place of `credential`.
    pub cloud: Option<CloudAuth>,
    pub prompt_cache: PromptCache,
    /// The kind of server, if it is one of the two on the user's machine.
    pub local: Option<OssProvider>,
}

/// PEM files of a provider, by absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that are trusted in addition.
    pub ca_certificate: Option<PathBuf>,
    /// The client's certificate and its chain; present if and only if its key is.
    pub client_certificate: Option<PathBuf>,
    pub client_private_key: Option<PathBuf>,
}

/// Text that must not be logged: its `Debug` form is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a provider cannot be used yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MissingCredential {
    #[error("the provider `{provider}` needs the environment variable {env_key}, which is not set{}",
        instructions.as_deref().map(|i| format!(": {i}")).unwrap_or_default())]
    NoCredential { provider: String, env_key: String, instructions: Option<String> },
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl HttpProvider {
    /// Returns whether it is the default provider, or another one that is known to serve the same models.
    #[must_use]
    pub fn serves_default_models(&self) -> bool {
        self.requires_default_auth || serves_hosted_api(&self.base_url)
    }
}

impl Provider {
    pub fn id(&self) -> &str {
        match self {
            Provider::Offline => "offline",
            Provider::Http(http) => &http.id,
        }
    }

    /// Returns whether it takes tools of a type. The offline model takes all, and searches nothing itself.
    #[must_use]
    pub fn takes(&self, tool: ToolType) -> bool {
        match self {
            Provider::Offline => tool != ToolType::WebSearch,
            Provider::Http(http) => http.tool_types.contains(&tool),
        }
    }

    /// Checks that a turn can use this provider now.
    ///
    /// # Errors
    /// The credential is missing.
    pub fn ready(&self) -> Result<(), MissingCredential> {
        let Provider::Http(http) = self else { return Ok(()) };
        match (&http.env_key, &http.credential) {
            (Some(env_key), None) => Err(MissingCredential::NoCredential {
                provider: http.id.clone(),
                env_key: env_key.clone(),
                instructions: http.env_key_instructions.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// Every provider by id, and all environment variables that hold their secrets.
pub(crate) struct Providers {
    pub(crate) by_id: BTreeMap<String, Provider>,
    pub(crate) secret_variables: Vec<String>,
    /// Those that are not selected and have a mistake.
    pub(crate) broken: Vec<(String, Error)>,
}

/// Reads `model_providers` and `default_provider_base_url`. Adds the mistakes in the selected provider
/// to `errors`.
pub(crate) fn providers(
    root: &Table,
    keys: &Keys,
    environment: &Environment<'_>,
    errors: &mut Vec<Error>,
) -> Providers {
    let mut found = Providers {
        by_id: BTreeMap::from([("offline".to_owned(), Provider::Offline)]),
        secret_variables: DEFAULT_ENV_KEYS.map(str::to_owned).to_vec(),
        broken: Vec::new(),
    };
    let default = default_provider(keys, environment);
    for local in &LOCAL {
        let local = local_provider(local, environment);
        found.by_id.insert(local.id.clone(), Provider::Http(Arc::new(local)));
    }
    for (id, configured) in &keys.model_providers {
        let origin = origin(root, id);
        // No command sees the credential of a provider, even of one that cannot be used.
        found.secret_variables.extend(configured.env_key.clone());
        found.secret_variables.extend(configured.env_http_headers.values().cloned());
        if configured.auth == Some(ProviderAuth::AwsSigV4) {
            found.secret_variables.extend(AWS_SECRETS.map(str::to_owned));
        }
        if let Err(error) = refuse_built_in(id, &origin) {
            errors.push(error);
            continue;
        }
        match http_provider(id, configured, &origin, &default, environment) {
            Ok(http) => {
                found.secret_variables.extend(http.env_key.clone());
                found.by_id.insert(id.clone(), Provider::Http(Arc::new(http)));
            }
            Err(error) if *id == keys.model_provider => errors.push(error),
            Err(error) => found.broken.push((id.clone(), error)),
        }
    }
    found.by_id.insert("default".to_owned(), Provider::Http(Arc::new(default)));
    found.secret_variables.extend(SECRET_VARIABLES.map(str::to_owned));
    found.secret_variables.sort_unstable();
    found.secret_variables.dedup();
    found
}

fn origin(root: &Table, id: &str) -> Origin {
    let all = root.get("model_providers");
    let one = all.and_then(|node| match &node.value {
        Value::Table(table) => table.get(id),
        _ => None,
    });
    one.or(all).map_or(Origin::Process, |node| node.origin.clone())
}

fn refuse_built_in(id: &str, origin: &Origin) -> Result<(), Error> {
    if !BUILT_IN.contains(&id) {
        return Ok(());
    }
    let remedy = match id {
        "default" => "; to change its address, set `default_provider_base_url`",
        _ => "",
    };
    let message =
        format!("the built-in provider `{id}` cannot be redefined; choose another id{remedy}");
    Err(Error::refused(origin, join(&["model_providers", id]), message))
}

fn default_provider(keys: &Keys, environment: &Environment<'_>) -> HttpProvider {
    let instructions = "set it, or OPENAI_API_KEY, to the key of your account; log in (`agentd \
                        login`); or choose another `model_provider` (`offline` needs neither key nor network)";
    let configured = keys.default_provider_base_url.as_deref();
    HttpProvider {
        id: "default".to_owned(),
        name: "Default".to_owned(),
        base_url: trimmed(configured.unwrap_or(DEFAULT_BASE_URL)),
        env_key: Some(DEFAULT_ENV_KEYS[0].to_owned()),
        env_key_instructions: Some(instructions.to_owned()),
        credential: DEFAULT_ENV_KEYS.iter().find_map(|name| variable(environment, name)),
        http_headers: BTreeMap::new(),
        query_params: BTreeMap::new(),
        request_max_retries: REQUEST_MAX_RETRIES,
        stream_max_retries: STREAM_MAX_RETRIES,
        stream_idle_timeout: STREAM_IDLE_TIMEOUT,
        requires_default_auth: true,
        uses_default_credential: true,
        compress_requests: keys.features.enable_request_compression && configured.is_none(),
        tls: TlsFiles::default(),
        supports_websockets: false,
        tool_types: ALL_TOOL_TYPES.to_vec(),
        one_system_message: false,
        structured_output: None,
        wire_api: WireApi::Responses,
        platform: ProviderPlatform::Direct,
        cloud: None,
        prompt_cache: PromptCache::Auto,
        local: None,
    }
}

fn local_provider(local: &LocalServer, environment: &Environment<'_>) -> HttpProvider {
    HttpProvider {
        id: local.kind.as_str().to_owned(),
        name: local.name.to_owned(),
        base_url: local.address(environment),
        env_key: None,
        env_key_instructions: None,
        credential: None,
        http_headers: BTreeMap::new(),
        query_params: BTreeMap::new(),
        request_max_retries: REQUEST_MAX_RETRIES,
        stream_max_retries: STREAM_MAX_RETRIES,
        stream_idle_timeout: STREAM_IDLE_TIMEOUT,
        requires_default_auth: false,
        uses_default_credential: false,
        compress_requests: false,
        tls: TlsFiles::default(),
        supports_websockets: false,
        tool_types: Vec::new(),
        one_system_message: false,
        structured_output: None,
        wire_api: WireApi::Responses,
        platform: ProviderPlatform::Direct,
        cloud: None,
        prompt_cache: PromptCache::Auto,
        local: Some(local.kind),
    }
}

const ALL_TOOL_TYPES: &[ToolType] = &[ToolType::Custom, ToolType::WebSearch, ToolType::ToolSearch];
/// Hosts that serve the hosted API: this one and, with a point in front, those below.
const HOSTS_OF_HOSTED_API: &[&str] = &["api.openai.com", ".openai.azure.com"];

/// Returns whether an address is known to serve the hosted API, with all its types of tools.
fn serves_hosted_api(base_url: &str) -> bool {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    HOSTS_OF_HOSTED_API.iter().any(|known| match known.starts_with('.') {
        true => host.ends_with(known),
        false => host == *known,
    })
}

const REQUEST_MAX_RETRIES: u32 = 4;
const STREAM_MAX_RETRIES: u32 = 5;
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

fn http_provider(
    id: &str,
    keys: &ModelProvider,
    origin: &Origin,
    default: &HttpProvider,
    environment: &Environment<'_>,
) -> Result<HttpProvider, Error> {
    let Some(base_url) = &keys.base_url else {
        let message = "missing; write the provider's address, as in \
                       `base_url = \"https://host/v1\"`";
        let key = join(&["model_providers", id, "base_url"]);
        return Err(Error::refused(origin, key, message));
    };
    let has_other_wire = !matches!(keys.wire_api, WireApi::Responses | WireApi::Auto);
    if keys.supports_websockets && has_other_wire {
        let message = format!(
            "`wire_api = \"{}\"` has no WebSocket; remove one of the two keys",
            keys.wire_api.as_str()
        );
        let key = join(&["model_providers", id, "supports_websockets"]);
        return Err(Error::refused(origin, key, message));
    }
    let (platform, cloud) = cloud((id, origin), keys, Clouds::BUILT, environment)?;
    let uses_default_auth = keys.requires_default_auth;
    let env_key =
        keys.env_key.clone().or_else(|| default.env_key.clone().filter(|_| uses_default_auth));
    let own = env_key.as_deref().and_then(|name| variable(environment, name));
    let has_own =
        keys.env_key.is_some() && own.is_some() || keys.experimental_bearer_token.is_some();
    let token = keys.experimental_bearer_token.clone().map(Secret::new);
    let credential = own.or(token).or(default.credential.clone().filter(|_| uses_default_auth));
    let retries = |n: u64, default: u32| u32::try_from(n).unwrap_or(default);
    Ok(HttpProvider {
        id: id.to_owned(),
        name: keys.name.clone().unwrap_or_else(|| id.to_owned()),
        base_url: trimmed(base_url),
        env_key,
        env_key_instructions: instructions(keys),
        credential,
        http_headers: headers(keys, environment),
        query_params: keys.query_params.clone(),
        request_max_retries: retries(*keys.request_max_retries, REQUEST_MAX_RETRIES),
        stream_max_retries: retries(*keys.stream_max_retries, STREAM_MAX_RETRIES),
        stream_idle_timeout: keys.stream_idle_timeout_ms.duration(),
        requires_default_auth: uses_default_auth,
        uses_default_credential: uses_default_auth && !has_own,
        compress_requests: false,
        tls: tls(id, keys, origin)?,
        supports_websockets: keys.supports_websockets,
        tool_types: match &keys.tool_types {
            Some(types) => types.clone(),
            None if keys.wire_api == WireApi::Responses
                && (uses_default_auth || serves_hosted_api(base_url)) =>
            {
                ALL_TOOL_TYPES.to_vec()
            }
            None => Vec::new(),
        },
        one_system_message: keys.one_system_message,
        structured_output: keys.structured_output,
        wire_api: keys.wire_api,
        platform,
        cloud,
        prompt_cache: keys.prompt_cache,
        local: LOCAL.iter().map(|local| local.kind).find(|kind| kind.as_str() == id),
    })
}

/// Returns the instructions for getting the credential of a configured provider.
fn instructions(keys: &ModelProvider) -> Option<String> {
    const LOG_IN: &str = "log in (`agentd login`)";
    let own = keys.env_key_instructions.clone();
    if !keys.requires_default_auth {
        return own;
    }
    let set = own.unwrap_or_else(|| match keys.env_key {
        Some(_) => "set it".to_owned(),
        None => format!("set it, or {}, to the key of your account", DEFAULT_ENV_KEYS[1]),
    });
    Some(format!("{set}; or {LOG_IN}"))
}

/// A client certificate needs its key.
fn tls(id: &str, keys: &ModelProvider, origin: &Origin) -> Result<TlsFiles, Error> {
    let keys = keys.tls.clone();
    let missing = match (&keys.client_certificate, &keys.client_private_key) {
        (Some(_), None) => "client-private-key",
        (None, Some(_)) => "client-certificate",
        _ => {
            return Ok(TlsFiles {
                ca_certificate: keys.ca_certificate,
                client_certificate: keys.client_certificate,
                client_private_key: keys.client_private_key,
            });
        }
    };
    let message = "missing; a client certificate and its private key go together";
    Err(Error::refused(origin, join(&["model_providers", id, "tls", missing]), message))
}

/// Static headers, overridden by those from variables that are set and not empty.
fn headers(keys: &ModelProvider, environment: &Environment<'_>) -> BTreeMap<String, Secret> {
    let fixed = keys.http_headers.iter();
    let mut headers: BTreeMap<String, Secret> =
        fixed.map(|(name, value)| (name.clone(), Secret::new(value.as_str()))).collect();
    for (name, variable_name) in &keys.env_http_headers {
        if let Some(value) = variable(environment, variable_name) {
            headers.insert(name.clone(), value);
        }
    }
    headers
}

fn trimmed(address: &str) -> String {
    address.trim_end_matches('/').to_owned()
}

pub(crate) fn variable(environment: &Environment<'_>, name: &str) -> Option<Secret> {
    (environment.variable)(name).filter(|value| !value.is_empty()).map(Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_server_is_where_a_variable_or_its_custom_says() {
        let check = |server: usize, variables: &[(&str, &str)], expect: &str| {
            let variable = |name: &str| {
                let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
                Some((*value).to_owned())
            };
            let folder = std::path::Path::new("/");
            let environment =
                Environment { home: folder, system: folder, cwd: folder, variable: &variable };
            assert_eq!(LOCAL[server].address(&environment), expect, "{variables:?}");
        };
        check(0, &[], "http://127.0.0.1:11434/v1");
        check(1, &[], "http://127.0.0.1:1234/v1");
        check(1, &[("OLLAMA_HOST", "gpu")], "http://127.0.0.1:1234/v1");
        for (listens, expect) in [
            ("gpu", "http://gpu:11434/v1"),
            ("gpu:80", "http://gpu:80/v1"),
            (":80", "http://127.0.0.1:80/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("https://gpu:443/", "https://gpu:443/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("[::]:80", "http://127.0.0.1:80/v1"),
        ] {
            check(0, &[("OLLAMA_HOST", listens)], expect);
        }
        check(0, &[("AGENT_OSS_PORT", "99"), ("OLLAMA_HOST", "x")], "http://127.0.0.1:99/v1");
        let both = [("AGENT_OSS_PORT", "99"), ("AGENT_OSS_BASE_URL", "http://a/v1/")];
        check(1, &both, "http://a/v1");
    }
}
