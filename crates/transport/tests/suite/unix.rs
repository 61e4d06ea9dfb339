//! Unix sockets: ownership, access, and cleanup.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{RawClient, TOKEN, TestServer, upgrade, without_auth};
use serde_json::json;
use tempfile::TempDir;
use transport::{Error, ErrorKind, Listener, UnixSocket};

/// Creates a folder; returns it with the path of a socket in it.
fn socket_path() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    (folder, path)
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Binds where binding must fail; returns the error.
fn refused(path: &Path) -> Error {
    match UnixSocket::bind(path) {
        Ok(_) => panic!("{} is bound", path.display()),
        Err(error) => error,
    }
}

fn server(path: &Path) -> TestServer {
    let mut server = TestServer::new(without_auth());
    server.listen(Listener::Unix(UnixSocket::bind(path).unwrap()));
    server
}

/// Checks that our server responds at `path`.
async fn converse(path: &Path) {
    let mut client = RawClient::over(tokio::net::UnixStream::connect(path).await.unwrap());
    let head = client.request(&upgrade("127.0.0.1:1".parse().unwrap(), TOKEN)).await;
    assert_eq!(head.status, 101);
    client.call("initialize", json!({})).await;
}

/// Leaves a socket as a dead server does.
fn leave_stale(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
    assert!(is_socket(path));
}

#[tokio::test]
async fn a_socket_is_created_used_and_removed() {
    let (folder, path) = socket_path();
    let server = server(&path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let lock = folder.path().join("socket.lock");
    assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
    converse(&path).await;
    drop(server);
    let gone = async {
        while path.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(common::PATIENCE, gone).await.expect("the socket goes with the server");
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let (_folder, path) = socket_path();
    leave_stale(&path);
    let _house = server(&path);
    converse(&path).await;
}

#[tokio::test]
async fn a_socket_has_one_server_at_a_time() {
    let (_folder, path) = socket_path();
    let first = UnixSocket::bind(&path).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::SocketInUse);
    // Also when the socket itself is missing: the first server still holds the lock.
    fs::remove_file(&path).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::SocketInUse);
    drop(first);
    drop(UnixSocket::bind(&path).unwrap());
    assert!(!path.exists());
}

#[tokio::test]
async fn one_of_many_concurrent_starts_listens() {
    let (_folder, path) = socket_path();
    leave_stale(&path);
    let runtime = tokio::runtime::Handle::current();
    let starts: Vec<_> = (0..16)
        .map(|_| {
            let (path, runtime) = (path.clone(), runtime.clone());
            std::thread::spawn(move || {
                let _entered = runtime.enter();
                UnixSocket::bind(&path)
            })
        })
        .collect();
    let listeners: Vec<_> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    assert_eq!(listeners.iter().filter(|listener| listener.is_ok()).count(), 1);
    for listener in listeners.iter().filter_map(|listener| listener.as_ref().err()) {
        assert_eq!(listener.kind(), ErrorKind::SocketInUse, "{listener}");
    }
    assert!(is_socket(&path));
}

#[tokio::test]
async fn a_running_server_without_the_lock_is_not_replaced() {
    let (_folder, path) = socket_path();
    let listener = UnixListener::bind(&path).unwrap();
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::SocketInUse);
    let words = format!(
        "unix://{}: another server is already listening there; stop it, or choose another path",
        path.display()
    );
    assert_eq!(error.to_string(), words);
    listener.set_nonblocking(true).unwrap();
    let _ = listener.accept();
    assert!(UnixStream::connect(&path).is_ok());
}

#[tokio::test]
async fn a_busy_server_is_not_replaced() {
    let (_folder, path) = socket_path();
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let full = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = rustix::net::SocketFlags::NONBLOCK;
        let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, flags, None).unwrap();
        if rustix::net::connect(&socket, &full).is_err() {
            break;
        }
        waiting.push(socket);
        assert!(waiting.len() < 1000, "there is no bound here");
    }
    let (sender, done) = std::sync::mpsc::channel();
    let (taken, runtime) = (path.clone(), tokio::runtime::Handle::current());
    std::thread::spawn(move || {
        let _entered = runtime.enter();
        sender.send(refused(&taken).to_string())
    });
    let words = done.recv_timeout(common::PATIENCE).expect("it starts without waiting");
    assert!(
        words
            .contains("another server is already listening there; stop it, or choose another path"),
        "{words}"
    );
    assert!(is_socket(&path));
}

#[tokio::test]
async fn a_socket_of_another_type_is_not_replaced() {
    let (_folder, path) = socket_path();
    let _datagrams = UnixDatagram::bind(&path).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::SocketInUse);
    assert!(UnixDatagram::unbound().unwrap().send_to(b"x", &path).is_ok());
}

