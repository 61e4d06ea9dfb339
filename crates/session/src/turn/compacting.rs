//! When a turn compacts the history, and the requests for its summary.

use hooks::CompactionTrigger;
use http_client::retry::Wait;

use super::compaction::Compaction;
use super::{Kind, Request, Turn};
use crate::port::effect::Effect;
use crate::port::item::ItemStatus;
use crate::port::model::{Failure, FailureKind, ModelEvent, ResponseUsage, Retrying};
use crate::port::prompt::Prompt;
use crate::processes::output;
use crate::sample::TooLong;
use crate::sample::retry::Attempts;
use crate::thread::Thread;

/// Bytes shown of the name of a tool.
const MAX_SHOWN_NAME: usize = 128;

impl Turn {
    /// Returns whether the next request would be so long that its history must be compacted first.
    pub(super) fn must_compact(&self, thread: &Thread) -> bool {
        let Some(limit) = thread.cx.limits.compact_at_tokens else { return false };
        let history = thread.conversation.history();
        let tokens = history.tokens();
        // When little can be summed up, a compaction costs more than it saves.
        tokens >= limit && self.may_compact(thread) && history.summarized_tokens() >= tokens / 4
    }

    /// Returns whether a compaction can help a request that the provider found too long: once,
    /// until there is more history.
    pub(super) fn may_compact(&self, thread: &Thread) -> bool {
        let history = thread.conversation.history();
        !self.is_review()
            && self.compaction.is_none()
            && self.compacted_at != Some(history.fragments().len())
            && history.summarized_tokens() > 0
    }

    /// Begins to compact the history, once hooks allow it. `is_needed`: the turn cannot go on without.
    pub(crate) fn begin_compaction(
        &mut self,
        trigger: CompactionTrigger,
        is_needed: bool,
        thread: &mut Thread,
    ) {
        if !self.run_compaction_hooks(trigger, is_needed, thread) {
            self.start_compaction(trigger, thread);
        }
    }

    pub(super) fn start_compaction(&mut self, trigger: CompactionTrigger, thread: &mut Thread) {
        self.compaction = Some(Compaction::begin(&self.view.id, trigger, thread));
        self.request_summary(thread);
    }

    /// Asks for the summary.
    pub(super) fn request_summary(&mut self, thread: &mut Thread) {
        if self.compaction.is_none() || self.run_request_hooks(thread) {
            return;
        }
        let Some(compaction) = &mut self.compaction else { return };
        thread.conversation.note_request(thread.cx.now);
        let input = compaction.request(thread);
        let search = thread.configuration.offer().tools().search;
        let input = thread.conversation.history().understood(input, search);
        let has_tools = compaction.has_tools();
        let sample = self.new_sample(thread);
        let mut prompt = Prompt { input, ..self.prompt(None, thread) };
        if !has_tools {
            prompt.tools = "[]".into();
        }
        thread.concessions.apply(&mut prompt);
        thread.cx.push(Effect::Sample { sample, prompt });
    }

    /// Takes part of the summary.
    pub(super) fn summary_event(
        &mut self,
        event: ModelEvent,
        thread: &mut Thread,
    ) -> Result<(), TooLong> {
        let Request::Streaming(sample) = &mut self.request else { return Ok(()) };
        match event {
            ModelEvent::TextDelta { text, .. }
            | ModelEvent::SummaryDelta { text, .. }
            | ModelEvent::ReasoningDelta { text, .. } => sample.count(text.len(), &thread.cx)?,
            ModelEvent::ItemDone { raw, item, .. } => {
                sample.count(raw.len(), &thread.cx)?;
                if let Some(compaction) = &mut self.compaction {
                    compaction.take(item);
                }
            }
            ModelEvent::ItemAdded { .. }
            | ModelEvent::PatchPreview { .. }
            | ModelEvent::SummaryPartAdded { .. }
            | ModelEvent::Notice(_)
            | ModelEvent::Held
            | ModelEvent::Paused
            | ModelEvent::Sent => {}
            ModelEvent::Completed { usage } => self.summary_completed(usage, thread),
            ModelEvent::Failed(failure) => self.summary_failed(failure, thread),
        }
        Ok(())
    }

    fn summary_completed(&mut self, usage: ResponseUsage, thread: &mut Thread) {
        thread.account(&self.view.id, usage);
        self.attempts = Attempts::default();
        self.request = Request::None;
        if let Some(tool) = self.compaction.as_mut().and_then(Compaction::leave_out_tools) {
            let tool = output::shorten(&visible::text(&tool), MAX_SHOWN_NAME);
            let message = format!(
                "the model called `{tool}` in place of a summary of the conversation; the call is not \
                 run (retry 1 of 1 without tools)"
            );
            let retrying = Retrying { attempt: 1, limit: 1, wait: Wait::default() };
            self.report_retry(Failure::new(FailureKind::Other, message), retrying, thread);
            return self.request_summary(thread);
        }
        let Some(compaction) = self.compaction.take_if(|compaction| !compaction.is_empty()) else {
            let message = "the model gave no summary of the conversation; its history is as it was";
            return self.fail(Failure::new(FailureKind::Other, message), thread);
        };
        // Waiting input follows the new history, in the store too.
        self.received = self.last_id().clone();
        let finished = match self.kind {
            Kind::Ordinary { kept_before } => Some(kept_before),
            Kind::Compaction | Kind::Review(_) | Kind::Shell => None,
        };
        let fragments = compaction.compacted(finished, thread);
        let settings = thread.configuration.settings();
        thread.conversation.replace(&self.received, fragments, settings, &mut thread.cx);
        self.store_pending_again(thread);
        thread.cx.item_completed(&self.view.id, compaction.item());
        self.compacted_at = Some(thread.conversation.history().fragments().len());
        self.run_compacted_hooks(compaction.trigger(), thread);
        self.advance(thread);
    }

    /// A request for a summary that is itself too long is tried again with less.
    fn summary_failed(&mut self, failure: Failure, thread: &mut Thread) {
        let is_too_long = failure.kind == FailureKind::ContextWindowExceeded;
        let shorter = self.compaction.as_mut().filter(|_| is_too_long);
        let Some((attempt, limit)) = shorter.and_then(Compaction::leave_out_more) else {
            return self.request_failed(failure, thread);
        };
        self.request = Request::None;
        let message = format!(
            "{} (retry {attempt} of {limit} with less of the oldest history)",
            failure.message
        );
        let retrying = Retrying { attempt, limit, wait: Wait::default() };
        self.report_retry(Failure { message, ..failure }, retrying, thread);
        self.request_summary(thread);
    }

    /// A compaction that does not reach its end leaves the history as it was.
    pub(super) fn drop_compaction(&mut self, why: &str, thread: &mut Thread) {
        if let Some(compaction) = self.compaction.take() {
            let item = compaction.item().closed(ItemStatus::Failed, Some(why));
            thread.cx.item_completed(&self.view.id, item);
        }
    }
}
