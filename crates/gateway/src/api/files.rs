//! `/v1/files`: files of batches are stored in the gateway, all others at the default upstream
//! (decisions: Contract). Uploads are in `upload`.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use super::listing::{self, Paging};
use super::{Answered, Exchange, forward, upload, upstream_files};
use crate::answer::AnswerBody;
use crate::router::Api;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_store::records::files::{self, File, Purpose};

const LIMITS: (u32, u32) = (10_000, 10_000);
/// Accepted lifetimes of a file, in seconds: an hour to 30 days.
const EXPIRY: std::ops::RangeInclusive<i64> = 3600..=2_592_000;

/// Handles the routes of files.
pub(crate) async fn answer(
    exchange: &mut Exchange,
    rest: &[&str],
    request: Request<Incoming>,
) -> Answered {
    if let (&Method::POST, []) = (request.method(), rest) {
        return upload::answer(exchange, request).await;
    }
    if let (&Method::GET, []) = (request.method(), rest) {
        let paging = Paging::read(request.uri().query().unwrap_or_default(), LIMITS)?;
        return list(exchange, &paging).await;
    }
    let [id, below @ ..] = rest else {
        return Err(listing::nothing_at(request.method(), request.uri().path()));
    };
    let Some(file) = find(exchange, id).await? else {
        return forward::answer(exchange, Api::Files(rest), request).await;
    };
    exchange.count_request().await?;
    match (request.method(), below) {
        (&Method::GET, []) => Ok(listing::json(&FileObject::from_file(&file))),
        (&Method::GET, ["content"]) => Ok(content(exchange, file)),
        (&Method::DELETE, []) => delete(exchange, &file).await,
        (method, _) => Err(listing::nothing_at(method, request.uri().path())),
    }
}

/// Validates the lifetime of a file.
///
/// # Errors
/// 400 when it is too short or too long.
pub(super) fn expiry(after: i64, param: &'static str) -> Result<i64, ApiError> {
    if EXPIRY.contains(&after) {
        return Ok(after);
    }
    let (least, most) = (EXPIRY.start(), EXPIRY.end());
    let message = format!("Files can be kept for {least} to {most} seconds.");
    Err(ApiError::invalid_value(param, message))
}

/// A file on the wire.
#[derive(Serialize)]
pub(super) struct FileObject<'a> {
    id: &'a str,
    object: &'static str,
    bytes: u64,
    created_at: i64,
    expires_at: Option<i64>,
    filename: &'a str,
    purpose: &'a str,
    status: &'static str,
    status_details: Option<&'a str>,
}

impl<'a> FileObject<'a> {
    pub(super) fn from_file(file: &'a File) -> Self {
        Self {
            id: &file.id,
            object: "file",
            bytes: file.bytes,
            created_at: file.created_at,
            expires_at: file.expires_at,
            filename: &file.filename,
            purpose: &file.purpose,
            status: "processed",
            status_details: None,
        }
    }
}

async fn find(exchange: &Exchange, id: &str) -> Result<Option<File>, ApiError> {
    let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
    let found = files::get(database, project, id, seconds(exchange.now)).await;
    found.map_err(|_| ApiError::store_unavailable())
}

/// The gateway's own files first, then the upstream's, each in order.
async fn list(exchange: &mut Exchange, paging: &Paging) -> Answered {
    let purpose = paging.purpose.as_deref();
    let ours = [Purpose::Batch, Purpose::BatchOutput];
    let own = ours.into_iter().find(|own| Some(own.name()) == purpose);
    // The limits are checked first, because what follows may take many calls.
    exchange.count_request().await?;
    let is_own_cursor = match &paging.after {
        None => true,
        Some(after) => find(exchange, after).await?.is_some(),
    };
    let mut data: Vec<(Box<str>, Box<RawValue>)> = Vec::new();
    let mut has_more = false;
    if is_own_cursor && (purpose.is_none() || own.is_some()) {
        let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
        let listed = files::list(database, project, own, &paging.page()).await;
        let listed = listed.map_err(|_| ApiError::store_unavailable())?;
        has_more = listed.has_more;
        data = listed.items.iter().filter_map(entry).collect();
    }
    if own.is_none() && !has_more {
        let room = paging.limit as usize - data.len();
        let after = paging.after.clone().filter(|_| !is_own_cursor);
        let (more, is_cut) = upstream_files::list(exchange, paging, after, room).await?;
        data.extend(more);
        has_more = is_cut;
    }
    let entries: Vec<&RawValue> = data.iter().map(|(_, entry)| &**entry).collect();
    Ok(listing::page(&entries, data.iter().map(|(id, _)| &**id), has_more))
}

fn entry(file: &File) -> Option<(Box<str>, Box<RawValue>)> {
    let shown = serde_json::value::to_raw_value(&FileObject::from_file(file)).ok()?;
    Some((file.id.clone(), shown))
}

/// The content, chunk by chunk at the client's pace.
fn content(exchange: &Exchange, file: File) -> Response<AnswerBody> {
    let database = std::sync::Arc::clone(&exchange.gateway.database);
    let size = file.bytes;
    let chunks = futures_util::stream::try_unfold(0, move |at| {
        let (database, id, size) = (std::sync::Arc::clone(&database), file.id.clone(), file.bytes);
        async move {
            if at >= size {
                return Ok(None);
            }
            match files::read_at(&database, &id, at).await? {
                Some(chunk) => {
                    let next = at + chunk.len() as u64;
                    Ok(Some((Bytes::from(chunk), next)))
                }
                None => Err(gateway_store::Error::failed("a file was deleted while it was read")),
            }
        }
    });
    let mut response = Response::new(AnswerBody::Page(axum::body::Body::from_stream(chunks)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    // Browsers must never treat an upload as a page of this host.
    let nosniff = HeaderName::from_static("x-content-type-options");
    headers.insert(nosniff, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response
}

async fn delete(exchange: &Exchange, file: &File) -> Answered {
    let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
    let deleted = files::delete(database, project, &file.id).await;
    let deleted = deleted.map_err(|_| ApiError::store_unavailable())?;
    deleted.ok_or_else(|| super::owned::not_found(&file.id))?;
    #[derive(Serialize)]
    struct Deleted<'a> {
        id: &'a str,
        object: &'static str,
        deleted: bool,
    }
    Ok(listing::json(&Deleted { id: &file.id, object: "file", deleted: true }))
}
