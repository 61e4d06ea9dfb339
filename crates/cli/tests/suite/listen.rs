//! `agentd app-server --listen`: contradictory flags, invalid secrets, several addresses at once,
//! and shutdown.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::socket::{Socket, get, head};
use crate::common::{Running, TestEnvironment, stderr, stdout};
use serde_json::json;

/// Writes a file for a secret, with a mode.
fn secret(env: &TestEnvironment, name: &str, text: &str, mode: u32) -> String {
    let path = env.work().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Starts the server with `arguments`, split at spaces; standard error goes to a file of the
/// working folder.
fn start(env: &TestEnvironment, arguments: &str) -> Running {
    let mut command = env.agentd(&["app-server"]);
    command.args(arguments.split_whitespace());
    Running::start(command.stderr(File::create(address_output(env)).unwrap()))
}

fn address_output(env: &TestEnvironment) -> PathBuf {
    env.work().join("stderr")
}

/// Returns the address in the line that a server prints when it listens.
fn address(server: &Running) -> String {
    let line = server.line_with("");
    line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned()
}

fn web(server: &Running) -> String {
    let address = address(server);
    address.strip_prefix("ws://").unwrap_or_else(|| panic!("{address}")).to_owned()
}

/// Starts a server that must fail with this exit code and message on standard error, without output
/// or files.
fn refuse(env: &TestEnvironment, arguments: &str, code: i32, words: &str) {
    let mut all = vec!["app-server"];
    all.extend(arguments.split_whitespace().map(|word| if word == "''" { "" } else { word }));
    let output = env.run(&all);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
    assert!(said.contains(words), "{arguments}: {said}");
    assert_eq!(stdout(&output), "", "{arguments}");
    assert!(!said.contains("panicked"), "{arguments}: {said}");
    assert_eq!(fs::read_dir(env.home()).unwrap().count(), 0, "{arguments}: the home is untouched");
}

#[test]
fn invalid_listen_addresses_are_refused() {
    let env = TestEnvironment::new();
    for (arguments, code, words) in [
        ("--listen ws://127.0.0.1", 2, "as in `ws://127.0.0.1:4500`"),
        ("--listen ws://example.com:1", 2, "a WebSocket address is `ws://IP:PORT`"),
        ("--listen ws://127.0.0.1:65536", 2, "a WebSocket address is `ws://IP:PORT`"),
        ("--listen wss://127.0.0.1:1", 2, "use `stdio://`, `ws://IP:PORT`"),
        ("--listen http://127.0.0.1:1", 2, "use `stdio://`, `ws://IP:PORT`"),
        ("--listen unix://relative.sock", 2, "the path of a socket must be absolute"),
        ("--listen ''", 2, "use `stdio://`"),
        ("--listen", 2, "a value is required"),
        (
            "--listen off --listen stdio://",
            1,
            "--listen off: cannot be combined with another address",
        ),
        ("--listen ws://127.0.0.1:0 --listen off", 1, "cannot be combined with another address"),
        ("--listen stdio:// --listen stdio://", 1, "the same address is given twice"),
        ("--listen unix:// --listen unix://", 1, "the same address is given twice"),
        ("--listen ws://127.0.0.1:1 --listen ws://127.0.0.1:1/", 1, "given twice"),
        (
            "--listen systemd://",
            1,
            "no socket was passed to this process (see LISTEN_FDS and LISTEN_PID)",
        ),
        ("--listen unix:///proc/agent.sock", 1, "unix:///proc/agent.sock: "),
        ("--shutdown-grace -1", 2, "unexpected argument '-1'"),
        ("--shutdown-grace soon", 2, "invalid value 'soon'"),
    ] {
        refuse(&env, arguments, code, words);
    }
}

#[test]
fn remote_listeners_need_credentials_or_an_explicit_flag() {
    let env = TestEnvironment::new();
    let words = "anyone who connects can run commands. Give --ws-auth";
    for arguments in [
        "--listen ws://0.0.0.0:0",
        "--listen ws://[::]:0",
        "--listen ws://192.0.2.1:80",
        "--listen ws://127.0.0.1:0 --listen ws://0.0.0.0:0",
        "--listen ws://0.0.0.0:0 --ws-allow-host agents.example",
        "--listen ws://[::ffff:127.0.0.1]:0",
    ] {
        refuse(&env, arguments, 1, words);
    }
}

#[test]
fn invalid_credential_options_are_refused() {
    let env = TestEnvironment::new();
    let token = secret(&env, "token", "a-token\n", 0o600);
    let hash = "9".repeat(64);
    let web = "--listen ws://127.0.0.1:0";
    let capability = "--ws-auth capability-token";
    let signed = "--ws-auth signed-bearer-token";
    for (arguments, code, words) in [
        (
            format!("{capability} --ws-token-file {token}"),
            1,
            "`--listen ws://IP:PORT`: add such an address",
        ),
        ("--ws-allow-origin http://a".into(), 1, "`--listen ws://IP:PORT`: add such an address"),
        ("--listen unix:// --ws-allow-host a".into(), 1, "add such an address"),
        (format!("{web} --ws-auth password"), 2, "invalid value 'password'"),
        (format!("{web} {capability}"), 1, "give either --ws-token-file or --ws-token-sha256"),
        (
            format!("{web} {capability} --ws-token-file {token} --ws-token-sha256 {hash}"),
            1,
            "either",
        ),
        (format!("{web} --ws-token-file {token}"), 1, "--ws-token-file needs `--ws-auth capa"),
        (
            format!("{web} --metrics-token-file relative"),
            1,
            "--metrics-token-file relative: the path is",
        ),
        (format!("--metrics-token-file {token}"), 1, "--metrics-token-file is for `--listen ws"),
        (
            format!("{web} {capability} --ws-token-file {token} --metrics-token-file {token}"),
            1,
            "the file contains the clients' token",
        ),
        (format!("{web} --ws-token-sha256 {hash}"), 1, "--ws-token-sha256 needs `--ws-auth"),
        (format!("{web} --ws-auth none --ws-token-file {token}"), 1, "needs `--ws-auth capabil"),
        (format!("{web} {signed} --ws-token-file {token}"), 1, "--ws-token-file needs"),
        (
            format!("{web} {signed}"),
            1,
            "--ws-auth signed-bearer-token: give --ws-shared-secret-file",
        ),
        (format!("{web} --ws-shared-secret-file {token}"), 1, "needs `--ws-auth signed-bearer"),
        (format!("{web} --ws-issuer a"), 1, "--ws-issuer needs `--ws-auth signed-bearer-token`"),
        (
            format!("{web} {capability} --ws-token-sha256 {hash} --ws-audience a"),
            1,
            "--ws-audience",
        ),
        (format!("{web} --ws-max-clock-skew-seconds 1"), 1, "--ws-max-clock-skew-seconds needs"),
        (format!("{web} --ws-max-clock-skew-seconds -1"), 2, "unexpected argument"),
        (
            format!("{web} {capability} --ws-token-sha256 {}", &hash[1..]),
            1,
            "64 hexadecimal digits",
        ),
        (format!("{web} {capability} --ws-token-sha256 9{hash}"), 1, "64 hexadecimal digits"),
        (format!("{web} {capability} --ws-token-sha256 g{}", &hash[1..]), 1, "64 hexadecimal"),
        (format!("{web} {capability} --ws-token-sha256 +{}", &hash[1..]), 1, "64 hexadecimal"),
        (format!("{web} {capability} --ws-token-sha256 ä{}", &hash[2..]), 1, "64 hexadecimal"),
        (
            format!("{web} --ws-allow-origin editor.example"),
            1,
            "--ws-allow-origin editor.example: give",
        ),
        (
            format!("{web} --ws-allow-origin https://editor.example/"),
            1,
            "as in `https://editor.exam",
        ),
        (
            format!("{web} --ws-allow-origin *"),
            1,
            "--ws-allow-origin *: give scheme, host and port",
        ),
        (format!("{web} --ws-allow-origin https://*.example"), 1, "give scheme, host and port"),
        (format!("{web} --ws-allow-origin null"), 1, "give scheme, host and port"),
        (format!("{web} --ws-allow-origin https://"), 1, "give scheme, host and port"),
        (format!("{web} --ws-allow-host a:1"), 1, "--ws-allow-host a:1: give a host name without"),
        (format!("{web} --ws-allow-host http://a"), 1, "give a host name without scheme or port"),
        (format!("{web} --ws-allow-host *"), 1, "give a host name without scheme or port"),
        (format!("{web} --ws-allow-host ''"), 1, "give a host name without scheme or port"),
    ] {
        refuse(&env, &arguments, code, words);
    }
}

#[test]
fn writable_or_invalid_secret_files_are_refused() {
    let env = TestEnvironment::new();
    let text = "0123456789abcdef0123456789abcdef";
    let file = |name: &str, text: &str, mode| secret(&env, name, text, mode);
    let flags = [
        ("capability-token", "--ws-token-file"),
        ("signed-bearer-token", "--ws-shared-secret-file"),
    ];
    for (mode, flag) in flags {
        let check = |path: &str, words: &str| {
            let arguments = format!("--listen ws://127.0.0.1:0 --ws-auth {mode} {flag} {path}");
            refuse(&env, &arguments, 1, &format!("{flag} {path}: {words}"));
        };
        for loose in [0o620, 0o602, 0o622, 0o666] {
            let path = file("loose", text, loose);
            let words = format!(
                "other users can change this file (mode {loose:03o}); run `chmod 600 {path}`"
            );
            check(&path, &words);
        }
        file("fine", text, 0o600);
        check("fine", "the path is relative; give an absolute one");
        check("./fine", "the path is relative; give an absolute one");
        check("/nonexistent/file", "No such file or directory");
        check(env.work().to_str().unwrap(), "it is a folder, not a regular file");
        check("/dev/zero", "it is a device, not a regular file");
        check(&file("empty", "", 0o600), "the file is empty");
        check(&file("blank", " \n\t\n", 0o600), "the file is empty");
        check(&file("long", &"x".repeat((64 << 10) + 1), 0o600), "it is larger than 64 KiB");
    }
    let capability = "--listen ws://127.0.0.1:0 --ws-auth capability-token --ws-token-file";
    for (name, text) in [("two-words", "a token"), ("lines", "a\ntoken"), ("letters", "tokän")] {
        let path = file(name, text, 0o600);
        refuse(
            &env,
            &format!("{capability} {path}"),
            1,
            "the token must be a single word of visible ASCII",
        );
    }
    let signed = "--listen ws://127.0.0.1:0 --ws-auth signed-bearer-token --ws-shared-secret-file";
    for text in [&text[1..], "short", &format!("  {}\n", &text[1..])] {
        let path = file("short", text, 0o600);
        refuse(&env, &format!("{signed} {path}"), 1, "the secret is shorter than 32 bytes");
    }
}

#[test]
fn a_secret_readable_by_others_is_used_with_a_warning() {
    // Container platforms mount secrets with these modes.
    for mode in [0o644, 0o444, 0o440] {
        let env = TestEnvironment::new();
        let token = secret(&env, "token", "a-token\n", mode);
        let flags = "--listen ws://127.0.0.1:0 --ws-auth capability-token --ws-token-file";
        let server = start(&env, &format!("{flags} {token}"));
        server.line_with("ws://");
        server.signal("TERM");
        assert!(server.end().0.success());
        let address_output = fs::read_to_string(address_output(&env)).unwrap();
        let words = format!("WARNING: {token}: other users can read this secret (mode {mode:03o})");
        assert!(address_output.contains(&words), "{address_output}");
    }
}

#[test]
fn a_secret_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file of another user");
        return;
    }
    // The server runs as root too, and must still refuse the file.
    let env = TestEnvironment::new();
    let path = secret(&env, "token", "a-token", 0o600);
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    let arguments =
        format!("--listen ws://127.0.0.1:0 --ws-auth capability-token --ws-token-file {path}");
    refuse(&env, &arguments, 1, "the file belongs to another user");
}

