//! The record of a turn: items, texts, tokens and cost.

use std::collections::{HashMap, HashSet};

use protocol::{
    AgentMessageItem, MessagePhase, ReviewModeItem, ThreadItem, ThreadTokenUsage, TokenCost,
    TokenUsageBreakdown,
};

/// The part of a turn that was received, when it has no result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The thread of the turn.
    pub thread_id: String,
    /// The id of the turn.
    pub turn_id: String,
    /// The answer so far.
    pub text: String,
    /// The agent's messages during the work, in their order.
    pub commentary: Vec<String>,
    /// The completed items that this version of the crate knows.
    pub items: Vec<ThreadItem>,
    /// The tokens of the thread (`total`) and of the last request (`last`).
    pub usage: Option<ThreadTokenUsage>,
    /// The tokens of this turn alone.
    pub turn_usage: Option<TokenUsageBreakdown>,
    /// The cost so far; `None` where the server reports none.
    pub cost: Option<TokenCost>,
}

/// The newest reports about the tokens of a turn or a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsageRecord {
    pub(crate) tokens: Option<ThreadTokenUsage>,
    pub(crate) cost: Option<TokenCost>,
    before: Option<TokenUsageBreakdown>,
}

impl UsageRecord {
    pub(crate) fn take(&mut self, usage: ThreadTokenUsage) {
        self.before.get_or_insert_with(|| difference(&usage.total, &usage.last));
        // One that is sent again after a reconnection has no cost.
        if let Some(cost) = &usage.cost {
            self.cost = Some(cost.clone());
        }
        self.tokens = Some(usage);
    }

    /// The tokens from the request of the first report on: those of a turn.
    pub(crate) fn since_first(&self) -> Option<TokenUsageBreakdown> {
        Some(difference(&self.tokens.as_ref()?.total, self.before.as_ref()?))
    }
}

fn difference(all: &TokenUsageBreakdown, part: &TokenUsageBreakdown) -> TokenUsageBreakdown {
    TokenUsageBreakdown {
        total_tokens: all.total_tokens - part.total_tokens,
        input_tokens: all.input_tokens - part.input_tokens,
        cached_input_tokens: all.cached_input_tokens - part.cached_input_tokens,
        cache_write_input_tokens: all.cache_write_input_tokens - part.cache_write_input_tokens,
        output_tokens: all.output_tokens - part.output_tokens,
        reasoning_output_tokens: all.reasoning_output_tokens - part.reasoning_output_tokens,
    }
}

/// The part of a turn that was read.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    items: Vec<ThreadItem>,
    /// Ids of messages, in the order of their beginnings.
    order: Vec<String>,
    /// Messages that go on, by the id of their item.
    written: HashMap<String, String>,
    /// Bytes of each message that were handed out.
    shown: HashMap<String, usize>,
    commentary: HashSet<String>,
    pub(crate) usage: UsageRecord,
}

impl Transcript {
    /// Takes an item that begins.
    pub(crate) fn begin(&mut self, item: &ThreadItem) {
        if let ThreadItem::AgentMessage(message) = item {
            self.note_phase(message);
        }
    }

    /// Takes a part of a message.
    pub(crate) fn write(&mut self, item_id: &str, text: &str) {
        *self.shown.entry(item_id.to_owned()).or_default() += text.len();
        self.see(item_id);
        self.written.entry(item_id.to_owned()).or_default().push_str(text);
    }

    /// Takes an item in its final form, and returns the rest of its text: a replay has completed messages without
    /// their deltas.
    pub(crate) fn complete(&mut self, item: &ThreadItem) -> Option<String> {
        let rest = if let ThreadItem::AgentMessage(message) = item {
            self.note_phase(message);
            self.written.remove(&message.id);
            let shown = self.shown.entry(message.id.clone()).or_default();
            let rest = message.text.get(*shown..).filter(|rest| !rest.is_empty());
            *shown = (*shown).max(message.text.len());
            rest.map(str::to_owned)
        } else {
            None
        };
        match self.items.iter_mut().find(|known| known.id() == item.id()) {
            Some(known) => *known = item.clone(),
            None => self.items.push(item.clone()),
        }
        rest
    }

    /// Takes an item of a turn in progress: a message may go on from here.
    pub(crate) fn replace(&mut self, item: &ThreadItem) -> Option<String> {
        let rest = self.complete(item);
        if let ThreadItem::AgentMessage(message) = item {
            self.written.insert(message.id.clone(), message.text.clone());
        }
        rest
    }

