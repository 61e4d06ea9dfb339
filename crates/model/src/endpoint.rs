//! The URL and headers of a provider's requests, credentials included.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Uri,
    header::{self, HeaderName, HeaderValue},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{Failure, FailureKind, KeySource, Provider, wires};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The URL of one kind of request to a provider, with the credentials to send.
#[derive(Debug)]
pub struct Endpoint {
    uri: Uri,
    headers: HeaderMap,
    /// `POST https://host/path`, for messages. Omits the query, which may contain a key.
    pub label: String,
}

impl Endpoint {
    /// The endpoint for `method` on `path` below the provider's base URL.
    ///
    /// # Errors
    /// `Unauthorized` when a required key is missing; `Other` for an invalid URL or header, naming
    /// the configuration key to correct.
    pub fn new(provider: &Provider, method: &Method, path: &str) -> Result<Self, Failure> {
        let headers = headers(provider)?;
        let mut url = wires::joined(&provider.base_url, path);
        for (name, value) in &provider.query_params {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.extend(utf8_percent_encode(name, RESERVED));
            url.push('=');
            url.extend(utf8_percent_encode(value, RESERVED));
        }
        let uri: Uri = url.parse().map_err(|error| bad_url(provider, &error))?;
        let (Some("http" | "https"), Some(host)) = (uri.scheme_str(), uri.authority()) else {
            return Err(bad_url(provider, &"it needs http:// or https:// and a host"));
        };
        let host = host.as_str().rsplit('@').next().unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or_default();
        let label = format!("{method} {scheme}://{host}{}", uri.path());
        Ok(Self { uri, headers, label })
    }

    /// With headers of the provider's wire, where the configuration sets no others.
    #[must_use]
    pub(crate) fn with_headers(mut self, headers: &[(&'static str, String)]) -> Self {
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                self.headers.entry(*name).or_insert(value);
            }
        }
        self
    }

    /// Scheme, host and port, for messages about connections.
    #[must_use]
    pub fn host(&self) -> String {
        let url = self.label.split_once(' ').map_or("", |(_, url)| url);
        url.strip_suffix(self.uri.path()).unwrap_or(url).to_owned()
    }

    /// A request with `body` as JSON.
    #[must_use]
    pub fn request(&self, method: &Method, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

fn headers(provider: &Provider) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    for (name, value) in &provider.http_headers {
        let bad = || {
            let message = format!(
                "`http_headers` of model provider `{}`: `{name}` is not a usable header; correct \
                 its name or value",
                provider.id
            );
            Failure::new(FailureKind::Other, message)
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let (name, _) = provider.key_header();
    if headers.contains_key(header::AUTHORIZATION) || headers.contains_key(name) {
        return Ok(headers);
    }
    if let Some(value) = authorization(provider)? {
        headers.insert(name, value);
    }
    Ok(headers)
}

fn authorization(provider: &Provider) -> Result<Option<HeaderValue>, Failure> {
    let unauthorized = |problem: &str| {
        let message = format!("model provider `{}` {problem}", provider.id);
        Failure::new(FailureKind::Unauthorized, message)
    };
    match &provider.api_key {
        // A signature is part of the request, not of the address.
        KeySource::NotNeeded | KeySource::Signed(_) => Ok(None),
        KeySource::Missing { instructions } => {
            Err(unauthorized(&format!("has no API key: {instructions}")))
        }
        KeySource::Account(_) => {
            Err(unauthorized("was used without the credentials of its account; please report it"))
        }
        KeySource::Aws(_) | KeySource::Google(_) => Err(unauthorized(
            "has an account of a cloud (`auth`), which only requests to models over HTTP take",
        )),
        KeySource::Value(key) | KeySource::Issued(key) | KeySource::Bearer(key) => {
            let (_, prefix) = provider.key_header();
            let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose().trim()))
                .map_err(|_| unauthorized("has a key that no header can carry; set it again"))?;
            value.set_sensitive(true);
            Ok(Some(value))
        }
    }
}

fn bad_url(provider: &Provider, problem: &dyn std::fmt::Display) -> Failure {
    let message =
        format!("`base_url` of model provider `{}` is not a usable URL: {problem}", provider.id);
    Failure::new(FailureKind::Other, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    fn endpoint(provider: &Provider) -> Result<Endpoint, Failure> {
        Endpoint::new(provider, &Method::POST, "/responses")
    }

    #[test]
    fn the_url_joins_base_path_and_encoded_parameters() {
        let check = |base: &str, params: &[(&str, &str)], url: &str, host: &str| {
            let mut provider = Provider::http("p", base);
            provider.query_params =
                params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let endpoint = endpoint(&provider).unwrap();
            assert_eq!(endpoint.uri.to_string(), url);
            assert_eq!(endpoint.host(), host);
        };
        check("http://h:1/v1", &[], "http://h:1/v1/responses", "http://h:1");
        check("https://h/", &[], "https://h/responses", "https://h");
        let params = [("api-version", "2026 a&b"), ("x", "é")];
        let url = "https://h/v1/responses?api-version=2026%20a%26b&x=%C3%A9";
        check("https://h/v1", &params, url, "https://h");
    }

    #[test]
    fn invalid_providers_name_the_correction() {
        let check = |provider: &Provider, kind: FailureKind, part: &str| {
            let failure = endpoint(provider).err().unwrap();
            assert_eq!(failure.kind, kind);
            assert!(failure.message.contains(part), "{}", failure.message);
        };
        check(&Provider::built_in(None, None), FailureKind::Unauthorized, "AGENT_API_KEY");
        check(&Provider::http("p", "ftp://h"), FailureKind::Other, "base_url");
        check(&Provider::http("p", "no url"), FailureKind::Other, "base_url");
        let mut provider = Provider::http("p", "http://h");
        provider.http_headers.insert("bad name".into(), "v".into());
        check(&provider, FailureKind::Other, "http_headers");
        let provider = Provider::built_in(Some(Secret::new("a\nb")), None);
        check(&provider, FailureKind::Unauthorized, "key");
    }

    #[test]
    fn a_configured_authorization_header_replaces_the_key() {
        let mut provider = Provider::built_in(Some(Secret::new("sk")), None);
        let sent = |provider: &Provider| {
            endpoint(provider).unwrap().headers[header::AUTHORIZATION].to_str().unwrap().to_owned()
        };
        assert_eq!(sent(&provider), "Bearer sk");
        provider.http_headers.insert("Authorization".into(), "Basic x".into());
        assert_eq!(sent(&provider), "Basic x");
    }
}
