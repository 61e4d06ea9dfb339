//! Skills of an input that need more than their texts: the driver knows what, the user gives it.

/// A skill that an input uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedSkill {
    /// Its name.
    pub name: String,
    /// Its definition file.
    pub path: String,
}
