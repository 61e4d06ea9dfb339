//! Feedback. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{FeedbackMethods, FeedbackUploadParams, FeedbackUploadResponse};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl FeedbackMethods<Cx> for Server {
    not_implemented! {
        feedback_upload(FeedbackUploadParams) -> FeedbackUploadResponse = "feedback/upload";
    }
}