#[test]
fn addresses_are_printed_for_scripts_and_probes_answer() {
    let env = TestEnvironment::new();
    let at = env.work().join("a.sock");
    let arguments = format!(
        "--listen ws://127.0.0.1:0 --listen ws://localhost:0 --listen unix://{}",
        at.display()
    );
    let server = start(&env, &arguments);
    for _ in 0..2 {
        let address = web(&server);
        let (ip, port) = address.rsplit_once(':').unwrap();
        assert_eq!(ip, "127.0.0.1");
        assert_ne!(port.parse::<u16>().unwrap(), 0);
        for probe in ["/healthz", "/readyz"] {
            assert_eq!(get(&address, probe), 200);
        }
        assert_eq!(get(&address, "/"), 426);
    }
    assert_eq!(address(&server), format!("unix://{}", at.display()));
    server.signal("TERM");
    assert!(server.end().0.success());
    assert_eq!(fs::read_to_string(address_output(&env)).unwrap(), "");
    assert!(!at.exists());
}

#[test]
fn metrics_are_served_to_clients_and_to_the_holder_of_their_own_token() {
    let env = TestEnvironment::new();
    let clients = secret(&env, "clients", "for-clients", 0o600);
    let metrics = secret(&env, "metrics", "for-metrics", 0o600);
    let at = env.work().join("control");
    let server = start(
        &env,
        &format!(
            "--listen ws://127.0.0.1:0 --listen unix://{} --ws-auth capability-token \
             --ws-token-file {clients} --metrics-token-file {metrics}",
            at.display()
        ),
    );
    let address = web(&server);
    assert!(self::address(&server).starts_with("unix://"));
    let mut socket = Socket::tcp(&address, Some("for-clients")).unwrap().ok().unwrap();
    socket.initialize();
    assert_eq!(Socket::tcp(&address, Some("for-metrics")).unwrap().err(), Some(401));
    for (bearer, status) in
        [(None, 401), (Some("wrong"), 401), (Some("for-clients"), 200), (Some("for-metrics"), 200)]
    {
        assert_eq!(page(TcpStream::connect(&address).unwrap(), bearer).0, status, "{bearer:?}");
    }
    let own = page(UnixStream::connect(&at).unwrap(), None);
    assert_eq!(own.0, 200);
    // The connections of pages end a moment after their answers.
    let pending = "agentd_connections_pending{stage=\"handshake\"} 0.0";
    let deadline = Instant::now() + Duration::from_secs(10);
    let text = loop {
        let (status, text) = page(TcpStream::connect(&address).unwrap(), Some("for-metrics"));
        assert_eq!(status, 200);
        if text.lines().any(|line| line == pending) || Instant::now() > deadline {
            break text;
        }
    };
    assert!(text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
    for line in [
        "agentd_connections 1.0",
        "agentd_connections_pending{stage=\"handshake\"} 0.0",
        "agentd_connections_pending{stage=\"initialize\"} 0.0",
        "agentd_connections_refused_total{status=\"401\"} 3.0",
        "agentd_incoming_messages 0.0",
        "agentd_turns_started_total 0.0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}:\n{text}");
    }
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}:\n{text}")).parse::<f64>().unwrap()
    };
    assert!(number("process_resident_memory_bytes") > 1e6);
    assert!(number("process_cpu_seconds_total") < 600.0);
    assert!(number("process_start_time_seconds") > 1.7e9);
    for hidden in ["for-clients", "for-metrics", env.work().to_str().unwrap()] {
        assert!(!text.contains(hidden), "{hidden}:\n{text}");
    }
}

