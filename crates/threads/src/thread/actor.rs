//! The actor of a loaded thread: takes commands from its mailbox, steps the machine, stores the
//! records of a batch, and only then carries the other effects out, in order.
//!
//! Its state belongs to owners with private fields: `mailbox`, `replies`, `journal` (what is
//! durable), `broadcast` (subscribers and events), `questions` (open requests to clients),
//! `reviewer` (requests to the model that reviews approvals), `running_commands`, `inspect` (tool
//! calls and patches), `configuration`, `model_stream`, `queue`, `agents` (calls to other agents),
//! `memories` (the notes that the thread leaves after a rest), and the machine. Only `Server`
//! holds all services; every other function names those that it uses.
//!
//! When a commit fails, nothing in its batch is reported as done: callers get the error, and the
//! turn fails. Its end is sent (`unstored.rs`, which handles every kind of event), and is stored
//! as soon as the store works again (`journal/missing.rs`). When an actor panics, its turn fails
//! in the store and for its clients, and the thread is closed (`panics.rs`).

mod effects;
mod preparation;
mod queued;
mod requests;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument;

use crate::thread::agent_calls::AgentCalls;
use crate::thread::broadcast::Broadcast;
use crate::thread::configuration::ThreadConfiguration;
use crate::thread::hook_runs::HookRuns;
use crate::thread::inspect::{ToolContext, ToolInspector};
use crate::thread::journal::Journal;
use crate::thread::mailbox::Mailbox;
use crate::thread::memories::ThreadMemories;
use crate::thread::model_stream::{FromModel, ModelStream};
use crate::thread::pausable_clock::PausableClock;
use crate::thread::questions::Questions;
use crate::thread::queue::{ReadInput, ThreadQueue};
use crate::thread::running_commands::RunningCommands;
use crate::thread::server_calls::ServerCalls;
use crate::thread::skill_needs::SkillNeeds;
use crate::thread::step::{Step, append_steps};
use crate::thread::trace::ThreadTrace;
use crate::thread::undo::ThreadUndo;
use crate::thread::unload_deadline::UnloadDeadline;
use services::allowed::{LimitedMachine, MachineInput};
use services::convert::settings::thread_settings;
use services::mcp_servers::ThreadServers;
use services::panics;
use services::skills::ThreadSkills;
use services::thread_locks::ThreadLock;
use services::thread_port::{Command, ThreadHandle};

/// Commands taken together, so that their records share a transaction.
const BATCH: usize = 64;
/// Bytes of command output in one batch. As JSON it may be six times as long, and all of it is
/// queued for the clients before they are paced.
const BATCH_TEXT: usize = 128 * 1024;

/// Time for which text that clients have received may not be stored.
const STORE_TEXTS_EVERY: Duration = Duration::from_secs(1);
/// All threads store such text in the same moments, so that they share a transaction.
static STORE_TEXTS_SINCE: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A loaded thread's actor. Each field owns a part of the thread's state.
pub struct Actor {
    pub machine: LimitedMachine,
    pub mailbox: Mailbox,
    pub journal: Journal,
    pub broadcast: Broadcast,
    pub questions: Questions,
    pub commands: RunningCommands,
    pub tools: ToolInspector,
    pub configuration: ThreadConfiguration,
    pub model: ModelStream,
    pub agents: AgentCalls,
    pub mcp: ThreadServers,
    pub skills: ThreadSkills,
    pub skill_needs: SkillNeeds,
    pub server_calls: ServerCalls,
    pub hooks: HookRuns,
    pub memories: ThreadMemories,
    pub undo: ThreadUndo,
    pub trace: ThreadTrace,
    pub unload_deadline: UnloadDeadline,
    pub queue: ThreadQueue,
    pub read_input: ReadInput,
    /// True while [`MachineInput::StoreTexts`] is on its way.
    pub stores_texts: bool,
    /// The version of the settings that clients were shown.
    pub shown_settings: Option<u64>,
}

/// The actor's next input.
enum Next {
    /// It is time to unload the thread, whose lock this is.
    Unload(ThreadLock),
    Soon(MachineInput),
    Command(Command),
    Model(FromModel),
    Closed,
}

/// The end of an actor that did not panic.
enum Served {
    /// The thread was unloaded, and its lease released.
    ToItsEnd,
    /// Another server has the thread's lease.
    UntilLeaseLost,
}

impl Actor {
    /// Runs the actor in a task of its own, until the thread is unloaded.
    pub fn spawn(mut self) -> ThreadHandle {
        self.show_settings();
        let handle =
            self.mailbox.handle(self.broadcast.subscribers().shown(), self.commands.paused());
        let (at_end, agents_at_end) = (self.mailbox.at_end(), self.agents.at_end());
        // A thread outlives the request that loads it.
        let span = tracing::error_span!(target: "server::thread", parent: None, "thread", thread = %self.journal.id());
        let running = tokio::spawn(self.run().instrument(span));
        tokio::spawn(async move {
            // However the actor ended.
            let _ = running.await;
            agents_at_end();
            at_end();
        });
        handle
    }

    async fn run(mut self) {
        match panics::catch(self.serve()).await {
            Ok(Served::ToItsEnd) => {}
            Ok(Served::UntilLeaseLost) => self.end_after_lost_lease().await,
            Err(panic) => self.end_after_panic(panic).await,
        }
    }

