//! Commands of a thread: run through the sandbox, their output decoded and reported in order.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::Config;
use policy::SandboxPolicy;
use sandbox::{ErrorKind, Group, Outputs, Process, Size, Stdin, Utf8Stream};
use session::{ExecSpec, ProcessEnd, ToolRequest};
use telemetry::TraceContext;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{Instrument, Span};

use crate::egress::{ThreadAsker, managed_network};
use crate::thread::elicitations::Elicitations;
use crate::thread::pausable_clock::PausableClock;
use crate::thread::skill_needs::SecretVariables;
use services::allowed::{Allowed, MachineInput};
use services::command_environment::{command_environment, filtered_environment};
use services::command_limits::{command_limits, explain, reason};
use services::command_runner::{CommandLine, CommandRunner};
use services::options::Options;
use services::snapshots::ShellSnapshots;
use services::thread_port::Command;
use services::undo::{self, CallRecorder};

/// Writes to a command's input that may wait; one more fails.
const TYPED: usize = 64;
/// Bytes of one report: output that is there already is joined up to this size.
const REPORT_BYTES: usize = 64 * 1024;
/// Initial size of terminals.
const TERMINAL: Size = Size { rows: 24, cols: 80 };

/// The services for starting a command.
#[derive(Clone)]
pub struct CommandServices {
    pub options: Arc<Options>,
    pub runner: CommandRunner,
    pub snapshots: Arc<ShellSnapshots>,
}

/// The running commands of a thread.
pub struct RunningCommands {
    services: CommandServices,
    sender: mpsc::Sender<Command>,
    /// They share the limits of the thread.
    group: Arc<Group>,
    /// Pauses the clock of time limits.
    elicitations: Elicitations,
    running: HashMap<u64, RunningCommand>,
    /// Commands that wait to learn whether they may reach a host, by the key of the question.
    reaching: HashMap<u64, oneshot::Sender<bool>>,
}

/// The surroundings of a command.
pub(super) struct CommandPlace {
    /// That of its time limit.
    pub(super) clock: PausableClock,
    /// Around what is logged of it.
    pub(super) span: Span,
    /// It gets these, too.
    pub(super) variables: SecretVariables,
    /// Records what it changes.
    pub(super) recorder: Option<CallRecorder>,
    /// The position of its call in a trace.
    pub(super) trace: Option<TraceContext>,
}

/// A command that runs. Dropping it kills the command and all that it started.
struct RunningCommand {
    typed: mpsc::Sender<String>,
    _kept: oneshot::Sender<()>,
}

impl RunningCommands {
    pub fn new(services: CommandServices, sender: mpsc::Sender<Command>) -> Self {
        let (running, reaching) = (HashMap::new(), HashMap::new());
        let (group, elicitations) = (Group::new(), Elicitations::new());
        Self { services, sender, group, elicitations, running, reaching }
    }

    /// The parts of the sandbox that do not work on this machine, for the model.
    pub(super) async fn sandbox_limits(&self) -> Option<Arc<str>> {
        let degradation = self.services.runner.degradation().await?;
        Some(degradation.for_commands.into())
    }

    /// The environment of commands.
    pub(super) fn environment(&self, config: &Config) -> Vec<(OsString, OsString)> {
        command_environment(&self.services.options, config)
    }

    /// The prompts that pause the clock.
    pub(super) fn elicitations(&mut self) -> &mut Elicitations {
        &mut self.elicitations
    }

    /// Returns a receiver of whether such a prompt is open.
    pub(super) fn paused(&self) -> watch::Receiver<bool> {
        self.elicitations.paused()
    }

