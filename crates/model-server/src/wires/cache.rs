//! The prompt cache of the Messages API, as its usage shows it: a mark writes the prefix up to it, and a later request
//! reads the longest prefix that was written and has not expired. Nothing is stored but hashes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use wire::Wire;

use crate::check::marks;
use crate::script::BYTES_PER_TOKEN;

/// Most prefixes that are remembered; beyond it, the cache starts over.
const MAX_PREFIXES: usize = 65_536;
/// Number of parts before a mark in which a written prefix is looked for.
const LOOK_BACK: usize = 20;
const FIVE_MINUTES: u64 = 5 * 60;
const HOUR: u64 = 60 * 60;

/// Smallest prefix that a family caches, in tokens; others need [`MIN_TOKENS`].
const MIN_TOKENS_OF: [(&str, u64); 7] = [
    ("claude-opus-5", 512),
    ("claude-fable-5", 512),
    ("claude-mythos-5", 512),
    ("claude-opus-4-7", 2048),
    ("claude-opus-4-6", 4096),
    ("claude-opus-4-5", 4096),
    ("claude-haiku-4-5", 4096),
];
const MIN_TOKENS: u64 = 1024;

/// Estimated tokens of an input. `cached` and `written` are parts of `input`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputTokens {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    pub(crate) written: u64,
    /// The part of `written` that stays for an hour.
    pub(crate) written_hour: u64,
}

/// The prefixes that requests have written: the time at which each expires, and its time to live, in seconds.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<u64, (u64, u64)>>);

/// Additions of a request to the cache once it is answered: hashes and times to live.
#[derive(Debug, Default)]
pub(crate) struct Writes(Vec<(u64, u64)>);

/// A prefix of a request up to the end of one part.
struct Prefix {
    hash: u64,
    bytes: usize,
    /// Time to live of the part's mark.
    mark: Option<u64>,
}

impl Cache {
    /// The tokens of a request whose body has `length` bytes, and its additions.
    pub(crate) fn input(
        &self,
        wire: Wire,
        body: &Value,
        length: usize,
        now: u64,
    ) -> (InputTokens, Writes) {
        let input = (length / BYTES_PER_TOKEN) as u64;
        let mut tokens = InputTokens { input, ..InputTokens::default() };
        let mut writes = Writes::default();
        if wire != Wire::Messages {
            return (tokens, writes);
        }
        let prefixes = prefixes(body);
        let model = body["model"].as_str().unwrap_or_default();
        let own = MIN_TOKENS_OF.iter().find(|(family, _)| model.contains(family));
        let least = own.map_or(MIN_TOKENS, |(_, least)| *least);
        let of = |at: usize| (prefixes[at].bytes / BYTES_PER_TOKEN) as u64;
        let is_mark = |at: &usize| prefixes[*at].mark.is_some() && of(*at) >= least;
        let marks: Vec<usize> = (0..prefixes.len()).filter(is_mark).collect();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stays = |at: usize| {
            known.get(&prefixes[at].hash).filter(|(expires, _)| *expires > now).map(|(_, it)| *it)
        };
        let near = |mark: usize| (mark.saturating_sub(LOOK_BACK)..=mark).rev();
        let read =
            marks.iter().filter_map(|mark| near(*mark).find(|at| stays(*at).is_some())).max();
        if let Some(at) = read {
            tokens.cached = of(at);
            // A read prolongs its life.
            writes.0.extend(stays(at).map(|stays| (prefixes[at].hash, stays)));
        }
        let mut before = tokens.cached;
        for mark in marks.into_iter().filter(|mark| read.is_none_or(|read| read < *mark)) {
            let stays = prefixes[mark].mark.unwrap_or(FIVE_MINUTES);
            let added = of(mark).saturating_sub(before);
            before = of(mark);
            tokens.written += added;
            tokens.written_hour += if stays == HOUR { added } else { 0 };
            writes.0.push((prefixes[mark].hash, stays));
        }
        (tokens, writes)
    }

    /// The request was answered.
    pub(crate) fn write(&self, writes: &Writes, now: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (hash, stays) in &writes.0 {
            if known.len() >= MAX_PREFIXES {
                known.clear();
            }
            known.insert(*hash, (now.saturating_add(*stays), *stays));
        }
    }
}

/// The prefixes of a request, one for each part.
fn prefixes(body: &Value) -> Vec<Prefix> {
    let mut hash = add(0xCBF2_9CE4_8422_2325, body["model"].to_string().as_bytes());
    let (mut bytes, mut has_messages) = (0, false);
    let mut prefixes: Vec<Prefix> = Vec::new();
    marks::parts(body, &mut |at, part| {
        if !has_messages && at.is_in("messages") {
            has_messages = true;
            for name in ["thinking", "tool_choice"] {
                hash = add(hash, body[name].to_string().as_bytes());
            }
        }
        let text = without_marks(part).to_string();
        hash = add(hash, text.as_bytes());
        bytes += text.len();
        let inner = part["content"].as_array().into_iter().flatten();
        let mark = inner.chain([part]).find_map(|part| time_to_live(&part["cache_control"]));
        prefixes.push(Prefix { hash, bytes, mark });
    });
    if let Some(last) = prefixes.last_mut() {
        last.mark = last.mark.or(time_to_live(&body["cache_control"]));
    }
    prefixes
}

