//! `agentd app-server proxy`: connects a client of lines to a server on a Unix socket.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use crate::common::{Running, TestEnvironment, stderr, stdout};
use serde_json::json;
use tungstenite::WebSocket;
use tungstenite::protocol::Role;

/// Starts a server on the control socket.
fn server(env: &TestEnvironment) -> Running {
    let mut command = env.agentd(&["app-server", "--listen", "unix://"]);
    let server = Running::start(&mut command);
    server.line_with("listening on unix://");
    server
}

/// Starts a proxy to it, with its standard error in a file.
fn proxy(env: &TestEnvironment) -> Running {
    let mut command = env.agentd(&["app-server", "proxy"]);
    Running::start(command.stderr(File::create(env.work().join("stderr")).unwrap()))
}

fn stderr_text(env: &TestEnvironment) -> String {
    std::fs::read_to_string(env.work().join("stderr")).unwrap()
}

fn initialize(proxy: &mut Running) {
    let client = json!({"clientInfo": {"name": "proxied", "version": "1"}});
    let opened = proxy.call(0, "initialize", client);
    assert!(opened.get("result").is_some(), "{opened}");
    proxy.send(r#"{"method":"initialized"}"#);
}

#[test]
fn the_proxy_forwards_a_conversation_unchanged() {
    let env = TestEnvironment::new();
    let server = server(&env);
    let mut proxy = proxy(&env);
    let early = proxy.call(7, "thread/list", json!({}));
    assert_eq!(early["error"]["message"], "Not initialized");
    initialize(&mut proxy);
    let thread = proxy.thread("echo");
    let text = json!([{"type": "text", "text": "Hello through a proxy."}]);
    proxy.call(3, "turn/start", json!({"threadId": thread, "input": text}));
    let item = proxy.message(|message| {
        message["method"] == "item/completed" && message["params"]["item"]["type"] == "agentMessage"
    });
    assert_eq!(item["params"]["item"]["text"], "Hello through a proxy.");
    assert_eq!(proxy.notification("turn/completed")["turn"]["status"], "completed");
    proxy.send("this is no message");
    let answer = proxy.message(|message| message.get("error").is_some());
    assert_eq!(answer["error"]["code"], -32700);
    assert!(proxy.end().0.success());
    assert_eq!(stderr_text(&env), "");
    server.signal("TERM");
    assert!(server.end().0.success());
}

#[test]
fn a_client_behind_the_proxy_resumes_at_its_cursor() {
    let env = TestEnvironment::new();
    let _server = server(&env);
    let open = |env: &TestEnvironment| {
        let mut proxy = proxy(env);
        let opened = proxy.call(
            0,
            "initialize",
            json!({
                "clientInfo": {"name": "proxied", "version": "1"},
                "capabilities": {"experimentalApi": true, "eventCursor": true},
            }),
        );
        assert!(opened.get("result").is_some(), "{opened}");
        proxy.send(r#"{"method":"initialized"}"#);
        proxy
    };
    let mut first = open(&env);
    let thread = first.thread("echo");
    let text = json!([{"type": "text", "text": "Where was I?"}]);
    first.call(3, "turn/start", json!({"threadId": thread, "input": text}));
    let started = first.message(|message| message["method"] == "turn/started");
    let cursor = started["eventCursor"].as_str().expect("the proxy forwards the cursor").to_owned();
    first.notification("turn/completed");
    assert!(first.end().0.success());

    let mut second = open(&env);
    let resumed =
        second.call(1, "thread/resume", json!({"threadId": thread, "eventCursor": cursor}));
    assert_eq!(resumed["result"]["eventReplay"]["type"], "replayed", "{resumed}");
    assert_eq!(second.notification("turn/completed")["turn"]["status"], "completed");
}

/// What the proxy forwards in each direction, byte by byte: members that no version defines, `null`
/// parameters, numbers and escapes in an unusual form.
#[test]
fn every_member_of_every_message_passes_unchanged() {
    let from_client = [
        r#"{"jsonrpc":"2.0","id":1,"method":"a/b","params":null,"trace":{"span":[1.50]}}"#,
        r#"{ "method":"c", "params":{"x":1e2},"later":"\u00e9" }"#,
        r#"{"id":"s1","result":null,"note":[]}"#,
        r#"{"id":"s2","error":{"code":-1,"message":"no","hint":"x"},"note":{}}"#,
    ];
    let from_server = [
        r#"{"eventCursor":"8d2f.57.t","method":"n","params":{"k":1},"future":{"a":[null]}}"#,
        r#"{"id":"s1","method":"ask","params":{},"deadline":10.0}"#,
        r#"{"id":"s2","method":"ask","params":null,"deadline":10}"#,
        "{\"method\":\"two lines\",\n \"params\":{}}",
        r#"{"id":null,"error":{"code":-32700,"message":"?","data":1,"hint":2},"more":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"big":12345678901234567890.10},"took":3}"#,
    ];
    let env = TestEnvironment::new();
    let path = env.work().join("recorded.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        // The answer to the constant key of the client.
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\n\
                    Sec-WebSocket-Accept: GFfmZJqpMYUhJEQvgVcfoiiroHo=\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut web = WebSocket::from_raw_socket(stream, Role::Server, None);
        let received = from_client.map(|_| web.read().unwrap().into_text().unwrap().to_string());
        for message in from_server {
            web.send(message.into()).unwrap();
        }
        // Until the proxy has closed the connection.
        while web.read().is_ok() {}
        received
    });
    let arguments = ["app-server", "proxy", "--socket", path.to_str().unwrap()];
    let output = env.pipe(&arguments, &from_client.map(|line| format!("{line}\n")).concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    let printed: Vec<&str> = printed.lines().collect();
    assert_eq!(printed, from_server.map(|message| message.replace('\n', " ")));
    assert_eq!(server.join().unwrap(), from_client);
}

#[test]
fn end_of_input_waits_for_the_last_response() {
    let env = TestEnvironment::new();
    let _server = server(&env);
    let mut input =
        json!({"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "a", "version": "1"}}})
            .to_string();
    for id in 1..=200 {
        input.push('\n');
        input
            .push_str(&json!({"id": id, "method": "thread/loaded/list", "params": {}}).to_string());
    }
    let output = env.pipe(&["app-server", "proxy"], &input);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().filter(|line| line.contains("\"result\"")).count(), 201);
}

#[test]
fn an_address_without_a_server_is_reported() {
    let env = TestEnvironment::new();
    let stale = env.work().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let stale = stale.to_str().unwrap();
    for (socket, why) in [
        (None, "No such file or directory"),
        (Some("/nonexistent.sock"), "No such file or directory"),
        (Some(stale), "Connection refused"),
    ] {
        let mut arguments = vec!["app-server", "proxy"];
        arguments.extend(socket.iter().flat_map(|socket| ["--socket", socket]));
        let output = env.run(&arguments);
        let stderr_text = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{stderr_text}");
        assert!(stderr_text.contains("no server listens on "), "{stderr_text}");
        assert!(
            stderr_text.contains("start one with `agentd app-server --listen unix://`"),
            "{stderr_text}"
        );
        assert!(stderr_text.contains(why), "{stderr_text}");
    }
}

#[test]
fn a_peer_that_is_not_a_server_is_reported() {
    let env = TestEnvironment::new();
    let path = env.work().join("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let other = std::thread::spawn(move || {
        for answer in ["", "SSH-2.0-other\r\n\r\n", "HTTP/1.1 503 No\r\n\r\ntoo many connections\n"]
        {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0; 4096];
            assert_ne!(stream.read(&mut byte).unwrap(), 0);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for words in [
        "the server at this address does not speak WebSocket",
        "the server at this address does not speak WebSocket",
        "the server refused the connection with status 503: too many connections",
    ] {
        let output = env.run(&["app-server", "proxy", "--socket", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    other.join().unwrap();
}

#[test]
fn a_lost_server_ends_the_proxy_with_a_failure() {
    let left = |code| format!("the other side left (code {code})");
    // The system's error depends on whether the client's last line was read by then.
    let reset = "reading from the other side failed: connection reset".to_owned();
    for (signal, reasons) in [("TERM", vec![left(1001)]), ("KILL", vec![left(1006), reset])] {
        let env = TestEnvironment::new();
        let server = server(&env);
        let mut proxy = proxy(&env);
        initialize(&mut proxy);
        server.signal(signal);
        server.end();
        let (status, _) = proxy.end_with_input_open();
        assert_eq!(status.code(), Some(1), "{signal}: {}", stderr_text(&env));
        let stderr_text = stderr_text(&env);
        let reason = stderr_text.strip_prefix("agentd: the server ended the connection: ").unwrap();
        assert!(reasons.contains(&reason.trim_end().to_owned()), "{signal}: {stderr_text}");
    }
}
