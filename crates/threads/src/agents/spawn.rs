//! `spawn_agent`: starts an agent's thread and its first turn.

use std::sync::Arc;

use protocol::{ReasoningEffort, ThreadSource, ThreadStarted};
use serde_json::json;
use session::{AgentOutcome, AgentState, Id, Overrides, PolicyBound, SpawnAgent, ToolError};

use super::forest::NewAgent;
use super::{AgentCaller, AgentThread, Agents, StartAgents};
use crate::agents::start_error::StartError;
use services::allowed::MachineInput;
use services::convert;
use services::error::Error;
use services::peer::Gate;
use services::stored;
use services::thread_port::{AgentIdentity, Extra, ThreadHandle, TreeLimits, wire};

/// The role that stands for an agent like its caller.
const DEFAULT_ROLE: &str = "default";

/// The thread of an agent that is about to start.
pub(super) struct NewThread {
    /// Its id.
    pub(super) id: String,
    /// The job whose row it works on.
    pub(super) job: Option<String>,
}

impl Agents {
    pub(super) async fn spawn(
        self: &Arc<Self>,
        caller: &AgentCaller,
        agent: SpawnAgent,
    ) -> Result<AgentOutcome, ToolError> {
        let id = self.options.ids.next();
        Ok(self.start(caller, agent, NewThread { id, job: None }).await?)
    }

    /// Starts an agent, which may be the worker of a job.
    pub(super) async fn start(
        self: &Arc<Self>,
        caller: &AgentCaller,
        agent: SpawnAgent,
        new: NewThread,
    ) -> Result<AgentOutcome, StartError> {
        let NewThread { id, job } = new;
        let role = role(caller, agent.role.as_deref())?;
        let loader = self.loader()?;
        let limits = self.limits(caller);
        // Their nicknames are taken.
        self.read_tree(caller).await?;
        let bound = PolicyBound::of(&caller.settings).lasting();
        let identity = AgentIdentity {
            parent: caller.id.clone(),
            root: caller.root().to_owned(),
            above: caller.line(),
            depth: caller.depth() + 1,
            nickname: String::new(),
            role: role.map(str::to_owned),
            job,
            has_parents_history: agent.fork_context,
            bound,
            limits: Some(limits),
        };
        let nicknames = role.and_then(|role| caller.config.agents.roles.get(role));
        let nicknames = nicknames.map_or(&[][..], |role| &role.nickname_candidates);
        let ephemeral = caller.ephemeral;
        let new = NewAgent { id: id.clone(), identity, nicknames, ephemeral };
        let identity = self.forest().add(new, limits)?;
        // Until it is kept, the agent is removed again on every way out.
        let starting = Starting { agents: self.clone(), id: id.clone(), is_kept: false };
        let overrides = overrides(&agent)?;
        let nickname = identity.nickname.clone();
        let thread = thread(caller, &id, identity, overrides);
        let clients = self.root_clients(caller.root());
        let loaded = loader.start_agent(&clients, thread).await;
        let (handle, record) = loaded.map_err(|error| not_started(&error))?;
        if self.forest().is_closed(&caller.id) {
            let error = ToolError::new("this agent is being closed, so it can start no other");
            return Err(error.into());
        }
        let started = wire::new(&record, ephemeral);
        let params = protocol::thread_record::ThreadStartedNotification { thread: started };
        clients.iter().for_each(|peer| peer.notify::<ThreadStarted>(&params));
        if !agent.history.is_empty() {
            inherit(&handle, agent.history).await.map_err(|error| not_started(&error))?;
        }
        let content = self.prepare_input(&handle, agent.content).await;
        let content = content.map_err(|error| not_started(&error))?;
        let turn = self.start_turn(&id, &handle, content, caller).await;
        turn.map_err(|error| not_started(&error))?;
        starting.keep();
        let settings =
            stored::settings(&id, &record.settings).map_err(|error| not_started(&error))?;
        let shown = Id::from(id.as_str());
        Ok(AgentOutcome {
            receivers: vec![shown.clone()],
            spawned: Some(shown.clone()),
            states: vec![(shown, AgentState::Running)],
            model: Some(settings.model),
            effort: settings.effort,
            output: Ok(json!({ "agent_id": id, "nickname": nickname }).to_string()),
        })
    }

