//! The ids of the calls in a history. Providers refuse a request in which two calls have the same id, for
//! good; some local model servers count their calls from zero in each response.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::is_output;
use crate::port::fragment::{Fragment, Head};

/// Most bytes that a new id takes over from the provider's: providers accept ids of up to 64.
const MAX_KEPT: usize = 40;
/// In place of an empty id.
const UNNAMED: &str = "call";

/// The ids of the calls in a history.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallIds(BTreeSet<String>);

impl CallIds {
    /// Reads the next part of the history.
    pub(super) fn read(&mut self, text: &str) {
        if let Some((kind, call_id)) = head(text)
            && !is_output(&kind)
        {
            self.0.insert(call_id);
        }
    }

    /// The id under which a call with the provider's id enters the history; `None` if that is the
    /// provider's own.
    pub(crate) fn replacement(&self, call_id: &str) -> Option<String> {
        if !call_id.is_empty() && !self.0.contains(call_id) {
            return None;
        }
        let kept = call_id.floor_char_boundary(call_id.len().min(MAX_KEPT));
        let base = if kept == 0 { UNNAMED } else { &call_id[..kept] };
        // From the number of calls on, so that the first try usually succeeds.
        (self.0.len() + 1..)
            .map(|number| format!("{base}-{number}"))
            .find(|new| !self.0.contains(new))
    }
}

/// An item with another call id.
pub(crate) fn with_call_id(text: &Arc<str>, call_id: &str) -> Arc<str> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut item)) => {
            item.insert("call_id".into(), call_id.into());
            super::fragment(&Value::Object(item))
        }
        // An item that was read as a call is an object.
        Ok(_) | Err(_) => text.clone(),
    }
}

/// `fragments` with an id of its own for each call. Earlier versions stored calls as the provider named
/// them. The outputs of calls with one id follow in the order of the calls.
pub(crate) fn with_unique_calls(mut fragments: Vec<Fragment>) -> Vec<Fragment> {
    let mut ids = CallIds::default();
    let mut open: BTreeMap<String, VecDeque<Option<String>>> = BTreeMap::new();
    for fragment in &mut fragments {
        let Some((kind, call_id)) = head(&fragment.text) else { continue };
        let new = if is_output(&kind) {
            open.get_mut(&call_id).and_then(VecDeque::pop_front).flatten()
        } else {
            let new = ids.replacement(&call_id);
            ids.0.insert(new.clone().unwrap_or_else(|| call_id.clone()));
            open.entry(call_id).or_default().push_back(new.clone());
            new
        };
        if let Some(new) = new {
            fragment.text = with_call_id(&fragment.text, &new);
            fragment.stored = fragment.stored.as_ref().map(|stored| with_call_id(stored, &new));
        }
    }
    fragments
}

/// The type and the call id of an item that has one.
fn head(text: &str) -> Option<(String, String)> {
    if !text.contains("\"call_id\"") {
        return None;
    }
    let Head { kind, call_id, .. } = serde_json::from_str(text).ok()?;
    Some((kind.into_owned(), call_id?.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::fragment::Mark;

    fn ids(names: &[&str]) -> CallIds {
        CallIds(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn an_id_that_is_taken_is_replaced() {
        let check = |taken: &[&str], id: &str, expect: Option<&str>| {
            assert_eq!(ids(taken).replacement(id).as_deref(), expect, "{id} besides {taken:?}");
        };
        check(&[], "a", None);
        check(&["a"], "b", None);
        check(&["a"], "a", Some("a-2"));
        check(&["a", "a-3"], "a", Some("a-4"));
        check(&[], "", Some("call-1"));
        let long = "é".repeat(100);
        check(&[&long], &long, Some(&format!("{}-2", "é".repeat(20))));
    }

    #[test]
    fn stored_calls_of_one_id_get_ids_of_their_own() {
        let call = |id: &str| format!(r#"{{"type":"function_call","call_id":"{id}"}}"#);
        let output = |id: &str, text: &str| {
            format!(r#"{{"call_id":"{id}","output":"{text}","type":"function_call_output"}}"#)
        };
        let fragments = |texts: &[String]| -> Vec<Fragment> {
            texts.iter().map(|text| Fragment::new(text.as_str().into(), Mark::Unknown)).collect()
        };
        let stored = [call("a"), call("a"), output("a", "1"), output("a", "2"), call("a")];
        let healed = with_unique_calls(fragments(&stored));
        let expect: Vec<Value> = [("a", ""), ("a-2", ""), ("a", "1"), ("a-2", "2"), ("a-3", "")]
            .iter()
            .map(|(id, text)| match *text {
                "" => serde_json::from_str(&call(id)).unwrap(),
                text => serde_json::from_str(&output(id, text)).unwrap(),
            })
            .collect();
        let found: Vec<Value> =
            healed.iter().map(|part| serde_json::from_str(&part.text).unwrap()).collect();
        assert_eq!(found, expect);
        let unique = [call("a"), output("a", "1"), call("b")];
        assert_eq!(with_unique_calls(fragments(&unique)), fragments(&unique), "byte by byte");
    }
}
