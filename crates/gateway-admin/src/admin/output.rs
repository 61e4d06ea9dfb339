//! Shapes that all responses share: lists, deletions, timestamps.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use ratelimit::Micros;
use serde_json::{Value, json};

use crate::Services;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Secret;
use gateway_store::records::Listed;

/// The state of a handler.
pub(super) type Shared = State<Arc<Services>>;
/// The result of a handler.
pub(super) type JsonResult = Result<Json<Value>, ApiError>;

/// A list of items, each rendered with `show`.
pub(super) fn list<T>(listed: &Listed<T>, show: impl Fn(&T) -> Value) -> JsonResult {
    Ok(Json(list_of(listed.items.iter().map(show).collect(), listed.has_more)))
}

/// A list of rendered items.
pub(super) fn list_of(data: Vec<Value>, has_more: bool) -> Value {
    let id = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned();
    json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": has_more,
        "data": data,
    })
}

/// A new key with its text, which no other response contains.
pub(super) fn with_key_text(mut shown: Value, text: &Secret) -> Value {
    shown["value"] = text.reveal().into();
    shown
}

/// The response to a deletion, after which it is in effect at this node. `done` is `None` when there
/// is no such resource; `missing` is the error then.
pub(super) async fn finish_deletion<T>(
    context: &Services,
    done: Option<T>,
    missing: impl FnOnce(&str) -> ApiError,
    object: &str,
    id: &str,
) -> JsonResult {
    done.ok_or_else(|| missing(id))?;
    context.apply_changes().await;
    deleted(object, id)
}

/// The response to a deletion that needs nothing else.
pub(super) fn deleted(object: &str, id: &str) -> JsonResult {
    Ok(Json(json!({ "object": object, "id": id, "deleted": true })))
}

/// 404 for an unknown resource.
pub(super) fn not_found(what: &str, id: &str) -> ApiError {
    let id: String = id.chars().take(128).collect();
    ApiError::not_found("not_found", format!("There is no {what} `{id}`."))
}

/// 404 for an unknown key.
pub(super) fn missing_key(id: &str) -> ApiError {
    not_found("API key", id)
}

/// The expiry of a key on the wire, in Unix seconds.
pub(super) fn moment(at: Option<Micros>) -> Option<i64> {
    at.map(seconds)
}
