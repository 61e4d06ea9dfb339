//! `features.prevent_idle_sleep`: the machine does not go to sleep by itself while a turn runs.
//!
//! A program of the system holds the lock for as long as it runs. It is ended with the last turn, and
//! by its supervisor should this process die first.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox::OutputBuffer;
use tokio::sync::watch;

use crate::allowed::Allowed;
use crate::command_runner::{CommandLine, CommandRunner};
use crate::connections::Connections;
use crate::options::Options;
use crate::warnings;

/// The program that holds the lock, and its arguments.
#[cfg(target_os = "linux")]
const PROGRAM: &[&str] = &[
    "systemd-inhibit",
    "--what=idle",
    "--mode=block",
    "--who=agentd",
    "--why=an agent is working",
    "sleep",
    "infinity",
];
/// As above.
#[cfg(target_os = "macos")]
const PROGRAM: &[&str] = &["caffeinate", "-i"];
/// As above: there is none.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
const PROGRAM: &[&str] = &[];

/// Bytes of the program's output that are shown when it fails.
const MAX_OUTPUT: usize = 1000;

/// Holds the lock while any turn of the server wants it.
pub struct IdleSleep {
    runner: CommandRunner,
    options: Arc<Options>,
    connections: Arc<Connections>,
    state: watch::Sender<State>,
    has_warned: AtomicBool,
}

#[derive(Default)]
struct State {
    turns: usize,
    /// A task runs the program, or is about to.
    is_kept: bool,
}

/// While it lives, the machine stays awake.
pub struct Awake(Arc<IdleSleep>);

impl IdleSleep {
    pub fn new(
        runner: CommandRunner,
        options: Arc<Options>,
        connections: Arc<Connections>,
    ) -> Self {
        let (state, has_warned) = (watch::Sender::default(), AtomicBool::default());
        Self { runner, options, connections, state, has_warned }
    }

    /// Keeps the machine awake from now on. Never waits: the program is started in the background, and
    /// clients are sent a warning, once, when it fails.
    pub fn prevent(self: &Arc<Self>) -> Awake {
        let mut was_kept = false;
        self.state.send_modify(|state| {
            state.turns += 1;
            was_kept = std::mem::replace(&mut state.is_kept, true);
        });
        if !was_kept {
            tokio::spawn(self.clone().keep());
        }
        Awake(self.clone())
    }

    /// Runs the program until no turn needs it.
    async fn keep(self: Arc<Self>) {
        loop {
            let held = self.hold().await;
            if let Err(why) = &held {
                self.warn(why);
            }
            let mut goes_on = false;
            self.state.send_modify(|state| {
                // After a failure, the next turn tries again.
                goes_on = held.is_ok() && state.turns > 0;
                state.is_kept = goes_on;
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Runs the program until the last turn has ended.
    ///
    /// # Errors
    /// Why the lock is not held.
    async fn hold(&self) -> Result<(), String> {
        let Some(program) = PROGRAM.first() else {
            return Err("it is not supported on this system".to_owned());
        };
        let argv = PROGRAM.iter().map(OsString::from).collect();
        let (env, policy) = (self.options.environment.clone(), Allowed::idle_lock());
        let command = CommandLine::new(argv, "/".into(), env, policy);
        let process = self.runner.spawn(command).await;
        let mut process = process.map_err(|error| format!("`{program}`: {error}"))?;
        let mut state = self.state.subscribe();
        let (mut output, mut errors) =
            (OutputBuffer::new(MAX_OUTPUT), OutputBuffer::new(MAX_OUTPUT));
        let exit = tokio::select! {
            // Dropping the process ends it and what it started.
            _ = state.wait_for(|state| state.turns == 0) => return Ok(()),
            exit = process.collect(&mut output, &mut errors) => exit,
        };
        if let Some(error) = exit.not_executed(program.as_ref()) {
            return Err(format!("`{program}`: {error}"));
        }
        let said = errors.text();
        let said = said.trim();
        let code = exit.shell_code();
        Err(match said.is_empty() {
            true => format!("`{program}` ended with exit code {code}"),
            false => format!("`{program}` ended with exit code {code}: {said}"),
        })
    }

    fn warn(&self, why: &str) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "the machine may go to sleep while a turn runs, although `features.prevent_idle_sleep` \
             is on: {why}"
        );
        tracing::warn!(target: "server::idle_sleep", "{message}");
        for peer in self.connections.all() {
            warnings::send_warning(&peer, message.clone());
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.turns -= 1);
    }
}
