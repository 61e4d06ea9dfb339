//! Starts the programs of MCP servers, under full access or confined as the user configured them, each with its own
//! session: the supervisor ends it with all of its descendants, even when this process is killed.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mcp::{BoxFuture, Child, ChildControl, Launcher, Output, Program};
use sandbox::env::CORE_VARIABLES;
use sandbox::{Control, Exit, Process, Stdin, Stream};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::allowed::Allowed;
use crate::command_runner::{CommandLine, CommandRunner};
use crate::options::Options;

/// Pieces of output that wait to be read, of 64 KiB at most; at the bound the program waits.
const OUTPUT: usize = 4;
/// Time for a program to end when its standard input is closed.
const INPUT_GRACE: Duration = Duration::from_secs(1);
/// Time for a program to end when it is then asked to.
const GRACE: Duration = Duration::from_millis(500);

/// The launcher of MCP servers' programs.
pub(super) struct SandboxLauncher {
    runner: CommandRunner,
    options: Arc<Options>,
    /// One task for each program, until it has ended.
    programs: TaskTracker,
}

impl SandboxLauncher {
    pub(super) fn new(runner: CommandRunner, options: Arc<Options>) -> Self {
        Self { runner, options, programs: TaskTracker::new() }
    }

    /// The programs that have not ended.
    pub(super) fn programs(&self) -> TaskTracker {
        self.programs.clone()
    }

    fn command(&self, program: Program) -> CommandLine {
        let Program { command, args, cwd, env, env_vars, confinement } = program;
        let is_passed = |name: &str| {
            CORE_VARIABLES.contains(&name) || env_vars.iter().any(|listed| listed == name)
        };
        let inherited = self.options.environment.iter();
        let inherited = inherited.filter(|(name, _)| name.to_str().is_some_and(is_passed));
        let inherited = inherited.filter(|(name, _)| {
            // What the configuration sets has precedence.
            name.to_str().is_none_or(|name| !env.contains_key(name))
        });
        let set = env.iter().map(|(name, value)| (name.into(), value.into()));
        let variables: Vec<(OsString, OsString)> = inherited.cloned().chain(set).collect();
        let argv = std::iter::once(command).chain(args).map(OsString::from).collect();
        let policy = Allowed::mcp_server(confinement, &cwd);
        let line = CommandLine::new(argv, cwd, variables, policy);
        CommandLine { stdin: Stdin::Pipe, ..line }
    }
}

impl Launcher for SandboxLauncher {
    fn launch(&self, program: Program) -> BoxFuture<'_, Result<Child, String>> {
        Box::pin(async move {
            let spawned = self.runner.spawn(self.command(program)).await;
            let process = spawned.map_err(|error| error.to_string())?;
            let control = Arc::new(Input(process.control()));
            let (sender, output) = mpsc::channel(OUTPUT);
            self.programs.spawn(forward(process, sender));
            Ok(Child { output, control })
        })
    }
}

struct Input(Control);

impl ChildControl for Input {
    fn ended(&self) -> BoxFuture<'_, String> {
        Box::pin(async { ending(self.0.wait().await) })
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(self.0.write_stdin(bytes))
    }
}

/// Passes output on until the program closes it or the reader is gone, and ends the program.
async fn forward(mut process: Process, sender: mpsc::Sender<Output>) {
    loop {
        let chunk = tokio::select! {
            chunk = process.output.recv() => chunk,
            () = sender.closed() => break,
        };
        let Some(chunk) = chunk else { return };
        let output = match chunk.stream {
            Stream::Stdout => Output::Stdout(chunk.bytes),
            Stream::Stderr => Output::Stderr(chunk.bytes),
        };
        if sender.send(output).await.is_err() {
            break;
        }
    }
    // A server ends when its input does; what it still writes is dropped.
    let _ = process.close_stdin().await;
    let drained = async { while process.output.recv().await.is_some() {} };
    if tokio::time::timeout(INPUT_GRACE, drained).await.is_err() {
        process.terminate(GRACE).await;
    }
}

fn ending(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (Some(code), None) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}
