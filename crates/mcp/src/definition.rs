//! A server as the configuration defines it, with every value resolved. Equal definitions are the same
//! server, which runs once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Definition {
    /// The name in the configuration.
    pub name: String,
    pub transport: Transport,
    /// Offers only these tools.
    pub enabled_tools: Option<Vec<String>>,
    /// Never offers these.
    pub disabled_tools: Vec<String>,
    /// Time limit of a start.
    pub startup_timeout: Duration,
    /// Time limit of a call, without the time that the user needs for an answer.
    pub tool_timeout: Duration,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A program that speaks the protocol on its standard input and output.
    Stdio(Program),
    /// A streamable HTTP endpoint.
    Http(HttpServer),
    /// The entry cannot be used, with the reason.
    Unusable(String),
}

/// A program to start.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    /// Absolute.
    pub cwd: PathBuf,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Names of variables to pass on.
    pub env_vars: Vec<String>,
}

/// An endpoint.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpServer {
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Token of every request.
    pub bearer: Option<String>,
    pub oauth: Oauth,
}

/// How the program logs in at an endpoint.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Oauth {
    /// Scopes to request; when empty, those that the server asks for.
    pub scopes: Vec<String>,
    /// The `resource` parameter of RFC 8707 in place of the one that the metadata name.
    pub resource: Option<String>,
    /// A client that is registered at the authorization server.
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// Address of a client ID metadata document.
    pub client_metadata_url: Option<String>,
    /// Where the login is stored.
    pub store: LoginStore,
}

/// Where logins are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoginStore {
    /// In private files.
    #[default]
    File,
    /// In the keyring of the operating system.
    Keyring,
    /// In the keyring if there is one, else in files.
    Auto,
}

impl HttpServer {
    /// Whether requests have credentials of the configuration, so that no login is needed.
    pub fn has_credentials(&self) -> bool {
        let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
        self.bearer.is_some() || self.headers.keys().any(is_authorization)
    }
}

impl Definition {
    /// Whether the configuration offers this tool.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is = |listed: &String| listed == tool;
        self.enabled_tools.as_ref().is_none_or(|enabled| enabled.iter().any(is))
            && !self.disabled_tools.iter().any(is)
    }
}

impl fmt::Debug for Definition {
    /// Without arguments, variables and headers, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match &self.transport {
            Transport::Stdio(program) => &program.command,
            Transport::Http(server) => &server.url,
            Transport::Unusable(reason) => reason,
        };
        f.debug_struct("Definition")
            .field("name", &self.name)
            .field("transport", transport)
            .finish_non_exhaustive()
    }
}
