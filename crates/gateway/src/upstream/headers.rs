//! Filters headers. A client's headers are forwarded except those about its connection and its key;
//! of a response's headers only harmless ones pass, so that host names and our account stay hidden.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName};

/// The headers that are forwarded to an upstream.
#[must_use]
pub(crate) fn for_upstream(client: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(client.len() + 4);
    // Headers named in `Connection` also concern only this connection.
    let connection: Vec<&str> = client
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
        .collect();
    for (name, value) in client {
        let is_named = connection.iter().any(|named| named.eq_ignore_ascii_case(name.as_str()));
        if !is_named && !stays_here(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

fn stays_here(name: &HeaderName) -> bool {
    match *name {
        header::CONNECTION
        | header::TRANSFER_ENCODING
        | header::TE
        | header::TRAILER
        | header::UPGRADE
        | header::EXPECT
        | header::HOST
        | header::CONTENT_LENGTH
        | header::AUTHORIZATION
        | header::PROXY_AUTHORIZATION
        | header::COOKIE
        | header::FORWARDED
        | header::VIA
        | header::ACCEPT_ENCODING => true,
        _ => {
            let name = name.as_str();
            matches!(
                name,
                "keep-alive" | "proxy-connection" | "openai-organization" | "openai-project"
            ) || name.starts_with("x-forwarded-")
                || name.starts_with("x-real-ip")
        }
    }
}

/// The headers that are passed to a client.
#[must_use]
pub(crate) fn for_client(upstream: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(24);
    for (name, value) in upstream {
        if comes_back(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

fn comes_back(name: &HeaderName) -> bool {
    match *name {
        header::CONTENT_TYPE
        | header::CONTENT_LENGTH
        | header::CONTENT_DISPOSITION
        | header::CONTENT_ENCODING
        | header::CONTENT_LANGUAGE
        | header::CONTENT_RANGE
        | header::ACCEPT_RANGES
        | header::CACHE_CONTROL
        | header::ETAG
        | header::LAST_MODIFIED => true,
        _ => matches!(name.as_str(), "openai-model" | "openai-version"),
    }
}
