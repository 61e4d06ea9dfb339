//! The shared parts of lists of the gateway's own resources: the query, the page, the errors.

use hyper::header::{self, HeaderValue};
use hyper::{Method, Response};
use serde::Serialize;

use crate::answer::AnswerBody;
use gateway_policy::error::ApiError;
use gateway_store::records::Page;

/// Longest accepted cursor, in bytes.
const LONGEST: usize = 256;

/// The part of a list that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Paging {
    /// Most entries.
    pub(super) limit: u32,
    /// The page starts after this id.
    pub(super) after: Option<String>,
    /// True if the oldest come first.
    pub(super) ascending: bool,
    /// Filters by purpose.
    pub(super) purpose: Option<String>,
}

impl Paging {
    /// Reads a query; `limits` are the default and the maximum of `limit`.
    ///
    /// # Errors
    /// 400 for an invalid value. Other parameters are ignored.
    pub(super) fn read(query: &str, limits: (u32, u32)) -> Result<Self, ApiError> {
        let (usual, most) = limits;
        let mut paging = Self { limit: usual, after: None, ascending: false, purpose: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = super::models::decoded(value);
            match key {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=most).contains(limit));
                    paging.limit = limit.ok_or_else(|| {
                        let message = format!("The limit must be an integer from 1 to {most}.");
                        ApiError::invalid_value("limit", message)
                    })?;
                }
                "after" if value.len() > LONGEST => {
                    let message = "The cursor is too long to be an id.";
                    return Err(ApiError::invalid_value("after", message));
                }
                "after" => paging.after = Some(value).filter(|after| !after.is_empty()),
                "order" => {
                    paging.ascending = match &*value {
                        "asc" => true,
                        "desc" => false,
                        _ => {
                            let message = "The order must be `asc` or `desc`.";
                            return Err(ApiError::invalid_value("order", message));
                        }
                    }
                }
                "purpose" => paging.purpose = Some(value).filter(|purpose| !purpose.is_empty()),
                _ => {}
            }
        }
        Ok(paging)
    }

    /// The same for the store.
    pub(super) fn page(&self) -> Page {
        Page {
            after: self.after.as_deref().map(Into::into),
            before: None,
            limit: self.limit,
            descending: !self.ascending,
        }
    }
}

/// A page of a list.
pub(super) fn page<'a, T: Serialize>(
    data: &[T],
    mut ids: impl DoubleEndedIterator<Item = &'a str> + Clone,
    has_more: bool,
) -> Response<AnswerBody> {
    #[derive(Serialize)]
    struct List<'a, T> {
        object: &'static str,
        data: &'a [T],
        first_id: Option<&'a str>,
        last_id: Option<&'a str>,
        has_more: bool,
    }
    let (first_id, last_id) = (ids.clone().next(), ids.next_back());
    json(&List { object: "list", data, first_id, last_id, has_more })
}

/// A JSON response.
pub(super) fn json<T: Serialize>(value: &T) -> Response<AnswerBody> {
    let body = serde_json::to_vec(value).expect("records have texts, numbers and raw JSON alone");
    let mut response = Response::new(AnswerBody::from(bytes::Bytes::from(body)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// 404 for an unknown method and path.
pub(super) fn nothing_at(method: &Method, path: &str) -> ApiError {
    ApiError::not_found("not_found", format!("There is nothing at {method} {path}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let check = |query: &str, expected: Option<(u32, Option<&str>, bool, Option<&str>)>| {
            let read = Paging::read(query, (20, 100)).ok();
            let read = read.as_ref().map(|paging| {
                let (after, purpose) = (paging.after.as_deref(), paging.purpose.as_deref());
                (paging.limit, after, paging.ascending, purpose)
            });
            assert_eq!(read, expected, "{query}");
        };
        check("", Some((20, None, false, None)));
        check("limit=5&after=a%2db&order=asc", Some((5, Some("a-b"), true, None)));
        check("purpose=batch&x=y&&after=", Some((20, None, false, Some("batch"))));
        check("limit=0", None);
        check("limit=101", None);
        check("limit=-1", None);
        check("limit=", None);
        check("order=down", None);
        check(&format!("after={}", "a".repeat(300)), None);
    }
}
