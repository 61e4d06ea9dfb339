//! Reads the events of an answer, within the time that it has.

use std::time::Duration;

use http_body_util::BodyExt;
use http_client::{DecodedBody, error_chain};
use hyper::body::Body;
use tokio::{sync::mpsc, time};

use crate::open::{Answer, Opened};
use crate::pacing::Permit;
use crate::reported_limits;
use crate::{Decoder, Endpoint, Event, Failure, Provider, Retry};

/// Longest time for reading the rest of a finished response, so that its connection can be reused.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest delay of the last event for that purpose, so that the connection is available to the
/// next request.
const DRAIN_GRACE: Duration = Duration::from_millis(1);

/// Most multiples of the idle timeout that a stream of comments and unknown events may last. Providers
/// send keep-alives while a model thinks, so that they count longer than silence, but not forever.
const MAX_KEEP_ALIVE: u32 = 6;

pub(crate) fn silent(endpoint: &Endpoint, idle: Duration) -> Failure {
    let host = endpoint.host();
    let seconds = idle.as_secs_f64();
    Failure::disconnected(format!("{host} sent nothing for {seconds} s (`stream_idle_timeout_ms`)"))
}

pub(crate) fn only_keep_alives(endpoint: &Endpoint, idle: Duration) -> Failure {
    let host = endpoint.host();
    let seconds = (idle * MAX_KEEP_ALIVE).as_secs_f64();
    let failure = Failure::disconnected(format!(
        "{host} kept the connection alive for {seconds} s without an event of the response \
         ({MAX_KEEP_ALIVE} times `stream_idle_timeout_ms`); the request is not sent again, start a \
         new turn to try once more"
    ));
    // Further tries would make hours of it.
    Failure { retry: Retry::Never, ..failure }
}

/// When the next bytes must arrive, given the last event, and whether that is the end of all patience with
/// keep-alives.
pub(crate) fn deadline(progress: time::Instant, idle: Duration) -> (time::Instant, bool) {
    let no_progress = progress + idle * MAX_KEEP_ALIVE;
    let silence = time::Instant::now() + idle;
    (no_progress.min(silence), no_progress <= silence)
}

pub(crate) async fn pump(
    provider: &Provider,
    endpoint: &Endpoint,
    opened: Opened,
    permit: &mut Permit,
    sender: &mpsc::Sender<Vec<Event>>,
) {
    let idle = provider.stream_idle_timeout;
    let Opened { body, mut translation, left_out, request_id, served_by, .. } = opened;
    let mut translated = String::new();
    let mut decoder = Decoder::new();
    if let Some(model) = served_by {
        decoder.model_is_known();
        if sender.send(vec![Event::ServedBy { model }]).await.is_err() {
            return;
        }
    }
    if !left_out.is_empty() {
        let left_out = left_out.into_iter().map(Event::LeftOut).collect();
        if sender.send(left_out).await.is_err() {
            return;
        }
    }
    let explain = |batch: &mut Vec<Event>| {
        if let Some(Event::Failed(failure)) = batch.last_mut() {
            // It may quote the provider's text, which may quote the key.
            failure.message = provider.redact(&failure.message);
            failure.details = request_id.clone().map(Into::into);
        }
    };
    let mut body = match body {
        Answer::Stream(body) => body,
        Answer::Document(document) => {
            let mut batch = Vec::new();
            decoder.feed_document(&document, &mut batch);
            explain(&mut batch);
            // Ignored: the reader is gone.
            let _ = sender.send(batch).await;
            return;
        }
    };
    let mut progress = time::Instant::now();
    while !decoder.ended() {
        let mut batch = Vec::new();
        let (deadline, is_last) = deadline(progress, idle);
        match time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => match (frame.data_ref(), &mut translation) {
                (Some(data), None) => decoder.feed(data, &mut batch),
                (Some(data), Some(translation)) => {
                    let fed = translation.feed(data, &mut translated);
                    batch.extend(translation.left_out().map(Event::LeftOut));
                    decoder.feed(translated.as_bytes(), &mut batch);
                    translated.clear();
                    if let Err(error) = fed {
                        decoder.fail(Failure::disconnected(error), &mut batch);
                    }
                }
                (None, _) => {}
            },
            Ok(None) => {
                if let Some(translation) = &mut translation {
                    translation.finish(&mut translated);
                    batch.extend(translation.left_out().map(Event::LeftOut));
                    decoder.feed(translated.as_bytes(), &mut batch);
                }
                decoder.finish(&mut batch);
            }
            Ok(Some(Err(error))) => {
                let message =
                    format!("the stream from {} broke: {}", endpoint.host(), error_chain(&error));
                decoder.fail(Failure::disconnected(message), &mut batch);
            }
            Err(_) if is_last => {
                decoder.fail(only_keep_alives(endpoint, idle), &mut batch);
            }
            Err(_) => decoder.fail(silent(endpoint, idle), &mut batch),
        }
        reported_limits::note(&batch, permit);
        if batch.iter().any(Event::is_response) {
            progress = time::Instant::now();
        }
        explain(&mut batch);
        if matches!(batch.last(), Some(Event::Completed { .. })) {
            free_connection(body).await;
            // Ignored: the reader is gone.
            let _ = sender.send(batch).await;
            return;
        }
        if !batch.is_empty() && sender.send(batch).await.is_err() {
            return;
        }
    }
}

/// Returns the connection of a finished response to the pool. Usually the end has arrived with the
/// last event, and the next request finds the connection available; otherwise a task of its own
/// awaits the end, because the reader drops the stream after the last event.
async fn free_connection(body: DecodedBody) {
    let drain = tokio::spawn(drain(body));
    // On a timeout the task continues.
    let _ = time::timeout(DRAIN_GRACE, drain).await;
}

/// Reads the end of a body, so that an HTTP/1.1 connection goes back to the pool.
pub(crate) async fn drain(mut body: impl Body + Unpin) {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    // A server that keeps sending after the end loses the connection.
    let _ = time::timeout(DRAIN_TIMEOUT, rest).await;
}
