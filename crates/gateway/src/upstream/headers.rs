//! Which headers travel. What a client sends goes on but for what is about this connection and
//! about its key; of an answer only what is known to be harmless comes back, so that no name of a
//! host and no account of ours is shown.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

/// What a model server gets of a client's headers.
#[must_use]
pub(crate) fn for_upstream(client: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(client.len() + 4);
    // Usage is read in the answer: it has to come as it is. Without a word anything might come.
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    // Names in `Connection` are about this connection too.
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

/// What a client gets of a model server's headers.
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
