//! An operation under way: it is measured when it ends, or is dropped, and recorded as a span where the
//! configuration exports anything.

use std::sync::Arc;

use telemetry::{
    Attribute, Failed, Figures, Measured, Operation, Recorder, Span, TraceContext, Value, names,
};

use crate::options::Clock;

/// Longest message of an error that is exported, in bytes.
const MAX_MESSAGE: usize = 500;
/// Longest other text, in bytes: names come from models, servers and clients.
const MAX_TEXT: usize = 256;
const NANOSECONDS: f64 = 1e9;

/// The measuring of operations: the time, and the sums.
#[derive(Clone)]
pub struct Meter {
    pub clock: Arc<dyn Clock>,
    pub figures: Arc<Figures>,
}

impl Meter {
    /// Nanoseconds since the Unix epoch.
    pub fn now(&self) -> u64 {
        u64::try_from(self.clock.now_ms()).unwrap_or(0).saturating_mul(1_000_000)
    }
}

/// An operation under way. Dropped without an end, it counts as cancelled.
#[derive(Debug, Default)]
pub struct OpenSpan {
    context: Option<TraceContext>,
    measuring: Option<Box<Measuring>>,
}

struct Measuring {
    meter: Meter,
    operation: Operation,
    /// Nanoseconds since the Unix epoch.
    began: u64,
    attributes: Vec<Attribute>,
    failed: Option<Failed>,
    export: Option<Export>,
}

/// The parts of a span besides its measurements.
pub(super) struct Export {
    pub(super) recorder: Recorder,
    pub(super) context: TraceContext,
    pub(super) parent: u64,
    pub(super) subject: String,
}

impl std::fmt::Debug for Measuring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.operation, self.attributes)
    }
}

impl OpenSpan {
    /// A span that begins now. Without `export` it is measured only; `passed_on` is then its position in a
    /// trace, if any.
    pub(super) fn begin(
        meter: &Meter,
        operation: Operation,
        attributes: Vec<Attribute>,
        (export, passed_on): (Option<Export>, Option<TraceContext>),
    ) -> Self {
        meter.figures.begin(operation);
        let context = export.as_ref().map(|export| export.context).or(passed_on);
        let export = export.map(|mut export| {
            export.subject = cut(&export.subject, MAX_TEXT);
            export
        });
        let began = meter.now();
        let meter = meter.clone();
        let measuring = Measuring { meter, operation, began, attributes, failed: None, export };
        Self { context, measuring: Some(Box::new(measuring)) }
    }

    /// Its position, for those who take part in the operation.
    pub fn context(&self) -> Option<TraceContext> {
        self.context
    }

    /// Seconds since it began; `None` when it is not measured.
    pub fn elapsed(&self) -> Option<f64> {
        let measuring = self.measuring.as_ref()?;
        Some(seconds(measuring.began, measuring.meter.now()))
    }

    /// Sets an attribute.
    pub fn set(&mut self, name: names::Name, value: impl Into<Value>) {
        let Some(measuring) = &mut self.measuring else { return };
        let attributes = &mut measuring.attributes;
        attributes.retain(|one| one.name != name);
        attributes.push(short(name, value));
    }

    /// The operation has failed. `message` may have secrets: they are removed.
    pub fn fail(&mut self, kind: &str, message: Option<&str>) {
        let Some(measuring) = &mut self.measuring else { return };
        let message = message.filter(|_| measuring.export.is_some());
        let message = message.map(|message| redacted(message, MAX_MESSAGE));
        measuring.failed = Some(Failed { kind: kind.to_owned(), message });
    }

    /// The operation has ended.
    pub fn end(mut self) {
        self.record();
    }

    fn record(&mut self) {
        let Some(measuring) = self.measuring.take() else { return };
        let Measuring { meter, operation, began, attributes, failed, export } = *measuring;
        let ended = meter.now();
        let error = failed.as_ref().map(|failed| failed.kind.as_str());
        let seconds = seconds(began, ended);
        meter.figures.add(&Measured { operation, seconds, attributes: &attributes, error });
        if let Some(Export { recorder, context, parent, subject }) = export {
            let span =
                Span { context, parent, operation, subject, began, ended, attributes, failed };
            recorder.record(span);
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if self.measuring.is_some() {
            self.fail("cancelled", None);
            self.record();
        }
    }
}

fn seconds(began: u64, ended: u64) -> f64 {
    ended.saturating_sub(began) as f64 / NANOSECONDS
}

/// An attribute whose text is not too long.
pub(super) fn short(name: names::Name, value: impl Into<Value>) -> Attribute {
    match value.into() {
        Value::Text(text) => Attribute::new(name, cut(&text, MAX_TEXT)),
        other => Attribute::new(name, other),
    }
}

/// A text without secrets, and cut off.
pub(crate) fn redacted(text: &str, most: usize) -> String {
    let mut near = &text[..text.floor_char_boundary(most.saturating_mul(2))];
    if near.len() < text.len() {
        // A secret that the cut halves would no longer be recognized.
        near = &near[..near.rfind(char::is_whitespace).unwrap_or(0)];
    }
    cut(&redact::redact(near).text, most)
}

fn cut(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_removed_before_the_cut() {
        let secret = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Njc4OTA";
        let text = format!("{} OPENAI_API_KEY={secret} failed", "word ".repeat(95));
        let shown = redacted(&text, 500);
        assert!(!shown.contains("sk-proj") && shown.len() <= 500, "{shown}");
        assert_eq!(redacted("ää ä", 5), "ää ");
        assert_eq!(redacted(&"x".repeat(2000), 500), "");
    }
}
