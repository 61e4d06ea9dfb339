//! The proxies as a client sees them, with an internet of the test's own behind them.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::*;

/// Names and their addresses; what is connected to is always the test's own server.
const NAMES: [(&str, &str); 7] = [
    ("good.test", "93.184.216.34"),
    ("www.good.test", "93.184.216.34"),
    ("other.test", "93.184.216.35"),
    ("rebound.test", "127.0.0.1"),
    ("mixed.test", "93.184.216.34,169.254.169.254"),
    ("denied-address.test", "9.9.9.9"),
    ("proxy.test", "10.0.0.9"),
];

struct ScriptedAsker {
    answer: bool,
    questions: Mutex<Vec<Target>>,
    /// Answers wait for it.
    go: Semaphore,
}

impl Asker for Arc<ScriptedAsker> {
    fn ask(&self, target: Target) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let asker = self.clone();
        asker.questions.lock().unwrap().push(target);
        Box::pin(async move {
            asker.go.acquire().await.unwrap().forget();
            asker.answer
        })
    }
}

struct TestProxy {
    http: SocketAddr,
    socks: SocketAddr,
    /// What the server behind the proxy was sent, a connection an entry.
    seen: Arc<Mutex<Vec<String>>>,
    _serving: tokio::task::JoinHandle<()>,
}

/// Answers every connection with `answer` and closes it when `close`.
async fn server(answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let all = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let all = all.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                let length = stream.read(&mut bytes).await.unwrap_or(0);
                all.lock().unwrap().push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (address, seen)
}

fn outside(server: SocketAddr) -> Outside {
    Outside {
        resolve: Arc::new(|host, port| {
            Box::pin(async move {
                if let Ok(address) = host.parse() {
                    return Ok(vec![SocketAddr::new(address, port)]);
                }
                let found = NAMES.iter().find(|(name, _)| *name == host);
                let (_, all) = found.ok_or_else(|| std::io::Error::other("no such name"))?;
                Ok(all.split(',').map(|one| SocketAddr::new(one.parse().unwrap(), port)).collect())
            })
        }),
        connect: Arc::new(move |_| Box::pin(TcpStream::connect(server))),
    }
}

async fn proxy(
    policy: EgressPolicy,
    asker: Option<Arc<ScriptedAsker>>,
    answer: &'static str,
) -> TestProxy {
    let (behind, seen) = server(answer).await;
    let asker = asker.map(|asker| Arc::new(asker) as Arc<dyn Asker>);
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socks = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at_http, at_socks) = (http.local_addr().unwrap(), socks.local_addr().unwrap());
    let egress = Arc::new(Egress::new(policy, asker, outside(behind)));
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let listeners = Listeners { http, socks: Some(socks), udp: Some(udp) };
    let serving = tokio::spawn(serve(egress, listeners));
    TestProxy { http: at_http, socks: at_socks, seen, _serving: serving }
}

