//! Small requests to services that give credentials: bounded in time and size, and never logged.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use http_client::{HttpClient, error_chain};
#[cfg(feature = "vertex")]
use hyper::HeaderMap;
use hyper::{Method, Request, StatusCode, Uri, header::HeaderName, header::HeaderValue};
use serde_json::Value;
use tokio::time;

use crate::fetched::CloudError;

/// Most bytes of an answer, and of a file with credentials.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// Longest time for an answer of a service on this machine or its network, which answers at once where it exists.
pub(crate) const METADATA_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for an answer of any other service.
#[cfg(feature = "vertex")]
pub(crate) const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);

/// An answer of such a service.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    #[cfg(feature = "vertex")]
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON; `null` if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A request to such a service.
pub(crate) struct Call<'c> {
    pub(crate) method: Method,
    pub(crate) url: &'c str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) within: Duration,
}

/// Sends a request, and reads the whole answer.
///
/// # Errors
/// There is none in time, or it is too long. The message names the host alone.
pub(crate) async fn call(http: &HttpClient, call: Call<'_>) -> Result<Answer, CloudError> {
    let unusable = |what: &str| CloudError::permanent(format!("`{}` is not {what}", call.url));
    let uri: Uri = call.url.parse().map_err(|_| unusable("a usable URL"))?;
    let host = uri.authority().map_or_else(String::new, ToString::to_string);
    if !matches!(uri.scheme_str(), Some("http" | "https")) || host.is_empty() {
        return Err(unusable("an address with http:// or https:// and a host"));
    }
    let mut request = Request::new(Full::new(Bytes::from(call.body)));
    *request.method_mut() = call.method;
    *request.uri_mut() = uri;
    for (name, value) in call.headers {
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
            CloudError::permanent(format!("no header can carry the value of `{name}`"))
        })?;
        value.set_sensitive(true);
        request.headers_mut().insert(HeaderName::from_static(name), value);
    }
    let answered = async {
        let response = http.request(request).await.map_err(|error| error_chain(&error))?;
        let (head, body) = response.into_parts();
        let body =
            Limited::new(body, MAX_BYTES).collect().await.map_err(|error| error.to_string())?;
        Ok::<_, String>(Answer {
            status: head.status,
            #[cfg(feature = "vertex")]
            headers: head.headers,
            body: body.to_bytes(),
        })
    };
    match time::timeout(call.within, answered).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(problem)) => Err(CloudError::transient(format!("{host}: {problem}"))),
        Err(_) => {
            let seconds = call.within.as_secs();
            Err(CloudError::transient(format!("{host} does not answer within {seconds} s")))
        }
    }
}

/// Returns whether a secret may be sent to a URL: over TLS, or to this machine or a metadata service.
pub(crate) fn is_safe(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_near = host.parse::<std::net::IpAddr>().is_ok_and(|ip| match ip {
        // Amazon's services for containers are 169.254.170.2 and 169.254.170.23.
        std::net::IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
        // fd00:ec2::23 likewise.
        std::net::IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local(),
    });
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_near || host == "localhost",
        _ => false,
    }
}

/// Reads a file with credentials; `None` if it does not exist.
///
/// # Errors
/// It cannot be read, or is too long.
pub(crate) async fn read_file(
    files: &files::Pool,
    path: &Path,
) -> Result<Option<String>, CloudError> {
    let of = path.to_owned();
    let read = files.run(path, move || files::read_utf8(&of, MAX_BYTES as u64)).await;
    match read.and_then(|read| read) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(CloudError::permanent(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::is_safe;

    #[test]
    fn secrets_go_over_tls_or_stay_near() {
        for url in [
            "https://oauth2.googleapis.com/token",
            "http://127.0.0.1:1/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(is_safe(url), "{url}");
        }
        for url in ["http://example.com/", "http://10.0.0.1/", "ftp://127.0.0.1/", "no url"] {
            assert!(!is_safe(url), "{url}");
        }
    }
}
