//! Sends spans to a collector over OTLP/HTTP in JSON.

use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ratelimit::Micros;
use serde_json::{Value, json};

use crate::state::Gateway;

use crate::traces::Span;

/// How long spans are gathered, and how long a collector may take.
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
        let posted = gateway.upstreams.post_json(&url, body.into(), PATIENCE).await;
        if let Err(error) = &posted {
            gateway.traces.count_dropped(spans.len());
            if !*failing {
                tracing::warn!("{url} does not accept traces: {error}; check `otlp_endpoint`");
            }
        }
        *failing = posted.is_err();
    }
}

/// An `ExportTraceServiceRequest`.
fn message(spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(Span::to_json).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [attribute("service.name", "agentd-gateway")]},
        "scopeSpans": [{"scope": {"name": "agentd"}, "spans": spans}],
    }]})
}

impl Span {
    fn to_json(&self) -> Value {
        const SERVER: u8 = 2;
        const CLIENT: u8 = 3;
        const ERROR: u8 = 2;
        let mut attributes: Vec<Value> =
            self.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
        attributes.push(json!({
            "key": "http.response.status_code", "value": {"intValue": self.status.to_string()},
        }));
        let parent = match self.context.parent {
            0 => String::new(),
            parent => hex(parent),
        };
        json!({
            "traceId": format!("{:032x}", self.context.trace),
            "spanId": hex(self.context.span),
            "parentSpanId": parent,
            "name": self.name,
            "kind": if self.is_upstream { CLIENT } else { SERVER },
            "startTimeUnixNano": nanoseconds(self.began),
            "endTimeUnixNano": nanoseconds(self.ended),
            "attributes": attributes,
            "status": if self.status >= 500 { json!({"code": ERROR}) } else { json!({}) },
        })
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn hex(number: u64) -> String {
    let mut text = String::with_capacity(16);
    // Writing into a string cannot fail.
    let _ = write!(text, "{number:016x}");
    text
}

/// 64-bit numbers are texts in this JSON.
fn nanoseconds(moment: Micros) -> String {
    (u128::from(moment) * 1000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::TraceContext;

    #[test]
    fn a_span_as_the_collector_gets_it() {
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
        let sent = message(&[span]);
        let span = &sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
        assert_eq!(span["traceId"], "00000000000000000000000000000001");
        assert_eq!(span["spanId"], "0000000000000002");
        assert_eq!((&span["parentSpanId"], &span["kind"]), (&json!(""), &json!(2)));
        assert_eq!(
            (&span["startTimeUnixNano"], &span["status"]["code"]),
            (&json!("1000000000"), &json!(2))
        );
        assert_eq!(span["attributes"][1]["value"]["intValue"], "503");
    }
}
