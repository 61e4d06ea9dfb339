//! Describes the keys of the option table, and the types that their values resolve to. Does not
//! know any key by name.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;

use crate::error::{Error, Invalid};
use crate::origin::Origin;
use crate::renamed::written_key;
use crate::value::{Node, Table, Value};

/// One key of the option table.
#[derive(Debug)]
pub struct OptionEntry {
    /// Its part of the path, as written in a file.
    pub name: &'static str,
    /// Description of the key, as Markdown of one or more lines.
    pub doc: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The default as JSON; `None` if the key has none.
    pub default: fn() -> Option<Json>,
    /// Where the key may be set, and when a change takes effect: a union of [`scope`] flags.
    pub scope: u8,
    /// The effect of setting it.
    pub effect: Effect,
}

/// Flags of [`OptionEntry::scope`].
pub mod scope {
    /// Every file, profile, flag and thread may set it; a change takes effect in the next turn.
    pub const ANY: u8 = 0;
    /// A project's file may not set it: it concerns the user or the machine.
    pub const USER: u8 = 1;
    /// A change takes effect at the next start of the server.
    pub const RESTART: u8 = 2;
    /// `requirements.toml` can constrain it.
    pub const PINNABLE: u8 = 4;
}

/// The effect of setting a key, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It has one. A test of the crate that implements it names the key in a comment
    /// (``// Effect of `key`.``); `xtask` collects these comments.
    Active,
    /// It has none until the program has this part. Setting the key gives a warning.
    Pending(&'static str),
    /// The key is a group of keys, each with its own effect.
    Group,
}

/// The kind of a key's value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number within these bounds, both included.
    Whole {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A time in a unit of so many milliseconds, within these bounds in that unit, both included. It
    /// may have a fraction, which is kept to the millisecond.
    Time {
        /// Milliseconds of the unit.
        unit_ms: u64,
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Any string.
    Text,
    /// A string that starts with `http://` or `https://` and a host.
    Url,
    /// A UUID in its usual form.
    Uuid,
    /// A name of an agent: 1 to 64 visible characters, and no id of a thread.
    Nickname,
    /// A country code of two letters.
    Country,
    /// A name of the IANA time zone database, as far as its form and its area show it.
    TimeZone,
    /// The name of a host.
    Host,
    /// A path, relative to the folder of the file that sets it.
    Path,
    /// One of the names in the first list; those in the second are accepted as well.
    Choice(&'static [&'static str], &'static [&'static str]),
    /// An array.
    List(&'static Kind),
    /// A table from names to values of one kind, and the placeholder for such a name.
    Map(&'static str, &'static Kind),
    /// A table with these keys.
    Table(&'static Section),
    /// The first of these kinds that accepts the value.
    Either(&'static [Kind]),
    /// A profile: the keys of the root that a profile may set.
    Profile,
}

/// The keys of a table.
#[derive(Debug)]
pub struct Section {
    /// The fixed keys, in the order of the documentation.
    pub entries: &'static [OptionEntry],
    /// The entry for all other names.
    pub rest: Option<&'static OptionEntry>,
}

impl Section {
    /// The entry of this name: a fixed key, or the pattern that the name matches.
    pub fn entry(&self, name: &str) -> Option<&'static OptionEntry> {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .or_else(|| self.rest.filter(|rest| matches_pattern(rest.name, name)))
    }
}

/// Returns whether `name` matches `pattern`, in which `<…>` stands for any text.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (Some((start, _)), Some((_, end))) = (pattern.split_once('<'), pattern.rsplit_once('>'))
    else {
        return pattern == name;
    };
    name.len() > start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
}

/// The base for relative paths.
pub(crate) struct ReadContext<'r> {
    /// Base of the relative paths of the command line and of threads.
    pub(crate) cwd: &'r std::path::Path,
    /// The folder that `~/` expands to.
    pub(crate) user_home: Option<PathBuf>,
}

