//! Commands whose only network is the managed one.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use crate::common::{command, namespaces, read_only, run, sandbox};
use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::egress::{Egress, EgressPolicy, Outside, Pattern};
use sandbox::{ErrorKind, Layer, Size, Spawn};

/// A service of this machine that answers every request with `there`.
fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 1024];
            let _ = stream.read(&mut bytes);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthere\n");
        }
    });
    port
}

fn egress(local: bool, socks: bool) -> Arc<Egress> {
    let policy = EgressPolicy {
        allowed: vec![Pattern::parse("127.0.0.1").unwrap()],
        local,
        socks_port: socks.then_some(1080),
        udp: socks,
        ..EgressPolicy::default()
    };
    Arc::new(Egress::new(policy, None, Outside::real()))
}

fn bash(script: &str, policy: RootedPolicy, egress: &Arc<Egress>) -> Spawn {
    Spawn { egress: Some(egress.clone()), ..command(&["bash", "-c", script], policy) }
}

fn through_http(port: u16) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128 && \
         printf 'GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3"
    )
}

#[tokio::test]
async fn the_proxy_is_the_one_way_out() {
    if !namespaces() {
        return;
    }
    let port = service();
    let sandbox = sandbox(Layer::Auto);
    for open in [false, true] {
        // The result does not depend on the policy's network setting.
        let policy = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: open }
            .rooted(Path::new("/"));
        let egress = egress(true, true);
        let check = async |script: &str, expect: &str| {
            let ran = run(&sandbox, bash(script, policy.clone(), &egress)).await;
            assert!(ran.stdout.contains(expect), "{script}: {ran:?}");
        };
        check(&through_http(port), "there").await;
        let direct = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo out || echo refused");
        check(&direct, "refused").await;
        check(
            "echo $HTTP_PROXY $https_proxy $ALL_PROXY $NO_PROXY",
            "http://127.0.0.1:3128 http://127.0.0.1:3128 socks5h://127.0.0.1:1080 localhost",
        )
        .await;
        check("ls /proc/self/fd | wc -l", "4\n").await;
        // The namespace has its own loopback interface and no other.
        check("ip link 2>/dev/null; cat /proc/net/dev | grep -c :", "1\n").await;
        let socks = format!(
            "exec 3<>/dev/tcp/127.0.0.1/1080 && \
             printf '\\x05\\x01\\x00\\x05\\x01\\x00\\x01\\x7f\\x00\\x00\\x01\\x{:02x}\\x{:02x}hello' >&3 && cat <&3",
            port >> 8,
            port & 255
        );
        check(&socks, "there").await;
    }
}

#[tokio::test]
async fn datagrams_go_through_the_proxy_too() {
    if !namespaces() {
        return;
    }
    // The shell's `printf` sends what it has at each line feed: the port must have none.
    let (echo, port) = std::iter::repeat_with(|| UdpSocket::bind("127.0.0.1:0").unwrap())
        .map(|socket| (socket.local_addr().unwrap().port(), socket))
        .find(|(port, _)| !port.to_be_bytes().contains(&b'\n'))
        .map(|(port, socket)| (socket, port))
        .unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((length, from)) = echo.recv_from(&mut bytes) {
            let _ = echo.send_to(&bytes[..length], from);
        }
    });
    let script = format!(
        "exec 3<>/dev/udp/127.0.0.1/1080 && \
         printf '\\x00\\x00\\x00\\x01\\x7f\\x00\\x00\\x01\\x{:02x}\\x{:02x}ping' >&3 && head -c 14 <&3 | tail -c 4",
        port >> 8,
        port & 255
    );
    for (local, expect) in [(true, "ping"), (false, "")] {
        let script = if local { script.clone() } else { script.replace("head", "timeout 1 head") };
        let ran =
            run(&sandbox(Layer::Auto), bash(&script, read_only(), &egress(local, true))).await;
        assert_eq!(ran.stdout, expect, "{ran:?}");
    }
}

#[tokio::test]
async fn a_terminal_and_many_commands_have_their_own_proxies() {
    if !namespaces() {
        return;
    }
    let port = service();
    let sandbox = Arc::new(sandbox(Layer::Auto));
    let egress = egress(true, false);
    let mut spawn =
        bash(&format!("test -t 0 && echo terminal; {}", through_http(port)), read_only(), &egress);
    spawn.tty = Some(Size { rows: 10, cols: 100 });
    let ran = run(&sandbox, spawn).await;
    assert!(ran.stdout.contains("terminal") && ran.stdout.contains("there"), "{ran:?}");
    let all = (0..8).map(|_| {
        let (sandbox, egress) = (sandbox.clone(), egress.clone());
        tokio::spawn(
            async move { run(&sandbox, bash(&through_http(port), read_only(), &egress)).await },
        )
    });
    for ran in all.collect::<Vec<_>>() {
        let ran = ran.await.unwrap();
        assert!(ran.stdout.contains("there"), "{ran:?}");
    }
}

