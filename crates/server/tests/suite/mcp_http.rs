//! MCP servers over HTTP, with a server in this process: what requests carry, which redirects are followed,
//! and logins.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::says;

/// A request as it arrived.
#[derive(Clone)]
struct Request {
    /// `POST /mcp`.
    line: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Status, headers and body of an answer.
type Response = (u16, Vec<(&'static str, String)>, String);

/// A server whose answers a function gives.
struct HttpServer {
    origin: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl HttpServer {
    async fn start(answer: impl Fn(&Request, &str) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (requests, own) = (seen.clone(), origin.clone());
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (requests, own, answer) = (requests.clone(), own.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(request) = read(&mut stream).await else { return };
                    requests.lock().unwrap().push(request.clone());
                    let (status, headers, body) = answer(&request, &own);
                    let mut text = format!("HTTP/1.1 {status} x\r\nconnection: close\r\n");
                    for (name, value) in headers {
                        text.push_str(&format!("{name}: {value}\r\n"));
                    }
                    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
                    let _ = stream.write_all(text.as_bytes()).await;
                });
            }
        });
        Self { origin, seen }
    }

    fn seen(&self, line: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request.line == line).cloned().collect()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
            let mut lines = text.lines();
            let line = lines.next()?.rsplit_once(' ')?.0.to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let length = length.map_or(0, |(_, length)| length.parse().unwrap());
            if bytes.len() >= head + 4 + length {
                let body = String::from_utf8_lossy(&bytes[head + 4..head + 4 + length]).into();
                return Some(Request { line, headers, body });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

fn json_answer(value: &Value) -> Response {
    (200, vec![("content-type", "application/json".to_owned())], value.to_string())
}

/// What a server of the earlier era answers.
fn protocol(request: &Request) -> Response {
    if request.line != "POST /mcp" {
        return (405, Vec::new(), String::new());
    }
    let message = request.json();
    let answer = |result: Value| {
        json_answer(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    };
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => answer(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "s", "version": "1" },
        })),
        "tools/list" => {
            answer(json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }))
        }
        "tools/call" => answer(json!({ "content": [{ "type": "text", "text": "done" }] })),
        "server/discover" => (404, Vec::new(), "not here".to_owned()),
        _ => (202, Vec::new(), String::new()),
    }
}

async fn environment(config: &str) -> TestEnvironment {
    let mut env = TestEnvironment::with_responses(json!([says("One.")])).await;
    env.variables.push(("THE_TOKEN".into(), "secret".into()));
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    // Keys of the root stand before the tables.
    let (root, tables) = config.split_once("---\n").unwrap_or(("", config));
    env.write_config(&format!("{root}{text}\n{tables}"));
    env
}

async fn status(peer: &mut Peer) -> Value {
    let mut listed = peer.call("mcpServerStatus/list", json!({ "start": true })).await;
    listed["data"][0].take()
}

