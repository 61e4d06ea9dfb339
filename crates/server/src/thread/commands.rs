//! Commands of a thread: looked at by the rules, run through the sandbox, their output decoded
//! and reported in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandbox::env::{EnvPolicy, Inherit, child_environment};
use sandbox::rules::{Decision, Invocation, PathResolver};
use sandbox::{Policy, Process, Size, Spawn, Stdin, Stream, Utf8Stream};
use session::{Assessment, ExecSpec, Id, ImageData, Input, Prepared, ProcessEnd, ToolRequest};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::convert::settings::confinement;
use crate::egress::{ThreadAsker, managed};
use crate::options::Options;
use crate::server::Core;
use crate::thread::Command;
use crate::thread::actor::Actor;
use crate::{rules, warnings};

/// A command that runs. Dropping it kills the command and all that it started.
pub(crate) struct Running {
    typed: mpsc::Sender<String>,
    _wanted: oneshot::Sender<()>,
}

/// Writes to a command that may wait; one more is dropped, and the command told so.
const TYPED: usize = 64;
/// Text of one report: what is there is put together up to this size.
const REPORT_BYTES: usize = 64 * 1024;
/// Answer to a command that is not only a patch.
const MIXED_PATCH: &str = "`apply_patch` is a tool, not a program: call the tool with the patch, and \
    run other commands on their own. A command that is nothing but `apply_patch <<'EOF'`, with \
    quotes around the delimiter, the patch, and `EOF` is understood too.";
/// Terminals start with this size.
const TERMINAL: Size = Size { rows: 24, cols: 80 };

impl Actor {
    /// Looks at a tool call and reports what it found.
    pub(super) fn prepare(&mut self, call: u64, _turn: &Id, request: ToolRequest) {
        let input = match request {
            ToolRequest::Image { path } => {
                Input::ImageRead { call, outcome: self.read_image(&path) }
            }
            ToolRequest::Patch { text } => {
                Input::Prepared { call, outcome: self.prepare_patch_tool(call, &text) }
            }
            ToolRequest::Script { script, workdir, login, .. } => {
                let outcome = self.prepare_script(call, &script, workdir.as_deref(), login);
                Input::Prepared { call, outcome }
            }
            ToolRequest::Argv { argv, workdir } => {
                let outcome = self.prepare_argv(call, &argv, workdir.as_deref());
                Input::Prepared { call, outcome }
            }
        };
        self.soon(input);
    }

    fn read_image(&self, path: &str) -> Result<ImageData, String> {
        let path = self.machine.settings().cwd.join(path);
        let policy = confinement(&self.machine.settings().sandbox, &self.machine.settings().cwd);
        let resolved = policy.resolve(self.core.options.tmpdir().as_deref());
        let path = resolved.check_read(&path).map_err(|denied| denied.to_string())?;
        let data_url = crate::images::data_url(&path)?;
        Ok(ImageData { path: path.display().to_string(), data_url })
    }

    /// The tool's input; models that know the shell write their command into it.
    fn prepare_patch_tool(&mut self, call: u64, text: &str) -> Prepared {
        let cwd = self.workdir(None);
        match patch::embedded(text) {
            Some(embedded) => self.prepare_embedded(call, embedded, cwd),
            None => self.prepare_patch(call, text, &cwd),
        }
    }

    fn prepare_embedded(&mut self, call: u64, found: patch::Embedded, cwd: PathBuf) -> Prepared {
        let cwd = found.workdir.map_or_else(|| cwd.clone(), |folder| cwd.join(folder));
        self.prepare_patch(call, &found.patch, &cwd)
    }

    fn prepare_script(
        &mut self,
        call: u64,
        script: &str,
        workdir: Option<&str>,
        login: bool,
    ) -> Prepared {
        if login && !self.config.allow_login_shell {
            return Prepared::Refused(
                "login shells are switched off (`allow_login_shell`); leave `login` out".into(),
            );
        }
        let cwd = self.workdir(workdir);
        if let Some(embedded) = patch::embedded(script) {
            return self.prepare_embedded(call, embedded, cwd);
        }
        if patch::is_mixed(script) {
            return Prepared::Refused(MIXED_PATCH.into());
        }
        self.assess(Invocation::Script(script), script.to_owned(), cwd)
    }

    fn prepare_argv(&mut self, call: u64, argv: &[String], workdir: Option<&str>) -> Prepared {
        let cwd = self.workdir(workdir);
        if let Some(embedded) = patch::embedded_argv(argv) {
            return self.prepare_embedded(call, embedded, cwd);
        }
        if patch::is_mixed_argv(argv) {
            return Prepared::Refused(MIXED_PATCH.into());
        }
        let display = sandbox::rules::quote(argv);
        self.assess(Invocation::Argv(argv), display, cwd)
    }

