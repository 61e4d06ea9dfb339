//! `agentd mcp-server --listen` from outside: streamable HTTP in both eras, and who may connect.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{PATIENCE, Running, TestEnvironment, stderr};
use serde_json::{Value, json};

const MODERN: &str = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n";

/// A server, and where it listens.
struct Http {
    server: Running,
    address: String,
}

struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The last message: the body, or the last event.
    fn message(&self) -> Value {
        let mut lines = self.body.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let last = lines.rfind(|line| line.starts_with('{'));
        serde_json::from_str(last.unwrap_or_else(|| panic!("{}\n{}", self.head, self.body)))
            .unwrap()
    }
}

impl Http {
    fn start(env: &TestEnvironment, responses: &Value, flags: &[&str]) -> Self {
        let model = format!("model={:?}", env.script(responses));
        let offline = r#"model_provider="offline""#;
        let listen = ["mcp-server", "--listen", "http://127.0.0.1:0", "-c", offline, "-c", &model];
        let server = Running::start(&mut env.agentd(&[&listen[..], flags].concat()));
        let line = server.line_with("listening on http://");
        let address = line.trim_start_matches("listening on http://").trim_end_matches("/mcp");
        Self { address: address.to_owned(), server }
    }

    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let host = if headers.contains("Host: ") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{host}{headers}Accept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A refused body is not read to its end.
        let _ = stream.write_all(body.as_bytes());
        stream
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let mut answer = Vec::new();
        // A server that refuses a body may reset the connection behind its answer.
        let _ = self.send(method, path, headers, body).read_to_end(&mut answer);
        let text = String::from_utf8(answer).unwrap();
        let (head, body) =
            text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.get(9..12).unwrap().parse().unwrap();
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn post(&self, headers: &str, body: &Value) -> Reply {
        self.request("POST", "/mcp", headers, &body.to_string())
    }

    fn end(self) {
        self.server.signal("TERM");
        let (status, rest) = self.server.end_with_input_open();
        assert!(status.success() && rest.is_empty(), "{status}: {rest:?}");
    }
}

fn message(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn hello() -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    message(0, "initialize", &params)
}

/// A call with the metadata of 2026-07-28, and its headers.
fn modern(tool: &str, arguments: &Value) -> (String, Value) {
    let meta = json!({
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    (format!("{MODERN}Mcp-Name: {tool}\r\n"), message(1, "tools/call", &params))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_client_with_a_handshake_has_a_session() {
    let env = TestEnvironment::new();
    let http = Http::start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]), &[]);
    let opened = http.post("", &hello());
    assert_eq!(opened.message()["result"]["protocolVersion"], "2025-11-25");
    let session = opened.header("mcp-session-id").unwrap();
    let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(http.post(&headers, &initialized).status, 202);
    let params = json!({ "name": "agent", "arguments": { "prompt": "hi" } });
    let called = http.post(&headers, &message(2, "tools/call", &params));
    assert_eq!(text(&called.message()), "Hello.", "{}", called.body);
    assert!(http.request("DELETE", "/mcp", &headers, "").status < 300);
    assert_eq!(http.post(&headers, &message(3, "tools/list", &json!({}))).status, 404);
    http.end();
}

#[test]
fn a_client_without_a_handshake_needs_no_session() {
    let env = TestEnvironment::new();
    let http = Http::start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]), &[]);
    let (headers, call) = modern("agent", &json!({ "prompt": "hi" }));
    let called = http.post(&headers, &call);
    assert_eq!((called.status, text(&called.message())), (200, "Hello."), "{}", called.body);
    assert_eq!(called.header("mcp-session-id"), None);
    let other = headers.replace("Mcp-Name: agent", "Mcp-Name: other");
    let refused = http.post(&other, &call);
    assert_eq!((refused.status, &refused.message()["error"]["code"]), (400, &json!(-32020)));
    http.end();
}

#[test]
fn closing_the_request_interrupts_the_turn() {
    let env = TestEnvironment::new();
    let script = json!([
        { "steps": [{ "message": "Ready." }] },
        { "steps": [{ "message": "Waiting." }, "idle"] },
        { "steps": [{ "message": "Again." }] },
    ]);
    let http = Http::start(&env, &script, &[]);
    let (headers, call) = modern("agent", &json!({ "prompt": "a" }));
    let thread =
        http.post(&headers, &call).message()["result"]["structuredContent"]["threadId"].clone();
    let (headers, reply) = modern("agent-reply", &json!({ "threadId": thread, "prompt": "b" }));
    let mut stream = http.send("POST", "/mcp", &headers, &reply.to_string());
    let mut seen = String::new();
    let mut piece = [0; 4096];
    while !seen.contains("Waiting.") {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    assert!(
        text(&http.post(&headers, &reply).message()).contains("another call works on the thread")
    );
    drop(stream);
    let again = std::iter::repeat_with(|| http.post(&headers, &reply).message())
        .find(|answer| !text(answer).contains("another call works"));
    assert_eq!(text(&again.unwrap()), "Again.");
    http.end();
}

#[test]
fn requests_of_others_are_refused() {
    let env = TestEnvironment::new();
    let http = Http::start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]), &[]);
    let status = |method: &str, path: &str, headers: &str, body: &str| {
        http.request(method, path, headers, body).status
    };
    let hello = hello().to_string();
    assert_eq!(status("POST", "/mcp", "Host: evil.example\r\n", &hello), 403);
    assert_eq!(status("POST", "/mcp", "Origin: http://evil.example\r\n", &hello), 403);
    let own = format!("Origin: http://{}\r\n", http.address);
    assert_eq!(status("POST", "/mcp", &own, &hello), 200);
    assert_eq!(status("POST", "/", "", &hello), 404);
    assert_eq!(status("PUT", "/mcp", "", &hello), 405);
    assert_eq!(status("POST", "/mcp", "", &"x".repeat((8 << 20) + 1)), 413);
    assert!(matches!(status("POST", "/mcp", "", "garbage"), 400..=499));
    assert_eq!(status("POST", "/mcp", "", &hello), 200, "the server goes on");
    http.end();
}

