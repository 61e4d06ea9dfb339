//! The HTTP side of a listener: health probes, and the upgrade to a WebSocket with its checks
//! (specification: Health probes, Authentication). The checks run in the order of their threats:
//! pages of other sites, DNS rebinding, malformed requests, clients without credentials.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue,
    ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Version};
use sha1::{Digest, Sha1};

use crate::Auth;
use crate::site::{Site, SiteFile, TOKEN_CHECK};

/// The rules by which clients are let in.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The authentication of clients over TCP.
    pub auth: Auth,
    /// Origins whose pages may connect, as browsers name them: `https://editor.example`.
    pub origins: Vec<String>,
    /// Names that a `Host` header may hold, besides `localhost` and the local address.
    pub hosts: Vec<String>,
}

/// The kind of listener that received a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// TCP, on this local address.
    Tcp(IpAddr),
    /// A Unix socket.
    Unix,
}

/// The subprotocol that browsers offer.
const PROTOCOL: &str = "agentd";
/// Prefix of the second subprotocol that browsers offer: it carries the token in base64url, because
/// a page cannot set the `Authorization` header.
const BEARER_PROTOCOL: &str = "agentd.bearer.";
/// Appended to the client's key before hashing (RFC 6455, section 1.3).
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(crate) type TextResponse = Response<Full<Bytes>>;

/// The decision on a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// An ordinary response.
    Respond(TextResponse),
    /// The page of metrics.
    Metrics,
    /// The upgrade, with its response.
    Upgrade(TextResponse),
}

impl Admission {
    /// The refusal of a plain HTTP request over TCP; `None` when it may be served. `local` is the address
    /// that it arrived at. The checks are those of WebSocket clients, but a page may reach the server that it
    /// came from.
    pub fn refusal<B>(&self, request: &Request<B>, local: IpAddr) -> Option<Response<Full<Bytes>>> {
        let headers = request.headers();
        let admitted = check_host(request, local, self).and_then(|()| {
            if !is_same_origin(headers) {
                check_origin(headers, false, self)?;
            }
            if self.auth.admits(token(headers, &[])?.as_deref()) {
                return Ok(());
            }
            Err(Refusal::unauthorized("unauthorized: send a valid bearer token\n"))
        });
        admitted.err().map(Refusal::response)
    }
}

/// Returns whether the request comes from a page of the host that it names, over HTTP.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let host = origin.as_bytes().strip_prefix(b"http://");
    host.is_some_and(|origin| headers.get(HOST).is_some_and(|host| origin == host.as_bytes()))
}

/// The target of a path.
#[derive(Clone, Copy, Debug)]
enum Target {
    Probe,
    Metrics,
    Socket,
    File(SiteFile),
    TokenCheck,
}

/// The pages that an acceptor serves in addition to the WebSocket.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// The access to the page of metrics, where there is one.
    pub(crate) metrics: Option<&'a Auth>,
    pub(crate) site: Option<&'a Site>,
}

/// Judges a request by its head.
pub(crate) fn judge<B>(
    request: &Request<B>,
    via: Via,
    admission: &Admission,
    beside: Beside<'_>,
) -> Verdict {
    check(request, via, admission, beside)
        .unwrap_or_else(|refused| Verdict::Respond(refused.response()))
}

