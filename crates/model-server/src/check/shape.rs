//! Shapes of requests as tables: the members of each object, their types, and the ones that are required. A member
//! that is `null` counts as absent, unless it is required.

use serde_json::{Map, Value};

use super::fault::{Fault, Path, Problem, Type};

/// The type of a value.
pub(super) enum Kind {
    Any,
    Text,
    Bool,
    /// A whole number from 0 on.
    Count,
    /// A whole number.
    Integer,
    /// A number in a range.
    Number(f64, f64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// An object of any members.
    Map,
    /// An object whose values have this type.
    MapOf(&'static Kind),
    Object(&'static Shape),
    List(&'static Kind),
    /// A text, or a value of this type.
    TextOr(&'static Kind),
    /// A text, `null` even where it is required, or a value of this type.
    NullableTextOr(&'static Kind),
    /// An object whose shape depends on its `type`.
    Tagged(&'static [(&'static str, &'static Shape)]),
    /// An object whose shape another function chooses by its `type`; `None` for an unknown type.
    TaggedBy(fn(&str) -> Option<&'static Shape>),
}

/// The members of an object.
pub(super) struct Shape {
    pub(super) required: &'static [(&'static str, Kind)],
    pub(super) optional: &'static [(&'static str, Kind)],
}

/// Members that no shape of a request has: any object fits, as for tools of the provider.
pub(super) static OPEN: Shape = Shape { required: &[], optional: &[("*", Kind::Any)] };

/// Checks values against shapes.
#[derive(Default)]
pub(super) struct Walk {
    path: Path,
}

impl Walk {
    /// Checks a value at this place.
    pub(super) fn at(path: Path) -> Self {
        Self { path }
    }

    fn wrong(&self, expected: Type, found: &Value) -> Fault {
        let mut found = found.to_string();
        if found.len() > 40 {
            let end = (0..=40).rev().find(|at| found.is_char_boundary(*at)).unwrap_or_default();
            found.truncate(end);
            found.push('…');
        }
        Fault::new(self.path.clone(), Problem::Type(expected, found))
    }

    /// Checks the members of an object.
    pub(super) fn shape(&self, value: &Value, shape: &Shape) -> Result<(), Fault> {
        let Value::Object(members) = value else { return Err(self.wrong(Type::Object, value)) };
        self.members(members, shape, false)
    }

    fn members(
        &self,
        members: &Map<String, Value>,
        shape: &Shape,
        is_tagged: bool,
    ) -> Result<(), Fault> {
        for (name, kind) in shape.required {
            let within = Self::at(self.path.name(name));
            match members.get(*name) {
                None => return Err(Fault::new(within.path, Problem::Missing)),
                Some(value) => within.kind(value, kind)?,
            }
        }
        let is_open = shape.optional.iter().any(|(name, _)| *name == "*");
        for (given, value) in members {
            let is_required = shape.required.iter().any(|(name, _)| name == given);
            if is_required || (is_tagged && given == "type") {
                continue;
            }
            let within = Self::at(self.path.name(given));
            match shape.optional.iter().find(|(name, _)| name == given) {
                Some(_) if value.is_null() => {}
                Some((_, kind)) => within.kind(value, kind)?,
                None if is_open => {}
                None => return Err(Fault::new(within.path, Problem::Unknown)),
            }
        }
        Ok(())
    }

    fn kind(&self, value: &Value, kind: &Kind) -> Result<(), Fault> {
        let is =
            |fits: bool, expected| if fits { Ok(()) } else { Err(self.wrong(expected, value)) };
        match kind {
            Kind::Any => Ok(()),
            Kind::Text => is(value.is_string(), Type::Text),
            Kind::Bool => is(value.is_boolean(), Type::Bool),
            Kind::Count => is(value.is_u64(), Type::Integer),
            Kind::Integer => is(value.is_i64() || value.is_u64(), Type::Integer),
            Kind::Number(least, most) => match value.as_f64() {
                None => Err(self.wrong(Type::Number, value)),
                Some(number) if (*least..=*most).contains(&number) => Ok(()),
                Some(_) => Err(Fault::new(self.path.clone(), Problem::Range(*least, *most))),
            },
            Kind::OneOf(known) => match value.as_str() {
                None => Err(self.wrong(Type::Text, value)),
                Some(text) if known.contains(&text) => Ok(()),
                Some(text) => Err(self.unknown_value(text, known)),
            },
            Kind::Map => is(value.is_object(), Type::Object),
            Kind::MapOf(kind) => {
                let Value::Object(members) = value else {
                    return Err(self.wrong(Type::Object, value));
                };
                members
                    .iter()
                    .try_for_each(|(name, value)| Self::at(self.path.name(name)).kind(value, kind))
            }
            Kind::Object(shape) => self.shape(value, shape),
            Kind::List(kind) => {
                let Value::Array(values) = value else { return Err(self.wrong(Type::List, value)) };
                values.iter().enumerate().try_for_each(|(index, value)| {
                    Self::at(self.path.index(index)).kind(value, kind)
                })
            }
            Kind::NullableTextOr(_) if value.is_null() => Ok(()),
            Kind::TextOr(_) | Kind::NullableTextOr(_) if value.is_string() => Ok(()),
            Kind::TextOr(kind) | Kind::NullableTextOr(kind) => self.kind(value, kind),
            Kind::Tagged(shapes) => {
                let (tag, members) = self.tag(value)?;
                match shapes.iter().find(|(name, _)| *name == tag) {
                    Some((_, shape)) => self.members(members, shape, true),
                    None => {
                        let known: Vec<_> = shapes.iter().map(|(name, _)| *name).collect();
                        Err(Self::at(self.path.name("type")).unknown_value(tag, &known))
                    }
                }
            }
            Kind::TaggedBy(choose) => {
                let (tag, members) = self.tag(value)?;
                match choose(tag) {
                    Some(shape) => self.members(members, shape, true),
                    None => Err(Self::at(self.path.name("type")).unknown_value(tag, &[])),
                }
            }
        }
    }

    fn tag<'v>(&self, value: &'v Value) -> Result<(&'v str, &'v Map<String, Value>), Fault> {
        let Value::Object(members) = value else { return Err(self.wrong(Type::Object, value)) };
        let within = Self::at(self.path.name("type"));
        match members.get("type") {
            None => Err(Fault::new(within.path, Problem::Missing)),
            Some(Value::String(tag)) => Ok((tag, members)),
            Some(other) => Err(within.wrong(Type::Text, other)),
        }
    }

    fn unknown_value(&self, found: &str, known: &[&'static str]) -> Fault {
        Fault::new(self.path.clone(), Problem::Value(found.to_owned(), known.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static INNER: Shape =
        Shape { required: &[("text", Kind::Text)], optional: &[("isLast", Kind::Bool)] };
    static SHAPE: Shape = Shape {
        required: &[("list", Kind::List(&Kind::Tagged(&[("text", &INNER)])))],
        optional: &[("count", Kind::Count), ("of", Kind::OneOf(&["a", "b"]))],
    };

    #[test]
    fn values_are_checked_with_their_places() {
        let check = |value: Value, expected: Option<(&str, Problem)>| {
            let found = Walk::default().shape(&value, &SHAPE).err();
            let found = found.map(|fault| (fault.at.bracketed(), fault.problem));
            assert_eq!(found, expected.map(|(at, problem)| (at.to_owned(), problem)), "{value}");
        };
        let part = json!({"type": "text", "text": "x"});
        check(json!({"list": [part], "count": null}), None);
        check(json!({}), Some(("list", Problem::Missing)));
        let wrong = Problem::Type(Type::List, "1".into());
        check(json!({"list": 1}), Some(("list", wrong)));
        check(json!({"list": [part, {"type": "text"}]}), Some(("list[1].text", Problem::Missing)));
        check(json!({"list": [{"type": "text", "text": "x", "isLast": true}]}), None);
        let other = Problem::Value("image".into(), vec!["text"]);
        check(json!({"list": [{"type": "image"}]}), Some(("list[0].type", other)));
        check(json!({"list": [], "more": 1}), Some(("more", Problem::Unknown)));
        let value = Problem::Value("c".into(), vec!["a", "b"]);
        check(json!({"list": [], "of": "c"}), Some(("of", value)));
        let count = Problem::Type(Type::Integer, "-1".into());
        check(json!({"list": [], "count": -1}), Some(("count", count)));
    }
}
