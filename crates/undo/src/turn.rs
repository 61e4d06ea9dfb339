//! Whose changes are recorded.

/// A turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The thread at the root of the agents that work together; `thread` where it works alone.
    pub tree: String,
    pub thread: String,
    pub turn: String,
}

/// Whose changes: those of a whole tree of agents, or of one thread of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'s> {
    pub(crate) tree: &'s str,
    pub(crate) thread: Option<&'s str>,
}

impl<'s> Scope<'s> {
    /// Returns the scope of going back to the beginning of `turn`.
    pub(crate) fn of(turn: &'s Turn) -> Self {
        let thread = (turn.thread != turn.tree).then_some(&*turn.thread);
        Self { tree: &turn.tree, thread }
    }

    pub(crate) fn contains(&self, turn: &Turn) -> bool {
        turn.tree == self.tree && self.thread.is_none_or(|thread| thread == turn.thread)
    }
}
