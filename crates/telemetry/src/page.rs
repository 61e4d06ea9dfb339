//! The page of metrics, in the text format of Prometheus (OpenMetrics 1.0).

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::figures::Figures;
use crate::metrics::{Key, Sum};
use crate::names::{self, Metric, MetricKind, Reading, ReadingKind};

/// The media type of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Values of one moment. Those of [`Figures`] and of the callers' readings become one text.
#[derive(Debug, Default)]
pub struct Page {
    readings: Vec<(Reading, Vec<(Labels, f64)>)>,
    operations: Vec<(&'static Metric, BTreeMap<Key, Sum>)>,
}

/// The labels of a value, in the order of the page.
#[derive(Clone, Debug, Default, PartialEq)]
struct Labels(Vec<(String, String)>);

impl Page {
    /// A page with what the server did so far.
    #[must_use]
    pub fn new(figures: &Figures) -> Self {
        let (started, ended) = figures.turns();
        let operations =
            figures.lock().filled().map(|(metric, series)| (metric, series.clone())).collect();
        let mut page = Self { readings: Vec::new(), operations };
        page.set(names::TURNS_STARTED, started as f64);
        for (status, count) in ended {
            page.set_of(names::TURNS_ENDED, &[("status", status)], count as f64);
        }
        let ended: u64 = ended.iter().map(|(_, count)| count).sum();
        page.set(names::TURNS_RUNNING, started.saturating_sub(ended) as f64);
        for (code, count) in figures.refused() {
            page.set_of(names::REQUESTS_REFUSED, &[("code", &code.to_string())], count as f64);
        }
        page
    }

    /// Adds a value without labels.
    pub fn set(&mut self, reading: Reading, value: f64) {
        self.set_of(reading, &[], value);
    }

    /// Adds the value for these labels.
    pub fn set_of(&mut self, reading: Reading, labels: &[(&str, &str)], value: f64) {
        let pairs = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let one = (Labels(pairs.collect()), value);
        match self.readings.iter_mut().find(|(known, _)| *known == reading) {
            Some((_, values)) => values.push(one),
            None => self.readings.push((reading, vec![one])),
        }
    }

    /// The text.
    #[must_use]
    pub fn render(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (reading, values) in &self.readings {
            let kind = match reading.kind {
                ReadingKind::Counter => MetricType::Counter,
                ReadingKind::Gauge => MetricType::Gauge,
            };
            let mut metric =
                encoder.encode_descriptor(reading.text, reading.meaning, None, kind)?;
            for (labels, value) in values {
                if labels.0.is_empty() {
                    // An empty family would be written as `name{}`.
                    encode_reading(&mut metric, reading.kind, *value)?;
                } else {
                    encode_reading(&mut metric.encode_family(labels)?, reading.kind, *value)?;
                }
            }
        }
        for (metric, series) in &self.operations {
            encode_operations(&mut encoder, metric, series)?;
        }
        Ok(())
    }
}

fn encode_reading(encoder: &mut MetricEncoder<'_>, kind: ReadingKind, value: f64) -> fmt::Result {
    match kind {
        ReadingKind::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&value, None),
        ReadingKind::Gauge => encoder.encode_gauge(&value),
    }
}

fn encode_operations(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    series: &BTreeMap<Key, Sum>,
) -> fmt::Result {
    let kind = match metric.kind {
        MetricKind::Histogram(_) => MetricType::Histogram,
        MetricKind::Counter => MetricType::Counter,
    };
    let name = metric.prometheus();
    let mut family = encoder.encode_descriptor(&name, metric.meaning, None, kind)?;
    for (key, sum) in series {
        let pairs = key.iter().map(|(name, value)| (names::prometheus(name.text), value.clone()));
        let labels = Labels(pairs.collect());
        let mut one = family.encode_family(&labels)?;
        match metric.kind {
            MetricKind::Histogram(bounds) => {
                // The last bucket takes what is above all bounds.
                let bounds = bounds.iter().copied().chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> = bounds.zip(sum.buckets.iter().copied()).collect();
                one.encode_histogram::<NoLabelSet>(sum.sum, sum.count, &buckets, None)?;
            }
            MetricKind::Counter => one.encode_counter::<NoLabelSet, _, f64>(&sum.sum, None)?,
        }
    }
    Ok(())
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.0.as_slice().encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{Attribute, Measured, Operation};

    fn measured(operation: Operation, attributes: &[Attribute]) -> Measured<'_> {
        Measured { operation, seconds: 0.03, attributes, error: None }
    }

    #[test]
    fn operations_and_readings_are_one_text() {
        let figures = Figures::default();
        figures.begin(Operation::InvokeAgent);
        figures.begin(Operation::InvokeAgent);
        figures.add(&measured(
            Operation::InvokeAgent,
            &[Attribute::new(names::TURN_STATUS, "interrupted")],
        ));
        let tool = [
            Attribute::new(names::TOOL_NAME, "named \"by\" a model"),
            Attribute::new(names::TOOL_KIND, "client"),
        ];
        figures.add(&measured(Operation::ExecuteTool, &tool));
        figures.count_dropped("queue", 3);
        let mut page = Page::new(&figures);
        page.set_of(names::BUILD_INFO, &[("version", "1\"2\\3\n4")], 1.0);
        let text = page.render();
        for line in [
            "# TYPE agentd_turns_started counter",
            "agentd_turns_started_total 2.0",
            "agentd_turns_ended_total{status=\"completed\"} 0.0",
            "agentd_turns_ended_total{status=\"interrupted\"} 1.0",
            "agentd_turns_running 1.0",
            "agentd_build_info{version=\"1\\\"2\\\\3\\n4\"} 1.0",
            "agentd_telemetry_dropped_total{agentd_telemetry_signal=\"queue\"} 3.0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}:\n{text}");
        }
        let tool = "gen_ai_operation_name=\"execute_tool\",agentd_tool_kind=\"client\"";
        let name = "gen_ai_client_operation_duration_seconds";
        for (bound, count) in [("0.02", 0), ("0.04", 1), ("81.92", 1), ("+Inf", 1)] {
            let line = format!("{name}_bucket{{le=\"{bound}\",{tool}}} {count}");
            assert!(text.lines().any(|one| one == line), "{line}:\n{text}");
        }
        assert!(text.contains(&format!("{name}_count{{{tool}}} 1\n")), "{text}");
        assert!(!text.contains("by a model") && text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn names_are_those_of_prometheus_and_appear_once() {
        let metrics = names::METRICS.iter().map(Metric::prometheus);
        let readings = names::READINGS.iter().map(|reading| reading.text.to_owned());
        let all: Vec<String> = metrics.chain(readings).collect();
        for (place, name) in all.iter().enumerate() {
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.bytes().all(is_plain), "{name}");
            assert!(!all[..place].contains(name), "{name}");
        }
    }
}
