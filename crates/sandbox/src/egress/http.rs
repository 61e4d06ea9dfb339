//! The HTTP proxy of the managed network: `CONNECT` tunnels, and plain requests, one per
//! connection.

#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional, sink,
};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::{Refusal, authority};
use super::gate::{Protocol, Target};
use super::managed::{Egress, TIMEOUT};
#[cfg(unix)]
use super::policy::UnixSockets;
use super::policy::{Mode, host_name};

/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;
/// Time for a refused client to close its connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Header that names the Unix socket for a request.
const UNIX_SOCKET: &str = "x-unix-socket";
/// Headers that a proxy does not forward.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
    UNIX_SOCKET,
];

/// The head of a request.
struct Request {
    method: String,
    uri: String,
    headers: Vec<(String, Vec<u8>)>,
    /// The bytes after the head.
    rest: Vec<u8>,
}

/// An error response of the proxy.
struct ErrorResponse {
    status: &'static str,
    why: String,
}

impl ErrorResponse {
    fn bad(why: &str) -> Self {
        Self { status: "400 Bad Request", why: why.to_owned() }
    }

    fn forbidden(why: &str) -> Self {
        Self { status: "403 Forbidden", why: why.to_owned() }
    }
}

impl From<Refusal> for ErrorResponse {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Forbidden(why) => Self { status: "403 Forbidden", why },
            Refusal::Unreachable(why) => Self { status: "502 Bad Gateway", why },
        }
    }
}

pub(super) async fn serve(egress: &Egress, mut stream: TcpStream) {
    let served = match timeout(TIMEOUT, read(&mut stream)).await {
        Ok(Ok(Some(request))) => handle(egress, &mut stream, request).await,
        Ok(Ok(None)) | Err(_) => return,
        Ok(Err(answer)) => Err(answer),
    };
    if let Err(ErrorResponse { status, why }) = served {
        let body = format!("agentd: {why}\n");
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        // The client may have closed the connection.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        // Closing with unread input would discard the response.
        let mut nowhere = sink();
        let _ = timeout(CLOSE_TIMEOUT, copy(&mut stream, &mut nowhere)).await;
    }
}

async fn handle(
    egress: &Egress,
    stream: &mut TcpStream,
    request: Request,
) -> Result<(), ErrorResponse> {
    if request.method == "CONNECT" {
        return connect(egress, stream, request).await;
    }
    if egress.policy.mode == Mode::Limited {
        check_reads(&request)?;
    }
    if let Some(path) = request.header(UNIX_SOCKET) {
        return to_unix_socket(egress, stream, &request, path).await;
    }
    let (target, path) = plain_target(&request.uri)?;
    egress.admit(&target).await?;
    let mut dialed = egress.dial(&target).await?;
    let place = match target.port {
        80 => authority(&target).trim_end_matches(":80").to_owned(),
        _ => authority(&target),
    };
    let upstream = egress.policy.upstream.as_ref().filter(|_| dialed.to_proxy);
    let head = match upstream {
        None => request.head(&path, &place, None),
        Some(upstream) => {
            request.head(&format!("http://{place}{path}"), &place, upstream.authorization())
        }
    };
    forward(egress, stream, &mut dialed.stream, head, &request.rest).await;
    Ok(())
}

async fn connect(
    egress: &Egress,
    stream: &mut TcpStream,
    request: Request,
) -> Result<(), ErrorResponse> {
    let (host, port) = split_authority(&request.uri).ok_or_else(|| {
        ErrorResponse::bad("`CONNECT` needs a host and a port, as in `example.com:443`")
    })?;
    let port = port.ok_or_else(|| ErrorResponse::bad("`CONNECT` needs a port"))?;
    let target = Target { host, port, protocol: Protocol::Https };
    egress.admit(&target).await?;
    let mut dialed = egress.dial(&target).await?;
    let sent = async {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        dialed.stream.write_all(&request.rest).await
    };
    if sent.await.is_ok() {
        // Either side can close it at any time.
        let _ = copy_bidirectional(stream, &mut dialed.stream).await;
    }
    Ok(())
}

/// Forwards the request and its response. In limited mode, does not forward what the client sends
/// after the head, which could be another request.
async fn forward<S: AsyncRead + AsyncWrite + Unpin>(
    egress: &Egress,
    client: &mut TcpStream,
    server: &mut S,
    head: Vec<u8>,
    rest: &[u8],
) {
    let limited = egress.policy.mode == Mode::Limited;
    let sent = async {
        server.write_all(&head).await?;
        if !limited {
            server.write_all(rest).await?;
        }
        server.flush().await
    };
    if sent.await.is_err() {
        return;
    }
    let _ = match limited {
        true => copy(server, client).await.map(|_| ()),
        false => copy_bidirectional(client, server).await.map(|_| ()),
    };
    let _ = client.shutdown().await;
}

fn check_reads(request: &Request) -> Result<(), ErrorResponse> {
    let has_body = request.header("transfer-encoding").is_some()
        || request.header("content-length").is_some_and(|length| length != b"0");
    match request.method.as_str() {
        "GET" | "HEAD" | "OPTIONS" if !has_body => Ok(()),
        method => Err(ErrorResponse::forbidden(&format!(
            "a `{method}` request is not allowed: the network is limited to requests that only read"
        ))),
    }
}

