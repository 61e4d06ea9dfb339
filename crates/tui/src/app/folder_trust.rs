//! The known facts about trust. `A` is what goes on when the user has answered.

use std::collections::{BTreeMap, BTreeSet};

use protocol::ConfigWarningNotification;

/// The folders in question, and the question that is open.
#[derive(Debug)]
pub(super) struct Trust<A> {
    /// Working folders that were looked at.
    checked: BTreeSet<String>,
    /// Warnings of the configuration, until it is known which of them become a question.
    warnings: Vec<ConfigWarningNotification>,
    /// Folders that the question is about, with what they have.
    found: BTreeMap<String, Vec<usize>>,
    /// Answers that are still to come.
    pending: usize,
    then: Option<fn(&mut A)>,
    /// Reads the configuration again, after it was changed.
    reload: Option<fn(&mut A)>,
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
    /// Keeps a warning of the configuration.
    pub(super) fn keep_warning(&mut self, warning: ConfigWarningNotification) {
        self.warnings.push(warning);
    }

    /// Takes out the warnings that are not part of the question.
    pub(super) fn take_warnings(&mut self) -> Vec<ConfigWarningNotification> {
        let mut warnings = std::mem::take(&mut self.warnings);
        let found = &self.found;
        warnings.retain(|it| !it.path.as_ref().is_some_and(|path| found.contains_key(path)));
        warnings
    }

    /// Notes that the working folder is looked at. Returns whether that is the first time.
    pub(super) fn look_at(&mut self, cwd: String) -> bool {
        self.checked.insert(cwd)
    }

    /// True if the folder was looked at, or if a question is open, which comes first.
    pub(super) fn is_settled(&self, cwd: &str) -> bool {
        self.checked.contains(cwd) || !self.found.is_empty()
    }

    /// The folders that the question is about.
    pub(super) fn set_folders(&mut self, folders: &[String]) {
        self.found = folders.iter().map(|it| (it.clone(), Vec::new())).collect();
    }

    /// So many parts of the folders are looked for; `then` goes on after the question, and `reload` reads the
    /// configuration again if it was changed.
    pub(super) fn expect(&mut self, parts: usize, then: fn(&mut A), reload: fn(&mut A)) {
        (self.pending, self.then, self.reload) = (parts, Some(then), Some(reload));
    }

    /// Notes a part of a folder, if it is there. Returns whether it was the last one that was looked for.
    pub(super) fn part_known(&mut self, folder: &str, part: usize, is_there: bool) -> bool {
        if is_there && let Some(parts) = self.found.get_mut(folder) {
            let at = parts.partition_point(|other| *other < part);
            parts.insert(at, part);
        }
        self.pending -= 1;
        self.pending == 0
    }

    /// The folders with the parts that they have, in order.
    pub(super) fn found(&self) -> &BTreeMap<String, Vec<usize>> {
        &self.found
    }

    /// The question is answered.
    pub(super) fn take_folders(&mut self) -> Vec<String> {
        std::mem::take(&mut self.found).into_keys().collect()
    }

    pub(super) fn reload(&self) -> Option<fn(&mut A)> {
        self.reload
    }

    pub(super) fn take_then(&mut self) -> Option<fn(&mut A)> {
        self.then.take()
    }

    /// The connection is lost: what was asked gets no answer.
    pub(super) fn reset(&mut self) {
        *self = Self { checked: std::mem::take(&mut self.checked), ..Self::default() };
    }
}
