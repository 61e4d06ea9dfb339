//! Errors of decoding: the path of the value that does not fit its type, and what was expected
//! there. Suggests a known name for an unknown one that differs from it in spelling or by a few
//! letters.

use std::fmt;

use strsim::generic_levenshtein;

use crate::json_words::in_json_words;

/// Why parameters or a result cannot be decoded.
#[derive(Debug)]
pub struct DecodeError {
    /// Path of the value; `None` for the outermost object.
    path: Option<String>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Unknown(Unknown),
    Other(String),
}

/// A name that the type does not define.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// `true` for a member of an object, `false` for a variant of an enumeration.
    pub(crate) is_member: bool,
    pub(crate) name: String,
    pub(crate) known: Vec<String>,
}

impl DecodeError {
    pub(crate) fn other(message: String) -> Self {
        Self { path: None, kind: Kind::Other(message) }
    }

    pub(crate) fn unknown(unknown: Unknown) -> Self {
        Self { path: None, kind: Kind::Unknown(unknown) }
    }

    pub(crate) fn at(self, path: Option<String>) -> Self {
        Self { path, ..self }
    }

    /// The path of the value that does not fit, as in `steps[1].days`; `None` for the outermost one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// The unknown member, if the error concerns the outermost object.
    #[must_use]
    pub fn unknown_member(&self) -> Option<&str> {
        match &self.kind {
            Kind::Unknown(unknown) if unknown.is_member && self.path.is_none() => {
                Some(&unknown.name)
            }
            _ => None,
        }
    }
}

impl Unknown {
    /// Parses serde's message about an unknown name, which a `serde_json::Error` only has as text.
    pub(crate) fn read(message: &str) -> Option<Self> {
        let (is_member, rest) = match message.strip_prefix("unknown field `") {
            Some(rest) => (true, rest),
            None => (false, message.strip_prefix("unknown variant `")?),
        };
        let ends = ["`, expected ", "`, there are no fields", "`, there are no variants"];
        let (name, known) = ends.iter().find_map(|end| rest.rsplit_once(end))?;
        let known = known.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some(Self { is_member, name: name.to_owned(), known })
    }

    /// The known name that differs only in case style.
    pub(crate) fn respelled(&self) -> Option<&str> {
        self.known.iter().map(String::as_str).find(|known| same_name(&self.name, known))
    }
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "`{path}`: ")?;
        }
        match &self.kind {
            Kind::Other(message) => f.write_str(&in_json_words(message)),
            Kind::Unknown(unknown) => unknown.fmt(f),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_member { "member" } else { "variant" };
        // The name comes from a client and may be long.
        let shown: String = self.name.chars().take(100).collect();
        write!(f, "unknown {what} `{shown}`")?;
        if let Some(near) = closest(&self.name, &self.known) {
            return write!(f, "; did you mean `{near}`?");
        }
        match &self.known[..] {
            [] => f.write_str(", expected none"),
            [only] => write!(f, ", expected `{only}`"),
            all => write!(f, ", expected one of `{}`", all.join("`, `")),
        }
    }
}

/// Returns whether two names differ only in case style: `camelCase`, `snake_case` or `kebab-case`.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    camel(one).eq(camel(other))
}

/// The characters of a name in `camelCase`.
fn camel(name: &str) -> impl Iterator<Item = char> {
    let mut begins_word = false;
    name.chars().filter_map(move |c| {
        if matches!(c, '_' | '-') {
            begins_word = true;
            return None;
        }
        let c = if begins_word { c.to_ascii_uppercase() } else { c };
        begins_word = false;
        Some(c)
    })
}

/// The known name closest to a mistyped one.
fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let plain = |name: &str| -> Vec<char> {
        let letters = name.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let name = plain(name);
    // Bounds the cost, which is the product of the lengths.
    if name.len() > 100 {
        return None;
    }
    let distances =
        known.iter().map(|known| (generic_levenshtein(&name, &plain(known)), known.as_str()));
    let near = distances.filter(|(distance, known)| *distance <= known.len() / 3);
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name() {
        for spelling in ["writableRoots", "writable_roots", "writable-roots"] {
            assert!(same_name(spelling, "writableRoots"), "{spelling}");
            assert!(same_name(spelling, "writable_roots"), "{spelling}");
        }
        for other in ["writableroots", "WritableRoots", "writableRoot", "_writableRoots", ""] {
            assert!(!same_name(other, "writableRoots"), "{other}");
        }
    }

    #[test]
    fn mistyped_names_are_recognised() {
        let known = ["writableRoots", "networkAccess", "host"].map(str::to_owned);
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(closest(name, &known), expected, "{name}");
        };
        check("writableRoot", Some("writableRoots"));
        check("WRITABLE_ROOTS", Some("writableRoots"));
        check("netAccess", Some("networkAccess"));
        check("hots", None);
        check("colour", None);
        check(&"writableRoots".repeat(100), None);
    }

    #[test]
    fn messages_of_serde_are_parsed() {
        use serde::de::Error;
        type Fault = serde_json::Error;
        let check = |error: Fault, is_member: bool, name: &str, known: &[&str]| {
            let known = known.iter().map(|known| (*known).to_owned()).collect();
            let expect = Unknown { is_member, name: name.to_owned(), known };
            assert_eq!(Unknown::read(&error.to_string()), Some(expect));
        };
        check(Fault::unknown_field("a", &[]), true, "a", &[]);
        check(Fault::unknown_field("a", &["b"]), true, "a", &["b"]);
        check(Fault::unknown_field("a", &["b", "c"]), true, "a", &["b", "c"]);
        check(Fault::unknown_variant("", &["b", "c", "d"]), false, "", &["b", "c", "d"]);
        check(Fault::unknown_variant("a", &[]), false, "a", &[]);
        check(Fault::unknown_field("a`, expected `x", &["b"]), true, "a`, expected `x", &["b"]);
        assert_eq!(Unknown::read("missing field `a`"), None);
    }
}
