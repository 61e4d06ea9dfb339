//! `agentd` by itself: the terminal program, with a server in this process or one that runs elsewhere.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use jsonrpc::Connection;
use protocol::{OpeningOverrides, SandboxMode, ThreadWorktreeParams};
use tokio::runtime::Handle;
use tui::Kept;
use tui::app::{Environment as TerminalEnvironment, Start, StartThread};
use tui::here::{AskedServer, FindModels, FindServers};
use tui::link::{Connecting, Connector};

use crate::commands::connect::{self, ConnectArguments, Remote, Serving};
use crate::commands::{Invalid, eprint, local_provider};
use crate::environment::Environment;

/// The arguments of `agentd` without a subcommand.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// The first message of a new thread, shown on the terminal
    prompt: Option<String>,
    /// Continue the latest thread of this folder
    #[arg(long = "continue")]
    is_continued: bool,
    /// Work in a new git worktree, on a branch of this name; without NAME, the first words of the prompt
    /// name it
    #[arg(
        id = "terminal_worktree",
        long = "worktree",
        value_name = "NAME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with = "is_continued"
    )]
    worktree: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// `agentd resume` and `agentd fork`.
#[derive(clap::Args)]
pub(crate) struct ThreadArguments {
    /// The thread; without it, `resume` shows a list and `fork` uses the latest thread of this
    /// last
    thread_id: Option<String>,
    /// The first message
    prompt: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// The ids are not those of `exec`, whose options are global: clap would take the values of these for them.
#[derive(clap::Args)]
#[group(skip)]
struct Options {
    /// Work in this folder
    #[arg(id = "terminal_cd", short = 'C', long = "cd", value_name = "DIR")]
    cd: Option<PathBuf>,
    /// The model to use
    #[arg(id = "terminal_model", short = 'm', long = "model", value_name = "MODEL")]
    model: Option<String>,
    /// The provider to use: `default`, `offline`, or one of config.toml
    #[arg(id = "terminal_model_provider", long = "model-provider", value_name = "ID")]
    model_provider: Option<String>,
    /// The sandbox mode of commands
    #[arg(id = "terminal_sandbox", short = 's', long = "sandbox", value_name = "MODE")]
    sandbox: Option<Sandbox>,
    #[command(flatten)]
    connect: ConnectArguments,
}

/// The sandbox mode of commands.
#[derive(Clone, Copy, ValueEnum)]
enum Sandbox {
    /// Read files
    ReadOnly,
    /// Also write in the working folder and the temporary folders
    WorkspaceWrite,
    /// Run without a sandbox
    DangerFullAccess,
}

impl Arguments {
    /// Returns whether anything was given, which a subcommand does not take.
    pub(crate) fn are_given(&self) -> bool {
        let Self { prompt, is_continued, worktree, options } = self;
        let Options { cd, model, model_provider, sandbox, connect } = options;
        let options = cd.is_some() || connect.are_given() || sandbox.is_some();
        let options = options || model.is_some() || model_provider.is_some();
        prompt.is_some() || *is_continued || worktree.is_some() || options
    }

