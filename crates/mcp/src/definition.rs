//! A server as the configuration defines it, with every value resolved. Equal definitions are the same
//! server, which runs once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::digest::Digest;

/// The resolved definition of a server.
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

/// The way to reach a server.
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
    pub confinement: Confinement,
}

/// The files that a program may change, and its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// Everything that the user may.
    #[default]
    None,
    /// It changes nothing, or only its working folder and the temporary folders.
    Sandboxed { writes: bool, network: bool },
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

/// The settings of logins at an endpoint.
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
    /// Returns whether requests have credentials of the configuration, so that no login is needed.
    pub fn has_credentials(&self) -> bool {
        let is_authorization = |name: &String| name.eq_ignore_ascii_case("authorization");
        self.bearer.is_some() || self.headers.keys().any(is_authorization)
    }
}

impl Definition {
    /// Identifies what the name stands for: how the server is reached, and with which credentials. Time
    /// limits and the choice of tools are not part of it.
    pub fn digest(&self) -> Digest {
        let mut parts = Parts(Vec::new());
        match &self.transport {
            Transport::Stdio(Program { command, args, cwd, env, env_vars, confinement }) => {
                parts.add(b"stdio");
                parts.add(command.as_bytes());
                parts.add(cwd.as_os_str().as_encoded_bytes());
                parts.add_all(args);
                parts.add_all(env.iter().flat_map(|(name, value)| [name, value]));
                parts.add_all(env_vars);
                // What was known before there were sandboxes keeps its digest.
                if let Confinement::Sandboxed { writes, network } = confinement {
                    parts.add(&[u8::from(*writes), u8::from(*network)]);
                }
            }
            Transport::Http(HttpServer { url, headers, bearer, oauth: _ }) => {
                parts.add(b"http");
                parts.add(url.as_bytes());
                parts.add_all(headers.iter().flat_map(|(name, value)| [name, value]));
                parts.add_all(bearer);
            }
            Transport::Unusable(reason) => {
                parts.add(b"unusable");
                parts.add(reason.as_bytes());
            }
        }
        Digest::of_bytes(&parts.0)
    }

    /// Returns whether the configuration offers this tool.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is = |listed: &String| listed == tool;
        self.enabled_tools.as_ref().is_none_or(|enabled| enabled.iter().any(is))
            && !self.disabled_tools.iter().any(is)
    }
}

/// Texts, each with its length before it, so that no two lists of texts are the same bytes.
struct Parts(Vec<u8>);

impl Parts {
    fn add(&mut self, text: &[u8]) {
        self.0.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.0.extend_from_slice(text);
    }

    fn add_all<'t>(&mut self, texts: impl IntoIterator<Item = &'t String>) {
        let texts: Vec<&String> = texts.into_iter().collect();
        self.0.extend_from_slice(&(texts.len() as u64).to_le_bytes());
        texts.into_iter().for_each(|text| self.add(text.as_bytes()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_what_runs() {
        let program = |command: &str, args: &[&str], cwd: &str| Definition {
            name: "s".to_owned(),
            transport: Transport::Stdio(Program {
                command: command.to_owned(),
                args: args.iter().map(|&arg| arg.to_owned()).collect(),
                cwd: cwd.into(),
                env: BTreeMap::new(),
                env_vars: Vec::new(),
                confinement: Confinement::None,
            }),
            enabled_tools: None,
            disabled_tools: Vec::new(),
            startup_timeout: Duration::ZERO,
            tool_timeout: Duration::ZERO,
        };
        let one = program("a", &["b", "c"], "/");
        assert_eq!(one.digest(), program("a", &["b", "c"], "/").digest());
        let limited = Definition { tool_timeout: Duration::from_secs(9), ..one.clone() };
        assert_eq!(one.digest(), limited.digest());
        let mut confined = one.clone();
        if let Transport::Stdio(program) = &mut confined.transport {
            program.confinement = Confinement::Sandboxed { writes: false, network: false };
        }
        assert_ne!(one.digest(), confined.digest());
        let others = [
            program("x", &["b", "c"], "/"),
            program("a", &["b"], "/"),
            program("a", &["bc"], "/"),
            program("a", &["b", "c"], "/x"),
        ];
        for other in others {
            assert_ne!(one.digest(), other.digest(), "{other:?}");
        }
    }
}
