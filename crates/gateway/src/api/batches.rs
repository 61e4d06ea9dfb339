//! `/v1/batches`: creating, listing, reading and cancelling batches. They run in `batch`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::listing::{self, Paging};
use super::owned::not_found;
use super::{Answered, Exchange, batch_lines};
use crate::batch;
use crate::batch_runner::LEASE;
use crate::intake;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_store::records::batches::{self, Batch, Outcome, Status, Usage};
use gateway_store::records::files::{self, Purpose};
use gateway_store::records::ids;

const WINDOW: &str = "24h";
const WINDOW_SECONDS: i64 = 86_400;
/// Largest request body of this resource, in bytes.
const MAX_BODY: u64 = 1 << 20;
/// Longest wait for the validation of a file; after it, the response shows the batch's current
/// state.
const PATIENCE: Duration = Duration::from_secs(30);
const MAX_METADATA: usize = 16;
/// Most bytes of a key and of a value of metadata.
const MAX_METADATA_BYTES: (usize, usize) = (64, 512);

/// Handles the routes of batches.
pub(crate) async fn answer(
    exchange: &mut Exchange,
    rest: &[&str],
    request: Request<Incoming>,
) -> Answered {
    let (head, incoming) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    exchange.count_request().await?;
    match (&head.method, rest) {
        (&Method::POST, []) => create(exchange, incoming).await,
        (&Method::GET, []) => list(exchange, query).await,
        (&Method::GET, [id]) => show(exchange, id).await,
        (&Method::POST, [id, "cancel"]) => cancel(exchange, id).await,
        (method, _) => Err(listing::nothing_at(method, head.uri.path())),
    }
}

#[derive(Deserialize)]
struct Wanted {
    input_file_id: Option<String>,
    endpoint: Option<String>,
    completion_window: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
    output_expires_after: Option<ExpiresAfter>,
}

#[derive(Deserialize)]
struct ExpiresAfter {
    anchor: String,
    seconds: i64,
}

async fn create(exchange: &Exchange, mut incoming: Incoming) -> Answered {
    let server = exchange.settings.server;
    let most = server.max_body_bytes.min(MAX_BODY);
    let body =
        intake::read_whole(&mut incoming, most, server.body_timeout, exchange.body_reservation())
            .await?
            .bytes;
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| {
        let message = format!("The body is not valid: {error}.");
        ApiError::bad_request("invalid_json", message)
    })?;
    let batch = wanted.checked(exchange).await?;
    let gateway = Arc::clone(&exchange.gateway);
    let until = gateway.clock.now() + LEASE;
    let owner = gateway.batches.owner();
    batches::insert(&gateway.database, &batch, &owner, until)
        .await
        .map_err(|_| ApiError::store_unavailable())?;
    // Continues when the client disconnects; if this node stops, another one validates the file.
    let id = batch.id.clone();
    let check = tokio::spawn(async move {
        let checked = batch::check(&gateway, &batch).await;
        if let Err(error) = checked {
            tracing::warn!("{}: {error}", batch.id);
        }
        batch::hand_over(&gateway, &batch.id, &owner).await;
    });
    // A batch that is still being validated is shown as such.
    let _ = tokio::time::timeout(PATIENCE, check).await;
    show(exchange, &id).await
}

impl Wanted {
    async fn checked(self, exchange: &Exchange) -> Result<Batch, ApiError> {
        let input = required(self.input_file_id, "input_file_id")?;
        let endpoint = required(self.endpoint, "endpoint")?;
        batch_lines::check_endpoint(&endpoint)?;
        if required(self.completion_window, "completion_window")? != WINDOW {
            let message = "The completion window must be `24h`.";
            return Err(ApiError::invalid_value("completion_window", message));
        }
        let metadata = self.metadata.map(|metadata| check_metadata(&metadata)).transpose()?;
        let output_expires_after =
            self.output_expires_after.map(|after| after.seconds()).transpose()?;
        let now = seconds(exchange.now);
        let gateway = &exchange.gateway;
        let project = &exchange.caller.project.id;
        let file = files::get(&gateway.database, project, &input, now).await;
        let file = file.map_err(|_| ApiError::store_unavailable())?;
        let file = file.ok_or_else(|| not_found(&input).param("input_file_id"))?;
        if &*file.purpose != Purpose::Batch.name() {
            let message = "The input file of a batch must have the purpose `batch`.";
            return Err(ApiError::invalid_value("input_file_id", message));
        }
        Ok(Batch {
            id: ids::new("batch_", exchange.now, &*gateway.random),
            organization: exchange.caller.organization.id.clone(),
            project: project.clone(),
            key: exchange.caller.key.clone(),
            endpoint: endpoint.into(),
            model: Box::default(),
            input_file: file.id,
            output_file: None,
            error_file: None,
            status: Status::Validating,
            metadata,
            errors: None,
            queued_tokens: 0,
            total: 0,
            completed: 0,
            failed: 0,
            created_at: now,
            expires_at: now + WINDOW_SECONDS,
            in_progress_at: None,
            finalizing_at: None,
            cancelling_at: None,
            ended_at: None,
            output_expires_after,
            expiring_at: None,
            usage: Usage::default(),
        })
    }
}

impl ExpiresAfter {
    fn seconds(&self) -> Result<i64, ApiError> {
        if self.anchor != "created_at" {
            let message = "The anchor must be `created_at`.";
            return Err(ApiError::invalid_value("output_expires_after.anchor", message));
        }
        super::files::expiry(self.seconds, "output_expires_after.seconds")
    }
}

