//! Places of a request that a refusal names, such as `input[3].content[0].type`, `tools.0.strict` and
//! `('body', 'input', 3, 'id')`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{CALL, EMPTY, MISSING, NEEDED, Refused, call_type, member_paths};
use crate::port::concession::Concession;

/// A place in a list: the index, and the names after it without further indexes.
#[derive(Debug, PartialEq)]
struct Place {
    index: usize,
    names: Vec<String>,
}

/// Most parts of a path between the list and the index: validators name types there.
const MAX_BETWEEN: usize = 3;

/// The first place in the list `list` that a text names.
fn place(text: &str, list: &str) -> Option<Place> {
    text.match_indices(list).find_map(|(at, _)| {
        let (before, rest) = (&text[..at], &text[at + list.len()..]);
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let parts = if rest.starts_with(['\'', '"']) { listed(&rest[1..]) } else { path(rest) };
        let index = parts.iter().take(MAX_BETWEEN).position(|part| is_number(part))?;
        let names = parts[index + 1..].iter().filter(|part| !is_number(part));
        Some(Place { index: parts[index].parse().ok()?, names: names.cloned().collect() })
    })
}

/// The parts of `[3].content.0` or `/3/content`.
fn path(rest: &str) -> Vec<String> {
    if !rest.starts_with(['.', '[', '/']) {
        return Vec::new();
    }
    let end = rest.find(|c: char| !(c.is_alphanumeric() || "_.[]/$-".contains(c)));
    let parts = rest[..end.unwrap_or(rest.len())].split(['.', '[', ']', '/']);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The parts of `, 3, 'content')`, the rest of a list.
fn listed(rest: &str) -> Vec<String> {
    let Some(rest) = rest.trim_start().strip_prefix(',') else { return Vec::new() };
    let end = rest.find(')').or_else(|| rest.find("],")).unwrap_or(rest.len());
    let parts = rest[..end].trim_end_matches(']').split(',');
    let parts = parts.map(|part| part.trim().trim_matches(['\'', '"']));
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

impl Refused {
    /// A member of a tool.
    pub(super) fn of_tool_place(&self) -> Option<Concession> {
        let Place { names, .. } = place(&self.wrong, "tools")?;
        // Validators name the types between the members.
        let is_meant = |path: &&String| {
            let mut parts = path.to_lowercase();
            // A keyword is somewhere in the schema.
            let is_keyword = parts.starts_with("parameters.");
            parts = parts.trim_start_matches("parameters.").to_owned();
            let is_in_schema = names.iter().any(|name| name == "parameters");
            is_keyword == is_in_schema
                && (names.last() == Some(&parts) || names.join(".").ends_with(&format!(".{parts}")))
        };
        self.tool_members.iter().find(is_meant).map(|path| Concession::ToolMember(path.clone()))
    }

    /// Concessions about the item at a place.
    pub(super) fn of_item_place(&self) -> Vec<Concession> {
        if let Some(place) = place(&self.wrong, "input").or_else(|| place(&self.text, "input")) {
            return self
                .items
                .get(place.index)
                .map_or_else(Vec::new, |it| self.of_item(it, &place));
        }
        let Some(place) = place(&self.text, "messages") else { return Vec::new() };
        // In the messages of another API the instructions may be the first one.
        let items = [Some(place.index), place.index.checked_sub(1)].into_iter().flatten();
        let items = items.filter_map(|index| self.items.get(index));
        items.flat_map(|item| self.of_item(item, &place)).collect()
    }

    fn of_item(&self, item: &Value, place: &Place) -> Vec<Concession> {
        let kind = item["type"].as_str().unwrap_or("message");
        let mut paths = BTreeSet::new();
        member_paths(item, "", &mut paths);
        let is_missing = self.says(&MISSING);
        let last = place.names.last().map(String::as_str);
        let mut found = Vec::new();
        if is_missing {
            found.push(Concession::AllMembers);
        }
        if self.says(&EMPTY) {
            found.push(Concession::NoEmptyTexts);
        }
        // Validators name types between the members.
        let member = |last: &str| {
            let whole = place.names.join(".");
            paths
                .iter()
                .filter(|path| {
                    let path = path.to_lowercase();
                    whole == path || whole.ends_with(&format!(".{path}")) || last == path
                })
                .max_by_key(|path| path.len())
                .cloned()
        };
        match last {
            Some("id") if !is_missing => found.push(Concession::Ids),
            _ if kind == "reasoning" => found.extend(self.reasoning().into_iter().next()),
            Some("call_id") => found.push(Concession::CallIds),
            Some("role") => found.push(Concession::SystemMessages),
            Some("image_url" | "detail") => found.push(Concession::Images),
            Some(name) if !NEEDED.contains(&name) && !is_missing => {
                found.extend(member(name).map(Concession::Member));
            }
            Some("name") => {
                found
                    .extend(item["name"].as_str().map(|name| Concession::CallsOf(name.to_owned())));
            }
            _ => {}
        }
        if self.has_image(item) {
            found.push(Concession::Images);
        }
        match (kind, item["role"].as_str()) {
            ("reasoning", _) => found.push(Concession::Reasoning),
            ("message", Some("assistant")) => {
                found.extend([Concession::PlainTexts, Concession::AnswersAsQuotes]);
            }
            ("message", Some("developer" | "system")) => {
                let order = [Concession::SystemMessages, Concession::PlainTexts];
                let is_form = place.names.iter().any(|name| name == "content");
                found.extend(order.clone().into_iter().filter(|it| !is_form || *it == order[1]));
                found.extend(order);
            }
            ("message", _) => found.push(Concession::PlainTexts),
            (kind, _) => {
                let is_output = last == Some("output") && kind.ends_with("_output");
                found.extend(is_output.then_some(Concession::PlainTexts));
                found.push(Concession::ItemType(call_type(kind)));
                if call_type(kind) != CALL && kind.ends_with("_output") {
                    found.push(Concession::ItemType(CALL.to_owned()));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_in_every_form() {
        let check = |text: &str, expect: Option<(usize, &str)>| {
            let found = place(text, "input").map(|it| (it.index, it.names.join(".")));
            assert_eq!(found, expect.map(|(at, names)| (at, names.to_owned())), "{text}");
        };
        check("invalid 'input[3].content[0].type': no", Some((3, "content.type")));
        check("input.3.content: no", Some((3, "content")));
        check("input.3", Some((3, "")));
        check("no: input[3].", Some((3, "")));
        check("/input/3/content/0", Some((3, "content")));
        check("$.input[3].id", Some((3, "id")));
        check("body.input.3.id", Some((3, "id")));
        check(
            "input.list[union].3.responseoutputmessage.id",
            Some((3, "responseoutputmessage.id")),
        );
        check("('body', 'input', 3, 'content', 0, 'type')", Some((3, "content.type")));
        check("[\"body\",\"input\",3,\"id\"]", Some((3, "id")));
        check("the input is 3 long", None);
        check("my_input[3]", None);
        check("input", None);
    }
}
