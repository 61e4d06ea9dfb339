//! Reads and writes JSON without a tree: objects as lists of borrowed members in their order, and text that is
//! appended to a string. It knows no field of any API.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Code, Error};
use crate::warning::Warnings;

/// A position in a document, from its root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'p> {
    Root,
    Member(&'p At<'p>, &'p str),
    Index(&'p At<'p>, usize),
}

impl At<'_> {
    pub(crate) fn member<'q>(&'q self, name: &'q str) -> At<'q> {
        At::Member(self, name)
    }

    pub(crate) fn index(&self, index: usize) -> At<'_> {
        At::Index(self, index)
    }

    /// The path without positions in arrays, as warnings name it: `messages[].content`.
    pub(crate) fn pattern(&self) -> String {
        let path = self.to_string();
        let mut out = String::with_capacity(path.len());
        let mut in_index = false;
        for c in path.chars() {
            in_index &= c != ']';
            if !in_index {
                out.push(c);
            }
            in_index |= c == '[';
        }
        out
    }

    pub(crate) fn missing(&self, name: &str) -> Error {
        let at = self.member(name);
        Error::member(&at.to_string(), Code::Missing, format!("Missing required member `{at}`."))
    }

    pub(crate) fn wrong_type(&self, expected: &str) -> Error {
        Error::member(
            &self.to_string(),
            Code::InvalidType,
            format!("Invalid type for `{self}`: expected {expected}."),
        )
    }

    pub(crate) fn invalid(&self, message: impl fmt::Display) -> Error {
        Error::member(
            &self.to_string(),
            Code::InvalidValue,
            format!("Invalid value for `{self}`: {message}."),
        )
    }

    pub(crate) fn unsupported(&self, message: impl fmt::Display) -> Error {
        Error::member(
            &self.to_string(),
            Code::Unsupported,
            format!("`{self}` is not supported here: {message}."),
        )
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Member(At::Root, name) => f.write_str(name),
            At::Member(parent, name) => write!(f, "{parent}.{name}"),
            At::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The members of an object in their order. Members that are taken leave it.
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Option<&'a RawValue>)>);

impl<'a> Object<'a> {
    pub(crate) fn read(raw: &'a RawValue, at: &At<'_>) -> Result<Self, Error> {
        Self::read_str(raw.get(), at)
    }

    pub(crate) fn read_str(json: &'a str, at: &At<'_>) -> Result<Self, Error> {
        if !json.trim_ascii_start().starts_with('{') {
            return Err(at.wrong_type("an object"));
        }
        serde_json::from_str(json).map_err(|error| at.invalid(error))
    }

    /// Takes a member; one that is `null` is absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let member = self.0.iter_mut().find(|(member, raw)| member == name && raw.is_some())?;
        member.1.take().filter(|raw| raw.get() != "null")
    }

    /// Renames members such as `max_tokens` to `maxTokens`. A member that is there under both names keeps the second.
    pub(crate) fn in_camel_case(mut self) -> Self {
        for at in 0..self.0.len() {
            if let Some(name) = camel_case(&self.0[at].0)
                && !self.0.iter().any(|(other, _)| *other == name)
            {
                self.0[at].0 = name.into();
            }
        }
        self
    }

    /// True if every member was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, raw)| raw.is_none())
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&'a RawValue> {
        let (_, raw) = self.0.iter().find(|(member, raw)| member == name && raw.is_some())?;
        raw.filter(|raw| raw.get() != "null")
    }

    pub(crate) fn text(&mut self, at: &At<'_>, name: &str) -> Result<Cow<'a, str>, Error> {
        self.opt_text(at, name)?.ok_or_else(|| at.missing(name))
    }

    pub(crate) fn opt_text(
        &mut self,
        at: &At<'_>,
        name: &str,
    ) -> Result<Option<Cow<'a, str>>, Error> {
        self.take(name).map(|raw| text(raw, &at.member(name))).transpose()
    }

    pub(crate) fn opt_bool(&mut self, at: &At<'_>, name: &str) -> Result<Option<bool>, Error> {
        let read = |raw: &RawValue| match raw.get() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(at.member(name).wrong_type("a boolean")),
        };
        self.take(name).map(read).transpose()
    }

    pub(crate) fn opt_count(&mut self, at: &At<'_>, name: &str) -> Result<Option<u64>, Error> {
        let read = |raw: &RawValue| {
            serde_json::from_str(raw.get())
                .map_err(|_| at.member(name).wrong_type("a non-negative integer"))
        };
        self.take(name).map(read).transpose()
    }

    /// A number as its text.
    pub(crate) fn opt_number(
        &mut self,
        at: &At<'_>,
        name: &str,
    ) -> Result<Option<&'a RawValue>, Error> {
        let read = |raw: &'a RawValue| {
            let is_number = raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
            is_number.then_some(raw).ok_or_else(|| at.member(name).wrong_type("a number"))
        };
        self.take(name).map(read).transpose()
    }

    pub(crate) fn opt_object(&mut self, at: &At<'_>, name: &str) -> Result<Option<Self>, Error> {
        self.take(name).map(|raw| Self::read(raw, &at.member(name))).transpose()
    }

    pub(crate) fn opt_array(
        &mut self,
        at: &At<'_>,
        name: &str,
    ) -> Result<Option<Vec<&'a RawValue>>, Error> {
        self.take(name).map(|raw| array(raw, &at.member(name))).transpose()
    }

    pub(crate) fn texts(&mut self, at: &At<'_>, name: &str) -> Result<Vec<Cow<'a, str>>, Error> {
        let list = self.opt_array(at, name)?.unwrap_or_default();
        let at = at.member(name);
        list.into_iter().enumerate().map(|(index, raw)| text(raw, &at.index(index))).collect()
    }

    /// The members that were not taken and are not `null`.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        let members = self.0.iter().filter_map(|(name, raw)| Some((&**name, (*raw)?)));
        members.filter(|(_, raw)| raw.get() != "null")
    }

    /// Takes all members as their names and JSON.
    pub(crate) fn take_all(&mut self) -> Vec<(String, String)> {
        let members = std::mem::take(&mut self.0).into_iter();
        members.filter_map(|(name, raw)| Some((name.into_owned(), raw?.get().to_owned()))).collect()
    }

    /// Writes the members that were not taken.
    pub(crate) fn copy_rest(&self, members: &mut Members<'_>) {
        for (name, raw) in &self.0 {
            members.opt_raw(name, *raw);
        }
    }

    /// Warns about the members that were not taken, and ends the reading.
    pub(crate) fn warn_rest(self, at: &At<'_>, warnings: &mut Warnings) {
        for (name, raw) in &self.0 {
            if raw.is_some_and(|raw| raw.get() != "null") {
                warnings.add(at.member(name).pattern(), "the member has no equal and was left out");
            }
        }
    }

    /// Takes `name` and warns with `reason` if it is there.
    pub(crate) fn warn_about(
        &mut self,
        at: &At<'_>,
        name: &str,
        reason: &'static str,
        warnings: &mut Warnings,
    ) {
        if self.take(name).is_some() {
            warnings.add(at.member(name).pattern(), reason);
        }
    }

    /// Fails with `reason` if `name` is there and is not `false`.
    pub(crate) fn refuse(&mut self, at: &At<'_>, name: &str, reason: &str) -> Result<(), Error> {
        match self.take(name) {
            Some(raw) if raw.get() != "false" => Err(at.member(name).unsupported(reason)),
            _ => Ok(()),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some((name, raw)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push((name.0, Some(raw)));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// `None` if the name has no underscore, or is no name of words in lower case.
fn camel_case(name: &str) -> Option<String> {
    let mut words = name.split('_');
    let first = words.next()?;
    if first.len() == name.len() {
        return None;
    }
    let mut renamed = first.to_owned();
    for word in words {
        let mut letters = word.chars();
        let initial = letters.next().filter(char::is_ascii_alphanumeric)?;
        renamed.push(initial.to_ascii_uppercase());
        renamed.push_str(letters.as_str());
    }
    Some(renamed)
}

/// A member's name, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A string, borrowed where it has no escapes.
pub(crate) fn text<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Cow<'a, str>, Error> {
    if !raw.get().starts_with('"') {
        return Err(at.wrong_type("a string"));
    }
    let name: Name<'a> = serde_json::from_str(raw.get()).map_err(|error| at.invalid(error))?;
    Ok(name.0)
}

pub(crate) fn array<'a>(raw: &'a RawValue, at: &At<'_>) -> Result<Vec<&'a RawValue>, Error> {
    if !raw.get().starts_with('[') {
        return Err(at.wrong_type("an array"));
    }
    serde_json::from_str(raw.get()).map_err(|error| at.invalid(error))
}

pub(crate) fn is_object(json: &str) -> bool {
    json.trim_ascii_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok()
}

/// The text of a stream's member: a string, or nothing of any other type. Servers send `null` for a delta
/// without text, and numbers where names are expected.
#[derive(Debug, Default, Clone)]
pub(crate) struct Lenient<'a>(pub(crate) Option<Cow<'a, str>>);

impl Lenient<'_> {
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Lenient<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Lenient<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Lenient(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Lenient(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Lenient(Some(Cow::Owned(number.to_string()))))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Lenient(Some(Cow::Owned(number.to_string()))))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<serde::de::IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                use serde::de::IgnoredAny;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A count in a stream's member; anything that is no non-negative integer is absent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(raw.get()).ok()))
    }
}

