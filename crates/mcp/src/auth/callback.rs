//! The address on this machine to which the browser returns from a login.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use url::form_urlencoded;

use crate::error::{Error, ErrorKind};

/// Connections at the same time; further ones wait.
const MAX_CONNECTIONS: usize = 8;
/// Longest time of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The path that the program itself chooses.
const PATH: &str = "/callback";

/// Waits for the browser.
pub(super) struct Listener {
    listener: TcpListener,
    redirect_uri: String,
    path: String,
}

/// The parameters with which the authorization server redirected the browser.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) state: String,
    pub(super) issuer: Option<String>,
    /// The code, or the reason of a refusal.
    pub(super) outcome: Result<String, String>,
}

impl Listener {
    /// Listens on a port of this machine, 0 for a free one. `address`: what the authorization server
    /// is sent in place of the port's own address.
    ///
    /// # Errors
    /// The port cannot be listened on, or the address is none.
    pub(super) async fn bind(port: u16, address: Option<&str>) -> Result<Self, Error> {
        let failed = |problem: String| Error::new(ErrorKind::Unavailable, problem);
        let unusable = |error: std::io::Error| {
            failed(format!("no port of 127.0.0.1 can be listened on for the login: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(unusable)?;
        let port = listener.local_addr().map_err(unusable)?.port();
        let redirect_uri = match address {
            Some(address) => address.to_owned(),
            None => format!("http://127.0.0.1:{port}{PATH}"),
        };
        let url = url::Url::parse(&redirect_uri).map_err(|error| {
            failed(format!("`mcp_oauth_callback_url` is not an address: {error}"))
        })?;
        Ok(Self { listener, redirect_uri, path: url.path().to_owned() })
    }

    pub(super) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Serves until a redirect with this state has arrived.
    pub(super) async fn redirect(&self, state: &str) -> Redirect {
        let (sender, mut redirects) = mpsc::channel(1);
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(redirect) = redirects.recv() => {
                    // The browser takes the page that it was sent.
                    let last = async { while connections.join_next().await.is_some() {} };
                    let _ = tokio::time::timeout(Duration::from_millis(200), last).await;
                    return redirect;
                }
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => {
                    // A client that is gone again: the user can reload.
                    let Ok((stream, _)) = accepted else { continue };
                    let permits = permits.clone();
                    let (sender, state, path) =
                        (sender.clone(), state.to_owned(), self.path.clone());
                    connections.spawn(async move {
                        let Ok(_permit) = permits.acquire().await else { return };
                        let service = service_fn(|request| {
                            let page = answer(&request, &state, &path, &sender);
                            async move { Ok::<_, Infallible>(page) }
                        });
                        let served = hyper::server::conn::http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(CONNECTION_TIMEOUT)
                            .max_buf_size(16 << 10)
                            .keep_alive(false)
                            .serve_connection(TokioIo::new(stream), service);
                        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, served).await;
                    });
                }
            }
        }
    }
}

fn answer(
    request: &Request<Incoming>,
    state: &str,
    path: &str,
    sender: &mpsc::Sender<Redirect>,
) -> Response<Full<Bytes>> {
    if request.method() != Method::GET || request.uri().path() != path {
        return page(StatusCode::NOT_FOUND, "There is nothing here.");
    }
    let query = request.uri().query().unwrap_or_default();
    let Some(redirect) = parse(query).filter(|redirect| redirect.state == state) else {
        return page(StatusCode::BAD_REQUEST, "This answer belongs to another login.");
    };
    let text = match &redirect.outcome {
        Ok(_) => "The login was answered. You can close this window and go back to the program.",
        Err(_) => "The login was refused. Go back to the program.",
    };
    match sender.try_send(redirect) {
        Ok(()) => page(StatusCode::OK, text),
        Err(_) => page(StatusCode::CONFLICT, "This login was already answered."),
    }
}

/// The members of a redirect; `None` without a state.
fn parse(query: &str) -> Option<Redirect> {
    let member = |name: &str| {
        let mut members = form_urlencoded::parse(query.as_bytes());
        members.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let outcome = match (member("error"), member("code")) {
        (Some(error), _) => Err(match member("error_description") {
            Some(description) => format!("{error} ({description})"),
            None => error,
        }),
        (None, Some(code)) if !code.is_empty() => Ok(code),
        (None, _) => Err("the answer contains no code".to_owned()),
    };
    Some(Redirect { state: member("state")?, issuer: member("iss"), outcome })
}

/// A page with one sentence. Its address contains a code, so it is neither cached nor passed on.
fn page(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let html = format!("<!doctype html><meta charset=\"utf-8\"><title>agentd</title><p>{text}</p>");
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn redirects_are_parsed() {
        let check = |query: &str, outcome: Result<&str, &str>, issuer: Option<&str>| {
            let found = parse(query).unwrap();
            let outcome = outcome.map(str::to_owned).map_err(str::to_owned);
            assert_eq!((found.outcome, found.issuer.as_deref()), (outcome, issuer), "{query}");
        };
        check("state=s&code=a%20b&iss=https%3A%2F%2Fi", Ok("a b"), Some("https://i"));
        check("state=s&error=access_denied", Err("access_denied"), None);
        check("state=s&error=e&error_description=d&code=x", Err("e (d)"), None);
        check("state=s", Err("the answer contains no code"), None);
        assert_eq!(parse("code=a"), None);
    }
}
