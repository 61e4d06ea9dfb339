//! The realtime sessions of threads, one for each thread at most. A session ends with its thread, with the
//! connection that started it, and with the server.

mod audience;
mod session;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Provider;
use realtime::{Input, Settings};
use tokio::sync::{mpsc, watch};

use services::accounts::Accounts;
use services::error::Error;
use services::peer::{ConnectionId, Gate, Peer};
use services::provider::provider;
use services::thread_port::{ProviderAccess, ThreadHandle};
use session::Session;

/// Inputs that may wait for the provider: some seconds of audio. At the bound they are refused.
const MAX_INPUTS: usize = 32;

/// The realtime sessions of threads.
pub(crate) struct RealtimeSessions {
    client: model::Client,
    accounts: Arc<Accounts>,
    running: Mutex<HashMap<String, Running>>,
}

/// A session as others know it.
struct Running {
    connection: ConnectionId,
    /// True if audio is taken here; that of a call goes to the provider directly.
    takes_audio: bool,
    inputs: mpsc::Sender<Input>,
    /// Ends it: why.
    stop: watch::Sender<Option<Closed>>,
    /// It takes no more inputs: another one may be started, which begins after its end.
    is_ending: bool,
    /// Closed when it has ended and its clients know.
    ended: watch::Receiver<()>,
}

/// Why a session is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// `thread/realtime/stop`.
    Requested,
    /// The connection that started it has ended.
    ClientDisconnected,
    /// The thread is no longer loaded.
    ThreadUnloaded,
    /// The server ends.
    ShuttingDown,
    /// The provider has closed it.
    ByProvider,
    /// An error, which was reported.
    Error,
}

impl Closed {
    /// `reason` of `thread/realtime/closed`.
    fn reason(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::ClientDisconnected => "client_disconnected",
            Self::ThreadUnloaded => "thread_closed",
            Self::ShuttingDown => "shutting_down",
            Self::ByProvider => "transport_closed",
            Self::Error => "error",
        }
    }
}

/// A session to start.
pub(crate) struct NewSession {
    pub(crate) thread: String,
    pub(crate) handle: ThreadHandle,
    pub(crate) starter: Arc<Peer>,
    pub(crate) settings: Settings,
    pub(crate) provider: Arc<Provider>,
    /// The client's id of the session.
    pub(crate) id: Option<String>,
    /// The SDP offer of a call over WebRTC.
    pub(crate) offer: Option<String>,
}

impl RealtimeSessions {
    pub(crate) fn new(client: model::Client, accounts: Arc<Accounts>) -> Self {
        Self { client, accounts, running: Mutex::default() }
    }

    /// The provider of a thread, as one of realtime sessions.
    ///
    /// # Errors
    /// It has no realtime API, or no key.
    pub(crate) fn provider(
        &self,
        access: &ProviderAccess,
        user_agent: Option<&str>,
    ) -> Result<Arc<Provider>, Error> {
        let id = &access.provider;
        let Some(configured) = access.config.providers.get(id) else {
            let message = format!("the provider `{id}` is not in the configuration");
            return Err(Error::wrong_state(message).next_step("add it to `model_providers`"));
        };
        let provider = provider(&access.config, configured, user_agent, &self.accounts);
        if provider.transport == model::Transport::Offline || provider.local.is_some() {
            let message = format!("model provider `{id}` has no realtime API");
            return Err(Error::wrong_state(message)
                .next_step("start the thread with another `modelProvider`"));
        }
        match &provider.api_key {
            model::KeySource::Missing { instructions } => Err(Error::wrong_state(format!(
                "model provider `{id}` has no API key: {instructions}"
            ))),
            _ => Ok(provider),
        }
    }

