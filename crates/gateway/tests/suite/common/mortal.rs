//! A gateway with a thread and a runtime of its own, so that a test can end it as `kill -9` does: at one instant, nothing
//! of it runs any longer. What it had written until then is what the next one finds.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tempfile::TempDir;
use tokio::sync::oneshot;

use super::gateway::TestGateway;

/// A gateway that can be killed.
pub(crate) struct Mortal {
    /// A handle of it, for requests.
    pub(crate) gateway: TestGateway,
    end: Option<oneshot::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// The folder for what it leaves.
    Kill(Arc<TempDir>),
    /// Stops as it should.
    End,
}

impl Mortal {
    /// Starts one in a folder that may have the state of an earlier one, at that time.
    pub(crate) fn start(folder: Arc<TempDir>, config: String, seed: u64, now: u64) -> Self {
        let (started, handle) = mpsc::channel();
        let (end, ordered) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            // The runtime has one thread: while this future runs, nothing else of the gateway does.
            runtime.block_on(async {
                let mut gateway = TestGateway::start_at(folder, &config, seed, now).await;
                started.send(gateway.handle()).expect("the test waits");
                match ordered.await {
                    Ok(Order::Kill(left)) => copy_state(gateway.folder.path(), left.path()),
                    _ => drop(gateway.end().await),
                }
            });
            runtime.shutdown_background();
        });
        let gateway = handle.recv().expect("the gateway opens");
        Self { gateway, end: Some(end), thread: Some(thread) }
    }

    /// Kills it, and returns the folder with what it leaves.
    pub(crate) fn kill(mut self) -> Arc<TempDir> {
        let left = Arc::new(tempfile::tempdir().expect("a folder"));
        self.order(Order::Kill(Arc::clone(&left)));
        left
    }

    /// Stops it, and returns its folder.
    pub(crate) fn end(mut self) -> Arc<TempDir> {
        self.order(Order::End);
        Arc::clone(&self.gateway.folder)
    }

    fn order(&mut self, order: Order) {
        if let Some(end) = self.end.take() {
            assert!(end.send(order).is_ok(), "it runs");
        }
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        drop(self.end.take());
    }
}

/// Copies the files that survive the process.
fn copy_state(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).expect("a folder") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}
