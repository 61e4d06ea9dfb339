//! `POST /v1/files`: reads the form until its purpose is known. Files of batches are received and
//! stored; all others are forwarded, the received part and the remainder.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::http::request;
use hyper::{Request, header};

use super::forward::{self, Given};
use super::{Answered, Exchange, files, listing};
use crate::intake::{self, BodyReservation};
use crate::router::Api;
use crate::upstream::{OutBody, too_large, too_slow};
use gateway_body::{FormError, Upload, boundary, purpose_so_far};
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_store::records::files::{self as records, CHUNK, File, Purpose};
use gateway_store::records::ids;

/// Default lifetime of a file of a batch, in seconds: 30 days.
const STAYS: i64 = 2_592_000;
/// Attempts to write a chunk while the store is unreachable.
const WRITES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Handles an upload.
pub(super) async fn answer(exchange: &mut Exchange, request: Request<Incoming>) -> Answered {
    let (head, mut incoming) = request.into_parts();
    let boundary = form_boundary(&head)?;
    let server = exchange.settings.server;
    if incoming.size_hint().lower() > server.max_body_bytes {
        return Err(too_large());
    }
    // Large bodies keep their reservation of memory until they are stored.
    let (gateway, caller) = (Arc::clone(&exchange.gateway), Arc::clone(&exchange.caller));
    let mut place = gateway.body_memory.place(&caller.organization.id);
    let taken = take(&mut incoming, &boundary, server.max_body_bytes, &mut place);
    let taken = tokio::time::timeout(server.body_timeout, taken).await;
    match taken.unwrap_or_else(|_| Err(too_slow()))? {
        BufferedBody::Ours(body) => {
            exchange.count_request().await?;
            store(exchange, &body, &boundary).await
        }
        BufferedBody::Theirs(come) => {
            let left = server.max_body_bytes.saturating_sub(come.len() as u64);
            let body = OutBody::resumed(come, incoming, left, server.body_timeout);
            forward::pass(exchange, Api::Files(&[]), head, Given::Ready(body)).await
        }
    }
}

fn form_boundary(head: &request::Parts) -> Result<String, ApiError> {
    let content_type = head.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = boundary(content_type).map_err(|error| form_error(&error))?;
    boundary.map(str::to_owned).ok_or_else(|| {
        let message = "The body must be a multipart/form-data with `purpose` and `file`.";
        ApiError::bad_request("invalid_content_type", message)
    })
}

/// The destination of an upload.
enum BufferedBody {
    /// The gateway: the whole form.
    Ours(Bytes),
    /// The upstream: the received part.
    Theirs(Bytes),
}

/// Reads until the destination is known, and to the end if it is the gateway.
async fn take(
    incoming: &mut Incoming,
    boundary: &str,
    most: u64,
    place: &mut BodyReservation<'_>,
) -> Result<BufferedBody, ApiError> {
    let announced = incoming.size_hint().lower().min(most);
    let mut body = BytesMut::new();
    let (mut looked, mut is_ours) = (0, false);
    while let Some(piece) = intake::data(incoming).await? {
        if (body.len() + piece.len()) as u64 > most {
            return Err(too_large());
        }
        if !body.is_empty() {
            // The body must be buffered.
            place.grow(announced, body.len() + piece.len()).await?;
        }
        body.extend_from_slice(&piece);
        // The form is parsed again when it has doubled, which in total reads it at most twice.
        if is_ours || body.len() < 2 * looked {
            continue;
        }
        looked = body.len();
        match purpose_so_far(&body, boundary).as_deref() {
            None => {}
            Some(purpose) if is_own(purpose) => is_ours = true,
            Some(_) => return Ok(BufferedBody::Theirs(body.freeze())),
        }
    }
    if is_ours {
        return Ok(BufferedBody::Ours(body.freeze()));
    }
    let upload = Upload::read(&body, boundary).map_err(|error| form_error(&error))?;
    match is_own(&upload.purpose) {
        true => Ok(BufferedBody::Ours(body.freeze())),
        false => Ok(BufferedBody::Theirs(body.freeze())),
    }
}

fn is_own(purpose: &str) -> bool {
    [Purpose::Batch, Purpose::BatchOutput].iter().any(|own| own.name() == purpose)
}

async fn store(exchange: &Exchange, body: &Bytes, boundary: &str) -> Answered {
    let upload = Upload::read(body, boundary).map_err(|error| form_error(&error))?;
    if upload.purpose != Purpose::Batch.name() {
        let message = "Only batches create files with the purpose `batch_output`.";
        return Err(ApiError::invalid_value("purpose", message));
    }
    let content = upload.file.bytes_in(body);
    if content.is_empty() {
        return Err(ApiError::invalid_value("file", "The file is empty."));
    }
    let now = seconds(exchange.now);
    let file = File {
        id: ids::new("file-", exchange.now, &*exchange.gateway.random),
        project: exchange.caller.project.id.clone(),
        purpose: upload.purpose.as_str().into(),
        filename: upload.filename.as_str().into(),
        bytes: content.len() as u64,
        created_at: now,
        expires_at: Some(now.saturating_add(stays(&upload)?)),
    };
    let written = write(exchange, &file, content).await;
    written.map_err(|error| {
        tracing::warn!("{}: {error}", file.id);
        ApiError::store_unavailable()
    })?;
    Ok(listing::json(&files::FileObject::from_file(&file)))
}

fn stays(upload: &Upload) -> Result<i64, ApiError> {
    let (anchor, seconds) = ("expires_after[anchor]", "expires_after[seconds]");
    match (&upload.anchor, &upload.seconds) {
        (None, None) => Ok(STAYS),
        (Some(created), Some(after)) if created == "created_at" => {
            let number = after.parse().map_err(|_| {
                ApiError::invalid_value(seconds, "The seconds must be a whole number.")
            })?;
            files::expiry(number, seconds)
        }
        (Some(_), None) => {
            Err(ApiError::invalid_value(seconds, "Please provide the number of seconds."))
        }
        _ => Err(ApiError::invalid_value(anchor, "The anchor must be `created_at`.")),
    }
}

async fn write(
    exchange: &Exchange,
    file: &File,
    content: &[u8],
) -> Result<(), gateway_store::Error> {
    let database = &exchange.gateway.database;
    records::insert(database, file).await?;
    let gone = || gateway_store::Error::failed("the file was deleted while it was written");
    let mut start = 0;
    for chunk in content.chunks(CHUNK) {
        let mut writes = 1;
        loop {
            match records::append(database, &file.id, start, chunk).await {
                Err(error) if error.is_unavailable() && writes < WRITES => writes += 1,
                written => break written?.ok_or_else(gone)?,
            }
            tokio::time::sleep(PAUSE).await;
        }
        start += chunk.len() as u64;
    }
    records::complete(database, &file.id).await?.ok_or_else(gone)
}

fn form_error(error: &FormError) -> ApiError {
    match error.param() {
        Some(param) => ApiError::invalid_value(param, error.to_string()),
        None => ApiError::bad_request("invalid_form", error.to_string()),
    }
}
