//! Metrics, summed up from spans. All are cumulative, so that a message that is lost is made good by the next.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1 as wire;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, HistogramDataPoint, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};

use crate::encode::{Resource, key_value};
use crate::names::{self, METRICS, Metric, MetricKind, Name, SCHEMA_URL};
use crate::span::{Measured, Operation, Value};

/// Most sets of attributes of one metric; further ones are summed up as one.
const MAX_SERIES: usize = 200;

/// The attributes of a series. Texts only: numbers would make a series each.
pub(crate) type Key = Vec<(Name, String)>;

/// Attributes of turns, model requests and tool calls that tell series apart, where metrics are exported.
pub(crate) const EXPORTED: &[Name] =
    &[names::PROVIDER, names::REQUEST_MODEL, names::RESPONSE_MODEL, names::TOOL_NAME];

/// The metrics of a process.
pub(crate) struct Metrics {
    began: u64,
    /// Attributes that tell series apart, besides the operation and the error.
    by: &'static [Name],
    /// By the metric's place in the table.
    series: Vec<BTreeMap<Key, Sum>>,
    has_changed: bool,
}

/// The sum of a series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// Of a histogram: one more than its bounds.
    pub(crate) buckets: Vec<u64>,
}

impl Metrics {
    pub(crate) fn new(began: u64, by: &'static [Name]) -> Self {
        let series = METRICS.iter().map(|_| BTreeMap::new()).collect();
        Self { began, by, series, has_changed: false }
    }

    /// The series of each metric that has any.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (&'static Metric, &BTreeMap<Key, Sum>)> {
        METRICS.iter().zip(&self.series).filter(|(_, series)| !series.is_empty())
    }

    /// Returns whether anything was added since the last message.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Notes that the changes since the last message need not be sent soon.
    pub(crate) fn is_sent(&mut self) {
        self.has_changed = false;
    }

    /// Counts what was not delivered.
    pub(crate) fn count_dropped(&mut self, signal: &str, items: u64) {
        let key = vec![(names::DROPPED_SIGNAL, signal.to_owned())];
        self.record(names::DROPPED, key, items as f64);
    }

    /// Adds an operation that has ended.
    pub(crate) fn add(&mut self, measured: &Measured<'_>) {
        if measured.operation == Operation::Approval {
            let key = key(measured, &[names::APPROVAL_KIND, names::APPROVAL_DECISION]);
            return self.record(names::APPROVAL_DURATION, key, measured.seconds);
        }
        let mut key = key(measured, self.by);
        key.insert(0, (names::OPERATION, measured.operation.name().to_owned()));
        if measured.operation == Operation::Chat {
            self.add_request(measured, &key);
        }
        if let Some(error) = measured.error {
            key.push((names::ERROR_TYPE, error.to_owned()));
        }
        self.record(names::OPERATION_DURATION, key, measured.seconds);
    }

    fn add_request(&mut self, measured: &Measured<'_>, key: &Key) {
        if let Some(Value::Float(seconds)) = measured.value(names::TIME_TO_FIRST_CHUNK) {
            self.record(names::FIRST_CHUNK, key.clone(), *seconds);
        }
        if let Some(Value::Float(cost)) = measured.value(names::COST) {
            self.record(names::COST_TOTAL, key.clone(), *cost);
        }
        for (name, kind) in [(names::INPUT_TOKENS, "input"), (names::OUTPUT_TOKENS, "output")] {
            if let Some(Value::Integer(tokens)) = measured.value(name) {
                let mut key = key.clone();
                key.push((names::TOKEN_TYPE, kind.to_owned()));
                self.record(names::TOKEN_USAGE, key, *tokens as f64);
            }
        }
    }

    fn record(&mut self, metric: Metric, mut key: Key, value: f64) {
        // Sums only grow.
        if !value.is_finite() || value < 0.0 {
            return;
        }
        let place = METRICS.iter().position(|known| known.text == metric.text);
        let Some(series) = place.and_then(|place| self.series.get_mut(place)) else { return };
        if series.len() >= MAX_SERIES && !series.contains_key(&key) {
            key = vec![(names::OVERFLOW, "true".to_owned())];
        }
        let sum = series.entry(key).or_default();
        sum.count += 1;
        sum.sum += value;
        if let MetricKind::Histogram(bounds) = metric.kind {
            sum.buckets.resize(bounds.len() + 1, 0);
            let bucket = bounds.partition_point(|bound| *bound < value);
            sum.buckets[bucket] += 1;
        }
        self.has_changed = true;
    }

    /// All metrics that have a value, and the number of their points.
    pub(crate) fn message(
        &mut self,
        from: &Resource,
        now: u64,
    ) -> (ExportMetricsServiceRequest, u64) {
        self.has_changed = false;
        let points: usize = self.filled().map(|(_, series)| series.len()).sum();
        let metrics =
            self.filled().map(|(metric, series)| self.metric(metric, series, now)).collect();
        let scope = Some(from.scope.clone());
        let scoped = ScopeMetrics { scope, metrics, schema_url: SCHEMA_URL.to_owned() };
        let resource_metrics = vec![ResourceMetrics {
            resource: Some(from.resource.clone()),
            scope_metrics: vec![scoped],
            schema_url: SCHEMA_URL.to_owned(),
        }];
        (ExportMetricsServiceRequest { resource_metrics }, points as u64)
    }

    fn metric(&self, metric: &Metric, series: &BTreeMap<Key, Sum>, now: u64) -> wire::Metric {
        let temporality = AggregationTemporality::Cumulative.into();
        let data = match metric.kind {
            MetricKind::Histogram(bounds) => wire::metric::Data::Histogram(wire::Histogram {
                data_points: series
                    .iter()
                    .map(|(key, sum)| HistogramDataPoint {
                        attributes: attributes(key),
                        start_time_unix_nano: self.began,
                        time_unix_nano: now,
                        count: sum.count,
                        sum: Some(sum.sum),
                        bucket_counts: sum.buckets.clone(),
                        explicit_bounds: bounds.to_vec(),
                        ..HistogramDataPoint::default()
                    })
                    .collect(),
                aggregation_temporality: temporality,
            }),
            MetricKind::Counter => wire::metric::Data::Sum(wire::Sum {
                data_points: series
                    .iter()
                    .map(|(key, sum)| NumberDataPoint {
                        attributes: attributes(key),
                        start_time_unix_nano: self.began,
                        time_unix_nano: now,
                        value: Some(Number::AsDouble(sum.sum)),
                        ..NumberDataPoint::default()
                    })
                    .collect(),
                aggregation_temporality: temporality,
                is_monotonic: true,
            }),
        };
        wire::Metric {
            name: metric.text.to_owned(),
            description: metric.meaning.to_owned(),
            unit: metric.unit.to_owned(),
            data: Some(data),
            ..wire::Metric::default()
        }
    }
}