    /// What a script does, for display.
    pub(super) fn actions(&self, script: &str, cwd: &Path) -> Vec<session::Action> {
        let invocation = Invocation::Script(script);
        let found = self.core.rules.assess(invocation, cwd, &self.resolver(), &self.config);
        found.actions.into_iter().map(action).collect()
    }

    fn workdir(&self, workdir: Option<&str>) -> PathBuf {
        let cwd = &self.machine.settings().cwd;
        workdir.map_or_else(|| cwd.clone(), |folder| cwd.join(folder))
    }

    fn assess(&self, invocation: Invocation<'_>, display: String, cwd: PathBuf) -> Prepared {
        if !cwd.is_dir() {
            return Prepared::Refused(format!("the working folder {} is not there", cwd.display()));
        }
        let found = self.core.rules.assess(invocation, &cwd, &self.resolver(), &self.config);
        let normal_form = match invocation {
            Invocation::Script(script) => sandbox::rules::normal_form(script),
            Invocation::Argv(_) => None,
        };
        Prepared::Command(Assessment {
            display,
            cwd,
            actions: found.actions.into_iter().map(action).collect(),
            known_safe: found.known_safe,
            dangerous: found.dangerous,
            rule: found.decision.map(|verdict| (rule(verdict.decision), rules::reason(verdict))),
            amendment: found.proposed_amendment,
            amendable: found.amendable,
            normal_form,
        })
    }

    pub(super) fn allow(&self, cwd: &Path, prefix: &[String]) {
        if let Err(why) = self.core.rules.allow(prefix, cwd, &self.resolver()) {
            let message = format!("the command was run, but will be asked about again: {why}");
            for peer in self.subscribers.iter() {
                warnings::tell_about_thread(peer, &self.id, message.clone());
            }
        }
    }

    fn resolver(&self) -> PathResolver {
        let settings = self.machine.settings();
        rules::resolver(&self.core.options, &self.config, &settings.sandbox, &settings.cwd)
    }

    /// Tells the clients which command rules cannot be read: all commands are asked about then.
    pub(super) fn tell_about_rules(&self) {
        for problem in self.core.rules.problems(&self.config) {
            for peer in self.subscribers.iter() {
                warnings::tell_plain(peer, problem.clone());
            }
        }
    }

    /// Starts a command; its end is reported exactly once unless it is killed.
    pub(super) fn start_command(&mut self, number: u64, spec: ExecSpec) {
        let settings = self.machine.settings();
        let policy = if spec.unsandboxed {
            Policy::DangerFullAccess
        } else {
            confinement(&settings.sandbox, &settings.cwd)
        };
        let asker = ThreadAsker { thread: self.sender.clone(), process: number };
        let egress = match &policy {
            Policy::DangerFullAccess => Ok(None),
            _ => {
                let (config, options) = (&self.config, &self.core.options);
                managed(&settings.sandbox, config, options, Some(Arc::new(asker)))
            }
        };
        let egress = match egress {
            Ok(egress) => egress,
            Err(why) => {
                self.core.warn("sandbox", &why);
                let end = ProcessEnd::NotStarted(why);
                return self.soon(Input::Exited { process: number, end });
            }
        };
        let login = self.login_script(&spec.request);
        let spawn = Spawn {
            argv: argv(&spec.request, &self.core.options.shell, self.profiled()),
            cwd: spec.cwd,
            env: environment(&self.core.options, &self.config),
            policy,
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
        tokio::spawn(async move {
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
        });
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

    pub(super) fn type_into(&self, number: u64, text: String) {
        if let Some(running) = self.running.get(&number) {
            // A command that does not read what is typed loses what comes after.
            let _ = running.typed.try_send(text);
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
        let failed = |why: &str| core.warn("login shell", why);
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
            core.warn("sandbox", &error.to_string());
            return reporter.end(ProcessEnd::NotStarted(error.to_string())).await;
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

fn rule(decision: Decision) -> session::RuleDecision {
    match decision {
        Decision::Allow => session::RuleDecision::Allow,
        Decision::Prompt => session::RuleDecision::Prompt,
        Decision::Forbidden => session::RuleDecision::Forbidden,
    }
}

fn action(action: sandbox::rules::Action) -> session::Action {
    use sandbox::rules::Action;
    match action {
        Action::Read { command, name, path } => session::Action::Read { command, name, path },
        Action::ListFiles { command, path } => session::Action::ListFiles { command, path },
        Action::Search { command, query, path } => session::Action::Search { command, query, path },
        Action::Unknown { command } => session::Action::Unknown { command },
    }
}
