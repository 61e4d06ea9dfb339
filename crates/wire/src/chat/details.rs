//! `reasoning_details` of a Chat Completions stream: pieces of one detail are joined, so that the whole list can be
//! sent back in its order.

use serde_json::value::RawValue;

use crate::json::{At, Object, array, array_of, quoted, text};

/// The details of a response so far.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Vec<(String, String)>>);

/// Members that hold texts in pieces.
const TEXTS: [&str; 3] = ["text", "summary", "data"];

impl Details {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the pieces of a delta. Anything that is no list of objects is ignored.
    pub(super) fn add(&mut self, raw: &RawValue) {
        let at = At::Root;
        for raw in array(raw, &at).unwrap_or_default() {
            let Ok(mut piece) = Object::read(raw, &at) else { continue };
            let members = piece.take_all();
            let key = |members: &[(String, String)], name: &str| {
                members.iter().find(|(member, _)| member == name).map(|(_, json)| json.clone())
            };
            let is_next = |last: &Vec<(String, String)>| {
                ["type", "index"].iter().all(|name| key(last, name) == key(&members, name))
                    && key(last, "index").is_some()
            };
            match self.0.last_mut().filter(|last| is_next(last)) {
                Some(last) => join(last, members),
                None => self.0.push(members),
            }
        }
    }

    /// The list as JSON; empty afterwards.
    pub(super) fn take(&mut self) -> String {
        let mut out = String::new();
        array_of(&mut out, |list| {
            for members in std::mem::take(&mut self.0) {
                list.object(|object| {
                    members.iter().for_each(|(name, json)| object.raw(name, json));
                });
            }
        });
        out
    }

    /// The text of the pieces in a delta, for servers that send details alone.
    pub(super) fn text(raw: &RawValue) -> String {
        let at = At::Root;
        let pieces = array(raw, &at).unwrap_or_default().into_iter();
        let texts = pieces.filter_map(|raw| {
            let mut piece = Object::read(raw, &at).ok()?;
            let raw = piece.take("text").or_else(|| piece.take("summary"))?;
            text(raw, &at).ok()
        });
        texts.collect()
    }
}

fn join(last: &mut Vec<(String, String)>, members: Vec<(String, String)>) {
    for (name, json) in members {
        let Some((_, own)) = last.iter_mut().find(|(member, _)| *member == name) else {
            last.push((name, json));
            continue;
        };
        let is_text = TEXTS.contains(&name.as_str());
        let texts = (serde_json::from_str::<String>(own), serde_json::from_str::<String>(&json));
        match texts {
            (Ok(first), Ok(second)) if is_text => *own = quoted(&(first + &second)),
            _ if json == "null" => {}
            _ => *own = json,
        }
    }
}
