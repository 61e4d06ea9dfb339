//! The environment of a server: home, workspace, model and clock. A test can start any number of
//! servers on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jsonrpc::{CloseReason, Connection, Limits, Outbox};
use logging::{LogFile, Logging};
use sandbox::{Layer, LimitsBy, Sandbox, THIS_PROGRAM};
use serde_json::{Value, json};
use server::{Options, Server};
use tempfile::TempDir;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;

use crate::{ManualClock, Peer, ScriptedModel, SequentialIds, Transcript};

/// Where commands search for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// The environment of servers. Dropping it removes its files.
pub struct TestEnvironment {
    folder: TempDir,
    root: PathBuf,
    home: PathBuf,
    /// The clock of servers that are started from now on.
    pub clock: Arc<ManualClock>,
    ids: Arc<SequentialIds>,
    model: ScriptedModel,
    /// Environment variables of commands; `PATH` and `HOME` by default.
    pub variables: Vec<(OsString, OsString)>,
    /// `-c` arguments.
    pub config_overrides: Vec<String>,
    /// Source of the threads; `cli` by default, so that they are listed.
    pub session_source: String,
    /// True if commands can be sandboxed; true by default.
    pub has_sandbox: bool,
}

/// A server that runs in this process. [`TestServer::stop`] ends it in good order; a dropped server
/// ends with the test's runtime.
pub struct TestServer {
    server: Server,
    masks: Vec<(String, &'static str)>,
}

impl TestEnvironment {
    /// Creates an environment whose model returns these responses (docs/model-server.md) in every thread.
    pub async fn with_responses(responses: Value) -> Self {
        Self::with_script(&json!({ "responses": responses })).await
    }

    /// Creates an environment with this scripted model. Its configuration names the model `gpt-5`, never
    /// retries, and is otherwise the default.
    ///
    /// # Panics
    /// If a folder cannot be created.
    pub async fn with_script(script: &Value) -> Self {
        // Unlike `/tmp`, no policy includes this folder by default.
        let folder = tempfile::tempdir_in("/var/tmp").expect("a temporary folder");
        let root = folder.path().canonicalize().expect("the folder is there");
        let home = root.join("home");
        let variables = [("PATH", PATH.into()), ("HOME", root.join("user"))];
        let created = Self {
            model: ScriptedModel::serve(script).await,
            folder,
            clock: Arc::default(),
            ids: Arc::default(),
            variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
            config_overrides: Vec::new(),
            session_source: "cli".to_owned(),
            has_sandbox: true,
            root,
            home,
        };
        for folder in [created.home(), &created.workspace(), &created.root.join("user")] {
            std::fs::create_dir_all(folder).expect("a folder below a temporary one");
        }
        created.write_config(&format!(
            "model = \"gpt-5\"\nmodel_provider = \"scripted\"\n\n[model_providers.scripted]\n\
             name = \"Scripted\"\nbase_url = \"{}\"\nrequest_max_retries = 0\n\
             stream_max_retries = 0\ntool_types = [\"custom\", \"web_search\", \"tool_search\"]\n",
            created.model.base_url(),
        ));
        created
    }

    /// Replaces `config.toml`.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_config(&self, toml: &str) {
        std::fs::write(self.home.join("config.toml"), toml).expect("the home can be written");
    }

    /// The agent's home.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The administrator's folder; empty until a test writes to it.
    #[must_use]
    pub fn system_dir(&self) -> PathBuf {
        self.root.join("system")
    }

    /// The folder that contains this environment, for files outside of the workspace.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The working folder of threads.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The model, for access to its requests.
    #[must_use]
    pub fn model(&self) -> &ScriptedModel {
        &self.model
    }

    /// Starts later servers on a copy of the home as it is now, as after a crash at this moment. No
    /// write may be in progress.
    ///
    /// # Panics
    /// If it cannot be copied.
    pub fn crash(&mut self) {
        let copy = self.root.join(format!("home-{}", server::Ids::next(&*self.ids)));
        copy_folder(&self.home, &copy).expect("the home can be copied");
        self.home = copy;
    }

    /// Starts a server.
    ///
    /// # Panics
    /// If its home cannot be used.
    #[must_use]
    pub fn start(&self) -> TestServer {
        self.start_with(LogFile::default())
    }

