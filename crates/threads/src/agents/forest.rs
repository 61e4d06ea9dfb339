//! The agents of all trees: who started whom, and what each is doing. Data only; its user
//! holds its lock while changing it.

use std::collections::HashMap;

use config::kind::Nickname;
use session::{AgentState, Id, ToolError};
use tokio::sync::watch;

use super::nicknames::free_nickname;
use crate::agents::start_error::StartError;
use services::thread_port::{AgentIdentity, TreeLimits};

/// Agents of a tree that are remembered; beyond that, the oldest that are not loaded are forgotten.
/// Their results are in the store, which is read when they are named again. Loaded ones are always
/// remembered.
pub(super) const MAX_REMEMBERED: usize = 2000;

/// The agents of all trees.
#[derive(Default)]
pub(super) struct Forest {
    agents: HashMap<String, Agent>,
    trees: HashMap<String, Tree>,
    /// Numbers the agents in the order in which they came.
    next: u64,
}

/// One tree, by its root.
struct Tree {
    /// Those of the root's own configuration, once its model has called.
    limits: Option<TreeLimits>,
    /// Wakes those that wait for agents of the tree.
    changed: watch::Sender<()>,
    /// The root's thread is not loaded.
    root_ended: bool,
    /// The agents that the store had of it are remembered.
    is_read: bool,
}

struct Agent {
    identity: AgentIdentity,
    number: u64,
    /// Calls that are about to begin a turn of it.
    beginning: usize,
    /// Its turns that run.
    turns: Vec<Id>,
    /// The end of its last turn. Of a closed agent it is what the store had when it was last read:
    /// another server may have taken the thread over since.
    last: Option<AgentState>,
    /// Counts what may have made a report of the store out of date.
    version: u64,
    /// Its thread ended without an end of its turn.
    is_lost: bool,
    /// Its thread is not loaded, or is being ended.
    closed: bool,
    /// Those that wait for the end of its thread.
    ending: usize,
    /// Nothing of it is stored, so it cannot be forgotten.
    ephemeral: bool,
}

impl Agent {
    /// Returns whether it occupies one of the places for agents that work.
    fn works(&self) -> bool {
        self.beginning > 0 || !self.turns.is_empty()
    }

    /// Returns whether its thread is loaded, or about to be, or not ended yet.
    fn may_be_loaded(&self) -> bool {
        self.works() || !self.closed || self.ending > 0
    }

    fn state(&self) -> AgentState {
        match &self.last {
            _ if self.works() => AgentState::Running,
            Some(state) => state.clone(),
            None if self.closed => AgentState::Shutdown,
            None => AgentState::PendingInit,
        }
    }
}

/// An agent that is about to start.
pub(super) struct NewAgent<'a> {
    pub(super) id: String,
    /// Its nickname is not chosen yet.
    pub(super) identity: AgentIdentity,
    pub(super) nicknames: &'a [Nickname],
    pub(super) ephemeral: bool,
}

impl Forest {
    /// The limits of a tree for a caller whose configuration has `limits`. Those of the root itself
    /// are remembered; until its model calls, those hold that were stored with the caller.
    pub(super) fn limits(
        &mut self,
        root: &str,
        is_root: bool,
        limits: TreeLimits,
        stored: Option<TreeLimits>,
    ) -> TreeLimits {
        let tree = self.tree(root);
        if is_root {
            tree.limits = Some(limits);
            tree.root_ended = false;
        }
        tree.limits.or(stored).map_or(limits, |own| limits.within(own))
    }

    /// Adds an agent that is about to begin its first turn, when a place is free. Returns its
    /// identity.
    pub(super) fn add(
        &mut self,
        new: NewAgent<'_>,
        limits: TreeLimits,
    ) -> Result<AgentIdentity, StartError> {
        let NewAgent { id, mut identity, nicknames, ephemeral } = new;
        limits.check_depth(identity.depth)?;
        if self.agents.get(&identity.parent).is_some_and(|parent| parent.closed) {
            let error = ToolError::new("this agent is being closed, so it can start no other");
            return Err(error.into());
        }
        limits.check_threads(self.working(&identity.root)).map_err(StartError::Full)?;
        self.forget_old(&identity.root);
        let tree = self.agents.values().filter(|agent| agent.identity.root == identity.root);
        let taken: Vec<&str> = tree.map(|agent| agent.identity.nickname.as_str()).collect();
        identity.nickname = free_nickname(nicknames, |name| taken.contains(&name));
        self.insert(id, identity.clone(), ephemeral).beginning = 1;
        Ok(identity)
    }

    /// Takes a place for a turn of an agent that is about to begin. An agent that works has one.
    pub(super) fn begin(&mut self, id: &str, limits: TreeLimits) -> Result<(), ToolError> {
        let Some(agent) = self.agents.get(id) else { return Err(forgotten(id)) };
        if !agent.works() {
            limits.check_threads(self.working(&agent.identity.root))?;
        }
        if let Some(agent) = self.agents.get_mut(id) {
            agent.beginning += 1;
        }
        self.changed(id);
        Ok(())
    }

