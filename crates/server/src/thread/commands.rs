//! Commands of a thread: run through the sandbox, their output decoded and reported in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::env::{EnvPolicy, Inherit, child_environment};
use sandbox::{ErrorKind, Policy, Process, Size, Spawn, Stdin, Stream, Utf8Stream};
use session::{ExecSpec, Input, ProcessEnd, ToolRequest};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::Instrument;

use crate::convert::settings::confinement;
use crate::egress::{ThreadAsker, managed};
use crate::options::Options;
use crate::server::Core;
use crate::thread::Command;
use crate::thread::actor::Actor;

/// A command that runs. Dropping it kills the command and all that it started.
pub(crate) struct Running {
    typed: mpsc::Sender<String>,
    _wanted: oneshot::Sender<()>,
}

/// Writes to a command that may wait; one more fails.
const TYPED: usize = 64;
/// Text of one report: what is there is put together up to this size.
const REPORT_BYTES: usize = 64 * 1024;
/// Terminals start with this size.
const TERMINAL: Size = Size { rows: 24, cols: 80 };

impl Actor {
    /// Starts a command; its end is reported exactly once unless it is killed.
    pub(super) fn start_command(&mut self, number: u64, spec: ExecSpec) {
        let settings = self.machine.settings();
        let policy = confinement(&spec.sandbox, &settings.cwd);
        let asker = ThreadAsker { thread: self.sender.clone(), process: number };
        let egress = match &policy {
            Policy::DangerFullAccess => Ok(None),
            _ => {
                let (config, options) = (&self.config, &self.core.options);
                managed(&spec.sandbox, config, options, Some(Arc::new(asker)))
            }
        };
        let egress = match egress {
            Ok(egress) => egress,
            Err(error) => {
                let message = error.to_string();
                tracing::warn!(target: "server::sandbox", "{message}");
                let end = ProcessEnd::NotStarted(message);
                return self.soon(Input::Exited { process: number, end });
            }
        };
        let login = self.login_script(&spec.request);
        let spawn = Spawn {
            argv: argv(&spec.request, &self.core.options.shell, self.profiled()),
            cwd: spec.cwd,
            env: environment(&self.core.options, &self.config),
            policy,
            guarded: self.config.trusted_folders.clone(),
            tty: spec.tty.then_some(TERMINAL),
            stdin: Stdin::Null,
            egress,
        };
        let (typed, texts) = mpsc::channel(TYPED);
        let (wanted, mut unwanted) = oneshot::channel();
        self.running.insert(number, Running { typed, _wanted: wanted });
        let reporter = Reporter { number, sender: self.sender.clone() };
        let timeout = spec.timeout_ms.map(Duration::from_millis);
        let core = self.core.clone();
        let config = self.config.clone();
        let run = async move {
            let spawn = match login {
                // Killed while the profile still runs, the command is never started.
                Some(login) => tokio::select! {
                    biased;
                    _ = &mut unwanted => return,
                    spawn = login.reusing(&core, &config, spawn) => spawn,
                },
                None => spawn,
            };
            follow(core, spawn, texts, unwanted, timeout, reporter).await;
        };
        tokio::spawn(run.instrument(self.turn_span()));
    }

    /// The script of a login shell whose profile need not run again.
    fn login_script(&self, request: &ToolRequest) -> Option<LoginScript> {
        let ToolRequest::Script { script, shell, login, .. } = request else { return None };
        let wanted = self.config.features.shell_snapshot && (*login || self.profiled());
        let shell = shell.as_deref().map_or(self.core.options.shell.as_path(), Path::new);
        wanted.then(|| LoginScript { shell: shell.to_owned(), script: script.clone() })
    }

    /// Whether scripts run through the user's shell profile without asking for it.
    fn profiled(&self) -> bool {
        self.config.shell_environment_policy.experimental_use_profile
            && self.config.allow_login_shell
    }

    /// Passes `text` on to a command; one that has ended needs it no longer.
    pub(super) fn type_into(&mut self, number: u64, text: String) {
        let Some(running) = self.running.get(&number) else { return };
        if let Err(TrySendError::Full(_)) = running.typed.try_send(text) {
            self.soon(Input::NotTyped { process: number });
        }
    }

    pub(super) fn kill(&mut self, number: u64) {
        self.running.remove(&number);
    }
}

/// What a login shell is to run.
struct LoginScript {
    shell: PathBuf,
    script: String,
}

impl LoginScript {
    /// The command with the environment that the profile left behind; as it is when that is not
    /// known.
    async fn reusing(self, core: &Core, config: &config::Config, spawn: Spawn) -> Spawn {
        let failed = |why: &str| tracing::warn!(target: "server::login shell", "{why}");
        let taken = core.snapshots.get(&core.sandbox, &self.shell, &spawn.env, failed).await;
        let Some(snapshot) = taken else { return spawn };
        let Some(argv) = snapshot.argv(&self.shell, &self.script) else { return spawn };
        let env = filtered(snapshot.environment.iter().cloned(), config);
        Spawn { argv, env, ..spawn }
    }
}

/// Tells the thread about one command.
struct Reporter {
    number: u64,
    sender: mpsc::Sender<Command>,
}

