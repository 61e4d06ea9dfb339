//! Requests of logins over this program's own client, bounded, without redirects to another origin.

use std::time::Duration;

use hyper::header::CONTENT_TYPE;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use url::form_urlencoded;

use crate::http::Http;

/// Longest time of a request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct OauthHttp {
    http: Http,
    /// Replaces the `resource` of requests for tokens.
    resource: Option<String>,
}

impl OauthHttp {
    pub(super) fn new(http: Http, resource: Option<String>) -> Self {
        Self { http, resource }
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
        Box::pin(async move {
            let sent = self.http.plain(parts.method, parts.uri, parts.headers, body);
            let (status, headers, body) =
                tokio::time::timeout(TIMEOUT, sent).await.map_err(|_| {
                    format!("the login service did not answer within {} s", TIMEOUT.as_secs())
                })??;
            let mut response = hyper::Response::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
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
