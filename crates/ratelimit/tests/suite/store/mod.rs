//! A real store for tests: `redis-server` on a socket in a folder of its own, stopped with the
//! test.

#![allow(unreachable_pub)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub struct Store {
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Store {
    /// Starts a server without persistence.
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same with additional options.
    #[allow(dead_code)]
    pub fn with(options: &[&str]) -> Self {
        let mut store = Self { folder: tempfile::tempdir().unwrap(), child: None };
        store.run(options);
        store
    }

    #[allow(dead_code)]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("store.sock")
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Restarts the server with additional options.
    pub fn run(&mut self, options: &[&str]) {
        let socket = self.socket();
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--loglevel", "warning", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(self.folder.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need `redis-server`: install Debian's package `redis-server`");
        self.child = Some(child);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !self.answers() {
            assert!(std::time::Instant::now() < deadline, "the store did not start");
            std::thread::sleep(std::time::Duration::from_millis(5)); // tidy: sleep another process starts
        }
    }

    fn answers(&self) -> bool {
        let Ok(client) = redis::Client::open(self.url()) else { return false };
        let Ok(mut connection) = client.get_connection() else { return false };
        match redis::cmd("PING").query::<String>(&mut connection) {
            Ok(_) => true,
            // It refuses what has no password.
            Err(error) => error.code().is_some_and(|code| code != "LOADING"),
        }
    }

    /// Suspends or resumes the server.
    #[allow(dead_code)]
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.as_ref().unwrap().id();
        let id = rustix::process::Pid::from_raw(id.cast_signed()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Ends the server as a failure of the machine does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
    }
}