fn policy(allowed: &[&str], denied: &[&str]) -> EgressPolicy {
    let all = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
    EgressPolicy { allowed: all(allowed), denied: all(denied), ..EgressPolicy::default() }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

async fn exchange(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(host: &str) -> String {
    format!(
        "GET http://{host}/x?y HTTP/1.1\r\nHost: elsewhere.test\r\nProxy-Authorization: z\r\n\r\n"
    )
}

#[tokio::test]
async fn plain_requests_reach_the_named_host() {
    let proxy = proxy(policy(&["good.test"], &[]), None, OK).await;
    assert!(exchange(proxy.http, get("GOOD.test.:80").as_bytes()).await.ends_with("hi"));
    let seen = proxy.seen.lock().unwrap().clone();
    assert_eq!(seen, ["GET /x?y HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n"]);
}

#[tokio::test]
async fn denied_requests_are_refused_with_the_reason() {
    let open = || {
        policy(
            &[
                "**.good.test",
                "rebound.test",
                "mixed.test",
                "denied-address.test",
                "10.0.0.1",
                "localhost",
            ],
            &["www.good.test", "9.9.9.9"],
        )
    };
    let proxy = proxy(open(), None, OK).await;
    for (request, status, why) in [
        (get("other.test"), "403", "not among the allowed domains"),
        (get("www.good.test"), "403", "is denied"),
        (get("rebound.test"), "403", "this machine or its network"),
        (get("mixed.test"), "403", "this machine or its network"),
        (get("denied-address.test"), "403", "an address that is denied"),
        (get("10.0.0.1"), "403", "this machine or its network"),
        (get("127.0.0.1:8080"), "403", "this machine or its network"),
        (get("[::1]:8080"), "403", "this machine or its network"),
        (get("localhost"), "502", "no such name"),
        (get("127.1"), "400", "this is a proxy"),
        (get("0x7f000001"), "400", "this is a proxy"),
        (get("2130706433"), "400", "this is a proxy"),
        (get("good.test@other.test"), "400", "this is a proxy"),
        (get("good.test:80:80"), "400", "this is a proxy"),
        (get("good.test:0"), "400", "this is a proxy"),
        (get("good.test:+80"), "400", "this is a proxy"),
        ("GET /x HTTP/1.1\r\nHost: good.test\r\n\r\n".into(), "400", "this is a proxy"),
        ("GET https://good.test/ HTTP/1.1\r\n\r\n".into(), "400", "this is a proxy"),
        ("CONNECT good.test HTTP/1.1\r\n\r\n".into(), "400", "a port"),
        ("CONNECT other.test:443 HTTP/1.1\r\n\r\n".into(), "403", "allowed domains"),
        ("CONNECT rebound.test:22 HTTP/1.1\r\n\r\n".into(), "403", "this machine"),
        ("\u{16}\u{3}\u{1} no http\r\n\r\n".into(), "400", "not an HTTP request"),
        (format!("GET http://good.test/ HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(70_000)), "431", ""),
    ] {
        let answer = exchange(proxy.http, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60} {answer}");
        assert!(answer.contains(why), "{request:.60} {answer}");
    }
    assert_eq!(proxy.seen.lock().unwrap().len(), 0, "nothing got out");
}

#[tokio::test]
async fn tunnels_carry_bytes_both_ways() {
    let proxy = proxy(policy(&["good.test"], &[]), None, "secret").await;
    let answer = exchange(proxy.http, b"CONNECT good.test:443 HTTP/1.1\r\n\r\nhello").await;
    assert!(answer.ends_with("\r\n\r\nsecret"), "{answer}");
    assert_eq!(*proxy.seen.lock().unwrap(), ["hello"]);
    let to_name = |name: &str| {
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend(name.bytes());
        bytes.extend([1, 187]);
        bytes.extend(b"hello");
        bytes
    };
    let mut stream = TcpStream::connect(proxy.socks).await.unwrap();
    stream.write_all(&to_name("good.test")).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00secret");
    for (request, reply) in [
        (to_name("other.test"), 2),
        (to_name("rebound.test"), 2),
        (to_name("127.1"), 8),
        (vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80], 2),
        (vec![5, 1, 0, 5, 2, 0, 1, 93, 184, 216, 34, 0, 80], 7),
        (vec![5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0], 7),
    ] {
        let mut stream = TcpStream::connect(proxy.socks).await.unwrap();
        stream.write_all(&request).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer[3], reply, "{request:?}");
    }
    assert_eq!(proxy.seen.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_limited_network_allows_reading_only() {
    let limited = EgressPolicy { mode: Mode::Limited, ..policy(&["good.test"], &[]) };
    let proxy = proxy(limited, None, OK).await;
    let smuggled =
        format!("{}{}", get("good.test"), "POST /steal HTTP/1.1\r\nHost: good.test\r\n\r\n");
    assert!(exchange(proxy.http, smuggled.as_bytes()).await.contains("200 OK"));
    for request in [
        "POST http://good.test/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "GET http://good.test/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "GET http://good.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "CONNECT good.test:443 HTTP/1.1\r\n\r\n",
    ] {
        let answer = exchange(proxy.http, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{request} {answer}");
    }
    let answer = exchange(proxy.socks, b"\x05\x01\x00\x05\x01\x00\x03\x09good.test\x00\x50").await;
    assert_eq!(answer.as_bytes()[3], 2);
    let seen = proxy.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].contains("steal"), "{seen:?}");
}

#[tokio::test]
async fn one_approval_serves_all_waiting_requests() {
    for answer in [true, false] {
        let asker =
            Arc::new(ScriptedAsker { answer, questions: Mutex::default(), go: Semaphore::new(0) });
        let proxy = proxy(policy(&[], &["www.good.test"]), Some(asker.clone()), OK).await;
        let requests: Vec<_> = (0..5)
            .map(|_| {
                tokio::spawn(async move { exchange(proxy.http, get("good.test").as_bytes()).await })
            })
            .collect();
        let other_port =
            tokio::spawn(async move { exchange(proxy.http, get("good.test:81").as_bytes()).await });
        while asker.questions.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        asker.go.add_permits(2);
        for request in requests {
            let got = request.await.unwrap();
            assert_eq!(got.contains("200 OK"), answer, "{got}");
        }
        assert_eq!(other_port.await.unwrap().contains("200 OK"), answer);
        let mut ports: Vec<u16> =
            asker.questions.lock().unwrap().iter().map(|target| target.port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports, [80, 81]);
        // Denied and private hosts cannot be allowed by an approval.
        assert!(exchange(proxy.http, get("www.good.test").as_bytes()).await.contains("is denied"));
        assert!(exchange(proxy.http, get("192.168.0.1").as_bytes()).await.contains("this machine"));
    }
}

#[tokio::test]
async fn requests_are_forwarded_through_an_upstream_proxy() {
    let upstream = Upstream::parse("http://u:p@proxy.test:8080/", ".local", |bytes| {
        String::from_utf8_lossy(bytes).into_owned()
    });
    let policy =
        EgressPolicy { upstream, ..policy(&["good.test", "unknown.test", "rebound.test"], &[]) };
    assert!(policy.upstream.is_some());
    let proxy = proxy(policy, None, "HTTP/1.1 200 OK\r\n\r\n").await;
    exchange(proxy.http, get("good.test:81").as_bytes()).await;
    exchange(proxy.http, b"CONNECT unknown.test:443 HTTP/1.1\r\n\r\n").await;
    let refused = exchange(proxy.http, b"CONNECT rebound.test:443 HTTP/1.1\r\n\r\n").await;
    assert!(refused.contains("this machine"), "{refused}");
    let seen = proxy.seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            "GET http://good.test:81/x?y HTTP/1.1\r\nHost: good.test:81\r\nProxy-Authorization: Basic u:p\r\nConnection: close\r\n\r\n",
            "CONNECT unknown.test:443 HTTP/1.1\r\nHost: unknown.test:443\r\nProxy-Authorization: Basic u:p\r\n\r\n",
        ]
    );
    for not_http in ["socks5://x:1", "https://x:1", "http://x"] {
        assert_eq!(Upstream::parse(not_http, "", |_| String::new()), None);
    }
}

#[tokio::test]
async fn unix_sockets_are_reached_by_their_listed_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("service");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = [0; 1024];
            let _ = stream.read(&mut bytes).await;
            let _ = stream.write_all(OK.as_bytes()).await;
        }
    });
    let request =
        format!("GET http://localhost/x HTTP/1.1\r\nx-unix-socket: {}\r\n\r\n", path.display());
    for (sockets, expect) in [
        (UnixSockets::Listed(vec![path.clone()]), "200 OK"),
        (UnixSockets::All, "200 OK"),
        (UnixSockets::Listed(vec![dir.path().join("other")]), "403 Forbidden"),
    ] {
        let proxy =
            proxy(EgressPolicy { unix_sockets: sockets, ..policy(&["*"], &[]) }, None, OK).await;
        let answer = exchange(proxy.http, request.as_bytes()).await;
        assert!(answer.contains(expect), "{answer}");
    }
}