#[tokio::test]
async fn without_a_sandbox_it_is_refused() {
    let egress = egress(true, false);
    let spawn = bash("true", RootedPolicy::FULL_ACCESS, &egress);
    let error = sandbox(Layer::Auto).spawn(spawn).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("managed network"), "{error}");
}

/// The supervisor connects, to nothing but the proxies.
#[tokio::test]
async fn the_proxy_is_the_one_way_out_without_namespaces() {
    let port = service();
    let sandbox = sandbox(Layer::Landlock);
    let egress = egress(true, true);
    let check = async |script: &str, expect: &str| {
        let ran = run(&sandbox, bash(script, read_only(), &egress)).await;
        assert!(ran.stdout.contains(expect), "{script}: {ran:?}");
    };
    check(&through_http(port), "there").await;
    check(&format!("for i in 1 2 3; do ({}) & done; wait", through_http(port)), "there").await;
    let socks = format!(
        "exec 3<>/dev/tcp/127.0.0.1/1080 && \
         printf '\\x05\\x01\\x00\\x05\\x01\\x00\\x01\\x7f\\x00\\x00\\x01\\x{:02x}\\x{:02x}hello' >&3 && cat <&3",
        port >> 8,
        port & 255
    );
    check(&socks, "there").await;
    check(
        "python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:1/\")' 2>&1",
        "Bad Gateway",
    )
    .await;
    let fetch = format!(
        "no_proxy= python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/\").read())'"
    );
    check(&fetch, "there").await;
    for attempt in [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        format!("exec 3<>/dev/udp/127.0.0.1/{port}"),
        "exec 3<>/dev/tcp/192.0.2.1/3128".to_owned(),
        python(port, "s.connect(('127.0.0.1', PORT))"),
        python(port, "s.connect_ex(('127.0.0.1', PORT)) and exit(1)"),
        python(port, "s.sendto(b'x', 0x20000000, ('127.0.0.1', PORT))"),
        python(port, "s.sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', PORT))"),
        python(port, "s.bind(('127.0.0.1', 0))"),
        python(port, "s.listen()"),
        python(port, "s.connect(('127.0.0.1', 3128)); s.connect(('127.0.0.1', PORT))"),
        python(port, "socket.socket(type=socket.SOCK_DGRAM)"),
        python(port, "socket.socket(socket.AF_UNIX)"),
        python(port, "socket.socket(proto=262)"),
    ] {
        check(&format!("{{ {attempt}; }} 2> /dev/null && echo out || echo held"), "held").await;
    }
}

/// A program with a TCP socket `s`.
fn python(port: u16, does: &str) -> String {
    let does = does.replace("PORT", &port.to_string());
    format!("python3 -c \"import socket; s=socket.socket(); {does}\"")
}

/// A thread changes the address while another connects.
#[tokio::test]
async fn a_changing_address_reaches_nothing() {
    const PROGRAM: &str = r#"
import ctypes, socket, struct, sys, threading, time
libc = ctypes.CDLL(None)
address = lambda port: struct.pack("=H", socket.AF_INET) + struct.pack(">H", port) + bytes([127, 0, 0, 1]) + bytes(8)
proxy, other = address(3128), address(int(sys.argv[1]))
buffer = ctypes.create_string_buffer(16)
end = time.monotonic() + 2
def flip():
    while time.monotonic() < end:
        buffer[0:16] = proxy; buffer[0:16] = other
threading.Thread(target=flip).start()
tried = 0
while time.monotonic() < end:
    with socket.socket() as s:
        libc.connect(s.fileno(), buffer, 16); tried += 1
print("tried", tried)
"#;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let egress = egress(true, false);
    let spawn = command(&["python3", "-c", PROGRAM, &port], read_only());
    let spawn = Spawn { egress: Some(egress), ..spawn };
    let ran = run(&sandbox(Layer::Landlock), spawn).await;
    assert!(ran.ok() && ran.stdout.contains("tried"), "{ran:?}");
    assert!(listener.accept().is_err(), "{ran:?}");
}
