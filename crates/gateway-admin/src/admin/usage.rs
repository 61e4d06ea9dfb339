//! `/v1/organization/usage/…` and `/v1/organization/costs`: sums of the ledger by buckets of time,
//! paginated by bucket.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Map, Value, json};

use super::authority::Subject;
use super::input::{Parameters, invalid, missing};
use super::output::{JsonResult, Shared};
use crate::Services;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_policy::tenants::Organization;
use gateway_store::ledger::{Endpoint, GroupBy, MAX_SUMS, Sum, UsageQuery, sums};

/// The latest second accepted, in the year 9999.
const LAST: u64 = 253_402_300_799;
/// Most projects, keys or models in a query.
const MAX_NAMES: usize = 100;

/// A page of buckets.
struct Asked {
    query: UsageQuery,
    /// Where the next page begins.
    next: Option<u64>,
}

/// `GET /v1/organization/usage/{page}`.
pub(super) async fn usage(
    State(context): Shared,
    Subject(organization): Subject,
    Path(page): Path<String>,
    mut parameters: Parameters,
) -> JsonResult {
    let endpoint = Endpoint::named(&page).ok_or_else(|| {
        ApiError::not_found("unknown_url", format!("This gateway has no usage of `{page}`."))
    })?;
    let group_by = group_by(&mut parameters, |name| match name {
        "project_id" => Some(|group| group.project = true),
        "api_key_id" => Some(|group| group.key = true),
        "model" => Some(|group| group.model = true),
        "batch" => Some(|group| group.batch = true),
        _ => None,
    })?;
    let batch = parameters.boolean("batch")?;
    let mut asked = asked(&context, &organization, &mut parameters, Bounds::usage)?;
    parameters.end()?;
    asked.query = UsageQuery { endpoint: Some(endpoint), batch, group_by, ..asked.query };
    answer(&context, asked, |sum| show_usage(endpoint, sum)).await
}

/// `GET /v1/organization/costs`.
pub(super) async fn costs(
    State(context): Shared,
    Subject(organization): Subject,
    mut parameters: Parameters,
) -> JsonResult {
    let group_by = group_by(&mut parameters, |name| match name {
        "project_id" => Some(|group| group.project = true),
        "api_key_id" => Some(|group| group.key = true),
        "line_item" => Some(|group| (group.model, group.endpoint) = (true, true)),
        _ => None,
    })?;
    let mut asked = asked(&context, &organization, &mut parameters, Bounds::costs)?;
    parameters.end()?;
    asked.query.group_by = group_by;
    answer(&context, asked, show_cost).await
}

/// Buckets per page: default and maximum.
struct Bounds(u64, u64);

impl Bounds {
    fn usage(width: u64) -> Self {
        match width {
            60 => Self(60, 1440),
            3600 => Self(24, 168),
            _ => Self(7, 31),
        }
    }

    fn costs(width: u64) -> Self {
        match width {
            86_400 => Self(7, 180),
            _ => Self::usage(width),
        }
    }
}

fn asked(
    context: &Services,
    organization: &Organization,
    parameters: &mut Parameters,
    bounds: impl Fn(u64) -> Bounds,
) -> Result<Asked, ApiError> {
    let (mut start, end) = span(context, parameters)?;
    let width = match parameters.one("bucket_width")?.as_deref() {
        None | Some("1d") => 86_400,
        Some("1h") => 3600,
        Some("1m") => 60,
        Some(_) => return Err(invalid("bucket_width", "1m, 1h or 1d")),
    };
    let Bounds(limit, most) = bounds(width);
    let limit = parameters.integer("limit", 1..=most)?.unwrap_or(limit);
    if let Some(page) = parameters.one("page")? {
        let place = page.strip_prefix("page_").and_then(|place| place.parse().ok());
        let place = place.filter(|place| (start..end).contains(place));
        start = place.ok_or_else(|| invalid("page", "the next_page of the answer before"))?;
    }
    // Buckets align with multiples of their width.
    let stop = (start / width + limit) * width;
    let query = UsageQuery {
        organization: organization.id.clone(),
        start,
        end: end.min(stop),
        width,
        projects: names(parameters, "project_ids")?,
        keys: names(parameters, "api_key_ids")?,
        models: names(parameters, "models")?,
        ..UsageQuery::default()
    };
    Ok(Asked { query, next: (stop < end).then_some(stop) })
}

