//! Redis and PostgreSQL servers for a test: in a temporary folder, on a free port, removed with the
//! test even when the test is killed.
//!
//! Each function panics, with the server's last output, when the server cannot be started.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tempfile::TempDir;

/// A Redis server with one database.
pub(crate) struct Redis(Server);

impl Redis {
    /// Starts a server that keeps all acknowledged commands across [`Redis::kill`]: each command is
    /// in its log before the reply is sent. (The log is not synced, which matters only for power
    /// cuts.)
    pub(crate) fn start() -> Redis {
        Redis::with(&["--appendonly", "yes", "--appendfsync", "no"])
    }

    /// Starts a server that forgets everything at [`Redis::kill`].
    pub(crate) fn start_forgetful() -> Redis {
        Redis::with(&["--appendonly", "no"])
    }

    /// Starts a server as [`Redis::start`] does, that speaks TLS only and asks for a password.
    pub(crate) fn start_with_tls(tls: &Certificate<'_>, password: &str) -> Redis {
        let folder = Folder::new(None);
        let (certificate, key) = folder.keep(tls);
        let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
        let more = ["--tls-ca-cert-file", &certificate, "--tls-auth-clients", "no"];
        let persistence = ["--appendonly", "yes", "--appendfsync", "no"];
        let more = [&files[..], &more, &persistence, &["--requirepass", password, "--port", "0"]];
        Redis::run_in(folder, &more.concat(), "--tls-port")
    }

    fn with(persistence: &[&str]) -> Redis {
        Redis::run_in(Folder::new(None), persistence, "--port")
    }

    fn run_in(folder: Folder, more: &[&str], port: &str) -> Redis {
        let place = folder.dir.path().display().to_string();
        let mut arguments = vec!["--bind", "127.0.0.1", "--save", "", "--dir", &place];
        arguments.extend(more);
        arguments.push(port);
        let program = Server {
            program: PathBuf::from("redis-server"),
            arguments: arguments.into_iter().map(str::to_owned).collect(),
            ready: "Ready to accept connections",
            end: "KILL",
            port: 0,
            folder,
            running: None,
        };
        Redis(program.on_any_port())
    }

    /// `redis://127.0.0.1:PORT`; the port stays the same across [`Redis::restart`].
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.0.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }

    /// The folder with its files.
    pub(crate) fn folder(&self) -> &Path {
        self.0.folder.dir.path()
    }

    /// Ends it as `kill -9` does, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Stops it if it runs, starts it on the same port, and waits until it responds.
    pub(crate) fn restart(&mut self) {
        self.0.restart();
    }
}

/// A PostgreSQL server with the user and the database `postgres`; no password.
pub(crate) struct Postgres(Server);

impl Postgres {
    pub(crate) fn start() -> Postgres {
        Postgres::with(None)
    }

    /// Starts a server that speaks TLS, too.
    pub(crate) fn start_with_tls(tls: &Certificate<'_>) -> Postgres {
        Postgres::with(Some(tls))
    }

    fn with(tls: Option<&Certificate<'_>>) -> Postgres {
        let bin = postgres_programs();
        let folder = Folder::new(unprivileged());
        let data = folder.dir.path().join("data");
        copy_folder(&template(&bin), &data, folder.owner);
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            // Survives the server's end, but not the machine's.
            "fsync=off",
            "full_page_writes=off",
            "max_connections=100",
            "shared_buffers=16MB",
            // Segments elsewhere would outlive a killed server.
            "dynamic_shared_memory_type=mmap",
        ];
        let tls = tls.map(|tls| folder.keep(tls)).map(|(certificate, key)| {
            let files = [format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")];
            [&["ssl=on".to_owned()][..], &files].concat()
        });
        let settings = settings.into_iter().map(str::to_owned).chain(tls.into_iter().flatten());
        let mut arguments = vec!["-D".to_owned(), data.display().to_string()];
        arguments.extend(settings.flat_map(|setting| ["-c".to_owned(), setting]));
        arguments.push("-p".to_owned());
        let program = Server {
            program: bin.join("postgres"),
            arguments,
            ready: "database system is ready to accept connections",
            // An immediate shutdown, without a checkpoint but also without leaking shared memory.
            end: "QUIT",
            port: 0,
            folder,
            running: None,
        };
        Postgres(program.on_any_port())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }

    /// The path of one of PostgreSQL's programs, such as `pg_dump`.
    pub(crate) fn program(name: &str) -> PathBuf {
        folder_with(&[name]).join(name)
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`; the same across [`Postgres::restart`].
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.0.port)
    }

    /// Ends it immediately, as a crash does; committed data is kept.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Stops it if it runs, starts it on the same port, and waits until it responds.
    pub(crate) fn restart(&mut self) {
        self.0.restart();
    }
}

/// A new data folder, which is made once for all tests of a target folder: `initdb` takes seconds.
fn template(bin: &Path) -> PathBuf {
    let version = bin.to_string_lossy().replace('/', "_");
    let template = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("postgres{version}"));
    if template.is_dir() {
        return template;
    }
    let folder = Folder::new(unprivileged());
    let data = folder.dir.path().join("data");
    let mut initdb = folder.command(&bin.join("initdb"));
    initdb.args(["--no-sync", "--no-locale", "--encoding=UTF8", "--auth=trust", "--wal-segsize=1"]);
    initdb.args(["--no-instructions", "--username=postgres", "--pgdata"]).arg(&data);
    let output = initdb.output().expect("initdb starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "initdb: {}: {said}", output.status);
    let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let made = unfinished.path().join("data");
    copy_folder(&data, &made, None);
    // Another process may have made it in the meantime.
    if std::fs::rename(&made, &template).is_err() {
        assert!(template.is_dir(), "{} cannot be made", template.display());
    }
    template
}

/// Copies a folder with mode 0700, for `owner` if there is one.
fn copy_folder(from: &Path, to: &Path, owner: Option<(u32, u32)>) {
    let give = |path: &Path| {
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(path, Some(user), Some(group)).expect("chown");
        }
    };
    std::fs::create_dir(to).expect("a new folder");
    std::fs::set_permissions(to, PermissionsExt::from_mode(0o700)).expect("its mode");
    give(to);
    for entry in
        std::fs::read_dir(from).expect("a readable folder").map(|entry| entry.expect("an entry"))
    {
        let copy = to.join(entry.file_name());
        match entry.file_type().expect("its type").is_dir() {
            true => copy_folder(&entry.path(), &copy, owner),
            false => {
                std::fs::copy(entry.path(), &copy).expect("a copy");
                give(&copy);
            }
        }
    }
}

/// A certificate with its key, in PEM.
pub(crate) struct Certificate<'a> {
    pub(crate) chain: &'a str,
    pub(crate) key: &'a str,
}

/// Far longer than any start takes; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(30);
/// Ports to try when other processes take them first.
const ATTEMPTS: usize = 20;

/// Runs a server for as long as another process holds the other end of its standard input. A line
/// there stops the server; the end of the input, also caused by a killed test, removes its folder
/// as well.
const KEEPER: &str = r#"
folder=$1 signal=$2; shift 2
"$@" </dev/null & server=$!
exec >/dev/null 2>&1
if read -r line; then orphan=; else orphan=yes; fi
kill -s "$signal" $server; wait $server
if [ $orphan ]; then cd / && rm -rf "$folder"; fi
"#;

struct Server {
    program: PathBuf,
    /// Arguments without the port, which comes last.
    arguments: Vec<String>,
    /// The output that shows that it accepts connections.
    ready: &'static str,
    /// The signal that stops it.
    end: &'static str,
    port: u16,
    folder: Folder,
    /// Its keeper process.
    running: Option<Child>,
}

impl Server {
    fn on_any_port(mut self) -> Server {
        let mut said = String::new();
        for _ in 0..ATTEMPTS {
            self.port = free_port();
            match self.run() {
                Ok(()) => return self,
                Err(last_words) => said = last_words,
            }
        }
        panic!("{} does not start: {said}", self.program.display());
    }

    fn restart(&mut self) {
        self.kill();
        if let Err(said) = self.run() {
            panic!("{} does not start again: {said}", self.program.display());
        }
    }

    /// Starts the server and waits until it is ready. The error is its output, when it ends before
    /// that.
    fn run(&mut self) -> Result<(), String> {
        let mut keeper = self
            .folder
            .command(Path::new("sh"))
            .args(["-c", KEEPER, "keeper"])
            .arg(self.folder.dir.path())
            .arg(self.end)
            .arg(&self.program)
            .args(&self.arguments)
            .arg(self.port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let lines = lines_of(&mut keeper);
        self.running = Some(keeper);
        let mut said = String::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(self.ready) => return Ok(()),
                Ok(line) => said.push_str(&format!("{line}\n")),
                Err(wait) => {
                    self.kill();
                    return Err(format!("{wait}: {said}"));
                }
            }
        }
    }

    fn kill(&mut self) {
        let Some(mut keeper) = self.running.take() else { return };
        let mut input = keeper.stdin.take().expect("its input is piped");
        // A keeper that has exited has no server left to stop.
        let _ = input.write_all(b"end\n");
        let _ = keeper.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads both outputs for as long as it runs: a full pipe would block it.
fn lines_of(keeper: &mut Child) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    let output = keeper.stdout.take().expect("its output is piped");
    let errors = keeper.stderr.take().expect("its error output is piped");
    pass_lines(output, sender.clone());
    pass_lines(errors, sender);
    lines
}

fn pass_lines(from: impl std::io::Read + Send + 'static, to: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            // After the start no output is used, but the pipe must still be drained.
            let _ = to.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
}

/// A server's folder and its owner.
struct Folder {
    dir: TempDir,
    owner: Option<(u32, u32)>,
}

impl Folder {
    /// `owner` as in [`unprivileged`]. Directly in `/tmp`, because `TMPDIR` may be inaccessible to
    /// the owner.
    fn new(owner: Option<(u32, u32)>) -> Folder {
        let dir = tempfile::Builder::new().prefix("servers-").tempdir_in("/tmp");
        let dir = dir.expect("a folder in /tmp");
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(dir.path(), Some(user), Some(group)).expect("chown");
        }
        Folder { dir, owner }
    }

    /// Writes a certificate and its key into the folder; returns their paths.
    fn keep(&self, tls: &Certificate<'_>) -> (String, String) {
        let [chain, key] = [("tls.pem", tls.chain), ("tls.key", tls.key)].map(|(name, text)| {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            // PostgreSQL refuses a key that others can read.
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("its mode");
            if let Some((user, group)) = self.owner {
                std::os::unix::fs::chown(&path, Some(user), Some(group)).expect("chown");
            }
            path.display().to_string()
        });
        (chain, key)
    }

    /// A command that runs in the folder as its owner.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).stdin(Stdio::null()).env("LC_ALL", "C");
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }
}

/// For root, which PostgreSQL refuses: user and group of `postgres`, else of `nobody`.
fn unprivileged() -> Option<(u32, u32)> {
    let own = std::fs::metadata("/proc/self").expect("/proc is mounted").uid();
    if own != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd can be read");
    let named = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(named("postgres").or_else(|| named("nobody")).expect("a user for PostgreSQL"))
}

/// The folder of `initdb` and `postgres`.
fn postgres_programs() -> PathBuf {
    folder_with(&["initdb", "postgres"])
}

/// A folder with these programs of PostgreSQL: Debian installs each version in a folder outside of the path.
fn folder_with(programs: &[&str]) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = debian.chain(std::env::split_paths(&path)).collect();
    folders.retain(|folder| programs.iter().all(|program| folder.join(program).is_file()));
    folders.sort();
    folders.pop().expect("PostgreSQL is not installed: `cargo xtask test` does it")
}

/// A port below the ephemeral range: a client that keeps reconnecting to a stopped server must not
/// be assigned that server's own port.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let at = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + at % COUNT).expect("below 32000");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free between {FIRST} and {}", FIRST + COUNT);
}
