//! Parts of requests that a provider refused, and that a thread's requests do without.

/// One thing that requests do without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concession {
    /// Reasoning that the history had by then: so many items of it.
    EarlierReasoning(usize),
    /// All reasoning.
    Reasoning,
    /// Images become notes.
    Images,
    /// Tools of other types than `function`.
    ToolTypes,
    /// Messages of the system and the developer become part of the instructions, and later ones of the user's.
    SystemMessages,
    /// The ids of items.
    Ids,
    /// Call ids are nine letters and digits.
    CallIds,
    /// A member of items, or of their parts: a path such as `content.annotations`.
    Member(String),
    /// A member of the request.
    Parameter(String),
    /// Items of a type. Calls and their outputs become text.
    ItemType(String),
    /// Calls of a tool, and their outputs, become text.
    CallsOf(String),
}

/// A concession to the provider with an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conceded {
    pub provider: String,
    pub concession: Concession,
}
