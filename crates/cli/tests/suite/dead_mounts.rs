//! File systems that do not respond, with the real program: each request on one fails in time,
//! other clients are not affected, and the server exits whatever operation hangs.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::dead_mount::DeadMount;
use crate::common::socket::Socket;
use crate::common::{Running, TestEnvironment};
use serde_json::json;

/// Bound of a file request, with room for a busy machine.
const ANSWERED: Duration = Duration::from_secs(20);
/// Bound of a request that does not use the dead file system.
const UNDISTURBED: Duration = Duration::from_secs(2);
/// Bounds of a shutdown with `--shutdown-grace 1`, with room for a busy machine.
const ENDED: Duration = Duration::from_secs(1 + 10 + 10);

fn start(env: &TestEnvironment) -> (Running, String) {
    let mut command = env.agentd(&["app-server", "--listen", "ws://127.0.0.1:0"]);
    let server = Running::start(command.args(["--shutdown-grace", "1"]));
    let line = server.line_with("ws://");
    (server, line.strip_prefix("listening on ws://").unwrap().to_owned())
}

fn client(address: &str) -> Socket {
    let mut client = Socket::tcp(address, None).unwrap().ok().unwrap();
    client.initialize();
    client
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_unresponsive_file_system_fails_only_its_own_requests_and_delays_no_exit() {
    let env = TestEnvironment::new();
    let Some(dead) = DeadMount::new(&env.work().join("dead")) else { return };
    let (server, address) = start(&env);
    let mut other = client(&address);
    let script = env.script(&json!([{"steps": [{"message": "Hello."}]}]));
    let thread = other.thread(&script);
    let image = dead.path.join("image.png");
    let input = json!([{"type": "localImage", "path": image}]);
    let unread = dead.path.join("thread.jsonl");
    let requests = [
        ("turn/start", json!({"threadId": thread, "input": input})),
        ("thread/start", json!({"cwd": dead.path})),
        ("command/exec", json!({"command": ["true"], "cwd": dead.path})),
        ("config/read", json!({"cwd": dead.path})),
        ("thread/start", json!({"config": {"model_instructions_file": unread}})),
    ];
    let mut clients: Vec<Socket> = requests.iter().map(|_| client(&address)).collect();
    let begun = Instant::now();
    for (client, (method, params)) in clients.iter_mut().zip(&requests) {
        client.send(&json!({"id": 7, "method": method, "params": params}));
    }
    for id in 100..200 {
        let asked = Instant::now();
        let answer = other.call(id, "thread/list", json!({}));
        assert!(answer["result"].is_object(), "{answer}");
        assert!(asked.elapsed() < UNDISTURBED, "{:?}", asked.elapsed());
    }
    for (client, (method, _)) in clients.iter_mut().zip(&requests) {
        let answer = client.message(|message| message["id"] == 7);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(message.contains("did not respond within 10 s"), "{method}: {message}");
        assert!(begun.elapsed() < ANSWERED, "{method}: {:?}", begun.elapsed());
    }
    // Other requests succeed, and the shutdown does not wait for the hanging ones.
    let input = json!([{"type": "text", "text": "Hi."}]);
    let started = other.call(8, "turn/start", json!({"threadId": thread, "input": input}));
    assert!(started["result"]["turn"].is_object(), "{started}");
    let begun = Instant::now();
    server.signal("TERM");
    assert!(server.end().0.success());
    assert!(begun.elapsed() < ENDED, "{:?}", begun.elapsed());
}

#[test]
fn the_process_exits_even_when_all_runtime_threads_hang() {
    let env = TestEnvironment::new();
    let Some(dead) = DeadMount::new(&env.work().join("dead")) else { return };
    let log = dead.path.join("log");
    std::fs::write(env.home().join("config.toml"), format!("log_dir = {:?}\n", text(&log)))
        .unwrap();
    let (server, address) = start(&env);
    // Failures are logged by whichever runtime thread notices them.
    let mut clients: Vec<Socket> = (0..4).map(|_| client(&address)).collect();
    let model = env.tmp().join("there is no such script");
    let threads: Vec<String> =
        clients.iter_mut().map(|client| client.thread(text(&model))).collect();
    for (client, thread) in clients.iter_mut().zip(threads) {
        let input = json!([{"type": "text", "text": "Hi."}]);
        let params = json!({"threadId": thread, "input": input});
        client.send(&json!({"id": 4, "method": "turn/start", "params": params}));
    }
    let begun = Instant::now();
    while answers(&address) {
        assert!(begun.elapsed() < common::PATIENCE, "the threads of the runtime do not hang");
    }
    let begun = Instant::now();
    server.signal("TERM");
    let status = server.end().0;
    assert_eq!(status.code(), Some(1), "the watchdog ended it: {status}");
    assert!(begun.elapsed() < ENDED, "{:?}", begun.elapsed());
}

/// Whether the server responds at all.
fn answers(address: &str) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(UNDISTURBED)).unwrap();
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    common::socket::head(&mut stream).is_ok()
}
