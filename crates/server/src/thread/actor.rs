//! The actor of a loaded thread: feeds the machine, stores before it tells, carries effects out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::ResponseStream;
use protocol::permission::PermissionProfileSelectionParams;
use serde_json::value::RawValue;
use session::{
    Answer, Effect, Event, Id, Input, Machine, Millis, Overrides, Prepared, Prompt, Record, Status,
    ToolError, TurnView,
};
use store::ThreadRecord;
use tokio::sync::{mpsc, oneshot, watch};

use crate::connection::Gate;
use crate::convert;
use crate::error::Error;
use crate::loading::{self, Extra};
use crate::server::Core;
use crate::thread::Command;
use crate::thread::afterwards::Heard;
use crate::thread::asks::OpenAsk;
use crate::thread::commands::Running;
use crate::thread::durable::MissingEnds;
use crate::thread::panicked;
use crate::thread::patches::Patches;
use crate::thread::reload::Source;
use crate::thread::subscribers::Subscribers;
use crate::thread::tell::Teller;

/// What an actor begins with.
pub(crate) struct Start {
    pub(crate) core: Arc<Core>,
    pub(crate) machine: Machine,
    pub(crate) record: ThreadRecord,
    pub(crate) extra: Extra,
    pub(crate) ephemeral: bool,
    pub(crate) instruction_sources: Vec<PathBuf>,
    pub(crate) config: Arc<config::Config>,
    pub(crate) source: Source,
    pub(crate) context_window: Option<i64>,
}

/// How long a thread without subscribers and without activity stays loaded (specification: States).
const UNLOAD_AFTER: Duration = Duration::from_secs(30 * 60);
/// Inputs taken together, so that their records share a transaction.
const BATCH: usize = 64;
/// Text of commands in one batch, in bytes: as JSON it may be six times as long, and all of it is
/// queued for the clients before they are paced.
const BATCH_TEXT: usize = 128 * 1024;

/// See the module.
pub(crate) struct Actor {
    pub(super) core: Arc<Core>,
    pub(super) id: Id,
    pub(super) machine: Machine,
    pub(super) config: Arc<config::Config>,
    pub(super) source: Source,
    pub(super) sender: mpsc::Sender<Command>,
    pub(super) running: HashMap<u64, Running>,
    pub(super) patches: Patches,
    inbox: mpsc::Receiver<Command>,
    pub(super) record: ThreadRecord,
    pub(super) extra: Extra,
    pub(super) ephemeral: bool,
    pub(super) instruction_sources: Vec<PathBuf>,
    pub(super) subscribers: Subscribers,
    /// Of the client that came last.
    pub(super) user_agent: Option<String>,
    pub(super) teller: Teller,
    /// Resolves when the last look that was begun has reported.
    pub(super) inspected: Option<oneshot::Receiver<()>>,
    stream: Option<(u64, ResponseStream)>,
    waiting: HashMap<u64, Waiting>,
    pub(super) asks: BTreeMap<u64, OpenAsk>,
    /// Who waits to hear whether a host may be reached, by the key of the question.
    reaching: HashMap<u64, oneshot::Sender<bool>>,
    pub(super) status: Arc<watch::Sender<Option<Status>>>,
    /// The turns that clients were told the beginning of, and not the end.
    pub(super) open_turns: Vec<TurnView>,
    pub(super) missing_ends: MissingEnds,
    /// What the actor's own work found: taken before anything else.
    soon: VecDeque<Input>,
    pub(super) heard: Heard,
    next_reply: u64,
    ended: bool,
}

/// A handler that waits for the machine's reply, and the response to wait for after it.
struct Waiting {
    answer: oneshot::Sender<Result<Answer, Error>>,
    gate: Gate,
}

/// An effect with its item serialised once, for the store and for all subscribers.
pub(super) struct Step {
    pub(super) effect: Effect,
    pub(super) json: Option<Arc<RawValue>>,
}

impl Actor {
    pub(super) fn new(
        start: Start,
        sender: mpsc::Sender<Command>,
        inbox: mpsc::Receiver<Command>,
        status: Arc<watch::Sender<Option<Status>>>,
    ) -> Self {
        let Start {
            core,
            machine,
            record,
            extra,
            ephemeral,
            instruction_sources,
            config,
            source,
            context_window,
        } = start;
        let id: Id = record.id.as_str().into();
        Self {
            teller: Teller::new(id.clone(), context_window),
            core,
            id,
            machine,
            config,
            source,
            sender,
            running: HashMap::new(),
            patches: Patches::default(),
            inbox,
            record,
            extra,
            ephemeral,
            instruction_sources,
            subscribers: Subscribers::default(),
            user_agent: None,
            inspected: None,
            stream: None,
            waiting: HashMap::new(),
            asks: BTreeMap::new(),
            reaching: HashMap::new(),
            status,
            open_turns: Vec::new(),
            missing_ends: MissingEnds::default(),
            soon: VecDeque::new(),
            heard: Heard::default(),
            next_reply: 0,
            ended: false,
        }
    }

