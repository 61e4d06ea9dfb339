//! Typed access to request bodies and queries: each value is taken by its name and validated. A
//! value that remains is unknown and an error.

use std::fmt;
use std::ops::RangeInclusive;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use hyper::StatusCode;
use hyper::http::request::Parts;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use gateway_policy::error::ApiError;
use gateway_store::records::Page;

/// Longest lifetime of a key and longest grace period, in seconds: ten years.
pub(super) const MAX_SECONDS: u64 = 10 * 366 * 86_400;

/// Longest name, in characters.
const MAX_NAME: usize = 256;

/// A body: an object whose fields are taken one by one. An absent body is an empty object.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, Value)>);

impl Fields {
    /// A required field.
    pub(super) fn required<T>(
        &mut self,
        name: &'static str,
        take: impl FnOnce(&mut Self, &'static str) -> Result<Option<T>, ApiError>,
    ) -> Result<T, ApiError> {
        take(self, name)?.ok_or_else(|| missing(name))
    }

    /// Any value but null.
    pub(super) fn value(&mut self, name: &'static str) -> Option<Value> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1).filter(|value| !value.is_null())
    }

    /// A string.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(name, "a string")),
        }
    }

    /// A display name: 1 to 256 characters, no control characters.
    pub(super) fn name(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let text = text.trim().to_owned();
        let is_fit = !text.is_empty()
            && text.chars().count() <= MAX_NAME
            && !text.chars().any(char::is_control);
        let expected = "a text of 1 to 256 characters without control characters";
        if is_fit { Ok(Some(text)) } else { Err(invalid(name, expected)) }
    }

    /// An integer.
    pub(super) fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = value.as_u64().filter(|number| range.contains(number));
        let (first, last) = (range.start(), range.end());
        let wrong = || invalid(name, &format!("a whole number from {first} to {last}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// An amount of money in cents, of at most ten billion dollars; negative to take it back.
    pub(super) fn signed_cents(&mut self, name: &'static str) -> Result<Option<i64>, ApiError> {
        const MOST: i64 = 1_000_000_000_000;
        let Some(value) = self.value(name) else { return Ok(None) };
        let is_fit = |cents: &i64| *cents != 0 && (-MOST..=MOST).contains(cents);
        let expected = "a whole number of cents but 0, from -1000000000000 to 1000000000000";
        value.as_i64().filter(is_fit).map(Some).ok_or_else(|| invalid(name, expected))
    }

    /// A boolean.
    pub(super) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(invalid(name, "true or false")),
        }
    }

    /// Rejects remaining fields that are not null.
    pub(super) fn end(self) -> Result<(), ApiError> {
        let unknown = self.0.into_iter().find(|(_, value)| !value.is_null());
        unknown.map_or(Ok(()), |(name, _)| Err(unknown_parameter(name)))
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body =
            Bytes::from_request(request, state).await.map_err(|rejection| {
                match rejection.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "request_too_large",
                        "The body of an administrative request can have at most 256 KiB.",
                    ),
                    _ => ApiError::bad_request("invalid_body", "The body ended too early."),
                }
            })?;
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(&body).map_err(|error| {
            let message = format!("We could not parse the JSON body of your request: {error}.");
            ApiError::bad_request("invalid_json", message)
        })
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Value)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("`{name}` is given twice")));
                    }
                    if fields.len() == 64 {
                        return Err(A::Error::custom("there are more than 64 fields"));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A query: parameters that are taken one by one. Lists are `name=a&name=b` or `name[]=a&name[]=b`.
#[derive(Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// All values of the parameter `name`.
    pub(super) fn all(&mut self, name: &str) -> Vec<String> {
        let mut values = Vec::new();
        self.0.retain_mut(|(known, value)| {
            let matches = known.strip_suffix("[]").unwrap_or(known) == name;
            if matches {
                values.push(std::mem::take(value));
            }
            !matches
        });
        values
    }

    /// The only value of the parameter `name`.
    pub(super) fn one(&mut self, name: &'static str) -> Result<Option<String>, ApiError> {
        let mut values = self.all(name);
        if values.len() > 1 {
            return Err(invalid(name, "given once"));
        }
        Ok(values.pop())
    }

    /// An integer.
    pub(super) fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.one(name)? else { return Ok(None) };
        let number = value.parse().ok().filter(|number| range.contains(number));
        let (first, last) = (range.start(), range.end());
        let wrong = || invalid(name, &format!("a whole number from {first} to {last}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// A boolean.
    pub(super) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        let value = self.one(name)?;
        let parsed = value.map(|value| value.parse().map_err(|_| invalid(name, "true or false")));
        parsed.transpose()
    }

    /// The same for lists with a fixed order, which return all items where they are few.
    pub(super) fn list_page(&mut self) -> Result<Page, ApiError> {
        self.page_of(100, false)
    }

    /// `limit`, `after`, `before` and `order`.
    pub(super) fn page(&mut self, descending: bool) -> Result<Page, ApiError> {
        self.page_of(20, descending)
    }

    fn page_of(&mut self, limit: u64, descending: bool) -> Result<Page, ApiError> {
        let limit = self.integer("limit", 1..=100)?.unwrap_or(limit);
        let descending = match self.one("order")?.as_deref() {
            None => descending,
            Some("asc") => false,
            Some("desc") => true,
            Some(_) => return Err(invalid("order", "asc or desc")),
        };
        self.cursors(limit, descending)
    }

    /// `limit`, `after` and `before` of a list that is always newest first.
    pub(super) fn page_without_order(&mut self) -> Result<Page, ApiError> {
        let limit = self.integer("limit", 1..=100)?.unwrap_or(20);
        self.cursors(limit, true)
    }

    fn cursors(&mut self, limit: u64, descending: bool) -> Result<Page, ApiError> {
        let (after, before) = (self.one("after")?, self.one("before")?);
        if after.is_some() && before.is_some() {
            return Err(invalid("before", "given without after"));
        }
        let limit = u32::try_from(limit).unwrap_or(100);
        let (after, before) = (after.map(Into::into), before.map(Into::into));
        Ok(Page { after, before, limit, descending })
    }

    /// Rejects remaining parameters.
    pub(super) fn end(self) -> Result<(), ApiError> {
        self.0.into_iter().next().map_or(Ok(()), |(name, _)| Err(unknown_parameter(name)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(parameters) = query.map_err(|_| {
            ApiError::bad_request("invalid_query", "The query of the URL cannot be read.")
        })?;
        if parameters.len() > 1000 {
            let message = "The query of the URL has more than 1000 parameters.";
            return Err(ApiError::bad_request("invalid_query", message));
        }
        Ok(Self(parameters))
    }
}

/// 400 for a parameter of the wrong type.
pub(super) fn invalid(name: &'static str, expected: &str) -> ApiError {
    ApiError::invalid_value(name, format!("Invalid value for `{name}`: expected {expected}."))
}

/// 400 for a missing parameter.
pub(super) fn missing(name: &'static str) -> ApiError {
    let message = format!("Missing required parameter: `{name}`.");
    ApiError::bad_request("missing_required_parameter", message).param(name)
}

fn unknown_parameter(name: String) -> ApiError {
    let name: String = name.chars().take(64).collect();
    let message = format!("Unknown parameter: `{name}`.");
    ApiError::bad_request("unknown_parameter", message).param(name)
}

/// `expires_in_seconds`.
pub(super) fn end_of(
    fields: &mut Fields,
    now: ratelimit::Micros,
) -> Result<Option<ratelimit::Micros>, ApiError> {
    let seconds = fields.integer("expires_in_seconds", 1..=MAX_SECONDS)?;
    Ok(seconds.map(|seconds| now.saturating_add(seconds * 1_000_000)))
}