    pub(crate) fn is_commentary(&self, item_id: &str) -> bool {
        self.commentary.contains(item_id)
    }

    /// The answer so far.
    pub(crate) fn text(&self) -> String {
        self.messages(false).pop().unwrap_or_default()
    }

    /// The messages of one kind, in their order.
    pub(crate) fn messages(&self, is_commentary: bool) -> Vec<String> {
        let completed = |id: &str| {
            self.items.iter().find_map(|item| match item {
                ThreadItem::AgentMessage(message) if message.id == id => Some(&message.text),
                _ => None,
            })
        };
        let wanted = self.order.iter().filter(|id| self.is_commentary(id) == is_commentary);
        wanted.filter_map(|id| self.written.get(id).or_else(|| completed(id)).cloned()).collect()
    }

    /// The end of a review.
    pub(crate) fn review(&self) -> Option<&ReviewModeItem> {
        self.items.iter().rev().find_map(|item| match item {
            ThreadItem::ExitedReviewMode(review) => Some(review),
            _ => None,
        })
    }

    pub(crate) fn progress(&self, thread_id: &str, turn_id: &str) -> Progress {
        Progress {
            thread_id: thread_id.to_owned(),
            turn_id: turn_id.to_owned(),
            text: self.text(),
            commentary: self.messages(true),
            items: self.items.clone(),
            usage: self.usage.tokens.clone(),
            turn_usage: self.usage.since_first(),
            cost: self.usage.cost.clone(),
        }
    }

    fn note_phase(&mut self, message: &AgentMessageItem) {
        self.see(&message.id);
        if message.phase == Some(MessagePhase::Commentary) {
            self.commentary.insert(message.id.clone());
        }
    }

    fn see(&mut self, item_id: &str) {
        if !self.order.iter().any(|id| id == item_id) {
            self.order.push(item_id.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, text: &str, phase: Option<MessagePhase>) -> ThreadItem {
        let (id, text) = (id.to_owned(), text.to_owned());
        ThreadItem::AgentMessage(AgentMessageItem {
            id,
            text,
            phase,
            memory_citation: None,
            reason: None,
        })
    }

    #[test]
    fn a_text_goes_on_by_the_rest_of_its_item() {
        let mut transcript = Transcript::default();
        transcript.write("a", "one ");
        assert_eq!(transcript.text(), "one ");
        assert_eq!(transcript.replace(&message("a", "one two ", None)).as_deref(), Some("two "));
        transcript.write("a", "three");
        assert_eq!(transcript.text(), "one two three");
        assert_eq!(transcript.complete(&message("a", "one two three", None)), None);
        assert_eq!(transcript.complete(&message("a", "one two three", None)), None);
        assert_eq!((transcript.text().as_str(), transcript.items.len()), ("one two three", 1));
    }

    #[test]
    fn commentary_is_apart_from_the_answer() {
        let mut transcript = Transcript::default();
        transcript.begin(&message("a", "", Some(MessagePhase::Commentary)));
        transcript.write("a", "Looking");
        transcript.write("b", "Done");
        assert!(transcript.is_commentary("a") && !transcript.is_commentary("b"));
        assert_eq!(
            (transcript.text().as_str(), transcript.messages(true)),
            ("Done", vec!["Looking".to_owned()])
        );
        transcript.complete(&message("b", "Done.", Some(MessagePhase::FinalAnswer)));
        transcript.complete(&message("c", "Late", Some(MessagePhase::Commentary)));
        let progress = transcript.progress("t", "u");
        assert_eq!(progress.text, "Done.");
        assert_eq!(progress.commentary, ["Looking", "Late"]);
    }

    #[test]
    fn the_tokens_of_a_turn_begin_at_its_first_report() {
        let tokens = |total| TokenUsageBreakdown {
            total_tokens: total,
            input_tokens: total,
            cached_input_tokens: 0,
            cache_write_input_tokens: 0,
            output_tokens: 0,
            reasoning_output_tokens: 0,
        };
        let usage = |total, last| ThreadTokenUsage {
            total: tokens(total),
            last: tokens(last),
            model_context_window: None,
            tokens_with_agents: None,
            cost: None,
        };
        let mut record = UsageRecord::default();
        assert_eq!(record.since_first(), None);
        record.take(usage(110, 10));
        record.take(usage(130, 20));
        assert_eq!(record.since_first().map(|tokens| tokens.total_tokens), Some(30));
    }
}
