//! Misbehaving connections after their handshake: what ends them, with which code and reason, and
//! that other connections are not affected.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::{
    BINARY, CLOSE, PING, PONG, RawClient, TEXT, TOKEN, TestServer, frame, head_of, upgrade,
    without_auth,
};
use jsonrpc::{Ingress, Limits};
use serde_json::json;
use transport::Bounds;

const KIB: usize = 1 << 10;
/// Longest message in these tests, in bytes.
const LIMIT: usize = 64 * KIB;
/// Timeouts that a test waits for are short.
const SHORT: Duration = Duration::from_millis(100);
/// A server that drains a closed connection for longer than this hangs.
const LINGER: Duration = Duration::from_secs(8);

fn limits() -> Limits {
    Limits { line_bytes: LIMIT, ..Limits::default() }
}

async fn server(limits: Limits, bounds: Bounds) -> (TestServer, SocketAddr) {
    let mut server = TestServer::bounded(without_auth(), limits, Ingress::default(), bounds);
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    (server, address)
}

#[tokio::test]
async fn invalid_frames_close_the_connection_with_a_code_and_a_reason() {
    let (server, address) = server(limits(), Bounds::default()).await;
    let mut unmasked = vec![TEXT, 2];
    unmasked.extend(b"{}");
    let mut masked_wrong = frame(TEXT, b"{}");
    masked_wrong[0] |= 0x40;
    let long = vec![b' '; LIMIT + 1];
    let in_parts = [frame(0x01, &long[..LIMIT]), frame(0x80, b"x")].concat();
    let split_letter = [frame(0x01, b"\"\xe2\x82"), frame(0x80, b"\"")].concat();
    let half_letter = [frame(0x01, b"\""), frame(0x80, b"\xe2\x82")].concat();
    let mut early = head_of(TEXT, 1000);
    early.extend(frame(TEXT, b"\xff\xff\xff\xff").split_off(6));
    let cases: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("binary", frame(BINARY, b"{}"), 1003, "binary messages are not understood; send text"),
        ("empty binary", frame(BINARY, b""), 1003, "binary"),
        ("binary in parts", [frame(0x02, b"{"), frame(0x80, b"}")].concat(), 1003, "binary"),
        ("unmasked", unmasked, 1002, "protocol error: a frame of the client is not masked"),
        ("unmasked ping", vec![PING, 0], 1002, "not masked"),
        ("unmasked close", vec![CLOSE, 0], 1002, "not masked"),
        ("reserved bit 2", masked_wrong, 1002, "protocol error: a reserved bit is set"),
        ("compressed", frame(0xC1, b"{}"), 1002, "a reserved bit is set"),
        ("reserved bit 3", frame(0x91, b"{}"), 1002, "a reserved bit is set"),
        ("opcode 3", frame(0x83, b""), 1002, "protocol error: the opcode is not known"),
        ("opcode 7", frame(0x87, b""), 1002, "the opcode is not known"),
        ("opcode 11", frame(0x8B, b""), 1002, "the opcode is not known"),
        ("opcode 15", frame(0x8F, b""), 1002, "the opcode is not known"),
        ("fragmented ping", frame(0x09, b""), 1002, "a control frame is fragmented"),
        ("fragmented close", frame(0x08, b""), 1002, "a control frame is fragmented"),
        ("long ping", frame(PING, &[b'x'; 126]), 1002, "a control frame is longer than 125 bytes"),
        ("long close", frame(CLOSE, &[b'x'; 126]), 1002, "longer than 125 bytes"),
        ("huge ping", head_of(PING, 1 << 40), 1002, "longer than 125 bytes"),
        (
            "negative length",
            {
                let mut head = head_of(TEXT, 1 << 20);
                head[2] = 0x80;
                head
            },
            1002,
            "the length of a frame is negative",
        ),
        ("nothing to continue", frame(0x80, b"{}"), 1002, "there is no message to continue"),
        ("nothing to continue yet", frame(0x00, b"{}"), 1002, "there is no message to continue"),
        ("text in text", [frame(0x01, b"{"), frame(TEXT, b"}")].concat(), 1002, "within another"),
        ("binary in text", [frame(0x01, b"{"), frame(BINARY, b"}")].concat(), 1002, "within"),
        ("half a code", frame(CLOSE, b"\x03"), 1002, "a close frame has half a code"),
        ("code 0", frame(CLOSE, b"\0\0"), 1002, "the code of a close frame may not be sent"),
        ("code 999", frame(CLOSE, &999u16.to_be_bytes()), 1002, "may not be sent"),
        ("code 1005", frame(CLOSE, &1005u16.to_be_bytes()), 1002, "may not be sent"),
        ("code 1006", frame(CLOSE, &1006u16.to_be_bytes()), 1002, "may not be sent"),
        ("code 5000", frame(CLOSE, &5000u16.to_be_bytes()), 1002, "may not be sent"),
        ("words of bytes", frame(CLOSE, b"\x03\xe8\xff"), 1007, "a text message is not UTF-8"),
        ("bytes", frame(TEXT, b"\xff"), 1007, "a text message is not UTF-8"),
        ("overlong", frame(TEXT, b"\xc0\xaf"), 1007, "not UTF-8"),
        ("surrogate", frame(TEXT, b"\xed\xa0\x80"), 1007, "not UTF-8"),
        ("beyond Unicode", frame(TEXT, b"\xf4\x90\x80\x80"), 1007, "not UTF-8"),
        ("half a letter", frame(TEXT, b"\"\xe2\x82"), 1007, "not UTF-8"),
        ("a letter broken by parts", split_letter, 1007, "not UTF-8"),
        ("half a letter in parts", half_letter, 1007, "not UTF-8"),
        ("bytes in the first part", frame(0x01, b"\xff"), 1007, "not UTF-8"),
        ("bytes before the rest", early, 1007, "not UTF-8"),
        ("too long", head_of(TEXT, LIMIT + 1), 1009, "a message is longer than 65536 bytes"),
        ("far too long", head_of(TEXT, 1 << 62), 1009, "a message is longer than 65536 bytes"),
        ("too long in parts", in_parts, 1009, "a message is longer than 65536 bytes"),
        ("too long in bytes", head_of(BINARY, LIMIT + 1), 1009, "longer"),
        ("a good leave", frame(CLOSE, b"\x03\xe8bye"), 1000, ""),
        ("a leave without a code", frame(CLOSE, b""), 1000, ""),
        ("a leave for going away", frame(CLOSE, b"\x03\xe9"), 1001, ""),
        ("a code of its own", frame(CLOSE, &4321u16.to_be_bytes()), 4321, ""),
    ];
    for (what, bytes, code, words) in cases {
        let mut client = RawClient::initialized(address).await;
        client.send(&bytes).await;
        let (found, said) =
            client.closed().await.unwrap_or_else(|| panic!("{what}: no close frame"));
        assert_eq!(found, code, "{what}: {said}");
        assert!(said.contains(words), "{what}: {said}");
    }
    server.until_serving(0).await;
}

