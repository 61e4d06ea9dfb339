//! The managed network of permission profiles, key by key: real commands reach services of this
//! machine through the real proxy.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};
use testkit::{TestEnvironment, TestServer};

use crate::{runs, says, tool_outputs};

const COMMAND: &str = "item/commandExecution/requestApproval";

/// A service that answers every connection with `there`.
fn serve(mut stream: impl Read + Write) {
    let mut bytes = [0; 1024];
    let _ = stream.read(&mut bytes);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthere\n");
}

pub(crate) fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    port
}

/// A script that sends a request through the proxy at `at` and prints the answer.
fn request(at: u16, method: &str, url: &str, header: &str) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/{at} && \
         printf '{method} {url} HTTP/1.1\\r\\n{header}\\r\\n' >&3 && cat <&3"
    )
}

pub(crate) fn get(port: u16) -> String {
    request(3128, "GET", &format!("http://127.0.0.1:{port}/"), "")
}

/// An environment whose commands have the managed network with these keys; its model runs `scripts`.
async fn env(keys: &str, scripts: &[&str]) -> TestEnvironment {
    let mut responses: Vec<Value> = scripts.iter().map(|script| runs(script)).collect();
    responses.push(says("Done."));
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "default_permissions = \"online\"\napproval_policy = \"never\"\n{config}\n\
         [permissions.online.filesystem]\n\":root\" = \"read\"\n\
         [permissions.online.network]\nenabled = true\n{keys}\n"
    ));
    env
}

/// The output of the scripts.
async fn printed(keys: &str, scripts: &[&str]) -> Vec<String> {
    let env = env(keys, scripts).await;
    turn(&env, &env.start()).await
}

async fn turn(env: &TestEnvironment, server: &TestServer) -> Vec<String> {
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    tool_outputs(env)
}

fn assert_each(outputs: &[String], expected: &[&str]) {
    assert_eq!(outputs.len(), expected.len(), "{outputs:?}");
    for (output, expected) in outputs.iter().zip(expected) {
        assert!(output.contains(expected), "{expected}: {outputs:#?}");
    }
}

const LOCAL: &str = "allow_local_binding = true\nallowed_domains = [\"127.0.0.1\"]\n";

// Effect of `permissions.<name>.network.enabled`, `permissions.<name>.network.mode`.
#[tokio::test]
async fn mode() {
    let port = service();
    let post = get(port).replace("GET", "POST");
    let outputs = printed(&format!("{LOCAL}mode = \"limited\""), &[&get(port), &post]).await;
    assert_each(&outputs, &["there", "limited"]);
    let outputs = printed(&format!("{LOCAL}mode = \"full\""), &[&post]).await;
    assert_each(&outputs, &["there"]);
}

// Effect of `permissions.<name>.network.allowed_domains`.
#[tokio::test]
async fn allowed_domains() {
    let port = service();
    let other = get(port).replace("//127.0.0.1", "//127.0.0.2");
    let outputs = printed(LOCAL, &[&get(port), &other]).await;
    assert_each(&outputs, &["there", "not among the allowed domains"]);
}

// Effect of `permissions.<name>.network.denied_domains`.
#[tokio::test]
async fn denied_domains() {
    let keys = "allow_local_binding = true\nallowed_domains = [\"*\"]\n\
                denied_domains = [\"127.0.0.1\"]";
    let port = service();
    assert_each(&printed(keys, &[&get(port)]).await, &["is denied"]);
}

// Effect of `permissions.<name>.network.allow_local_binding`.
#[tokio::test]
async fn allow_local_binding() {
    let port = service();
    let named = get(port).replace("//127.0.0.1", "//localhost");
    let closed = "allowed_domains = [\"127.0.0.1\", \"localhost\"]";
    let outputs = printed(closed, &[&get(port), &named]).await;
    assert_each(&outputs, &["`allow_local_binding`", "`allow_local_binding`"]);
    let open = format!("{closed}\nallow_local_binding = true");
    assert_each(&printed(&open, &[&get(port), &named]).await, &["there", "there"]);
}

