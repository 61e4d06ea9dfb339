//! The recordings of the tests' clients (crate `testkit`), and the choice of examples among them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use protocol::generate::shape;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::plain::plain;
use super::{Example, Examples, Kind, MOST_LINES};
use xtask::notes;

/// Lines that cost nothing, and members that count, when an example is chosen: what the client sends is
/// the choice of its test, and most of the rest is always there.
const GOOD_LINES: usize = 14;
const GOOD_SENT: usize = 16;
const GOOD_RECEIVED: usize = 24;
/// Words of examples that show how something goes wrong, or of cut ones.
const UNUSUAL: &[&str] = &[
    "\"failed\"",
    "\"declined\"",
    "\"cancelled\"",
    "\"reason\": \"",
    "\"error\": {",
    "\"error\": \"",
    "…",
];
const UNUSUAL_COST: usize = 10;

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    kind: Kind,
    name: String,
    test: String,
    example: Map<String, Value>,
}

/// The plain form of everything that was recorded, by kind and name.
pub(super) struct Recorded {
    messages: BTreeMap<(Kind, String), Vec<Example>>,
    tests: BTreeSet<String>,
}

impl Recorded {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let mut messages: BTreeMap<_, Vec<Example>> = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let place = || format!("{}, line {}", file.display(), number + 1);
            let Line { kind, name, test, example } =
                serde_json::from_str(line).with_context(place)?;
            if !notes::is_indiscriminate(&test) {
                let parts = plain(&example);
                tests.insert(test.clone());
                messages.entry((kind, name)).or_default().push(Example { test, parts });
            }
        }
        // Tests run in any order.
        for examples in messages.values_mut() {
            examples.sort_by_cached_key(|example| (example.test.clone(), example.bytes()));
        }
        Ok(Self { messages, tests })
    }

    /// The new examples: of the test that `old` names, if it still has one, and of the same shape, if
    /// there still is one.
    pub(super) fn choose(&self, old: &Examples) -> Examples {
        let mut chosen = Examples::default();
        for ((kind, name), found) in &self.messages {
            let old = old.get(*kind, name);
            // Tests also send what is wrong.
            let is_usable = |example: &&Example| {
                example.check(*kind, name).is_ok() && !example.text(*kind, name).contains(is_hidden)
            };
            let rank = |example: &&Example| {
                let of_test = old.is_some_and(|old| old.test == example.test);
                let is_alike = of_test && old.is_some_and(|old| old.shape() == example.shape());
                (is_alike, of_test, score(*kind, name, example), Reverse(example.bytes()))
            };
            // Of equals the last: of the first test.
            let best = found.iter().rev().filter(is_usable).max_by_key(rank);
            if let Some(best) = best {
                chosen.insert(*kind, name, best.clone());
            }
        }
        chosen
    }

    /// Returns whether a test of this name recorded anything.
    pub(super) fn has_test(&self, test: &str) -> bool {
        self.tests.contains(test)
    }

    /// Returns whether anything of this shape was recorded.
    pub(super) fn has(&self, kind: Kind, name: &str, example: &Example) -> bool {
        let found = self.messages.get(&(kind, name.to_owned()));
        found.into_iter().flatten().any(|found| found.shape() == example.shape())
    }
}

/// Returns the amount of information that an example gives in few lines.
fn score(kind: Kind, name: &str, example: &Example) -> usize {
    let sent = match kind {
        Kind::ClientRequests => "params",
        Kind::ServerRequests => "result",
        Kind::Notifications | Kind::Items => "",
    };
    let members = |is_sent: bool| -> usize {
        let parts = example.parts.iter().filter(|(part, _)| (**part == sent) == is_sent);
        parts.map(|(_, value)| shape(&filled(value)).len()).sum()
    };
    let text = example.text(kind, name);
    let told = 3 * members(true).min(GOOD_SENT) + 2 * members(false).min(GOOD_RECEIVED);
    let unusual = UNUSUAL.iter().filter(|word| text.contains(**word)).count() * UNUSUAL_COST;
    // The score of the worst is not below zero.
    let most_cost = MOST_LINES + UNUSUAL.len() * UNUSUAL_COST;
    most_cost + told - unusual - text.lines().count().saturating_sub(GOOD_LINES).min(MOST_LINES)
}

/// Returns whether a character cannot be seen, or changes the order of others.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n'
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
}

/// The value without what is `null` or empty.
fn filled(value: &Value) -> Value {
    let is_filled = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    match value {
        Value::Array(elements) => elements.iter().map(filled).filter(is_filled).collect(),
        Value::Object(members) => Value::Object(
            (members.iter())
                .map(|(name, member)| (name.clone(), filled(member)))
                .filter(|(_, member)| is_filled(member))
                .collect(),
        ),
        other => other.clone(),
    }
}
