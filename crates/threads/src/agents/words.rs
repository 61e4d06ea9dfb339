//! The users' messages in the threads at the roots of trees, for the reviewers of their agents'
//! actions. A root that is loaded publishes it from its first call of another agent on, and while
//! an agent follows it. Otherwise the store has it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The users' messages in the threads at the roots of trees.
#[derive(Default)]
pub struct WordsOfRoots(Mutex<HashMap<String, Root>>);

/// One root.
#[derive(Default)]
struct Root {
    words: watch::Sender<Option<Arc<str>>>,
    /// Its loaded thread has published them, and goes on to.
    is_live: bool,
}

impl WordsOfRoots {
    /// Those of a root, for one of its agents: JSON, once they are known.
    pub fn follow(&self, root: &str) -> watch::Receiver<Option<Arc<str>>> {
        let mut receiver = self.roots().entry(root.to_owned()).or_default().words.subscribe();
        receiver.mark_changed();
        receiver
    }

    /// Returns whether an agent follows a root.
    pub(crate) fn is_followed(&self, root: &str) -> bool {
        self.roots().get(root).is_some_and(|root| root.words.receiver_count() > 0)
    }

    /// Publishes those of a loaded root.
    pub(crate) fn publish(&self, root: &str, words: Arc<str>) {
        let mut roots = self.roots();
        let root = roots.entry(root.to_owned()).or_default();
        root.is_live = true;
        root.words.send_replace(Some(words));
    }

    /// Returns whether the store has to be read for those of a root.
    pub(super) fn needs_stored(&self, root: &str) -> bool {
        !self.roots().get(root).is_some_and(|root| root.is_live)
    }

    /// Publishes what the store had of a root, unless the root has published more since.
    pub(super) fn publish_stored(&self, root: &str, words: Arc<str>) {
        let mut roots = self.roots();
        let root = roots.entry(root.to_owned()).or_default();
        if !root.is_live {
            root.words.send_replace(Some(words));
        }
    }

    /// A thread is no longer loaded. Agents that still are keep what they know until they read the
    /// store, and learn more when the root is loaded again.
    pub(super) fn forget(&self, id: &str) {
        let mut roots = self.roots();
        if let Some(root) = roots.get_mut(id) {
            root.is_live = false;
        }
        roots.retain(|_, root| root.is_live || root.words.receiver_count() > 0);
    }

    fn roots(&self) -> MutexGuard<'_, HashMap<String, Root>> {
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
        assert!(words.is_followed("root"));
        drop((early, late));
        assert!(!words.is_followed("root"));
        words.forget("root");
        assert!(words.roots().is_empty());
    }

    #[test]
    fn what_the_store_has_yields_to_what_a_loaded_root_publishes() {
        let words = WordsOfRoots::default();
        let follower = words.follow("root");
        assert!(words.needs_stored("root"));
        words.publish_stored("root", "old".into());
        assert_eq!(follower.borrow().as_deref(), Some("old"));
        assert!(words.needs_stored("root"), "another server may have the root");
        words.publish("root", "new".into());
        assert!(!words.needs_stored("root"));
        words.publish_stored("root", "late".into());
        assert_eq!(follower.borrow().as_deref(), Some("new"));
        words.forget("root");
        assert!(words.needs_stored("root"));
    }
}