impl Reporter {
    /// A thread that has ended hears nothing more, and its commands are killed with it.
    async fn output(&self, text: String) {
        if !text.is_empty() {
            let input = Input::Output { process: self.number, text };
            let _ = self.sender.send(Command::Input(input)).await;
        }
    }

    async fn end(&self, end: ProcessEnd) {
        let input = Input::Exited { process: self.number, end };
        let _ = self.sender.send(Command::Input(input)).await;
    }
}

/// Runs a command to its end. When the sender of `unwanted` is dropped, it is killed.
async fn follow(
    core: Arc<Core>,
    spawn: Spawn,
    mut texts: mpsc::Receiver<String>,
    mut unwanted: oneshot::Receiver<()>,
    timeout: Option<Duration>,
    reporter: Reporter,
) {
    let program = spawn.argv.first().map(PathBuf::from).unwrap_or_default();
    let mut process = match core.sandbox.spawn(spawn).await {
        Ok(process) => process,
        Err(error) => {
            let message = error.to_string();
            tracing::warn!(target: "server::sandbox", "{message}");
            let end = match error.kind() {
                ErrorKind::Unavailable => ProcessEnd::Unconfined(message),
                _ => ProcessEnd::NotStarted(message),
            };
            return reporter.end(end).await;
        }
    };
    let control = process.control();
    let mut writing = std::pin::pin!(async {
        while let Some(text) = texts.recv().await {
            // A command that has closed its input does not miss it.
            let _ = control.write_stdin(text.as_bytes()).await;
        }
        std::future::pending::<()>().await;
    });
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut timed_out = false;
    let mut decoder = Decoder::default();
    loop {
        tokio::select! {
            biased;
            _ = &mut unwanted => return process.kill(),
            () = &mut writing => {}
            () = until(deadline), if !timed_out => {
                timed_out = true;
                process.kill();
            }
            chunk = process.output.recv() => {
                let Some(chunk) = chunk else { break };
                let mut text = decoder.push(chunk.stream, &chunk.bytes);
                more(&mut process, &mut decoder, &mut text);
                reporter.output(text).await;
            }
        }
    }
    reporter.output(decoder.finish()).await;
    let exit = tokio::select! {
        exit = process.wait() => exit,
        _ = &mut unwanted => return process.kill(),
        () = until(deadline), if !timed_out => {
            timed_out = true;
            process.kill();
            process.wait().await
        }
    };
    let end = match exit {
        _ if timed_out => ProcessEnd::TimedOut,
        exit if exit.exec_errno.is_some() => {
            let error = exit.not_executed(&program);
            ProcessEnd::NotStarted(error.map(|error| error.to_string()).unwrap_or_default())
        }
        exit if exit.sandbox_failed => {
            ProcessEnd::NotStarted("the sandbox could not be set up; its output says why".into())
        }
        exit => ProcessEnd::Code(exit.shell_code()),
    };
    reporter.end(end).await;
}

/// Takes what has arrived meanwhile, so that much output makes few reports.
fn more(process: &mut Process, decoder: &mut Decoder, text: &mut String) {
    while text.len() < REPORT_BYTES {
        let Ok(chunk) = process.output.try_recv() else { return };
        text.push_str(&decoder.push(chunk.stream, &chunk.bytes));
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Each stream has its own half-read character.
#[derive(Default)]
struct Decoder {
    stdout: Utf8Stream,
    stderr: Utf8Stream,
}

impl Decoder {
    fn push(&mut self, stream: Stream, bytes: &[u8]) -> String {
        match stream {
            Stream::Stdout => self.stdout.push(bytes),
            Stream::Stderr => self.stderr.push(bytes),
        }
    }

    fn finish(&mut self) -> String {
        let mut text = self.stdout.finish();
        text.push_str(&self.stderr.finish());
        text
    }
}

fn argv(request: &ToolRequest, user_shell: &Path, profiled: bool) -> Vec<OsString> {
    match request {
        ToolRequest::Script { script, shell, login, .. } => {
            let shell =
                shell.as_deref().map_or_else(|| user_shell.as_os_str().to_owned(), Into::into);
            vec![shell, if *login || profiled { "-lc" } else { "-c" }.into(), script.into()]
        }
        ToolRequest::Argv { argv, .. } => argv.iter().map(Into::into).collect(),
        // Neither is run.
        ToolRequest::Patch { .. } | ToolRequest::Image { .. } => Vec::new(),
    }
}

/// The environment of every command.
pub(crate) fn environment(options: &Options, config: &config::Config) -> Vec<(OsString, OsString)> {
    filtered(options.environment.iter().cloned(), config)
}

/// Variables under `shell_environment_policy`.
fn filtered(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    config: &config::Config,
) -> Vec<(OsString, OsString)> {
    let policy = &config.shell_environment_policy;
    let policy = EnvPolicy {
        inherit: match policy.inherit {
            config::EnvironmentInherit::All => Inherit::All,
            config::EnvironmentInherit::Core => Inherit::Core,
            config::EnvironmentInherit::None => Inherit::None,
        },
        ignore_default_excludes: policy.ignore_default_excludes,
        exclude: policy.exclude.clone(),
        set: policy.set.clone(),
        include_only: policy.include_only.clone(),
        secrets: config.secret_variables.clone(),
    };
    child_environment(variables, &policy)
}
