//! Requests to the model, what their responses mean for the turn, and retries.

use std::sync::Arc;

use hooks::CompactionTrigger;

use super::received_calls::{Occurrence, call_id, called};
use super::{Kind, Request, Turn, review};
use crate::calls::Called;
use crate::concessions;
use crate::history::{self, CallKind};
use crate::port::effect::{Effect, Record};
use crate::port::event::{Event, TurnError};
use crate::port::fragment::Fragment;
use crate::port::item::Change;
use crate::port::model::{
    Failure, FailureKind, ModelEvent, ModelItem, ModelNotice, ResponseUsage, Retrying,
};
use crate::port::prompt::{CacheHints, Prompt};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{PatchTool, TOOL_SEARCH};
use crate::processes::output;
use crate::sample::retry::{self, Attempts, Next};
use crate::sample::{Closed, ReasoningPart, Sample, TooLong, UNFINISHED};
use crate::thread::Thread;
use crate::tools::{self, RejectedCall, ToolCall};

/// Bytes shown of an item that only the provider knows.
const MAX_SHOWN: usize = 4_096;
/// Most responses of a turn that end before the model has; the turn ends with the one after.
const MAX_PAUSES: u32 = 64;

impl Turn {
    /// Asks the model.
    pub(super) fn request_response(&mut self, thread: &mut Thread) {
        match &mut self.kind {
            // A review begins with all of it.
            Kind::Review(review) => review.add_documents(thread.conversation.announced_documents()),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => {
                thread.introduce(&self.received);
            }
        }
        let output_schema = self.output_schema.clone();
        let sample = self.new_sample(thread);
        self.go_on_with_unfinished();
        thread.conversation.note_request(thread.cx.now);
        let mut prompt = self.prompt(output_schema, thread);
        thread.concessions.apply(&mut prompt);
        thread.cx.push(Effect::Sample { sample, prompt });
    }

    pub(super) fn new_sample(&mut self, thread: &mut Thread) -> u64 {
        let number = thread.cx.number();
        let notes = thread.configuration.context().memories.clone();
        self.request = Request::Streaming(Sample::new(number, self.view.id.clone(), notes));
        number
    }

    /// The texts that broke off go to the response that may go on with them.
    fn go_on_with_unfinished(&mut self) {
        let unfinished = std::mem::take(&mut self.unfinished);
        let request = std::mem::replace(&mut self.request, Request::None);
        self.request = match request {
            Request::Streaming(sample) => Request::Streaming(sample.continuing(unfinished)),
            other => other,
        };
    }

    /// Completes texts that broke off, and that no response goes on with.
    pub(super) fn close_unfinished(&mut self, thread: &mut Thread) {
        std::mem::take(&mut self.unfinished).close(&self.view.id, &mut thread.cx);
    }

    pub(super) fn is_review(&self) -> bool {
        matches!(self.kind, Kind::Review(_))
    }

    pub(super) fn prompt(&self, output_schema: Option<Arc<str>>, thread: &mut Thread) -> Prompt {
        let review = match &self.kind {
            Kind::Review(review) => Some(review),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => None,
        };
        let history = review.map_or(thread.conversation.history(), |review| review.history());
        let search = thread.configuration.offer().tools().search;
        let hints = match review {
            Some(_) => CacheHints::default(),
            None => thread.conversation.cache_hints(),
        };
        let input = history.understood(history.input().with_cache(hints), search);
        let (is_review, has_goal) = (review.is_some(), thread.goal.is_open());
        let tools = thread.configuration.offered(is_review, has_goal, history.loaded_tools());
        let configuration = &thread.configuration;
        let settings = configuration.settings();
        let model = review.and_then(|review| review.model()).unwrap_or(&settings.model);
        Prompt {
            provider: settings.provider.clone(),
            model: model.clone(),
            instructions: match review {
                Some(_) => review::instructions(),
                None => configuration.instructions(),
            },
            input,
            tools,
            effort: configuration.effort(),
            summary: settings.summary.clone(),
            verbosity: settings.verbosity.clone(),
            output_schema,
            service_tier: self.service_tier.as_ref().unwrap_or(&settings.service_tier).clone(),
            reasoning_member: false,
            left_out: Vec::new(),
        }
    }

