//! The handlers of the hosted API, one file per resource. `router.rs` maps paths to them.

mod batch_lines;
pub(crate) mod batches;
mod exchange;
pub(crate) mod files;
pub(crate) mod forward;
pub(crate) mod generate;
pub(crate) mod kept;
mod listing;
pub(crate) mod models;
mod out_request;
mod owned;
pub(crate) mod refused;
mod relay;
mod request_body;
mod training;
mod upload;
mod upstream_files;

use hyper::Response;

pub(crate) use batch_lines::{LineRequest, line, read_line};
pub(crate) use exchange::{Exchange, ResolvedModel};
pub(crate) use relay::Whole;

use crate::answer::AnswerBody;
use gateway_policy::error::ApiError;

/// A response, or the error that becomes one.
pub(crate) type Answered = Result<Response<AnswerBody>, ApiError>;