#[tokio::test]
async fn a_path_that_is_not_a_socket_is_not_replaced() {
    let (folder, path) = socket_path();
    let target = folder.path().join("target");
    fs::write(&path, "text").unwrap();
    let error = refused(&path);
    let words = format!(
        "unix://{}: the path exists and is not a socket; remove it, or choose another path",
        path.display()
    );
    assert_eq!(error.to_string(), words);
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    fs::remove_file(&path).unwrap();

    fs::create_dir(&path).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::NotASocket);
    fs::remove_dir(&path).unwrap();

    // A symbolic link is not a socket, whatever its target.
    leave_stale(&target);
    for to in [&target, &folder.path().join("nowhere")] {
        symlink(to, &path).unwrap();
        assert_eq!(refused(&path).kind(), ErrorKind::NotASocket);
        fs::remove_file(&path).unwrap();
    }
    assert!(is_socket(&target));
}

#[tokio::test]
async fn an_invalid_lock_file_stops_the_start() {
    let (folder, path) = socket_path();
    let lock = folder.path().join("socket.lock");
    let precious = folder.path().join("precious");
    fs::write(&precious, "text").unwrap();
    symlink(&precious, &lock).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::Io);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "text");
    fs::remove_file(&lock).unwrap();
    // The pipe has no reader, and binding must not wait for one.
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &lock, fifo, 0o600.into(), 0).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::Io);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_replaced_socket_is_not_removed() {
    let (_folder, path) = socket_path();
    for replace in [
        |path: &Path| drop(UnixListener::bind(path).unwrap()),
        |path: &Path| fs::write(path, "text").unwrap(),
    ] {
        let listener = UnixSocket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        replace(&path);
        drop(listener);
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
    let listener = UnixSocket::bind(&path).unwrap();
    fs::remove_file(&path).unwrap();
    drop(listener);
}

#[tokio::test]
async fn the_error_of_a_too_long_path_states_its_length() {
    let (folder, _) = socket_path();
    let with_length = |length: usize| {
        let rest = length - folder.path().as_os_str().len() - 1;
        folder.path().join("x".repeat(rest))
    };
    drop(UnixSocket::bind(&with_length(107)).unwrap());
    let long = with_length(108);
    let words = format!(
        "unix://{}: the path has 108 bytes, and a socket path may have 107; choose a \
         shorter one",
        long.display()
    );
    assert_eq!(refused(&long).to_string(), words);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left.len(), 1, "the lock of the first alone: {left:?}");
}

#[tokio::test]
async fn a_missing_folder_is_reported() {
    let (folder, _) = socket_path();
    let error = refused(&folder.path().join("missing/socket")).to_string();
    assert!(error.contains("missing/socket: No such file or directory"), "{error}");
}

#[tokio::test]
async fn a_passed_socket_must_listen() {
    let (_folder, path) = socket_path();
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    );
    let deaf = UnixListener::from(socket.unwrap());
    let error = Listener::given_unix(deaf).err().unwrap();
    assert_eq!(error.to_string(), "the socket is not listening");
    let listening = UnixListener::bind(&path).unwrap();
    let given = Listener::given_unix(listening).unwrap();
    assert_eq!(given.address().unwrap(), format!("unix://{}", path.display()));
    drop(given);
    assert!(path.exists(), "it belongs to who gave it");
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listening.local_addr().unwrap();
    let given = Listener::given_tcp(listening).unwrap();
    assert_eq!(given.address().unwrap(), format!("ws://{address}"));
}

/// Runs as `nobody`, in a separate thread, because only that thread gives up its rights.
#[cfg(target_os = "linux")]
fn as_nobody<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        act()
    });
    thread.join().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_users_are_refused_even_if_the_socket_is_world_writable() {
    use std::io::{ErrorKind, Read, Write};
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can act as another user");
        return;
    }
    // In a folder that other users can search: the default temporary folder may be private.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let path = folder.path().join("socket");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let server = server(&path);
    let at = path.clone();
    let error = as_nobody(move || UnixStream::connect(at).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    // Opens the socket's permissions to all users.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let at = path.clone();
    let answered = as_nobody(move || {
        let mut stream = UnixStream::connect(at).unwrap();
        stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
        // The server may already have closed the connection.
        let _ = stream.write_all(&upgrade("127.0.0.1:1".parse().unwrap(), TOKEN));
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        assert!(end.is_ok() || end.is_err_and(|why| why.kind() == ErrorKind::ConnectionReset));
        answer
    });
    assert!(answered.is_empty(), "{}", String::from_utf8_lossy(&answered));
    assert_eq!(server.served(), 0);
    converse(&path).await;
}
