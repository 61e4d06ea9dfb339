//! The handshake: the client's identity and capabilities, and the server's environment.

use serde::{Deserialize, Serialize};

use crate::common::RequestIdShape;
use crate::common::{AbsolutePath, Empty, RequestId};
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Connection, ConnectionMethods;

    /// Opens the connection; the first request, sent once.
    Initialize = "initialize",
        initialize(InitializeParams) -> InitializeResponse,
        Stable, Ordered, [];
}

notifications! {
    CLIENT_NOTIFICATIONS, client_notification_schemas;

    /// Completes the handshake.
    Initialized = "initialized", Empty, Stable;
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A part of the configuration was ignored or looks wrong.
    ConfigWarning = "configWarning", ConfigWarningNotification, Stable;

    /// The client uses a deprecated feature.
    DeprecationNotice = "deprecationNotice", DeprecationNoticeNotification, Stable;

    /// An error that does not stop the work.
    Warning = "warning", WarningNotification, Stable;

    /// Never sent: the state of a remote-control link, which this server does not have.
    RemoteControlStatusChanged = "remoteControl/status/changed", RemoteControlStatusChangedNotification, Stable;

    /// A pending server request was answered or cleared.
    ServerRequestResolved = "serverRequest/resolved", ServerRequestResolvedNotification, Stable;
}

/// Parameters of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    pub client_info: ClientInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<InitializeCapabilities>,
}

/// The program that embeds the server; `name` appears in compliance logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClientInfo {
    /// Must be valid in an HTTP header.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub version: String,
}

/// Capabilities that the client requests for its connection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeCapabilities {
    /// Enables experimental methods and fields.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub experimental_api: bool,
    /// Notifications about a thread carry `eventCursor` next to `method` and `params`: their
    /// position, from which `thread/resume` can continue.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub event_cursor: bool,
    /// `thread/tokenUsage/updated` has `cost`: what the tokens cost.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub token_cost: bool,
    /// Exact method names of notifications to suppress; unknown names are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_out_notification_methods: Option<Vec<String>>,
}

/// Result of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// The user agent that the server sends to model providers.
    pub user_agent: String,
    /// Folder of the configuration and the stored threads.
    pub agent_home: AbsolutePath,
    /// `unix` or `windows`.
    pub platform_family: String,
    /// For example `linux` or `macos`.
    pub platform_os: String,
}

/// Payload of `configWarning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConfigWarningNotification {
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// File that the warning concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Position in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<TextRange>,
}

/// A span of text in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TextRange {
    pub start: TextPosition,
    pub end: TextPosition,
}

/// A position in a text file; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TextPosition {
    pub line: u64,
    pub column: u64,
}

/// Payload of `deprecationNotice`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DeprecationNoticeNotification {
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// Payload of `warning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarningNotification {
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Payload of `remoteControl/status/changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteControlStatusChangedNotification {
    pub status: RemoteControlConnectionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
}

/// State of the remote-control link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RemoteControlConnectionStatus {
    Disabled,
    Connecting,
    Connected,
    Errored,
}

/// Payload of `serverRequest/resolved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerRequestResolvedNotification {
    pub thread_id: String,
    /// Id that the server gave its request.
    #[schemars(with = "RequestIdShape")]
    pub request_id: RequestId,
}
