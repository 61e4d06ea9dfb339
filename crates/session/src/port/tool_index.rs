//! Ranks tools by the words of a query: BM25 over their names, descriptions and parameters.
//!
//! The index knows nothing of the kinds of tools: their owner describes them as
//! [`SearchableTool`]s.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde_json::Value;

/// A tool as the index reads it.
pub(crate) struct SearchableTool<'a> {
    /// The model's name for it.
    pub(crate) name: Cow<'a, str>,
    /// For the model.
    pub(crate) description: &'a str,
    /// JSON Schema of its arguments.
    pub(crate) schema: &'a str,
}

/// The words of tools.
#[derive(Debug, Default)]
pub(crate) struct ToolIndex {
    /// For each word the tools that have it, by their place, with the weight of its occurrences.
    words: BTreeMap<Box<str>, Vec<(u32, f32)>>,
    /// Weight of all words of each tool.
    lengths: Vec<f32>,
    places: BTreeMap<Box<str>, u32>,
}

/// Weight of a word of the name; one of the description or a parameter weighs 1.
const NAME_WEIGHT: f32 = 4.0;
/// Constants of BM25: how soon further occurrences count little, and how much length counts.
const SATURATION: f32 = 1.2;
const LENGTH_SHARE: f32 = 0.75;
/// Most different words of a query that count.
const MAX_QUERY_WORDS: usize = 64;
/// Shortest word of a query that also finds words that begin with it, how many of them, and what
/// such a word counts.
const MIN_PREFIX: usize = 3;
const MAX_EXPANSIONS: usize = 32;
const EXPANSION_WEIGHT: f32 = 0.5;
/// Longest word in bytes; the rest of a longer one does not count.
const MAX_WORD: usize = 64;
/// Depth of a schema to which parameters are read.
const MAX_SCHEMA_DEPTH: usize = 6;

impl ToolIndex {
    pub(crate) fn new<'a>(tools: impl Iterator<Item = SearchableTool<'a>>) -> Self {
        let mut index = Self::default();
        for tool in tools {
            index.add(&tool);
        }
        index
    }

    fn add(&mut self, tool: &SearchableTool<'_>) {
        let place = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        let mut weights: BTreeMap<String, f32> = BTreeMap::new();
        let mut count = |text: &str, weight: f32| {
            for word in words(text) {
                *weights.entry(word).or_default() += weight;
            }
        };
        count(&tool.name, NAME_WEIGHT);
        count(tool.description, 1.0);
        if let Ok(schema) = serde_json::from_str(tool.schema) {
            count_parameters(&schema, MAX_SCHEMA_DEPTH, &mut |name| count(name, 1.0));
        }
        self.lengths.push(weights.values().sum());
        self.places.entry(tool.name.as_ref().into()).or_insert(place);
        for (word, weight) in weights {
            self.words.entry(word.into()).or_default().push((place, weight));
        }
    }

    /// The place of the tool of this name.
    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).map(|place| *place as usize)
    }

    /// The places of the best `limit` tools, the best one first; of equally good ones the first. A
    /// query that is the name of a tool finds it first.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let total: f32 = self.lengths.iter().sum();
        let average = (total / self.lengths.len().max(1) as f32).max(1.0);
        let mut scores: BTreeMap<u32, f32> = BTreeMap::new();
        let query_words: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        for word in &query_words {
            for (tools, share) in self.tools_with(word) {
                let rarity = self.rarity(tools.len()) * share;
                for (place, weight) in tools {
                    let length = self.lengths[*place as usize] / average;
                    let damping = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length);
                    let gain = rarity * weight * (SATURATION + 1.0) / (weight + damping);
                    *scores.entry(*place).or_default() += gain;
                }
            }
        }
        if let Some(place) = self.places.get(query.trim()) {
            scores.insert(*place, f32::MAX);
        }
        let mut ranked: Vec<(u32, f32)> = scores.into_iter().collect();
        // Stable: equally good ones stay in their order.
        ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        ranked.into_iter().take(limit).map(|(place, _)| place as usize).collect()
    }

    /// The tools with a word, and with less weight those with words that begin with it.
    fn tools_with(&self, word: &str) -> impl Iterator<Item = (&[(u32, f32)], f32)> {
        let exact = self.words.get(word).map(|tools| (tools.as_slice(), 1.0));
        let from = (Bound::Excluded(word), Bound::Unbounded);
        let longer = self.words.range::<str, _>(from);
        let expands = word.chars().count() >= MIN_PREFIX;
        let longer = longer
            .take_while(move |(longer, _)| expands && longer.starts_with(word))
            .take(MAX_EXPANSIONS)
            .map(|(_, tools)| (tools.as_slice(), EXPANSION_WEIGHT));
        exact.into_iter().chain(longer.collect::<Vec<_>>())
    }

    /// Returns the weight of a word that occurs in so many tools.
    fn rarity(&self, tools: usize) -> f32 {
        let (all, with) = (self.lengths.len() as f32, tools as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }
}

