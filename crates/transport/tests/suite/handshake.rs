//! Access control over real listeners: every row of `handshakes.txt`, and the content of responses
//! beyond their status.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::common;
use crate::common::{
    ACCEPT, KEY, METRICS_TOKEN, RawClient, SECRET, TOKEN, TestServer, capability,
    metrics_capability, signed, upgrade, without_auth,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonrpc::{Ingress, Limits};
use transport::{Admission, Auth, Bounds, Claims};

/// The rows; the file explains their syntax.
const TABLE: &str = include_str!("../handshakes.txt");
/// Guards against a parser that skips rows.
const LEAST_ROWS: usize = 450;
/// When the table's signed tokens are verified, in seconds since 1970.
const NOW: i64 = 1_700_000_000;

/// A request: its request line, and its headers as sent.
#[derive(Clone, Debug, Default)]
struct Request {
    line: String,
    headers: Vec<String>,
}

fn name_of(header: &str) -> Option<String> {
    header.split_once(':').map(|(name, _)| name.to_lowercase())
}

impl Request {
    fn from_parts(parts: &str) -> Self {
        let mut request = Self::default();
        request.change(&format!("> {parts}"));
        request
    }

    fn change(&mut self, changes: &str) {
        let mut replaced = Vec::new();
        for change in changes.split(" | ").filter(|change| !change.is_empty()) {
            if let Some(line) = change.strip_prefix("> ") {
                line.clone_into(&mut self.line);
            } else if let Some(name) = change.strip_prefix('-') {
                let before = self.headers.len();
                self.drop_header(&name.to_lowercase());
                assert!(self.headers.len() < before, "{changes}: there is no {name}");
            } else if change == "$UPGRADE" {
                let key = format!("Sec-WebSocket-Key: {KEY}");
                let rest =
                    ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"];
                self.headers.extend(rest.map(str::to_owned));
                self.headers.push(key);
            } else {
                let name = name_of(change).unwrap_or_default();
                if !replaced.contains(&name) {
                    self.drop_header(&name);
                    replaced.push(name);
                }
                self.headers.push(change.to_owned());
            }
        }
    }

    fn drop_header(&mut self, name: &str) {
        self.headers.retain(|header| name_of(header).is_none_or(|found| found != name));
    }

    fn bytes(&self, words: &BTreeMap<&'static str, String>) -> Vec<u8> {
        let mut text = format!("{}\r\n{}\r\n\r\n", self.line, self.headers.join("\r\n"));
        // In reverse order, so that a longer word is replaced before its prefix.
        for (word, value) in words.iter().rev() {
            text = text.replace(word, value);
        }
        let text = text.replace('␠', " ").replace('␉', "\t");
        let mut parts = text.split("\\x");
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend(&part.as_bytes()[2..]);
        }
        bytes
    }
}

struct Row {
    number: usize,
    listener: String,
    status: u16,
    request: Request,
}

fn rows() -> Vec<Row> {
    let (mut rows, mut listener, mut base) = (Vec::new(), String::new(), Request::default());
    for (number, line) in (1..).zip(TABLE.lines()) {
        if let Some((name, parts)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            (listener, base) = (name.to_owned(), Request::from_parts(parts));
        } else if !line.is_empty() && !line.starts_with('#') {
            let (status, changes) = line.split_once("  ").unwrap_or((line, ""));
            let mut request = base.clone();
            request.change(changes);
            rows.push(Row {
                number,
                listener: listener.clone(),
                status: status.parse().unwrap(),
                request,
            });
        }
    }
    rows
}

/// A listener of the table.
struct BoundListener {
    server: TestServer,
    at: ListenAddress,
}

enum ListenAddress {
    Tcp(SocketAddr),
    Unix(tempfile::TempDir),
}

