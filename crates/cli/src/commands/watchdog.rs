//! Ends the process in time after a signal, even when its other threads hang.
//!
//! It is a thread with a runtime of its own.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep_until};

use crate::commands::eprint;
use crate::commands::local::Signals;

/// Time for threads, store and clients to close after the grace period of turns.
pub(crate) const END_GRACE: Duration = Duration::from_secs(10);
/// Time for the last message: standard error may be blocked.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Watches for signals on a thread and a runtime of its own. `grace` and [`END_GRACE`] after the
/// first one, or [`END_GRACE`] after the second, the process ends with status 1.
///
/// # Errors
/// Of the operating system.
pub(crate) fn start(grace: Duration) -> anyhow::Result<()> {
    const FAILED: &str = "cannot start the shutdown watchdog";
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context(FAILED)?;
    let watch = move || runtime.block_on(watch(grace));
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch).context(FAILED)?;
    Ok(())
}

async fn watch(grace: Duration) {
    // The server catches them as well, and says so when it cannot.
    let Ok(mut signals) = Signals::catch() else { return };
    signals.next().await;
    let first = Instant::now();
    let deadline = first + grace + END_GRACE;
    let deadline = tokio::select! {
        () = sleep_until(deadline) => deadline,
        _ = signals.next() => deadline.min(Instant::now() + END_GRACE),
    };
    sleep_until(deadline).await;
    end(first.elapsed())
}

fn end(after: Duration) -> ! {
    // On its own thread: a hanging thread may hold the lock of standard error.
    let (said, waits) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        eprint(format_args!(
            "agentd: the server did not stop within {} s of the signal and is terminated; its running \
             turns are closed at the next start",
            after.as_secs()
        ));
        drop(said);
    });
    let _ = waits.recv_timeout(LAST_WORDS);
    std::process::exit(1)
}
