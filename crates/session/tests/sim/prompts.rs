//! What must hold of the history that the model is sent: it only grows at its end, equals what is
//! stored, and answers every call exactly once. A compaction begins it anew; what it asks for itself,
//! and reviews, are conversations of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use session::{Fragment, Prompt};

/// The history so far, as stored and as last sent.
pub(crate) struct Prompts {
    stored: Vec<Arc<str>>,
    sent: Vec<Arc<str>>,
    /// Calls without an output, by call id.
    open: BTreeMap<String, usize>,
}

impl Prompts {
    pub(crate) fn new(restored: &[Fragment]) -> Self {
        let stored: Vec<Arc<str>> = restored.iter().map(|part| part.text.clone()).collect();
        let mut prompts = Self { sent: stored.clone(), stored, open: BTreeMap::new() };
        for fragment in prompts.sent.clone() {
            prompts.count(&fragment);
        }
        prompts
    }

    pub(crate) fn stored(&mut self, fragments: &[Fragment]) {
        self.stored.extend(fragments.iter().map(|part| part.text.clone()));
    }

    pub(crate) fn begun_anew(&mut self, fragments: &[Fragment]) {
        self.stored = fragments.iter().map(|part| part.text.clone()).collect();
        self.sent.clear();
        self.open.clear();
    }

    pub(crate) fn sent(&mut self, prompt: &Prompt) {
        let input = &prompt.input;
        // Images weigh something else than their text.
        if !input.iter().any(|item| item.contains("data:image/")) {
            let text: usize = input.iter().map(|item| item.len()).sum();
            assert_eq!(prompt.weight(), text + prompt.instructions.len() + prompt.tools.len());
        }
        let is_apart = prompt.tools.as_ref() == "[]" || !prompt.tools.contains("apply_patch");
        if is_apart {
            return;
        }
        assert!(input.starts_with(&self.sent), "the prompt does not begin as the last one did");
        let sorted = |fragments: &[Arc<str>]| {
            let mut fragments = fragments.to_vec();
            fragments.sort();
            fragments
        };
        assert_eq!(sorted(input), sorted(&self.stored), "stored and sent histories differ");
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