impl BoundListener {
    async fn tcp(mut server: TestServer, bind: &str, reach: Option<IpAddr>) -> Option<Self> {
        let bound = server.tcp(bind).await.ok()?;
        let at = SocketAddr::new(reach.unwrap_or(bound.ip()), bound.port());
        Some(Self { server, at: ListenAddress::Tcp(at) })
    }

    async fn connect(&self) -> RawClient {
        match &self.at {
            ListenAddress::Tcp(address) => RawClient::tcp(*address).await,
            ListenAddress::Unix(folder) => {
                let path = folder.path().join("socket");
                RawClient::over(tokio::net::UnixStream::connect(path).await.unwrap())
            }
        }
    }
}

fn guarded() -> Admission {
    Admission { auth: capability(), ..without_auth() }
}

fn signature() -> Auth {
    let claims = Claims { issuer: Some("tests".into()), ..Claims::default() };
    Auth::Signed { secret: SECRET.into(), claims, now: Arc::new(|| NOW) }
}

async fn bind(listener: &str) -> Option<BoundListener> {
    let loopback = Some(IpAddr::from([127, 0, 0, 1]));
    let server = |admission: Admission| {
        let is_open = matches!(admission.auth, Auth::None);
        let own = if is_open { Auth::None } else { metrics_capability() };
        TestServer::new(admission).with_metrics(own)
    };
    match listener {
        "open" => BoundListener::tcp(server(without_auth()), "127.0.0.1:0", None).await,
        "open6" => BoundListener::tcp(server(without_auth()), "[::1]:0", None).await,
        "token" => {
            let origins = vec!["https://editor.example".into(), "http://127.0.0.1:8000".into()];
            let hosts = vec!["agents.example".into()];
            let admission = Admission { auth: capability(), origins, hosts };
            BoundListener::tcp(server(admission), "127.0.0.1:0", None).await
        }
        "signed" => {
            let admission = Admission { auth: signature(), ..without_auth() };
            BoundListener::tcp(server(admission), "127.0.0.1:0", None).await
        }
        "guarded" => {
            let server = TestServer::new(without_auth()).with_metrics(metrics_capability());
            BoundListener::tcp(server, "127.0.0.1:0", None).await
        }
        "wild" => BoundListener::tcp(server(guarded()), "0.0.0.0:0", loopback).await,
        "wild6" => BoundListener::tcp(server(guarded()), "[::]:0", loopback).await,
        "far" => {
            let ours = outer_address()?;
            BoundListener::tcp(server(guarded()), "0.0.0.0:0", Some(ours)).await
        }
        "unix" => {
            let folder = tempfile::tempdir().unwrap();
            let mut server = server(guarded());
            let listener = transport::UnixSocket::bind(&folder.path().join("socket")).unwrap();
            server.listen(transport::Listener::Unix(listener));
            Some(BoundListener { server, at: ListenAddress::Unix(folder) })
        }
        "full" => {
            let bounds = Bounds { connections: 0, ..Bounds::default() };
            let (limits, ingress) = (Limits::default(), Ingress::default());
            let server = TestServer::bounded(guarded(), limits, ingress, bounds);
            BoundListener::tcp(server, "127.0.0.1:0", None).await
        }
        other => panic!("there is no listener {other}"),
    }
}

/// Returns a non-loopback address of this machine; sends no packet.
fn outer_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