    /// Starts a command of a thread in `cwd`. Its end is reported exactly once unless it is killed;
    /// the end of one that cannot be started is returned. The end of its record comes after the report
    /// of its end.
    pub(super) fn start(
        &mut self,
        number: u64,
        spec: ExecSpec,
        cwd: &Path,
        config: &Arc<Config>,
        place: CommandPlace,
    ) -> Option<MachineInput> {
        let CommandPlace { clock, span, variables, recorder, trace } = place;
        let options = &self.services.options;
        let policy = Allowed::of_spec(&spec);
        let confinement = policy.confinement(cwd);
        let asker = ThreadAsker { thread: self.sender.clone(), process: number };
        let egress = match **confinement {
            SandboxPolicy::DangerFullAccess => Ok(None),
            _ => managed_network(&policy, config, options, Some(Arc::new(asker))),
        };
        let egress = match egress {
            Ok(egress) => egress,
            Err(error) => {
                let message = error.to_string();
                tracing::warn!(target: "server::sandbox", "{message}");
                let end = ProcessEnd::NotStarted(message);
                return Some(MachineInput::Exited { process: number, end });
            }
        };
        let login = login_script(&spec.request, &options.shell, config);
        let command = CommandLine {
            argv: argv(&spec.request, &options.shell, uses_profile(config)),
            cwd: spec.cwd,
            cwd_is_real: spec.cwd_is_real,
            env: command_environment(options, config),
            policy: confinement,
            guarded: config.trusted_folders.clone(),
            granted: spec.granted,
            tty: spec.tty.then_some(TERMINAL),
            stdin: Stdin::Null,
            // Clients and the model see one text: in the order in which it was written.
            outputs: Outputs::Joined,
            egress,
            limits: command_limits(config, Some(&self.group)),
        };
        let (typed, texts) = mpsc::channel(TYPED);
        let (kept, mut dropped) = oneshot::channel();
        self.running.insert(number, RunningCommand { typed, _kept: kept });
        let reporter = Reporter { number, sender: self.sender.clone() };
        let timeout = spec.timeout_ms.map(Duration::from_millis);
        let limit = TimeLimit { timeout, clock };
        let (services, config) = (self.services.clone(), config.clone());
        let run = async move {
            let _recorded = tokio::select! {
                biased;
                _ = &mut dropped => return,
                call = undo::begin_call(recorder) => call,
            };
            let mut command = match login {
                // Killed while the profile still runs, the command is never started.
                Some(login) => tokio::select! {
                    biased;
                    _ = &mut dropped => return,
                    command = login.with_snapshot(&services, &config, command) => command,
                },
                None => command,
            };
            // Not before: what a profile leaves behind is kept for all threads.
            variables.add_to(&mut command.env);
            if let Some(trace) = trace {
                set_trace(&mut command.env, trace);
            }
            follow(services, command, texts, dropped, limit, reporter).await;
        };
        tokio::spawn(run.instrument(span));
        None
    }

    /// Passes `text` on to a command; one that has ended needs it no longer. Returns what follows
    /// when the command reads nothing.
    pub(super) fn type_into(&mut self, number: u64, text: String) -> Option<MachineInput> {
        let sent = self.running.get(&number)?.typed.try_send(text);
        matches!(sent, Err(TrySendError::Full(_)))
            .then_some(MachineInput::NotTyped { process: number })
    }

    pub(super) fn kill(&mut self, number: u64) {
        self.running.remove(&number);
    }

    /// A command waits for the answer to the question `key`.
    pub(super) fn wait_for_host(&mut self, key: u64, answer: oneshot::Sender<bool>) {
        self.reaching.insert(key, answer);
    }

    /// Answers the question `key`.
    pub(super) fn answer_host(&mut self, key: u64, allowed: bool) {
        if let Some(answer) = self.reaching.remove(&key) {
            // The command may have ended.
            let _ = answer.send(allowed);
        }
    }

    /// Kills all commands.
    pub(super) fn clear(&mut self) {
        self.running.clear();
        self.reaching.clear();
    }
}

/// Makes a command part of a trace, in place of the one that this process is part of.
fn set_trace(environment: &mut Vec<(OsString, OsString)>, trace: TraceContext) {
    environment.retain(|(name, _)| name != "TRACEPARENT" && name != "TRACESTATE");
    environment.push(("TRACEPARENT".into(), trace.to_string().into()));
}

/// The script of a login shell whose profile need not run again.
fn login_script(request: &ToolRequest, shell: &Path, config: &Config) -> Option<LoginScript> {
    let ToolRequest::Script { script, shell: named, login, .. } = request else { return None };
    let is_wanted = config.features.shell_snapshot && (*login || uses_profile(config));
    let shell = named.as_deref().map_or(shell, Path::new);
    is_wanted.then(|| LoginScript { shell: shell.to_owned(), script: script.clone() })
}

/// Returns whether scripts run through the user's shell profile without asking for it.
fn uses_profile(config: &Config) -> bool {
    config.shell_environment_policy.experimental_use_profile && config.allow_login_shell
}

/// The script for a login shell.
struct LoginScript {
    shell: PathBuf,
    script: String,
}

