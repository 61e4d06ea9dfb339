//! The tables of `docs/telemetry.md` against the names in the code.

use telemetry::names::{self, MetricKind, ReadingKind};
use telemetry::{Operation, Prompt};

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/telemetry.md");
    std::fs::read_to_string(path).unwrap()
}

fn operations_page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    std::fs::read_to_string(path).unwrap()
}

/// The rows of the table whose head begins with `first`.
fn rows<'p>(page: &'p str, first: &str) -> Vec<&'p str> {
    let head = format!("| {first} |");
    let lines = page.lines().skip_while(|line| !line.starts_with(&head)).skip(2);
    lines.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn every_attribute_is_documented() {
    let expected: Vec<String> = names::ATTRIBUTES
        .iter()
        .map(|name| format!("| `{}` | {} | {} |", name.text, name.on, name.meaning))
        .collect();
    assert_eq!(rows(&page(), "attribute"), expected);
}

#[test]
fn every_metric_is_documented() {
    let row = |metric: &names::Metric| {
        let kind = match metric.kind {
            MetricKind::Histogram(_) => "histogram",
            MetricKind::Counter => "counter",
        };
        format!("| `{}` | `{}` | {kind} | {} |", metric.text, metric.unit, metric.meaning)
    };
    let expected: Vec<String> = names::METRICS.iter().map(row).collect();
    assert_eq!(rows(&page(), "metric"), expected);
}

#[test]
fn everything_on_the_page_of_metrics_is_documented() {
    let readings = names::READINGS.iter().map(|reading| {
        let (total, kind) = match reading.kind {
            ReadingKind::Counter => ("_total", "counter"),
            ReadingKind::Gauge => ("", "gauge"),
        };
        format!("| `{}{total}` | {} | {kind} | {} |", reading.text, reading.labels, reading.meaning)
    });
    let metrics = names::METRICS.iter().map(|metric| {
        let (total, kind) = match metric.kind {
            MetricKind::Histogram(_) => ("", "histogram"),
            MetricKind::Counter => ("_total", "counter"),
        };
        format!("| `{}{total}` | {kind} | {} |", metric.prometheus(), metric.meaning)
    });
    let page = operations_page();
    assert_eq!(rows(&page, "value"), readings.collect::<Vec<_>>());
    assert_eq!(rows(&page, "sum"), metrics.collect::<Vec<_>>());
}

#[test]
fn every_span_and_event_is_documented() {
    use Operation::{Approval, Chat, ExecuteTool, InvokeAgent};
    let page = page();
    let rows = rows(&page, "span");
    for (operation, row) in [InvokeAgent, Chat, ExecuteTool, Approval].into_iter().zip(&rows) {
        let expected =
            (format!("| `{} ", operation.name()), format!("| `{}` |", operation.event()));
        assert!(row.starts_with(&expected.0) && row.contains(&expected.1), "{row}");
    }
    assert_eq!(rows.len(), 4);
    assert!(page.contains(Prompt::EVENT) && page.contains(names::VERSION));
    assert!(names::SCHEMA_URL.ends_with(names::VERSION));
}
