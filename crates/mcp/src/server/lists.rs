//! Lists of resources and prompts that are kept for as long as their server allows (`ttlMs`), unless it
//! reports a change. Their `cacheScope` needs no check: only holders of one identity share a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// Longest list that is kept, in bytes of JSON; a longer one is requested each time.
const MAX_BYTES: usize = 4 << 20;
/// Longest time that a list is kept.
pub(crate) const MAX_AGE: Duration = Duration::from_hours(1);

/// The lists that clients see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    Resources,
    ResourceTemplates,
    Prompts,
}

impl List {
    /// The member of an answer that has the entries.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }
}

/// The cached lists of one server.
#[derive(Default)]
pub(crate) struct Lists {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    lists: BTreeMap<List, (Arc<[Value]>, Instant)>,
    /// Counts the changes that the server reported.
    changes: u64,
}

impl Lists {
    /// A list that is still fresh.
    pub(super) fn get(&self, list: List) -> Option<Arc<[Value]>> {
        let kept = self.lock();
        let (entries, until) = kept.lists.get(&list)?;
        (Instant::now() < *until).then(|| entries.clone())
    }

    /// The number of changes before a list is requested, for [`Lists::keep`].
    pub(super) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Keeps a list for `age`, unless the server has reported a change since the list was requested.
    pub(super) fn keep(&self, list: List, entries: &[Value], age: Duration, changes: u64) {
        let bytes: usize = entries.iter().map(|entry| entry.to_string().len()).sum();
        let mut kept = self.lock();
        if age.is_zero() || bytes > MAX_BYTES || kept.changes != changes {
            kept.lists.remove(&list);
            return;
        }
        kept.lists.insert(list, (entries.into(), Instant::now() + age.min(MAX_AGE)));
    }

    /// These lists have changed.
    pub(crate) fn forget(&self, lists: &[List]) {
        let mut kept = self.lock();
        kept.changes += 1;
        kept.lists.retain(|list, _| !lists.contains(list));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
