//! Processes outside any sandbox (experimental). They end with the connection that started them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::{OutputStream, TerminalSize};
use crate::common::{AbsolutePath, Empty};
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Process, ProcessMethods;

    /// Starts a process.
    ProcessSpawn = "process/spawn",
        process_spawn(ProcessSpawnParams) -> Empty,
        Experimental, Begins, [], StartsWork;

    /// Writes to a process's stdin, or closes it.
    ProcessWriteStdin = "process/writeStdin",
        process_write_stdin(ProcessWriteStdinParams) -> Empty,
        Experimental, Ordered, [];

    /// Resizes a process's terminal.
    ProcessResizePty = "process/resizePty",
        process_resize_pty(ProcessResizePtyParams) -> Empty,
        Experimental, Ordered, [];

    /// Kills a process.
    ProcessKill = "process/kill",
        process_kill(ProcessKillParams) -> Empty,
        Experimental, Ordered, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// More output of a process.
    ProcessOutputDelta = "process/outputDelta", ProcessOutputDeltaNotification, Experimental;

    /// A process ended.
    ProcessExited = "process/exited", ProcessExitedNotification, Experimental;
}

/// Parameters of `process/spawn`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessSpawnParams {
    /// Program and arguments; must not be empty.
    pub command: Vec<String>,
    /// The client's name for the process.
    pub process_handle: String,
    pub cwd: AbsolutePath,
    /// Variables to set; null unsets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// Maximum number of bytes kept of each stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes_cap: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_stdin: Option<bool>,
    /// Defaults to `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_stdout_stderr: Option<bool>,
}

/// Parameters of `process/writeStdin`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessWriteStdinParams {
    pub process_handle: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_base64: Option<String>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub close_stdin: bool,
}

/// Parameters of `process/resizePty`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessResizePtyParams {
    pub process_handle: String,
    pub size: TerminalSize,
}

/// Parameters of `process/kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessKillParams {
    pub process_handle: String,
}

/// Payload of `process/outputDelta`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessOutputDeltaNotification {
    pub process_handle: String,
    pub stream: OutputStream,
    pub delta_base64: String,
    /// No more output of this stream follows.
    pub cap_reached: bool,
}

/// Payload of `process/exited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessExitedNotification {
    pub process_handle: String,
    pub exit_code: i32,
    /// The captured output.
    pub stdout: String,
    pub stdout_cap_reached: bool,
    /// The captured output.
    pub stderr: String,
    pub stderr_cap_reached: bool,
}