/// Asks for the page of metrics; returns the status and the whole response.
fn page(mut stream: impl Read + Write, bearer: Option<&str>) -> (u16, String) {
    let bearer = bearer.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n", bearer.unwrap_or_default());
    stream.write_all(request.as_bytes()).unwrap();
    let (status, head) = head(&mut stream).unwrap();
    let mut body = String::new();
    stream.read_to_string(&mut body).unwrap();
    (status, head + &body)
}

#[test]
fn ipv6_addresses_are_printed_in_brackets() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: there is no IPv6 here");
        return;
    }
    let env = TestEnvironment::new();
    let server = start(&env, "--listen ws://[::1]:0");
    let address = web(&server);
    assert!(address.starts_with("[::1]:"), "{address}");
    Socket::tcp(&address, None).unwrap().ok().unwrap().initialize();
}

#[test]
fn an_unauthenticated_listener_is_warned_of_at_each_start() {
    let env = TestEnvironment::new();
    for _ in 0..2 {
        let server =
            start(&env, "--listen ws://0.0.0.0:0 --listen ws://127.0.0.1:0 --ws-auth none");
        let open = web(&server);
        let port = open.strip_prefix("0.0.0.0:").unwrap();
        Socket::tcp(&format!("127.0.0.1:{port}"), None).unwrap().ok().unwrap().initialize();
        server.signal("TERM");
        assert!(server.end().0.success());
        let said = fs::read_to_string(address_output(&env)).unwrap();
        let warning = "agentd: WARNING: anyone who can reach 0.0.0.0 can run commands as this \
                       user (--ws-auth none)\n";
        assert_eq!(said, warning, "once, and not of the loopback address");
    }
}

