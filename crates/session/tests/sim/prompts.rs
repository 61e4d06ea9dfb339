//! What must hold of the history that the model is sent: it only grows at its end, equals what is
//! stored, and answers every call exactly once. A compaction begins it anew; what it asks for itself,
//! and reviews, are conversations of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use session::{Fragment, Id, Prompt};

/// The history so far, as stored and as last sent.
pub(crate) struct Prompts {
    stored: Vec<Arc<str>>,
    /// What is stored and waits for its place.
    waiting: Vec<Arc<str>>,
    /// In the order in which they began: the store reads their parts of the history in this order.
    turns: Vec<Id>,
    /// The turn with which the newest part is stored.
    newest: usize,
    sent: Vec<Arc<str>>,
    /// Calls without an output, by call id.
    open: BTreeMap<String, usize>,
    /// The provider refused a part of the history: requests differ from what is stored.
    is_conceded: bool,
    /// The last request left out reasoning at its end.
    left_out_reasoning: bool,
}

impl Prompts {
    pub(crate) fn new(restored: &[Fragment]) -> Self {
        let stored: Vec<Arc<str>> = restored.iter().map(|part| part.text.clone()).collect();
        let mut prompts = Self {
            sent: without_empty_messages(&stored).0,
            stored,
            waiting: Vec::new(),
            turns: Vec::new(),
            newest: 0,
            open: BTreeMap::new(),
            is_conceded: false,
            left_out_reasoning: true,
        };
        for fragment in prompts.sent.clone() {
            prompts.count(&fragment);
        }
        prompts
    }

    pub(crate) fn turn_started(&mut self, turn: &Id) {
        self.turns.push(turn.clone());
    }

    pub(crate) fn stored(&mut self, turn: Option<&Id>, fragments: &[Fragment]) {
        let is_waiting = |part: &&Fragment| part.is_waiting;
        self.waiting.extend(fragments.iter().filter(is_waiting).map(|part| part.text.clone()));
        let taken: Vec<&Fragment> = fragments.iter().filter(|part| !part.is_waiting).collect();
        for part in &taken {
            if let Some(at) = self.waiting.iter().position(|text| *text == part.text) {
                self.waiting.remove(at);
            }
        }
        if !taken.is_empty() {
            self.follows(turn);
        }
        self.stored.extend(taken.into_iter().map(|part| part.text.clone()));
    }

    /// Checks that the store reads what is stored with `turn` behind all that it has.
    fn follows(&mut self, turn: Option<&Id>) {
        let at = match turn {
            Some(turn) => self.turns.iter().position(|it| it == turn).expect("a known turn"),
            None => self.turns.len().saturating_sub(1),
        };
        assert!(at >= self.newest, "stored before what the model received earlier");
        self.newest = at;
    }

    /// At the end of a turn.
    pub(crate) fn turn_finished(&self) {
        assert!(self.waiting.is_empty(), "still waiting: {:?}", self.waiting);
    }

    pub(crate) fn begun_anew(&mut self, turn: &Id, fragments: &[Fragment]) {
        self.follows(Some(turn));
        self.waiting.clear();
        self.stored = fragments.iter().map(|part| part.text.clone()).collect();
        self.sent.clear();
        self.open.clear();
    }

    pub(crate) fn conceded(&mut self) {
        self.is_conceded = true;
    }

    pub(crate) fn sent(&mut self, prompt: &Prompt) {
        let input = &prompt.input;
        // Images weigh something else than their text.
        if !input.iter().any(|item| item.contains("data:image/")) {
            let text: usize = input.iter().map(|item| item.len()).sum();
            assert_eq!(prompt.weight(), text + prompt.instructions.len() + prompt.tools.len());
        }
        let asks_for_summary =
            input.last().is_some_and(|last| last.contains("will be replaced by your summary"));
        let is_apart = prompt.tools.as_ref() == "[]"
            || !prompt.tools.contains("apply_patch")
            || asks_for_summary
            || self.is_conceded;
        if is_apart {
            return;
        }
        let (expected, ends_in_reasoning) = without_empty_messages(&self.stored);
        assert_eq!(**input, *expected, "stored and sent histories differ");
        if std::mem::replace(&mut self.left_out_reasoning, ends_in_reasoning) {
            // What the model did next brings it back.
            self.sent.clear();
            self.open.clear();
        }
        assert!(input.starts_with(&self.sent), "the prompt does not begin as the last one did");
        for fragment in &input[self.sent.len()..] {
            self.count(fragment);
        }
        assert!(self.open.is_empty(), "calls without an output: {:?}", self.open);
        self.sent = input.to_vec();
    }

    fn count(&mut self, fragment: &str) {
        if !fragment.contains("\"call_id\"") {
            return;
        }
        let value: Value = serde_json::from_str(fragment).expect("a fragment is JSON");
        let Some(call) = value["call_id"].as_str() else { return };
        if !value["type"].as_str().unwrap_or_default().ends_with("_output") {
            *self.open.entry(call.to_owned()).or_default() += 1;
            return;
        }
        let count = self.open.get_mut(call).expect("an output without its call");
        *count -= 1;
        if *count == 0 {
            self.open.remove(call);
        }
    }
}

/// The history as it is sent, without messages of the model that say nothing, and without reasoning that nothing
/// else of the model follows. Also whether the last of it was such reasoning.
fn without_empty_messages(stored: &[Arc<str>]) -> (Vec<Arc<str>>, bool) {
    let read: Vec<Value> =
        stored.iter().map(|text| serde_json::from_str(text).expect("a fragment is JSON")).collect();
    let is_answer = |item: &Value| item["role"] == "assistant";
    let is_empty = |item: &Value| {
        let parts = item["content"].as_array().into_iter().flatten();
        is_answer(item)
            && parts.clone().all(|it| it["text"].as_str().unwrap_or("").trim().is_empty())
    };
    let is_of_model = |item: &Value| {
        let kind = item["type"].as_str().unwrap_or_default();
        is_answer(item) || (kind != "message" && !kind.ends_with("_output"))
    };
    let mut kept: Vec<usize> = Vec::new();
    let drop_reasoning = |kept: &mut Vec<usize>| {
        let before = kept.len();
        while kept.last().is_some_and(|at| read[*at]["type"] == "reasoning") {
            kept.pop();
        }
        kept.len() < before
    };
    let mut is_after_empty = false;
    for (at, item) in read.iter().enumerate() {
        if is_empty(item) {
            is_after_empty = true;
            continue;
        }
        if std::mem::take(&mut is_after_empty) && !is_of_model(item) {
            drop_reasoning(&mut kept);
        }
        kept.push(at);
    }
    let ends_in_reasoning = is_after_empty && drop_reasoning(&mut kept);
    (kept.into_iter().map(|at| stored[at].clone()).collect(), ends_in_reasoning)
}
