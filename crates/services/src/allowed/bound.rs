//! The present permissions of the threads above an agent. Each loaded thread publishes its policies
//! here whenever they change; the machine of an agent reads those above it before every step.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use session::{BoundedSetting, PolicyBound, Settings};
use tokio::sync::watch;

/// The policies of all threads that are loaded, or above one that is.
#[derive(Default)]
pub struct PresentPolicies(Mutex<HashMap<String, Weak<Publisher>>>);

type Publisher = watch::Sender<Published>;

/// The policies of one thread.
#[derive(Default)]
struct Published {
    /// `None`: nothing is known of them.
    bound: Option<PolicyBound>,
    /// True if the thread is loaded here. Otherwise the store has its policies.
    is_loaded: bool,
}

/// A thread above an agent.
#[derive(Debug)]
pub struct ThreadAbove {
    pub id: String,
    /// As they are stored; `None` when they are not.
    pub stored: Option<PolicyBound>,
}

impl PresentPolicies {
    /// Which of these threads are not loaded: the store has their policies.
    pub fn unloaded(&self, ids: &[&str]) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_loaded = |id: &str| {
            let publisher = all.get(id).and_then(Weak::upgrade);
            publisher.is_some_and(|publisher| publisher.borrow().is_loaded)
        };
        ids.iter().filter(|id| !is_loaded(id)).map(|id| (*id).to_owned()).collect()
    }

    /// The bound of a thread that is about to be loaded: `started_with` and the present policies of
    /// those above it, the root first. `stored`: what the store has of those that are not loaded.
    pub fn bound(
        &self,
        id: &str,
        started_with: Option<PolicyBound>,
        above: &[&str],
        stored: Vec<ThreadAbove>,
    ) -> ThreadBound {
        let publisher = |id: &&str| ((*id).to_owned(), self.publisher(id));
        let above: Vec<(String, Arc<Publisher>)> = above.iter().map(publisher).collect();
        let seen = above.iter().map(|(_, publisher)| publisher.subscribe()).collect();
        let own = self.publisher(id);
        own.send_modify(|published| published.is_loaded = true);
        let bound = ThreadBound { own, started_with, above, seen, is_applied: false };
        bound.set_stored(stored);
        bound
    }

    /// The bound of an agent at this moment, loaded or not: `started_with` and the present policies of
    /// those above it. `stored`: what the store has of those that are not loaded.
    pub fn present_bound(
        &self,
        started_with: PolicyBound,
        above: &[&str],
        stored: Vec<ThreadAbove>,
    ) -> PolicyBound {
        let above: Vec<(String, Arc<Publisher>)> =
            above.iter().map(|id| ((*id).to_owned(), self.publisher(id))).collect();
        set_stored_of(&above, stored);
        let present = above.iter().filter_map(|(_, publisher)| publisher.borrow().bound.clone());
        present.fold(started_with, |all, bound| all.and(&bound))
    }

    fn publisher(&self, id: &str) -> Arc<Publisher> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(id).and_then(Weak::upgrade) {
            return known;
        }
        all.retain(|_, publisher| publisher.strong_count() > 0);
        let new = Arc::new(watch::Sender::new(Published::default()));
        all.insert(id.to_owned(), Arc::downgrade(&new));
        new
    }
}

/// The bound of one loaded thread. A thread that no other started has none, and publishes its
/// policies only.
pub struct ThreadBound {
    own: Arc<Publisher>,
    /// Of its identity.
    started_with: Option<PolicyBound>,
    /// The root first. Kept, so that a thread that is loaded again publishes in the same place.
    above: Vec<(String, Arc<Publisher>)>,
    seen: Vec<watch::Receiver<Published>>,
    is_applied: bool,
}

impl ThreadBound {
    /// The threads above whose policies must be read from the store.
    pub(super) fn unloaded(&self) -> Vec<String> {
        let unloaded = self.above.iter().filter(|(_, publisher)| !publisher.borrow().is_loaded);
        unloaded.map(|(id, _)| id.clone()).collect()
    }

    /// Takes over what the store has of threads above that are not loaded.
    pub(super) fn set_stored(&self, above: Vec<ThreadAbove>) {
        set_stored_of(&self.above, above);
    }

    /// The bound, when it is new or has changed since the last call.
    pub(super) fn changed(&mut self) -> Option<PolicyBound> {
        // The senders live as long as this does.
        let has_changed = self.seen.iter().any(|one| one.has_changed().unwrap_or_default());
        if self.is_applied && !has_changed {
            return None;
        }
        self.is_applied = true;
        self.seen.iter_mut().for_each(watch::Receiver::mark_unchanged);
        self.current()
    }

