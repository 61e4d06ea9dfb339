//! A schema without unions and references at its top, where hosted APIs take none: one object with the
//! properties of all branches, of which those are required that all branches require.

use serde_json::{Value, json};

use super::keywords::{allows_objects, names};
use super::references::{DEFINITIONS, Object, References, TOP, Target};

/// Unions within each other at the top; deeper ones allow any object.
const MAX_DEPTH: usize = 8;
/// Branches, and properties of branches, that are merged; further ones allow any object.
const MAX_MERGED: usize = 4000;
/// The keywords that require a merge.
const UNIONS: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];
/// Members of a schema that a merged one does not keep: what they say holds for one branch only.
const OF_ONE_BRANCH: [&str; 6] =
    ["properties", "required", "additionalProperties", "unevaluatedProperties", "enum", "const"];

/// The restrictions of a schema on objects.
#[derive(Clone, Default)]
struct Shape {
    properties: Object,
    required: Vec<String>,
    /// It allows no other properties.
    is_closed: bool,
}

/// The members of the top, without its definitions. `None`: no object fits.
pub(super) fn merged(schema: &Object, references: &References<'_>) -> Option<Object> {
    let mut top = schema.clone();
    DEFINITIONS.iter().for_each(|member| drop(top.shift_remove(*member)));
    if !UNIONS.iter().any(|union| schema.contains_key(*union)) {
        return allows_objects(schema).then_some(top);
    }
    let mut merge = Merge { references, left: MAX_MERGED };
    let shape = merge.shape(schema, TOP, 0)?;
    UNIONS.iter().chain(&OF_ONE_BRANCH).for_each(|member| drop(top.shift_remove(*member)));
    top.insert("properties".to_owned(), Value::Object(shape.properties));
    if !shape.required.is_empty() {
        top.insert("required".to_owned(), json!(shape.required));
    }
    if shape.is_closed {
        top.insert("additionalProperties".to_owned(), false.into());
    }
    if let Some(Value::String(reference)) = schema.get("$ref")
        && let Target::Definition = references.target(reference, TOP)
        && let Some(described) = references.definition(reference)
    {
        for text in ["title", "description"] {
            if let Some(value) = described.get(text) {
                top.entry(text).or_insert_with(|| value.clone());
            }
        }
    }
    Some(top)
}

struct Merge<'r, 's> {
    references: &'r References<'s>,
    /// Branches and properties that may still be merged.
    left: usize,
}

impl Merge<'_, '_> {
    /// The shape of a schema in the part `within`; `None`: no object fits.
    fn shape(&mut self, schema: &Object, within: &str, depth: usize) -> Option<Shape> {
        if !allows_objects(schema) {
            return None;
        }
        if depth >= MAX_DEPTH || self.left == 0 {
            return Some(Shape::default());
        }
        self.left -= 1;
        let mut shape = self.own(schema);
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let target = match self.references.target(reference, within) {
                Target::Definition => {
                    let target = self.references.definition(reference);
                    target.map(|target| (Value::Object(target.clone()), reference.clone()))
                }
                Target::Part(part, pointer) => Some((part.clone(), pointer)),
                Target::Circle(_) | Target::Unknown => None,
            };
            if let Some((target, pointer)) = target {
                shape = both(shape, self.branch(&target, &pointer, depth)?);
            }
        }
        for branch in branches(schema, "allOf") {
            shape = both(shape, self.branch(branch, within, depth)?);
        }
        for union in ["anyOf", "oneOf"] {
            let branches = branches(schema, union);
            if branches.is_empty() {
                continue;
            }
            let shapes = branches.iter().filter_map(|branch| self.branch(branch, within, depth));
            shape = both(shape, any(shapes.collect())?);
        }
        Some(shape)
    }

    fn branch(&mut self, branch: &Value, within: &str, depth: usize) -> Option<Shape> {
        match branch {
            Value::Object(schema) => self.shape(schema, within, depth + 1),
            Value::Bool(false) => None,
            _ => Some(Shape::default()),
        }
    }

    /// Returns the restrictions of a schema without its unions.
    fn own(&mut self, schema: &Object) -> Shape {
        let mut shape = Shape {
            required: schema.get("required").and_then(names).unwrap_or_default(),
            is_closed: schema.get("additionalProperties") == Some(&Value::Bool(false)),
            ..Shape::default()
        };
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                if self.left == 0 {
                    shape.is_closed = false;
                    break;
                }
                self.left -= 1;
                shape.properties.insert(name.clone(), property.clone());
            }
        }
        // Names that a pattern allows are not among the properties.
        shape.is_closed &= !schema.contains_key("patternProperties");
        shape
    }
}

fn branches<'s>(schema: &'s Object, union: &str) -> &'s [Value] {
    schema.get(union).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The objects that fit both. Where both have a property, the first one counts.
fn both(mut one: Shape, other: Shape) -> Shape {
    let has_all = |one: &Shape, other: &Shape| {
        other.properties.keys().all(|name| one.properties.contains_key(name))
    };
    one.is_closed =
        one.is_closed && has_all(&one, &other) || other.is_closed && has_all(&other, &one);
    for (name, property) in other.properties {
        let says_nothing = |property: &Value| property.as_object().is_none_or(Object::is_empty);
        if one.properties.get(&name).is_none_or(says_nothing) {
            one.properties.insert(name, property);
        }
    }
    for name in other.required {
        if !one.required.contains(&name) {
            one.required.push(name);
        }
    }
    one
}

/// The objects that fit one of them; `None` if there is none.
fn any(shapes: Vec<Shape>) -> Option<Shape> {
    let mut shapes = shapes.into_iter();
    let mut union = shapes.next()?;
    for shape in shapes {
        union.is_closed &= shape.is_closed;
        union.required.retain(|name| shape.required.contains(name));
        for (name, property) in shape.properties {
            match union.properties.get_mut(&name) {
                Some(before) => add_choice(before, property),
                None => drop(union.properties.insert(name, property)),
            }
        }
    }
    Some(union)
}

/// Lets a property have another schema too.
fn add_choice(property: &mut Value, other: Value) {
    const CHOICES: &str = "anyOf";
    if *property == other {
        return;
    }
    match property {
        // Made here, or as good.
        Value::Object(members) if members.len() == 1 && members.contains_key(CHOICES) => {
            if let Some(Value::Array(choices)) = members.get_mut(CHOICES)
                && !choices.contains(&other)
            {
                choices.push(other);
            }
        }
        property => *property = json!({ CHOICES: [property.take(), other] }),
    }
}