    pub(super) fn loader(&self) -> Result<Arc<dyn StartAgents>, ToolError> {
        self.loader.upgrade().ok_or_else(|| ToolError::new("the server is ending"))
    }

    /// The limits that hold for a caller's tree.
    pub(super) fn limits(&self, caller: &AgentCaller) -> TreeLimits {
        let own = TreeLimits::of(&caller.config);
        let stored = caller.extra.agent.as_ref().and_then(|agent| agent.limits);
        self.forest().limits(caller.root(), caller.depth() == 0, own, stored)
    }
}

/// An agent that has its place and no turn yet. Dropped before it is kept, it is removed, and its
/// thread is ended.
struct Starting {
    agents: Arc<Agents>,
    id: String,
    is_kept: bool,
}

impl Starting {
    fn keep(mut self) {
        self.is_kept = true;
        self.agents.forest().begun(&self.id);
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let (agents, id) = (self.agents.clone(), self.id.clone());
        agents.forest().begun(&id);
        tokio::spawn(async move {
            agents.close(&id).await;
            agents.forest().remove(&id);
        });
    }
}

/// The role that a call names; `None` for an agent like its caller.
fn role<'a>(caller: &AgentCaller, named: Option<&'a str>) -> Result<Option<&'a str>, ToolError> {
    let roles = &caller.config.agents.roles;
    let Some(named) = named.map(str::trim) else { return Ok(None) };
    if let Some(error) = caller.config.broken_roles.get(named) {
        return Err(ToolError::new(format!(
            "spawn_agent: the `agent_type` `{named}` cannot be used: `agents.{named}.config_file`: \
             {error}"
        )));
    }
    if roles.contains_key(named) {
        return Ok(Some(named));
    }
    if named == DEFAULT_ROLE {
        return Ok(None);
    }
    let usable = caller.config.usable_roles();
    let known: Vec<&str> =
        std::iter::once(DEFAULT_ROLE).chain(usable.map(|(name, _)| name.as_str())).collect();
    Err(ToolError::new(format!(
        "spawn_agent: there is no `agent_type` `{named}`; the types are {}",
        known.join(", ")
    )))
}

/// Returns the call's changes of the caller's settings.
fn overrides(agent: &SpawnAgent) -> Result<Overrides, ToolError> {
    if let Some(model) = &agent.model {
        convert::settings::check_model("model", Some(model))
            .map_err(|error| ToolError::new(format!("spawn_agent: {error}")))?;
    }
    if let Some(effort) = &agent.effort
        && serde_json::from_value::<ReasoningEffort>(effort.as_str().into()).is_err()
    {
        return Err(ToolError::new(format!(
            "spawn_agent: `reasoning_effort` is `{effort}`; give none, minimal, low, medium, high \
             or xhigh"
        )));
    }
    let (model, effort) = (agent.model.clone(), agent.effort.clone());
    Ok(Overrides { model, effort, ..Overrides::default() })
}

fn thread(
    caller: &AgentCaller,
    id: &str,
    identity: AgentIdentity,
    overrides: Overrides,
) -> AgentThread {
    let extra = Extra {
        base_instructions: caller.extra.base_instructions.clone(),
        developer_instructions: caller.extra.developer_instructions.clone(),
        service_name: caller.extra.service_name.clone(),
        thread_source: Some(ThreadSource::Subagent),
        dynamic_tools: caller.extra.dynamic_tools.clone(),
        agent: Some(identity),
        ..Extra::default()
    };
    AgentThread {
        id: id.to_owned(),
        session_id: caller.session_id.clone(),
        git_info: caller.git_info.clone(),
        ephemeral: caller.ephemeral,
        settings: caller.settings.clone(),
        overrides,
        config: caller.config.clone(),
        origin: caller.origin.clone(),
        extra,
    }
}

/// Gives an agent the history of its caller.
async fn inherit(handle: &ThreadHandle, history: Vec<session::Fragment>) -> Result<(), Error> {
    let gate = Gate::open();
    let inject = move |reply| MachineInput::Inject { reply, fragments: history };
    handle.ask(gate, inject).await.map(drop)
}

fn not_started(error: &Error) -> ToolError {
    ToolError::new(format!("the agent could not be started: {error}"))
}
