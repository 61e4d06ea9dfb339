//! Feedback from users to the developers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::AbsolutePath;
use crate::table::methods;
use crate::wire;

methods! {
    Feedback, FeedbackMethods;

    /// Writes a report, without secrets, into a file of the agent's home.
    FeedbackUpload = "feedback/upload",
        feedback_upload(FeedbackUploadParams) -> FeedbackUploadResponse,
        Stable, Concurrent, ["dryRun"];
}

/// Parameters of `feedback/upload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeedbackUploadParams {
    pub classification: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    pub include_logs: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_log_files: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Write nothing, and answer with what the report would hold.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    #[schemars(extend("x-experimental" = true))]
    pub dry_run: bool,
}

/// Result of `feedback/upload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackUploadResponse {
    /// Id to quote in further communication: that of the thread, or of the report.
    pub thread_id: String,
    /// The file that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub path: Option<AbsolutePath>,
    /// With `dryRun`: what would be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-experimental" = true))]
    pub report: Option<Value>,
}
