//! The metrics of `/metrics`, in Prometheus' text format. Model names come from the configuration,
//! and the number of projects is bounded, so that clients cannot create series.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gateway_admin::SignIns;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::project_metrics::ProjectMetrics;
use crate::translation::WarningLog;

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
    /// `gateway_webhook_messages_total{outcome}`.
    pub(crate) webhook_messages: Family<Delivered, Counter>,
    /// `gateway_failed_sign_ins_total{surface,reason}`.
    failed_sign_ins: Family<FailedSignIn, Counter>,
    /// `gateway_usage_invalid_total`.
    pub(crate) usage_invalid: Counter,
    /// `gateway_upstream_seconds{backend}`, to the first byte of a response.
    pub(crate) upstream_seconds: Family<OfBackend, Histogram, fn() -> Histogram>,
    /// `gateway_upstream_failures_total{backend,reason}`.
    pub(crate) upstream_failures: Family<FailedAt, Counter>,
    /// `gateway_time_to_first_token_seconds{model}`.
    pub(crate) first_token: Family<OfModel, Histogram>,
    /// `gateway_request_seconds{model}`.
    pub(crate) duration: Family<OfModel, Histogram>,
    /// Members that translations left out.
    pub(crate) translations: Arc<WarningLog>,
    /// Those by project.
    pub(crate) projects: ProjectMetrics,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct OfModel {
    pub(crate) model: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[allow(missing_docs, reason = "the names of labels")]
pub(crate) struct Delivered {
    pub(crate) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailedSignIn {
    surface: &'static str,
    reason: &'static str,
}

impl Metrics {
    /// The metrics, with series of their own for so many projects.
    pub(crate) fn new(top_projects: usize) -> Self {
        let mut registry = Registry::with_prefix("gateway");
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 22));
        let metrics = Self {
            requests: Family::default(),
            rejected: Family::default(),
            tokens: Family::default(),
            spend: Counter::default(),
            spend_alerts: Counter::default(),
            webhook_messages: Family::default(),
            failed_sign_ins: Family::default(),
            usage_invalid: Counter::default(),
            upstream_seconds: Family::new_with_constructor(seconds),
            upstream_failures: Family::default(),
            open: Gauge::default(),
            first_token: Family::new_with_constructor(seconds),
            duration: Family::new_with_constructor(seconds),
            translations: Arc::default(),
            projects: ProjectMetrics::new(top_projects, &mut registry),
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
        let help = "Attempts to deliver alerts to the webhook, and alerts that were given up";
        registry.register("webhook_messages", help, metrics.webhook_messages.clone());
        let help = "Requests with a wrong credential or none, and failed sign-ins to the dashboard";
        registry.register("failed_sign_ins", help, metrics.failed_sign_ins.clone());
        let help = "Answers whose usage was not a valid number of tokens";
        registry.register("usage_invalid", help, metrics.usage_invalid.clone());
        let help = "Time to the first byte of a model server's answer";
        registry.register("upstream_seconds", help, metrics.upstream_seconds.clone());
        let help = "Time from a request to the first output of a streamed answer";
        registry.register("time_to_first_token_seconds", help, metrics.first_token.clone());
        let help = "Time from a request to the end of its answer";
        registry.register("request_seconds", help, metrics.duration.clone());
        let help = "Requests that a model server failed";
        registry.register("upstream_failures", help, metrics.upstream_failures.clone());
        let help = "Members that translations between wires left out";
        registry.register("translation_warnings", help, metrics.translations.counts.clone());
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

    /// The counter and log of failed sign-ins.
    pub(crate) fn sign_ins(&self) -> Arc<SignIns> {
        let counts = self.failed_sign_ins.clone();
        Arc::new(SignIns::new(move |surface, reason| {
            let surface = surface.name();
            counts.get_or_create(&FailedSignIn { surface, reason }).inc();
        }))
    }

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