#[test]
fn only_valid_tokens_are_accepted() {
    let env = TestEnvironment::new();
    let token = secret(&env, "token", "a-token\n", 0o600);
    // The SHA-256 of `a-token`.
    let hash = sha256("a-token");
    for flags in [format!("--ws-token-file {token}"), format!("--ws-token-sha256 {hash}")] {
        let arguments = format!("--listen ws://127.0.0.1:0 --ws-auth capability-token {flags}");
        let server = start(&env, &arguments);
        let address = web(&server);
        let mut good = Socket::tcp(&address, Some("a-token")).unwrap().ok().unwrap();
        good.initialize();
        for wrong in [None, Some("a-toke"), Some("a-token2"), Some(&*hash)] {
            assert_eq!(Socket::tcp(&address, wrong).unwrap().err(), Some(401), "{wrong:?}");
        }
        assert_eq!(get(&address, "/readyz"), 200);
    }
}

/// Returns the hash as `sha256sum` prints it.
fn sha256(text: &str) -> String {
    let output = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$0\" | sha256sum", text])
        .output()
        .unwrap();
    stdout(&output).split(' ').next().unwrap().to_owned()
}

#[test]
fn clients_of_two_listeners_share_one_server() {
    let env = TestEnvironment::new();
    let server = start(&env, "--listen ws://127.0.0.1:0 --listen unix://");
    let web = web(&server);
    let control = address(&server);
    let path = env.home().join("control.sock");
    assert_eq!(control, format!("unix://{}", path.display()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut one = Socket::tcp(&web, None).unwrap().ok().unwrap();
    let mut two = Socket::unix(&path).unwrap();
    let early = two.call(7, "thread/list", json!({}));
    assert_eq!(early["error"]["message"], "Not initialized");
    one.initialize();
    two.initialize();
    let thread = one.thread("echo");
    let loaded = two.call(2, "thread/loaded/list", json!({}));
    assert_eq!(loaded["result"]["data"], json!([thread]));
    let resumed = two.call(3, "thread/resume", json!({"threadId": thread}));
    assert_eq!(resumed["result"]["thread"]["id"], *thread);
    let text = json!([{"type": "text", "text": "Hello, both."}]);
    one.call(4, "turn/start", json!({"threadId": thread, "input": text}));
    for client in [&mut one, &mut two] {
        assert_eq!(client.notification("turn/completed")["turn"]["status"], "completed");
    }
    // A second server finds the address in use and leaves it alone.
    let output = env.run(&["app-server", "--listen", "unix://"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("another server is already listening there"),
        "{}",
        stderr(&output)
    );
    Socket::unix(&path).unwrap().initialize();
}

#[test]
fn addresses_are_printed_on_standard_error_when_standard_output_is_a_transport() {
    let env = TestEnvironment::new();
    let mut server = start(&env, "--listen stdio:// --listen unix://");
    let opened = server.call(0, "initialize", json!({"clientInfo": {"name": "a", "version": "1"}}));
    assert!(opened.get("result").is_some(), "{opened}");
    let path = env.home().join("control.sock");
    let said = fs::read_to_string(address_output(&env)).unwrap();
    assert_eq!(said, format!("listening on unix://{}\n", path.display()));
    let mut other = Socket::unix(&path).unwrap();
    other.initialize();
    // The server outlives the client of standard input.
    server.close_input();
    other.call(1, "thread/loaded/list", json!({}));
    server.signal("TERM");
    assert!(server.end().0.success());
}

#[test]
fn an_address_in_use_removes_the_other_listeners() {
    let env = TestEnvironment::new();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let web = format!("ws://{}", held.local_addr().unwrap());
    let path = env.work().join("a.sock");
    let unix = format!("unix://{}", path.display());
    let output = env.run(&["app-server", "--listen", &unix, "--listen", &web]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains(&format!("--listen {web}: ")) && said.contains("in use"), "{said}");
    assert_eq!(stdout(&output), "");
    assert!(!path.exists());
}
