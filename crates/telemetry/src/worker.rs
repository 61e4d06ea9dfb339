//! The task of a recorder: gathers records, sends them in messages, and sends the metrics from time to time.
//! It sleeps while there is nothing to send.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use crate::encode::{self, Resource};
use crate::exporter::Sender;
use crate::metrics::{EXPORTED, Metrics};
use crate::queue::{Queue, Record};
use crate::services::Services;
use crate::settings::{Encoding, Settings, Signal};

/// Time that records wait for others of the same message.
const GATHER: Duration = Duration::from_secs(1);
/// Between two messages with metrics, as the OpenTelemetry SDKs have it.
const METRICS_INTERVAL: Duration = Duration::from_secs(60);

/// The sending task of a recorder.
pub(crate) struct Worker {
    resource: Resource,
    services: Arc<Services>,
    queue: Arc<Queue>,
    logs: Option<Sender>,
    traces: Option<Sender>,
    metrics: Option<Sender>,
    sums: Metrics,
    /// When metrics that have changed are sent.
    metrics_due: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(settings: &Settings, services: Arc<Services>, queue: Arc<Queue>) -> Self {
        let sender = |signal, exporter: &Option<_>| {
            exporter.clone().map(|exporter| Sender::new(signal, exporter))
        };
        Self {
            resource: Resource::new(&settings.resource),
            queue,
            logs: sender(Signal::Logs, &settings.logs),
            traces: sender(Signal::Traces, &settings.traces),
            metrics: sender(Signal::Metrics, &settings.metrics),
            sums: Metrics::new((services.clock)(), EXPORTED),
            services,
            metrics_due: None,
        }
    }

    /// Sends until the queue is closed and empty.
    pub(crate) async fn run(mut self) {
        while !self.queue.is_closed() {
            self.gather().await;
            self.send_records().await;
            if self.metrics_due.is_some_and(|due| due <= Instant::now()) {
                self.send_metrics().await;
            }
        }
        self.send_records().await;
        if self.metrics_due.is_some() {
            self.send_metrics().await;
        }
    }

    /// Waits until there is something to send.
    async fn gather(&self) {
        let due = async {
            match self.metrics_due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = self.queue.filled() => {
                let _ = tokio::time::timeout(GATHER, self.queue.has_batch()).await;
            }
        }
    }

    async fn send_records(&mut self) {
        loop {
            let records = self.queue.take();
            let dropped = self.queue.take_dropped();
            if dropped > 0 {
                self.sums.count_dropped("queue", dropped);
                self.services.figures.count_dropped("queue", dropped);
            }
            if records.is_empty() {
                break;
            }
            self.send_batch(&records).await;
        }
        if self.metrics.is_some() && self.sums.has_changed() && self.metrics_due.is_none() {
            self.metrics_due = Some(Instant::now() + METRICS_INTERVAL);
        }
    }

    async fn send_batch(&mut self, records: &[Record]) {
        let Self { resource, services, queue, logs, traces, sums, metrics, .. } = self;
        if metrics.is_some() {
            let spans = records.iter().filter_map(|record| match record {
                Record::Span(span) => Some(&**span),
                Record::Prompt(_) => None,
            });
            spans.for_each(|span| sums.add(&span.measured()));
        }
        let (services, queue, resource) = (&**services, &**queue, &*resource);
        let send_logs = async {
            let sender = logs.as_mut()?;
            let body = written(&encode::logs(resource, records), sender.encoding());
            let lost = sender.send(body, records.len() as u64, services, queue).await;
            Some((sender.signal(), lost))
        };
        let send_traces = async {
            let sender = traces.as_mut()?;
            let (message, spans) = encode::traces(resource, records);
            if spans == 0 {
                return None;
            }
            let body = written(&message, sender.encoding());
            Some((sender.signal(), sender.send(body, spans, services, queue).await))
        };
        // One that hangs delays the other by no more than its own time limit.
        let (logs, traces) = tokio::join!(send_logs, send_traces);
        for (signal, lost) in [logs, traces].into_iter().flatten() {
            if lost > 0 {
                sums.count_dropped(signal.name(), lost);
                services.figures.count_dropped(signal.name(), lost);
            }
        }
    }

    async fn send_metrics(&mut self) {
        self.metrics_due = None;
        let Some(sender) = &mut self.metrics else { return };
        let (message, points) = self.sums.message(&self.resource, (self.services.clock)());
        let body = written(&message, sender.encoding());
        let lost = sender.send(body, points, &self.services, &self.queue).await;
        if lost > 0 {
            // Sums go on: the next message makes good for this one, so nothing is due because of it.
            self.sums.count_dropped(sender.signal().name(), lost);
            self.services.figures.count_dropped(sender.signal().name(), lost);
            self.sums.is_sent();
        }
    }
}

fn written<M: Message + serde::Serialize>(message: &M, encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Protobuf | Encoding::Grpc => message.encode_to_vec().into(),
        Encoding::Json => {
            serde_json::to_vec(message).expect("a message is made of strings and numbers").into()
        }
    }
}
