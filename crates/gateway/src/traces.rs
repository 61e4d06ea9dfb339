//! Traces: a span for each request and one for its model server's part, sent to a collector over
//! OTLP/HTTP in JSON. Without a collector nothing is made, and a client's `traceparent` passes on
//! untouched.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use ratelimit::Micros;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::state::Gateway;
use gateway_policy::environment::Random;

/// Spans that wait to be sent; more are dropped, and counted.
const WAITING: usize = 8192;
/// Spans in one message.
const TOGETHER: usize = 512;
/// How long spans are gathered, and how long a collector may take.
const PACE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Where a request stands in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    trace: u128,
    /// The request's own span.
    span: u64,
    /// The caller's span; 0: there is none.
    parent: u64,
}

/// A part of a request's time.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Where it stands.
    pub(crate) place: Place,
    /// `POST /v1/responses`, or `upstream main`.
    pub(crate) name: String,
    /// Whether it is the time of a model server within the request's.
    pub(crate) is_upstream: bool,
    /// From when.
    pub(crate) began: Micros,
    /// Until when.
    pub(crate) ended: Micros,
    /// What was answered.
    pub(crate) status: u16,
    /// More, as texts: `gen_ai.request.model` and so on.
    pub(crate) attributes: Vec<(&'static str, String)>,
}

/// Spans on their way to the collector.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    waiting: Mutex<Vec<Span>>,
    filled: Notify,
    dropped: AtomicU64,
}

impl Place {
    /// Where a request stands: in its caller's trace, or at the beginning of one. `None`: its
    /// caller does not want it traced.
    #[must_use]
    pub(crate) fn of(headers: &HeaderMap, random: &dyn Random) -> Option<Self> {
        let mut bytes = [0; 24];
        random.fill(&mut bytes);
        let [first, second, third] = [0, 8, 16].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        });
        // Zero is no id.
        let span = third.max(1);
        let given = headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok());
        match given.and_then(parse) {
            Some((_, _, false)) => None,
            Some((trace, parent, true)) => Some(Self { trace, span, parent }),
            None => {
                let trace = (u128::from(first) << 64) | u128::from(second);
                Some(Self { trace: trace.max(1), span, parent: 0 })
            }
        }
    }

    /// A span within this one.
    #[must_use]
    pub(crate) fn within(&self, random: &dyn Random) -> Self {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        Self { trace: self.trace, span: u64::from_le_bytes(bytes).max(1), parent: self.span }
    }

    /// Tells it to who is asked next.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let text = format!("00-{:032x}-{:016x}-01", self.trace, self.span);
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(TRACEPARENT, value);
        }
    }
}

/// Trace, span and whether it is sampled (W3C Trace Context).
fn parse(text: &str) -> Option<(u128, u64, bool)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let lengths = [(version, 2), (trace, 32), (span, 16), (flags, 2)];
    if !lengths.iter().all(|(part, length)| part.len() == *length && is_hex(part)) {
        return None;
    }
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let (trace, span) =
        (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    let flags = u8::from_str_radix(flags, 16).ok()?;
    (trace != 0 && span != 0).then_some((trace, span, flags & 1 == 1))
}

impl Traces {
    /// Takes a span. Never waits.
    pub(crate) fn record(&self, span: Span) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push(span);
        if waiting.len() == TOGETHER {
            self.filled.notify_one();
        }
    }

    /// How many were dropped, because there were too many or the collector did not take them.
    #[must_use]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn take(&self) -> Vec<Span> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(TOGETHER);
        waiting.drain(..count).collect()
    }
}

/// Sends spans while there is a gateway.
pub(crate) async fn send(gateway: Weak<Gateway>) {
    let mut failing = false;
    loop {
        let Some(traces) = gateway.upgrade().map(|gateway| Arc::clone(&gateway.traces)) else {
            return;
        };
        // Neither a full message nor the time for one.
        let _ = tokio::time::timeout(PACE, traces.filled.notified()).await;
        let Some(gateway) = gateway.upgrade() else { return };
        send_waiting(&gateway, &mut failing).await;
    }
}

/// Sends all that waits.
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
            gateway.traces.dropped.fetch_add(spans.len() as u64, Ordering::Relaxed);
            if !*failing {
                gateway.log.line(format_args!("traces are not taken by {url}: {error}"));
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
        let parent = match self.place.parent {
            0 => String::new(),
            parent => hex(parent),
        };
        json!({
            "traceId": format!("{:032x}", self.place.trace),
            "spanId": hex(self.place.span),
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
    // Strings take what is written to them.
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

    struct Ones;

    impl Random for Ones {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(1);
        }
    }

    fn place(header: &str) -> Option<Place> {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_str(header).unwrap());
        Place::of(&headers, &Ones)
    }

    #[test]
    fn a_callers_trace_is_gone_on_with() {
        let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let ours = place(caller).unwrap();
        assert_eq!(
            (ours.trace, ours.parent),
            (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)
        );
        let mut headers = HeaderMap::new();
        ours.within(&Ones).put(&mut headers);
        assert_eq!(headers[TRACEPARENT], "00-0af7651916cd43dd8448eb211c80319c-0101010101010101-01");
        assert_eq!(place("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), None);
        for broken in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(place(broken).unwrap().parent, 0, "{broken}");
        }
    }

    #[test]
    fn what_a_collector_gets() {
        let place = Place { trace: 1, span: 2, parent: 0 };
        let attributes = vec![("gen_ai.request.model", "big".to_owned())];
        let span = Span {
            place,
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

    #[test]
    fn beyond_the_bound_spans_are_dropped_and_counted() {
        let traces = Traces::default();
        let place = Place { trace: 1, span: 1, parent: 0 };
        for _ in 0..WAITING + 3 {
            let attributes = Vec::new();
            let (name, is_upstream) = (String::new(), false);
            traces.record(Span {
                place,
                name,
                is_upstream,
                began: 0,
                ended: 0,
                status: 200,
                attributes,
            });
        }
        assert_eq!((traces.take().len(), traces.dropped()), (TOGETHER, 3));
    }
}
