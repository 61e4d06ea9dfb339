//! The references within a schema: what each leads to, and which of them lead back to where they are.
//! Nothing is fetched: a reference to anything but a part of the schema leads nowhere.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// An object of JSON.
pub(super) type Object = Map<String, Value>;

/// The members that hold definitions.
pub(super) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The pointer to the schema itself.
pub(super) const TOP: &str = "#";
/// Longest name of a property or a definition that all hosted APIs take.
const MAX_NAME: usize = 64;

/// The references within one schema.
pub(super) struct References<'s> {
    top: &'s Object,
    /// From the pointer of a part to a reference in it that closes a circle.
    circular: BTreeSet<(String, String)>,
}

/// The target of a reference.
pub(super) enum Target<'s> {
    /// A definition: APIs take the reference as it is.
    Definition,
    /// A part that takes the reference's place, with the pointer to it.
    Part(&'s Value, String),
    /// It closes a circle: only the type of the part is known.
    Circle(&'s Value),
    /// Nothing that is known.
    Unknown,
}

impl<'s> References<'s> {
    pub(super) fn new(top: &'s Object) -> Self {
        let mut references = Self { top, circular: BTreeSet::new() };
        references.circular = Search::new(&references).circles();
        references
    }

    /// Where a reference in the part `within` leads.
    pub(super) fn target(&self, reference: &str, within: &str) -> Target<'s> {
        let Some((target, pointer)) = self.part(reference) else { return Target::Unknown };
        if pointer == TOP || self.circular.contains(&(within.to_owned(), pointer.clone())) {
            return Target::Circle(target);
        }
        match self.is_kept(&pointer) {
            // Another spelling of its pointer is written as the part.
            true if pointer == reference => Target::Definition,
            _ => Target::Part(target, pointer),
        }
    }

    /// Returns whether a pointer leads to a definition that keeps its name.
    pub(super) fn is_kept(&self, pointer: &str) -> bool {
        let Some((member, name)) = pointer.strip_prefix("#/").and_then(|path| path.split_once('/'))
        else {
            return false;
        };
        let definitions = self.top.get(member).filter(|_| DEFINITIONS.contains(&member));
        is_name(name) && definitions.and_then(|definitions| definitions.get(name)).is_some()
    }

    /// The definition that a reference leads to.
    pub(super) fn definition(&self, reference: &str) -> Option<&'s Object> {
        self.part(reference)?.0.as_object()
    }

    /// The part that a reference names, with its pointer.
    fn part(&self, reference: &str) -> Option<(&'s Value, String)> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment == "/" {
            return Some((&Value::Null, TOP.to_owned()));
        }
        let path = percent_decoded(fragment.strip_prefix('/')?)?;
        let mut steps = path.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let mut part = self.top.get(&steps.next()?)?;
        for step in steps {
            part = match part {
                Value::Object(members) => members.get(&step)?,
                Value::Array(entries) => entries.get(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some((part, format!("#/{path}")))
    }
}

/// The pointer to a definition.
pub(super) fn pointer(member: &str, name: &str) -> String {
    format!("#/{member}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns whether all hosted APIs accept this name of a property.
pub(super) fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_letter)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A search for circles, from the top and from each definition.
struct Search<'r, 's> {
    references: &'r References<'s>,
    /// The parts that were reached, and whether the search has left them again.
    reached: BTreeMap<String, bool>,
    circles: BTreeSet<(String, String)>,
}

/// A part whose references are being followed.
struct Visit {
    pointer: String,
    /// References that were not followed yet.
    left: Vec<String>,
}

impl<'r, 's> Search<'r, 's> {
    fn new(references: &'r References<'s>) -> Self {
        Self { references, reached: BTreeMap::new(), circles: BTreeSet::new() }
    }

    fn circles(mut self) -> BTreeSet<(String, String)> {
        let top = self.references.top;
        let mut at_top = Vec::new();
        for (_, value) in top.iter().filter(|(key, _)| !DEFINITIONS.contains(&key.as_str())) {
            collect(value, &mut at_top);
        }
        if let Some(Value::String(reference)) = top.get("$ref") {
            at_top.push(reference.clone());
        }
        self.follow(TOP.to_owned(), at_top);
        for member in DEFINITIONS {
            let Some(Value::Object(definitions)) = top.get(member) else { continue };
            for (name, definition) in definitions {
                let mut left = Vec::new();
                collect(definition, &mut left);
                self.follow(pointer(member, name), left);
            }
        }
        self.circles
    }

    /// Follows the references of a part, depth first.
    fn follow(&mut self, pointer: String, left: Vec<String>) {
        if self.reached.contains_key(&pointer) {
            return;
        }
        self.reached.insert(pointer.clone(), false);
        let mut path = vec![Visit { pointer, left }];
        while let Some(visit) = path.last_mut() {
            let Some(reference) = visit.left.pop() else {
                self.reached.insert(visit.pointer.clone(), true);
                path.pop();
                continue;
            };
            let Some((target, pointer)) = self.references.part(&reference) else { continue };
            match self.reached.get(&pointer) {
                Some(true) => {}
                Some(false) => {
                    self.circles.insert((visit.pointer.clone(), pointer));
                }
                None => {
                    let mut left = Vec::new();
                    collect(target, &mut left);
                    self.reached.insert(pointer.clone(), false);
                    path.push(Visit { pointer, left });
                }
            }
        }
    }
}

/// Adds the references anywhere in a part, once each.
fn collect(part: &Value, found: &mut Vec<String>) {
    match part {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref")
                && !found.contains(reference)
            {
                found.push(reference.clone());
            }
            members.values().for_each(|value| collect(value, found));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| collect(entry, found)),
        _ => {}
    }
}