fn time_to_live(mark: &Value) -> Option<u64> {
    mark.is_object().then(|| if mark["ttl"] == "1h" { HOUR } else { FIVE_MINUTES })
}

/// A part without its marks, which move from request to request.
fn without_marks(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(members) = part.as_object_mut() {
        members.shift_remove("cache_control");
    }
    let content = part.get_mut("content").and_then(Value::as_array_mut);
    for inner in content.into_iter().flatten() {
        if let Some(members) = inner.as_object_mut() {
            members.shift_remove("cache_control");
        }
    }
    part
}

/// FNV-1a of a part and its end.
fn add(hash: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .chain([&0xFF])
        .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(word: &str, tokens: usize, mark: Value) -> Value {
        let text = word.repeat(tokens * BYTES_PER_TOKEN / word.len());
        let mut block = json!({"type": "text", "text": text});
        if !mark.is_null() {
            block["cache_control"] = mark;
        }
        block
    }

    fn request(blocks: Vec<Value>) -> Value {
        json!({"model": "claude-sonnet-5", "system": blocks.first(),
            "messages": [{"role": "user", "content": blocks[1..]}]})
    }

    fn count(cache: &Cache, body: &Value, now: u64) -> (u64, u64, u64) {
        let length = body.to_string().len();
        let (tokens, writes) = cache.input(Wire::Messages, body, length, now);
        cache.write(&writes, now);
        assert!(tokens.cached + tokens.written <= tokens.input, "{tokens:?}");
        (tokens.cached / 1000, tokens.written / 1000, tokens.written_hour / 1000)
    }

    #[test]
    fn the_longest_written_prefix_is_read_until_it_expires() {
        let cache = Cache::default();
        let (short, long) =
            (json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"}));
        let none = Value::Null;
        let body = |system: &Value, turns: &[(&str, &Value)]| {
            let mut body = request(vec![json!("")]);
            body["system"] = json!([text("sys.", 2010, (*system).clone())]);
            let blocks = turns.iter().map(|(word, mark)| text(word, 1010, (*mark).clone()));
            body["messages"][0]["content"] = blocks.collect();
            body
        };
        let first = body(&long, &[("aaaa", &short)]);
        assert_eq!(count(&cache, &first, 0), (0, 3, 2));
        assert_eq!(count(&cache, &first, 10), (3, 0, 0));
        // The mark moves on: what was written is read, and the rest is written.
        let second = body(&long, &[("aaaa", &none), ("bbbb", &short)]);
        assert_eq!(count(&cache, &second, 20), (3, 1, 0));
        // Other words after the same instructions.
        let other = body(&long, &[("cccc", &short)]);
        assert_eq!(count(&cache, &other, 30), (2, 1, 0));
        // Five minutes later only the hour's prefix is left, and after an hour nothing.
        assert_eq!(count(&cache, &second, 1000), (2, 2, 0));
        assert_eq!(count(&cache, &second, 10_000), (0, 4, 2));
        // Other instructions change all; without marks nothing is cached.
        let mut changed = second;
        changed["model"] = "claude-opus-5".into();
        assert_eq!(count(&cache, &changed, 10_000).0, 0);
        assert_eq!(count(&cache, &body(&none, &[("aaaa", &none)]), 10_000), (0, 0, 0));
    }

    #[test]
    fn a_short_prefix_is_not_cached() {
        let cache = Cache::default();
        let mut body = request(vec![json!("")]);
        body["messages"][0]["content"] = json!([text("abcd", 900, json!({"type": "ephemeral"}))]);
        for now in [0, 1] {
            let (tokens, writes) = cache.input(Wire::Messages, &body, body.to_string().len(), now);
            cache.write(&writes, now);
            assert_eq!((tokens.cached, tokens.written), (0, 0));
        }
    }

    #[test]
    fn a_prefix_is_found_up_to_twenty_parts_before_the_mark() {
        let mark = json!({"type": "ephemeral"});
        for (between, is_found) in [(19, true), (21, false)] {
            let cache = Cache::default();
            let mut body = request(vec![json!("")]);
            body["messages"][0]["content"] = json!([text("abcd", 2000, mark.clone())]);
            count(&cache, &body, 0);
            let mut blocks = vec![text("abcd", 2000, Value::Null)];
            blocks.extend((0..between).map(|at| json!({"type": "text", "text": at.to_string()})));
            blocks.push(json!({"type": "text", "text": "last", "cache_control": mark}));
            body["messages"][0]["content"] = blocks.into();
            assert_eq!(count(&cache, &body, 1).0 > 0, is_found, "{between}");
        }
    }
}
