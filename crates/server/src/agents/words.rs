//! What users wrote in the threads at the roots of trees, for the reviewers of what their agents do.
//! It is followed from a root's first call of another agent on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// See the module.
#[derive(Default)]
pub(crate) struct WordsOfRoots(Mutex<HashMap<String, watch::Sender<Option<Arc<str>>>>>);

impl WordsOfRoots {
    /// Those of a root, for one of its agents: JSON, once the root has published them.
    pub(crate) fn follow(&self, root: &str) -> watch::Receiver<Option<Arc<str>>> {
        let mut receiver = self.roots().entry(root.to_owned()).or_default().subscribe();
        receiver.mark_changed();
        receiver
    }

    /// Publishes those of a root.
    pub(crate) fn publish(&self, root: &str, words: Arc<str>) {
        self.roots().entry(root.to_owned()).or_default().send_replace(Some(words));
    }

    /// A thread is no longer loaded. Agents that still are keep what they know, and learn more when
    /// the root is loaded again.
    pub(super) fn forget(&self, id: &str) {
        self.roots().retain(|root, words| root != id || words.receiver_count() > 0);
    }

    fn roots(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Option<Arc<str>>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_keeps_and_follows_the_words_of_its_root() {
        let words = WordsOfRoots::default();
        let mut early = words.follow("root");
        words.publish("root", "1".into());
        words.forget("root");
        words.publish("root", "2".into());
        let mut late = words.follow("root");
        for receiver in [&mut early, &mut late] {
            assert!(receiver.has_changed().unwrap());
            assert_eq!(receiver.borrow_and_update().as_deref(), Some("2"));
            assert!(!receiver.has_changed().unwrap());
        }
        drop((early, late));
        words.forget("root");
        assert!(words.roots().is_empty());
    }
}