#[tokio::test]
async fn nothing_is_read_after_a_violation() {
    let (server, address) = server(limits(), Bounds::default()).await;
    let mut client = RawClient::open(address).await;
    let mut both = frame(BINARY, b"");
    both.extend(frame(TEXT, br#"{"id":1,"method":"initialize"}"#));
    client.send(&both).await;
    assert_eq!(client.closed().await.unwrap().0, 1003);
    server.until_serving(0).await;
}

#[tokio::test]
async fn messages_are_reassembled_for_any_split() {
    let (_house, address) = server(limits(), Bounds::default()).await;
    let mut client = RawClient::open(address).await;
    let text = json!({"id": 1, "method": "echo", "params": {"text": "€ ä 𝄞"}}).to_string();
    let letters = text.as_bytes();
    let mut all = Vec::new();
    for (at, letter) in letters.iter().enumerate() {
        let is_last = at + 1 == letters.len();
        let first = u8::from(at == 0) | if is_last { 0x80 } else { 0 };
        all.extend(frame(first, &[*letter]));
        all.extend(frame(0x00, b"").into_iter().take(if is_last { 0 } else { usize::MAX }));
        all.extend(frame(PING, &[at as u8]));
    }
    for byte in all {
        client.send(&[byte]).await;
    }
    let (mut answer, mut pongs) = (None, 0);
    while answer.is_none() || pongs == 0 {
        let frame = client.frame().await.unwrap();
        match frame.first {
            PONG => pongs += 1,
            TEXT => answer = Some(String::from_utf8(frame.payload).unwrap()),
            other => panic!("{other:x}"),
        }
    }
    assert!(answer.unwrap().contains("€ ä 𝄞"));
}

#[tokio::test]
async fn a_message_of_exactly_the_limit_is_accepted() {
    let (_house, address) = server(limits(), Bounds::default()).await;
    let mut client = RawClient::open(address).await;
    let padded = |length: usize| {
        let mut text = br#"{"id":1,"method":"echo"}"#.to_vec();
        text.resize(length, b' ');
        text
    };
    client.send(&frame(TEXT, &padded(LIMIT))).await;
    assert_eq!(client.frame().await.unwrap().first, TEXT);
    let whole = padded(LIMIT);
    client.send(&frame(0x01, &whole[..1])).await;
    client.send(&frame(0x80, &whole[1..])).await;
    assert_eq!(client.frame().await.unwrap().first, TEXT);
}

#[tokio::test]
async fn a_slow_handshake_times_out() {
    let bounds = Bounds { handshake_time: SHORT, ..Bounds::default() };
    let (server, address) = server(limits(), bounds).await;
    let begun = Instant::now();
    let mut client = RawClient::tcp(address).await;
    let request = upgrade(address, TOKEN);
    let mut sent = 0;
    while begun.elapsed() < LINGER && sent + 1 < request.len() {
        if client.try_send(&request[sent..=sent]).await.is_err() {
            break;
        }
        sent += 1;
        // tidy: sleep because this client sends slowly.
        tokio::time::sleep(SHORT / 20).await;
    }
    assert!(sent + 1 < request.len(), "it was ended before it was done");
    assert!(client.ended().await);
    assert!(begun.elapsed() >= SHORT);
    // A client that sends nothing.
    assert!(RawClient::tcp(address).await.ended().await);
    assert_eq!(server.served(), 0);
}

#[tokio::test]
async fn a_client_that_never_initializes_is_closed_with_a_reason() {
    let bounds = Bounds { initialize_time: Duration::from_secs(1), ..Bounds::default() };
    let (server, address) = server(limits(), bounds).await;
    let mut good = RawClient::initialized(address).await;
    let mut busy = RawClient::open(address).await;
    let mut silent = RawClient::open(address).await;
    let asking = tokio::spawn(async move {
        let asks = frame(TEXT, br#"{"id":1,"method":"echo"}"#);
        while busy.try_send(&asks).await.is_ok() {
            // tidy: sleep because this client sends slowly.
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    let (code, words) = silent.closed().await.unwrap();
    assert_eq!((code, &*words), (1008, "the connection was not initialized in time"));
    asking.await.unwrap();
    server.until_serving(1).await;
    good.call("echo", json!({})).await;
}

#[tokio::test]
async fn the_oldest_uninitialized_connection_is_closed_at_the_bound() {
    let bounds = Bounds { uninitialized: 2, ..Bounds::default() };
    let (server, address) = server(limits(), bounds).await;
    let mut good = RawClient::initialized(address).await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(RawClient::open(address).await);
        server.until_serving((1 + silent.len()).min(3)).await;
        good.call("echo", json!({})).await;
    }
    for client in &mut silent[..3] {
        assert_eq!(client.closed().await.unwrap().0, 1008);
    }
    for client in &mut silent[3..] {
        client.call("initialize", json!({})).await;
    }
}

#[tokio::test]
async fn the_oldest_handshake_is_closed_at_the_bound() {
    let bounds = Bounds { handshakes: 2, ..Bounds::default() };
    let (_house, address) = server(limits(), bounds).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let mut client = RawClient::tcp(address).await;
        client.send(b"GET / HTTP/1.1\r\n").await;
        waiting.push(client);
    }
    for client in &mut waiting[..3] {
        assert!(client.ended().await);
    }
    RawClient::initialized(address).await;
}

#[tokio::test]
async fn a_silent_peer_is_pinged_and_then_disconnected() {
    let limits = Limits { keepalive: SHORT, ..limits() };
    let (server, address) = server(limits, Bounds::default()).await;
    let begun = Instant::now();
    let mut silent = RawClient::initialized(address).await;
    let asked = silent.frame().await.unwrap();
    assert_eq!((asked.first, &*asked.payload), (PING, &b""[..]));
    assert!(begun.elapsed() >= SHORT);
    let (code, words) = silent.closed().await.unwrap();
    assert_eq!((code, &*words), (1011, "the client is silent and answers no ping"));
    assert!(begun.elapsed() >= 2 * SHORT);
    server.until_serving(0).await;
}

#[tokio::test]
async fn a_peer_that_never_reads_is_disconnected() {
    let limits = Limits { stall: Some(SHORT), ..limits() };
    let (server, address) = server(limits, Bounds::default()).await;
    let mut good = RawClient::initialized(address).await;
    let request = frame(TEXT, br#"{"id":1,"method":"flood"}"#);
    // First more responses than may wait unread, then just more than the system buffers.
    for count in [16, 1] {
        let mut deaf = RawClient::open(address).await;
        for _ in 0..count {
            deaf.send(&request).await;
        }
        if count == 1 {
            // It sends a close frame, and does not read the response.
            deaf.send(&frame(CLOSE, b"\x03\xe8")).await;
        }
        server.until_serving(1).await;
        good.call("echo", json!({})).await;
        // It still receives only what the system has buffered.
        while deaf.frame().await.is_some() {}
    }
}

#[tokio::test]
async fn pings_are_answered_and_a_flood_of_them_is_bounded() {
    let (_house, address) = server(limits(), Bounds::default()).await;
    let mut client = RawClient::open(address).await;
    for payload in [&b""[..], b"x", &[0xff; 125]] {
        client.send(&frame(PING, payload)).await;
        let pong = client.frame().await.unwrap();
        assert_eq!((pong.first, &*pong.payload), (PONG, payload));
    }
    // The pings arrive in a few writes. Of each, the server may answer only the last 64; it must
    // answer the last ping of all.
    let mut flood = Vec::new();
    const MANY: u32 = 200_000;
    for number in 0..MANY {
        flood.extend(frame(PING, &number.to_be_bytes()));
    }
    client.send(&flood).await;
    let (mut pongs, mut last) = (0, 0);
    while last + 1 < MANY {
        let pong = client.frame().await.unwrap();
        assert_eq!(pong.first, PONG);
        let number = u32::from_be_bytes(pong.payload.try_into().unwrap());
        assert!(number >= last, "in order");
        last = number;
        pongs += 1;
    }
    println!("{pongs} of {MANY} pings in one go were answered");
    client.call("echo", json!({})).await;
}

#[tokio::test]
async fn a_flood_of_connections_does_not_block_a_client() {
    let admission = transport::Admission { auth: common::capability(), ..without_auth() };
    let mut server = TestServer::new(admission);
    let address = server.tcp("127.0.0.1:0").await.unwrap();
    let mut good = RawClient::initialized(address).await;
    let wrong = tokio::spawn(async move {
        let mut refused = 0;
        loop {
            let token = format!("wrong-{refused}");
            let head = RawClient::tcp(address).await.request(&upgrade(address, &token)).await;
            assert_eq!(head.status, 401);
            refused += 1;
            if refused == 500 {
                return;
            }
        }
    });
    let mut slowest = Duration::ZERO;
    while !wrong.is_finished() {
        let begun = Instant::now();
        good.call("echo", json!({})).await;
        slowest = slowest.max(begun.elapsed());
    }
    wrong.await.unwrap();
    println!("slowest answer beside 500 strangers: {slowest:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    assert_eq!(server.served(), 1);
}

#[tokio::test]
async fn a_full_server_accepts_again_after_a_client_leaves() {
    let bounds = Bounds { connections: 2, ..Bounds::default() };
    let (server, address) = server(limits(), bounds).await;
    let first = RawClient::initialized(address).await;
    let _second = RawClient::initialized(address).await;
    let head = RawClient::tcp(address).await.request(&upgrade(address, TOKEN)).await;
    assert_eq!(head.status, 503);
    drop(first);
    server.until_serving(1).await;
    let opened = async {
        while RawClient::tcp(address).await.request(&upgrade(address, TOKEN)).await.status != 101 {
            // tidy: sleep until the server has noticed, with a bound.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(common::PATIENCE, opened).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_burst_of_connections_is_queued_and_not_refused() {
    const BURST: usize = 500;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if most.trim().parse::<usize>().unwrap() < BURST {
        eprintln!("skipped: the system keeps no more than {most} connections");
        return;
    }
    // No task accepts, so only the system's backlog takes connections.
    let listener = transport::Listener::tcp("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap();
    let address = address.strip_prefix("ws://").unwrap();
    let mut waiting = Vec::new();
    for number in 0..BURST {
        let connecting = tokio::net::TcpStream::connect(address);
        let connected = tokio::time::timeout(common::PATIENCE, connecting).await;
        waiting.push(connected.unwrap_or_else(|_| panic!("{number} is one too many")).unwrap());
    }
}
