//! Renames in JSON text along a plan. Only names change: every other byte is copied, so data of users
//! is identical afterwards.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::plan::{Change, Form, NodeId, Plan};

/// Deepest nesting that is followed; types are nested less deeply.
const MAX_DEPTH: usize = 64;

/// The text with other names; `None` if it is unchanged, or no JSON of the expected form.
pub(super) fn rewrite(plan: &Plan, root: NodeId, json: &str) -> Option<String> {
    rewrite_noting(plan, root, json, &mut Vec::new())
}

/// As [`rewrite`]; adds the names of members that are left out to `left_out`.
pub(super) fn rewrite_noting(
    plan: &Plan,
    root: NodeId,
    json: &str,
    left_out: &mut Vec<String>,
) -> Option<String> {
    let mut rewriting = Rewriting { plan, json, edits: Vec::new(), left_out };
    rewriting.visit(root, json, 0);
    let mut edits = rewriting.edits;
    if edits.is_empty() {
        return None;
    }
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    // Two forms of a value can name the same change.
    edits.dedup();
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut text = String::with_capacity(json.len() + added);
    let mut from = 0;
    for Edit { at, text: replacement } in edits {
        text.push_str(json.get(from..at.start)?);
        text.push_str(&replacement);
        from = at.end;
    }
    text.push_str(json.get(from..)?);
    Some(text)
}

/// The replacement of a part of the text.
#[derive(Debug, PartialEq)]
struct Edit {
    at: Range<usize>,
    text: String,
}

struct Rewriting<'a> {
    plan: &'a Plan,
    json: &'a str,
    edits: Vec<Edit>,
    left_out: &'a mut Vec<String>,
}

impl<'a> Rewriting<'a> {
    /// Visits a value, which is a part of the text.
    fn visit(&mut self, node: NodeId, value: &'a str, depth: usize) {
        let plan = self.plan;
        let Some(node) = plan.node(node).filter(|_| depth < MAX_DEPTH) else { return };
        let value = value.trim_ascii();
        match value.as_bytes().first() {
            Some(b'{') => {
                let Ok(Members(members)) = serde_json::from_str(value) else { return };
                for form in node.forms.iter().filter(|form| fits(form, &members, &node.forms)) {
                    self.visit_members(form, &members, depth);
                }
            }
            Some(b'[') => {
                let items = node.forms.iter().filter_map(|form| form.items);
                for (items, list) in items.filter_map(|id| Some((id, elements(value)?))) {
                    for element in list {
                        self.visit(items, element.get(), depth + 1);
                    }
                }
            }
            Some(b'"') => {
                let renamed = node.forms.iter().flat_map(|form| &form.values);
                for (_, to) in renamed.filter(|(from, _)| is_text(value, from)) {
                    self.replace(value, quoted(to));
                }
            }
            _ => {}
        }
    }

    fn visit_members(
        &mut self,
        form: &Form,
        members: &[(&'a RawValue, &'a RawValue)],
        depth: usize,
    ) {
        // Whether a member before this one stays: then its comma goes with the one that does not.
        let mut follows = false;
        for (at, (key, value)) in members.iter().enumerate() {
            let (key, value) = (key.get(), value.get());
            let Some(member) = form.members.iter().find(|member| is_text(key, &member.name)) else {
                follows = true;
                if let Some(node) = form.others {
                    self.visit(node, value, depth + 1);
                }
                continue;
            };
            match &member.change {
                Some(Change::LeftOut) => {
                    let before = members[..at].last().map(|(_, value)| value.get());
                    let next = members.get(at + 1).map(|(key, _)| key.get());
                    self.leave_out((key, value), before.filter(|_| follows), next);
                    self.left_out.push(member.name.clone());
                    continue;
                }
                Some(Change::Renamed(renamed)) => self.replace(key, quoted(renamed)),
                Some(Change::Absolute) => {
                    if let Some(path) = self.plan.absolute(value) {
                        self.replace(value, path);
                    }
                }
                None => {}
            }
            follows = true;
            if let Some(node) = member.value {
                self.visit(node, value, depth + 1);
            }
        }
    }

    fn replace(&mut self, part: &'a str, text: String) {
        let at = self.range(part);
        self.edits.push(Edit { at, text });
    }

    /// Removes a member with one of its commas: the one before it where a member that stays precedes it (`before`
    /// is the value of the member right before), else the one after it.
    fn leave_out(
        &mut self,
        (key, value): (&'a str, &'a str),
        before: Option<&'a str>,
        next: Option<&'a str>,
    ) {
        let (key, value) = (self.range(key), self.range(value));
        let at = match (before, next) {
            (Some(before), _) => self.range(before).end..value.end,
            (None, Some(next)) => key.start..self.range(next).start,
            (None, None) => key.start..value.end,
        };
        self.edits.push(Edit { at, text: String::new() });
    }

    /// Where a part of the text stands in it.
    fn range(&self, part: &'a str) -> Range<usize> {
        let start = part.as_ptr().addr() - self.json.as_ptr().addr();
        start..start + part.len()
    }
}

/// Returns whether an object has a form. Its tags decide; a tag that is missing fits a form without
/// alternatives only.
fn fits(form: &Form, members: &[(&RawValue, &RawValue)], forms: &[Form]) -> bool {
    form.tags.iter().all(|(name, values)| {
        let member = members.iter().find(|(key, _)| is_text(key.get(), name));
        match member {
            Some((_, value)) => values.iter().any(|expected| is_text(value.get(), expected)),
            None => forms.len() == 1,
        }
    })
}

/// Returns whether this JSON is a string with this content.
fn is_text(json: &str, content: &str) -> bool {
    let Some(inside) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    inside == content
        || inside.contains('\\')
            && serde_json::from_str::<String>(json).is_ok_and(|text| text == content)
}

/// A name of a table as JSON; they contain nothing to escape.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

fn elements(list: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(list).ok()
}

/// The members of an object, as text.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}