/// A number of tokens. One that is negative, a fraction or beyond `u64` is [`Tokens::NONSENSE`], so that the end of the
/// response names it; anything else than a number is absent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tokens(pub(crate) Option<u64>);

impl Tokens {
    pub(crate) const NONSENSE: u64 = u64::MAX;

    /// A count that is part of another one: not larger, except for nonsense.
    pub(crate) fn part(part: u64, whole: u64) -> u64 {
        if part == Self::NONSENSE { part } else { part.min(whole) }
    }
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let whole = text.strip_suffix(".0").unwrap_or(text);
        Ok(Self(is_number.then(|| whole.parse().unwrap_or(Self::NONSENSE))))
    }
}

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_str(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// Appends `text` as the inside of a JSON string.
pub(crate) fn push_escaped(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[copied..at]);
        copied = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                out.push_str("\\u00");
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    out.push_str(&text[copied..]);
}

/// Appends a number without an allocation.
pub(crate) fn push_number(out: &mut String, number: u64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        // One digit.
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

/// Writes the members of an object.
pub(crate) struct Members<'o> {
    out: &'o mut String,
    is_first: bool,
}

impl Members<'_> {
    fn begin(&mut self, name: &str) {
        if !self.is_first {
            self.out.push(',');
        }
        self.is_first = false;
        push_str(self.out, name);
        self.out.push(':');
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.begin(name);
        push_str(self.out, text);
    }

    pub(crate) fn opt_text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    /// A member whose value is ready JSON.
    pub(crate) fn raw(&mut self, name: &str, json: &str) {
        self.begin(name);
        self.out.push_str(json);
    }

    pub(crate) fn opt_raw(&mut self, name: &str, json: Option<&RawValue>) {
        if let Some(json) = json {
            self.raw(name, json.get());
        }
    }

    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.begin(name);
        push_number(self.out, number);
    }

    pub(crate) fn bool(&mut self, name: &str, value: bool) {
        self.raw(name, if value { "true" } else { "false" });
    }

    pub(crate) fn object(&mut self, name: &str, write: impl FnOnce(&mut Members<'_>)) {
        self.begin(name);
        object(self.out, write);
    }

    pub(crate) fn array(&mut self, name: &str, write: impl FnOnce(&mut Elements<'_>)) {
        self.begin(name);
        array_of(self.out, write);
    }

    pub(crate) fn texts(&mut self, name: &str, texts: &[impl AsRef<str>]) {
        self.array(name, |list| texts.iter().for_each(|text| list.text(text.as_ref())));
    }
}

/// Appends an object.
pub(crate) fn object(out: &mut String, write: impl FnOnce(&mut Members<'_>)) {
    out.push('{');
    write(&mut Members { out, is_first: true });
    out.push('}');
}

/// Writes the elements of an array.
pub(crate) struct Elements<'o> {
    out: &'o mut String,
    is_first: bool,
}

impl Elements<'_> {
    fn begin(&mut self) {
        if !self.is_first {
            self.out.push(',');
        }
        self.is_first = false;
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.begin();
        push_str(self.out, text);
    }

    pub(crate) fn raw(&mut self, json: &str) {
        self.begin();
        self.out.push_str(json);
    }

    pub(crate) fn object(&mut self, write: impl FnOnce(&mut Members<'_>)) {
        self.begin();
        object(self.out, write);
    }
}

pub(crate) fn array_of(out: &mut String, write: impl FnOnce(&mut Elements<'_>)) {
    out.push('[');
    write(&mut Elements { out, is_first: true });
    out.push(']');
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_str(&mut out, text);
    out
}
