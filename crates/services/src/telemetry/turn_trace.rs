//! A turn as a part of a trace: what begins within it is a child of its span.

use std::sync::Arc;

use session::{Id, Usage};
use telemetry::{Attribute, Operation, Prompt, Recorder, TraceContext, names};

use super::Telemetry;
use super::open_span::{Export, Meter, OpenSpan, redacted, short};

/// Longest prompt that is exported, in bytes.
const MAX_PROMPT: usize = 32 * 1024;
/// The number of picodollars in a dollar, the unit of prices.
const PICODOLLARS: f64 = 1e12;

/// A turn, for those that take part in it. The default is no turn: nothing of it is measured.
#[derive(Clone, Default)]
pub struct TurnTrace(Option<Arc<Position>>);

struct Position {
    meter: Meter,
    /// The turn's span, or that of the caller when nothing is recorded, if it has one.
    context: Option<TraceContext>,
    recorder: Option<Recorder>,
    /// The thread and the turn, which every recorded span names.
    names: [Attribute; 2],
}

/// The span of a running turn.
pub struct TurnSpan {
    trace: TurnTrace,
    span: OpenSpan,
    used: Usage,
}

impl TurnTrace {
    /// Returns whether this is a turn.
    pub fn is_turn(&self) -> bool {
        self.0.is_some()
    }

    /// The position of the turn.
    pub fn context(&self) -> Option<TraceContext> {
        self.0.as_ref()?.context
    }

    /// Begins an operation within `parent`, or else within the turn.
    pub fn begin(
        &self,
        parent: Option<TraceContext>,
        operation: Operation,
        subject: &str,
        attributes: impl IntoIterator<Item = Attribute>,
    ) -> OpenSpan {
        let Some(position) = &self.0 else { return OpenSpan::default() };
        let parent = parent.or(position.context);
        let attributes = attributes.into_iter().map(|one| short(one.name, one.value));
        let (Some(recorder), Some(parent)) = (&position.recorder, parent) else {
            let attributes = attributes.collect();
            return OpenSpan::begin(&position.meter, operation, attributes, (None, parent));
        };
        let attributes = position.names.iter().cloned().chain(attributes).collect();
        let export = Export {
            recorder: recorder.clone(),
            context: recorder.child(parent),
            parent: parent.span,
            subject: subject.to_owned(),
        };
        OpenSpan::begin(&position.meter, operation, attributes, (Some(export), None))
    }

    /// Records what the user wrote; the text itself only where the configuration asks for it.
    pub fn prompt(&self, text: &str, is_text_wanted: bool) {
        let Some(position) = &self.0 else { return };
        let (Some(recorder), Some(context)) = (&position.recorder, position.context) else {
            return;
        };
        if recorder.settings().logs.is_none() {
            return;
        }
        let mut attributes = position.names.to_vec();
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        attributes.push(Attribute::new(names::PROMPT_LENGTH, length));
        if is_text_wanted {
            let part = serde_json::json!({ "type": "text", "content": redacted(text, MAX_PROMPT) });
            let messages = serde_json::json!([{ "role": "user", "parts": [part] }]);
            attributes.push(Attribute::new(names::PROMPT, messages.to_string()));
        }
        recorder.record_prompt(Prompt { context, at: recorder.now(), attributes });
    }
}

impl TurnSpan {
    /// A turn begins, within `parent` if it is given, or else within the trace of this process.
    pub fn begin(
        telemetry: &Telemetry,
        recorder: Option<Recorder>,
        parent: Option<TraceContext>,
        (thread, turn): (&Id, &Id),
        (agent, attributes): (&str, [Attribute; 2]),
    ) -> Self {
        let parent = parent.or_else(|| telemetry.inherited());
        let thread = Attribute::new(names::CONVERSATION, &**thread);
        let names = [thread, Attribute::new(names::TURN, &**turn)];
        let meter = telemetry.meter().clone();
        let name = Attribute::new(names::AGENT_NAME, agent);
        let named = recorder.is_some().then(|| names.iter().cloned().chain([name]));
        let all = named.into_iter().flatten().chain(attributes);
        let all = all.map(|one| short(one.name, one.value)).collect();
        let export = recorder.clone().map(|recorder| Export {
            context: parent.map_or_else(|| recorder.new_trace(), |of| recorder.child(of)),
            parent: parent.map_or(0, |parent| parent.span),
            subject: agent.to_owned(),
            recorder,
        });
        let span = OpenSpan::begin(&meter, Operation::InvokeAgent, all, (export, parent));
        let position = Position { meter, context: span.context(), recorder, names };
        Self { trace: TurnTrace(Some(Arc::new(position))), span, used: Usage::default() }
    }

    pub fn trace(&self) -> &TurnTrace {
        &self.trace
    }

    /// A response was counted. `cost` is that of the turn so far, in picodollars.
    pub fn used(&mut self, last: Usage, cost: Option<i64>) {
        let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
        add(&mut self.used.input, last.input);
        add(&mut self.used.cached_input, last.cached_input);
        add(&mut self.used.cache_write_input, last.cache_write_input);
        add(&mut self.used.output, last.output);
        add(&mut self.used.reasoning_output, last.reasoning_output);
        set_usage(&mut self.span, self.used, cost);
    }

    /// The turn has ended. `failed` has kind and message.
    pub fn end(mut self, status: &'static str, failed: Option<(&str, &str)>) {
        self.span.set(names::TURN_STATUS, status);
        if let Some((kind, message)) = failed {
            self.span.fail(kind, Some(message));
        }
        self.span.end();
    }
}

/// Sets the tokens and the price, in picodollars.
pub fn set_usage(span: &mut OpenSpan, used: Usage, cost: Option<i64>) {
    span.set(names::INPUT_TOKENS, used.input);
    span.set(names::CACHE_READ_TOKENS, used.cached_input);
    span.set(names::CACHE_WRITE_TOKENS, used.cache_write_input);
    span.set(names::OUTPUT_TOKENS, used.output);
    span.set(names::REASONING_TOKENS, used.reasoning_output);
    if let Some(cost) = cost {
        span.set(names::COST, cost as f64 / PICODOLLARS);
    }
}