fn required(value: Option<String>, name: &'static str) -> Result<String, ApiError> {
    value.ok_or_else(|| {
        let message = format!("You must provide `{name}`.");
        ApiError::bad_request("missing_required_parameter", message).param(name)
    })
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<Box<str>, ApiError> {
    let (key, value) = MAX_METADATA_BYTES;
    let fits = |(name, text): (&String, &String)| name.len() <= key && text.len() <= value;
    if metadata.len() > MAX_METADATA || !metadata.iter().all(fits) {
        let message = format!(
            "Metadata has at most {MAX_METADATA} keys of {key} bytes, with values of {value}."
        );
        return Err(ApiError::invalid_value("metadata", message));
    }
    Ok(serde_json::to_string(metadata).unwrap_or_default().into())
}

async fn list(exchange: &Exchange, query: &str) -> Answered {
    let paging = Paging::read(query, (20, 100))?;
    let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
    let listed = batches::list(database, project, &paging.page()).await;
    let listed = listed.map_err(|_| ApiError::store_unavailable())?;
    let entries: Vec<BatchObject<'_>> = listed.items.iter().map(BatchObject::from_batch).collect();
    let ids = listed.items.iter().map(|batch| &*batch.id);
    Ok(listing::page(&entries, ids, listed.has_more))
}

async fn show(exchange: &Exchange, id: &str) -> Answered {
    let batch = find(exchange, id).await?;
    Ok(listing::json(&BatchObject::from_batch(&batch)))
}

async fn find(exchange: &Exchange, id: &str) -> Result<Batch, ApiError> {
    let (database, project) = (&exchange.gateway.database, &exchange.caller.project.id);
    let batch = batches::get(database, project, id).await;
    batch.map_err(|_| ApiError::store_unavailable())?.ok_or_else(|| not_found(id))
}

async fn cancel(exchange: &Exchange, id: &str) -> Answered {
    let batch = find(exchange, id).await?;
    let (from, to) = (&[Status::Validating, Status::InProgress], Status::Cancelling);
    let (database, now) = (&exchange.gateway.database, seconds(exchange.now));
    let advanced = batches::advance(database, &batch.id, from, to, &Outcome::default(), now).await;
    if advanced.map_err(|_| ApiError::store_unavailable())?.is_none() {
        let batch = find(exchange, id).await?;
        if !matches!(batch.status, Status::Cancelling | Status::Cancelled) {
            let status = batch.status.name();
            let message = format!("A batch that is `{status}` can no longer be cancelled.");
            return Err(ApiError::new(StatusCode::CONFLICT, "invalid_status", message));
        }
    }
    exchange.gateway.batches.wake();
    show(exchange, id).await
}

/// A batch on the wire.
#[derive(Serialize)]
struct BatchObject<'a> {
    id: &'a str,
    object: &'static str,
    endpoint: &'a str,
    model: Option<&'a str>,
    errors: Option<Errors>,
    input_file_id: &'a str,
    completion_window: &'static str,
    status: &'static str,
    output_file_id: Option<&'a str>,
    error_file_id: Option<&'a str>,
    created_at: i64,
    in_progress_at: Option<i64>,
    expires_at: i64,
    finalizing_at: Option<i64>,
    completed_at: Option<i64>,
    failed_at: Option<i64>,
    expired_at: Option<i64>,
    cancelling_at: Option<i64>,
    cancelled_at: Option<i64>,
    request_counts: Counts,
    usage: ShownUsage,
    metadata: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Errors {
    object: &'static str,
    data: Box<RawValue>,
}

#[derive(Serialize)]
struct Counts {
    total: u64,
    completed: u64,
    failed: u64,
}

#[derive(Serialize)]
struct ShownUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl<'a> BatchObject<'a> {
    fn from_batch(batch: &'a Batch) -> Self {
        let raw = |text: &Option<Box<str>>| {
            text.as_deref().and_then(|text| RawValue::from_string(text.to_owned()).ok())
        };
        let ended = |status| batch.ended_at.filter(|_| batch.status == status);
        Self {
            id: &batch.id,
            object: "batch",
            endpoint: &batch.endpoint,
            model: Some(&*batch.model).filter(|model| !model.is_empty()),
            errors: raw(&batch.errors).map(|data| Errors { object: "list", data }),
            input_file_id: &batch.input_file,
            completion_window: WINDOW,
            status: batch.status.name(),
            output_file_id: batch.output_file.as_deref(),
            error_file_id: batch.error_file.as_deref(),
            created_at: batch.created_at,
            in_progress_at: batch.in_progress_at,
            expires_at: batch.expires_at,
            finalizing_at: batch.finalizing_at,
            completed_at: ended(Status::Completed),
            failed_at: ended(Status::Failed),
            expired_at: ended(Status::Expired),
            cancelling_at: batch.cancelling_at,
            cancelled_at: ended(Status::Cancelled),
            request_counts: Counts {
                total: batch.total,
                completed: batch.completed,
                failed: batch.failed,
            },
            usage: ShownUsage::from_usage(batch.usage),
            metadata: raw(&batch.metadata),
        }
    }
}

impl ShownUsage {
    fn from_usage(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            input_tokens_details: InputDetails { cached_tokens: usage.cached_tokens },
            output_tokens: usage.output_tokens,
            output_tokens_details: OutputDetails { reasoning_tokens: usage.reasoning_tokens },
            total_tokens: usage.input_tokens + usage.output_tokens,
        }
    }
}
