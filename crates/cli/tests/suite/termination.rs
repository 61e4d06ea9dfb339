//! Shutdown of `agentd app-server`: turns reach a safe point, clients are notified, and no new
//! connections are admitted.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::socket::Socket;
use crate::common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// Far more than an immediate exit takes, and far less than the grace periods of these tests.
const AT_ONCE: Duration = Duration::from_secs(15);

struct Fixture {
    env: TestEnvironment,
    server: Running,
    address: String,
}

impl Fixture {
    fn new(arguments: &[&str]) -> Self {
        let env = TestEnvironment::new();
        let mut command = env.agentd(&["app-server", "--listen", "ws://127.0.0.1:0"]);
        let server = Running::start(command.args(["--listen", "unix://"]).args(arguments));
        let line = server.line_with("ws://");
        let address = line.strip_prefix("listening on ws://").unwrap().to_owned();
        server.line_with("unix://");
        Self { env, server, address }
    }

    fn client(&self) -> Socket {
        let mut client = Socket::tcp(&self.address, None).unwrap().ok().unwrap();
        client.initialize();
        client
    }

    /// Starts a turn whose command runs until a file exists, and waits until the command runs.
    fn busy(&self, client: &mut Socket) -> (String, PathBuf) {
        let go = self.env.work().join("go");
        let command = format!("until test -e {}; do sleep 0.02; done; echo done", go.display());
        let call = json!({"name": "exec_command",
            "arguments": {"cmd": command, "yield_time_ms": 600_000}});
        let script = self.env.script(&json!([
            {"steps": [{"message": {"text": "I have begun. ", "phase": "commentary"}},
                {"function_call": call}]},
            {"steps": [{"message": {"text": "I am done."}}]},
        ]));
        let thread = client.thread(&script);
        let text = json!([{"type": "text", "text": "Begin."}]);
        client.call(
            3,
            "turn/start",
            json!({"threadId": thread, "input": text, "approvalPolicy": "never",
                "sandboxPolicy": {"type": "dangerFullAccess"}}),
        );
        client.message(|message| {
            message["method"] == "item/started"
                && message["params"]["item"]["type"] == "commandExecution"
        });
        (thread, go)
    }

