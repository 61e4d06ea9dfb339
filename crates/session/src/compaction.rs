//! Compaction: a history that becomes too long is replaced by what must survive word for word and
//! a summary of the rest, which the model itself writes.
//!
//! What survives: the introduction (settings, developer instructions, the project's document), told
//! anew as it is now; the user's messages; what a client pinned. What is summed up: answers,
//! reasoning, calls and their outputs. Nothing is lost of what clients see: items stay as they are.

use std::sync::{Arc, LazyLock};

use crate::Id;
use crate::context;
use crate::effect::{Effect, Prompt, Record};
use crate::event::{Event, Status};
use crate::history::{self, Fragment, History, Mark};
use crate::input::{Failure, FailureKind, ModelEvent, ModelItem, Usage};
use crate::item::{Item, ItemStatus};
use crate::machine::Machine;
use crate::retry::Attempts;
use crate::sampling::Sample;
use crate::turn::{Kind, Turn, closed_item};

/// A compaction that is under way.
pub(crate) struct Compaction {
    item: Id,
    summary: String,
    /// How often more of the oldest history was left out, as the request itself did not fit.
    left_out: u32,
}

/// Times that the oldest half of what is summed up is left out before nothing of it is sent.
const MAX_LEFT_OUT: u32 = 4;

impl Compaction {
    pub(crate) fn shown(&self) -> Item {
        Item::ContextCompaction { id: self.item.clone(), reason: None }
    }
}

impl Machine {
    /// `thread/compact/start`.
    pub(crate) fn compact(&mut self, reply: u64) {
        if self.turn.is_some() {
            let message = "a turn is running; wait for its end, or interrupt it, then compact";
            return self.refuse(reply, message.into());
        }
        if self.closed {
            return self.refuse(reply, "the server is shutting down".into());
        }
        if self.history.fragments().is_empty() {
            return self.refuse(reply, "the thread has no history to compact".into());
        }
        let view = self.new_turn();
        let turn = self.begin_turn(reply, Turn::new(view, Kind::Compaction));
        self.store_repairs(&turn);
        self.begin_compaction(&turn);
    }

    /// Whether the next request would be so long that its history is to be compacted first.
    pub(crate) fn must_compact(&self) -> bool {
        let Some(limit) = self.limits.compact_at_tokens else { return false };
        let tokens = self.history.tokens();
        // When little can be summed up, a compaction costs more than it saves.
        tokens >= limit && self.may_compact() && self.history.passing_tokens() >= tokens / 4
    }

    /// Whether a request that the provider found too long can be helped: once, until there is more.
    pub(crate) fn may_compact(&self) -> bool {
        let Some(turn) = &self.turn else { return false };
        !turn.is_review()
            && turn.compaction.is_none()
            && turn.compacted_at != Some(self.history.fragments().len())
            && self.history.passing_tokens() > 0
    }

    pub(crate) fn begin_compaction(&mut self, turn: &Id) {
        let item = self.ids.item();
        self.item_started(turn, Item::ContextCompaction { id: item.clone(), reason: None });
        if let Some(turn) = &mut self.turn {
            turn.compaction = Some(Compaction { item, summary: String::new(), left_out: 0 });
        }
        self.sample_compaction();
    }

    /// Asks for the summary.
    pub(crate) fn sample_compaction(&mut self) {
        let number = self.number();
        let Some(turn) = &mut self.turn else { return };
        let Some(compaction) = &mut turn.compaction else { return };
        compaction.summary.clear();
        let left_out = compaction.left_out;
        turn.sample = Some(Sample::new(number));
        let mut input: Vec<Arc<str>> =
            shortened(&self.history, left_out).into_iter().map(|part| part.text).collect();
        let asked = self.context.compact_prompt.clone().unwrap_or_else(default_prompt);
        input.push(history::message("user", &asked));
        let prompt = Prompt { input, tools: "[]".into(), output_schema: None, ..self.prompt(None) };
        self.effect(Effect::Sample { sample: number, prompt });
    }

    /// Takes part of the summary.
    pub(crate) fn compaction_event(&mut self, turn: &Id, event: ModelEvent) {
        match event {
            ModelEvent::TextDelta { text, .. }
            | ModelEvent::SummaryDelta { text, .. }
            | ModelEvent::ReasoningDelta { text, .. } => {
                self.within_bound(text.len());
            }
            ModelEvent::ItemDone { raw, item, .. } => {
                let is_within = self.within_bound(raw.len());
                let compaction = self.turn.as_mut().and_then(|turn| turn.compaction.as_mut());
                if let (true, Some(compaction), ModelItem::Message { text, .. }) =
                    (is_within, compaction, item)
                {
                    compaction.summary.push_str(&text);
                }
            }
            ModelEvent::ItemAdded { .. } | ModelEvent::SummaryPartAdded { .. } => {}
            ModelEvent::Completed { usage } => self.summary_completed(turn, usage),
            ModelEvent::Failed(failure) => self.summary_failed(turn, failure),
        }
    }