/// Programs that use the proxy of the environment, as `curl` and HTTP libraries do.
#[tokio::test]
async fn ordinary_programs_reach_this_machine_where_its_name_is_allowed() {
    let port = service();
    let fetch = |host: &str| format!("curl -sS --max-time 10 http://{host}:{port}/ 2>&1; true");
    let scripts = [fetch("localhost"), fetch("127.0.0.1"), "echo \"[$NO_PROXY]\"".to_owned()];
    let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
    for (domains, expected) in [
        ("\"localhost\"", ["there", "Failed to connect", "[127.0.0.1,::1]"]),
        ("\"localhost\", \"127.0.0.1\", \"::1\"", ["there", "there", "[]"]),
        // The command's own servers are meant.
        ("\"*\"", ["Failed to connect", "Failed to connect", "[localhost,127.0.0.1,::1]"]),
    ] {
        let keys = format!("allow_local_binding = true\nallowed_domains = [{domains}]");
        let outputs = printed(&keys, &scripts).await;
        let outputs: Vec<String> = outputs
            .iter()
            .map(|output| output.replace("Could not connect", "Failed to connect"))
            .collect();
        assert_each(&outputs, &expected);
    }
    let closed = "allowed_domains = [\"localhost\"]";
    assert_each(&printed(closed, &scripts[2..]).await, &["[localhost,127.0.0.1,::1]"]);
}

// Effect of `permissions.<name>.network.allow_unix_sockets`.
#[tokio::test]
async fn allow_unix_sockets() {
    unix_sockets("allow_unix_sockets = [\"SOCKET\"]").await;
}

// Effect of `permissions.<name>.network.dangerously_allow_all_unix_sockets`.
#[tokio::test]
async fn dangerously_allow_all_unix_sockets() {
    unix_sockets("dangerously_allow_all_unix_sockets = true").await;
}

async fn unix_sockets(keys: &str) {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().canonicalize().unwrap().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    let header = format!("x-unix-socket: {}\\r\\n", path.display());
    let script = request(3128, "GET", "http://localhost/", &header);
    let keys = keys.replace("SOCKET", &path.display().to_string());
    assert_each(&printed(&keys, &[&script]).await, &["there"]);
    assert_each(&printed(LOCAL, &[&script]).await, &["403"]);
}

// Effect of `permissions.<name>.network.allow_upstream_proxy`.
#[tokio::test]
async fn allow_upstream_proxy() {
    let keys = "allow_upstream_proxy = true\nallowed_domains = [\"93.184.216.34\"]";
    let script = request(3128, "GET", "http://93.184.216.34/", "");
    let mut env = env(keys, &[&script]).await;
    let proxy = format!("http://127.0.0.1:{}", service());
    env.variables.push(("HTTPS_PROXY".into(), proxy.into()));
    assert_each(&turn(&env, &env.start()).await, &["there"]);
}

// Effect of `permissions.<name>.network.dangerously_allow_non_loopback_proxy`.
#[tokio::test]
async fn dangerously_allow_non_loopback_proxy() {
    let port = service();
    let keys = format!("{LOCAL}proxy_url = \"http://192.0.2.1:3128\"");
    let refused = "`permissions.online.network.proxy_url`: `192.0.2.1` is not a loopback address";
    assert_each(&printed(&keys, &[&get(port)]).await, &[refused]);
    let keys = format!("{keys}\ndangerously_allow_non_loopback_proxy = true");
    assert_each(&printed(&keys, &[&get(port)]).await, &["there"]);
}

// Effect of `permissions.<name>.network.proxy_url`.
#[tokio::test]
async fn proxy_url() {
    let url = format!("http://127.0.0.1:{}/", service());
    let keys = format!("{LOCAL}proxy_url = \"http://127.0.0.1:8118\"");
    let scripts = [request(8118, "GET", &url, ""), request(3128, "GET", &url, "")];
    let outputs = printed(&keys, &[&scripts[0], &scripts[1], "echo $HTTP_PROXY"]).await;
    assert_each(&outputs, &["there", "refused", "http://127.0.0.1:8118"]);
}

fn socks(at: u16, port: u16) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/{at} && \
         printf '\\x05\\x01\\x00\\x05\\x01\\x00\\x01\\x7f\\x00\\x00\\x01\\x{:02x}\\x{:02x}hello' >&3 && cat <&3",
        port >> 8,
        port & 255
    )
}

// Effect of `permissions.<name>.network.enable_socks5`.
#[tokio::test]
async fn enable_socks5() {
    let port = service();
    assert_each(&printed(LOCAL, &[&socks(1080, port)]).await, &["refused"]);
    let keys = format!("{LOCAL}enable_socks5 = true");
    assert_each(&printed(&keys, &[&socks(1080, port)]).await, &["there"]);
}

