//! The metrics of `/metrics`, in Prometheus' text format. Model names come from the configuration,
//! so that clients cannot create series.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// `gateway_requests_total{model,status}`.
    pub(crate) requests: Family<Answered, Counter>,
    /// `gateway_rejected_total{dimension,scope}`.
    pub(crate) rejected: Family<Rejected, Counter>,
    /// `gateway_tokens_total{model,kind}`.
    pub(crate) tokens: Family<Tokens, Counter>,
    /// `gateway_spend_microdollars_total`.
    pub(crate) spend: Counter<u64, AtomicU64>,
    /// `gateway_spend_alerts_total`.
    pub(crate) spend_alerts: Counter,
    /// `gateway_usage_invalid_total`.
    pub(crate) usage_invalid: Counter,
    /// `gateway_upstream_seconds{backend}`, to the first byte of a response.
    pub(crate) upstream_seconds: Family<OfBackend, Histogram, fn() -> Histogram>,
    /// `gateway_upstream_failures_total{backend,reason}`.
    pub(crate) upstream_failures: Family<FailedAt, Counter>,
    /// `gateway_open_requests`.
    pub(crate) open: Gauge,
    now: Now,
}

/// Values that are read when the page is requested.
#[derive(Debug, Default)]
struct Now {
    ledger_waiting: Gauge,
    ledger_lost: Gauge,
    ledger_lost_cost: Gauge,
    spans_dropped: Gauge,
    limits_available: Gauge,
    store_in_touch: Gauge,
    backend_available: Family<OfBackend, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct Answered {
    pub(crate) model: String,
    pub(crate) status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct Rejected {
    pub(crate) dimension: &'static str,
    pub(crate) scope: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct OfBackend {
    pub(crate) backend: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct FailedAt {
    pub(crate) backend: String,
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct Tokens {
    pub(crate) model: String,
    pub(crate) kind: &'static str,
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
            upstream_seconds: Family::new_with_constructor(seconds),
            upstream_failures: Family::default(),
            open: Gauge::default(),
            now: Now::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "rejected",
            "Requests refused because of a limit",
            metrics.rejected.clone(),
        );
        registry.register("tokens", "Tokens used", metrics.tokens.clone());
        registry.register("spend_microdollars", "Money spent", metrics.spend.clone());
        registry.register("spend_alerts", "Soft limits exceeded", metrics.spend_alerts.clone());
        let help = "Answers whose usage was not a valid number of tokens";
        registry.register("usage_invalid", help, metrics.usage_invalid.clone());
        let help = "Time to the first byte of a model server's answer";
        registry.register("upstream_seconds", help, metrics.upstream_seconds.clone());
        let help = "Requests that a model server failed";
        registry.register("upstream_failures", help, metrics.upstream_failures.clone());
        registry.register("open_requests", "Requests under way", metrics.open.clone());
        let now = &metrics.now;
        for (name, help, gauge) in [
            ("ledger_waiting_rows", "Rows of the ledger not yet written", &now.ledger_waiting),
            ("ledger_lost_requests", "Requests that the ledger lost", &now.ledger_lost),
            ("ledger_lost_microdollars", "What these cost", &now.ledger_lost_cost),
            ("spans_dropped", "Spans that no collector accepted", &now.spans_dropped),
            ("limits_available", "Whether limits can be checked", &now.limits_available),
            ("store_in_touch", "Whether the last call to the store succeeded", &now.store_in_touch),
        ] {
            registry.register(name, help, gauge.clone());
        }
        let help = "Whether a model server gets requests";
        registry.register("backend_available", help, now.backend_available.clone());
        Self { registry, ..metrics }
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

impl Metrics {
    /// The page, with current values.
    #[must_use]
    pub(crate) fn page(&self, now: &Readings) -> String {
        let shown = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.now.ledger_waiting.set(shown(now.ledger.waiting as u64));
        self.now.ledger_lost.set(shown(now.ledger.lost_requests));
        self.now.ledger_lost_cost.set(shown(now.ledger.lost_cost));
        self.now.spans_dropped.set(shown(now.spans_dropped));
        self.now.limits_available.set(now.limits_available.into());
        self.now.store_in_touch.set(now.store_in_touch.into());
        // Those that were removed from the configuration have no value.
        self.now.backend_available.clear();
        for (label, is_available) in &now.backends {
            let backend = OfBackend { backend: label.clone() };
            self.now.backend_available.get_or_create(&backend).set((*is_available).into());
        }
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

/// Values that are read when the page is requested.
#[derive(Debug)]
pub(crate) struct Readings {
    /// State of the ledger.
    pub(crate) ledger: gateway_store::ledger::State,
    /// Spans that no collector accepted.
    pub(crate) spans_dropped: u64,
    /// True if limits can be checked.
    pub(crate) limits_available: bool,
    /// True if the last call to the store succeeded.
    pub(crate) store_in_touch: bool,
    /// The backends, with whether each is available.
    pub(crate) backends: Vec<(String, bool)>,
}
