//! The stored shape of a thread's settings.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use session::{ApprovalPolicy, ApprovalsReviewer, Mode, Permissions, SandboxPolicy, Settings};

use super::policies::{ApprovalShape, ReviewerShape, SandboxShape};

/// Settings in their stored shape.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredSettings(#[serde(with = "Shape")] pub(crate) Settings);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Settings", rename_all = "camelCase")]
struct Shape {
    model: String,
    provider: String,
    cwd: PathBuf,
    #[serde(with = "ApprovalShape")]
    approval: ApprovalPolicy,
    #[serde(default, with = "ReviewerShape", skip_serializing_if = "ApprovalsReviewer::is_user")]
    reviewer: ApprovalsReviewer,
    #[serde(with = "SandboxShape")]
    sandbox: SandboxPolicy,
    // Ends with the loaded thread.
    #[serde(skip)]
    granted: Permissions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effort: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verbosity: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    personality: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_tier: Option<String>,
    #[serde(default, with = "ModeShape")]
    mode: Mode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode_instructions: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode", rename_all = "camelCase")]
enum ModeShape {
    Default,
    Plan,
}