    /// Waits until no new connections are admitted.
    fn until_closed(&self) {
        let begun = Instant::now();
        while !is_closed(&self.address) || UnixStream::connect(self.socket()).is_ok() {
            assert!(begun.elapsed() < common::PATIENCE, "clients are still let in");
            // tidy: sleep because a socket that another process closes has no event to wait for.
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The path of the control socket.
    fn socket(&self) -> PathBuf {
        self.env.home().join("control.sock")
    }
}

fn is_closed(address: &str) -> bool {
    TcpStream::connect(address).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Returns the status of a thread's only turn and the types of its items, as the next server reads
/// them.
fn stored(env: &TestEnvironment, thread: &str) -> (Value, Vec<Value>) {
    let mut server = Running::server(env, &[]);
    let read = server.call(1, "thread/read", json!({"threadId": thread, "includeTurns": true}));
    let turns = read["result"]["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    (turns[0]["status"].clone(), turns[0]["items"].as_array().unwrap().clone())
}

const CLOSE_FRAME: (u16, &str) = (1001, "the program is shutting down");

fn assert_reported(said: Option<(u16, String)>) {
    let said = said.expect("there is a close frame");
    assert_eq!((said.0, &*said.1), CLOSE_FRAME);
}

#[test]
fn clients_are_notified_of_the_shutdown() {
    // The last message must not be lost, however fast the program exits.
    for _ in 0..5 {
        let fixture = Fixture::new(&[]);
        let mut clients: Vec<Socket> = (0..20).map(|_| fixture.client()).collect();
        let mut silent = Socket::tcp(&fixture.address, None).unwrap().ok().unwrap();
        let mut local = Socket::unix(&fixture.socket()).unwrap();
        local.initialize();
        fixture.server.signal("TERM");
        for client in clients.iter_mut().chain([&mut silent, &mut local]) {
            assert_reported(client.rest().1);
        }
        let begun = Instant::now();
        let socket = fixture.socket();
        assert!(fixture.server.end().0.success());
        assert!(begun.elapsed() < AT_ONCE);
        assert!(!socket.exists());
    }
}

#[test]
fn a_draining_server_finishes_its_step_and_accepts_no_client() {
    let fixture = Fixture::new(&["--shutdown-grace", "600"]);
    let (mut client, mut other) = (fixture.client(), fixture.client());
    let (thread, go) = fixture.busy(&mut client);
    fixture.server.signal("TERM");
    fixture.until_closed();
    // Connected clients may read, and start nothing new.
    let read = other.call(5, "thread/read", json!({"threadId": thread}));
    assert_eq!(read["result"]["thread"]["status"]["type"], "active", "{read}");
    let text = json!([{"type": "text", "text": "More."}]);
    let params = json!({"threadId": thread, "input": text});
    let refused = other.call(6, "turn/start", params);
    assert!(refused["error"]["message"].is_string(), "{refused}");
    std::fs::write(go, "").unwrap();
    let (messages, said) = client.rest();
    assert_reported(said);
    let ended = messages.iter().find(|message| message["method"] == "turn/completed");
    let ended = ended.expect("the end of the turn is reported");
    let finished = messages.iter().find(|message| {
        message["method"] == "item/completed"
            && message["params"]["item"]["type"] == "commandExecution"
    });
    let item = &finished.expect("the command is not cut short")["params"]["item"];
    assert_eq!(item["status"], "completed", "{item}");
    assert_reported(other.rest().1);
    assert!(fixture.server.end().0.success());
    let (status, items) = stored(&fixture.env, &thread);
    assert_eq!(status, ended["params"]["turn"]["status"]);
    let command = items.iter().find(|item| item["type"] == "commandExecution").unwrap();
    assert_eq!(command["aggregatedOutput"].as_str().map(str::trim), Some("done"), "{command}");
}

#[test]
fn a_turn_beyond_the_grace_period_is_interrupted() {
    let fixture = Fixture::new(&["--shutdown-grace", "1"]);
    let mut client = fixture.client();
    let (thread, _) = fixture.busy(&mut client);
    let begun = Instant::now();
    fixture.server.signal("TERM");
    let (messages, said) = client.rest();
    assert_reported(said);
    assert!(begun.elapsed() >= Duration::from_millis(900), "it had its second");
    let ended = messages.iter().find(|message| message["method"] == "turn/completed");
    assert_eq!(ended.expect("the end is reported")["params"]["turn"]["status"], "interrupted");
    assert!(fixture.server.end().0.success());
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(stored(&fixture.env, &thread).0, "interrupted");
}

#[test]
fn a_second_signal_ends_the_grace_period() {
    for (first, second) in [("TERM", "TERM"), ("INT", "TERM"), ("TERM", "INT")] {
        let fixture = Fixture::new(&["--shutdown-grace", "600"]);
        let mut client = fixture.client();
        let (thread, _) = fixture.busy(&mut client);
        fixture.server.signal(first);
        fixture.until_closed();
        let begun = Instant::now();
        fixture.server.signal(second);
        let (messages, said) = client.rest();
        assert_reported(said);
        let ended = messages.iter().any(|message| message["method"] == "turn/completed");
        assert!(ended, "the end of the turn is reported");
        assert!(fixture.server.end().0.success());
        assert!(begun.elapsed() < AT_ONCE, "{first}, {second}: {:?}", begun.elapsed());
        assert_eq!(stored(&fixture.env, &thread).0, "interrupted");
    }
}

#[test]
fn a_client_that_does_not_read_does_not_delay_the_shutdown() {
    let fixture = Fixture::new(&[]);
    let mut deaf = fixture.client();
    // More responses than the system buffers, none of which the client reads.
    for id in 0..20_000 {
        deaf.send(&json!({"id": id, "method": "x".repeat(200)}));
    }
    let mut client = fixture.client();
    let begun = Instant::now();
    fixture.server.signal("TERM");
    assert_reported(client.rest().1);
    assert!(fixture.server.end().0.success());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[test]
fn connections_in_the_handshake_are_closed() {
    use std::io::{Read, Write};
    let fixture = Fixture::new(&[]);
    let mut half = TcpStream::connect(&fixture.address).unwrap();
    half.set_read_timeout(Some(common::PATIENCE)).unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    fixture.client();
    let begun = Instant::now();
    fixture.server.signal("TERM");
    let mut rest = Vec::new();
    let end = half.read_to_end(&mut rest);
    assert!(end.is_ok() || end.is_err_and(|why| why.kind() == ErrorKind::ConnectionReset));
    assert!(rest.is_empty());
    assert!(fixture.server.end().0.success());
    assert!(begun.elapsed() < AT_ONCE);
}

#[test]
fn on_stdio_accepted_requests_are_answered() {
    let env = TestEnvironment::new();
    let mut server = Running::server(&env, &["--shutdown-grace", "600"]);
    let go = env.work().join("go");
    let script = format!("echo begun; until test -e {}; do sleep 0.02; done", go.display());
    let exec = |script: &str| {
        json!({"command": ["sh", "-c", script], "processId": script, "streamStdoutStderr": true,
            "disableTimeout": true, "sandboxPolicy": {"type": "dangerFullAccess"}})
    };
    let request = json!({"id": 1, "method": "command/exec", "params": exec(&script)});
    server.send(&request.to_string());
    server.notification("command/exec/outputDelta");
    server.signal("TERM");
    let mut id = 2;
    while server.call(id, "command/exec", exec("true"))["error"]["code"] != -32001 {
        id += 1;
    }
    std::fs::write(go, "").unwrap();
    let answer = server.message(|message| message["id"] == 1);
    assert_eq!(answer["result"]["exitCode"], 0, "{answer}");
    assert!(server.end().0.success());
}

#[test]
fn a_parent_that_does_not_read_does_not_delay_the_shutdown() {
    use std::io::Write;
    let env = TestEnvironment::new();
    let mut command = env.agentd(&["app-server", "--shutdown-grace", "0"]);
    let piped = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut server = piped.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    // More responses than a pipe holds.
    for id in 0..2_000 {
        writeln!(input, "{}", json!({"id": id, "method": "x".repeat(200)})).unwrap();
    }
    let begun = Instant::now();
    let id = server.id().to_string();
    let killed = std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(killed.success());
    server.wait().unwrap();
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}
