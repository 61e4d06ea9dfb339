//! An operation under way: a span that is recorded when it ends, or is dropped.

use telemetry::{Attribute, Failed, Operation, Recorder, Span, TraceContext, Value, names};

/// Longest message of an error that is exported, in bytes.
const MAX_MESSAGE: usize = 500;
/// Longest other text, in bytes: names come from models, servers and clients.
const MAX_TEXT: usize = 256;

/// See the module. Dropped without an end, it counts as cancelled. Without a recorder it only has a
/// position in a trace, if any.
#[derive(Debug, Default)]
pub(crate) struct OpenSpan {
    context: Option<TraceContext>,
    recording: Option<Box<Recording>>,
}

struct Recording {
    recorder: Recorder,
    span: Span,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.span.fmt(f)
    }
}

impl OpenSpan {
    /// A span that is not recorded.
    pub(super) fn unrecorded(context: Option<TraceContext>) -> Self {
        Self { context, recording: None }
    }

    /// A span that begins now.
    pub(super) fn begin(
        recorder: Recorder,
        (context, parent): (TraceContext, u64),
        (operation, subject): (Operation, &str),
        attributes: Vec<Attribute>,
    ) -> Self {
        let began = recorder.now();
        let (subject, failed) = (cut(subject, MAX_TEXT), None);
        let span =
            Span { context, parent, operation, subject, began, ended: began, attributes, failed };
        Self { context: Some(context), recording: Some(Box::new(Recording { recorder, span })) }
    }

    /// Its position, for those who take part in the operation.
    pub(crate) fn context(&self) -> Option<TraceContext> {
        self.context
    }

    /// Nanoseconds since it began; `None` when it is not recorded.
    pub(crate) fn elapsed(&self) -> Option<u64> {
        let recording = self.recording.as_ref()?;
        Some(recording.recorder.now().saturating_sub(recording.span.began))
    }

    /// Sets an attribute.
    pub(crate) fn set(&mut self, name: names::Name, value: impl Into<Value>) {
        let Some(recording) = &mut self.recording else { return };
        let attributes = &mut recording.span.attributes;
        attributes.retain(|one| one.name != name);
        attributes.push(short(name, value));
    }

    /// The operation has failed. `message` may have secrets: they are removed.
    pub(crate) fn fail(&mut self, kind: &str, message: Option<&str>) {
        let Some(recording) = &mut self.recording else { return };
        let message = message.map(|message| redacted(message, MAX_MESSAGE));
        recording.span.failed = Some(Failed { kind: kind.to_owned(), message });
    }

    /// The operation has ended.
    pub(crate) fn end(mut self) {
        self.record();
    }

    fn record(&mut self) {
        let Some(recording) = self.recording.take() else { return };
        let Recording { recorder, mut span } = *recording;
        span.ended = recorder.now();
        recorder.record(span);
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if self.recording.is_some() {
            self.fail("cancelled", None);
            self.record();
        }
    }
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