// Effect of `mcp_servers.<id>.url`, `mcp_servers.<id>.bearer_token_env_var`.
// Effect of `mcp_servers.<id>.http_headers`, `mcp_servers.<id>.env_http_headers`.
#[tokio::test]
async fn requests_carry_the_configured_headers_and_token() {
    let http = HttpServer::start(|request, _| protocol(request)).await;
    let env = environment(&format!(
        "[mcp_servers.web]\nurl = \"{}/mcp\"\nbearer_token_env_var = \"THE_TOKEN\"\n\
         http_headers = {{ x-one = \"1\" }}\nenv_http_headers = {{ x-two = \"THE_TOKEN\" }}\n",
        http.origin
    ))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let row = status(&mut peer).await;
    assert_eq!(
        (&row["authStatus"], &row["tools"]["echo"]["name"]),
        (&json!("bearerToken"), &json!("echo"))
    );
    let thread = peer.start_thread(json!({})).await;
    let call = json!({ "threadId": thread, "server": "web", "tool": "echo" });
    let done = peer.call("mcpServer/tool/call", call).await;
    assert_eq!(done["content"][0]["text"], "done");
    for request in http.seen("POST /mcp") {
        assert_eq!(request.header("authorization"), Some("Bearer secret"));
        assert_eq!((request.header("x-one"), request.header("x-two")), (Some("1"), Some("secret")));
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_gets_no_request() {
    let other = HttpServer::start(|request, _| protocol(request)).await;
    let target = format!("{}/mcp", other.origin);
    let http =
        HttpServer::start(move |_, _| (307, vec![("location", target.clone())], String::new()));
    let http = http.await;
    let env = environment(&format!("[mcp_servers.web]\nurl = \"{}/mcp\"\n", http.origin)).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let row = status(&mut peer).await;
    assert_eq!((&row["status"], &row["tools"]), (&json!("failed"), &json!({})));
    let error = row["error"].as_str().unwrap();
    assert!(error.contains("another origin and gets no request"), "{error}");
    assert!(other.seen("POST /mcp").is_empty());
}

/// A server that demands a login, and its authorization server.
fn with_login(request: &Request, origin: &str) -> Response {
    let path = request.line.split(' ').nth(1).unwrap_or_default();
    match path {
        "/mcp" if request.header("authorization") != Some("Bearer fresh") => {
            let challenge = format!(
                "Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\", \
                 scope=\"asked\""
            );
            (401, vec![("www-authenticate", challenge)], String::new())
        }
        "/mcp" => protocol(request),
        "/.well-known/oauth-protected-resource/mcp" => json_answer(
            &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] }),
        ),
        "/.well-known/oauth-authorization-server" => json_answer(&json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "none"],
            "client_id_metadata_document_supported": true,
            "authorization_response_iss_parameter_supported": true,
        })),
        "/token" => json_answer(&json!({
            "access_token": if request.body.contains("refresh_token=") { "fresh" } else { "stale" },
            "refresh_token": "again", "token_type": "Bearer", "expires_in": 3600,
        })),
        _ => (404, Vec::new(), String::new()),
    }
}

/// The value of a member of the query.
fn member(url: &str, name: &str) -> String {
    let query = url.split_once('?').unwrap().1;
    let value = query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap();
    percent_encoding::percent_decode_str(value).decode_utf8().unwrap().into_owned()
}