impl ReadContext<'_> {
    /// Makes `text` an absolute path. `~/` is the user's home; a relative path starts at the folder
    /// of the file that contains it.
    pub(crate) fn absolute(&self, text: &str, origin: &Origin) -> PathBuf {
        if let (Some(rest), Some(home)) = (text.strip_prefix("~/"), &self.user_home) {
            return home.join(rest);
        }
        match origin.path() {
            Some(path) => path.parent().unwrap_or(self.cwd).join(text),
            None => self.cwd.join(text),
        }
    }
}

/// A type that the value of a key resolves to.
pub(crate) trait Setting: Sized {
    const KIND: Kind;
    /// Placeholder of the name in a map of these.
    const PART: &'static str = "<name>";
    /// The value of a key that is not set, for types that have a natural one.
    fn absent() -> Option<Self> {
        None
    }
    /// Reads a node that was checked against [`Self::KIND`].
    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error>;
    /// The value in the form of a file; `None` for an absent one.
    fn show(&self) -> Option<Json>;
}

/// A whole number within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// `n`, clamped to the bounds.
    pub const fn new(n: u64) -> Self {
        Self(if n < MIN {
            MIN
        } else if n > MAX {
            MAX
        } else {
            n
        })
    }
}

impl<const MIN: u64, const MAX: u64> Deref for Whole<MIN, MAX> {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.0
    }
}

/// A time, written as a number of units of `UNIT_MS` milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time<const UNIT_MS: u64, const MIN: u64, const MAX: u64>(u64);

impl<const UNIT_MS: u64, const MIN: u64, const MAX: u64> Time<UNIT_MS, MIN, MAX> {
    /// `n` units, clamped to the bounds.
    pub const fn new(n: u64) -> Self {
        Self(Whole::<MIN, MAX>::new(n).0 * UNIT_MS)
    }

    /// The time.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The time in milliseconds.
    pub const fn milliseconds(self) -> u64 {
        self.0
    }
}

/// The milliseconds of a checked number of units. A fraction of a millisecond is rounded up: a time
/// that is not zero never becomes none.
fn milliseconds(value: &Value, unit_ms: u64) -> Option<u64> {
    match value {
        Value::Integer(n) => u64::try_from(*n).ok()?.checked_mul(unit_ms),
        // At most a few weeks, far below the 2^53 up to which a float is exact. A product such as
        // 2.3 * 1000 may end a little above the whole number.
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        value => value.float().map(|n| (n * unit_ms as f64 - 1e-6).ceil().max(0.0) as u64),
    }
}

/// Defines a type for strings of a certain form.
macro_rules! formed {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub String);

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Setting for $name {
            const KIND: Kind = $kind;

            fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
                String::read(node, cx).map(Self)
            }

            fn show(&self) -> Option<Json> {
                Some(self.0.as_str().into())
            }
        }
    };
}

formed! {
    /// An address that starts with `http://` or `https://`.
    Url, Kind::Url
}
formed! {
    /// A UUID.
    Uuid, Kind::Uuid
}
formed! {
    /// A name of an agent.
    Nickname, Kind::Nickname
}
formed! {
    /// A country code of two letters.
    Country, Kind::Country
}
formed! {
    /// The name of a time zone.
    TimeZone, Kind::TimeZone
}
formed! {
    /// The name of a host.
    Host, Kind::Host
}

/// Most characters of a [`Nickname`].
pub(crate) const MAX_NICKNAME: usize = 64;

impl Setting for bool {
    const KIND: Kind = Kind::Boolean;

    fn read(node: &Node, _: &ReadContext<'_>) -> Result<Self, Error> {
        match node.value {
            Value::Boolean(b) => Ok(b),
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        Some((*self).into())
    }
}

impl<const MIN: u64, const MAX: u64> Setting for Whole<MIN, MAX> {
    const KIND: Kind = Kind::Whole { min: MIN, max: MAX };

