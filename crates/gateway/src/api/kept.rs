//! Responses that the gateway keeps itself, because their model's server keeps none: requests that continue one, and
//! `GET /v1/responses/{id}`, `DELETE`, and `/input_items`.

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{Method, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::listing::{self, Paging};
use super::{Answered, Exchange, forward};
use crate::account::request_id;
use crate::intake::{self, BufferedBody};
use crate::keeper::{Keeper, bounds};
use crate::router::{self, Api};
use gateway_body::{Edits, Scanned};
use gateway_policy::dates;
use gateway_policy::error::ApiError;
use gateway_store::records::kept_responses::{self, Contents, Link, MAX_CHAIN};

/// The member that names the response which a request continues.
const PREVIOUS: &str = "previous_response_id";

/// Returns whether an id has the form of those that the gateway gives to responses.
fn is_own(id: &str) -> bool {
    let digits = id.strip_prefix("resp_").unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A request for a response, with all that it continues.
#[derive(Default)]
pub(super) struct Continued {
    /// Its body, if it continues a kept response.
    pub(super) body: Option<BufferedBody>,
    /// Keeps its response.
    pub(super) keeper: Option<Arc<Keeper>>,
}

/// The members of a request that are read.
#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// The member of a response that is read.
#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    output: Vec<&'a RawValue>,
}

/// Reads what a request continues, and prepares to keep its response.
///
/// # Errors
/// 400 when it continues what cannot be continued, 503 when the store is unavailable.
pub(super) async fn continued(
    exchange: &Exchange,
    scanned: &Scanned,
    body: &Bytes,
) -> Result<Continued, ApiError> {
    let settings = exchange.settings.responses;
    let is_kept = settings.keep && !exchange.caller.organization.zero_data_retention;
    let previous = scanned.previous_response_id.map(|id| id.read(body));
    let previous = match previous.filter(|id| is_own(id)) {
        Some(id) => find(exchange, &id).await?,
        None => None,
    };
    if !is_kept && previous.is_none() {
        return Ok(Continued::default());
    }
    let given: Given<'_> = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request("invalid_json", error.to_string()))?;
    let input = items(given.input)?;
    let extended = match &previous {
        Some(previous) => Some(extended(exchange, scanned, body, (previous, &input)).await?),
        None => None,
    };
    let keeper = is_kept.then(|| {
        Arc::new(Keeper {
            database: Arc::clone(&exchange.gateway.database),
            clock: Arc::clone(&exchange.gateway.clock),
            settings,
            project: exchange.caller.project.id.clone(),
            id: request_id(exchange.request).replacen("req_", "resp_", 1).into(),
            previous,
            input: format!("[{input}]").into_bytes().into(),
        })
    });
    Ok(Continued { body: extended, keeper })
}

async fn find(exchange: &Exchange, id: &str) -> Result<Option<Link>, ApiError> {
    let bounds = bounds(&exchange.settings.responses, dates::seconds(exchange.now));
    let (database, project) = (&exchange.gateway.database, &*exchange.caller.project.id);
    let found = kept_responses::find(database, project, id, bounds).await;
    found.map_err(|_| ApiError::store_unavailable())
}

/// The items of an input, without the brackets.
fn items(input: Option<&RawValue>) -> Result<String, ApiError> {
    let Some(input) = input.map(|input| input.get().trim()) else { return Ok(String::new()) };
    match input.as_bytes().first() {
        Some(b'"') => Ok(format!(r#"{{"type":"message","role":"user","content":{input}}}"#)),
        Some(b'[') => Ok(input[1..input.len() - 1].trim().to_owned()),
        Some(b'n') => Ok(String::new()),
        _ => Err(ApiError::invalid_value("input", "`input` must be a text or a list of items.")),
    }
}

/// Writes a request with the items of all that it continues in place of the id.
async fn extended(
    exchange: &Exchange,
    scanned: &Scanned,
    body: &Bytes,
    (previous, input): (&Link, &str),
) -> Result<BufferedBody, ApiError> {
    let settings = &exchange.settings;
    let most = settings.server.max_body_bytes.min(settings.responses.project_bytes);
    let length = previous.context_bytes.saturating_add(body.len() as u64);
    if length > most || previous.place + 1 >= MAX_CHAIN {
        let message = format!(
            "The conversation that ends with `{}` is too long to be continued: it has {} responses and {length} bytes, \
             and at most {MAX_CHAIN} responses and {most} bytes are continued. Begin another one, with a summary in \
             `input`.",
            previous.id,
            previous.place + 1,
        );
        return Err(ApiError::invalid_value(PREVIOUS, message));
    }
    let (database, project) = (&exchange.gateway.database, &*exchange.caller.project.id);
    // Its memory is taken before it is read.
    let place = exchange.body_reservation();
    let mut whole = intake::reserved(length, place).await?;
    let chain = kept_responses::chain(database, project, previous).await;
    let Some(chain) = chain.map_err(|_| ApiError::store_unavailable())? else {
        let message = format!(
            "`{}` cannot be continued: a response that it continues was deleted. Send the earlier items in `input`.",
            previous.id
        );
        return Err(ApiError::bad_request("previous_response_not_found", message).param(PREVIOUS));
    };
    let mut all = String::new();
    for contents in &chain {
        append(&mut all, contents)?;
    }
    join(&mut all, input);
    let mut edits = Edits::new();
    edits.remove_members(scanned, body, |name| matches!(name, PREVIOUS | "input"));
    let rest = edits.apply(body).pieces.concat();
    let start = rest.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
    let is_empty = rest[start..].trim_ascii_start().first() == Some(&b'}');
    let mut bytes = Vec::with_capacity(rest.len() + all.len() + 16);
    bytes.extend_from_slice(&rest[..start]);
    bytes.extend_from_slice(b"\"input\":[");
    bytes.extend_from_slice(all.as_bytes());
    bytes.extend_from_slice(if is_empty { b"]" } else { b"]," });
    bytes.extend_from_slice(&rest[start..]);
    whole.bytes = bytes.into();
    Ok(whole)
}

/// Adds the items of a kept response: those of its request, and its own.
fn append(all: &mut String, contents: &Contents) -> Result<(), ApiError> {
    let damaged = |_| {
        let message =
            "A response that this request continues cannot be read from the gateway's store.";
        ApiError::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    };
    let input: &RawValue = serde_json::from_slice(&contents.input).map_err(damaged)?;
    join(all, &items(Some(input))?);
    let output: Output<'_> = serde_json::from_slice(&contents.output).map_err(damaged)?;
    output.output.iter().for_each(|item| join(all, item.get()));
    Ok(())
}

fn join(all: &mut String, items: &str) {
    if !all.is_empty() && !items.is_empty() {
        all.push(',');
    }
    all.push_str(items);
}

/// 400 `previous_response_not_found`: there is none of that id for the project.
pub(super) fn not_found(id: &str) -> ApiError {
    let id: String = id.chars().take(100).collect();
    let message = format!("Previous response with id `{id}` not found.");
    ApiError::bad_request("previous_response_not_found", message).param(PREVIOUS)
}

/// `/v1/responses/{id}` and below: answered here if the gateway has the response.
pub(crate) async fn answer(
    exchange: &mut Exchange,
    id: &str,
    request: Request<Incoming>,
) -> Answered {
    let kept = match is_own(id) {
        true => read(exchange, id).await?,
        false => None,
    };
    let Some(kept) = kept else {
        return forward::answer(exchange, Api::Response(id), request).await;
    };
    exchange.count_request().await?;
    let path = request.uri().path();
    let segments = router::segments(path)?;
    let query = request.uri().query().unwrap_or_default();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match *segments {
        ["responses", _] if reads => {
            if query.split('&').any(|one| one == "stream=true") {
                let message = "A response that the gateway keeps is not streamed again. Fetch it without `stream`.";
                return Err(ApiError::invalid_value("stream", message));
            }
            Ok(listing::json(&raw(&kept.output)?))
        }
        ["responses", _] if request.method() == Method::DELETE => {
            let (database, project) = (&exchange.gateway.database, &*exchange.caller.project.id);
            let deleted = kept_responses::delete(database, project, id).await;
            match deleted.map_err(|_| ApiError::store_unavailable())? {
                true => {
                    let answer = json!({ "id": id, "object": "response", "deleted": true });
                    Ok(listing::json(&answer))
                }
                false => Err(super::owned::not_found(id)),
            }
        }
        ["responses", _, "input_items"] if reads => input_items(id, &kept, query),
        ["responses", _, "cancel"] if request.method() == Method::POST => {
            let message = "Only a response in the background can be cancelled.";
            Err(ApiError::bad_request("invalid_request", message))
        }
        _ => Err(listing::nothing_at(request.method(), path)),
    }
}

async fn read(exchange: &Exchange, id: &str) -> Result<Option<Contents>, ApiError> {
    let (database, project) = (&exchange.gateway.database, &*exchange.caller.project.id);
    let read = kept_responses::read(database, project, id, dates::seconds(exchange.now)).await;
    read.map_err(|_| ApiError::store_unavailable())
}

fn raw(json: &[u8]) -> Result<&RawValue, ApiError> {
    serde_json::from_slice(json).map_err(|_| {
        let message = "The response cannot be read from the gateway's store.";
        ApiError::new(hyper::StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    })
}

/// The items of the response's own request, with ids.
fn input_items(id: &str, kept: &Contents, query: &str) -> Answered {
    let paging = Paging::read(query, (20, 100))?;
    let mut items: Vec<Value> = serde_json::from_slice(&kept.input).unwrap_or_default();
    let digits = id.trim_start_matches("resp_");
    for (number, item) in items.iter_mut().enumerate() {
        complete(item, &format!("{digits}_{number}"));
    }
    if !paging.ascending {
        items.reverse();
    }
    let id_of = |item: &Value| item["id"].as_str().unwrap_or_default().to_owned();
    let start = match &paging.after {
        Some(after) => items.iter().position(|item| id_of(item) == **after).map(|at| at + 1),
        None => Some(0),
    };
    let Some(start) = start else {
        return Err(ApiError::invalid_value("after", "`after` is not an id of this list."));
    };
    let end = items.len().min(start + paging.limit as usize);
    let ids: Vec<String> = items[start..end].iter().map(id_of).collect();
    let ids = ids.iter().map(String::as_str);
    Ok(listing::page(&items[start..end], ids, end < items.len()))
}

/// Gives an item the members that it may lack in a request.
fn complete(item: &mut Value, number: &str) {
    let Some(members) = item.as_object_mut() else { return };
    if members.contains_key("role") {
        members.entry("type").or_insert_with(|| "message".into());
    }
    if let Some(Value::String(text)) = members.get("content") {
        let kind = if members["role"] == "assistant" { "output_text" } else { "input_text" };
        let part = json!({ "type": kind, "text": text });
        members.insert("content".to_owned(), json!([part]));
    }
    let prefix =
        if members.get("type").is_some_and(|kind| kind == "message") { "msg" } else { "item" };
    members.entry("id").or_insert_with(|| format!("{prefix}_{number}").into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_other_servers_are_not_looked_up() {
        assert!(is_own("resp_0123456789abcdef0123456789abcdef"));
        for id in [
            "resp_1",
            "resp_",
            "msg_0123456789abcdef0123456789abcdef",
            "resp_0123456789abcdef0123456789abcdeg",
        ] {
            assert!(!is_own(id), "{id}");
        }
    }

    #[test]
    fn inputs_become_items() {
        let items_of = |json: &str| items(Some(&RawValue::from_string(json.to_owned()).unwrap()));
        let message = r#"{"type":"message","role":"user","content":"a\"b"}"#;
        assert_eq!(items_of(r#""a\"b""#).unwrap(), message);
        assert_eq!(items_of(r#"[ {"a":1}, {"b":2} ]"#).unwrap(), r#"{"a":1}, {"b":2}"#);
        assert_eq!(items_of("[]").unwrap(), "");
        assert_eq!(items_of("null").unwrap(), "");
        assert_eq!(items(None).unwrap(), "");
        assert!(items_of("{}").is_err() && items_of("1").is_err());
    }
}
