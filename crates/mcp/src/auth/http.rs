//! Requests of logins over this program's own client, bounded, without redirects to another origin.

use std::net::IpAddr;
use std::time::Duration;

use hyper::header::CONTENT_TYPE;
use hyper::{Method, Uri};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use url::{Url, form_urlencoded};

use crate::auth::tokens;
use crate::error::quoted;
use crate::http::Http;

/// Longest time of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP client for the requests of a login.
pub(super) struct OauthHttp {
    http: Http,
    /// Host of the MCP server.
    host: String,
    /// Replaces the `resource` of requests for tokens.
    resource: Option<String>,
}

impl OauthHttp {
    pub(super) fn new(http: Http, server: &str, resource: Option<String>) -> Self {
        let host = Url::parse(server).ok().and_then(|url| url.host_str().map(str::to_owned));
        Self { http, host: host.unwrap_or_default(), resource }
    }
}

impl OAuthHttpClient for OauthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        let (mut parts, mut body) = request.request.into_parts();
        let is_form = parts
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
        if let Some(resource) = self.resource.as_deref().filter(|_| is_form) {
            body = with_resource(&body, resource).into_bytes();
            parts.headers.remove(hyper::header::CONTENT_LENGTH);
        }
        // Codes, tokens and registrations are posted to addresses that the server's metadata name.
        let refusal = match parts.method {
            Method::POST => refusal(&parts.uri, &self.host),
            _ => None,
        };
        Box::pin(async move {
            if let Some(refusal) = refusal {
                return Err(refusal.into());
            }
            let sent = self.http.plain(parts.method, parts.uri, parts.headers, body);
            let (status, headers, body) =
                tokio::time::timeout(TIMEOUT, sent).await.map_err(|_| {
                    format!("the login service did not answer within {} s", TIMEOUT.as_secs())
                })??;
            let body = match is_form && status.is_success() {
                true => tokens::readable(body)?,
                false => body,
            };
            let mut response = hyper::Response::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// Why nothing secret is sent to this address for a server on that host.
fn refusal(uri: &Uri, server: &str) -> Option<String> {
    let host = uri.host().unwrap_or_default();
    let shown = quoted(&uri.to_string());
    if is_loopback(host) && !is_loopback(server) {
        return Some(format!(
            "`{shown}` is on this machine and the server is not; nothing is sent there"
        ));
    }
    let is_encrypted = uri.scheme_str() == Some("https");
    // The user has chosen an unencrypted connection to that host.
    let is_chosen = host.eq_ignore_ascii_case(server) || is_loopback(host);
    (!is_encrypted && !is_chosen)
        .then(|| format!("`{shown}` is not encrypted; nothing is sent there"))
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let name = host.to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        return true;
    }
    match name.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => false,
    }
}

/// A form with another `resource`.
pub(super) fn with_resource(form: &[u8], resource: &str) -> String {
    let mut changed = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(form) {
        let is_resource = name == "resource";
        changed.append_pair(&name, if is_resource { resource } else { &value });
    }
    changed.finish()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn secrets_are_sent_encrypted_and_not_to_this_machine() {
        let check = |uri: &str, server: &str, expect: Option<&str>| {
            let found = refusal(&uri.parse().unwrap(), server);
            match expect {
                None => assert_eq!(found, None),
                Some(part) => assert!(found.is_some_and(|found| found.contains(part)), "{uri}"),
            }
        };
        check("https://login.example/token", "mcp.example", None);
        check("http://mcp.example:8080/token", "mcp.example", None);
        check("http://login.example/token", "mcp.example", Some("is not encrypted"));
        check("http://login.example/token", "127.0.0.1", Some("is not encrypted"));
        check("http://127.0.0.1:1/token", "localhost", None);
        check("http://[::1]:1/token", "127.0.0.1", None);
        for local in [
            "127.0.0.1",
            "127.9.9.9",
            "localhost",
            "LOCALHOST.",
            "[::1]",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
        ] {
            for scheme in ["http", "https"] {
                let uri = format!("{scheme}://{local}/token");
                check(&uri, "mcp.example", Some("is on this machine"));
            }
        }
    }
}
