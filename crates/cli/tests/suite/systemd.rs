//! `agentd app-server --listen systemd://` and a gateway with `listen = "systemd://"`: sockets passed on by a service
//! manager.

use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use crate::common::gateway::configured;
use crate::common::socket::{Socket, get};
use crate::common::{Running, TestEnvironment, stderr, stdout};
use serde_json::json;

/// Above the descriptor numbers that a service manager uses.
const ELSEWHERE: i32 = 100;

/// Starts the server with these descriptors passed on; `count` is the announced number.
fn passed_sockets(
    env: &TestEnvironment,
    sockets: &[BorrowedFd<'_>],
    count: usize,
    arguments: &[&str],
) -> PassedSockets {
    passed_to(env, sockets, count, &[&["app-server", "--listen", "systemd://"], arguments].concat())
}

pub(crate) fn passed_to(
    env: &TestEnvironment,
    sockets: &[BorrowedFd<'_>],
    count: usize,
    arguments: &[&str],
) -> PassedSockets {
    let hold = |socket: &BorrowedFd<'_>| {
        let held = rustix::io::fcntl_dupfd_cloexec(socket, ELSEWHERE).unwrap();
        rustix::io::fcntl_setfd(&held, rustix::io::FdFlags::empty()).unwrap();
        held
    };
    let held: Vec<OwnedFd> = sockets.iter().map(hold).collect();
    // Only the shell that becomes the program knows its process id.
    let mut script = String::from("exec");
    for (number, socket) in (3..).zip(&held) {
        let from = socket.as_raw_fd();
        script.push_str(&format!(" {number}<&{from} {from}<&-"));
    }
    script.push_str("; LISTEN_PID=$$ exec \"$0\" \"$@\"");
    let agentd = env.agentd(&[]);
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .arg(agentd.get_program())
        .args(arguments)
        .env_clear()
        .envs(agentd.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("LISTEN_FDS", count.to_string())
        .current_dir(env.work())
        .stdin(Stdio::null());
    PassedSockets { command, _held: held }
}

pub(crate) struct PassedSockets {
    pub(crate) command: Command,
    /// Kept open until the program has inherited them.
    _held: Vec<OwnedFd>,
}

fn start(env: &TestEnvironment, mut passed_sockets: PassedSockets) -> Running {
    Running::start(passed_sockets.command.stderr(File::create(env.work().join("stderr")).unwrap()))
}

fn refuse(mut passed_sockets: PassedSockets, words: &str) {
    let output = passed_sockets.command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.starts_with(&format!("agentd: {words}")) && said.lines().count() == 1, "{said}");
    assert_eq!(stdout(&output), "");
}

const UNUSABLE: &str =
    "--listen systemd://: a socket that the service manager passed cannot be used: ";
const NONE: &str = "--listen systemd://: no socket was passed to this process (see LISTEN_FDS and LISTEN_PID); let a \
     socket unit start this program\n";

#[test]
fn passed_sockets_are_served_and_not_removed() {
    let env = TestEnvironment::new();
    let path = env.work().join("passed.sock");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let sockets = [tcp.as_fd(), unix.as_fd()];
    let server = start(&env, passed_sockets(&env, &sockets, 2, &[]));
    let address = tcp.local_addr().unwrap().to_string();
    assert_eq!(server.line_with(""), format!("listening on ws://{address}"));
    assert_eq!(server.line_with(""), format!("listening on unix://{}", path.display()));
    assert_eq!(get(&address, "/readyz"), 200);
    let mut one = Socket::tcp(&address, None).unwrap().ok().unwrap();
    let mut two = Socket::unix(&path).unwrap();
    one.initialize();
    two.initialize();
    let thread = one.thread("echo");
    let loaded = two.call(2, "thread/loaded/list", json!({}));
    assert_eq!(loaded["result"]["data"], json!([thread]));
    server.signal("TERM");
    assert!(server.end().0.success());
    assert!(path.exists(), "it is the service manager's");
    assert!(!env.home().join("control.sock").exists());
    // The service manager keeps the socket, so the next server gets the queued connection.
    let waiting = std::thread::spawn(move || Socket::unix(&path).unwrap().initialize());
    let server = start(&env, passed_sockets(&env, &sockets, 2, &[]));
    waiting.join().unwrap();
    server.signal("TERM");
    assert!(server.end().0.success());
}

#[test]
fn remotely_reachable_sockets_need_credentials() {
    let env = TestEnvironment::new();
    let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
    let address = format!("127.0.0.1:{}", tcp.local_addr().unwrap().port());
    let words = "--listen on 0.0.0.0: other machines can reach this address";
    refuse(passed_sockets(&env, &[tcp.as_fd()], 1, &[]), words);
    let token = env.work().join("token");
    fs::write(&token, "a-token").unwrap();
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let flags = ["--ws-auth", "capability-token", "--ws-token-file", token.to_str().unwrap()];
    let server = start(&env, passed_sockets(&env, &[tcp.as_fd()], 1, &flags));
    server.line_with("listening on ws://0.0.0.0:");
    assert_eq!(Socket::tcp(&address, None).unwrap().err(), Some(401));
    Socket::tcp(&address, Some("a-token")).unwrap().ok().unwrap().initialize();
}

#[test]
fn a_passed_socket_that_does_not_listen_is_refused() {
    let env = TestEnvironment::new();
    let good = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = File::open("/dev/null").unwrap();
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
    let idle = rustix::net::socket_with(family, kind, flags, None).unwrap();
    let (_, stream) = UnixStream::pair().unwrap();
    for wrong in [datagrams.as_fd(), file.as_fd(), idle.as_fd(), stream.as_fd()] {
        refuse(passed_sockets(&env, &[wrong], 1, &[]), UNUSABLE);
        refuse(passed_sockets(&env, &[good.as_fd(), wrong], 2, &[]), UNUSABLE);
    }
}

#[test]
fn wrong_socket_counts_are_refused() {
    let env = TestEnvironment::new();
    let good = TcpListener::bind("127.0.0.1:0").unwrap();
    // No descriptor was passed on; the program has its own under these numbers by then.
    for count in [1, 5, 1000] {
        refuse(passed_sockets(&env, &[], count, &[]), UNUSABLE);
    }
    refuse(passed_sockets(&env, &[good.as_fd()], 1000, &[]), UNUSABLE);
    for count in [0, usize::MAX] {
        refuse(passed_sockets(&env, &[good.as_fd()], count, &[]), NONE);
    }
}

#[test]
fn a_gateway_is_restarted_without_a_refused_connection() {
    let env = TestEnvironment::new();
    let config = configured(&env, "");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("127.0.0.1:0", "systemd://")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let start = || {
        let arguments = ["gateway", "--config", &config];
        let server = start(&env, passed_to(&env, &[tcp.as_fd()], 1, &arguments));
        assert_eq!(server.line_with(""), format!("listening on http://{address}"));
        server
    };
    let first = start();
    assert_eq!(get(&address, "/healthz"), 200);
    first.signal("TERM");
    assert!(first.end_with_input_open().0.success());
    // It waits in the queue of the socket.
    let waiting = std::thread::spawn({
        let address = address.clone();
        move || get(&address, "/healthz")
    });
    let second = start();
    assert_eq!(waiting.join().unwrap(), 200);
    second.signal("TERM");
    assert!(second.end_with_input_open().0.success());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    for (sockets, expected) in [
        (&[][..], "0 sockets were passed"),
        (&[tcp.as_fd(), other.as_fd()], "2 sockets were passed"),
        (&[File::open("/dev/null").unwrap().as_fd()], "cannot be used"),
    ] {
        let arguments = ["gateway", "--config", &config];
        let output = passed_to(&env, sockets, sockets.len(), &arguments).command.output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(expected), "{said}");
        assert!(said.contains("`listen = \"systemd://\"`"), "{said}");
    }
}
