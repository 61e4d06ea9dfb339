//! Why a turn failed. Errors of requests are in `jsonrpc`.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Error of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    /// Message for people.
    pub message: String,
    /// Kind of the error, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_error_info: Option<AgentErrorInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_details: Option<String>,
}

/// Kind of a turn's error (specification, "Errors"). On the wire it is the name, or, if
/// the kind has a value, an object such as `{name: {httpStatusCode}}`. Names in camel case are
/// accepted too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentErrorInfo {
    /// The history no longer fits the model's context window.
    ContextWindowExceeded,
    /// The account's usage limit is reached.
    UsageLimitExceeded,
    /// The upstream responded with 4xx or 5xx.
    HttpConnectionFailed { http_status_code: Option<u16> },
    /// The response stream could not be opened.
    ResponseStreamConnectionFailed { http_status_code: Option<u16> },
    /// The response stream was interrupted.
    ResponseStreamDisconnected { http_status_code: Option<u16> },
    /// The last retry failed too.
    ResponseTooManyFailedAttempts { http_status_code: Option<u16> },
    /// The upstream refused the request as malformed.
    BadRequest,
    /// The upstream refused the credentials.
    Unauthorized,
    /// The sandbox could not be set up.
    SandboxError,
    /// An internal error of the server.
    InternalServerError,
    /// The upstream is overloaded.
    ServerOverloaded,
    /// A cyber-security policy blocked the request.
    CyberPolicy,
    /// A rollback failed.
    ThreadRollbackFailed,
    /// The turn in progress accepts no further input.
    ActiveTurnNotSteerable { turn_kind: NonSteerableTurnKind },
    /// Any other error.
    Other,
}

/// Kind of a turn that accepts no further input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NonSteerableTurnKind {
    Review,
    Compact,
}

impl AgentErrorInfo {
    /// Returns the same kind of error with the upstream's status, if the kind has one.
    #[must_use]
    pub fn with_http_status(self, status: Option<u16>) -> Self {
        let http_status_code = status;
        match self {
            Self::HttpConnectionFailed { .. } => Self::HttpConnectionFailed { http_status_code },
            Self::ResponseStreamConnectionFailed { .. } => {
                Self::ResponseStreamConnectionFailed { http_status_code }
            }
            Self::ResponseStreamDisconnected { .. } => {
                Self::ResponseStreamDisconnected { http_status_code }
            }
            Self::ResponseTooManyFailedAttempts { .. } => {
                Self::ResponseTooManyFailedAttempts { http_status_code }
            }
            other => other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::ContextWindowExceeded => "ContextWindowExceeded",
            Self::UsageLimitExceeded => "UsageLimitExceeded",
            Self::HttpConnectionFailed { .. } => "HttpConnectionFailed",
            Self::ResponseStreamConnectionFailed { .. } => "ResponseStreamConnectionFailed",
            Self::ResponseStreamDisconnected { .. } => "ResponseStreamDisconnected",
            Self::ResponseTooManyFailedAttempts { .. } => "ResponseTooManyFailedAttempts",
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::SandboxError => "SandboxError",
            Self::InternalServerError => "InternalServerError",
            Self::ServerOverloaded => "ServerOverloaded",
            Self::CyberPolicy => "CyberPolicy",
            Self::ThreadRollbackFailed => "ThreadRollbackFailed",
            Self::ActiveTurnNotSteerable { .. } => "ActiveTurnNotSteerable",
            Self::Other => "Other",
        }
    }

    fn detail(self) -> Option<Detail> {
        match self {
            Self::HttpConnectionFailed { http_status_code: Some(status) }
            | Self::ResponseStreamConnectionFailed { http_status_code: Some(status) }
            | Self::ResponseStreamDisconnected { http_status_code: Some(status) }
            | Self::ResponseTooManyFailedAttempts { http_status_code: Some(status) } => {
                Some(Detail { http_status_code: Some(status), turn_kind: None })
            }
            Self::ActiveTurnNotSteerable { turn_kind } => {
                Some(Detail { http_status_code: None, turn_kind: Some(turn_kind) })
            }
            _ => None,
        }
    }

