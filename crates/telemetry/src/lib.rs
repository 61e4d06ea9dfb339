//! Sends spans, log records and metrics to collectors over OTLP: HTTP with Protobuf or JSON, and gRPC.
//!
//! [`Figures`] sums up the same operations whether or not anything is exported, and [`Page`] writes them for
//! Prometheus.
//!
//! A [`Recorder`] takes finished [`Span`]s into a bounded queue and never waits; one task sends batches.
//! Logs and metrics are derived from the spans, so that one table of names ([`names`]) describes all three.
//! The crate reads no environment, no clock and no file but those of TLS, and starts no thread. It knows no
//! thread and no turn: the server decides what a span is.

#[cfg(feature = "collector")]
pub mod collector;
mod context;
mod encode;
mod endpoint;
mod exporter;
mod figures;
mod grpc;
mod metrics;
pub mod names;
mod page;
mod queue;
mod recorder;
mod reply;
mod services;
mod settings;
mod span;
mod worker;

pub use context::TraceContext;
pub use figures::Figures;
pub use page::{CONTENT_TYPE, Page};
pub use recorder::Recorder;
pub use services::{Clock, Random, Services};
pub use settings::{
    Encoding, Endpoint, Exporter, ExporterSettings, Settings, SettingsError, Signal, Variables,
    resource,
};
pub use span::{Attribute, Failed, Measured, Operation, Prompt, Span, Value};