#[cfg(unix)]
async fn to_unix_socket(
    egress: &Egress,
    stream: &mut TcpStream,
    request: &Request,
    path: &[u8],
) -> Result<(), ErrorResponse> {
    let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path);
    let path = unix_socket(&egress.policy.unix_sockets, Path::new(path))?;
    let connected = tokio::net::UnixStream::connect(&path).await;
    let mut server = connected.map_err(|error| ErrorResponse {
        status: "502 Bad Gateway",
        why: format!("{} cannot be reached: {error}", path.display()),
    })?;
    let path = path_of(&request.uri);
    let head = request.head(&path, "localhost", None);
    forward(egress, stream, &mut server, head, &request.rest).await;
    Ok(())
}

#[cfg(not(unix))]
async fn to_unix_socket(
    _egress: &Egress,
    _stream: &mut TcpStream,
    _request: &Request,
    _path: &[u8],
) -> Result<(), ErrorResponse> {
    Err(ErrorResponse::forbidden("this system does not support Unix sockets"))
}

/// The real path of the socket, if it is allowed.
#[cfg(unix)]
fn unix_socket(allowed: &UnixSockets, path: &Path) -> Result<PathBuf, ErrorResponse> {
    let forbidden = || {
        ErrorResponse::forbidden(&format!(
            "the Unix socket {} is not allowed; add it to `allow_unix_sockets`",
            path.display()
        ))
    };
    let real = path.canonicalize().ok().filter(|_| path.is_absolute()).ok_or_else(forbidden)?;
    match allowed {
        UnixSockets::All => Ok(real),
        UnixSockets::Listed(paths) => {
            let listed = |allowed: &PathBuf| allowed.canonicalize().is_ok_and(|it| it == real);
            if paths.iter().any(listed) { Ok(real) } else { Err(forbidden()) }
        }
    }
}

/// The target and the path of a request in absolute form.
fn plain_target(uri: &str) -> Result<(Target, String), ErrorResponse> {
    let bad =
        || ErrorResponse::bad("this is a proxy: request `http://host/path`, or use `CONNECT`");
    let (scheme, rest) = uri.split_once("://").ok_or_else(bad)?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(bad());
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let (host, port) = split_authority(place).ok_or_else(bad)?;
    let target = Target { host, port: port.unwrap_or(80), protocol: Protocol::Http };
    Ok((target, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

fn path_of(uri: &str) -> String {
    match plain_target(uri) {
        Ok((_, path)) => path,
        Err(_) if uri.starts_with('/') => uri.to_owned(),
        Err(_) => "/".to_owned(),
    }
}

/// Splits `host[:port]`; refuses user information.
fn split_authority(text: &str) -> Option<(String, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        let host = host_name(&format!("[{address}]")).filter(|_| address.contains(':'))?;
        return match after.strip_prefix(':') {
            None if after.is_empty() => Some((host, None)),
            None => None,
            Some(port) => Some((host, Some(port_number(port)?))),
        };
    }
    match text.split_once(':') {
        None => Some((host_name(text)?, None)),
        Some((host, port)) => Some((host_name(host)?, Some(port_number(port)?))),
    }
}

fn port_number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// Reads a request; `None` if the client closes the connection without one.
async fn read(stream: &mut TcpStream) -> Result<Option<Request>, ErrorResponse> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
        match parse(bytes.get(..MAX_HEAD).unwrap_or(&bytes))? {
            Some(mut request) => {
                request.rest.extend(bytes.get(MAX_HEAD..).unwrap_or_default());
                return Ok(Some(request));
            }
            None if bytes.len() >= MAX_HEAD => {
                return Err(ErrorResponse {
                    status: "431 Request Header Fields Too Large",
                    why: format!("the head of a request can have at most {MAX_HEAD} bytes"),
                });
            }
            None => {}
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<Request>, ErrorResponse> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let bad = |error: httparse::Error| ErrorResponse::bad(&format!("not an HTTP request: {error}"));
    let length = match request.parse(bytes).map_err(bad)? {
        httparse::Status::Partial => return Ok(None),
        httparse::Status::Complete(length) => length,
    };
    let header =
        |header: &httparse::Header<'_>| (header.name.to_ascii_lowercase(), header.value.to_vec());
    Ok(Some(Request {
        method: request.method.unwrap_or_default().to_owned(),
        uri: request.path.unwrap_or_default().to_owned(),
        headers: request.headers.iter().map(header).collect(),
        rest: bytes.get(length..).unwrap_or_default().to_vec(),
    }))
}

impl Request {
    fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_slice())
    }

    /// The forwarded head, with the admitted host instead of the client's `Host`.
    fn head(&self, uri: &str, host: &str, authorization: Option<&str>) -> Vec<u8> {
        let mut head = format!("{} {uri} HTTP/1.1\r\nHost: {host}\r\n", self.method).into_bytes();
        if let Some(authorization) = authorization {
            head.extend(format!("Proxy-Authorization: {authorization}\r\n").into_bytes());
        }
        let named = self.header("connection").unwrap_or_default().to_ascii_lowercase();
        let named = String::from_utf8_lossy(&named).into_owned();
        let dropped: Vec<&str> = named.split(',').map(str::trim).collect();
        for (name, value) in &self.headers {
            // Headers that frame the body are kept, even if `Connection` lists them.
            let frames = matches!(name.as_str(), "content-length" | "transfer-encoding");
            if HOP_BY_HOP.contains(&name.as_str()) || (dropped.contains(&name.as_str()) && !frames)
            {
                continue;
            }
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"Connection: close\r\n\r\n");
        head
    }
}
