//! Thousands of connections that never initialize, beside a client that does: that client is served
//! throughout, and the server's memory stays small. `AGENTD_TEST_CONNECTIONS` sets the number of
//! connections.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common;
use crate::common::socket::{Socket, handshake};
use crate::common::{Running, TestEnvironment};
use serde_json::json;

/// Default number of open connections: several times the number that the server keeps.
const CONNECTIONS: usize = 4000;
/// Connections opened at a time.
const WAVE: usize = 500;
/// Most memory of a connection in the server, in bytes.
const MOST_EACH: usize = 24 << 10;
/// Most connections that the server keeps without `initialize`.
const KEPT: usize = 1024;
/// Bound of the slowest response, on a busy machine; on an idle one it takes milliseconds.
const MOST_WAIT: Duration = Duration::from_secs(20);

/// The good client's pause between requests, which leaves time to other processes.
const PAUSE: Duration = Duration::from_millis(2);

struct Server {
    running: Running,
    address: String,
}

impl Server {
    fn start(env: &TestEnvironment) -> Self {
        let mut command = env.agentd(&["app-server", "--listen", "ws://127.0.0.1:0"]);
        let running = Running::start(&mut command);
        let line = running.line_with("listening on ws://");
        Self { running, address: line.strip_prefix("listening on ws://").unwrap().to_owned() }
    }

    /// Returns private memory in use, in bytes, and the number of open descriptors.
    fn holds(&self) -> (usize, usize) {
        let folder = format!("/proc/{}", self.running.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
        (kib << 10, fs::read_dir(format!("{folder}/fd")).unwrap().count())
    }
}

/// A client that sends requests until stopped; returns its slowest response, and how many it got.
fn ask(address: &str, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<(Duration, usize)> {
    let (address, stop) = (address.to_owned(), stop.clone());
    std::thread::spawn(move || {
        let mut client = Socket::tcp(&address, None).unwrap().ok().unwrap();
        client.initialize();
        let (mut slowest, mut count) = (Duration::ZERO, 0);
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let answer = client.call(1, "thread/loaded/list", json!({}));
            assert!(answer.get("result").is_some(), "{answer}");
            slowest = slowest.max(begun.elapsed());
            count += 1;
            // tidy: sleep because that is what this client does; nothing depends on how long.
            std::thread::sleep(PAUSE);
            // New connections are also admitted and served at once.
            if count % 50 == 1 {
                Socket::tcp(&address, None).unwrap().ok().unwrap().initialize();
                slowest = slowest.max(begun.elapsed());
            }
        }
        (slowest, count)
    })
}

fn wanted() -> usize {
    let given = std::env::var("AGENTD_TEST_CONNECTIONS").ok();
    let wanted = given.map_or(CONNECTIONS, |number| number.parse().expect("a number"));
    let room = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let raised = rustix::process::Rlimit { current: room, maximum: room };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    wanted.min(room.map_or(usize::MAX, |room| room as usize).saturating_sub(500))
}

/// Opens `count` connections and upgrades them; each then sends `rest`.
fn open(address: &str, count: usize, rest: &[u8]) -> Vec<TcpStream> {
    let request = handshake(address, None);
    let opened: Vec<TcpStream> = (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let upgraded = |mut stream: &TcpStream| {
        // The server sends no further data on its own.
        let mut head = [0; 1024];
        let mut length = 0;
        while !head[..length].ends_with(b"\r\n\r\n") {
            length += stream.read(&mut head[length..]).unwrap();
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "));
        // Later connections may already have displaced this one.
        let _ = stream.write_all(rest);
    };
    opened.iter().for_each(upgraded);
    opened
}

#[test]
fn thousands_of_uninitialized_connections_do_not_block_other_clients() {
    let env = TestEnvironment::new();
    let server = Server::start(&env);
    let stop = Arc::new(AtomicBool::new(false));
    let asking = ask(&server.address, &stop);
    let (before, _) = server.holds();
    let (begun, wanted) = (Instant::now(), wanted());
    let mut silent = Vec::new();
    let (mut most, mut descriptors) = (0, 0);
    while silent.len() < wanted {
        silent.extend(open(&server.address, WAVE.min(wanted - silent.len()), b""));
        let (held, open) = server.holds();
        (most, descriptors) = (most.max(held), descriptors.max(open));
        assert!(!asking.is_finished(), "the client is served all the time");
    }
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    let (slowest, answers) = asking.join().unwrap();
    let grown = most.saturating_sub(before);
    println!(
        "{wanted} connections in {took:.1?}: {} KiB more at most, {descriptors} descriptors at most, \
         {} bytes for each; {answers} answers, the slowest after {slowest:.1?}",
        grown >> 10,
        grown / descriptors,
    );
    assert!(grown < descriptors * MOST_EACH, "{grown} bytes");
    assert!(slowest < MOST_WAIT, "{slowest:?}");
    // Refused connections may take a moment to close; then the server releases them too.
    let begun = Instant::now();
    while server.holds().1 > KEPT + 100 {
        assert!(begun.elapsed() < common::PATIENCE, "{} descriptors", server.holds().1);
        // tidy: sleep because descriptors of another process have no event to wait for.
        std::thread::sleep(Duration::from_millis(20));
    }
    // The first received the reason for their close.
    if wanted > 2 * KEPT {
        let mut said = Vec::new();
        let end = silent[0].read_to_end(&mut said);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(said[..4], [0x88, said.len() as u8 - 2, 1008u16.to_be_bytes()[0], 0xf0]);
        assert_eq!(&said[4..], b"the connection was not initialized in time");
    }
}

#[test]
fn announced_but_unsent_bytes_are_not_allocated() {
    let env = TestEnvironment::new();
    let server = Server::start(&env);
    let (before, _) = server.holds();
    // Announces 16 MiB, masked, and sends three bytes.
    let mut announced = vec![0x81, 0xff];
    announced.extend((16u64 << 20).to_be_bytes());
    announced.extend([0; 4 + 3]);
    let count = WAVE.min(wanted());
    let waiting = open(&server.address, count, &announced);
    // Opened after all the others.
    let mut client = Socket::tcp(&server.address, None).unwrap().ok().unwrap();
    client.initialize();
    let grown = server.holds().0.saturating_sub(before);
    println!("{count} announcements of 16 MiB: {} bytes each", grown / count);
    assert!(grown < count * MOST_EACH, "{grown} bytes");
    drop(waiting);
}
