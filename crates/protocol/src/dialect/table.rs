//! The form of a dialect's table. In every pair our name comes first.

/// Our name and the other one.
pub(super) type Names = (&'static str, &'static str);

/// A dialect, as data.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Version of the protocol in the user agent.
    pub(super) protocol_version: &'static str,
    pub(super) home_variable: &'static str,
    pub(super) key_variable: &'static str,
    /// True if `thread/resume` and `thread/fork` return turns unless `excludeTurns` is set.
    pub(super) turns_with_thread: bool,
    pub(super) methods: &'static [Names],
    /// Keys of configuration overrides on the command line.
    pub(super) config_keys: &'static [Names],
    pub(super) types: &'static [TypeTable],
}

/// The differences of one type of the schema. A name belongs to a type if it stands in the type's own
/// schema, not in a type that it refers to.
#[derive(Debug)]
pub(super) struct TypeTable {
    pub(super) name: &'static str,
    pub(super) members: &'static [Names],
    /// Values of enumerations, and of the members that tell variants apart.
    pub(super) values: &'static [Names],
    /// Values that only messages of clients have, and the one of ours that they mean.
    pub(super) also: &'static [Names],
    /// Members that newer clients send and this server does not have. They are left out, so they must not decide
    /// a permission.
    pub(super) left_out: &'static [&'static str],
    /// Members with a path that may be relative to the folder in which the server was started.
    pub(super) relative: &'static [&'static str],
}

impl TypeTable {
    pub(super) const EMPTY: Self =
        Self { name: "", members: &[], values: &[], also: &[], left_out: &[], relative: &[] };
}

/// A type with other names of members.
pub(super) const fn members(name: &'static str, members: &'static [Names]) -> TypeTable {
    TypeTable { name, members, ..TypeTable::EMPTY }
}

/// A type with other values.
pub(super) const fn values(name: &'static str, values: &'static [Names]) -> TypeTable {
    TypeTable { name, values, ..TypeTable::EMPTY }
}

/// Parameters for which newer clients send more members than this server has.
pub(super) const fn left_out(name: &'static str, left_out: &'static [&'static str]) -> TypeTable {
    TypeTable { name, left_out, ..TypeTable::EMPTY }
}

impl Table {
    pub(super) fn of_type(&self, name: &str) -> Option<&'static TypeTable> {
        self.types.iter().find(|entry| entry.name == name)
    }
}

/// The other name in these pairs.
pub(super) fn theirs(pairs: &[Names], ours: &str) -> Option<&'static str> {
    pairs.iter().find(|(name, _)| *name == ours).map(|(_, theirs)| *theirs)
}