/// What the browser does after a login.
async fn return_to(url: &str, issuer: &str) {
    let (redirect, state) = (member(url, "redirect_uri"), member(url, "state"));
    let address = redirect.strip_prefix("http://").unwrap();
    let (host, path) = address.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request =
        format!("GET /{path}?code=c&state={state}&iss={issuer} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
}

// Effect of `mcp_servers.<id>.scopes`, `mcp_servers.<id>.oauth_resource`.
// Effect of `mcp_servers.<id>.oauth.client_id`, `mcp_servers.<id>.oauth.client_secret_env`.
// Effect of `mcp_oauth_callback_port`, `mcp_oauth_callback_url`.
#[tokio::test]
async fn a_registered_client_logs_in_and_its_tokens_are_refreshed() {
    let http = HttpServer::start(with_login).await;
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let env = environment(&format!(
        "mcp_oauth_callback_port = {port}\n\
         mcp_oauth_callback_url = \"http://127.0.0.1:{port}/mine\"\n---\n\
         [mcp_servers.web]\nurl = \"{}/mcp\"\nscopes = [\"wanted\"]\n\
         oauth_resource = \"https://resource\"\n\
         oauth = {{ client_id = \"me\", client_secret_env = \"THE_TOKEN\" }}\n",
        http.origin
    ))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(status(&mut peer).await["authStatus"], "notLoggedIn");
    let login = json!({ "name": "web", "timeoutSecs": 60 });
    let begun = peer.call("mcpServer/oauth/login", login.clone()).await;
    let url = begun["authorizationUrl"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&format!("{}/authorize?", http.origin)), "{url}");
    assert_eq!(member(&url, "redirect_uri"), format!("http://127.0.0.1:{port}/mine"));
    assert_eq!((member(&url, "client_id"), member(&url, "scope")), ("me".into(), "wanted".into()));
    assert_eq!(member(&url, "resource"), "https://resource");
    assert_eq!(member(&url, "code_challenge_method"), "S256");
    return_to(&url, &http.origin).await;
    let ended = peer.expect("mcpServer/oauthLogin/completed").await;
    assert_eq!(ended, json!({ "name": "web", "success": true, "error": null }));
    // The server refuses the first token, which is refreshed at once.
    let row = status(&mut peer).await;
    assert_eq!(
        (&row["authStatus"], &row["tools"]["echo"]["name"]),
        (&json!("oAuth"), &json!("echo"))
    );
    let tokens = http.seen("POST /token");
    assert_eq!(tokens.len(), 2);
    for request in &tokens {
        assert!(request.body.contains("client_secret=secret"), "{}", request.body);
        assert!(request.body.contains("resource=https%3A%2F%2Fresource"), "{}", request.body);
    }
    assert!(http.seen("POST /register").is_empty());
    let folder = env.home().join("mcp-logins");
    let file = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "json"));
    let mode = std::os::unix::fs::MetadataExt::mode(&file.unwrap().metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

// Effect of `mcp_servers.<id>.oauth.client_metadata_url`, `mcp_oauth_credentials_store`.
#[tokio::test]
async fn an_answer_of_another_issuer_is_no_login() {
    let http = HttpServer::start(with_login).await;
    let env = environment(&format!(
        "mcp_oauth_credentials_store = \"keyring\"\n---\n[mcp_servers.web]\nurl = \"{}/mcp\"\n\
         oauth = {{ client_metadata_url = \"https://me/metadata.json\" }}\n",
        http.origin
    ))
    .await;
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let login = json!({ "name": "web" });
    let refused = peer.refused("mcpServer/oauth/login", login.clone()).await;
    let message = &refused.message;
    assert!(message.contains("mcp_oauth_credentials_store"), "{message}");
    assert!(message.contains("set it to `file`"), "{message}");
    env.write_config(&text.replace("\"keyring\"", "\"file\""));
    let begun = peer.call("mcpServer/oauth/login", login).await;
    let url = begun["authorizationUrl"].as_str().unwrap().to_owned();
    assert_eq!(member(&url, "client_id"), "https://me/metadata.json");
    assert_eq!(member(&url, "scope"), "asked");
    return_to(&url, "https://other").await;
    let ended = peer.expect("mcpServer/oauthLogin/completed").await;
    assert_eq!(ended["success"], false, "{ended}");
    assert!(http.seen("POST /token").is_empty());
}

// The token has a life that is written as text, and one that is over; the authorization server refuses to
// refresh it.
#[tokio::test]
async fn a_refresh_token_that_is_refused_ends_the_login() {
    let http = HttpServer::start(|request, origin| {
        if request.line != "POST /token" {
            return with_login(request, origin);
        }
        if request.body.contains("refresh_token=") {
            let headers = vec![("content-type", "application/json".to_owned())];
            return (400, headers, json!({ "error": "invalid_grant" }).to_string());
        }
        json_answer(&json!({
            "access_token": "stale", "refresh_token": "again", "token_type": "Bearer",
            "expires_in": "0",
        }))
    });
    let http = http.await;
    let env = environment(&format!(
        "[mcp_servers.web]\nurl = \"{}/mcp\"\noauth = {{ client_id = \"me\" }}\n",
        http.origin
    ))
    .await;
    let server = env.start();
    let mut peer = server.connect().await;
    let begun = peer.call("mcpServer/oauth/login", json!({ "name": "web" })).await;
    return_to(begun["authorizationUrl"].as_str().unwrap(), &http.origin).await;
    let ended = peer.expect("mcpServer/oauthLogin/completed").await;
    assert_eq!(ended, json!({ "name": "web", "success": true, "error": null }));
    let thread = peer.start_thread(json!({})).await;
    let call = json!({ "threadId": thread, "server": "web", "tool": "echo" });
    for _ in 0..3 {
        peer.refused("mcpServer/tool/call", call.clone()).await;
        assert_eq!(status(&mut peer).await["authStatus"], "notLoggedIn");
    }
    let tokens = http.seen("POST /token");
    let refreshes = tokens.iter().filter(|request| request.body.contains("refresh_token="));
    assert_eq!(refreshes.count(), 1);
}
