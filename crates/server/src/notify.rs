//! `notify`: a program of the user's that is run after each turn, with a JSON payload as its last
//! argument. It holds nothing up: whether it runs, hangs or fails, the turn is over.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandbox::{Policy, Spawn, Stdin};
use serde::Serialize;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::server::Core;

/// How long the program may run.
const MAX_RUN: Duration = Duration::from_secs(30);
/// Programs that run at once; beyond, a turn is not notified of.
const MAX_RUNNING: usize = 8;

/// Counts the programs that run.
pub(crate) struct Notifier {
    places: Arc<Semaphore>,
}

impl Default for Notifier {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_RUNNING)) }
    }
}

/// The payload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Payload<'p> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) thread_id: &'p str,
    pub(crate) turn_id: &'p str,
    pub(crate) cwd: &'p Path,
    pub(crate) client: Option<&'p str>,
    pub(crate) input_messages: &'p [String],
    pub(crate) last_assistant_message: Option<&'p str>,
}

/// Runs `command` with `payload`. Its output is dropped; what goes wrong is in the log.
pub(crate) fn run(core: &Arc<Core>, config: &config::Config, payload: &Payload<'_>) {
    if config.notify.is_empty() {
        return;
    }
    let Ok(json) = serde_json::to_string(payload) else { return };
    let Ok(place) = core.notifier.places.clone().try_acquire_owned() else {
        return tracing::warn!(
            target: "server::notify",
            "eight programs run already, this turn is not notified of"
        );
    };
    let argv = config.notify.iter().chain([&json]).map(Into::into).collect();
    let spawn = Spawn {
        argv,
        cwd: payload.cwd.to_owned(),
        env: crate::thread::environment(&core.options, config),
        // The user's own program, named in the user's own file.
        policy: Policy::DangerFullAccess,
        guarded: Vec::new(),
        tty: None,
        stdin: Stdin::Null,
        egress: None,
    };
    let core = core.clone();
    let program = config.notify.first().cloned().unwrap_or_default();
    let run = async move {
        let _place = place;
        let process = match core.sandbox.spawn(spawn).await {
            Ok(process) => process,
            Err(error) => {
                return tracing::warn!(target: "server::notify", "`{program}`: {error}");
            }
        };
        // Dropping the process ends it and what it started.
        match tokio::time::timeout(MAX_RUN, process.wait()).await {
            Ok(exit) if !exit.success() => {
                let code = exit.shell_code();
                tracing::warn!(target: "server::notify", "`{program}` ended with exit code {code}");
            }
            Ok(_) => {}
            Err(_) => {
                tracing::warn!(target: "server::notify", "`{program}` ran for 30 s and was ended");
            }
        }
    };
    tokio::spawn(run.in_current_span());
}