    /// The one word that was given as a message, which is perhaps a subcommand with a mistake.
    pub(crate) fn only_word(&self) -> Option<&str> {
        self.prompt.as_deref().filter(|prompt| !prompt.contains(char::is_whitespace))
    }
}

/// Opens the terminal program.
pub(crate) async fn run(
    arguments: Arguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let thread = if arguments.is_continued { StartThread::Latest } else { StartThread::New };
    let prompt = arguments.prompt;
    let named = |name: String| ThreadWorktreeParams::named(Some(&name), prompt.as_deref());
    let worktree = arguments.worktree.map(named);
    let start = Start { thread, prompt, worktree, ..Start::default() };
    open(start, arguments.options, environment).await
}

/// `agentd resume`.
pub(crate) async fn resume(
    arguments: ThreadArguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let thread = arguments.thread_id.map_or(StartThread::Choose, StartThread::Resume);
    let start = Start { thread, prompt: arguments.prompt, ..Start::default() };
    open(start, arguments.options, environment).await
}

/// `agentd fork`.
pub(crate) async fn fork(
    arguments: ThreadArguments,
    environment: Environment,
) -> anyhow::Result<ExitCode> {
    let thread = arguments.thread_id.map_or(StartThread::ForkLatest, StartThread::Fork);
    let start = Start { thread, prompt: arguments.prompt, ..Start::default() };
    open(start, arguments.options, environment).await
}

async fn open(
    start: Start,
    options: Options,
    mut environment: Environment,
) -> anyhow::Result<ExitCode> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let message = "this needs a terminal; scripts use `agentd exec`, programs use `agentd \
            app-server`, and `agentd --help` lists the rest";
        return Err(Invalid::new(message).into());
    }
    if environment.variable("TERM").is_some_and(|term| term == "dumb") {
        let message = "TERM is `dumb`: such a terminal cannot move the cursor, which this program \
            needs. Set TERM to the type of your terminal, such as xterm-256color, or use `agentd \
            exec`, which only prints lines";
        return Err(Invalid::new(message).into());
    }
    if let Some(folder) = &options.cd {
        let folder = environment.cwd.join(folder);
        let folder = folder
            .canonicalize()
            .with_context(|| format!("--cd: {}", folder.display()))
            .map_err(Invalid::from)?;
        environment.cwd = folder;
    }
    let cwd = environment.cwd.clone();
    let kept = Kept::new(&environment.home, &cwd);
    let mut terminal = TerminalEnvironment::from_variables(|name| environment.variable(name));
    terminal.started_at = jiff::Timestamp::now().as_second();
    terminal.process_id = std::process::id();
    let start = Start { overrides: overrides(&options, &environment), ..start };
    let (connector, serving, log, finds) = match options.connect.remote()? {
        Some(remote) => (To::Remote(remote), None, None, None),
        None => {
            let finds = (find_servers(&environment), find_models(&environment));
            terminal.key_variables = key_variables(&environment);
            let Serving { connection, task, log } = connect::serve(environment, "cli")?;
            (To::Here(Some(connection)), Some(task), Some(log), Some(finds))
        }
    };
    terminal.server_is_here = finds.is_some();
    let (find_servers, find_models) = finds.unzip();
    let options = tui::Options {
        connector,
        background: Handle::current(),
        limits: server::connection_limits(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cwd,
        kept,
        start,
        environment: terminal,
        find_servers,
        find_models,
    };
    let ended = match tokio::task::spawn_blocking(move || draw(options)).await {
        Ok(ended) => ended.context("the terminal cannot be used")?,
        Err(error) => {
            let log = log.and_then(|log| log.path());
            let crash = error.try_into_panic().context("the terminal program ended early")?;
            let message = Some(tui::crash_report(&*crash, log.as_deref()));
            tui::Ended { code: 1, message }
        }
    };
    if let Some(serving) = serving {
        // The connection is closed: turns are interrupted and everything is stored. The panic hook has
        // reported a panic of the task.
        let _ = serving.await;
    }
    if let Some(message) = ended.message {
        eprint(format_args!("{message}"));
    }
    Ok(ExitCode::from(ended.code))
}

/// The terminal has a thread of its own, which sleeps while the server works on what is not drawn yet.
fn draw(options: tui::Options<To>) -> io::Result<tui::Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tui::run(options))
}

/// The settings that the command line gives the thread.
fn overrides(options: &Options, environment: &Environment) -> OpeningOverrides {
    OpeningOverrides {
        cwd: Some(environment.cwd.to_string_lossy().into_owned()),
        model: options.model.clone(),
        model_provider: options.model_provider.clone(),
        sandbox: options.sandbox.map(|sandbox| match sandbox {
            Sandbox::ReadOnly => SandboxMode::ReadOnly,
            Sandbox::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            Sandbox::DangerFullAccess => SandboxMode::DangerFullAccess,
        }),
        ..OpeningOverrides::default()
    }
}

/// Looks for the model servers of this machine.
fn find_servers(environment: &Environment) -> FindServers {
    let environment = environment.clone();
    Arc::new(move || Box::pin(local_provider::servers(environment.clone())))
}

/// Asks a server for its models.
fn find_models(environment: &Environment) -> FindModels {
    let environment = environment.clone();
    Arc::new(move |server: AskedServer| {
        Box::pin(local_provider::models_at(environment.clone(), server))
    })
}

/// Variables that are offered at most.
const MAX_KEY_VARIABLES: usize = 5;

/// Names of the variables that are set and seem to hold keys of model providers. Those of the default provider
/// are its own.
fn key_variables(environment: &Environment) -> Vec<String> {
    let is_key = |name: &str| name.ends_with("_API_KEY") && name != "AGENT_API_KEY";
    let set = environment.variables.iter().filter(|(_, value)| !value.is_empty());
    let mut names: Vec<String> = set
        .filter_map(|(name, _)| name.to_str())
        .filter(|name| is_key(name))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.truncate(MAX_KEY_VARIABLES);
    names
}

/// The way to the server.
enum To {
    /// In this process: there is one connection.
    Here(Option<Connection>),
    Remote(Remote),
}

impl Connector for To {
    fn connect(&mut self) -> Connecting {
        match self {
            Self::Here(connection) => {
                let connection = connection.take();
                Box::pin(async move { connection.ok_or_else(|| "the server has ended".to_owned()) })
            }
            Self::Remote(remote) => {
                let remote = remote.clone();
                Box::pin(
                    async move { remote.connect().await.map_err(|error| format!("{error:#}")) },
                )
            }
        }
    }

    fn can_reconnect(&self) -> bool {
        matches!(self, Self::Remote(_))
    }
}