    fn from_parts(name: &str, detail: &Detail) -> Option<Self> {
        let http_status_code = detail.http_status_code;
        // Upper-casing the first letter accepts both spellings.
        let (first, rest) = name.split_at_checked(1)?;
        Some(match (first.to_ascii_uppercase().as_str(), rest) {
            ("C", "ontextWindowExceeded") => Self::ContextWindowExceeded,
            ("U", "sageLimitExceeded") => Self::UsageLimitExceeded,
            ("H", "ttpConnectionFailed") => Self::HttpConnectionFailed { http_status_code },
            ("R", "esponseStreamConnectionFailed") => {
                Self::ResponseStreamConnectionFailed { http_status_code }
            }
            ("R", "esponseStreamDisconnected") => {
                Self::ResponseStreamDisconnected { http_status_code }
            }
            ("R", "esponseTooManyFailedAttempts") => {
                Self::ResponseTooManyFailedAttempts { http_status_code }
            }
            ("B", "adRequest") => Self::BadRequest,
            ("U", "nauthorized") => Self::Unauthorized,
            ("S", "andboxError") => Self::SandboxError,
            ("I", "nternalServerError") => Self::InternalServerError,
            ("S", "erverOverloaded") => Self::ServerOverloaded,
            ("C", "yberPolicy") => Self::CyberPolicy,
            ("T", "hreadRollbackFailed") => Self::ThreadRollbackFailed,
            ("A", "ctiveTurnNotSteerable") => {
                Self::ActiveTurnNotSteerable { turn_kind: detail.turn_kind? }
            }
            ("O", "ther") => Self::Other,
            _ => return None,
        })
    }
}

impl Serialize for AgentErrorInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.detail() {
            None => serializer.serialize_str(self.name()),
            Some(detail) => serializer.collect_map([(self.name(), detail)]),
        }
    }
}

impl<'de> Deserialize<'de> for AgentErrorInfo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, detail) = match Written::deserialize(deserializer)? {
            Written::Name(name) => (name, Detail::default()),
            Written::Object(members) => members
                .into_iter()
                .next()
                .ok_or_else(|| D::Error::custom("an error kind has a name, not an empty object"))?,
        };
        Self::from_parts(&name, &detail)
            .ok_or_else(|| D::Error::custom(format!("unknown or incomplete error kind `{name}`")))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Object(BTreeMap<String, Detail>),
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Detail {
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status_code: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_kind: Option<NonSteerableTurnKind>,
}

impl schemars::JsonSchema for AgentErrorInfo {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AgentErrorInfo".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let status = serde_json::json!({
            "type": "object",
            "properties": {
                "httpStatusCode": {"type": ["integer", "null"], "minimum": 0, "maximum": 65535}
            }
        });
        let turn_kind = generator.subschema_for::<NonSteerableTurnKind>();
        let steer = serde_json::json!({
            "type": "object", "properties": {"turnKind": turn_kind}, "required": ["turnKind"]
        });
        let object = |name: &str, detail: &serde_json::Value| {
            let mut properties = serde_json::Map::new();
            properties.insert(name.to_owned(), detail.clone());
            serde_json::json!({"type": "object", "properties": properties, "required": [name]})
        };
        schemars::json_schema!({
            "description": "Kind of a turn's error: its name, or an object where there is \
                            something to add.",
            "anyOf": [
                {"type": "string", "enum": [
                    "ContextWindowExceeded", "UsageLimitExceeded", "HttpConnectionFailed",
                    "ResponseStreamConnectionFailed", "ResponseStreamDisconnected",
                    "ResponseTooManyFailedAttempts", "BadRequest", "Unauthorized", "SandboxError",
                    "InternalServerError", "ServerOverloaded", "CyberPolicy",
                    "ThreadRollbackFailed", "Other"
                ]},
                object("HttpConnectionFailed", &status),
                object("ResponseStreamConnectionFailed", &status),
                object("ResponseStreamDisconnected", &status),
                object("ResponseTooManyFailedAttempts", &status),
                object("ActiveTurnNotSteerable", &steer),
            ]
        })
    }
}
