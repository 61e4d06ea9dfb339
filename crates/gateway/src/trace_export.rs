//! Sends spans to a collector over OTLP/HTTP in JSON.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::HeaderMap;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self as trace, ResourceSpans, ScopeSpans, Status};
use ratelimit::Micros;

use crate::state::Gateway;

use crate::traces::Span;

/// Interval of gathering spans, and time limit of a collector.
const PACE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends spans until the gateway is dropped.
pub(crate) async fn send(gateway: Weak<Gateway>) {
    let mut failing = false;
    loop {
        let Some(traces) = gateway.upgrade().map(|gateway| Arc::clone(&gateway.traces)) else {
            return;
        };
        // Send after a full message or after PACE, whichever comes first.
        let _ = tokio::time::timeout(PACE, traces.filled.notified()).await;
        let Some(gateway) = gateway.upgrade() else { return };
        send_waiting(&gateway, &mut failing).await;
    }
}

/// Sends all waiting spans.
pub(crate) async fn send_waiting(gateway: &Gateway, failing: &mut bool) {
    let settings = gateway.settings.load_full();
    let Some(endpoint) = &settings.otlp_endpoint else { return };
    let url = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
    loop {
        let spans = gateway.traces.take();
        if spans.is_empty() {
            return;
        }
        let body = serde_json::to_vec(&message(&spans)).unwrap_or_default();
        let posted =
            gateway.other_servers.post_json(&url, HeaderMap::new(), body.into(), PATIENCE).await;
        if let Err(error) = &posted {
            gateway.traces.count_dropped(spans.len());
            if !*failing {
                tracing::warn!("{url} does not accept traces: {error}; check `otlp_endpoint`");
            }
        }
        *failing = posted.is_err();
    }
}

fn message(spans: &[Span]) -> ExportTraceServiceRequest {
    let service =
        Resource { attributes: vec![text("service.name", "agentd-gateway")], ..default() };
    let scope = InstrumentationScope { name: "agentd".to_owned(), ..default() };
    let spans = spans.iter().map(Span::to_proto).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..default() }];
    let spans = ResourceSpans { resource: Some(service), scope_spans, ..default() };
    ExportTraceServiceRequest { resource_spans: vec![spans] }
}

impl Span {
    fn to_proto(&self) -> trace::Span {
        let kind = if self.is_upstream { SpanKind::Client } else { SpanKind::Server };
        let code = if self.status >= 500 { StatusCode::Error } else { StatusCode::Unset };
        let mut attributes: Vec<KeyValue> =
            self.attributes.iter().map(|(key, value)| text(key, value)).collect();
        let status = Value::IntValue(self.status.into());
        attributes.push(attribute("http.response.status_code", status));
        let id = |span: u64| match span {
            0 => Vec::new(),
            span => span.to_be_bytes().to_vec(),
        };
        trace::Span {
            trace_id: self.context.trace.to_be_bytes().to_vec(),
            span_id: id(self.context.span),
            parent_span_id: id(self.context.parent),
            name: self.name.clone(),
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(self.began),
            end_time_unix_nano: nanoseconds(self.ended),
            attributes,
            status: Some(Status { code: code.into(), ..default() }),
            ..default()
        }
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..default() }
}

fn nanoseconds(moment: Micros) -> u64 {
    moment.saturating_mul(1000)
}

fn default<T: Default>() -> T {
    T::default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::traces::TraceContext;

    #[test]
    fn spans_are_exported_in_the_collector_format() {
        let context = TraceContext { trace: 1, span: 2, parent: 0 };
        let attributes = vec![("gen_ai.request.model", "big".to_owned())];
        let span = Span {
            context,
            name: "POST /v1/responses".to_owned(),
            is_upstream: false,
            began: 1_000_000,
            ended: 1_500_000,
            status: 503,
            attributes,
        };
        let sent = serde_json::to_value(message(&[span])).unwrap();
        let span = &sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "00000000000000000000000000000001");
        assert_eq!(span["spanId"], "0000000000000002");
        assert_eq!((&span["parentSpanId"], &span["kind"]), (&json!(""), &json!(2)));
        assert_eq!(
            (&span["startTimeUnixNano"], &span["status"]["code"]),
            (&json!("1000000000"), &json!(2))
        );
        assert_eq!(
            span["attributes"],
            json!([
                { "key": "gen_ai.request.model", "value": { "stringValue": "big" } },
                { "key": "http.response.status_code", "value": { "intValue": "503" } },
            ])
        );
    }
}