    /// Takes part of the response to the request `sample`.
    pub(crate) fn model(&mut self, sample: u64, events: Vec<ModelEvent>, thread: &mut Thread) {
        for event in events {
            let Request::Streaming(current) = &mut self.request else { return };
            if current.number() != sample {
                return;
            }
            let is_queued =
                matches!(event, ModelEvent::Held | ModelEvent::Notice(ModelNotice::Queued { .. }));
            current.set_queued(is_queued);
            if let ModelEvent::Failed(Failure { usage: Some(usage), .. }) = &event {
                thread.account(&self.view.id, (**usage).clone());
            }
            if let ModelEvent::Notice(notice) = event {
                thread.notice(&self.view.id, notice);
                continue;
            }
            let taken = match &self.compaction {
                Some(_) => self.summary_event(event, thread),
                None => self.response_event(event, thread),
            };
            if let Err(too_long) = taken {
                self.fail(too_long, thread);
            }
        }
    }

    fn response_event(&mut self, event: ModelEvent, thread: &mut Thread) -> Result<(), TooLong> {
        let Request::Streaming(sample) = &mut self.request else { return Ok(()) };
        let planning = thread.configuration.is_planning();
        let cx = &mut thread.cx;
        match event {
            ModelEvent::ItemAdded { index, kind } => sample.open(index, kind, planning, cx),
            ModelEvent::TextDelta { index, text } => sample.text_delta(index, text, planning, cx),
            ModelEvent::SummaryPartAdded { index, part } => sample.summary_part(index, part, cx),
            ModelEvent::SummaryDelta { index, part, text } => {
                sample.reasoning_delta(index, ReasoningPart::Summary(part), text, cx)
            }
            ModelEvent::ReasoningDelta { index, part, text } => {
                sample.reasoning_delta(index, ReasoningPart::Content(part), text, cx)
            }
            ModelEvent::PatchPreview { index, changes } => {
                self.patch_preview(index, changes, thread)
            }
            ModelEvent::ItemDone { index, raw, item } => self.item_done(index, &raw, item, thread),
            ModelEvent::Paused => {
                self.pauses += 1;
                self.again |= self.pauses <= MAX_PAUSES;
                Ok(())
            }
            ModelEvent::Completed { usage } => {
                self.response_completed(usage, thread);
                Ok(())
            }
            // Taken before.
            ModelEvent::Notice(_) | ModelEvent::Held | ModelEvent::Sent => Ok(()),
            ModelEvent::Failed(failure) => {
                self.request_failed(failure, thread);
                Ok(())
            }
        }
    }

    /// A patch streams in. Without the tool, its call is no patch.
    fn patch_preview(
        &mut self,
        index: usize,
        changes: Vec<Change>,
        thread: &mut Thread,
    ) -> Result<(), TooLong> {
        let tools = thread.configuration.tools(self.is_review(), thread.goal.is_open());
        let has_tool = tools.patch != PatchTool::Off;
        let Request::Streaming(sample) = &mut self.request else { return Ok(()) };
        let cwd = &thread.configuration.settings().cwd;
        if has_tool { sample.patch_preview(index, changes, cwd, &mut thread.cx) } else { Ok(()) }
    }

    fn item_done(
        &mut self,
        index: usize,
        raw: &Arc<str>,
        item: ModelItem,
        thread: &mut Thread,
    ) -> Result<(), TooLong> {
        if let Request::Streaming(sample) = &mut self.request {
            sample.count(raw.len(), &thread.cx)?;
        }
        let Some((raw, item)) = self.admit_item(index, raw, item, thread) else { return Ok(()) };
        self.remember(vec![Fragment::summarized(raw.clone())], thread);
        let Request::Streaming(sample) = &mut self.request else { return Ok(()) };
        let planning = thread.configuration.is_planning();
        let cx = &mut thread.cx;
        match item {
            ModelItem::Message { text, phase } => {
                let text = sample.complete_message(index, text, phase, planning, cx)?;
                if let Kind::Review(review) = &mut self.kind {
                    review.set_text(text);
                } else if thread.configuration.hooks().reads_last_message() {
                    self.hooks.last_message = Some(text);
                }
            }
            ModelItem::Reasoning { summary, content } => {
                sample.complete_reasoning(index, summary, content, cx)?;
            }
            ModelItem::WebSearch { query, action, failed } => {
                sample.complete_search(index, query, action, failed, cx)?;
            }
            ModelItem::ImageGeneration(image) => sample.complete_image(index, image, cx)?,
            ModelItem::FunctionCall { call_id, name, arguments } => {
                let previewed = sample.take_previewed(index);
                sample.replace(index, cx);
                let tools = thread.configuration.tools(self.is_review(), thread.goal.is_open());
                let call = tools::read_function(&tools, &name, &arguments);
                let (kind, input) = (CallKind::Function, arguments);
                let called = Called { call_id, kind, name, input, previewed };
                self.call(called, call, thread);
            }
            ModelItem::CustomToolCall { call_id, name, input } => {
                let previewed = sample.take_previewed(index);
                sample.replace(index, cx);
                let tools = thread.configuration.tools(self.is_review(), thread.goal.is_open());
                let call = tools::read_custom(&tools, &name, &input);
                let kind = CallKind::Custom;
                let called = Called { call_id, kind, name, input, previewed };
                self.call(called, call, thread);
            }
            ModelItem::ToolSearchCall { call_id, arguments } => {
                sample.replace(index, cx);
                let tools = thread.configuration.tools(self.is_review(), thread.goal.is_open());
                let name = TOOL_SEARCH.to_owned();
                let call = tools::read_function(&tools, &name, &arguments);
                let (kind, input) = (CallKind::ToolSearch, arguments);
                let called = Called { call_id, kind, name, input, previewed: None };
                self.call(called, call, thread);
            }
            ModelItem::Other { kind, call_id } => {
                sample.replace(index, cx);
                self.unknown_item(kind, call_id, &raw, thread);
            }
        }
        Ok(())
    }

