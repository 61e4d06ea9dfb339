//! The answer of an endpoint to the probe for its era.

use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::{Instant, timeout_at};

use crate::error::chain;
use crate::http::Failure;
use crate::probe::{self, FailedStart};

type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The answer to the probe for the era. Only a demand of a login is a failure: whatever else an
/// endpoint does with a method that it does not know, it may know the handshake.
pub(super) async fn bounded(
    posted: impl Future<Output = Result<StreamableHttpPostResponse, Failure>>,
    id: RequestId,
    failed: &FailedStart,
) -> Result<StreamableHttpPostResponse, Failure> {
    let deadline = Instant::now() + probe::LIMIT;
    let why = match timeout_at(deadline, posted).await {
        Ok(Ok(StreamableHttpPostResponse::Accepted)) => "no answer".to_owned(),
        Ok(Err(error)) if !is_login(&error) => chain(&error),
        // Refusals of unknown methods often lack the id.
        Ok(Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(mut error), session))) => {
            error.id = Some(id);
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session));
        }
        Ok(Ok(StreamableHttpPostResponse::Sse(events, session))) => {
            let events = bounded_events(events, deadline, id, failed.clone());
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        Ok(answer) => return answer,
        Err(_) => {
            // Should it not know the handshake either, it is of the new era and slow.
            failed.set_late();
            return Ok(StreamableHttpPostResponse::Json(probe::unanswered(id), None));
        }
    };
    Ok(StreamableHttpPostResponse::Json(probe::refused(why, id), None))
}

fn is_login(error: &Failure) -> bool {
    matches!(
        error,
        StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::InsufficientScope(_)
            | StreamableHttpError::Auth(_)
    )
}

/// Events with the answer to the probe, or with what stands for it once they end or the time is up: the
/// protocol's library sends nothing else before.
fn bounded_events(events: Events, deadline: Instant, id: RequestId, failed: FailedStart) -> Events {
    let state = (events, Some((id, failed)));
    let bounded = futures_util::stream::unfold(state, move |(mut events, mut open)| async move {
        let Some((id, failed)) = open.take() else {
            return Some((events.next().await?, (events, None)));
        };
        match timeout_at(deadline, events.next()).await {
            Ok(Some(event)) => {
                let open = (!is_answer(&event)).then_some((id, failed));
                Some((event, (events, open)))
            }
            ended => {
                if ended.is_err() {
                    failed.set_late();
                }
                // A message of the library has no part that JSON cannot express.
                let data = serde_json::to_string(&probe::unanswered(id)).unwrap_or_default();
                Some((Ok(Sse::default().data(data)), (futures_util::stream::empty().boxed(), None)))
            }
        }
    });
    bounded.boxed()
}

fn is_answer(event: &Result<Sse, SseError>) -> bool {
    let data = event.as_ref().ok().and_then(|event| event.data.as_deref());
    let message = data.and_then(|data| serde_json::from_str::<ServerJsonRpcMessage>(data).ok());
    matches!(message, Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}