#[test]
fn other_machines_need_a_token() {
    let env = TestEnvironment::new();
    let open = env.run(&["mcp-server", "--listen", "http://0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2));
    let words = "--http-auth capability-token or signed-bearer-token, or say `--http-auth none`";
    assert!(stderr(&open).contains(words), "{}", stderr(&open));
    let unfit = env.run(&["mcp-server", "--http-allow-host", "h"]);
    assert!(stderr(&unfit).contains("the --http flags control access"), "{}", stderr(&unfit));
    let wrong = env.run(&["mcp-server", "--listen", "127.0.0.1:1"]);
    assert!(stderr(&wrong).contains("give `http://IP:PORT`"), "{}", stderr(&wrong));

    // The SHA-256 of `token`.
    let hash = "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0";
    // By the names of the WebSocket listener too.
    for prefix in ["http", "ws"] {
        let [auth, token] = ["auth", "token-sha256"].map(|flag| format!("--{prefix}-{flag}"));
        let flags = [&auth, "capability-token", &token, hash];
        let http = Http::start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]), &flags);
        let status = |headers: &str| http.post(headers, &hello()).status;
        assert_eq!(status(""), 401);
        assert_eq!(status("Authorization: Bearer other\r\n"), 401);
        assert_eq!(status("Authorization: Bearer token\r\n"), 200);
        http.end();
    }
}

#[test]
fn ids_of_requests_are_checked() {
    let env = TestEnvironment::new();
    let script = json!([{ "steps": [{ "message": "Waiting." }, "idle"] }]);
    let http = Http::start(&env, &script, &[]);
    for id in [Value::Null, json!({}), json!(1.5)] {
        let mut hello = hello();
        hello["id"] = id;
        let refused = http.post("", &hello);
        assert_eq!((refused.status, &refused.message()["error"]["code"]), (400, &json!(-32600)));
    }
    let opened = http.post("", &hello());
    let session = opened.header("mcp-session-id").unwrap();
    let headers = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(http.post(&headers, &initialized).status, 202);
    let meta = json!({ "progressToken": "p" });
    let params = json!({ "name": "agent", "arguments": { "prompt": "hi" }, "_meta": meta });
    let mut stream =
        http.send("POST", "/mcp", &headers, &message(2, "tools/call", &params).to_string());
    let mut seen = String::new();
    let mut piece = [0; 4096];
    while !seen.contains("Waiting.") {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    let list = message(2, "tools/list", &json!({}));
    let second = http.post(&headers, &list);
    assert_eq!((second.status, &second.message()["error"]["code"]), (400, &json!(-32600)));
    // The ids of other sessions are others.
    let other = http.post("", &hello());
    let other = other.header("mcp-session-id").unwrap();
    let others = format!("Mcp-Session-Id: {other}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
    assert_eq!(http.post(&others, &initialized).status, 202);
    assert!(http.post(&others, &list).message()["result"]["tools"].is_array());
    // An id is free after the answer.
    let list = message(3, "tools/list", &json!({}));
    for _ in 0..2 {
        assert!(http.post(&headers, &list).message()["result"]["tools"].is_array());
    }
    // The first request still has its answer.
    let cut = seen.len();
    http.server.signal("TERM");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    seen.push_str(&String::from_utf8_lossy(&rest));
    assert!(!seen[cut..].contains("-32600"), "{seen}");
    let (status, rest) = http.server.end_with_input_open();
    assert!(status.success() && rest.is_empty(), "{status}: {rest:?}");
}

#[test]
fn what_is_no_message_is_refused_with_an_error_of_json_rpc() {
    let env = TestEnvironment::new();
    let http = Http::start(&env, &json!([]), &[]);
    for (body, code, id) in [
        ("", -32700, Value::Null),
        ("{", -32700, Value::Null),
        ("\"", -32700, Value::Null),
        ("\u{1}", -32700, Value::Null),
        ("[]", -32600, Value::Null),
        ("null", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        (r#"{"id":7}"#, -32600, json!(7)),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":7,"method":3}"#, -32600, json!(7)),
    ] {
        let refused = http.request("POST", "/mcp", "", body);
        let message = refused.message();
        assert_eq!((refused.status, &message["error"]["code"]), (400, &json!(code)), "{body}");
        assert_eq!(message["id"], id, "{body}: {message}");
    }
    http.end();
}

#[test]
fn idle_connections_keep_no_client_out() {
    let env = TestEnvironment::new();
    let http = Http::start(&env, &json!([{ "steps": [{ "message": "Hello." }] }]), &[]);
    // Each of them could be served, and the last ones have begun a request.
    let mut idle: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(&http.address).unwrap()).collect();
    for stream in &mut idle[290..] {
        stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
    }
    assert_eq!(http.post("", &hello()).status, 200);
    // The oldest had to give way.
    idle[0].set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(idle[0].read(&mut [0; 64]).unwrap_or(0), 0);
    http.end();
}
