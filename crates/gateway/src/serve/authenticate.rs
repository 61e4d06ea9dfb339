//! Authentication: the bearer key, the headers that must not contradict it, and the region in the
//! host name (specification: Authentication; Versioning, 2026-08-21).

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header;
use hyper::http::request;

use crate::bearer::bearer;
use crate::router;
use crate::state::Gateway;
use gateway_policy::error::ApiError;
use gateway_policy::settings::Settings;
use gateway_policy::tenants::Caller;
use gateway_store::ErrorKind;
use wire::Wire;

/// The caller of a request.
///
/// # Errors
/// 401 without a known key, or with contradicting headers; 503 when keys cannot be checked.
pub(super) async fn caller(
    gateway: &Gateway,
    head: &request::Parts,
) -> Result<Arc<Caller>, ApiError> {
    let headers = &head.headers;
    let key = key(headers, query_key(head));
    let key = key.map_err(|(_, message)| {
        let place = place_of_key(router::wire_of_request(head));
        ApiError::unauthorized("invalid_api_key", format!("{message} {place}."))
    })?;
    let caller = gateway.directory.caller(key).await.map_err(|error| match error.kind() {
        ErrorKind::UnknownKey => {
            let message = "Incorrect API key provided. It may have been revoked; please ask an \
                           administrator for another one.";
            ApiError::unauthorized("invalid_api_key", message)
        }
        _ => ApiError::store_unavailable(),
    })?;
    contradicts(
        headers,
        "openai-organization",
        &caller.organization.id,
        "mismatched_organization",
    )?;
    contradicts(headers, "openai-project", &caller.project.id, "mismatched_project")?;
    Ok(caller)
}

/// Why a request with these headers is refused with 401, for the metrics: more exact than the code of the error, which is
/// that of the public API.
pub(super) fn reason(head: &request::Parts, error: &ApiError) -> &'static str {
    match key(&head.headers, query_key(head)) {
        Err((reason, _)) => reason,
        Ok(_) => error.code().unwrap_or("invalid_api_key"),
    }
}

/// The headers in which clients of other providers send their key.
const KEY_HEADERS: [&str; 3] = ["x-api-key", "api-key", "x-goog-api-key"];

/// The key in the parameter `key`, which clients of Gemini may send: on its paths alone.
fn query_key(head: &request::Parts) -> Option<&str> {
    let query = head.uri.query().filter(|_| router::wire_of_request(head) == Wire::Gemini);
    query?.split('&').find_map(|parameter| parameter.strip_prefix("key="))
}

/// The key of a request, which may stand in several headers if it is the same in all of them.
///
/// # Errors
/// The reason and the message for a request without a key, or with several different ones.
fn key<'h>(
    headers: &'h HeaderMap,
    query: Option<&'h str>,
) -> Result<&'h str, (&'static str, &'static str)> {
    let others = KEY_HEADERS.into_iter().flat_map(|name| headers.get_all(name));
    let others = others.map(|value| value.to_str().unwrap_or_default().trim());
    let mut others = others.chain(query);
    let key = match headers.contains_key(header::AUTHORIZATION) {
        true => bearer(headers),
        false => others.next().filter(|key| !key.is_empty()),
    };
    let key = key.ok_or(("missing_api_key", "You didn't provide an API key. Please send it in"))?;
    match others.all(|other| other == key) {
        true => Ok(key),
        false => Err((
            "several_api_keys",
            "The request has several different API keys. Please send one, in",
        )),
    }
}

/// Where clients of a wire send their key.
fn place_of_key(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses | Wire::Chat => "an Authorization header: `Authorization: Bearer YOUR_KEY`",
        Wire::Messages => {
            "the header `x-api-key: YOUR_KEY`, or in an Authorization header: `Authorization: Bearer YOUR_KEY`"
        }
        Wire::Gemini => "the header `x-goog-api-key: YOUR_KEY`",
    }
}

fn contradicts(
    headers: &HeaderMap,
    name: &str,
    known: &str,
    code: &'static str,
) -> Result<(), ApiError> {
    let said = headers.get_all(name).iter();
    if said.into_iter().all(|value| value.is_empty() || value.as_bytes() == known.as_bytes()) {
        return Ok(());
    }
    let message = format!("The header {name} does not match the API key. Please remove it.");
    Err(ApiError::unauthorized(code, message))
}

/// The region in the host name, if it has one.
pub(super) fn region(settings: &Settings, head: &request::Parts) -> Option<Box<str>> {
    let host = head.uri.host().or_else(|| head.headers.get(header::HOST)?.to_str().ok())?;
    let (first, _) = host.split_once('.')?;
    let first = first.to_ascii_lowercase();
    settings.regions.iter().find(|prefix| ***prefix == *first).cloned()
}

/// Checks that a project with data in one region is not used on another region's host.
///
/// # Errors
/// 401 `incorrect_hostname`.
pub(super) fn check_region(caller: &Caller, region: Option<&str>) -> Result<(), ApiError> {
    match (&caller.project.geography, region) {
        (Some(home), Some(region)) if **home != *region => {
            let message = format!(
                "This project's data stays in the region `{home}`. Please send the request to its \
                 host, whose name begins with `{home}.`."
            );
            Err(ApiError::unauthorized("incorrect_hostname", message))
        }
        _ => Ok(()),
    }
}
