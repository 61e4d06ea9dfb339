//! Commands in the server's sandbox, without a thread.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::permission::PermissionProfile;
use crate::policy::SandboxPolicy;
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Command, CommandMethods;

    /// Runs a command and returns after its end.
    CommandExec = "command/exec",
        command_exec(CommandExecParams) -> CommandExecResponse,
        Stable, Begins, ["permissionProfile"], StartsWork;

    /// Writes to a session's stdin, or closes it.
    CommandExecWrite = "command/exec/write",
        command_exec_write(CommandExecWriteParams) -> Empty,
        Stable, Ordered, [];

    /// Resizes a session's terminal.
    CommandExecResize = "command/exec/resize",
        command_exec_resize(CommandExecResizeParams) -> Empty,
        Stable, Ordered, [];

    /// Ends a session.
    CommandExecTerminate = "command/exec/terminate",
        command_exec_terminate(CommandExecTerminateParams) -> Empty,
        Stable, Ordered, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// More output of a streaming session.
    CommandExecOutputDelta = "command/exec/outputDelta", CommandExecOutputDeltaNotification, Stable;
}

/// Parameters of `command/exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandExecParams {
    /// Program and arguments; must not be empty.
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables to set; null unsets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox_policy: Option<SandboxPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub permission_profile: Option<PermissionProfile>,
    /// The server's default applies when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub disable_timeout: bool,
    /// Maximum number of bytes kept of each stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes_cap: Option<u64>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub disable_output_cap: bool,
    /// The client's name for the session; required for `tty`, streaming and follow-up calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_id: Option<String>,
    /// Runs on a pseudo-terminal.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub tty: bool,
    /// Size of that terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<TerminalSize>,
    /// Accepts input from `command/exec/write`.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub stream_stdin: bool,
    /// Sends output as it arrives.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub stream_stdout_stderr: bool,
}

/// Size of a terminal, in cells.
#[derive(Debug, Clone, PartialEq, Copy, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    pub rows: u16,
    pub cols: u16,
}

/// Result of `command/exec`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecResponse {
    /// 124 after a timeout, -1 if the command was terminated.
    pub exit_code: i32,
    /// Empty when streamed.
    pub stdout: String,
    /// Empty when streamed. How it interleaves with `stdout` is not known.
    pub stderr: String,
}

/// Parameters of `command/exec/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandExecWriteParams {
    pub process_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_base64: Option<String>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub close_stdin: bool,
}

/// Parameters of `command/exec/resize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandExecResizeParams {
    pub process_id: String,
    pub size: TerminalSize,
}

/// Parameters of `command/exec/terminate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandExecTerminateParams {
    pub process_id: String,
}

/// Payload of `command/exec/outputDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecOutputDeltaNotification {
    pub process_id: String,
    pub stream: OutputStream,
    pub delta_base64: String,
    /// No more output of this stream follows.
    pub cap_reached: bool,
}

/// Which output a chunk belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OutputStream {
    Stdout,
    Stderr,
}