    /// Runs until the thread is unloaded.
    pub(super) async fn run(mut self) {
        if let Err(panic) = panicked::catch(self.serve()).await {
            self.end_after_panic(panic).await;
        }
    }

    async fn serve(&mut self) {
        while !self.ended {
            let mut steps = Vec::new();
            match self.next().await {
                Next::Soon(input) => self.step(input, &mut steps),
                Next::Command(command) => self.take(command, &mut steps).await,
                Next::Events(sample, events) => {
                    let raw = self.config.show_raw_agent_reasoning;
                    let events = convert::model::events(events, raw);
                    self.step(Input::Model { sample, events }, &mut steps);
                }
                Next::Unload => {
                    // Somebody may be loading or archiving it just now: then it stays for a while.
                    let core = self.core.clone();
                    let Ok(_loading) = core.loading.try_lock() else { continue };
                    self.inbox.close();
                    self.store_missing_ends().await;
                    release(&core, &self.id, self.ephemeral).await;
                    self.core.forget(&self.id);
                    return;
                }
                Next::Closed => break,
            }
            let mut text = 0;
            for _ in 1..BATCH {
                if text > BATCH_TEXT {
                    break;
                }
                let Ok(command) = self.inbox.try_recv() else { break };
                text += command.text_bytes();
                self.take(command, &mut steps).await;
            }
            self.execute(steps).await;
            self.subscribers.pace().await;
        }
        self.inbox.close();
        self.store_missing_ends().await;
        let (core, id) = (self.core.clone(), self.id.clone());
        release(&core, &id, self.ephemeral).await;
    }

    async fn next(&mut self) -> Next {
        if let Some(input) = self.soon.pop_front() {
            return Next::Soon(input);
        }
        let unload = self.unload_due();
        let stream = &mut self.stream;
        let events = async {
            let Some((sample, stream)) = stream else { return std::future::pending().await };
            (*sample, stream.next().await)
        };
        tokio::select! {
            biased;
            command = self.inbox.recv() => command.map_or(Next::Closed, Next::Command),
            () = unload => Next::Unload,
            (sample, events) = events => match events {
                Some(events) => Next::Events(sample, events),
                None => {
                    self.stream = None;
                    Next::Events(sample, Vec::new())
                }
            },
        }
    }

