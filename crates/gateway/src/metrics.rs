//! What is counted for `/metrics`, in Prometheus' text form. Names of models come from the
//! configuration, so that no client can make new series.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// See the module.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// `gateway_requests_total{model,status}`.
    pub requests: Family<Answered, Counter>,
    /// `gateway_rejected_total{dimension,scope}`.
    pub rejected: Family<Rejected, Counter>,
    /// `gateway_tokens_total{model,kind}`.
    pub tokens: Family<Tokens, Counter>,
    /// `gateway_spend_microdollars_total`.
    pub spend: Counter<u64, AtomicU64>,
    /// `gateway_spend_alerts_total`.
    pub spend_alerts: Counter,
    /// `gateway_usage_invalid_total`.
    pub usage_invalid: Counter,
    /// `gateway_upstream_seconds`, to the first byte of an answer.
    pub upstream_seconds: Histogram,
    /// `gateway_open_requests`.
    pub open: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub struct Answered {
    pub model: String,
    pub status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub struct Rejected {
    pub dimension: &'static str,
    pub scope: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub struct Tokens {
    pub model: String,
    pub kind: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("gateway");
        let metrics = Self {
            requests: Family::default(),
            rejected: Family::default(),
            tokens: Family::default(),
            spend: Counter::default(),
            spend_alerts: Counter::default(),
            usage_invalid: Counter::default(),
            upstream_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 18)),
            open: Gauge::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register("rejected", "Requests refused for a limit", metrics.rejected.clone());
        registry.register("tokens", "Tokens that were used", metrics.tokens.clone());
        registry.register("spend_microdollars", "Money that was spent", metrics.spend.clone());
        registry.register("spend_alerts", "Soft limits passed", metrics.spend_alerts.clone());
        let help = "Answers whose usage was no number of tokens";
        registry.register("usage_invalid", help, metrics.usage_invalid.clone());
        let help = "Time to the first byte of a model server's answer";
        registry.register("upstream_seconds", help, metrics.upstream_seconds.clone());
        registry.register("open_requests", "Requests under way", metrics.open.clone());
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Writing into a string cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}
