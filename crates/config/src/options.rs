//! The macros of the option table. One line of a struct defines a key: its type, default, scope,
//! effect and documentation.

/// Defines a table of keys: the type that it resolves to, and the [`crate::kind::Section`] that
/// checks, describes and documents it.
///
/// ```text
/// options! {
///     /// Documentation of the table.
///     pub struct History {
///         /// Documentation of the key.
///         max_bytes: Option<Bytes>, scope::USER, Effect::Active;
///         /// A key whose name is not an identifier, with a default.
///         log_dir as "log-dir": String = "log".to_owned(), scope::ANY, Effect::Pending("logs");
///         rest {
///             /// What other names hold, by the pattern of their names.
///             others as "<id>": Exporter, scope::ANY, Effect::Group;
///         }
///     }
/// }
/// ```
macro_rules! options {
    (
        $(#[doc = $about:literal])+
        $(#[part($part:literal)])?
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident $(as $key:literal)? : $ty:ty $(= $default:expr)?, $scope:expr, $effect:expr;
            )*
            $(rest {
                $(#[doc = $rest_doc:literal])+
                $rest:ident as $pattern:literal : $rest_ty:ty, $rest_scope:expr, $rest_effect:expr;
            })?
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Name {
            $($(#[doc = $doc])+ pub $field: $ty,)*
            $($(#[doc = $rest_doc])+ pub $rest: std::collections::BTreeMap<String, $rest_ty>,)?
        }

        impl $Name {
            /// The keys of this table.
            pub const SECTION: &'static $crate::kind::Section = &$crate::kind::Section {
                entries: &[$(
                    $crate::kind::OptionEntry {
                        name: $crate::options::key!($field $($key)?),
                        doc: concat!($($doc, "\n"),+),
                        kind: <$ty as $crate::kind::Setting>::KIND,
                        default: || $crate::options::shown!($ty $(, $default)?),
                        scope: $scope,
                        effect: $effect,
                    },
                )*],
                rest: $crate::options::rest!($(
                    $crate::kind::OptionEntry {
                        name: $pattern,
                        doc: concat!($($rest_doc, "\n"),+),
                        kind: <$rest_ty as $crate::kind::Setting>::KIND,
                        default: || None,
                        scope: $rest_scope,
                        effect: $rest_effect,
                    }
                )?),
            };

            /// Reads a checked table.
            #[allow(unused_variables, clippy::redundant_closure_call)]
            pub(crate) fn from_table(
                table: &$crate::value::Table,
                cx: &$crate::kind::ReadContext<'_>,
            ) -> Result<Self, $crate::error::Error> {
                Ok(Self {
                    $($field: match table.get($crate::options::key!($field $($key)?)) {
                        Some(node) if node.value != $crate::value::Value::Unset => {
                            <$ty as $crate::kind::Setting>::read(node, cx)?
                        }
                        _ => $crate::options::absent!($ty $(, $default)?),
                    },)*
                    $($rest: $crate::options::read_rest::<$rest_ty>(table, Self::SECTION, cx)?,)?
                })
            }
        }

        impl $crate::kind::Setting for $Name {
            const KIND: $crate::kind::Kind = $crate::kind::Kind::Table(Self::SECTION);
            $(const PART: &'static str = $part;)?

            fn absent() -> Option<Self> {
                let cx = $crate::kind::ReadContext {
                    cwd: std::path::Path::new("/"),
                    user_home: None,
                };
                Self::from_table(&$crate::value::Table::new(), &cx).ok()
            }

            fn read(
                node: &$crate::value::Node,
                cx: &$crate::kind::ReadContext<'_>,
            ) -> Result<Self, $crate::error::Error> {
                Self::from_table($crate::kind::table(node)?, cx)
            }

            fn show(&self) -> Option<serde_json::Value> {
                let mut shown = serde_json::Map::new();
                $(if let Some(value) = $crate::kind::Setting::show(&self.$field) {
                    shown.insert($crate::options::key!($field $($key)?).to_owned(), value);
                })*
                $(for (name, value) in &self.$rest {
                    if let Some(value) = $crate::kind::Setting::show(value) {
                        shown.insert(name.clone(), value);
                    }
                })?
                Some(serde_json::Value::Object(shown))
            }
        }
    };
}

/// Defines an enumeration with the names used in configuration files.
macro_rules! choices {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every name, in the specification's order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The value with exactly this name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The name used in configuration files.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl $crate::kind::Setting for $name {
            const KIND: $crate::kind::Kind = $crate::kind::Kind::Choice(Self::NAMES, &[]);

            fn read(
                node: &$crate::value::Node,
                _: &$crate::kind::ReadContext<'_>,
            ) -> Result<Self, $crate::error::Error> {
                match &node.value {
                    $crate::value::Value::Text(name) => Self::parse(name),
                    _ => None,
                }
                .ok_or_else(|| $crate::kind::unexpected_value(node))
            }

            fn show(&self) -> Option<serde_json::Value> {
                Some(self.as_str().into())
            }
        }
    };
}

macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

macro_rules! shown {
    ($ty:ty) => {
        None
    };
    ($ty:ty, $default:expr) => {{
        let default: $ty = $default;
        $crate::kind::Setting::show(&default)
    }};
}

macro_rules! absent {
    ($ty:ty) => {
        <$ty as $crate::kind::Setting>::absent()
            .expect("a key without a default has a type with a natural empty value")
    };
    ($ty:ty, $default:expr) => {
        $default
    };
}

macro_rules! rest {
    () => {
        None
    };
    ($entry:expr) => {
        Some(&$entry)
    };
}

pub(crate) use {absent, choices, key, options, rest, shown};

use std::collections::BTreeMap;

use crate::error::Error;
use crate::kind::{ReadContext, Section, Setting};
use crate::value::{Table, Value};

/// Reads the entries of `table` that are not fixed keys of `section`.
pub(crate) fn read_rest<T: Setting>(
    table: &Table,
    section: &Section,
    cx: &ReadContext<'_>,
) -> Result<BTreeMap<String, T>, Error> {
    let fixed = |name: &str| section.entries.iter().any(|entry| entry.name == name);
    let pattern = section.rest.map(|rest| rest.name).unwrap_or_default();
    table
        .iter()
        .filter(|(name, node)| {
            !fixed(name)
                && crate::kind::matches_pattern(pattern, name)
                && node.value != Value::Unset
        })
        .map(|(name, node)| Ok((name.clone(), T::read(node, cx)?)))
        .collect()
}