    /// Starts a session, which begins when `gate` opens. Clients learn of its start and its end by
    /// notifications.
    ///
    /// # Errors
    /// The thread has one.
    pub(crate) fn start(self: &Arc<Self>, new: NewSession, gate: Gate) -> Result<(), Error> {
        let (inputs, taken) = mpsc::channel(MAX_INPUTS);
        let (stop, stopped) = watch::channel(None);
        let (is_over, ended) = watch::channel(());
        let mut running = self.lock();
        let previous = match running.get(&new.thread) {
            Some(other) if !other.is_ending => {
                let message = "a realtime session of the thread is in progress";
                return Err(
                    Error::wrong_state(message).next_step("call thread/realtime/stop first")
                );
            }
            Some(other) => Some(other.ended.clone()),
            None => None,
        };
        let entry = Running {
            connection: new.starter.id,
            takes_audio: new.offer.is_none(),
            inputs: inputs.clone(),
            stop,
            is_ending: false,
            ended,
        };
        running.insert(new.thread.clone(), entry);
        drop(running);
        let (sessions, thread) = (self.clone(), new.thread.clone());
        let client = self.client.clone();
        tokio::spawn(async move {
            if let Some(mut previous) = previous {
                // An error means that it has ended.
                while previous.changed().await.is_ok() {}
            }
            gate.opened().await;
            let session = Session::new(new, client);
            let closed = session.run(taken, stopped).await;
            sessions.begin_end(&thread, &inputs);
            session.close(closed).await;
            sessions.forget(&thread, &inputs);
            drop(is_over);
        });
        Ok(())
    }

    /// Ends the session of a thread when `gate` opens. A thread without one stays as it is: a session may
    /// end while the client asks for it.
    pub(crate) fn stop(self: &Arc<Self>, thread: &str, gate: Gate) {
        let stop = {
            let mut running = self.lock();
            let Some(session) = running.get_mut(thread) else { return };
            session.is_ending = true;
            session.stop.clone()
        };
        tokio::spawn(async move {
            gate.opened().await;
            end(&stop, Closed::Requested);
        });
    }

    /// Adds to the conversation of a thread.
    ///
    /// # Errors
    /// The thread has no session, it is not one that takes this, or too much waits for the provider.
    pub(crate) fn append(&self, thread: &str, input: Input) -> Result<(), Error> {
        let running = self.lock();
        let session = running.get(thread).filter(|session| !session.is_ending);
        let session = session.ok_or_else(no_session)?;
        if !session.takes_audio && matches!(input, Input::Audio(_)) {
            let message = "the audio of this session goes over WebRTC";
            return Err(Error::wrong_state(message).next_step("add it to the call"));
        }
        session.inputs.try_send(input).map_err(|error| match error {
            mpsc::error::TrySendError::Closed(_) => no_session(),
            mpsc::error::TrySendError::Full(_) => {
                let message = format!("too many inputs ({MAX_INPUTS}) wait for the model provider");
                Error::wrong_state(message).next_step(
                    "wait for thread/realtime/started, and send audio no faster than it plays",
                )
            }
        })
    }

    /// Ends the sessions that a connection has started.
    pub(crate) fn end_all_of(&self, connection: ConnectionId) {
        for session in self.lock().values_mut().filter(|one| one.connection == connection) {
            session.is_ending = true;
            end(&session.stop, Closed::ClientDisconnected);
        }
    }

    /// Ends all sessions, and returns when their clients know.
    pub(crate) async fn shut_down(&self) {
        let ends: Vec<_> = {
            let mut running = self.lock();
            let sessions = running.values_mut().map(|session| {
                session.is_ending = true;
                end(&session.stop, Closed::ShuttingDown);
                session.ended.clone()
            });
            sessions.collect()
        };
        for mut ended in ends {
            // An error means that it has ended.
            while ended.changed().await.is_ok() {}
        }
    }

    /// A session that ends by itself takes no more inputs.
    fn begin_end(&self, thread: &str, inputs: &mpsc::Sender<Input>) {
        if let Some(session) = self.lock().get_mut(thread)
            && session.inputs.same_channel(inputs)
        {
            session.is_ending = true;
        }
    }

    fn forget(&self, thread: &str, inputs: &mpsc::Sender<Input>) {
        let mut running = self.lock();
        if running.get(thread).is_some_and(|session| session.inputs.same_channel(inputs)) {
            running.remove(thread);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a session for the first of several reasons.
fn end(stop: &watch::Sender<Option<Closed>>, reason: Closed) {
    stop.send_if_modified(|known| {
        let is_first = known.is_none();
        known.get_or_insert(reason);
        is_first
    });
}

fn no_session() -> Error {
    Error::wrong_state("the thread has no realtime session").next_step("call thread/realtime/start")
}