/// `start_time` and `end_time`; the end defaults to now.
pub(super) fn span(
    context: &Services,
    parameters: &mut Parameters,
) -> Result<(u64, u64), ApiError> {
    let start = parameters.integer("start_time", 0..=LAST)?;
    let start = start.ok_or_else(|| missing("start_time"))?;
    let now = u64::try_from(seconds(context.clock.now())).unwrap_or(0);
    let end = match parameters.integer("end_time", 0..=LAST)? {
        Some(end) if end <= start => return Err(invalid("end_time", "a moment after start_time")),
        Some(end) => end,
        None => (now + 1).max(start + 1),
    };
    Ok((start, end))
}

fn names(parameters: &mut Parameters, name: &'static str) -> Result<Vec<Box<str>>, ApiError> {
    let names = parameters.all(name);
    if names.len() > MAX_NAMES {
        return Err(invalid(name, &format!("at most {MAX_NAMES} names")));
    }
    Ok(names.into_iter().map(Into::into).collect())
}

fn group_by(
    parameters: &mut Parameters,
    by: impl Fn(&str) -> Option<fn(&mut GroupBy)>,
) -> Result<GroupBy, ApiError> {
    let mut group = GroupBy::default();
    for name in parameters.all("group_by") {
        let set = by(&name).ok_or_else(|| {
            let name: String = name.chars().take(64).collect();
            let message = format!("The gateway does not group this by `{name}`.");
            ApiError::invalid_value("group_by", message)
        })?;
        set(&mut group);
    }
    Ok(group)
}

async fn answer(context: &Services, asked: Asked, show: impl Fn(&Sum) -> Value) -> JsonResult {
    let query = &asked.query;
    context.write_ledger().await?;
    let found = sums(&context.database, query).await?.map_err(|_| {
        let message = format!(
            "This query has more than {MAX_SUMS} results per page. Request fewer buckets, or group by fewer fields."
        );
        ApiError::bad_request("too_many_results", message)
    })?;
    let mut found = found.iter().peekable();
    let mut data = Vec::new();
    for bucket in query.start / query.width..query.end.div_ceil(query.width) {
        let mut results = Vec::new();
        while let Some(sum) = found.next_if(|sum| sum.bucket == bucket) {
            results.push(show(sum));
        }
        data.push(json!({
            "object": "bucket",
            "start_time": (bucket * query.width).max(query.start),
            "end_time": ((bucket + 1) * query.width).min(query.end),
            "results": results,
        }));
    }
    Ok(Json(json!({
        "object": "page",
        "data": data,
        "has_more": asked.next.is_some(),
        "next_page": asked.next.map(|place| format!("page_{place}")),
    })))
}

fn show_usage(endpoint: Endpoint, sum: &Sum) -> Value {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("object", format!("organization.usage.{}.result", endpoint.name()).into());
    put("num_model_requests", sum.requests.into());
    put("project_id", sum.project.as_deref().into());
    put("api_key_id", sum.key.as_deref().into());
    put("model", sum.model.as_deref().into());
    put("user_id", Value::Null);
    match endpoint {
        Endpoint::Completions => {
            put("input_tokens", sum.input_tokens.into());
            put("input_cached_tokens", sum.cached_tokens.into());
            let uncached = sum.input_tokens.saturating_sub(sum.cached_tokens);
            put("input_uncached_tokens", uncached.into());
            put("output_tokens", sum.output_tokens.into());
            put("batch", sum.batch.into());
        }
        Endpoint::Embeddings | Endpoint::Moderations => {
            put("input_tokens", sum.input_tokens.into());
        }
        Endpoint::Images => {
            put("images", sum.images.into());
            put("input_tokens", sum.input_tokens.into());
            put("output_tokens", sum.output_tokens.into());
        }
        Endpoint::AudioSpeeches | Endpoint::AudioTranscriptions => {
            put("seconds", sum.audio_milliseconds.div_ceil(1000).into());
            put("input_tokens", sum.input_tokens.into());
            put("output_tokens", sum.output_tokens.into());
            // Absent, because speech is counted in tokens.
            if endpoint == Endpoint::AudioSpeeches {
                put("characters", Value::Null);
            }
        }
        // Only the upstream knows the size of a store.
        Endpoint::VectorStores => put("usage_bytes", Value::Null),
        Endpoint::Other => {
            put("input_tokens", sum.input_tokens.into());
            put("output_tokens", sum.output_tokens.into());
        }
    }
    shown.into()
}

fn show_cost(sum: &Sum) -> Value {
    let line = match (&sum.model, sum.endpoint) {
        (Some(model), Some(endpoint)) => Some(format!("{model}, {}", endpoint.name())),
        _ => None,
    };
    json!({
        "object": "organization.costs.result",
        // Micro-dollars are exact in a double up to nine billion dollars.
        "amount": { "value": sum.cost as f64 / 1e6, "currency": "usd" },
        "line_item": line,
        "project_id": sum.project,
        "api_key_id": sum.key,
        "user_id": null,
    })
}