    fn read(node: &Node, _: &ReadContext<'_>) -> Result<Self, Error> {
        match node.value {
            Value::Integer(n) => {
                u64::try_from(n).map(Self::new).map_err(|_| unexpected_value(node))
            }
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        Some(self.0.into())
    }
}

impl<const UNIT_MS: u64, const MIN: u64, const MAX: u64> Setting for Time<UNIT_MS, MIN, MAX> {
    const KIND: Kind = Kind::Time { unit_ms: UNIT_MS, min: MIN, max: MAX };

    fn read(node: &Node, _: &ReadContext<'_>) -> Result<Self, Error> {
        milliseconds(&node.value, UNIT_MS).map(Self).ok_or_else(|| unexpected_value(node))
    }

    fn show(&self) -> Option<Json> {
        if self.0.is_multiple_of(UNIT_MS) {
            return Some((self.0 / UNIT_MS).into());
        }
        // Bounds keep it far below 2^53.
        #[allow(clippy::cast_precision_loss)]
        Some((self.0 as f64 / UNIT_MS as f64).into())
    }
}

impl Setting for String {
    const KIND: Kind = Kind::Text;

    fn read(node: &Node, _: &ReadContext<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        Some(self.as_str().into())
    }
}

impl Setting for PathBuf {
    const KIND: Kind = Kind::Path;

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Text(text) => Ok(cx.absolute(text, &node.origin)),
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        Some(self.to_string_lossy().into_owned().into())
    }
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        T::read(node, cx).map(Some)
    }

    fn show(&self) -> Option<Json> {
        self.as_ref().and_then(T::show)
    }
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);

    fn absent() -> Option<Self> {
        Some(Vec::new())
    }

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        match &node.value {
            Value::Array(all) => all.iter().map(|one| T::read(one, cx)).collect(),
            _ => Err(unexpected_value(node)),
        }
    }

    fn show(&self) -> Option<Json> {
        Some(self.iter().filter_map(T::show).collect())
    }
}

impl<T: Setting> Setting for BTreeMap<String, T> {
    const KIND: Kind = Kind::Map(T::PART, &T::KIND);

    fn absent() -> Option<Self> {
        Some(BTreeMap::new())
    }

    fn read(node: &Node, cx: &ReadContext<'_>) -> Result<Self, Error> {
        let mut read = BTreeMap::new();
        for (name, inner) in table(node)? {
            if inner.value != Value::Unset {
                read.insert(name.clone(), T::read(inner, cx)?);
            }
        }
        Ok(read)
    }

    fn show(&self) -> Option<Json> {
        let mut shown = serde_json::Map::new();
        // One after the other: `collect` compiles a sort for each type of value.
        for (name, value) in self {
            if let Some(value) = value.show() {
                shown.insert(name.clone(), value);
            }
        }
        Some(Json::Object(shown))
    }
}

/// The table in `node`.
pub(crate) fn table(node: &Node) -> Result<&Table, Error> {
    match &node.value {
        Value::Table(table) => Ok(table),
        _ => Err(unexpected_value(node)),
    }
}

/// The error about a value of the wrong kind. Layers are checked before they are read, so a file
/// cannot cause it.
pub(crate) fn unexpected_value(node: &Node) -> Error {
    if let Value::Wrong(wrong) = &node.value {
        return Error::Invalid(Box::new(wrong.1.clone()));
    }
    Error::Invalid(Box::new(invalid(node, "", "a value of its key's kind", None)))
}

/// Says that `key` does not accept the value of `node`.
pub(crate) fn invalid(
    node: &Node,
    key: &str,
    expected: &str,
    suggestion: Option<String>,
) -> Invalid {
    Invalid {
        origin: node.origin.clone(),
        key: written_key(key, &node.origin),
        expected: expected.to_owned(),
        found: node.value.describe(),
        suggestion,
    }
}
