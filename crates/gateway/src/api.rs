//! What the gateway serves to holders of a project's key, a file a resource. The table of paths is
//! `serve/route.rs`.

mod asked;
mod batch_lines;
mod batches;
mod exchange;
mod files;
mod forward;
mod generate;
mod listing;
mod models;
mod owned;
mod refused;
mod relay;
mod upload;
mod upstream_files;

use hyper::body::Incoming;
use hyper::{Request, Response};

pub(crate) use batch_lines::{LineOf, line, read_line};
pub(crate) use exchange::{Exchange, Recognised, limits_unavailable};
pub(crate) use owned::Remembered;
pub(crate) use relay::Whole;

use crate::serve::answer::AnswerBody;
use crate::serve::route::Api;
use gateway_policy::error::ApiError;

/// An answer, or the error that becomes one.
pub(crate) type Answered = Result<Response<AnswerBody>, ApiError>;

/// Answers a request whose key was recognised.
pub(crate) async fn answer(
    exchange: &mut Exchange,
    api: Api<'_>,
    request: Request<Incoming>,
) -> Answered {
    match api {
        Api::Generate(generation) => generate::answer(exchange, generation, request).await,
        Api::Models => Ok(models::list(exchange)),
        Api::Model(name) => models::get(exchange, name).await,
        Api::WrongMethod(allowed) => Err(refused::method(request.method(), allowed)),
        Api::FineTuningLimits => Ok(models::fine_tuning_limits(exchange)),
        Api::Retired => Err(refused::retired(request.uri().path())),
        Api::Files(rest) => files::answer(exchange, rest, request).await,
        Api::Batches(rest) => batches::answer(exchange, rest, request).await,
        _ => forward::answer(exchange, api, request).await,
    }
}
