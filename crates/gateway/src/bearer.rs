//! Bearer tokens of requests.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

/// The token of `Authorization: Bearer …`; `None` for any other value, and for several headers.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let value = all.next()?.to_str().ok()?;
    if all.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
