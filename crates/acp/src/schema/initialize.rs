//! The handshake and the login.

use serde::{Deserialize, Deserializer, Serialize, de};

use super::or_default;

/// The member of the parameters of `initialize` that every version has.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnyInitialize {
    /// The latest that the client speaks: the answer names the one that is spoken.
    #[serde(deserialize_with = "number_or_text")]
    pub(crate) protocol_version: i64,
}

/// A number, also as its text, which some clients send.
fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`protocolVersion` must be a number")]
    enum Version {
        Number(i64),
        Fraction(f64),
        Text(String),
    }
    match Version::deserialize(deserializer)? {
        Version::Number(version) => Ok(version),
        // Some languages write whole numbers with a fraction of zero.
        Version::Fraction(version) if version.fract() == 0.0 && version.abs() < 1e9 => {
            Ok(version as i64)
        }
        Version::Fraction(version) => Err(de::Error::custom(format!(
            "`protocolVersion` must be a whole number, not {version}"
        ))),
        Version::Text(text) => text.trim().parse().map_err(|_| {
            de::Error::custom(format!("`protocolVersion` must be a number, not {text:?}"))
        }),
    }
}

/// Parameters of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeRequest {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) client_capabilities: ClientCapabilities,
    #[serde(default)]
    pub(crate) client_info: Option<Implementation>,
}

/// The capabilities of the client.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientCapabilities {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) fs: FileSystemCapabilities,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) session: ClientSessionCapabilities,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) auth: AuthCapabilities,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) elicitation: ElicitationCapabilities,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileSystemCapabilities {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) read_text_file: bool,
}

/// An empty object stands for a capability.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ClientSessionCapabilities {
    #[serde(default)]
    pub(crate) compaction: Option<Supported>,
    #[serde(default)]
    pub(crate) notices: Option<Supported>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct AuthCapabilities {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) terminal: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ElicitationCapabilities {
    #[serde(default)]
    pub(crate) form: Option<Supported>,
    #[serde(default)]
    pub(crate) url: Option<Supported>,
}

/// An object without members that says: this is supported.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Supported {}

/// A program and its version.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) version: String,
}

/// Result of `initialize`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InitializeResponse {
    pub(crate) protocol_version: u16,
    pub(crate) agent_capabilities: AgentCapabilities,
    pub(crate) auth_methods: Vec<AuthMethod>,
    pub(crate) agent_info: Implementation,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentCapabilities {
    pub(crate) load_session: bool,
    pub(crate) prompt_capabilities: PromptCapabilities,
    pub(crate) mcp_capabilities: McpCapabilities,
    pub(crate) session_capabilities: SessionCapabilities,
    pub(crate) auth: AgentAuthCapabilities,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptCapabilities {
    pub(crate) image: bool,
    pub(crate) audio: bool,
    pub(crate) embedded_context: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct McpCapabilities {
    pub(crate) http: bool,
    pub(crate) sse: bool,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionCapabilities {
    pub(crate) list: Supported,
    pub(crate) delete: Supported,
    pub(crate) additional_directories: Supported,
    pub(crate) resume: Supported,
    pub(crate) close: Supported,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct AgentAuthCapabilities {
    pub(crate) logout: Supported,
}

/// A way to log in.
#[derive(Debug, Serialize)]
pub(crate) struct AuthMethod {
    /// `terminal`; absent where the agent does it itself.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// The arguments that a terminal login adds to the command line.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) args: &'static [&'static str],
}

/// Parameters of `authenticate`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthenticateRequest {
    pub(crate) method_id: String,
}