    fn summary_completed(&mut self, turn: &Id, usage: Usage) {
        self.account(turn, usage);
        let Some(active) = &mut self.turn else { return };
        active.attempts = Attempts::default();
        active.sample = None;
        let empty = active.compaction.as_ref().is_none_or(|c| c.summary.trim().is_empty());
        if empty {
            return self.fail(Failure::new(
                FailureKind::Other,
                "the model gave no summary of the conversation; its history is as it was",
            ));
        }
        let Some(compaction) = active.compaction.take() else { return };
        let fragments = self.compacted(&compaction.summary);
        self.history = History::new(fragments.clone());
        self.forget_untold();
        self.introduced = Some(self.settings.clone());
        self.persist(Record::Introduced(Box::new(self.settings.clone())));
        self.persist(Record::Anew { turn: turn.clone(), fragments });
        // What waits for the model was stored before; it comes after what takes its place.
        let waiting = self.turn.as_ref().map(|turn| turn.pending.clone()).unwrap_or_default();
        if !waiting.is_empty() {
            self.persist(Record::History { turn: Some(turn.clone()), fragments: waiting });
        }
        self.item_completed(turn, compaction.shown());
        let length = self.history.fragments().len();
        if let Some(turn) = &mut self.turn {
            turn.compacted_at = Some(length);
        }
        self.advance();
    }

    /// A request for a summary that is itself too long is tried again with less.
    fn summary_failed(&mut self, turn: &Id, failure: Failure) {
        let Some(active) = &mut self.turn else { return };
        if let Some(compaction) = &mut active.compaction
            && failure.kind == FailureKind::ContextWindowExceeded
            && compaction.left_out <= MAX_LEFT_OUT
        {
            compaction.left_out += 1;
            let attempt = compaction.left_out;
            active.sample = None;
            let message = format!(
                "{} (retry {attempt} of {} with less of the oldest history)",
                failure.message,
                MAX_LEFT_OUT + 1
            );
            self.retry_shown(turn, Failure { message, ..failure });
            return self.sample_compaction();
        }
        self.sample_failed(turn, failure);
    }

    /// A compaction that does not come to its end leaves the history as it was.
    pub(crate) fn drop_compaction(&mut self, turn: &Id, why: &str) {
        let compaction = self.turn.as_mut().and_then(|turn| turn.compaction.take());
        if let Some(compaction) = compaction {
            let item = closed_item(compaction.shown(), ItemStatus::Failed, Some(why));
            self.item_completed(turn, item);
        }
    }

    /// The history that takes the place of the one summed up.
    fn compacted(&self, summary: &str) -> Vec<Fragment> {
        let mut kept: Vec<Fragment> = Vec::new();
        let parts = self.history.fragments().iter();
        kept.extend(parts.filter(|part| part.settled_mark() == Mark::Kept).cloned());
        // With no room for all of them the oldest are left to the summary, so that a thread of
        // very many messages still lives.
        let room = self.limits.compact_at_tokens.map_or(u64::MAX, |limit| limit / 4 * 3);
        let mut tokens = 0;
        let fits = kept
            .iter()
            .rev()
            .take_while(|part| {
                tokens += history::tokens_of(part);
                tokens <= room
            })
            .count();
        let dropped = kept.len() - fits.max(1).min(kept.len());
        let opened = self.turn.as_ref().map_or(kept.len(), |turn| match turn.kind {
            Kind::Ordinary => turn.kept_before,
            _ => kept.len(),
        });
        let state = state_text(dropped, kept.len() - dropped, opened.saturating_sub(dropped));
        let text = format!(
            "<conversation_summary>\n{}\n</conversation_summary>\n\n{state}",
            summary.trim()
        );
        let mut fragments = context::introduction(&self.context, &self.settings);
        fragments.extend(self.goal_context());
        fragments.extend(kept.into_iter().skip(dropped).map(|part| Fragment::kept(part.text)));
        fragments.push(Fragment::passing(history::message("user", &text)));
        fragments
    }

    /// Starts a turn that is not an ordinary one: answered, shown, running.
    pub(crate) fn begin_turn(&mut self, reply: u64, turn: Turn) -> Id {
        let view = turn.view.clone();
        self.persist(Record::TurnStarted { turn: view.id.clone(), at: self.now });
        let started = crate::effect::Answer::Started(view.clone());
        self.effect(Effect::Reply { reply, result: Ok(started) });
        self.set_status(Status::Active { waiting_on_approval: false });
        self.emit(Event::TurnStarted(view.clone()));
        self.turn = Some(turn);
        self.goal_clock_starts();
        view.id
    }
}

/// What of the requests above is open.
fn state_text(dropped: usize, kept: usize, finished: usize) -> String {
    let mut text = String::new();
    if dropped > 0 {
        text.push_str(&format!("{dropped} older messages of the user are left to the summary. "));
    }
    if finished >= kept {
        text.push_str(
            "The user's messages above are finished business: do not start any of them again. \
             Wait for what the user asks next.",
        );
    } else {
        text.push_str(&format!(
            "Of the user's messages above, the first {finished} are finished business: do not \
             start any of them again. Go on with the last {}, from where the summary stands.",
            kept - finished
        ));
    }
    text
}

/// The history for the request, without the oldest part of what is summed up: half of it, three
/// quarters, …, all of it.
fn shortened(history: &History, left_out: u32) -> Vec<Fragment> {
    let parts = history.fragments();
    if left_out == 0 {
        return parts.to_vec();
    }
    let is_passing = |part: &Fragment| part.settled_mark() == Mark::Passing;
    let passing = parts.iter().filter(|part| is_passing(part)).count();
    let keeps = if left_out > MAX_LEFT_OUT { 0 } else { passing >> left_out };
    let mut to_drop = passing - keeps;
    let left = parts.iter().filter(|part| {
        let drops = to_drop > 0 && is_passing(part);
        to_drop -= usize::from(drops);
        !drops
    });
    history::without_orphans(left.cloned().collect())
}

fn default_prompt() -> Arc<str> {
    static TEXT: LazyLock<Arc<str>> = LazyLock::new(|| include_str!("compact_prompt.md").into());
    TEXT.clone()
}
