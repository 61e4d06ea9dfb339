//! Fetches a feed: one request, within a time and a size, to the configured address and nowhere else.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use http_client::{HttpVersions, Network, NetworkError, PoolOptions, TlsFiles, error_chain};
use hyper::header::{ACCEPT, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};

use crate::feed::{FeedError, Release};

/// Time limit of a request, including the connection.
pub const TIME_LIMIT: Duration = Duration::from_secs(3);
/// Longest document, in bytes.
pub const MAX_BYTES: usize = 64 << 10;

/// Why there is no news. Addresses are not part of the messages: they may hold credentials.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(
        "its address must start with `https://`; `http://` is for this machine alone, where no one can \
         change the answer"
    )]
    Address,
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("setting up TLS ended unexpectedly")]
    Tls,
    #[error("{0}")]
    Request(String),
    #[error("no answer within {} s", TIME_LIMIT.as_secs())]
    TimedOut,
    #[error("it answers {0}; redirections are not followed, so name the final address")]
    Moved(StatusCode),
    #[error("it answers {0}")]
    Status(StatusCode),
    #[error("its answer is longer than {} KiB", MAX_BYTES >> 10)]
    TooLong,
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// Fetches and reads the feed at `address`, over the proxies and with the roots of `network`.
///
/// # Errors
/// See [`FetchError`].
pub async fn fetch(
    address: &str,
    network: Network,
    user_agent: &str,
) -> Result<Release, FetchError> {
    let uri = checked(address)?;
    let document = tokio::time::timeout(TIME_LIMIT, request(uri, network, user_agent)).await;
    Ok(Release::parse(&document.map_err(|_| FetchError::TimedOut)??)?)
}

/// The address, where what arrives from it can be believed.
fn checked(address: &str) -> Result<Uri, FetchError> {
    let uri: Uri = address.parse().map_err(|_| FetchError::Address)?;
    let host = uri.host().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => Ok(uri),
        Some("http") if is_here => Ok(uri),
        _ => Err(FetchError::Address),
    }
}

async fn request(uri: Uri, network: Network, user_agent: &str) -> Result<Bytes, FetchError> {
    let options = PoolOptions {
        connect_timeout: TIME_LIMIT,
        idle_timeout: TIME_LIMIT,
        max_idle_per_host: 0,
        versions: HttpVersions::Any,
    };
    let build = move || network.client(&TlsFiles::default(), &options);
    let client = tokio::task::spawn_blocking(build).await.map_err(|_| FetchError::Tls)??;
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Ok(agent) = HeaderValue::from_str(user_agent) {
        headers.insert(USER_AGENT, agent);
    }
    let answer = client.request(request).await;
    let answer = answer.map_err(|error| FetchError::Request(error_chain(&error)))?;
    match answer.status() {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(FetchError::Moved(status)),
        status => return Err(FetchError::Status(status)),
    }
    let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => FetchError::TooLong,
        None => FetchError::Request(error_chain(&*error)),
    })?;
    Ok(body.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_must_be_one_whose_answer_can_be_believed() {
        for (address, is_good) in [
            ("https://feeds.example/agentd.json", true),
            ("HTTPS://feeds.example", true),
            ("http://127.0.0.1:8000/f", true),
            ("http://[::1]:8000/f", true),
            ("http://localhost/f", true),
            ("http://feeds.example/f", false),
            ("http://127.0.0.1.example/f", false),
            ("http://localhost.example/f", false),
            ("file:///etc/passwd", false),
            ("/feed.json", false),
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(checked(address).is_ok(), is_good, "{address}");
        }
    }
}
