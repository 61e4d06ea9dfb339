//! `notify`: a program of the user's that is run after each turn, with a JSON payload as its last
//! argument. Nothing waits for it: the turn is over whether it runs, hangs or fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::allowed::Allowed;
use crate::command_environment::command_environment;
use crate::command_runner::{CommandLine, CommandRunner};
use crate::options::Options;

/// Time limit of the program.
const MAX_RUN: Duration = Duration::from_secs(30);
/// Programs that run at once; beyond, a turn is not notified of.
const MAX_RUNNING: usize = 8;

/// Runs the programs.
pub struct Notifier {
    permits: Arc<Semaphore>,
    runner: CommandRunner,
    options: Arc<Options>,
}

/// The JSON payload about a turn.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnPayload<'p> {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub thread_id: &'p str,
    pub turn_id: &'p str,
    pub cwd: &'p Path,
    pub client: Option<&'p str>,
    pub input_messages: &'p [String],
    pub last_assistant_message: Option<&'p str>,
}

impl Notifier {
    pub fn new(runner: CommandRunner, options: Arc<Options>) -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_RUNNING)), runner, options }
    }

    /// Runs the program of `config` with `payload`. Its output is dropped; failures are logged.
    pub fn run(&self, config: &config::Config, payload: &TurnPayload<'_>) {
        let Some(program) = config.notify.first().cloned() else { return };
        let Ok(json) = serde_json::to_string(payload) else { return };
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            return tracing::warn!(
                target: "server::notify",
                "{MAX_RUNNING} programs are running: this turn is skipped"
            );
        };
        let argv = config.notify.iter().chain([&json]).map(Into::into).collect();
        let env = command_environment(&self.options, config);
        let cwd = payload.cwd.to_owned();
        let command = CommandLine::new(argv, cwd, env, Allowed::notify_program());
        let runner = self.runner.clone();
        let run = async move {
            let _permit = permit;
            let process = match runner.spawn(command).await {
                Ok(process) => process,
                Err(error) => {
                    return tracing::warn!(target: "server::notify", "`{program}`: {error}");
                }
            };
            // Dropping the process ends it and what it started.
            match tokio::time::timeout(MAX_RUN, process.wait()).await {
                Ok(exit) if !exit.success() => {
                    let code = exit.shell_code();
                    tracing::warn!(
                        target: "server::notify",
                        "`{program}` ended with exit code {code}"
                    );
                }
                Ok(_) => {}
                Err(_) => {
                    let seconds = MAX_RUN.as_secs();
                    tracing::warn!(
                        target: "server::notify",
                        "`{program}` was ended after {seconds} s"
                    );
                }
            }
        };
        tokio::spawn(run.in_current_span());
    }
}
