//! The state that an agent, its threads and its turns share over the whole life of the agent: requests, and the tasks
//! that read its connections. `returning.rs` replaces a connection that was lost.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use jsonrpc::{Connection, Event as Incoming, Method, Notification as _, Observer, Reader};
use protocol::{InitializeParams, ServerRequestResolved, TurnCompleted};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::answers::Answers;
use crate::context::UserValue;
use crate::desk::Desk;
use crate::event::Event;
use crate::handlers::Handlers;
use crate::link::{Link, OnResult, Way};
use crate::pressure::Pressure;
use crate::process::Process;
use crate::recording::Recorder;
use crate::state::{Opened, ThreadState};
use crate::{Error, Notification};

/// Time before the second attempt at something; twice as much before each later one, up to the longest.
pub(crate) const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// Time after which a connection that is not read is pinged: what the server sends is not seen.
const PING: Duration = Duration::from_secs(10);

/// Limits that the application chose.
pub(crate) struct Settings {
    pub(crate) start_timeout: Duration,
    pub(crate) reconnect_timeout: Duration,
    pub(crate) overload_retries: u32,
}

/// Where an agent stands. `Over` is final, and its first reason counts.
pub(crate) enum Phase {
    Opening,
    Open(Arc<Link>),
    /// The connection was lost, and another one is made.
    Returning,
    Over(Error),
}

/// The part of an agent that its threads and turns share.
pub(crate) struct Shared {
    pub(crate) way: Way,
    recorder: Option<Arc<Recorder>>,
    /// For what is sent from outside of a task.
    runtime: Handle,
    pub(crate) hello: InitializeParams,
    pub(crate) settings: Settings,
    pub(crate) phase: watch::Sender<Phase>,
    /// The newest connection.
    newest: Mutex<Option<Arc<Link>>>,
    links: AtomicU32,
    /// Events that were received.
    events: AtomicU64,
    threads: Mutex<HashMap<String, Weak<ThreadState>>>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) handlers: Handlers,
    pub(crate) pressure: Arc<Pressure>,
}

impl Shared {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(
        (way, recorder): (Way, Option<Arc<Recorder>>),
        hello: InitializeParams,
        settings: Settings,
        answers: Answers,
    ) -> Arc<Self> {
        Arc::new(Self {
            way,
            recorder,
            runtime: Handle::current(),
            hello,
            settings,
            phase: watch::Sender::new(Phase::Opening),
            newest: Mutex::default(),
            links: AtomicU32::new(0),
            events: AtomicU64::new(0),
            threads: Mutex::default(),
            desk: Desk::new(answers),
            handlers: Handlers::default(),
            pressure: Arc::default(),
        })
    }

    /// Takes over a connection, and reads it. Must be called within a tokio runtime.
    pub(crate) fn attach(
        self: &Arc<Self>,
        connection: Connection,
        process: Option<Process>,
    ) -> Arc<Link> {
        let number = self.links.fetch_add(1, Ordering::Relaxed) + 1;
        let observer = self.recorder.clone().map(|recorder| -> Arc<dyn Observer> {
            recorder.connected();
            recorder
        });
        let (link, reader) = Link::new(number, connection, process, observer);
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
        tokio::spawn(self.clone().read(link.clone(), reader));
        link
    }

    /// Calls a method.
    pub(crate) async fn request<M: Method>(&self, params: &M::Params) -> Result<M::Result, Error> {
        let result = self.call(M::NAME, params, None).await?;
        jsonrpc::read_result(&result).map_err(|why| Error::UnreadableResult {
            method: M::NAME.to_owned(),
            why: why.to_string(),
        })
    }

