//! Threads for callbacks that block. Each has one of its own, so that none waits for another; the pool of the runtime is
//! left to the application.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::oneshot;

use crate::{CallContext, CallbackError};

/// Callbacks of an agent that block at the same time. One beyond that fails with [`CallbackError::TooMany`].
pub(crate) const MAX_THREADS: usize = 512;

/// The number of threads of an agent that run callbacks.
#[derive(Default)]
pub(crate) struct Threads(AtomicUsize);

/// One of them.
struct Occupied(Arc<Threads>);

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs a function in a thread of its own. Dropping the future leaves the thread to its function.
pub(crate) async fn run<R: Send + 'static>(
    context: CallContext,
    function: impl FnOnce(CallContext) -> R + Send + 'static,
) -> Result<R, CallbackError> {
    let threads = context.threads().clone();
    let running = threads.0.fetch_add(1, Ordering::AcqRel);
    let occupied = Occupied(threads);
    if running >= MAX_THREADS {
        return Err(CallbackError::TooMany);
    }
    let (sender, result) = oneshot::channel();
    let work = move || {
        let _occupied = occupied;
        // Without a receiver, the answer is no longer wanted.
        let _ = sender.send(function(context));
    };
    let name = "agentd-callback".to_owned();
    thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|why| CallbackError::Failed(format!("no thread can be started: {why}")))?;
    result.await.map_err(|_| CallbackError::Panicked)
}
