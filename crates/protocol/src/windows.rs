//! The sandbox on Windows.

use serde::{Deserialize, Serialize};

use crate::common::{AbsolutePath, Empty};
use crate::table::{methods, notifications};

methods! {
    Windows, WindowsMethods;

    /// Returns whether the sandbox of Windows is set up. Always refused.
    WindowsSandboxReadiness = "windowsSandbox/readiness",
        windows_sandbox_readiness(Empty) -> WindowsSandboxReadinessResponse,
        Stable, Ordered, [];

    /// Sets up the sandbox of Windows. Always refused.
    WindowsSandboxSetupStart = "windowsSandbox/setupStart",
        windows_sandbox_setup_start(WindowsSandboxSetupStartParams) -> WindowsSandboxSetupStartResponse,
        Stable, Ordered, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// Never sent: the end of a setup, which this server does not start.
    WindowsSandboxSetupCompleted = "windowsSandbox/setupCompleted", WindowsSandboxSetupCompletedNotification, Stable;

    /// Never sent: folders on Windows that every user can write to, which this server does not look for.
    WindowsWorldWritableWarning = "windows/worldWritableWarning", WindowsWorldWritableWarningNotification, Stable;
}

/// Result of `windowsSandbox/readiness`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WindowsSandboxReadinessResponse {
    pub status: WindowsSandboxReadinessStatus,
}

/// The setup state of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WindowsSandboxReadinessStatus {
    Ready,
    NotConfigured,
    UpdateRequired,
}

/// Parameters of `windowsSandbox/setupStart`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WindowsSandboxSetupStartParams {
    pub mode: WindowsSandboxSetupMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsolutePath>,
}

/// The way to set up the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WindowsSandboxSetupMode {
    /// With administrator rights.
    Elevated,
    /// Without administrator rights; the older preflight.
    Unelevated,
}

/// Result of `windowsSandbox/setupStart`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WindowsSandboxSetupStartResponse {
    pub started: bool,
}

/// Payload of `windowsSandbox/setupCompleted`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WindowsSandboxSetupCompletedNotification {
    pub mode: WindowsSandboxSetupMode,
    pub success: bool,
    pub error: Option<String>,
}

/// Payload of `windows/worldWritableWarning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowsWorldWritableWarningNotification {
    pub sample_paths: Vec<String>,
    /// Number of further folders.
    pub extra_count: u64,
    pub failed_scan: bool,
}