    /// The item as it enters the history: with a call id that no other call there has. `None` for a
    /// call that the provider sent before.
    fn admit_item(
        &mut self,
        index: usize,
        raw: &Arc<str>,
        mut item: ModelItem,
        thread: &mut Thread,
    ) -> Option<(Arc<str>, ModelItem)> {
        let Request::Streaming(sample) = &mut self.request else { return None };
        let Some(id) = call_id(&mut item).cloned() else {
            return Some((raw.clone(), item));
        };
        match self.received_calls.receive(sample.number(), &id, &item) {
            Occurrence::New => {
                let Some(new) = self.history(thread).call_ids().replacement(&id) else {
                    return Some((raw.clone(), item));
                };
                let raw = history::with_call_id(raw, &new);
                call_id(&mut item)?.clone_from(&new);
                Some((raw, item))
            }
            Occurrence::Repeated(reason) => {
                sample.replace(index, &mut thread.cx);
                // The model learns from the output of the first one how that ended.
                self.again = true;
                if let (Some(reason), Some(called)) = (reason, called(item, raw)) {
                    self.show_rejected_call(&called, &reason, thread);
                }
                None
            }
        }
    }

    fn call(
        &mut self,
        called: Called,
        call: Result<Box<dyn ToolCall>, ToolError>,
        thread: &mut Thread,
    ) {
        let number = thread.cx.number();
        let limit = thread.cx.limits.calls;
        match call {
            Ok(_) if self.calls.len() >= limit => {
                let message = format!("more than {limit} tool calls in one response");
                self.reject_call(number, called, message, thread);
            }
            Ok(call) => {
                self.calls.push(number, called, call, thread.configuration.hooks());
                self.go_on(thread);
            }
            Err(error) => self.reject_call(number, called, error.into_message(), thread),
        }
    }

    /// Answers a call that cannot be read or is one too many, and shows it as failed.
    fn reject_call(&mut self, number: u64, called: Called, message: String, thread: &mut Thread) {
        self.show_rejected_call(&called, &message, thread);
        self.calls.push_answered(number, called, message);
    }

    pub(super) fn show_rejected_call(&self, called: &Called, message: &str, thread: &mut Thread) {
        let is_json = called.kind != CallKind::Custom;
        let arguments = is_json.then(|| serde_json::from_str(&called.input).ok()).flatten();
        let cwd = &thread.configuration.settings().cwd;
        let rejected = RejectedCall { input: &called.input, arguments, cwd, thread: &thread.id };
        let tools = thread.configuration.tools(self.is_review(), thread.goal.is_open());
        let id = called.previewed.clone().unwrap_or_else(|| thread.cx.item_id());
        let item = tools::rejected_item(&tools, &called.name, id, &rejected);
        thread.cx.failed_item(&self.view.id, item, message);
    }

    /// Shows an item that only the provider knows, and answers it where the model waits for that.
    fn unknown_item(
        &mut self,
        kind: String,
        call_id: Option<String>,
        raw: &str,
        thread: &mut Thread,
    ) {
        let input = output::shorten(raw, MAX_SHOWN);
        if let Some(call_id) = call_id.filter(|_| !history::is_output(&kind)) {
            let message = format!(
                "calls of the type `{kind}` cannot be carried out here; use one of the tools that \
                 the request offers"
            );
            let number = thread.cx.number();
            let name = kind.clone();
            let kind = CallKind::Other(kind);
            let called = Called { call_id, kind, name, input, previewed: None };
            return self.reject_call(number, called, message, thread);
        }
        let message = format!(
            "the model's response has an item of the type `{kind}`, which this version does not \
             know; it is kept for the model and has no other effect"
        );
        let arguments = serde_json::from_str(&input).unwrap_or(serde_json::Value::String(input));
        let item = tools::tool_item(thread.cx.item_id(), None, kind, arguments.to_string());
        thread.cx.failed_item(&self.view.id, item, &message);
    }