    /// Starts a server that writes its warnings to its log file: those of this thread, while the
    /// guard lives.
    ///
    /// # Panics
    /// If its home cannot be used.
    #[must_use]
    pub fn start_logged(&self) -> (TestServer, DefaultGuard) {
        let log_file = LogFile::default();
        let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let guard = tracing::subscriber::set_default(
            Logging::at(LevelFilter::WARN).subscriber(clock, log_file.clone()),
        );
        (self.start_with(log_file), guard)
    }

    fn start_with(&self, log_file: LogFile) -> TestServer {
        let options = Options {
            home: self.home.clone(),
            cwd: self.workspace(),
            version: "0.0.0".to_owned(),
            system_dir: self.system_dir(),
            strict_config: false,
            config_overrides: self.config_overrides.clone(),
            environment: self.variables.iter().cloned().chain(ignored_key()).collect(),
            shell: "/bin/bash".into(),
            session_source: self.session_source.clone(),
            dialect: None,
            log_file,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            jitter: Arc::new(|| 0.0),
            random: Arc::new(random()),
        };
        let sandbox = Sandbox::new(sandbox::Config {
            supervisor: THIS_PROGRAM.into(),
            layer: if self.has_sandbox { Layer::Auto } else { Layer::None },
            descriptors: None,
            kept: vec![self.home.clone()],
            limits_by: LimitsBy::Auto,
        });
        let server = Server::start(options, sandbox).expect("the home can be used");
        let shown = |path: &Path| path.display().to_string();
        let masks = vec![
            (shown(&self.workspace()), "$WORK"),
            (shown(&self.root), "$ROOT"),
            (self.model.origin(), "$MODEL"),
        ];
        TestServer { server, masks }
    }

    /// Removes the environment now, and reports errors.
    ///
    /// # Errors
    /// If a part of it cannot be removed.
    pub fn close(self) -> std::io::Result<()> {
        self.folder.close()
    }
}

impl TestServer {
    /// Opens a connection and performs the handshake, without experimental capabilities.
    pub async fn connect(&self) -> Peer {
        self.connect_with(Value::Null).await
    }

    /// Opens a connection and performs the handshake, with these capabilities. The transcript
    /// starts after it.
    pub async fn connect_with(&self, capabilities: Value) -> Peer {
        let mut peer = self.open(server::connection_limits());
        peer.initialize(capabilities).await;
        peer.forget();
        peer
    }

    /// As [`Self::connect_with`], and what to call when the client leaves as over a WebSocket: it no longer waits for
    /// answers, unlike one whose input has ended.
    pub async fn connect_and_leave(&self, capabilities: Value) -> (Peer, impl FnOnce() + use<>) {
        let (mut peer, outbox) = self.open_connection(server::connection_limits());
        peer.initialize(capabilities).await;
        peer.forget();
        (peer, move || outbox.close(CloseReason::Left { code: 1006 }))
    }

    /// Opens a connection without a handshake, with these bounds on the server's side.
    pub fn open(&self, limits: Limits) -> Peer {
        self.open_connection(limits).0
    }

    fn open_connection(&self, limits: Limits) -> (Peer, Outbox) {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (reader, writer) = tokio::io::split(theirs);
        let connection = Connection::over(reader, writer, limits);
        let (server, outbox) = (self.server.clone(), connection.outbox.clone());
        tokio::spawn(async move { server.serve(connection, ()).await });
        (Peer::new(ours, Transcript::new(self.masks.clone())), outbox)
    }

    /// The server itself.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Stops the server: turns are interrupted, and the state is stored.
    pub async fn stop(self) {
        self.server.shutdown().await;
    }
}

/// The variable with the key that the check of the tests of effects ignores.
#[allow(clippy::disallowed_methods, reason = "the caller of the tests names the key")]
fn ignored_key() -> Option<(OsString, OsString)> {
    let name = "AGENTD_TEST_IGNORED_KEY";
    std::env::var_os(name).map(|key| (name.into(), key))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Bytes that are the same in every run and do not repeat.
fn random() -> impl Fn(&mut [u8]) + Send + Sync {
    let count = AtomicU32::new(0);
    move |bytes: &mut [u8]| {
        bytes.fill(7);
        let number = count.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let last = bytes.iter_mut().rev().zip(number.iter().rev());
        last.for_each(|(byte, part)| *byte = *part);
    }
}