fn check<B>(
    request: &Request<B>,
    via: Via,
    admission: &Admission,
    Beside { metrics, site }: Beside<'_>,
) -> Result<Verdict, Refusal> {
    let headers = request.headers();
    let target = match request.uri().path() {
        "/healthz" | "/readyz" if via != Via::Unix => Some(Target::Probe),
        "/metrics" if metrics.is_some() => Some(Target::Metrics),
        TOKEN_CHECK if site.is_some() => Some(Target::TokenCheck),
        path => match site.and_then(|site| site.find(request)) {
            Some(file) => Some(Target::File(file)),
            None => (path == "/").then_some(Target::Socket),
        },
    };
    let is_for_programs = matches!(target, Some(Target::Probe | Target::Metrics));
    check_origin(headers, is_for_programs, admission)?;
    if let Via::Tcp(local) = via {
        check_host(request, local, admission)?;
    }
    if site.is_some_and(|site| !site.is_named(request)) {
        let message = "open the address that the program printed: it answers to no other name\n";
        return Err(Refusal(StatusCode::FORBIDDEN, message));
    }
    let Some(target) = target else {
        return Err(Refusal(StatusCode::NOT_FOUND, "not found: connect to the path /\n"));
    };
    let method = request.method();
    let has_head = is_for_programs || matches!(target, Target::File(_));
    if method != Method::GET && !(has_head && method == Method::HEAD) {
        return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n"));
    }
    if let (Target::File(file), Some(site)) = (target, site) {
        return Ok(Verdict::Respond(site.response(file)));
    }
    match (target, metrics) {
        (Target::Probe, _) => return Ok(Verdict::Respond(text(StatusCode::OK, "ok\n"))),
        (Target::Metrics, Some(own)) => {
            let token = token(headers, &[])?;
            if via == Via::Unix || may_read_metrics(token.as_deref(), &admission.auth, own) {
                return Ok(Verdict::Metrics);
            }
            return Err(Refusal::unauthorized("unauthorized: send a valid bearer token\n"));
        }
        (Target::TokenCheck, _) => {
            return match admission.auth.admits(token(headers, &[])?.as_deref()) {
                true => Ok(Verdict::Respond(text(StatusCode::OK, "ok\n"))),
                false => Err(Refusal::unauthorized("unauthorized: this token is not valid\n")),
            };
        }
        (Target::Metrics | Target::Socket | Target::File(_), _) => {}
    }
    let accept = check_upgrade(request)?;
    let offered = offered_protocols(headers);
    if via != Via::Unix && !admission.auth.admits(token(headers, &offered)?.as_deref()) {
        return Err(Refusal::unauthorized("unauthorized: send a valid bearer token\n"));
    }
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answered = response.headers_mut();
    answered.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answered.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    answered.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if offered.contains(&PROTOCOL) {
        answered.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL));
    }
    Ok(Verdict::Upgrade(response))
}

/// Any client that may connect may read the page, and so may the holder of the page's own token.
fn may_read_metrics(token: Option<&str>, clients: &Auth, own: &Auth) -> bool {
    match (clients, own) {
        (_, Auth::None) => clients.admits(token),
        (Auth::None, own) => own.admits(token),
        (clients, own) => own.admits(token) || clients.admits(token),
    }
}

/// Browsers send the origin of the page that connects. Only allowed origins may, and no page needs a
/// health probe or metrics.
fn check_origin(
    headers: &HeaderMap,
    is_for_programs: bool,
    admission: &Admission,
) -> Result<(), Refusal> {
    let mut given = headers.get_all(ORIGIN).iter();
    let Some(origin) = given.next() else { return Ok(()) };
    if is_for_programs {
        let message = "health probes and metrics with an Origin header are refused: send none\n";
        return Err(Refusal(StatusCode::FORBIDDEN, message));
    }
    let allowed = |allowed: &String| allowed.as_bytes() == origin.as_bytes();
    if given.next().is_none() && admission.origins.iter().any(allowed) {
        return Ok(());
    }
    Err(Refusal(
        StatusCode::FORBIDDEN,
        "this origin may not connect: start the server with --ws-allow-origin to allow the pages \
         of an origin\n",
    ))
}

/// Refuses other host names. A page that rebinds its own DNS name to this machine sends that name.
fn check_host<B>(
    request: &Request<B>,
    local: IpAddr,
    admission: &Admission,
) -> Result<(), Refusal> {
    let mut given = request.headers().get_all(HOST).iter();
    let header = match (given.next(), given.next()) {
        (Some(host), None) => host.to_str().ok().and_then(|host| host.parse().ok()),
        _ => None,
    };
    // A request target in absolute form names a host too.
    let target = request.uri().authority();
    let hosts = (header.as_ref().and_then(host_of), target.map(host_of));
    let (Some(host), None | Some(Some(_))) = hosts else {
        let message =
            "send exactly one Host header, with a name or an address and an optional port\n";
        return Err(Refusal(StatusCode::BAD_REQUEST, message));
    };
    let target = hosts.1.flatten();
    let named = |host| is_ours(host, local, &admission.hosts);
    if named(host) && target.is_none_or(named) {
        return Ok(());
    }
    Err(Refusal(
        StatusCode::FORBIDDEN,
        "the server does not answer to this host name: start it with --ws-allow-host to allow \
         another name\n",
    ))
}

/// The host of an authority that consists of a host and an optional port only.
fn host_of(authority: &Authority) -> Option<&str> {
    let host = authority.host();
    let rest = authority.as_str().strip_prefix(host)?;
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    (is_whole && !host.is_empty()).then_some(host)
}

fn is_ours(host: &str, local: IpAddr, names: &[String]) -> bool {
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match literal {
        Some(literal) => literal.parse().map(IpAddr::V6),
        None => host.parse().map(IpAddr::V4),
    };
    match address {
        // A client behind a forwarded port names the loopback address of its own machine.
        Ok(address) => address.is_loopback() || address.to_canonical() == local.to_canonical(),
        Err(_) => {
            host.eq_ignore_ascii_case("localhost")
                || names.iter().any(|name| name.eq_ignore_ascii_case(host))
        }
    }
}

