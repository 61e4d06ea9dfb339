//! What is known about trust. `A` is what goes on when the user has answered.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ConfigWarningNotification;

/// What is known about trust.
#[derive(Debug)]
pub(in crate::app) struct Trust<A> {
    /// Working folders that were looked at.
    pub(super) checked: BTreeSet<String>,
    /// Warnings of the configuration, until it is known which of them become a question.
    pub(super) warnings: Vec<ConfigWarningNotification>,
    /// Folders that the question is about, with what they have.
    pub(super) found: BTreeMap<String, Vec<usize>>,
    /// Answers that are still to come.
    pub(super) pending: usize,
    pub(super) then: Option<fn(&mut A)>,
    /// Reads the configuration again, after it was changed.
    pub(super) reload: Option<fn(&mut A)>,
}

impl<A> Default for Trust<A> {
    fn default() -> Self {
        Self {
            checked: BTreeSet::new(),
            warnings: Vec::new(),
            found: BTreeMap::new(),
            pending: 0,
            then: None,
            reload: None,
        }
    }
}

impl<A> Trust<A> {
    /// The connection is lost: what was asked gets no answer.
    pub(in crate::app) fn reset(&mut self) {
        *self = Self { checked: std::mem::take(&mut self.checked), ..Self::default() };
    }
}