    /// The turn has begun, or will not.
    pub(super) fn begun(&mut self, id: &str) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.beginning = agent.beginning.saturating_sub(1);
        }
        self.changed(id);
    }

    /// Removes an agent that was not started after all.
    pub(super) fn remove(&mut self, id: &str) {
        self.changed(id);
        self.agents.remove(id);
    }

    /// An agent's thread was loaded.
    pub(super) fn loaded(&mut self, id: &str, identity: &AgentIdentity) {
        match self.agents.get_mut(id) {
            Some(agent) => {
                agent.version += 1;
                agent.is_lost = false;
                if std::mem::take(&mut agent.closed) && !agent.ephemeral {
                    agent.last = None;
                }
            }
            None => drop(self.insert(id.to_owned(), identity.clone(), false)),
        }
        self.changed(id);
    }

    /// Remembers a stored agent. `closed`: its thread is not loaded.
    pub(super) fn remember(&mut self, id: &str, identity: &AgentIdentity, closed: bool) {
        if !self.agents.contains_key(id) {
            self.insert(id.to_owned(), identity.clone(), false).closed = closed;
        }
    }

    /// Returns whether the store need not be read for agents of the tree.
    pub(super) fn is_read(&self, root: &str) -> bool {
        self.trees.get(root).is_some_and(|tree| tree.is_read)
    }

    /// See [`Forest::is_read`].
    pub(super) fn set_read(&mut self, root: &str) {
        self.tree(root).is_read = true;
    }

    /// The store had this of its last turn, at the version that [`Forest::needs_report`] returned.
    /// Older news are dropped.
    pub(super) fn set_last(&mut self, id: &str, version: u64, last: AgentState) {
        let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.version == version) else {
            return;
        };
        // The turn of a lost agent is open in the store until the thread is loaded again.
        let is_open = agent.is_lost && last == AgentState::Running;
        if !is_open && agent.last.as_ref() != Some(&last) {
            agent.last = Some(last);
            self.changed(id);
        }
    }

    pub(super) fn turn_started(&mut self, id: &str, turn: &Id) {
        if let Some(agent) = self.agents.get_mut(id)
            && !agent.turns.contains(turn)
        {
            agent.turns.push(turn.clone());
            agent.version += 1;
        }
        self.changed(id);
    }

    pub(super) fn turn_ended(&mut self, id: &str, turn: &Id, state: AgentState) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.turns.retain(|open| open != turn);
            agent.last = Some(state);
            agent.version += 1;
        }
        self.changed(id);
    }

    /// The actor of a thread has ended. A turn that it did not end was lost with it.
    pub(super) fn thread_ended(&mut self, id: &str) {
        let mut root = id.to_owned();
        if let Some(agent) = self.agents.get_mut(id) {
            if !std::mem::take(&mut agent.turns).is_empty() {
                let why = "the agent's thread ended unexpectedly; `resume_agent` loads it again";
                agent.last = Some(AgentState::Errored(why.to_owned()));
                agent.is_lost = true;
            } else if !agent.ephemeral {
                // The store has it.
                agent.last = None;
            }
            agent.closed = true;
            agent.version += 1;
            root.clone_from(&agent.identity.root);
        }
        self.changed(id);
        let Some(tree) = self.trees.get_mut(&root) else { return };
        tree.root_ended |= root == id;
        if tree.root_ended {
            self.forget_tree(&root);
        }
    }

    /// Forgets what the store has of a tree whose root is not loaded.
    fn forget_tree(&mut self, root: &str) {
        self.agents.retain(|_, agent| agent.identity.root != root || agent.may_be_loaded());
        if !self.agents.values().any(|agent| agent.identity.root == root) {
            self.trees.remove(root);
        } else if let Some(tree) = self.trees.get_mut(root) {
            tree.is_read = false;
        }
    }

    /// Returns the version for [`Forest::set_last`] if the store has to be read for the end of an
    /// agent's last turn.
    pub(super) fn needs_report(&self, id: &str) -> Option<u64> {
        let agent = self.agents.get(id)?;
        let is_stored = !agent.works() && !agent.ephemeral;
        (is_stored && (agent.closed || agent.last.is_none())).then_some(agent.version)
    }

    /// An agent and those below it are being closed: from here on they start no other agent.
    /// Returns all of them; [`Forest::ended`] is called for each once its thread has ended.
    pub(super) fn close(&mut self, id: &str) -> Vec<String> {
        let mut closed = self.close_below(id);
        self.mark_closed(id);
        closed.push(id.to_owned());
        closed
    }

    /// As [`Forest::close`], without the thread itself. Each loaded agent is remembered with the
    /// threads above it, so none is missed, whatever became of those.
    pub(super) fn close_below(&mut self, id: &str) -> Vec<String> {
        let below = self.agents.iter().filter(|(_, agent)| agent.identity.descends_from(id));
        let below: Vec<String> = below.map(|(id, _)| id.clone()).collect();
        below.iter().for_each(|id| self.mark_closed(id));
        below
    }

    fn mark_closed(&mut self, id: &str) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.closed = true;
            agent.ending += 1;
        }
        self.changed(id);
    }

    /// The thread of an agent that was closed has ended.
    pub(super) fn ended(&mut self, id: &str) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.ending = agent.ending.saturating_sub(1);
        let root = agent.identity.root.clone();
        if self.trees.get(&root).is_some_and(|tree| tree.root_ended) {
            self.forget_tree(&root);
        }
    }

    pub(super) fn is_closed(&self, id: &str) -> bool {
        self.agents.get(id).is_some_and(|agent| agent.closed)
    }

    pub(super) fn state(&self, id: &str) -> AgentState {
        self.agents.get(id).map_or(AgentState::NotFound, Agent::state)
    }

    /// The running turn of an agent.
    pub(super) fn running_turn(&self, id: &str) -> Option<Id> {
        self.agents.get(id)?.turns.first().cloned()
    }

    pub(super) fn identity(&self, id: &str) -> Option<&AgentIdentity> {
        self.agents.get(id).map(|agent| &agent.identity)
    }

    /// The agent of a tree with that nickname: the newest, should old ones have had it too.
    pub(super) fn named(&self, root: &str, nickname: &str) -> Option<String> {
        let of_tree = self.agents.iter().filter(|(_, agent)| agent.identity.root == root);
        let named = of_tree.filter(|(_, agent)| agent.identity.nickname == nickname);
        named.max_by_key(|(_, agent)| agent.number).map(|(id, _)| id.clone())
    }

    /// Returns whether `ancestor` started `id`, directly or not; `None` for an agent that is not
    /// remembered.
    pub(super) fn descends(&self, id: &str, ancestor: &str) -> Option<bool> {
        self.agents.get(id).map(|agent| agent.identity.descends_from(ancestor))
    }

    /// The agents that a thread started itself, oldest first: ids and nicknames.
    pub(super) fn children(&self, id: &str) -> Vec<(String, String)> {
        let mut children: Vec<(&String, &Agent)> =
            self.agents.iter().filter(|(_, agent)| agent.identity.parent == id).collect();
        children.sort_unstable_by_key(|(_, agent)| agent.number);
        let named = |(id, agent): (&String, &Agent)| (id.clone(), agent.identity.nickname.clone());
        children.into_iter().map(named).collect()
    }

    /// The agents of a root that are not closed.
    pub(super) fn of_root(&self, root: &str) -> Vec<String> {
        let of_tree = self.agents.iter().filter(|(_, agent)| agent.identity.root == root);
        of_tree.filter(|(_, agent)| !agent.closed).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn has_working_descendants(&self, id: &str) -> bool {
        let mut working = self.agents.values().filter(|agent| agent.works());
        working.any(|agent| agent.identity.descends_from(id))
    }

    /// Changes whenever something about an agent of the tree does.
    pub(super) fn changes(&mut self, root: &str) -> watch::Receiver<()> {
        self.tree(root).changed.subscribe()
    }

    /// The agents of a tree that work: what `agents.max_threads` bounds.
    pub(super) fn working(&self, root: &str) -> usize {
        let of_tree = self.agents.values().filter(|agent| agent.identity.root == root);
        of_tree.filter(|agent| agent.works()).count()
    }

    fn insert(&mut self, id: String, identity: AgentIdentity, ephemeral: bool) -> &mut Agent {
        self.tree(&identity.root);
        self.next += 1;
        let agent = Agent {
            identity,
            number: self.next,
            beginning: 0,
            turns: Vec::new(),
            last: None,
            version: 0,
            is_lost: false,
            closed: false,
            ending: 0,
            ephemeral,
        };
        self.agents.entry(id).insert_entry(agent).into_mut()
    }

    fn tree(&mut self, root: &str) -> &mut Tree {
        let new = || Tree {
            limits: None,
            changed: watch::Sender::new(()),
            root_ended: false,
            is_read: false,
        };
        self.trees.entry(root.to_owned()).or_insert_with(new)
    }

    fn changed(&self, id: &str) {
        let agent = self.agents.get(id);
        if let Some(tree) = agent.and_then(|agent| self.trees.get(&agent.identity.root)) {
            tree.changed.send_replace(());
        }
    }

    fn forget_old(&mut self, root: &str) {
        let of_tree = self.agents.iter().filter(|(_, agent)| agent.identity.root == root);
        if of_tree.clone().count() < MAX_REMEMBERED {
            return;
        }
        let idle = of_tree.filter(|(_, agent)| !agent.may_be_loaded() && !agent.ephemeral);
        let oldest = idle.min_by_key(|(_, agent)| agent.number).map(|(id, _)| id.clone());
        oldest.map(|id| self.agents.remove(&id));
    }
}

/// The error about an agent that is no longer there.
pub(super) fn forgotten(id: &str) -> ToolError {
    ToolError::new(format!("agent {id} is no longer there; call `resume_agent` first"))
}

#[cfg(test)]
mod tests;
