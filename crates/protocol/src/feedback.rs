//! Feedback from users to the developers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::table::methods;

methods! {
    Feedback, FeedbackMethods;

    /// Sends a report.
    FeedbackUpload = "feedback/upload",
        feedback_upload(FeedbackUploadParams) -> FeedbackUploadResponse,
        Stable, Unimplemented, [];
}

/// Parameters of `feedback/upload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
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
}

/// Result of `feedback/upload`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FeedbackUploadResponse {
    /// Id to quote in further communication.
    pub thread_id: String,
}
