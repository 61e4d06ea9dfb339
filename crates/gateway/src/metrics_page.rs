//! `/metrics`: its readers need the configured token, and a listener of its own serves it where one
//! is configured.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use gateway_admin::Surface;
use gateway_policy::error::ApiError;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::bearer::bearer;
use crate::metrics::Readings;
use crate::state::Gateway;

/// Most concurrent connections of the listener.
const MOST: usize = 64;
/// Longest wait for a request, and longest time of a whole connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

/// The page for a reader.
///
/// # Errors
/// 401 without the configured token.
pub(crate) fn answer<B: From<Bytes>>(
    gateway: &Gateway,
    headers: &HeaderMap,
    from: Option<IpAddr>,
) -> Result<Response<B>, ApiError> {
    if let Some(token) = &gateway.settings.load().metrics.token {
        let presented = bearer(headers);
        if !presented.is_some_and(|presented| gateway_admin::is_secret(token, presented)) {
            let (code, now) = ("invalid_metrics_token", gateway.clock.steady());
            gateway.sign_ins.failed(Surface::Metrics, code, from, now);
            let message =
                "The metrics need the token of [metrics] token_file: Authorization: Bearer TOKEN.";
            return Err(ApiError::unauthorized(code, message));
        }
    }
    let page = gateway.metrics.page(&Readings {
        ledger: gateway.ledger.state(),
        spans_dropped: gateway.traces.dropped(),
        limits_available: gateway.limits.is_available(),
        store_in_touch: gateway.directory.is_in_touch(),
        backends: gateway
            .backends
            .all()
            .iter()
            .map(|live| (live.label().to_owned(), live.is_available()))
            .collect(),
    });
    let mut response = Response::new(B::from(Bytes::from(page)));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// Binds the listener.
///
/// # Errors
/// The address cannot be used.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves the page while the gateway exists.
pub(crate) async fn serve(listener: TcpListener, gateway: Weak<Gateway>) {
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection for the metrics was not accepted: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let gateway = gateway.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let response = respond(&gateway, &request, address.ip());
                async move { Ok::<_, std::convert::Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), answer);
            // A broken or slow connection affects no other.
            let _ = tokio::time::timeout(PATIENCE, connection).await;
            drop(place);
        });
    }
}

fn respond(
    gateway: &Weak<Gateway>,
    request: &Request<Incoming>,
    from: IpAddr,
) -> Response<Full<Bytes>> {
    let Some(gateway) = gateway.upgrade() else {
        return ApiError::store_unavailable().into_response();
    };
    let gets = matches!(*request.method(), Method::GET | Method::HEAD);
    if !gets || request.uri().path() != "/metrics" {
        let message = "This port serves GET /metrics only.";
        return ApiError::not_found("not_found", message).into_response();
    }
    let client = gateway.settings.load().trusted_proxies.client(from, request.headers());
    let from = Some(client.address);
    answer(&gateway, request.headers(), from).unwrap_or_else(ApiError::into_response)
}