// Effect of `permissions.<name>.network.socks_url`.
#[tokio::test]
async fn socks_url() {
    let port = service();
    let keys = format!("{LOCAL}enable_socks5 = true\nsocks_url = \"socks5://127.0.0.1:9050\"");
    let outputs = printed(&keys, &[&socks(9050, port), &socks(1080, port)]).await;
    assert_each(&outputs, &["there", "refused"]);
}

// Effect of `permissions.<name>.network.enable_socks5_udp`.
#[tokio::test]
async fn enable_socks5_udp() {
    let echo = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((length, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..length], from);
        }
    });
    let script = format!(
        "exec 3<>/dev/udp/127.0.0.1/1080 && \
         printf '\\x00\\x00\\x00\\x01\\x7f\\x00\\x00\\x01\\x{:02x}\\x{:02x}ping' >&3 && \
         timeout 5 head -c 14 <&3 | tail -c 4",
        port >> 8,
        port & 255
    );
    let keys = format!("{LOCAL}enable_socks5 = true\nenable_socks5_udp = true");
    assert_each(&printed(&keys, &[&script]).await, &["ping"]);
}

#[tokio::test]
async fn approval_for_an_unlisted_host_is_requested_once() {
    let port = service();
    let twice = format!("({0}) & ({0}); wait", get(port));
    let env = env("allow_local_binding = true", &[&twice, &get(port)]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "onRequest" })).await;
    peer.forget();
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    let context = json!({ "host": "127.0.0.1", "protocol": "http" });
    assert_eq!(asked.params["networkApprovalContext"], context);
    assert_eq!(asked.params["command"], json!(twice));
    let reason = asked.params["reason"].as_str().unwrap();
    assert_eq!(reason, format!("to reach 127.0.0.1:{port} (http)"));
    peer.decide(&asked, "acceptForSession").await;
    peer.turn_end(&turn).await;
    let outputs = tool_outputs(&env);
    assert_each(&outputs, &["there", "there"]);
    assert_eq!(outputs[0].matches("there").count(), 2, "{outputs:?}");
    let asks = peer.transcript().iter().filter(|line| line.starts_with("? ")).count();
    assert_eq!(asks, 1, "{:?}", peer.transcript());
}

#[tokio::test]
async fn a_declined_host_is_refused_and_the_end_of_a_command_withdraws_its_question() {
    let port = service();
    let script = format!("timeout 0.3 bash -c \"{}\"; echo over", get(port).replace('$', "\\$"));
    let env = env("allow_local_binding = true", &[&get(port), &script]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "onRequest" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    peer.decide(&asked, "decline").await;
    peer.expect("serverRequest/resolved").await;
    // The second request is not answered.
    peer.asked(COMMAND).await;
    peer.expect("serverRequest/resolved").await;
    peer.turn_end(&turn).await;
    assert_each(&tool_outputs(&env), &["not among the allowed domains", "over"]);
}

#[tokio::test]
async fn client_commands_go_through_the_proxy() {
    let port = service();
    let env = env(LOCAL, &[]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let other = get(port).replace("//127.0.0.1", "//127.0.0.2");
    for (script, expect) in [(get(port), "there"), (other, "not among the allowed domains")] {
        let ran = peer.call("command/exec", json!({ "command": ["bash", "-c", script] })).await;
        assert!(ran["stdout"].as_str().unwrap().contains(expect), "{ran}");
    }
}

#[tokio::test]
async fn an_invalid_answer_about_a_host_refuses_it_with_a_warning() {
    let amendment = json!({ "acceptWithExecpolicyAmendment": {
        "execpolicy_amendment": ["cat"] } });
    let host = json!({ "applyNetworkPolicyAmendment": { "network_policy_amendment": {
        "host": "127.0.0.1", "action": "allow" } } });
    for decision in [amendment, host, json!("approved")] {
        let port = service();
        let env = env("allow_local_binding = true", &[&get(port)]).await;
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "onRequest" })).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(COMMAND).await;
        peer.decide(&asked, decision.clone()).await;
        let notice = peer.expect("warning").await;
        assert!(notice["message"].as_str().unwrap().contains("is declined"), "{notice}");
        let item = peer.item("commandExecution").await;
        let output = item["aggregatedOutput"].as_str().unwrap();
        assert!(output.contains("was not allowed: declined"), "{output}");
        assert!(!output.contains("there\n"), "{output}");
        peer.turn_end(&turn).await;
    }
}
