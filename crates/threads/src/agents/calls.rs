//! Carries calls out, each in a task of its own: none waits for another, and each has an end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use session::{
    AgentOutcome, AgentRequest, AgentState, Answer, Author, Id, Overrides, ToolError, UserContent,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::jobs::ProgressSender;
use super::{AgentCaller, Agents, CallItem, report};
use services::allowed::MachineInput;
use services::error::Error;
use services::panics::{self, Panic};
use services::peer::{Gate, held_gate};
use services::thread_port::{Command, ThreadHandle, TurnStart};

/// The longest time of a call that does not wait for agents.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// Where a call reports to.
#[derive(Clone)]
pub struct CallSenders {
    /// Its progress and then its outcome, which pass the thread's commands.
    pub answers: mpsc::Sender<MachineInput>,
    /// The thread's commands.
    pub commands: mpsc::Sender<Command>,
}

/// The place of a call among calls that take place one after the other. Dropped, it lets the next
/// begin.
pub(crate) struct QueuedCall {
    /// Resolves when the call before has ended.
    pub before: Option<oneshot::Receiver<()>>,
    pub(crate) _ended: oneshot::Sender<()>,
}

/// A call that is being carried out. Dropped, the call stops, and so do the agents that it waits
/// for.
pub(crate) struct CallTask(Option<oneshot::Sender<()>>);

impl CallTask {
    /// Carries a call out, and sends its outcome to the caller's thread.
    pub(crate) fn start(
        agents: Arc<Agents>,
        caller: AgentCaller,
        (number, item, request): (u64, CallItem, AgentRequest),
        senders: CallSenders,
        place: Option<QueuedCall>,
    ) -> Self {
        let (cancel, mut cancelled) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let caller = Arc::new(caller);
            let targets = match &request {
                AgentRequest::Wait { targets, .. } => targets.clone(),
                _ => Vec::new(),
            };
            let progress = ProgressSender::new(number, senders.answers.clone());
            let mut place = place;
            let work = outcome_of(async {
                if let Some(before) = place.as_mut().and_then(|place| place.before.take()) {
                    // It ends without a word.
                    let _ = before.await;
                }
                match request {
                    AgentRequest::RunJob { job, output } => {
                        agents.run_job(caller.clone(), &item, (*job, &output), &progress).await
                    }
                    other => agents.carry_out(&caller, other).await,
                }
            });
            let outcome = tokio::select! {
                outcome = work => Some(outcome),
                _ = &mut cancelled => None,
            };
            let Some(outcome) = outcome else {
                // Looked for again: the call may have ended before it had found them.
                for target in targets {
                    let (agents, caller) = (agents.clone(), caller.clone());
                    tokio::spawn(async move {
                        // A target that is unknown is not waited for.
                        if let Ok(agent) = agents.find(&caller, &target).await {
                            agents.interrupt(&agent).await;
                        }
                    });
                }
                return;
            };
            let outcome = Box::new(outcome);
            let input = MachineInput::AgentsAnswered { request: number, outcome };
            // A thread that has ended needs no answer.
            let _ = senders.answers.send(input).await;
        });
        Self(Some(cancel))
    }

    /// Returns whether the call has its outcome.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl Agents {
    async fn carry_out(
        self: &Arc<Self>,
        caller: &AgentCaller,
        request: AgentRequest,
    ) -> AgentOutcome {
        let call = async {
            match request {
                AgentRequest::Wait { targets, timeout_ms } => {
                    return Ok(self.wait(caller, &targets, timeout_ms).await);
                }
                AgentRequest::Spawn(agent) => limited(self.spawn(caller, agent)).await,
                AgentRequest::Send { target, content, interrupt } => {
                    limited(self.send(caller, &target, content, interrupt)).await
                }
                AgentRequest::Resume { target } => limited(self.resume(caller, &target)).await,
                AgentRequest::Close { target } => limited(self.close_one(caller, &target)).await,
                AgentRequest::ReportJobResult(report) => {
                    limited(self.report_job_result(caller, report)).await
                }
                // See `CallTask::start`.
                AgentRequest::RunJob { .. } => {
                    Err(ToolError::new("a job is not a call about one agent"))
                }
            }
        };
        call.await.unwrap_or_else(AgentOutcome::failed)
    }

    async fn send(
        self: &Arc<Self>,
        caller: &AgentCaller,
        target: &str,
        content: Vec<UserContent>,
        interrupt: bool,
    ) -> Result<AgentOutcome, ToolError> {
        let id = self.find(caller, target).await?;
        if self.forest().is_closed(&id) {
            return Err(ToolError::new(format!("agent {id} is closed; call `resume_agent` first")));
        }
        let limits = self.limits(caller);
        let place = Place::take(self, &id, limits)?;
        let handle = self.load(caller, &id).await?;
        let content = self.prepare_input(&handle, content).await;
        let content = content.map_err(|error| refused(&id, &error))?;
        if interrupt {
            self.interrupt(&id).await;
        }
        let started = self.start_turn(&id, &handle, content, caller).await;
        let turn = started.map_err(|error| refused(&id, &error))?;
        drop(place);
        let output = json!({ "agent_id": id, "turn_id": &*turn }).to_string();
        Ok(about(&id, self.state(&id), output))
    }

    async fn resume(
        self: &Arc<Self>,
        caller: &AgentCaller,
        target: &str,
    ) -> Result<AgentOutcome, ToolError> {
        let id = self.find(caller, target).await?;
        self.load(caller, &id).await?;
        // Until then another server may have had it.
        self.read_report(&id).await?;
        let state = self.state(&id);
        let output = json!({ "agent_id": id, "status": report::for_model(&state) }).to_string();
        Ok(about(&id, state, output))
    }

    async fn close_one(
        self: &Arc<Self>,
        caller: &AgentCaller,
        target: &str,
    ) -> Result<AgentOutcome, ToolError> {
        let id = self.find(caller, target).await?;
        self.check_is_not_elsewhere(&id).await?;
        let before = self.state(&id);
        let (agents, closed) = (self.clone(), id.clone());
        // Goes on when the call is cancelled: half of it would leave agents without their parent.
        let closing = tokio::spawn(async move { agents.close(&closed).await });
        closing.await.map_err(|error| ToolError::new(format!("agent {id}: {error}")))?;
        self.read_report(&id).await?;
        let previous = report::for_model(&before);
        let output = json!({ "agent_id": id, "previous_status": previous }).to_string();
        Ok(about(&id, self.state(&id), output))
    }

    /// The thread of an agent, loaded if need be.
    async fn load(&self, caller: &AgentCaller, id: &str) -> Result<ThreadHandle, ToolError> {
        if let Some(handle) = self.threads.get(id).filter(ThreadHandle::is_alive) {
            return Ok(handle);
        }
        let clients = self.root_clients(caller.root());
        let loader = self.loader()?;
        let loaded = loader.load_agent(&clients, id).await;
        loaded.map_err(|error| ToolError::new(format!("agent {id} cannot be loaded: {error}")))
    }

    /// Starts a turn of an agent, or adds to the one that runs, and returns its id. The turn counts as running from
    /// before its first event on, so that its place is never free in between.
    pub(super) async fn start_turn(
        &self,
        id: &str,
        handle: &ThreadHandle,
        content: Vec<UserContent>,
        caller: &AgentCaller,
    ) -> Result<Id, Error> {
        let (hold, gate) = held_gate();
        let (answer, answered) = oneshot::channel();
        let start = Command::StartTurn(TurnStart {
            author: Author::Agent,
            content,
            overrides: Box::new(Overrides::default()),
            permissions: None,
            output_schema: None,
            budget: caller.budget.clone(),
            trace: caller.trace,
            is_withdrawable: true,
            answer,
            gate,
        });
        handle.send(start).await;
        let Answer::Started(view) = answered.await.map_err(|_| handle.unloaded())?? else {
            return Err(Error::mismatched_answer("an agent's turn"));
        };
        self.forest().turn_started(id, &view.id);
        drop(hold);
        Ok(view.id)
    }

    /// Interrupts the running turn of an agent, if any, and waits for its end.
    async fn interrupt(&self, id: &str) {
        let turn = self.forest().running_turn(id);
        let (Some(turn), Some(handle)) = (turn, self.threads.get(id)) else { return };
        let turn = turn.to_string();
        let (answer, answered) = oneshot::channel();
        let input = Box::new(move |reply| MachineInput::Interrupt { reply, turn });
        let gate = Gate::open();
        handle.send(Command::Ask { input, is_withdrawable: true, answer, gate }).await;
        // It is refused when the turn has just ended.
        let _ = answered.await;
    }
}

