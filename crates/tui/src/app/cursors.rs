//! The places at which the pages of a list of threads begin.

/// Where each page begins, as far as that is known, for the search with this token.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    pub(super) token: u64,
    pub(super) pages: Vec<Begin>,
}

/// A place among the rows of both sources of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Threads by name and first message, from the cursor on.
    Listed(Option<String>),
    /// Threads by what was said in them, from the cursor on.
    Said(Option<String>),
}