fn words(bound: &BoundListener) -> BTreeMap<&'static str, String> {
    let payload = format!(r#"{{"iss":"tests","exp":{}}}"#, NOW + 60);
    let header = r#"{"alg":"HS256","typ":"JWT"}"#;
    let good = signed(header, &payload, SECRET);
    let (host, port) = match &bound.at {
        ListenAddress::Tcp(address) => (address.to_string(), address.port().to_string()),
        ListenAddress::Unix(_) => ("localhost".to_owned(), "80".to_owned()),
    };
    BTreeMap::from([
        ("$HOST", host),
        ("$PORT", port),
        ("$TOKEN", TOKEN.to_owned()),
        ("$METRICS", METRICS_TOKEN.to_owned()),
        ("$BASE64", URL_SAFE_NO_PAD.encode(TOKEN)),
        ("$SIGNED64", URL_SAFE_NO_PAD.encode(&good)),
        ("$EXPIRED", signed(header, r#"{"iss":"tests","exp":1}"#, SECRET)),
        ("$FOREIGN", signed(header, &payload, b"fedcba9876543210fedcba9876543210")),
        ("$UNSIGNED", signed(r#"{"alg":"none"}"#, &payload, SECRET)),
        ("$SIGNED", good),
    ])
}

#[tokio::test]
async fn every_row_of_the_handshake_table_holds() {
    let rows = rows();
    assert!(rows.len() >= LEAST_ROWS, "{} rows", rows.len());
    let mut listeners: BTreeMap<&str, (Option<BoundListener>, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for Row { number, listener, status, request } in &rows {
        if !listeners.contains_key(listener.as_str()) {
            listeners.insert(listener, (bind(listener).await, 0));
        }
        let (bound, admitted) = listeners.get_mut(listener.as_str()).unwrap();
        let Some(bound) = bound else { continue };
        let mut client = bound.connect().await;
        let bytes = request.bytes(&words(bound));
        // A request refused at its first byte may not be read completely.
        let _ = client.try_send(&bytes).await;
        let head = client.head().await;
        let found = head.as_ref().map_or(0, |head| head.status);
        if found == 101 {
            *admitted += 1;
            let accept = head.as_ref().and_then(|head| head.header("sec-websocket-accept"));
            assert_eq!(accept, Some(ACCEPT), "line {number}");
        }
        if found != *status {
            wrong.push(format!("line {number} [{listener}]: {found}, not {status}: {request:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    for (listener, (bound, admitted)) in &listeners {
        match bound {
            Some(bound) => {
                bound.server.until_serving(0).await;
                assert_eq!(bound.server.served(), *admitted, "{listener}");
            }
            None => eprintln!("skipped: there is no address for the listener {listener}"),
        }
    }
}

#[tokio::test]
async fn refusals_name_the_remedy() {
    let mut server = TestServer::new(Admission { auth: capability(), ..without_auth() });
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let request = async |lines: &str| {
        let request = lines.replace('|', "\r\n").replace("$HOST", &address.to_string());
        RawClient::tcp(address).await.request(format!("{request}\r\n\r\n").as_bytes()).await
    };
    let head = request("POST / HTTP/1.1|Host: $HOST").await;
    assert_eq!((head.status, head.header("allow")), (405, Some("GET")));
    let head = request("GET / HTTP/1.1|Host: $HOST").await;
    assert_eq!((head.status, head.header("sec-websocket-version")), (426, Some("13")));
    assert_eq!(head.header("upgrade"), Some("websocket"));
    let upgrade = String::from_utf8(upgrade(address, "wrong")).unwrap();
    let head = request(upgrade.trim_end()).await;
    assert_eq!((head.status, head.header("www-authenticate")), (401, Some("Bearer")));
    for head in [head, request("GET /healthz HTTP/1.1|Host: $HOST").await] {
        assert_eq!(head.header("cache-control"), Some("no-store"));
        assert_eq!(head.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(head.header("access-control-allow-origin"), None);
        assert_eq!(head.header("connection"), Some("close"));
    }
}

#[tokio::test]
async fn the_page_of_metrics_shows_the_load_and_counts_refusals() {
    let mut server = TestServer::new(without_auth()).with_metrics(Auth::None);
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let request = async |lines: &str| {
        let request = format!("{lines} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let mut client = RawClient::tcp(address).await;
        let head = client.request(request.as_bytes()).await;
        (head, client.rest().await)
    };
    assert_eq!(request("GET /nothing").await.0.status, 404);
    assert_eq!(request("GET /").await.0.status, 426);
    assert_eq!(request("POST /metrics").await.0.status, 405);
    assert_eq!(request("GET /").await.0.status, 426);
    let (head, body) = request("GET /metrics").await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/x-metrics")));
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert!(body.contains("uninitialized: 0, incoming: (0, 0)"), "{body}");
    assert!(body.contains("refused: [(404, 1), (405, 1), (426, 2)]"), "{body}");
    let (head, body) = request("HEAD /metrics").await;
    assert_eq!((head.status, body.as_str()), (200, ""));
}

// Clients compare the value of `connection`, and some refuse headers that the handshake does not know.
#[tokio::test]
async fn an_upgrade_has_the_headers_of_the_handshake_and_no_others() {
    let mut server = TestServer::new(without_auth());
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let head = RawClient::tcp(address).await.request(&upgrade(address, TOKEN)).await;
    let mut names: Vec<String> = head
        .text
        .lines()
        .filter_map(|line| Some(line.split_once(": ")?.0.to_ascii_lowercase()))
        .collect();
    names.sort();
    assert_eq!((head.status, head.header("connection")), (101, Some("Upgrade")));
    assert_eq!(names, ["connection", "sec-websocket-accept", "upgrade"]);
}

#[tokio::test]
async fn one_subprotocol_is_selected_and_never_the_token() {
    let mut server = TestServer::new(Admission { auth: capability(), ..without_auth() });
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let secret = format!("agentd.bearer.{}", URL_SAFE_NO_PAD.encode(TOKEN));
    for (offered, chosen) in [
        (format!("agentd, {secret}"), Some("agentd")),
        (format!("chat, {secret}, agentd"), Some("agentd")),
        (secret.clone(), None),
    ] {
        let request = String::from_utf8(upgrade(address, TOKEN)).unwrap();
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let request = request.replace(&bearer, &format!("Sec-WebSocket-Protocol: {offered}"));
        let head = RawClient::tcp(address).await.request(request.as_bytes()).await;
        assert_eq!((head.status, head.header("sec-websocket-protocol")), (101, chosen));
        assert_eq!(head.header("sec-websocket-extensions"), None);
    }
}

#[tokio::test]
async fn an_oversized_head_is_refused() {
    let mut server = TestServer::new(without_auth());
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    for (what, headers) in [
        ("one long header", format!("X: {}\r\n", "x".repeat(64 << 10))),
        ("many headers", "X: y\r\n".repeat(1000)),
        ("a long target", String::new()),
    ] {
        let path = if headers.is_empty() { "x".repeat(64 << 10) } else { String::new() };
        let mut client = RawClient::tcp(address).await;
        let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        // The server may close before the request is complete.
        let _ = client.try_send(request.as_bytes()).await;
        let status = client.head().await.map(|head| head.status);
        assert!(matches!(status, None | Some(431 | 414 | 400)), "{what}: {status:?}");
    }
    assert_eq!(server.served(), 0);
}

#[tokio::test]
async fn bytes_after_the_handshake_are_not_lost() {
    let mut server = TestServer::new(Admission { auth: capability(), ..without_auth() });
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let mut client = RawClient::tcp(address).await;
    let mut all = upgrade(address, TOKEN);
    all.extend(common::frame(common::TEXT, br#"{"id":7,"method":"initialize","params":{}}"#));
    assert_eq!(client.request(&all).await.status, 101);
    let answer = client.frame().await.unwrap();
    assert!(String::from_utf8(answer.payload).unwrap().contains(r#""id":7"#));
}

#[tokio::test]
async fn a_second_request_on_a_connection_is_not_read() {
    let mut server = TestServer::new(Admission { auth: capability(), ..without_auth() });
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let mut client = RawClient::tcp(address).await;
    let mut both = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
    both.extend(upgrade(address, TOKEN));
    assert_eq!(client.request(&both).await.status, 200);
    assert!(client.head().await.is_none());
    assert_eq!(server.served(), 0);
}
