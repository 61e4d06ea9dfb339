//! Traces: a span for each request, and one for the upstream's part of it. Without a collector none
//! is recorded, and a client's `traceparent` is forwarded unchanged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use ratelimit::Micros;
use tokio::sync::Notify;

use gateway_policy::environment::Random;

/// Most spans that wait to be sent; further ones are dropped and counted.
const WAITING: usize = 8192;
/// Spans per message.
const TOGETHER: usize = 512;
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The position of a span in a trace (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: u128,
    pub(crate) span: u64,
    /// The parent span; 0 for a root span.
    pub(crate) parent: u64,
}

/// A span.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Its context.
    pub(crate) context: TraceContext,
    /// `POST /v1/responses`, or `upstream main`.
    pub(crate) name: String,
    /// True if it is the upstream's part of a request.
    pub(crate) is_upstream: bool,
    /// Start.
    pub(crate) began: Micros,
    /// End.
    pub(crate) ended: Micros,
    /// The HTTP status of the response.
    pub(crate) status: u16,
    /// Further attributes, such as `gen_ai.request.model`.
    pub(crate) attributes: Vec<(&'static str, String)>,
}

/// Spans on their way to the collector.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    waiting: Mutex<Vec<Span>>,
    pub(crate) filled: Notify,
    dropped: AtomicU64,
}

impl TraceContext {
    /// The context of a request's span: in its caller's trace, or the root of a new one. `None`
    /// when the caller asks not to sample it.
    #[must_use]
    pub(crate) fn of_request(headers: &HeaderMap, random: &dyn Random) -> Option<Self> {
        let mut bytes = [0; 24];
        random.fill(&mut bytes);
        let [first, second, third] = [0, 8, 16].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        });
        // Zero is not a valid id.
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

    /// The context of a child span.
    #[must_use]
    pub(crate) fn child(&self, random: &dyn Random) -> Self {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        Self { trace: self.trace, span: u64::from_le_bytes(bytes).max(1), parent: self.span }
    }

    /// Adds it to the headers of an outgoing request.
    pub(crate) fn inject(&self, headers: &mut HeaderMap) {
        let text = format!("00-{:032x}-{:016x}-01", self.trace, self.span);
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(TRACEPARENT, value);
        }
    }
}

/// Parses trace id, span id and sampling flag (W3C Trace Context).
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
    /// Records a span. Never waits.
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

    /// Counts spans that the collector did not accept.
    pub(crate) fn count_dropped(&self, spans: usize) {
        self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// Spans dropped because too many were waiting or the collector did not accept them.
    #[must_use]
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Takes the spans of the next message.
    pub(crate) fn take(&self) -> Vec<Span> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.len().min(TOGETHER);
        waiting.drain(..count).collect()
    }
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

    fn context(header: &str) -> Option<TraceContext> {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, HeaderValue::from_str(header).unwrap());
        TraceContext::of_request(&headers, &Ones)
    }

    #[test]
    fn a_callers_trace_is_continued() {
        let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let ours = context(caller).unwrap();
        assert_eq!(
            (ours.trace, ours.parent),
            (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)
        );
        let mut headers = HeaderMap::new();
        ours.child(&Ones).inject(&mut headers);
        assert_eq!(headers[TRACEPARENT], "00-0af7651916cd43dd8448eb211c80319c-0101010101010101-01");
        assert_eq!(context("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), None);
        for broken in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(context(broken).unwrap().parent, 0, "{broken}");
        }
    }

    #[test]
    fn spans_beyond_the_bound_are_dropped_and_counted() {
        let traces = Traces::default();
        let context = TraceContext { trace: 1, span: 1, parent: 0 };
        for _ in 0..WAITING + 3 {
            let attributes = Vec::new();
            let (name, is_upstream) = (String::new(), false);
            traces.record(Span {
                context,
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
