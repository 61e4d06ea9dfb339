//! The upgrade of a request to a WebSocket.

use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::http_clients::HttpClients;
use crate::open::unreachable;
use crate::{Endpoint, Failure, Provider};

/// Longest time for the upgrade.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A WebSocket to a provider.
pub type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// Why there is no WebSocket.
pub(crate) enum NotUpgraded {
    /// No connection.
    Unreachable(Failure),
    /// No answer within this time.
    Silent(Duration),
    /// The answer to the upgrade.
    Refused(Box<Response<Incoming>>),
    /// The server switched to something else.
    NoWebSocket,
}

/// Opens a WebSocket at `endpoint`, whose messages have at most `max_message` bytes. Returns the headers of
/// the answer, too.
pub(crate) async fn upgrade(
    clients: &HttpClients,
    provider: &Provider,
    endpoint: &Endpoint,
    max_message: usize,
) -> Result<(WebSocket, HeaderMap), NotUpgraded> {
    let http = clients.for_upgrades(provider).await.map_err(NotUpgraded::Unreachable)?;
    let mut request = endpoint.request(&Method::GET, Bytes::new());
    let key = generate_key();
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::ACCEPT);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    let value = HeaderValue::from_str(&key).map_err(|_| NotUpgraded::NoWebSocket)?;
    headers.insert(header::SEC_WEBSOCKET_KEY, value);
    let upgrade = async {
        let response = http.request(request).await.map_err(|error| {
            NotUpgraded::Unreachable(unreachable(provider, &endpoint.host(), &error))
        })?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(NotUpgraded::Refused(Box::new(response)));
        }
        let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let expected = derive_accept_key(key.as_bytes());
        if accept.is_none_or(|accept| accept.as_bytes() != expected.as_bytes()) {
            return Err(NotUpgraded::NoWebSocket);
        }
        let headers = response.headers().clone();
        let upgraded = hyper::upgrade::on(response).await;
        upgraded.map(|upgraded| (upgraded, headers)).map_err(|_| NotUpgraded::NoWebSocket)
    };
    let limit = TIMEOUT.min(provider.stream_idle_timeout);
    let answered = time::timeout(limit, upgrade).await;
    let (upgraded, headers) = answered.unwrap_or(Err(NotUpgraded::Silent(limit)))?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message));
    let io = TokioIo::new(upgraded);
    Ok((WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await, headers))
}