/// A place among the agents that work, for a turn that is about to begin.
struct Place {
    agents: Arc<Agents>,
    id: String,
}

impl Place {
    fn take(
        agents: &Arc<Agents>,
        id: &str,
        limits: services::thread_port::TreeLimits,
    ) -> Result<Self, ToolError> {
        agents.forest().begin(id, limits)?;
        Ok(Self { agents: agents.clone(), id: id.to_owned() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.agents.forest().begun(&self.id);
    }
}

/// The outcome of a call, whatever happens to it: the caller's turn waits for it.
async fn outcome_of(work: impl Future<Output = AgentOutcome>) -> AgentOutcome {
    panics::catch(work).await.unwrap_or_else(|Panic(panic)| {
        tracing::error!(target: "server::agents", "a call of an agent panicked: {panic}");
        AgentOutcome::failed(ToolError::new(format!(
            "an error in the server ended the call ({panic}); what it did until then remains: look \
             at the agents with `wait_agent` before you call again"
        )))
    })
}

/// Ends a call that takes too long.
async fn limited(
    call: impl Future<Output = Result<AgentOutcome, ToolError>>,
) -> Result<AgentOutcome, ToolError> {
    timeout(CALL_LIMIT, call).await.unwrap_or_else(|_| {
        let seconds = CALL_LIMIT.as_secs();
        Err(ToolError::new(format!(
            "the agent did not answer within {seconds} s; look at its state with `wait_agent`"
        )))
    })
}

fn about(id: &str, state: AgentState, output: String) -> AgentOutcome {
    let id = Id::from(id);
    AgentOutcome {
        receivers: vec![id.clone()],
        spawned: None,
        states: vec![(id, state)],
        model: None,
        effort: None,
        output: Ok(output),
    }
}

fn refused(id: &str, error: &Error) -> ToolError {
    ToolError::new(format!("agent {id} does not take the input: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_panics_has_an_outcome() {
        let outcome = outcome_of(async { panic!("a defect") }).await;
        let error = outcome.output.expect_err("it failed");
        assert!(error.message().contains("a defect"), "{error:?}");
    }
}
