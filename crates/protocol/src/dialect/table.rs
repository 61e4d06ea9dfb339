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
}

/// A type with other names of members.
pub(super) const fn members(name: &'static str, members: &'static [Names]) -> TypeTable {
    TypeTable { name, members, values: &[] }
}

/// A type with other values.
pub(super) const fn values(name: &'static str, values: &'static [Names]) -> TypeTable {
    TypeTable { name, members: &[], values }
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