    /// The bound as it is now; `None` for a thread that no other started.
    pub(super) fn current(&self) -> Option<PolicyBound> {
        let mut all = self.started_with.clone();
        for (_, publisher) in &self.above {
            if let Some(bound) = &publisher.borrow().bound {
                all = Some(all.map_or_else(|| bound.clone(), |all| all.and(bound)));
            }
        }
        all
    }

    /// Publishes the policies of the thread itself.
    pub(super) fn publish(&self, settings: &Settings) {
        let bound = Some(PolicyBound::of(settings));
        self.own.send_if_modified(|published| {
            let is_new = published.bound != bound;
            published.bound = bound;
            is_new
        });
    }
}

impl Drop for ThreadBound {
    fn drop(&mut self) {
        self.own.send_modify(|published| published.is_loaded = false);
    }
}

fn set_stored_of(publishers: &[(String, Arc<Publisher>)], above: Vec<ThreadAbove>) {
    for ThreadAbove { id, stored } in above {
        if let Some((_, publisher)) = publishers.iter().find(|(known, _)| *known == id) {
            set_stored(publisher, stored);
        }
    }
}

fn set_stored(publisher: &Publisher, stored: Option<PolicyBound>) {
    publisher.send_if_modified(|published| {
        let is_news = !published.is_loaded && stored.is_some() && published.bound != stored;
        if is_news {
            published.bound = stored;
        }
        is_news
    });
}

/// Whose policies a bound replaced, for the sentence about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundedBy {
    /// Those of the role of an agent that is about to start.
    Role,
    /// Those of an agent's thread.
    Agent,
}

/// One sentence for the clients about each setting that a bound replaced.
pub fn replacements(replaced: &[BoundedSetting], by: BoundedBy) -> Vec<String> {
    let whose = match by {
        BoundedBy::Role => "an agent's role",
        BoundedBy::Agent => "this agent",
    };
    let sentence = |setting: &BoundedSetting| {
        let what = match setting {
            BoundedSetting::Approval => "approval policy",
            BoundedSetting::Reviewer => "approvals reviewer",
            BoundedSetting::Sandbox => "sandbox",
            BoundedSetting::Mode => {
                return "the thread that started this agent is in plan mode, so this agent is too"
                    .to_owned();
            }
        };
        format!(
            "the {what} of {whose} allows more than that of the thread that started the agent; the \
             thread's is used instead"
        )
    };
    replaced.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use session::{ApprovalPolicy, ApprovalsReviewer, SandboxPolicy};

    use super::*;

    fn bound(sandbox: SandboxPolicy) -> PolicyBound {
        let (approval, reviewer) = (ApprovalPolicy::Never, ApprovalsReviewer::User);
        let sandbox = sandbox.rooted(Path::new("/"));
        PolicyBound { approval, reviewer, sandbox, planning: None }
    }

    fn above(id: &str, stored: Option<SandboxPolicy>) -> ThreadAbove {
        ThreadAbove { id: id.to_owned(), stored: stored.map(bound) }
    }

    const FULL: SandboxPolicy = SandboxPolicy::DangerFullAccess;
    const READS: SandboxPolicy =
        SandboxPolicy::ReadOnly { read: session::ReadAccess::Full, network: false };

    #[test]
    fn an_agent_follows_every_thread_above_it_loaded_or_stored() {
        let policies = PresentPolicies::default();
        let root = policies.bound("root", None, &[], Vec::new());
        assert_eq!(root.current(), None);
        root.own.send_modify(|published| published.bound = Some(bound(FULL)));
        let chain = ["root", "middle"];
        assert_eq!(policies.unloaded(&chain), ["middle"]);
        let stored = vec![above("middle", Some(FULL))];
        let mut agent = policies.bound("agent", Some(bound(FULL)), &chain, stored);
        assert_eq!(agent.changed(), Some(bound(FULL)));
        assert_eq!(agent.changed(), None);
        assert_eq!(agent.unloaded(), ["middle"]);
        // What is stored of a loaded thread is older than what it publishes.
        agent.set_stored(vec![above("root", Some(READS))]);
        assert_eq!(agent.changed(), None);
        agent.set_stored(vec![above("middle", Some(READS)), above("other", Some(FULL))]);
        assert_eq!(agent.changed(), Some(bound(READS)));
        // Loaded again, it publishes in the same place, and unloaded it keeps what it had.
        let middle = policies.bound("middle", None, &[], Vec::new());
        assert_eq!(agent.unloaded(), [""; 0]);
        middle.own.send_modify(|published| published.bound = Some(bound(FULL)));
        assert_eq!(agent.changed(), Some(bound(FULL)));
        drop(middle);
        agent.set_stored(vec![above("middle", None)]);
        assert_eq!(agent.current(), Some(bound(FULL)));
        drop((root, agent));
        drop(policies.publisher("new"));
        assert_eq!(policies.0.lock().unwrap().len(), 1);
    }
}
