//! Compaction: a history that becomes too long is replaced by what must survive word for word and
//! a summary of the rest, which the model itself writes.
//!
//! What survives: the introduction (settings, developer instructions, the project's document) as it
//! is now, the user's messages, and what a client pinned. What is summed up: answers, reasoning,
//! calls and their outputs. Clients keep every item.
//!
//! Each fragment of the history has a *mark* that says whether it is generated again, kept or
//! summarized. The store records where the new history begins, so that a rollback to a point
//! before it restores the old one.

use std::sync::{Arc, LazyLock};

use hooks::CompactionTrigger;

use crate::history::{self, History};
use crate::omitted::OmittedMessages;
use crate::port::fragment::{Fragment, Mark};
use crate::port::item::Item;
use crate::port::model::ModelItem;
use crate::port::prompt::PromptInput;
use crate::port::tool_set::TOOL_SEARCH;
use crate::thread::Thread;
use crate::{Id, context};

/// A compaction that is under way.
pub(crate) struct Compaction {
    item: Id,
    summary: String,
    /// Number of times that more of the oldest history was left out, because the request itself was
    /// too long.
    left_out: u32,
    /// The tool that the model called in place of a summary.
    called: Option<String>,
    /// True if the request has no tools, because the model called one before.
    is_without_tools: bool,
    trigger: CompactionTrigger,
}

/// Times that the oldest half of what is summed up is left out before nothing of it is sent.
const MAX_LEFT_OUT: u32 = 4;

impl Compaction {
    /// Opens the item of a compaction.
    pub(crate) fn begin(turn: &Id, trigger: CompactionTrigger, thread: &mut Thread) -> Self {
        let compaction = Self {
            item: thread.cx.item_id(),
            summary: String::new(),
            left_out: 0,
            called: None,
            is_without_tools: false,
            trigger,
        };
        thread.cx.item_started(turn, compaction.item());
        compaction
    }

    /// Who asked for it.
    pub(crate) fn trigger(&self) -> CompactionTrigger {
        self.trigger
    }

    /// The item that shows it.
    pub(crate) fn item(&self) -> Item {
        Item::ContextCompaction { id: self.item.clone(), reason: None }
    }

    /// The input of a request for the summary, which starts over.
    pub(crate) fn request(&mut self, thread: &Thread) -> PromptInput {
        self.summary.clear();
        self.called = None;
        let parts = shortened(thread.conversation.history(), self.left_out);
        let mut input = PromptInput::new(parts.into_iter().map(|part| part.text).collect());
        if self.left_out == 0 {
            input = input.with_cache(thread.conversation.cache_hints());
        }
        let configured = thread.configuration.context().compact_prompt.clone();
        let prompt = configured.unwrap_or_else(default_prompt);
        // The history that follows has the summary in place of the rest.
        input.push_passing(history::message("user", &prompt));
        input
    }

    /// Returns whether the request has the tools of the thread. They stand before the history, so a
    /// request without them would have nothing in the provider's prompt cache.
    pub(crate) fn has_tools(&self) -> bool {
        !self.is_without_tools
    }

    /// Takes an item of the response. Its messages are the summary; a call is not run.
    pub(crate) fn take(&mut self, item: ModelItem) {
        match item {
            ModelItem::Message { text, .. } => self.summary.push_str(&text),
            ModelItem::FunctionCall { name, .. } | ModelItem::CustomToolCall { name, .. } => {
                self.called.get_or_insert(name);
            }
            ModelItem::ToolSearchCall { .. } => {
                self.called.get_or_insert_with(|| TOOL_SEARCH.to_owned());
            }
            ModelItem::Other { kind, call_id: Some(_) } if !history::is_output(&kind) => {
                self.called.get_or_insert(kind);
            }
            // What the provider itself does needs no answer.
            ModelItem::Reasoning { .. }
            | ModelItem::WebSearch { .. }
            | ModelItem::ImageGeneration(_)
            | ModelItem::Other { .. } => {}
        }
    }

    /// After a response that called a tool the next request has no tools: text next to a call announces
    /// the call and is no summary. Returns the tool; `None` when the response counts, also that to a
    /// request without tools.
    pub(crate) fn leave_out_tools(&mut self) -> Option<String> {
        if self.is_without_tools {
            return None;
        }
        let called = self.called.take()?;
        self.is_without_tools = true;
        Some(called)
    }

    /// Returns whether the model gave no summary.
    pub(crate) fn is_empty(&self) -> bool {
        self.summary.trim().is_empty()
    }

    /// The request for the summary was itself too long: the next one leaves more out. Returns which
    /// retry that is and how many there are at most; `None` when nothing is left to leave out.
    pub(crate) fn leave_out_more(&mut self) -> Option<(u32, u32)> {
        if self.left_out > MAX_LEFT_OUT {
            return None;
        }
        self.left_out += 1;
        Some((self.left_out, MAX_LEFT_OUT + 1))
    }

    /// The history that replaces the one summed up. The first `finished` messages of the user are
    /// from before the turn; `None`: all of them.
    pub(crate) fn compacted(&self, finished: Option<usize>, thread: &Thread) -> Vec<Fragment> {
        let parts = thread.conversation.history().fragments().iter();
        let kept = parts.filter(|part| part.is_kept());
        let kept: Vec<Fragment> = kept.cloned().collect();
        // With no room for all of them the oldest are left to the summary, so that a thread of
        // very many messages still lives.
        let limit = thread.cx.limits.compact_at_tokens;
        let room = limit.map_or(u64::MAX, |limit| limit / 4 * 3);
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
        let finished = finished.unwrap_or(kept.len()).saturating_sub(dropped);
        let state = state_text(kept.len() - dropped, finished);
        let omitted = OmittedMessages::in_history(thread.conversation.history().fragments().iter());
        let omitted = omitted.and(&kept[..dropped]);
        let text = format!(
            "{}\n{}\n</conversation_summary>\n\n{state}",
            history::SUMMARY_TAG,
            self.summary.trim()
        );
        let configuration = &thread.configuration;
        let mut fragments =
            context::introduction(configuration.context(), configuration.settings());
        fragments.extend(configuration.skills().map(context::skills_message));
        fragments.extend(thread.conversation.last_documents());
        fragments.extend(thread.goal.introduction());
        fragments.extend(omitted.note());
        let offer = configuration.offer();
        let loaded = offer.found_tools(thread.conversation.history().loaded_tools().names());
        fragments.extend(history::compacted_searches(loaded, offer.tools().search));
        let marked = |part: Fragment| Fragment { mark: part.effective_mark(), ..part };
        fragments.extend(kept.into_iter().skip(dropped).map(marked));
        fragments.push(Fragment::summarized(history::message("user", &text)));
        fragments
    }
}

/// Returns the text about the unfinished part of the requests above.
fn state_text(kept: usize, finished: usize) -> String {
    if finished >= kept {
        return "The user's messages above are finished business: do not start any of them again. \
                Wait for what the user asks next."
            .to_owned();
    }
    format!(
        "Of the user's messages above, the first {finished} are finished business: do not start any \
         of them again. Continue with the last {}, from where the summary ends.",
        kept - finished
    )
}

/// The history for the request, without the oldest part of what is summed up: half of it, three
/// quarters, …, all of it.
fn shortened(history: &History, left_out: u32) -> Vec<Fragment> {
    let parts = history.fragments();
    if left_out == 0 {
        return parts.to_vec();
    }
    let is_passing = |part: &Fragment| part.effective_mark() == Mark::Summarized;
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
