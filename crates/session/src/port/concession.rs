//! Parts of requests that a provider refused, and that a thread's requests do without.

/// One thing that requests do without. They are applied in this order, so that the later ones see what the earlier
/// ones wrote.
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
    /// A member of the definitions of tools: a path such as `strict`, or `parameters.pattern` for a keyword of
    /// their schemas, wherever it is.
    ToolMember(String),
    /// Messages of the model become marked messages of the user.
    AnswersAsQuotes,
    /// As [`Self::SystemMessages`] and [`Self::MergedMessages`].
    AlternatingRoles,
    /// Messages of one role in a row become one.
    MergedMessages,
    /// A message of the user follows one of the model at the end.
    UserAtEnd,
    /// Texts without characters become a word.
    NoEmptyTexts,
    /// Messages of the model have a member for their reasoning.
    ReasoningMember,
    /// Items have the members that the API gives them: ids, states, annotations.
    AllMembers,
    /// Messages and outputs that have only text have it as one text.
    PlainTexts,
}

/// A concession to the provider with an id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conceded {
    pub provider: String,
    pub concession: Concession,
}
