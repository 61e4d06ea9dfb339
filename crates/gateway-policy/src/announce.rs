//! Announcements of a model's shutdown, and the errors after it (specification: Versioning;
//! Deprecations are announced in advance with a shutdown date).

use std::time::{Duration, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ratelimit::Micros;

use super::headers::value;
use crate::dates;
use crate::error::ApiError;
use crate::settings::{Model, Shutdown};

/// RFC 9745.
pub const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// RFC 8594.
pub const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// Adds `Deprecation`, `Sunset` and `Link` if the model's shutdown is announced.
pub fn add(headers: &mut HeaderMap, model: &Model, now: Micros) {
    let Some(shutdown) = model.shutdown.as_ref() else { return };
    if now < shutdown.deprecated_from {
        return;
    }
    headers
        .insert(DEPRECATION, value(format_args!("@{}", dates::seconds(shutdown.deprecated_from))));
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_micros(shutdown.at));
    headers.insert(SUNSET, value(date));
    headers.remove(header::LINK);
    link(headers, &model.name, "deprecation");
    if let Some(successor) = &shutdown.successor {
        link(headers, successor, "successor-version");
    }
}

/// Characters that are encoded in a model's name as a path segment.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

fn link(headers: &mut HeaderMap, model: &str, relation: &str) {
    let path = utf8_percent_encode(model, RESERVED);
    let text = format!("</v1/models/{path}>; rel=\"{relation}\"");
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.append(header::LINK, value);
    }
}

/// The error for an unknown model.
#[must_use]
pub fn unknown(name: &str) -> ApiError {
    let name: String = name.chars().take(100).collect();
    let message = format!("The model `{name}` does not exist or you do not have access to it.");
    ApiError::not_found("model_not_found", message)
}

/// The error for a model that was shut down.
#[must_use]
pub fn gone(name: &str, shutdown: &Shutdown) -> ApiError {
    let instead = match &shutdown.successor {
        Some(successor) => format!("Please use `{successor}` instead."),
        None => "Please see GET /v1/models for the models that are served.".to_owned(),
    };
    let message = format!("The model `{name}` was shut down on {}. {instead}", shutdown.date);
    ApiError::not_found("model_not_found", message)
}
