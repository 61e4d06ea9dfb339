//! The MCP servers that the user refused in another agent: they are listed with the reason, and not imported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::item::Item;

/// Another agent's settings that refuse MCP servers.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// Servers and why they are refused.
    named: BTreeMap<String, String>,
    /// The only servers that may be used, with the member that says so.
    allowed: Vec<(BTreeSet<String>, String)>,
    /// Why other servers may be refused, too.
    unknown: Option<String>,
}

impl Refusals {
    /// Reads a list of refused servers. `place` is the member and its file, for people.
    pub(crate) fn read_refused(&mut self, list: &Value, place: &str) {
        if let Some(names) = self.names(list, place) {
            let why = format!("it is refused by {place}; remove it there to import it");
            self.named.extend(names.into_iter().map(|name| (name, why.clone())));
        }
    }

    /// Reads a list of the only servers that may be used.
    pub(crate) fn read_allowed(&mut self, list: &Value, place: &str) {
        if let Some(names) = self.names(list, place) {
            self.allowed.push((names, place.to_owned()));
        }
    }

    /// A file that says which servers are refused cannot be read.
    pub(crate) fn does_not_know(&mut self, path: &Path, error: &Error) {
        let file = visible::path(path);
        let why =
            format!("whether it is refused is unknown, because {file} cannot be read: {error}");
        self.unknown.get_or_insert(why);
    }

    /// The servers that are not refused. The others are left out of the item with the reason.
    pub(crate) fn without(
        &self,
        servers: &Map<String, Value>,
        item: &mut Item,
    ) -> Map<String, Value> {
        let mut kept = Map::new();
        for (name, server) in servers {
            match self.reason(name) {
                Some(why) => item.leave_out(name, &visible::line(&why)),
                None => drop(kept.insert(name.clone(), server.clone())),
            }
        }
        kept
    }

    fn reason(&self, name: &str) -> Option<String> {
        let listed = self.named.get(name).cloned();
        let missing = || {
            let (_, place) = self.allowed.iter().find(|(names, _)| !names.contains(name))?;
            Some(format!("it is not among those of {place}; add it there to import it"))
        };
        listed.or_else(missing).or_else(|| self.unknown.clone())
    }

    fn names(&mut self, list: &Value, place: &str) -> Option<BTreeSet<String>> {
        let texts = match list {
            Value::Null => return None,
            Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        if texts.is_none() {
            let why =
                format!("whether it is refused is unknown, because {place} is not a list of texts");
            self.unknown.get_or_insert(why);
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::Agent;
    use crate::item::Kind;

    #[test]
    fn what_is_refused_or_may_be_is_left_out_with_the_reason() {
        let check = |refused: Value, allowed: Value, expected: [Option<&str>; 2]| {
            let mut refusals = Refusals::default();
            refusals.read_refused(&refused, "`no` of f");
            refusals.read_allowed(&allowed, "`yes` of f");
            let servers = json!({ "a": { "command": "x" }, "b": { "command": "y" } });
            let mut item = Item::new(Kind::McpServers, Agent::ClaudeCode, None);
            let kept = refusals.without(servers.as_object().unwrap(), &mut item);
            let mut left_out = item.left_out.iter();
            for (name, why) in ["a", "b"].into_iter().zip(expected) {
                assert_eq!(kept.contains_key(name), why.is_none(), "{refused} {allowed}: {name}");
                if let Some(why) = why {
                    let said = left_out.next().unwrap();
                    assert!(
                        said.starts_with(&format!("`{name}`: ")) && said.contains(why),
                        "{said}"
                    );
                }
            }
            assert_eq!(left_out.next(), None);
        };
        let null = Value::Null;
        check(null.clone(), null.clone(), [None, None]);
        check(json!([]), null.clone(), [None, None]);
        check(json!(["b", "c"]), null.clone(), [None, Some("refused by `no` of f")]);
        check(null.clone(), json!(["a"]), [None, Some("not among those of `yes` of f")]);
        check(null.clone(), json!([]), [Some("not among"), Some("not among")]);
        check(json!(["a"]), json!(["a"]), [Some("refused by"), Some("not among")]);
        check(json!("b"), null.clone(), [Some("`no` of f is not a list"), Some("unknown")]);
        check(json!(["a", 1]), null.clone(), [Some("unknown"), Some("unknown")]);
        check(null, json!({}), [Some("`yes` of f is not a list"), Some("unknown")]);
    }
}