    fn response_completed(&mut self, usage: ResponseUsage, thread: &mut Thread) {
        self.attempts = Attempts::default();
        self.received_calls.clear();
        self.close_sample(Closed::Over(UNFINISHED), thread);
        let history = match &mut self.kind {
            Kind::Review(review) => review.history_mut(),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => {
                thread.conversation.history_mut()
            }
        };
        history.count(usage.tokens.total);
        thread.account(&self.view.id, usage);
        self.run_response_hooks(thread);
        self.advance(thread);
    }

    /// Completes the items of a response that is over. Returns its number.
    fn close_sample(&mut self, closed: Closed<'_>, thread: &mut Thread) -> Option<u64> {
        match std::mem::replace(&mut self.request, Request::None) {
            Request::Streaming(sample) => {
                let number = sample.number();
                sample.close(closed, &mut thread.cx);
                Some(number)
            }
            Request::None | Request::Waiting { .. } => None,
        }
    }

    /// A request that failed is sent again where that can help, with the items that arrived in the
    /// history. One that is too long is sent again with a compacted history.
    pub(super) fn request_failed(&mut self, failure: Failure, thread: &mut Thread) {
        if failure.kind == FailureKind::ContextWindowExceeded && self.may_compact(thread) {
            self.again = true;
            self.close_sample(Closed::Failed(&failure.message), thread);
            return self.begin_compaction(CompactionTrigger::Auto, true, thread);
        }
        if let Some(message) = self.concede(&failure, thread) {
            self.again |= self.compaction.is_none();
            self.close_sample(Closed::Failed(&failure.message), thread);
            thread.cx.emit(Event::Warning { message });
            return self.advance(thread);
        }
        match self.attempts.failed(&failure, &thread.cx.limits) {
            Next::GiveUp { tries } => {
                let mut failure = retry::given_up(failure, tries);
                let refused = self.prompt(None, thread);
                failure.message.extend(concessions::advice(&failure, &refused));
                self.close_sample(Closed::Failed(&failure.message), thread);
                self.fail(failure, thread);
            }
            Next::Again(retrying) => {
                // A compaction asks for its summary again by itself.
                self.again |= self.compaction.is_none();
                let request = std::mem::replace(&mut self.request, Request::None);
                if let Request::Streaming(failed) = request {
                    let sample = failed.number();
                    self.unfinished.add(failed, &failure.message, &mut thread.cx);
                    self.request = Request::Waiting { sample };
                    self.report_retry(retry::retried(&failure, retrying), retrying, thread);
                    thread.cx.push(Effect::RetryAfter { sample, wait: retrying.wait });
                }
            }
        }
    }

    /// Learns from a refusal what later requests do without. Returns what to tell the user, if anything helps.
    fn concede(&mut self, failure: &Failure, thread: &mut Thread) -> Option<String> {
        let mut refused = self.prompt(self.output_schema.clone(), thread);
        thread.concessions.apply(&mut refused);
        let message = thread.concessions.learn(failure, &refused)?;
        thread.cx.persist(Record::Concessions(thread.concessions.all()));
        Some(message)
    }

    /// Reports a failure after which the turn continues.
    pub(super) fn report_retry(&self, failure: Failure, retrying: Retrying, thread: &mut Thread) {
        let (turn, error) = (self.view.id.clone(), TurnError::from(failure));
        thread.cx.emit(Event::Error { turn, error, retry: Some(retrying) });
    }

    /// The wait before a retry is over.
    pub(crate) fn retry_due(&mut self, sample: u64, thread: &mut Thread) {
        if matches!(self.request, Request::Waiting { sample: waiting } if waiting == sample) {
            self.request = Request::None;
            self.advance(thread);
        }
    }

    /// Makes a request that still waits for the provider's rate limit again, with what the model has
    /// not seen.
    pub(super) fn renew_queued_request(&mut self, thread: &mut Thread) {
        let Request::Streaming(sample) = &self.request else { return };
        if sample.is_queued() && self.compaction.is_none() && self.needs_request() {
            thread.cx.push(Effect::CancelSample { sample: sample.number() });
            if let Request::Streaming(queued) = std::mem::replace(&mut self.request, Request::None)
            {
                self.unfinished = queued.into_unfinished();
            }
            self.again = true;
            self.advance(thread);
        }
    }
}
