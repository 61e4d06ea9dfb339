//! The recorder: a handle to the queue and to the task that sends from it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::context::TraceContext;
use crate::queue::{Queue, Record};
use crate::services::Services;
use crate::settings::Settings;
use crate::span::{Prompt, Span};
use crate::worker::Worker;

/// A handle to the queue and to the task that sends from it. Cheap to clone. When the last clone is
/// dropped, the records in the queue are still sent.
#[derive(Clone)]
pub struct Recorder(Arc<Handle>);

struct Handle {
    settings: Settings,
    services: Arc<Services>,
    queue: Arc<Queue>,
    /// Ends with the task.
    ended: watch::Receiver<()>,
    task: tokio::task::AbortHandle,
}

impl Recorder {
    /// Starts the task that sends. Needs a runtime of tokio.
    #[must_use]
    pub fn start(settings: Settings, services: Arc<Services>) -> Self {
        let queue = Arc::new(Queue::default());
        let (ending, ended) = watch::channel(());
        let worker = Worker::new(&settings, services.clone(), queue.clone());
        let task = tokio::spawn(async move {
            let _ending = ending;
            worker.run().await;
        });
        let task = task.abort_handle();
        Self(Arc::new(Handle { settings, services, queue, ended, task }))
    }

    /// Returns the settings that it was started with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Records that wait to be sent, and about how many bytes they have.
    #[must_use]
    pub fn queued(&self) -> (usize, usize) {
        self.0.queue.load()
    }

    /// Returns whether nothing else uses it.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The time of spans.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.0.services.clock)()
    }

    /// The first span of a new trace.
    #[must_use]
    pub fn new_trace(&self) -> TraceContext {
        let mut random = [0; 24];
        (self.0.services.random)(&mut random);
        TraceContext::root(random)
    }

    /// A new span of a trace.
    #[must_use]
    pub fn child(&self, of: TraceContext) -> TraceContext {
        let mut random = [0; 8];
        (self.0.services.random)(&mut random);
        of.child(random)
    }

    /// Records a span. Never waits; one that does not fit is dropped and counted.
    pub fn record(&self, span: Span) {
        self.0.queue.push(Record::Span(Box::new(span)));
    }

    /// Records a prompt, in the same way.
    pub fn record_prompt(&self, prompt: Prompt) {
        self.0.queue.push(Record::Prompt(Box::new(prompt)));
    }

    /// Sends what is there, for `limit` at most, and takes no more.
    pub async fn close(&self, limit: Duration) {
        self.0.queue.close();
        let mut ended = self.0.ended.clone();
        let all = async { while ended.changed().await.is_ok() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            self.0.task.abort();
            tracing::warn!(
                "telemetry was not delivered within {} s and is lost",
                limit.as_secs_f64()
            );
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
    }
}
