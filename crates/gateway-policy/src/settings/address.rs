//! The addresses of backends.

use hyper::Uri;
use hyper::header::{HeaderValue, InvalidHeaderValue};

use super::Base;
use super::error::Fault;

/// The base at a URL such as `https://host/v1`.
pub(super) fn base(url: &str, key: &[&str]) -> Result<Base, Fault> {
    let fault = |message: String| Fault::new(key, message);
    let uri: Uri = url.parse().map_err(|error| fault(format!("`{url}` is no URL: {error}")))?;
    let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let Some(authority) = uri.authority().filter(|_| has_scheme && uri.query().is_none()) else {
        return Err(fault(format!("`{url}` must look like https://host/v1")));
    };
    if authority.as_str().contains('@') {
        return Err(fault("must not contain a user or a password; use env_key".to_owned()));
    }
    let path = uri.path().trim_end_matches('/').into();
    let origin = format!("{}://{authority}/", uri.scheme_str().unwrap_or("http"));
    let origin: Uri =
        origin.parse().map_err(|error| fault(format!("`{url}` is no URL: {error}")))?;
    let host = host_header(&origin);
    let host = host.map_err(|error| fault(format!("`{url}` has an invalid host: {error}")))?;
    Ok(Base { origin, host, path })
}

/// The host, with its port unless that is the scheme's default.
fn host_header(origin: &Uri) -> Result<HeaderValue, InvalidHeaderValue> {
    let host = origin.host().unwrap_or_default();
    match (origin.scheme_str(), origin.port_u16()) {
        (_, None) | (Some("http"), Some(80)) | (Some("https"), Some(443)) => {
            HeaderValue::from_str(host)
        }
        (_, Some(port)) => HeaderValue::from_str(&format!("{host}:{port}")),
    }
}
