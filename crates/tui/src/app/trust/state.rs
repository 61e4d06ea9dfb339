//! The known facts about trust. `A` is what goes on when the user has answered.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ConfigWarningNotification;

/// The known facts about trust.
#[derive(Debug)]
pub(crate) struct Trust<A> {
    /// Working folders that were looked at.
    pub(crate) checked: BTreeSet<String>,
    /// Warnings of the configuration, until it is known which of them become a question.
    pub(crate) warnings: Vec<ConfigWarningNotification>,
    /// Folders that the question is about, with what they have.
    pub(crate) found: BTreeMap<String, Vec<usize>>,
    /// Answers that are still to come.
    pub(crate) pending: usize,
    pub(crate) then: Option<fn(&mut A)>,
}

impl<A> Default for Trust<A> {
    fn default() -> Self {
        Self {
            checked: BTreeSet::new(),
            warnings: Vec::new(),
            found: BTreeMap::new(),
            pending: 0,
            then: None,
        }
    }
}

impl<A> Trust<A> {
    /// The connection is lost: what was asked gets no answer.
    pub(crate) fn reset(&mut self) {
        *self = Self { checked: std::mem::take(&mut self.checked), ..Self::default() };
    }
}
