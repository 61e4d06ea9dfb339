//! Requests to the model, in ready-made JSON fragments of the Responses API.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::settings::Settings;

/// One request to the model.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Provider id.
    pub provider: String,
    /// Model id.
    pub model: String,
    /// Base instructions.
    pub instructions: Arc<str>,
    /// Input items.
    pub input: PromptInput,
    /// The tools, a JSON array.
    pub tools: Arc<str>,
    /// Reasoning effort.
    pub effort: Option<String>,
    /// Detail of reasoning summaries.
    pub summary: Option<String>,
    /// Verbosity.
    pub verbosity: Option<String>,
    /// JSON Schema of the final message.
    pub output_schema: Option<Arc<str>>,
    /// Service tier.
    pub service_tier: Option<String>,
    /// Each message of the model has a member for its reasoning, on wires with one: the provider demands it.
    pub reasoning_member: bool,
    /// Further members of the request that its provider refused.
    pub left_out: Vec<String>,
}

impl Prompt {
    /// One message for the model of a thread, apart from its history and without tools.
    pub fn alone(settings: &Settings, instructions: &str, text: &str) -> Self {
        let content = [serde_json::json!({ "type": "input_text", "text": text })];
        let message = serde_json::json!({ "type": "message", "role": "user", "content": content })
            .to_string();
        Self {
            provider: settings.provider.clone(),
            model: settings.model.clone(),
            instructions: instructions.into(),
            input: PromptInput::new(vec![message.into()]),
            tools: "[]".into(),
            effort: None,
            summary: None,
            verbosity: None,
            output_schema: None,
            service_tier: settings.service_tier.clone(),
            reasoning_member: false,
            left_out: Vec::new(),
        }
    }

    /// Adds items of the Responses API at its end: of a response, and the outputs of its calls.
    pub fn extend(&mut self, items: impl IntoIterator<Item = Arc<str>>) {
        items.into_iter().for_each(|item| self.input.push(item));
    }

    /// About how many bytes of plain text cost as many tokens as its input.
    pub fn weight(&self) -> usize {
        self.input.weight + self.instructions.len() + self.tools.len()
    }
}

/// The input items of a request, with their weight: a history of megabytes is weighed as it grows, not
/// for each request.
#[derive(Clone, Debug)]
pub struct PromptInput {
    items: Vec<Arc<str>>,
    /// Sum of the items' weights.
    weight: usize,
    cache: CacheHints,
}

/// The parts of a request that later requests repeat, for marks of the provider's prompt cache. Numbers of items count from
/// the beginning of the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHints {
    /// Numbers of items up to which the provider keeps the input for longer, ascending; 0 for none. There are two
    /// in the request after a pause: what was kept is read up to the first, and more is kept up to the second.
    pub stable: [usize; 2],
    /// Number of items at the end that only this request has.
    pub passing: usize,
    /// The pauses of the thread are longer than the short time to live, and shorter than the long one.
    pub is_long: bool,
}

impl PromptInput {
    pub(crate) fn new(items: Vec<Arc<str>>) -> Self {
        let weight = items.iter().map(|item| weight(item)).sum();
        Self::weighed(items, weight)
    }

    /// Items of a known weight.
    pub(crate) fn weighed(items: Vec<Arc<str>>, weight: usize) -> Self {
        Self { items, weight, cache: CacheHints::default() }
    }

    pub(crate) fn with_cache(self, cache: CacheHints) -> Self {
        Self { cache, ..self }
    }

    /// The parts that later requests repeat. Unknown after a change of the items that does not keep their number.
    pub fn cache(&self) -> CacheHints {
        self.cache
    }

    /// The items as `change` rewrites them. It rewrites a prefix to a prefix.
    pub(crate) fn rewritten(self, change: impl Fn(Vec<Arc<str>>) -> Vec<Arc<str>>) -> Self {
        let stable = self.cache.stable.map(|end| {
            let prefix = &self.items[..end.min(self.items.len())];
            if prefix.is_empty() { 0 } else { change(prefix.to_vec()).len() }
        });
        let cache = CacheHints { stable, ..self.cache };
        Self::new(change(self.items)).with_cache(cache)
    }

    /// Adds an item that later requests do not have.
    pub(crate) fn push_passing(&mut self, item: Arc<str>) {
        self.cache.passing += 1;
        self.push(item);
    }

    pub(crate) fn push(&mut self, item: Arc<str>) {
        self.weight += weight(&item);
        self.items.push(item);
    }

    /// Replaces the items for which `replacement` returns another.
    pub(crate) fn replace(&mut self, replacement: impl Fn(usize, &str) -> Option<Arc<str>>) {
        for (at, item) in self.items.iter_mut().enumerate() {
            if let Some(other) = replacement(at, item) {
                self.weight = self.weight - weight(item) + weight(&other);
                *item = other;
            }
        }
    }

    /// The items, each a JSON object.
    pub fn into_items(self) -> Vec<Arc<str>> {
        self.items
    }
}

impl Deref for PromptInput {
    type Target = [Arc<str>];

    fn deref(&self) -> &[Arc<str>] {
        &self.items
    }
}

/// The weight of an image, however large it is as text: about a thousand tokens.
const IMAGE_WEIGHT: usize = 4000;

/// The bytes of the image that the provider generated, if `item` is one.
pub(crate) fn generated_image_bytes(item: &str) -> Option<usize> {
    const KIND: &str = "image_generation_call";
    #[derive(Deserialize)]
    struct Generated<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
    }
    if !item.contains(KIND) {
        return None;
    }
    let Generated { kind, result } = serde_json::from_str(item).ok()?;
    (kind == KIND).then(|| result.map_or(0, |result| result.get().len()))
}

/// About how many bytes of plain text cost as many tokens as this does.
pub(crate) fn weight(text: &str) -> usize {
    if let Some(bytes) = generated_image_bytes(text).filter(|bytes| *bytes > 0) {
        return text.len() - bytes + IMAGE_WEIGHT;
    }
    const IMAGE: &str = "data:image/";
    let (mut total, mut rest) = (0, text);
    while let Some(at) = rest.find(IMAGE) {
        total += at + IMAGE_WEIGHT;
        rest = &rest[at..];
        rest = &rest[rest.find('"').unwrap_or(rest.len())..];
    }
    total + rest.len()
}