    async fn serve(&mut self) -> Served {
        queued::continue_queue(self).await;
        while self.mailbox.end().is_none() {
            let mut steps = Vec::new();
            match self.next().await {
                Next::Soon(input) => self.step(input, &mut steps),
                Next::Command(command) => self.take(command, &mut steps).await,
                Next::Model(FromModel::OverBudget(input)) => self.step(input, &mut steps),
                Next::Model(FromModel::Events(sample, events)) => {
                    self.step(MachineInput::Model { sample, events }, &mut steps);
                }
                Next::Unload(_lock) => {
                    if self.agents.are_working() {
                        // Their results are for this thread.
                        self.unload_deadline.restart();
                        continue;
                    }
                    self.end().await;
                    self.mailbox.threads().unload(self.journal.id());
                    return Served::ToItsEnd;
                }
                Next::Closed => break,
            }
            let mut text = 0;
            for _ in 1..BATCH {
                // An ending thread answers no more: the callers learn why from its handle.
                if text > BATCH_TEXT || self.mailbox.end().is_some() {
                    break;
                }
                let Some(command) = self.mailbox.try_next() else { break };
                text += command.text_bytes();
                self.take(command, &mut steps).await;
            }
            self.execute(steps).await;
            if self.journal.has_lost_lease() {
                return Served::UntilLeaseLost;
            }
            queued::continue_queue(self).await;
            self.pace().await;
        }
        self.end().await;
        Served::ToItsEnd
    }

    /// Waits while messages are produced faster than clients read. Answers of agents are taken
    /// meanwhile; each adds one item, and their number is that of the response's calls.
    async fn pace(&mut self) {
        while let Some(answer) =
            self.mailbox.agent_answer_during(self.broadcast.subscribers_mut().pace()).await
        {
            let mut steps = Vec::new();
            self.step(answer, &mut steps);
            self.execute(steps).await;
        }
    }

    /// Stores what is missing and lets another server have the thread.
    async fn end(&mut self) {
        self.mailbox.refuse_commands();
        self.run_end_hooks().await;
        self.questions.resolve_all(self.broadcast.subscribers_mut());
        self.journal.store_missing_ends().await;
        self.journal.release().await;
    }

    async fn next(&mut self) -> Next {
        if let Some(input) = self.mailbox.next_soon() {
            return Next::Soon(input);
        }
        let unload = self.unload_due();
        tokio::select! {
            biased;
            command = self.mailbox.next() => command.map_or(Next::Closed, Next::Command),
            lock = unload => Next::Unload(lock),
            news = self.model.next() => Next::Model(news),
        }
    }

    /// Resolves to the thread's lock when the thread has had no subscriber and no activity for so long
    /// that it is unloaded. Commands queued at that moment are dropped: their callers learn that the
    /// thread is no longer loaded, and may resume it.
    fn unload_due(&mut self) -> impl Future<Output = ThreadLock> + use<> {
        let is_idle = self.broadcast.subscribers().is_empty() && self.machine.is_quiet();
        let due = self
            .unload_deadline
            .of(is_idle)
            .map(|at| (at, self.mailbox.threads().clone(), self.journal.id().clone()));
        async move {
            let Some((at, threads, id)) = due else { return std::future::pending().await };
            tokio::time::sleep_until(at).await;
            // A request that changes the thread holds it, and its command is taken meanwhile.
            threads.lock(&id).await
        }
    }

    /// Steps the machine; its effects are carried out with the batch.
    fn step(&mut self, input: MachineInput, steps: &mut Vec<Step>) {
        // A reviewer of what follows knows what the user wrote until now.
        if let Some(words) = self.agents.new_root_words() {
            append_steps(self.machine.step(MachineInput::RootWords { words }), steps);
        }
        match &input {
            MachineInput::Decided { request, decision } => self.trace.decided(*request, decision),
            MachineInput::StoreTexts {} => self.stores_texts = false,
            _ => {}
        }
        append_steps(self.machine.step(input), steps);
    }

    /// Stores the records of a batch in one transaction, then carries the rest out in order.
    async fn execute(&mut self, steps: Vec<Step>) {
        let pauses =
            !self.queue.is_empty() && !self.queue.is_stopped() && self.mailbox.end().is_none();
        self.journal.pause_queue_at_end(pauses);
        let stored = self.journal.store(&steps).await;
        if let Some(taken) = self.journal.taken() {
            self.queue.take(&taken);
        }
        if let Err(error) = stored {
            return self.execute_unstored(steps, &error).await;
        }
        for step in steps {
            self.perform(step).await;
        }
        self.show_settings();
        self.store_texts_later();
    }

    /// Subscribers learn of settings that changed.
    fn show_settings(&mut self) {
        let version = self.machine.settings_version();
        if self.shown_settings != Some(version) {
            self.shown_settings = Some(version);
            self.broadcast.show_settings(thread_settings(self.machine.settings()));
        }
    }

    /// Sees to it that text that clients have received is stored soon.
    fn store_texts_later(&mut self) {
        let has_text = self.machine.has_unstored_text() && !self.journal.is_ephemeral();
        if has_text && !std::mem::replace(&mut self.stores_texts, true) {
            let into = STORE_TEXTS_SINCE.elapsed().subsec_nanos();
            let wait = STORE_TEXTS_EVERY - Duration::from_nanos(into.into());
            self.mailbox.deliver_after(wait, MachineInput::StoreTexts {});
        }
    }

    /// The clock of the thread's turns, which prompts of the threads that it works for pause too.
    fn clock(&self) -> PausableClock {
        PausableClock::new(self.commands.paused(), self.agents.pauses_above())
    }

    /// The thread as tool calls see it.
    fn tool_context(&self) -> ToolContext {
        let settings = self.machine.allowed_settings();
        let known_documents = self.machine.project_documents().iter().map(PathBuf::from).collect();
        ToolContext { config: self.configuration.config().clone(), settings, known_documents }
    }
}