/// Checks the opening handshake (RFC 6455, section 4.2.1); returns the value of
/// `Sec-WebSocket-Accept`.
fn check_upgrade<B>(request: &Request<B>) -> Result<HeaderValue, Refusal> {
    let headers = request.headers();
    let mut versions = headers.get_all(SEC_WEBSOCKET_VERSION).iter();
    let is_13 = versions.next().is_some_and(|version| version == "13") && versions.next().is_none();
    let wants = lists(headers, UPGRADE, "websocket") && lists(headers, CONNECTION, "upgrade");
    if !wants || !is_13 {
        let message = "connect with WebSocket version 13\n";
        return Err(Refusal(StatusCode::UPGRADE_REQUIRED, message));
    }
    let bad = |why| Err(Refusal(StatusCode::BAD_REQUEST, why));
    if request.version() != Version::HTTP_11 {
        return bad("WebSocket requires HTTP/1.1\n");
    }
    // Frames would follow a body directly, so its bytes could be read as frames.
    let length = headers.get(CONTENT_LENGTH);
    if headers.contains_key(TRANSFER_ENCODING) || length.is_some_and(|length| length != "0") {
        return bad("a WebSocket request must not have a body\n");
    }
    let mut keys = headers.get_all(SEC_WEBSOCKET_KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else {
        return bad("send exactly one Sec-WebSocket-Key\n");
    };
    if STANDARD.decode(key.as_bytes()).ok().is_none_or(|key| key.len() != 16) {
        return bad("the Sec-WebSocket-Key must be the base64 of 16 bytes\n");
    }
    let accept = HeaderValue::from_str(&accept_of(key.as_bytes()));
    accept.or_else(|_| bad("the Sec-WebSocket-Key is invalid\n"))
}

/// The value of `Sec-WebSocket-Accept` for a key.
pub(crate) fn accept_of(key: &[u8]) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(ACCEPT_SUFFIX).finalize())
}

/// Returns whether a comma-separated header contains `wanted`.
fn lists(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let lines = headers.get_all(name);
    let mut entries = lines.iter().filter_map(|line| line.to_str().ok()).flat_map(|l| l.split(','));
    entries.any(|entry| entry.trim().eq_ignore_ascii_case(wanted))
}

fn offered_protocols(headers: &HeaderMap) -> Vec<&str> {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL);
    let entries = lines.iter().filter_map(|line| line.to_str().ok()).flat_map(|l| l.split(','));
    entries.map(str::trim).collect()
}

/// The client's token, from `Authorization` or from the offered protocols. Refuses two tokens:
/// choosing one would be a guess.
fn token(headers: &HeaderMap, offered: &[&str]) -> Result<Option<String>, Refusal> {
    let refused =
        || Refusal::unauthorized("the credentials are malformed: send one bearer token\n");
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let mut protocols = offered.iter().filter_map(|offer| offer.strip_prefix(BEARER_PROTOCOL));
    match (given.next(), given.next(), protocols.next(), protocols.next()) {
        (None, None, None, None) => Ok(None),
        (Some(value), None, None, None) => {
            let (scheme, token) =
                value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(refused)?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(refused());
            }
            Ok(Some(token.trim().to_owned()))
        }
        (None, None, Some(encoded), None) => {
            let token =
                URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|t| String::from_utf8(t).ok());
            token.map(Some).ok_or_else(refused)
        }
        _ => Err(refused()),
    }
}

/// A refused request: the status, and the message for the client.
#[derive(Debug)]
struct Refusal(StatusCode, &'static str);

impl Refusal {
    fn unauthorized(message: &'static str) -> Self {
        Self(StatusCode::UNAUTHORIZED, message)
    }

    /// The response, with the headers that HTTP requires for its status.
    fn response(self) -> TextResponse {
        let Self(status, message) = self;
        let mut response = text(status, message);
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("GET"));
            }
            StatusCode::UPGRADE_REQUIRED => {
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            _ => {}
        }
        response
    }
}

pub(crate) fn text(status: StatusCode, body: &'static str) -> TextResponse {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = page(kind, Bytes::from_static(body.as_bytes()));
    *response.status_mut() = status;
    response
}

/// A page that nothing keeps.
pub(crate) fn page(content_type: HeaderValue, body: Bytes) -> TextResponse {
    let mut response = Response::new(Full::new(body));
    let headers = response.headers_mut();
    headers.insert("content-type", content_type);
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}
