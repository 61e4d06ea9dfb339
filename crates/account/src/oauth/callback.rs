//! The server on a loopback address that receives the browser's redirect (RFC 8252, 7.3). It answers
//! one path, and ends with the first answer that has the right state.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use hyper::header::{HeaderValue, REFERRER_POLICY};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::form;
use crate::error::Error;

const PATH: &str = "/auth/callback";
/// Connections at the same time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16;
/// Longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time of a connection, including the exchange of the code.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);
/// Time for the browser to load the last page.
const LAST_PAGE: Duration = Duration::from_secs(5);

/// A listener for one redirect.
#[derive(Debug)]
pub(crate) struct CallbackListener {
    listener: TcpListener,
    address: SocketAddr,
}

/// The values that the redirect must agree with.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedRedirect {
    pub(crate) state: http_client::Secret,
    pub(crate) issuer: String,
    /// The redirect must name the issuer.
    pub(crate) names_issuer: bool,
}

/// A redirect with the right state.
#[derive(Debug)]
pub(crate) struct Redirect {
    /// The code, or why there is none.
    pub(crate) outcome: Result<http_client::Secret, String>,
    page: oneshot::Sender<Page>,
}

/// The page that the browser shows at the end.
#[derive(Debug)]
pub(crate) enum Page {
    /// The login is complete; `closes`: the page tries to close itself.
    Complete {
        closes: bool,
    },
    Failed {
        reason: String,
    },
}

/// Connections of the browser that are still open.
#[derive(Debug)]
pub(crate) struct OpenPages(JoinSet<()>);

impl OpenPages {
    /// Lets the browser take the last page, for a bounded time.
    pub(crate) async fn finish(mut self) {
        let all = async { while self.0.join_next().await.is_some() {} };
        // A browser that keeps its connection gets no more.
        let _ = tokio::time::timeout(LAST_PAGE, all).await;
    }
}

impl Redirect {
    /// Shows the outcome of the login. Waits for nothing.
    pub(crate) fn show(self, page: Page) {
        // The browser may be gone.
        let _ = self.page.send(page);
    }
}

impl CallbackListener {
    /// Listens on a free port of 127.0.0.1.
    pub(crate) async fn bind() -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::LoginFailed(format!("no port of 127.0.0.1 can be listened on: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until a redirect with the right state has arrived.
    pub(crate) async fn redirect(
        self,
        expected: ExpectedRedirect,
    ) -> Result<(Redirect, OpenPages), Error> {
        let (sender, mut redirects) = mpsc::channel(1);
        let service = Arc::new(Service { expected, address: self.address, sender });
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accept = async {
                // It is never closed.
                let permit = permits.clone().acquire_owned().await;
                (self.listener.accept().await, permit)
            };
            tokio::select! {
                biased;
                Some(redirect) = redirects.recv() => return Ok((redirect, OpenPages(connections))),
                Some(_) = connections.join_next() => {}
                (accepted, permit) = accept => {
                    // A client that is gone again, or no free descriptor: the user can reload.
                    let Ok((stream, _)) = accepted else {
                        tokio::task::yield_now().await;
                        continue;
                    };
                    let service = service.clone();
                    connections.spawn(async move {
                        let served = hyper::server::conn::http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(HEAD_TIMEOUT)
                            .max_buf_size(16 << 10)
                            .keep_alive(false)
                            .serve_connection(TokioIo::new(stream), service_fn(|request| {
                                let service = service.clone();
                                async move { Ok::<_, Infallible>(service.answer(request).await) }
                            }));
                        // A broken connection concerns only the browser, which can reload.
                        let _ = tokio::time::timeout(CONNECTION_TIMEOUT, served).await;
                        drop(permit);
                    });
                }
            }
        }
    }
}

struct Service {
    expected: ExpectedRedirect,
    address: SocketAddr,
    sender: mpsc::Sender<Redirect>,
}

impl Service {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let outcome = match self.check(&request) {
            Ok(outcome) => outcome,
            Err((status, text)) => return page(status, text, false),
        };
        let (page_sender, shown) = oneshot::channel();
        let redirect = Redirect { outcome, page: page_sender };
        if self.sender.try_send(redirect).is_err() {
            return page(StatusCode::CONFLICT, "This login was already answered.", false);
        }
        match shown.await {
            Ok(Page::Complete { closes }) => page(
                StatusCode::OK,
                "You are logged in. You can close this window and go back to the program.",
                closes,
            ),
            Ok(Page::Failed { reason }) => page(StatusCode::BAD_REQUEST, &reason, false),
            Err(_) => page(StatusCode::CONFLICT, "This login was canceled.", false),
        }
    }

    /// The code of a redirect, or the reason of the login service. Any other request is refused and
    /// changes nothing.
    fn check(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Result<http_client::Secret, String>, (StatusCode, &'static str)> {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let port = self.address.port();
        let is_ours = host.is_some_and(|host| {
            host == self.address.to_string() || host == format!("localhost:{port}")
        });
        if !is_ours {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "This address is for local logins only.",
            ));
        }
        if request.uri().path() != PATH {
            return Err((StatusCode::NOT_FOUND, "There is nothing here."));
        }
        if request.method() != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "This address only answers GET."));
        }
        let query = request.uri().query().unwrap_or_default();
        let member = |name: &str| form::member(query, name);
        let state = member("state").unwrap_or_default();
        let expected = &self.expected;
        if !bool::from(state.as_bytes().ct_eq(expected.state.expose().as_bytes())) {
            let text = "This answer belongs to another login. Go back to the program and use the \
                        address that it shows.";
            return Err((StatusCode::BAD_REQUEST, text));
        }
        let trimmed = |issuer: &str| issuer.trim_end_matches('/').to_owned();
        match member("iss") {
            Some(issuer) if trimmed(&issuer) != trimmed(&expected.issuer) => {
                return Ok(Err("the answer is of another login service".to_owned()));
            }
            None if expected.names_issuer => {
                return Ok(Err("the answer does not name its login service".to_owned()));
            }
            _ => {}
        }
        if let Some(error) = member("error") {
            let description = member("error_description");
            let text = match description {
                Some(description) => format!("{error} ({description})"),
                None => error.into_owned(),
            };
            return Ok(Err(crate::settings::start_of(&text)));
        }
        Ok(match member("code") {
            Some(code) if !code.is_empty() => Ok(http_client::Secret::new(code)),
            _ => Err("the answer contains no code".to_owned()),
        })
    }
}

/// A page with one sentence. Its address contained a code, so it is neither cached nor passed on.
fn page(status: StatusCode, text: &str, closes: bool) -> Response<Full<Bytes>> {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let script = if closes { "<script>window.close()</script>" } else { "" };
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>agentd</title>\
         <body style=\"font-family:sans-serif;margin:4em\"><p>{text}</p>{script}</body></html>"
    );
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    let policy = if closes {
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    } else {
        "default-src 'none'; style-src 'unsafe-inline'"
    };
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (CONNECTION, "close"),
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, policy),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
