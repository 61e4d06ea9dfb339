//! The span of a request to a model.

use session::{ModelEvent, ResponseUsage};
use telemetry::{Attribute, Operation, TraceContext, names};

use crate::thread::trace::error_type;
use services::telemetry::{OpenSpan, TurnTrace, model_label, set_usage};

/// The span of a request to a model. Dropped before the end of the response, it counts as
/// cancelled.
pub(super) struct RequestSpan {
    span: OpenSpan,
    has_begun: bool,
}

impl RequestSpan {
    /// The request is about to be sent.
    pub(super) fn begin(trace: &TurnTrace, provider: &str, model: &str) -> Self {
        let model = &*model_label(model);
        let attributes = [
            Attribute::new(names::PROVIDER, provider),
            Attribute::new(names::REQUEST_MODEL, model),
        ];
        let span = trace.begin(None, Operation::Chat, model, attributes);
        Self { span, has_begun: false }
    }

    /// Its position, for the provider.
    pub(super) fn context(&self) -> Option<TraceContext> {
        self.span.context()
    }

    /// Follows the response.
    pub(super) fn observe(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Notice(_) | ModelEvent::Held | ModelEvent::Sent => {}
            ModelEvent::Completed { usage } => {
                self.begun();
                self.used(usage);
                std::mem::take(&mut self.span).end();
            }
            ModelEvent::Failed(failure) => {
                if let Some(usage) = &failure.usage {
                    self.used(usage);
                }
                self.span.fail(error_type(failure.kind), Some(&failure.message));
                std::mem::take(&mut self.span).end();
            }
            _ => self.begun(),
        }
    }

    fn begun(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(seconds) = self.span.elapsed()
        {
            self.span.set(names::TIME_TO_FIRST_CHUNK, seconds);
        }
    }

    fn used(&mut self, usage: &ResponseUsage) {
        self.span.set(names::RESPONSE_MODEL, &*usage.source.model);
        set_usage(&mut self.span, usage.tokens, usage.cost);
    }
}