    /// Calls a method; while the agent connects again, the request waits for that. One that the server refuses
    /// because it has too much to do is sent again, after a growing delay.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &impl Serialize,
        taken: Option<OnResult>,
    ) -> Result<Box<RawValue>, Error> {
        let mut delay = FIRST_DELAY;
        for left in (0..=self.settings.overload_retries).rev() {
            let link = self.link().await?;
            match self.call_on(&link, method, params, taken.clone()).await {
                Err(error) if error.is_overload() && left > 0 => {}
                result => return result,
            }
            self.wait(&mut delay).await?;
        }
        Err(Error::lost("the request was not sent"))
    }

    /// Calls a method on one connection.
    pub(crate) async fn call_on(
        &self,
        link: &Link,
        method: &str,
        params: &impl Serialize,
        taken: Option<OnResult>,
    ) -> Result<Box<RawValue>, Error> {
        if let Some(why) = self.recorder.as_ref().and_then(|recorder| recorder.failure()) {
            return Err(self.finish(why));
        }
        let _waiting = self.pressure.wait();
        let result = tokio::select! {
            biased;
            result = link.request(method, params, taken) => result,
            error = self.over() => Err(error),
        };
        match result {
            // The reason for the end of the agent says more than that of its connection.
            Err(error @ Error::ConnectionLost(_)) => Err(self.over_now().unwrap_or(error)),
            result => result,
        }
    }

    /// Waits before the next attempt, and makes the delay longer.
    pub(crate) async fn wait(&self, delay: &mut Duration) -> Result<(), Error> {
        tokio::select! {
            () = tokio::time::sleep(random_part(*delay)) => {}
            error = self.over() => return Err(error),
        }
        *delay = (*delay * 2).min(LONGEST_DELAY);
        Ok(())
    }

    /// Opens a thread: a request whose result has it.
    pub(crate) async fn open(
        self: &Arc<Self>,
        method: &str,
        params: &impl Serialize,
        context: Option<UserValue>,
    ) -> Result<Arc<ThreadState>, Error> {
        // Filled before any later event, so that none of the thread is missed.
        let opened: Arc<Mutex<Option<Arc<ThreadState>>>> = Arc::default();
        let (shared, slot) = (self.clone(), opened.clone());
        let taken: OnResult = Arc::new(move |result, link| {
            let Ok(opened) = serde_json::from_str::<Opened>(result.get()) else { return };
            let state = shared.state_of(&opened.thread.id);
            state.subscribed(link, opened.event_cursor);
            state.set_context(context.clone());
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        });
        self.call(method, params, Some(taken)).await?;
        let opened = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        opened.ok_or_else(|| unreadable(method, "it has no `thread` with an `id`"))
    }

    /// The state of a thread, which exists as long as it is held.
    pub(crate) fn state_of(&self, id: &str) -> Arc<ThreadState> {
        let mut threads = self.threads();
        if let Some(state) = threads.get(id).and_then(Weak::upgrade) {
            return state;
        }
        threads.retain(|_, state| state.strong_count() > 0);
        let state = Arc::new(ThreadState::new(id));
        threads.insert(id.to_owned(), Arc::downgrade(&state));
        state
    }

    /// The threads whose state is held, in an order that is the same in a replay.
    pub(crate) fn states(&self) -> Vec<Arc<ThreadState>> {
        let mut states: Vec<_> = self.threads().values().filter_map(Weak::upgrade).collect();
        states.sort_by(|one, other| one.id.cmp(&other.id));
        states
    }

    /// The number of events that were received.
    pub(crate) fn event_count(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Ends the agent because the server wrote something else than the protocol, and returns why it ended.
    pub(crate) fn broken(&self, what: impl std::fmt::Display) -> Error {
        let why = self.finish(Error::not_the_protocol(what));
        if let Some(link) = self.newest() {
            link.end(why.clone());
        }
        why
    }

    /// Finishes the connection, after what was sent.
    pub(crate) fn close(&self) {
        self.finish(Error::lost("the connection was closed"));
        if let Some(link) = self.newest() {
            link.finish();
        }
    }

    /// Ends the connection at once, and a server that was started here with it.
    pub(crate) fn abandon(&self) {
        let why = self.finish(Error::lost("the connection was given up"));
        let Some(link) = self.newest() else { return };
        link.end(why);
        if let Some(process) = &link.process {
            process.kill();
        }
    }

    /// Waits for the end of the newest connection, and of a server that was started here.
    pub(crate) async fn ended(&self) {
        if let Some(link) = self.newest() {
            link.ended().await;
        }
    }

    /// Why the agent is over, if it is.
    pub(crate) fn over_now(&self) -> Option<Error> {
        match &*self.phase.borrow() {
            Phase::Over(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Waits until the agent is over.
    pub(crate) async fn over(&self) -> Error {
        let mut phase = self.phase.subscribe();
        let over = phase.wait_for(|phase| matches!(phase, Phase::Over(_))).await;
        match over.as_deref() {
            Ok(Phase::Over(error)) => error.clone(),
            _ => Error::lost("the connection was closed"),
        }
    }

    /// Ends the agent, and returns why: the first reason counts.
    pub(crate) fn finish(&self, why: Error) -> Error {
        let mut is_first = false;
        self.phase.send_if_modified(|phase| {
            is_first = !matches!(phase, Phase::Over(_));
            if is_first {
                *phase = Phase::Over(why.clone());
            }
            is_first
        });
        if !is_first {
            return self.over_now().unwrap_or(why);
        }
        self.pressure.end();
        self.desk.close();
        for state in self.states() {
            state.fail(&why);
        }
        why
    }

    /// Interrupts a turn that is no longer wanted, without waiting for it.
    pub(crate) fn interrupt_later(self: &Arc<Self>, thread_id: &str, turn_id: &str) {
        let shared = self.clone();
        let params = json!({ "threadId": thread_id, "turnId": turn_id });
        self.runtime.spawn(async move {
            // A refusal says that it has ended meanwhile.
            let _ = shared.call(protocol::TurnInterrupt::NAME, &params, None).await;
        });
    }

    /// The connection, once there is one.
    pub(crate) async fn link(&self) -> Result<Arc<Link>, Error> {
        let mut phase = self.phase.subscribe();
        let ready = phase.wait_for(|phase| matches!(phase, Phase::Open(_) | Phase::Over(_))).await;
        match ready.as_deref() {
            Ok(Phase::Open(link)) => Ok(link.clone()),
            Ok(Phase::Over(error)) => Err(error.clone()),
            _ => Err(Error::lost("the connection was closed")),
        }
    }

    fn newest(&self) -> Option<Arc<Link>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads until the connection ends.
    async fn read(self: Arc<Self>, link: Arc<Link>, mut reader: Reader) {
        while let Some(event) = reader.next().await {
            if let Err(what) = self.take(&link, event) {
                link.is_garbage.store(true, Ordering::Release);
                link.end(Error::not_the_protocol(what));
                break;
            }
            // What arrives may be endless: other tasks of this thread go on.
            tokio::task::coop::consume_budget().await;
            self.pressure.hold(PING, || link.ping()).await;
        }
        let why = match self.way.failure() {
            Some(failure) => failure,
            None => Error::lost(link.last_words().await),
        };
        let why = link.end(why);
        self.lost(&link, why);
    }

    /// Takes what the server sends by itself. An error says why it is not the protocol.
    fn take(self: &Arc<Self>, link: &Arc<Link>, event: Incoming) -> Result<(), String> {
        match event {
            Incoming::Notification { method, params, cursor } => {
                self.notified(Notification { method, params, cursor })
            }
            Incoming::Request { id, method, params } => {
                self.desk.ask(link, id, method, params, |thread_id, turn_id| {
                    let state = self.threads().get(thread_id).and_then(Weak::upgrade)?;
                    state.user_value(turn_id)
                });
                Ok(())
            }
            Incoming::Fault(fault) => Err(fault.message),
        }
    }

    fn notified(self: &Arc<Self>, notification: Notification) -> Result<(), String> {
        let order = self.events.fetch_add(1, Ordering::Relaxed) + 1;
        let event = Event::read(notification, order)?;
        let Some(thread_id) = event.thread_id.clone() else {
            self.handlers.call(&event.notification);
            return Ok(());
        };
        let state = self.threads().get(&thread_id).and_then(Weak::upgrade);
        let (event, is_new, to_interrupt) = match state {
            Some(state) => state.take(event),
            None => (Arc::new(event), true, None),
        };
        self.handlers.call(&event.notification);
        if is_new {
            let notification = &event.notification;
            if let Some(Ok(resolved)) = notification.read::<ServerRequestResolved>() {
                self.desk.resolved(&resolved.request_id);
            } else if notification.method == TurnCompleted::NAME
                && let Some(turn_id) = &event.turn_id
            {
                self.desk.turn_ended(&thread_id, turn_id);
            }
        }
        if let Some(turn_id) = to_interrupt {
            self.interrupt_later(&thread_id, &turn_id);
        }
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<String, Weak<ThreadState>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a result that lacks what it has to have.
pub(crate) fn unreadable(method: &str, why: &str) -> Error {
    Error::UnreadableResult { method: method.to_owned(), why: why.to_owned() }
}

/// Between a half and the whole of a delay, so that clients do not come back all at once.
fn random_part(delay: Duration) -> Duration {
    // Its keys are random.
    let random = RandomState::new().hash_one(0_u8) as u32;
    delay.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}