fn attributes(key: &Key) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    key.iter()
        .map(|(name, value)| match *name == names::OVERFLOW {
            true => key_value(name.text, Value::Bool(true)),
            false => key_value(name.text, Value::Text(value.clone())),
        })
        .collect()
}

fn key(measured: &Measured<'_>, of: &[Name]) -> Key {
    of.iter()
        .filter_map(|name| match measured.value(*name)? {
            Value::Text(text) => Some((*name, text.clone())),
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::TraceContext;
    use crate::span::{Attribute, Failed, Span};

    fn span(operation: Operation, seconds: f64, attributes: Vec<Attribute>) -> Span {
        Span {
            context: TraceContext::root([1; 24]),
            parent: 0,
            operation,
            subject: String::new(),
            began: 1_000_000_000,
            ended: 1_000_000_000 + (seconds * 1e9) as u64,
            attributes,
            failed: None,
        }
    }

    fn summed(metrics: &Metrics, metric: Metric) -> Vec<(String, u64, f64)> {
        let place = METRICS.iter().position(|known| known.text == metric.text).unwrap();
        let text = |key: &Key| {
            let parts = key.iter().map(|(name, value)| format!("{}={value}", name.text));
            parts.collect::<Vec<_>>().join(" ")
        };
        metrics.series[place].iter().map(|(key, sum)| (text(key), sum.count, sum.sum)).collect()
    }

    #[test]
    fn requests_are_summed_up_by_model() {
        let mut metrics = Metrics::new(0, EXPORTED);
        let attributes = vec![
            Attribute::new(names::REQUEST_MODEL, "m"),
            Attribute::new(names::INPUT_TOKENS, 10),
            Attribute::new(names::OUTPUT_TOKENS, 4),
            Attribute::new(names::COST, 0.25),
            Attribute::new(names::TIME_TO_FIRST_CHUNK, 0.5),
        ];
        let request = span(Operation::Chat, 2.0, attributes);
        metrics.add(&request.measured());
        metrics.add(&request.measured());
        let failed = Some(Failed { kind: "serverOverloaded".to_owned(), message: None });
        metrics.add(&Span { failed, attributes: Vec::new(), ..request }.measured());
        let chat = "gen_ai.operation.name=chat";
        let of_model = format!("{chat} gen_ai.request.model=m");
        assert_eq!(
            summed(&metrics, names::OPERATION_DURATION),
            [(format!("{chat} error.type=serverOverloaded"), 1, 2.0), (of_model.clone(), 2, 4.0)]
        );
        assert_eq!(
            summed(&metrics, names::TOKEN_USAGE),
            [
                (format!("{of_model} gen_ai.token.type=input"), 2, 20.0),
                (format!("{of_model} gen_ai.token.type=output"), 2, 8.0)
            ]
        );
        assert_eq!(summed(&metrics, names::COST_TOTAL), [(of_model.clone(), 2, 0.5)]);
        assert_eq!(summed(&metrics, names::FIRST_CHUNK), [(of_model, 2, 1.0)]);
    }

    #[test]
    fn series_beyond_the_bound_are_one() {
        let mut metrics = Metrics::new(0, EXPORTED);
        for number in 0..MAX_SERIES + 5 {
            let tool = vec![Attribute::new(names::TOOL_NAME, format!("tool{number}"))];
            metrics.add(&span(Operation::ExecuteTool, 0.1, tool).measured());
        }
        let found = summed(&metrics, names::OPERATION_DURATION);
        assert_eq!(found.len(), MAX_SERIES + 1);
        assert!(
            found.iter().any(|(key, count, _)| key == "otel.metric.overflow=true" && *count == 5)
        );
    }

    #[test]
    fn values_fall_into_the_buckets_of_the_conventions() {
        let mut metrics = Metrics::new(0, EXPORTED);
        for seconds in [0.0, 0.01, 0.011, 100.0] {
            metrics.add(&span(Operation::InvokeAgent, seconds, Vec::new()).measured());
        }
        let (_, sum) = metrics.series[0].first_key_value().unwrap();
        assert_eq!((sum.buckets.len(), sum.buckets[0], sum.buckets[1]), (15, 2, 1));
        assert_eq!((sum.buckets[14], sum.count), (1, 4));
        metrics.record(names::COST_TOTAL, Vec::new(), f64::NAN);
        metrics.record(names::COST_TOTAL, Vec::new(), -1.0);
        assert_eq!(summed(&metrics, names::COST_TOTAL), []);
    }
}
