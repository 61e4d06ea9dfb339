//! A measured server, and the new home and workspace that it starts in.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::json;
use tempfile::TempDir;

use super::client::Client;
use super::model_server::ModelServer;

/// A program that serves the protocol on stdio when started as `BINARY app-server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) binary: PathBuf,
    /// The environment variable that names its home folder.
    pub(crate) home_env: String,
}

/// The input of a scenario.
pub(crate) struct Run<'r> {
    /// The checkout.
    pub(crate) root: &'r Path,
    pub(crate) target: &'r Target,
    pub(crate) model: &'r ModelServer,
    /// Number of repeats of a quick measurement.
    pub(crate) repeats: usize,
    /// Duration of a load.
    pub(crate) time: Duration,
}

/// A running server with a separate home, which is removed with it.
pub(crate) struct Server {
    pub(crate) client: Client,
    child: Child,
    /// Holds `home`, `work`, `user` and `stderr`.
    folder: TempDir,
    spawned: Instant,
    /// Its address, in its own words; such a server does not end with its input.
    first_line: String,
}

const ANY_PORT: &str = "ws://127.0.0.1:0";
/// Longest wait for the server's exit after its input is closed; then it is killed.
const EXIT_PATIENCE: Duration = Duration::from_secs(20);

impl Target {
    pub(crate) fn new(name: &str, binary: impl Into<PathBuf>, home_env: &str) -> Target {
        Target { name: name.to_owned(), binary: binary.into(), home_env: home_env.to_owned() }
    }

    /// Returns whether it can read homes written by this checkout.
    pub(crate) fn is_own(&self) -> bool {
        self.home_env == "AGENT_HOME"
    }
}

impl Run<'_> {
    /// Starts the server in a new home that selects the scripted model.
    pub(crate) fn start(&self) -> Result<Server> {
        self.start_in(None, None, None)
    }

    /// As [`Run::start_initialized`], below `strace`, which writes the number of its system calls
    /// into a file when it ends.
    pub(crate) fn start_counted(&self, counts: &Path) -> Result<Server> {
        let server = self.start_in(None, None, Some(counts)).context("strace: install it first")?;
        Ok(Self::initialized(server)?.0)
    }

    /// Starts the server on an existing home and completes the handshake; also returns how long
    /// that took. The home gets a configuration that selects the scripted model.
    pub(crate) fn start_on(&self, home: &Path) -> Result<(Server, Duration)> {
        Self::initialized(self.start_in(Some(home), None, None)?)
    }

    /// Starts the server with only a WebSocket listener; returns the address.
    pub(crate) fn start_listening(&self, home: Option<&Path>) -> Result<(Server, SocketAddr)> {
        let server = self.start_in(home, Some(ANY_PORT), None)?;
        let address = server.first_line.strip_prefix("listening on ws://").map(str::trim);
        let address = address.with_context(|| format!("no address; {}", server.last_words()))?;
        let address = address.parse().with_context(|| format!("the address {address}"))?;
        Ok((server, address))
    }

    fn start_in(
        &self,
        home: Option<&Path>,
        listen: Option<&str>,
        counts: Option<&Path>,
    ) -> Result<Server> {
        let folder = tempfile::tempdir().context("a folder for the server's home")?;
        for name in ["home", "work", "user"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let home = home.map_or_else(|| folder.path().join("home"), Path::to_owned);
        std::fs::write(home.join("config.toml"), config(&self.model.base_url))?;
        let stderr = std::fs::File::create(folder.path().join("stderr"))?;
        let spawned = Instant::now();
        let listen = listen.map(|place| ["--listen", place]);
        let mut child = command(&self.target.binary, counts)
            .arg("app-server")
            .args(listen.iter().flatten())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder.path().join("user"))
            .env(&self.target.home_env, &home)
            .current_dir(folder.path().join("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .with_context(|| self.target.binary.display().to_string())?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut output = BufReader::new(output.context("its output")?);
        let mut first_line = String::new();
        if listen.is_some() {
            output.read_line(&mut first_line).context("its first line")?;
        }
        let client = Client::over(output, input.context("its input")?);
        Ok(Server { client, child, folder, spawned, first_line })
    }

    /// Starts the server and completes the handshake; also returns how long that took.
    pub(crate) fn start_initialized(&self) -> Result<(Server, Duration)> {
        Self::initialized(self.start()?)
    }

    /// As [`Run::start_initialized`], with experimental methods.
    pub(crate) fn start_experimental(&self) -> Result<Server> {
        Self::experimental(self.start()?)
    }

    /// As [`Run::start_on`], with experimental methods.
    pub(crate) fn start_experimental_on(&self, home: &Path) -> Result<Server> {
        Self::experimental(self.start_in(Some(home), None, None)?)
    }

    fn experimental(mut server: Server) -> Result<Server> {
        let capabilities = json!({ "experimentalApi": true });
        let answered = server.client.initialize_with(capabilities);
        answered.map_err(|error| error.context(server.last_words()))?;
        Ok(server)
    }

    fn initialized(mut server: Server) -> Result<(Server, Duration)> {
        let answered = match server.client.initialize() {
            Ok(answered) => answered,
            Err(error) => return Err(error.context(server.last_words())),
        };
        let took = answered.duration_since(server.spawned);
        Ok((server, took))
    }
}

impl Server {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The working folder of threads.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn start_thread(&mut self) -> Result<(String, Duration)> {
        let work = self.work();
        self.client.start_thread(&work)
    }

    /// The server's own home folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Closes the server's input and waits for a successful exit.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.client.close();
        if !self.first_line.is_empty() {
            let process = rustix::process::Pid::from_child(&self.child);
            rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
        }
        let status = self.wait()?;
        if !status.success() {
            bail!("the server ended with {status}; {}", self.last_words());
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + EXIT_PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                self.child.kill()?;
                self.child.wait()?;
                bail!("the server did not end within {EXIT_PATIENCE:?} of its input's end");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(self.folder.path().join("stderr")).unwrap_or_default();
        let tail = &text[text.len().saturating_sub(2000)..];
        format!("its standard error ends: {}", String::from_utf8_lossy(tail).trim())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may already have exited; an error has no further effect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, below `strace` when its system calls are counted.
fn command(binary: &Path, counts: Option<&Path>) -> Command {
    let Some(counts) = counts else { return Command::new(binary) };
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-c", "--summary-columns=calls,name", "-o"]).arg(counts).arg(binary);
    command
}

/// Returns the configuration, which is the same for every server: keys from the specification.
pub(crate) fn config(base_url: &str) -> String {
    format!(
        r#"model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "workspace-write"
model_context_window = 100000000

[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"#
    )
}

/// Returns the disk usage of the files below `folder`, in bytes.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut total = 0;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let metadata = entry.path().symlink_metadata()?;
        total +=
            if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_toml() {
        let table: toml::Table = config("http://127.0.0.1:1/v1").parse().unwrap();
        assert_eq!(
            table["model_providers"]["scripted"]["base_url"].as_str(),
            Some("http://127.0.0.1:1/v1")
        );
    }

    #[test]
    fn disk_counts_files_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), vec![1; 10_000]).unwrap();
        assert!(disk_bytes(folder.path()).unwrap() <= 1 << 20);
    }
}
