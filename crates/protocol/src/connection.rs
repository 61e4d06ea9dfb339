//! The handshake: who the client is, what it can do, where the server lives.

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
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

    /// Something in the configuration was ignored or looks wrong.
    ConfigWarning = "configWarning", ConfigWarningNotification, Stable;

    /// The client uses something that will go away.
    DeprecationNotice = "deprecationNotice", DeprecationNoticeNotification, Stable;

    /// Something went wrong that does not end the work.
    Warning = "warning", WarningNotification, Stable;

    /// The remote-control link changed its state.
    RemoteControlStatusChanged = "remoteControl/status/changed", RemoteControlStatusChangedNotification, Stable;

    /// A pending server request was answered or cleared.
    ServerRequestResolved = "serverRequest/resolved", ServerRequestResolvedNotification, Stable;
}

/// Parameters of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    pub client_info: ClientInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<InitializeCapabilities>,
}

/// The program that embeds the server; `name` appears in compliance logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientInfo {
    /// Must be able to stand in an HTTP header.
    pub name: String,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub version: String,
}

/// What the client asks of its connection.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeCapabilities {
    /// Opens experimental methods and fields.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub experimental_api: bool,
    /// Notifications about a thread carry `eventCursor` beside `method` and `params`: their place,
    /// from which `thread/resume` can go on. Experimental.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[cfg_attr(feature = "schema", schemars(extend("x-experimental" = true)))]
    pub event_cursor: bool,
    /// Exact method names of notifications not to send; unknown names are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt_out_notification_methods: Option<Vec<String>>,
}

/// Result of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct InitializeResponse {
    /// What the server presents to model providers.
    pub user_agent: String,
    /// Folder of configuration and stored threads.
    pub agent_home: AbsolutePath,
    /// `unix` or `windows`.
    pub platform_family: String,
    /// For example `linux` or `macos`.
    pub platform_os: String,
}

/// Payload of `configWarning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigWarningNotification {
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// File that the warning is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Place in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<TextRange>,
}

/// A span of text in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextRange {
    pub start: TextPosition,
    pub end: TextPosition,
}

/// A place in a text file; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextPosition {
    pub line: u64,
    pub column: u64,
}

/// Payload of `deprecationNotice`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeprecationNoticeNotification {
    pub summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// Payload of `warning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct WarningNotification {
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Payload of `remoteControl/status/changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemoteControlStatusChangedNotification {
    pub status: RemoteControlConnectionStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
}

/// State of the remote-control link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum RemoteControlConnectionStatus {
    Disabled,
    Connecting,
    Connected,
    Errored,
}

/// Payload of `serverRequest/resolved`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ServerRequestResolvedNotification {
    pub thread_id: String,
    /// Id that the server gave its request.
    #[cfg_attr(feature = "schema", schemars(with = "RequestIdShape"))]
    pub request_id: RequestId,
}