    /// Resolves when nobody has followed the thread, and nothing has happened in it, for so long
    /// that it is unloaded. What is queued at that moment is dropped; whoever waits for it hears
    /// that the thread is not loaded any more, and may resume it.
    fn unload_due(&self) -> impl Future<Output = ()> + use<> {
        let idle = self.subscribers.is_empty() && self.machine.is_quiet();
        async move {
            if !idle {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(UNLOAD_AFTER).await;
        }
    }

    fn now(&self) -> Millis {
        self.core.options.clock.now_ms()
    }

    /// Steps the machine; what is to be done is done with the batch.
    pub(super) fn step(&mut self, input: Input, steps: &mut Vec<Step>) {
        let mut last: Option<(Id, Arc<RawValue>)> = None;
        for effect in self.machine.step(self.now(), input) {
            let json = match &effect {
                Effect::Persist(Record::Item { item, .. }) => {
                    let json: Arc<RawValue> = convert::item::json(item).into();
                    last = Some((item.id().clone(), json.clone()));
                    Some(json)
                }
                Effect::Emit(
                    Event::ItemStarted { item, .. } | Event::ItemCompleted { item, .. },
                ) => last.take_if(|(id, _)| id == item.id()).map(|(_, json)| json),
                _ => None,
            };
            steps.push(Step { effect, json });
        }
    }

    async fn take(&mut self, command: Command, steps: &mut Vec<Step>) {
        match command {
            Command::Input(input) => self.step(input, steps),
            Command::StartTurn { content, overrides, permissions, output_schema, answer, gate } => {
                match self.before_turn(*overrides, permissions, steps).await {
                    Err(error) => drop(answer.send(Err(error))),
                    Ok(overrides) => {
                        let reply = self.wait(answer, gate);
                        self.step(Input::Start { reply, content, overrides, output_schema }, steps);
                    }
                }
            }
            Command::Ask { input, answer, gate } => {
                if let Err(error) = self.ensure_history(steps).await {
                    let _ = answer.send(Err(error));
                    return;
                }
                let reply = self.wait(answer, gate);
                self.step(input(reply), steps);
            }
            Command::Shell { script, answer, gate } => {
                if let Err(error) = self.ensure_history(steps).await {
                    let _ = answer.send(Err(error));
                    return;
                }
                match self.user_shell(&script).await {
                    Err(error) => drop(answer.send(Err(error))),
                    Ok(actions) => {
                        let cwd = self.machine.settings().cwd.clone();
                        let reply = self.wait(answer, gate);
                        self.step(Input::Shell { reply, script, cwd, actions }, steps);
                    }
                }
            }
            Command::Planned { call, plan, patch } => {
                self.planned(call, patch);
                self.step(Input::Prepared { call, outcome: Prepared::Patch(plan) }, steps);
            }
            Command::Applied { call, turn, patch, outcome } => {
                let outcome = self.applied(turn, &patch.changes, outcome);
                let outcome = outcome.map_err(|error| ToolError::new(error.to_string()));
                self.step(Input::Applied { call, outcome }, steps);
            }
            Command::Reach { key, input, answer } => {
                self.reaching.insert(key, answer);
                self.step(input, steps);
            }
            Command::RollBack { turns, answer } => {
                self.execute(std::mem::take(steps)).await;
                let _ = answer.send(self.roll_back(turns).await);
            }
            Command::Change { changes, answer } => {
                self.execute(std::mem::take(steps)).await;
                let _ = answer.send(self.change(*changes).await);
            }
            Command::Attach { peer, since, overrides, announce, snapshot, gate } => {
                let overrides = self.allowed(overrides);
                self.step(Input::Override { overrides }, steps);
                self.execute(std::mem::take(steps)).await;
                self.attach(peer, since, announce, snapshot, gate).await;
            }
            Command::Announce { method, message } => {
                self.execute(std::mem::take(steps)).await;
                self.subscribers.send_to_all(&self.core.everybody(), method, message);
            }
            Command::Look { snapshot } => {
                self.execute(std::mem::take(steps)).await;
                self.store_missing_ends().await;
                let _ = snapshot.send(self.snapshot());
            }
            Command::Unsubscribe { connection, was_subscribed } => {
                let _ = was_subscribed.send(self.subscribers.remove(connection));
                for input in self.core.requests.unsubscribed(&self.id, connection) {
                    self.step(input, steps);
                }
            }
            Command::Detach { connection } => {
                self.subscribers.remove(connection);
                for input in self.core.requests.disconnected(&self.id, connection) {
                    self.step(input, steps);
                }
            }
            Command::Drain => self.step(Input::Drain, steps),
            Command::Shutdown => {
                self.step(Input::Shutdown, steps);
                self.ended = true;
            }
        }
    }

    /// What a turn needs before it starts: the configuration as it is now, the model's history, and
    /// overrides that are allowed.
    async fn before_turn(
        &mut self,
        mut overrides: Overrides,
        permissions: Option<PermissionProfileSelectionParams>,
        steps: &mut Vec<Step>,
    ) -> Result<Overrides, Error> {
        self.follow_configuration(steps).await?;
        if let Some(wished) = permissions {
            let tmpdir = self.core.options.tmpdir();
            let policy = loading::permissions(&self.config, &wished, tmpdir);
            overrides.sandbox = Some(policy?);
        }
        self.ensure_history(steps).await?;
        Ok(self.allowed(overrides))
    }

    fn wait(&mut self, answer: oneshot::Sender<Result<Answer, Error>>, gate: Gate) -> u64 {
        self.next_reply += 1;
        self.waiting.insert(self.next_reply, Waiting { answer, gate });
        self.next_reply
    }

    pub(super) async fn perform(&mut self, step: Step) {
        let Step { effect, json } = step;
        match effect {
            Effect::Persist(_) => {}
            Effect::Emit(Event::RequestResolved { request }) => self.resolved(request),
            Effect::Emit(event) => {
                if let Event::StatusChanged(status) = &event {
                    self.status.send_replace(Some(*status));
                }
                match &event {
                    Event::TurnStarted(view) => self.open_turns.push(view.clone()),
                    Event::TurnCompleted(view) => self.open_turns.retain(|open| open.id != view.id),
                    _ => {}
                }
                self.teller.tell(&mut self.subscribers, &event, json.as_deref());
                self.overhear(&event);
            }
            Effect::Reply { reply, result } => {
                let Some(Waiting { answer, gate }) = self.waiting.remove(&reply) else { return };
                if answer.send(result.map_err(Error::from)).is_ok() {
                    gate.opened().await;
                }
            }
            Effect::Sample { sample, prompt } => self.sample(sample, prompt),
            Effect::CancelSample { sample } => {
                self.stream.take_if(|(current, _)| *current == sample);
            }
            Effect::RetryAfter { sample, wait_ms } => {
                let jitter = (self.core.options.jitter)();
                self.later(jittered(wait_ms, jitter), Input::RetryDue { sample });
            }
            Effect::Wait { call, ms } => {
                self.later(Duration::from_millis(ms), Input::Elapsed { call });
            }
            Effect::Prepare { call, turn, request } => self.prepare(call, &turn, request),
            Effect::Run { process, spec } => self.start_command(process, spec),
            Effect::Write { process, text } => self.type_into(process, text),
            Effect::Kill { process } => self.kill(process),
            Effect::Apply { call, turn } => self.apply(call, &turn),
            Effect::Discard { call } => self.patches.discard(call),
            Effect::Ask { request, turn, item, ask, at } => {
                self.ask(request, &turn, &item, ask, at);
            }
            Effect::NetworkAnswer { key, allowed } => {
                if let Some(answer) = self.reaching.remove(&key) {
                    // Who asked may be gone.
                    let _ = answer.send(allowed);
                }
            }
            Effect::CallTool { request, turn, call } => self.call_tool(request, &turn, &call),
            Effect::Allow { cwd, prefix } => self.allow(&cwd, &prefix),
            Effect::TurnEnded { turn } => self.patches.turn_ended(&turn),
        }
    }

    /// Ends what runs for the thread, and takes nothing more: whoever waits for an answer hears that
    /// the thread is not loaded any more.
    pub(super) fn let_go(&mut self) {
        self.inbox.close();
        while self.inbox.try_recv().is_ok() {}
        self.stream = None;
        self.running.clear();
        self.waiting.clear();
        self.reaching.clear();
        self.soon.clear();
    }

    fn sample(&mut self, sample: u64, mut prompt: Prompt) {
        let Some(configured) = self.config.providers.get(&prompt.provider) else {
            let message = format!(
                "the provider `{}` is not in the configuration; add it to `model_providers`",
                prompt.provider
            );
            return self.fail_sample(sample, message);
        };
        let provider = crate::provider::provider(configured, self.user_agent.as_deref());
        let info = self.core.models.info(&self.config, &prompt.provider, &prompt.model);
        if !self.config.features.fast_mode {
            prompt.service_tier.take_if(|tier| tier == "fast");
        }
        let prompt = convert::model::prompt(prompt, &self.id, &info);
        self.stream = Some((sample, self.core.model.stream_prompt(&provider, &prompt)));
    }

    fn fail_sample(&mut self, sample: u64, message: String) {
        let failure = session::Failure::new(session::FailureKind::BadRequest, message);
        let events = vec![session::ModelEvent::Failed(failure)];
        self.soon(Input::Model { sample, events });
    }

    /// Takes `input` next. Bounded by the calls of a response: each has one such input at most.
    pub(super) fn soon(&mut self, input: Input) {
        self.soon.push_back(input);
    }

    /// Reports `input` after a while.
    fn later(&self, wait: Duration, input: Input) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // A thread that has ended needs no reminder.
            let _ = sender.send(Command::Input(input)).await;
        });
    }
}

/// Lets another server have a thread.
async fn release(core: &Core, thread: &str, ephemeral: bool) {
    if ephemeral {
        return;
    }
    if let Ok(store) = core.store().await {
        // A lease that stays ends with this server.
        let _ = store.release(thread).await;
    }
}

enum Next {
    Unload,
    Soon(Input),
    Command(Command),
    Events(u64, Vec<model::Event>),
    Closed,
}

/// `wait_ms` and up to a tenth more by `jitter` in `0.0..1.0`, so that many threads do not come back
/// to a provider at once.
fn jittered(wait_ms: u64, jitter: f64) -> Duration {
    Duration::from_millis(wait_ms).mul_f64(1.0 + 0.1 * jitter.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_at_least_what_was_told() {
        let ms = |jitter| jittered(400, jitter).as_millis();
        assert_eq!([ms(0.0), ms(0.5), ms(1.0), ms(7.0)], [400, 420, 440, 440]);
    }
}