/// Passes on the names and descriptions of the parameters of a schema, those of nested ones too.
fn count_parameters(schema: &Value, depth: usize, count: &mut dyn FnMut(&str)) {
    let Some(members) = schema.as_object().filter(|_| depth > 0) else { return };
    if let Some(properties) = members.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            count(name);
            if let Some(description) = property.get("description").and_then(Value::as_str) {
                count(description);
            }
            count_parameters(property, depth - 1, count);
        }
    }
    if let Some(items) = members.get("items") {
        count_parameters(items, depth - 1, count);
    }
}

/// The words of a text: runs of letters and digits, divided where a small letter meets a capital
/// one, in lower case and the singular. An ideograph is a word of its own.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut letters = text.chars().peekable();
    std::iter::from_fn(move || {
        while letters.next_if(|letter| !letter.is_alphanumeric()).is_some() {}
        let first = letters.next()?;
        let mut word: String = first.to_lowercase().collect();
        let mut before = first;
        while !is_ideograph(before)
            && let Some(letter) = letters.next_if(|letter| {
                let is_new_word = before.is_lowercase() && letter.is_uppercase();
                letter.is_alphanumeric() && !is_new_word && !is_ideograph(*letter)
            })
        {
            if word.len() < MAX_WORD {
                word.extend(letter.to_lowercase());
            }
            before = letter;
        }
        Some(singular(word))
    })
}

fn is_ideograph(letter: char) -> bool {
    matches!(u32::from(letter), 0x2E80..=0xA4CF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// An English plural without its ending.
fn singular(mut word: String) -> String {
    let is_plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
    if is_plural {
        word.pop();
        if word.ends_with("ie") && word.len() > 4 {
            word.truncate(word.len() - 2);
            word.push('y');
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [(&str, &str, &str); 5] = [
        ("calendar__create_event", "Creates an event.", r#"{"properties":{"attendees":{}}}"#),
        ("calendar__delete_event", "Deletes an event.", "{}"),
        ("mail__send", "Sends a message to people, perhaps about an event.", "not JSON"),
        ("getUserProfile", "Reads who somebody is.", "[]"),
        ("weather", "天気を調べる。", r#"{"properties":{"at":{"properties":{"latitude":{}}}}}"#),
    ];

    fn index() -> ToolIndex {
        let tool = |(name, description, schema): (&'static str, _, _)| SearchableTool {
            name: name.into(),
            description,
            schema,
        };
        ToolIndex::new(TOOLS.into_iter().map(tool))
    }

    fn check(query: &str, expected: &[&str]) {
        let found = index().search(query, 10);
        let names: Vec<&str> = found.into_iter().map(|place| TOOLS[place].0).collect();
        assert_eq!(names, expected, "{query}");
    }

    #[test]
    fn tools_are_ranked_by_names_descriptions_and_parameters() {
        check(
            "create a calendar event",
            &["calendar__create_event", "calendar__delete_event", "mail__send"],
        );
        check("events", &["calendar__delete_event", "calendar__create_event", "mail__send"]);
        check("ATTENDEE", &["calendar__create_event"]);
        check("latitude", &["weather"]);
        check("user profile", &["getUserProfile"]);
        check("messages", &["mail__send"]);
        check("天気", &["weather"]);
        check("weath", &["weather"]);
        check("mail__send", &["mail__send"]);
        for nothing in ["", "  ", "zebra", "[.*]+(", "🦀", "at"] {
            assert_eq!(
                index().search(nothing, 10).len(),
                usize::from(nothing == "at"),
                "{nothing}"
            );
        }
        assert_eq!(index().search("event", 1).len(), 1);
        assert!(index().search("event", 0).is_empty());
        assert!(ToolIndex::default().search("event", 3).is_empty());
    }

    #[test]
    fn a_long_query_and_a_long_word_count_in_part() {
        let mut query = "zebra ".repeat(200_000);
        query.push_str("weather");
        // Words that repeat count once, and a word beyond the bound does not count.
        assert!(index().search(&query, 3).len() <= 1);
        let long = "w".repeat(1 << 20);
        assert!(index().search(&long, 3).is_empty());
    }
}
