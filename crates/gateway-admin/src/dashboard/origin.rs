//! Where a form was sent from, as browsers state it.

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;

use super::page::Failure;
use crate::OverHttps;

/// Newer browsers state the origin of a request in this header.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses forms of other sites. A request without an origin is accepted: it is not from a form in
/// a browser.
pub(super) fn is_own(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own = match (text(FETCH_SITE), text(ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text(HOST)
        }
        (None, None) => true,
    };
    is_own.then_some(()).ok_or(Failure::OtherSite)
}

/// Returns whether the browser shows an `https:` page of ours, or a trusted proxy says so: its cookie is then restricted
/// to https.
pub(super) fn is_https(parts: &Parts) -> bool {
    let origin = parts.headers.get(ORIGIN);
    let is_page = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    is_page || parts.extensions.get::<OverHttps>().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_accepted_from_the_same_origin_only() {
        let check = |pairs: &[(&'static str, &str)], expected: bool| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, value.parse().expect("a header"));
            }
            assert_eq!(is_own(&headers).is_ok(), expected, "{pairs:?}");
        };
        let host = ("host", "gateway:8080");
        check(&[host], true);
        check(&[host, ("sec-fetch-site", "same-origin")], true);
        check(&[host, ("sec-fetch-site", "cross-site")], false);
        check(&[host, ("sec-fetch-site", "same-site")], false);
        check(&[host, ("origin", "http://gateway:8080")], true);
        check(&[host, ("origin", "http://evil.example")], false);
        check(&[host, ("origin", "null")], false);
        // Behind a proxy the host differs, and a browser on https sends more headers.
        check(&[host, ("origin", "https://x"), ("sec-fetch-site", "same-origin")], true);
    }
}