impl LoginScript {
    /// The command with the environment that the profile leaves behind; unchanged when that
    /// environment could not be captured.
    async fn with_snapshot(
        self,
        services: &CommandServices,
        config: &Config,
        command: CommandLine,
    ) -> CommandLine {
        let failed = |why: &str| tracing::warn!(target: "server::login_shell", "{why}");
        let captured = services.snapshots.get(&self.shell, &command.env, failed).await;
        let Some(snapshot) = captured else { return command };
        let Some(argv) = snapshot.argv(&self.shell, &self.script) else { return command };
        let env = filtered_environment(snapshot.environment.iter().cloned(), config);
        CommandLine { argv, env, ..command }
    }
}

/// Reports one command to its thread.
struct Reporter {
    number: u64,
    sender: mpsc::Sender<Command>,
}

impl Reporter {
    /// A thread that has ended receives no more, and its commands are killed with it.
    async fn output(&self, text: String) {
        if !text.is_empty() {
            let input = MachineInput::Output { process: self.number, text };
            let _ = self.sender.send(Command::Input(input)).await;
        }
    }

    async fn end(&self, end: ProcessEnd) {
        let input = MachineInput::Exited { process: self.number, end };
        let _ = self.sender.send(Command::Input(input)).await;
    }
}

/// Runs a command to its end. When the sender of `dropped` is dropped, the command is killed.
async fn follow(
    services: CommandServices,
    command: CommandLine,
    mut texts: mpsc::Receiver<String>,
    mut dropped: oneshot::Receiver<()>,
    limit: TimeLimit,
    reporter: Reporter,
) {
    let program = command.argv.first().map(PathBuf::from).unwrap_or_default();
    let mut process = match services.runner.spawn(command).await {
        Ok(process) => process,
        Err(error) => {
            let message = match error.kind() {
                ErrorKind::LimitReached(exceeded) => {
                    format!("no further command can run: {}", explain(&exceeded))
                }
                _ => error.to_string(),
            };
            tracing::warn!(target: "server::sandbox", "{message}");
            let end = match error.kind() {
                ErrorKind::Unavailable => ProcessEnd::Unconfined(message),
                _ => ProcessEnd::NotStarted(message),
            };
            return reporter.end(end).await;
        }
    };
    for folder in &process.lapsed {
        reporter.output(lapsed(folder)).await;
    }
    let control = process.control();
    let mut writing = std::pin::pin!(async {
        while let Some(text) = texts.recv().await {
            // A command that has closed its input does not miss it.
            let _ = control.write_stdin(text.as_bytes()).await;
        }
        std::future::pending::<()>().await;
    });
    let mut limit = std::pin::pin!(limit.over());
    let mut timed_out = false;
    let mut decoder = Utf8Stream::default();
    loop {
        tokio::select! {
            biased;
            _ = &mut dropped => return process.kill(),
            () = &mut writing => {}
            () = &mut limit, if !timed_out => {
                timed_out = true;
                process.kill();
            }
            chunk = process.output.recv() => {
                let Some(chunk) = chunk else { break };
                let mut text = decoder.push(&chunk.bytes);
                join_more(&mut process, &mut decoder, &mut text);
                reporter.output(text).await;
            }
        }
    }
    reporter.output(decoder.finish()).await;
    let exit = tokio::select! {
        exit = process.wait() => exit,
        _ = &mut dropped => return process.kill(),
        () = &mut limit, if !timed_out => {
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
        exit => match reason(&exit) {
            Some(reason) => ProcessEnd::Limited { code: exit.shell_code(), reason },
            None => ProcessEnd::Code(exit.shell_code()),
        },
    };
    reporter.end(end).await;
}

/// Returns the note for the model and the clients about a granted folder that permits nothing.
fn lapsed(folder: &Path) -> String {
    format!(
        "agentd: the granted folder {} is gone or leads elsewhere than when it was granted, so this \
         command has no access through it; request it again if it is still needed\n",
        visible::path(folder)
    )
}

/// Takes what has arrived meanwhile, so that much output makes few reports.
fn join_more(process: &mut Process, decoder: &mut Utf8Stream, text: &mut String) {
    while text.len() < REPORT_BYTES {
        let Ok(chunk) = process.output.try_recv() else { return };
        text.push_str(&decoder.push(&chunk.bytes));
    }
}

/// The time limit of a command.
struct TimeLimit {
    timeout: Option<Duration>,
    clock: PausableClock,
}

impl TimeLimit {
    async fn over(self) {
        match self.timeout {
            Some(timeout) => self.clock.elapse(timeout).await,
            None => std::future::pending().await,
        }
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
        // None of these is run.
        ToolRequest::Patch { .. } | ToolRequest::Image { .. } | ToolRequest::Permissions { .. } => {
            Vec::new()
        }
    }
}
