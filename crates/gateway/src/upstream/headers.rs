//! Filters headers. A client's headers are forwarded except those about its connection and its key;
//! of a response's headers only harmless ones pass, so that host names and our account stay hidden.

use std::borrow::Cow;

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

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
                || is_of_cloud(name)
                || name.starts_with("x-real-ip")
                || is_credential(name)
        }
    }
}

/// Returns whether a cloud takes a choice of price or policy from a header, which the limits and prices of the gateway do
/// not see.
fn is_of_cloud(name: &str) -> bool {
    name.starts_with("x-amzn-bedrock-") || name.starts_with("x-vertex-ai-")
}

/// The headers that a cloud gets of those for an upstream. The gateway's account pays for what any other one may choose
/// there: another tier of service, another project, another method.
#[must_use]
pub(crate) fn for_cloud(headers: &HeaderMap) -> HeaderMap {
    let passes = |name: &HeaderName| match *name {
        header::ACCEPT
        | header::ACCEPT_LANGUAGE
        | header::CONTENT_ENCODING
        | header::CONTENT_TYPE
        | header::RANGE
        | header::USER_AGENT => true,
        _ => matches!(
            name.as_str(),
            "anthropic-beta"
                | "anthropic-version"
                | "idempotency-key"
                | "openai-beta"
                | "x-client-request-id"
                | "x-goog-api-client"
                | "x-request-id"
        ),
    };
    let kept = headers.iter().filter(|(name, _)| passes(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Headers for a backend of another wire: of those of [`for_upstream`], the ones that no wire has for itself, and those
/// that its wire needs.
#[must_use]
pub(crate) fn for_other_wire(
    client: &HeaderMap,
    is_stream: bool,
    needed: &[(&'static str, String)],
) -> HeaderMap {
    let is_general = |name: &HeaderName| {
        let prefixes = ["anthropic-", "openai-", "x-goog-", "x-stainless-"];
        !prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    let general = client.iter().filter(|(name, _)| is_general(name));
    let mut headers: HeaderMap =
        general.map(|(name, value)| (name.clone(), value.clone())).collect();
    let accepted = if is_stream { "text/event-stream" } else { "application/json" };
    headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in needed {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}

/// Headers for a Gemini server: without those that choose the parts of its answer, such as its usage, another method, or
/// another account.
#[must_use]
pub(crate) fn without_google(client: &HeaderMap) -> HeaderMap {
    let passes = |name: &str| {
        name == "x-goog-api-client"
            || !(name.starts_with("x-goog-") || name == "x-http-method-override")
    };
    let kept = client.iter().filter(|(name, _)| passes(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns whether a header or a parameter of this name holds a key of the caller, whatever the provider that
/// reads it: by the words of the name, in lower case.
fn is_credential(name: &str) -> bool {
    let words: Vec<&str> = name.split(['-', '_', '.']).collect();
    let is_secret = |word: &&str| {
        matches!(
            *word,
            "apikey"
                | "auth"
                | "authorization"
                | "cookie"
                | "credential"
                | "credentials"
                | "password"
                | "secret"
                | "signature"
                | "token"
        )
    };
    let is_key = |pair: &[&str]| matches!(*pair, ["api" | "subscription" | "access", "key"]);
    words.iter().any(is_secret) || words.windows(2).any(is_key)
}

/// A path with its query as it is forwarded: without parameters that hold a key of the caller.
#[must_use]
pub(crate) fn path_for_upstream(path: &str) -> Cow<'_, str> {
    let Some((before, query)) = path.split_once('?') else { return Cow::Borrowed(path) };
    let is_kept = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
        let name = name.to_ascii_lowercase();
        name != "key" && !is_credential(&name)
    };
    if query.split('&').all(|parameter| is_kept(&parameter)) {
        return Cow::Borrowed(path);
    }
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    match kept.is_empty() {
        true => Cow::Borrowed(before),
        false => Cow::Owned(format!("{before}?{}", kept.join("&"))),
    }
}

/// The headers that are passed to a client.
#[must_use]
pub(crate) fn for_client(upstream: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(24);
    for (name, value) in upstream {
        if comes_back(name) || (is_wait_name(name) && is_wait(value)) {
            headers.append(name.clone(), value.clone());
        }
    }
    headers
}

fn is_wait_name(name: &HeaderName) -> bool {
    WAITS.contains(name)
}

/// The waits that a server asks for, as far as they are valid.
pub(crate) fn waits(headers: &HeaderMap) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let valid = |name: &HeaderName| headers.get(name).filter(|value| is_wait(value)).cloned();
    WAITS.into_iter().filter_map(move |name| Some((name.clone(), valid(&name)?)))
}

/// Headers that ask a client to wait.
const WAITS: [HeaderName; 2] = [header::RETRY_AFTER, HeaderName::from_static("retry-after-ms")];

/// Returns whether it is a number or a date; other values do not pass.
fn is_wait(value: &HeaderValue) -> bool {
    let text = value.to_str().unwrap_or_default();
    let is_number =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number || httpdate::parse_http_date(text).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_here_and_all_else_travels() {
        for name in [
            "x-api-key",
            "api-key",
            "x-goog-api-key",
            "apikey",
            "ocp-apim-subscription-key",
            "x-auth-token",
            "helicone-auth",
            "x-amz-security-token",
            "set-cookie",
            "x-client-secret",
            "x-access-key",
            "x-amzn-bedrock-service-tier",
            "x-amzn-bedrock-performanceconfig-latency",
            "x-vertex-ai-llm-shared-request-type",
        ] {
            assert!(stays_here(&HeaderName::from_static(name)), "{name}");
        }
        for name in [
            "idempotency-key",
            "openai-beta",
            "user-agent",
            "x-stainless-retry-count",
            "anthropic-version",
            "x-request-id",
            "x-monkey",
            "author",
        ] {
            assert!(!stays_here(&HeaderName::from_static(name)), "{name}");
        }
    }

    #[test]
    fn keys_in_a_query_stay_here() {
        for (path, expected) in [
            ("/v1/models", "/v1/models"),
            ("/v1/files?limit=2&after=file-1", "/v1/files?limit=2&after=file-1"),
            ("/v1/files?key=sk-1", "/v1/files"),
            ("/v1/files?limit=2&KEY=sk-1&order=asc", "/v1/files?limit=2&order=asc"),
            ("/v1/files?api%5Fkey=sk-1&a", "/v1/files?a"),
            ("/v1/files?access_token=x&keys=1", "/v1/files?keys=1"),
        ] {
            assert_eq!(path_for_upstream(path), expected);
        }
    }
}
