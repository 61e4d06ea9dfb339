//! The adapter: one task that owns all state and takes what comes from the editor and from the server.
//!
//! - `requests` reads the editor's messages;
//! - `open` opens, lists and closes sessions, and shows their history;
//! - `prompt` begins, cancels and ends turns; `insert` answers prompts of version 2, and says what a session does;
//! - `events` and `items` show what the server reports;
//! - `questions` passes approvals and other questions on;
//! - `login` logs in and out.

mod events;
mod insert;
mod items;
mod login;
mod open;
mod prompt;
mod questions;
mod requests;

use std::collections::HashMap;
use std::time::Duration;

use jsonrpc::{
    CloseReason, Connection, ErrorObject, Incoming, Limits, Message, Method, Outbox, RequestId,
    code,
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::editor::{Editor, OpenQuestion, Then};
use crate::link::{Arrival, Link};
use crate::schema::initialize::ClientCapabilities;
use crate::schema::update::SessionUpdate;
use crate::schema::v2;
use crate::schema::{Version, code as acp_code};
use crate::session::Session;
use login::Login;

/// Time for the server to answer the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages of the editor that are read before that.
const MAX_EARLY: usize = 64;
/// Time for interrupted turns to end after the editor has gone.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum delay of the end by an editor that does not read.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The output of running commands is shown at this interval: each time as a whole.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(100);

/// The settings of the adapter.
pub struct Options {
    /// Bounds of the connection to the server.
    pub limits: Limits,
    /// The version of this program.
    pub version: String,
    /// The model of new sessions; that of the configuration without.
    pub model: Option<String>,
    /// The provider of new sessions; that of the configuration without.
    pub model_provider: Option<String>,
    /// True if version 2 of the protocol, a draft, is spoken with clients that ask for it.
    pub speaks_v2: bool,
    /// Opens an address in the user's browser; returns whether a browser was started.
    pub browse: Box<dyn Fn(&str) -> bool + Send>,
}

/// Why the adapter has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// The editor closed the connection, or the program was asked to end. Running turns were interrupted.
    Editor,
    /// The connection to the server was lost; requests of the editor got errors.
    ServerLost,
}

/// Serves an editor until it closes its connection or `stop` resolves. The connection to the server is
/// closed at the end.
///
/// # Errors
/// The server does not accept the connection, in words for people.
pub async fn serve(
    editor: Connection,
    server: Connection,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<Ended, String> {
    let Connection { mut incoming, outbox } = editor;
    let mut stop = std::pin::pin!(stop);
    let mut early = Vec::new();
    let mut has_left = false;
    let link = {
        let mut opening = std::pin::pin!(Link::open(server, &options.limits, &options.version));
        let mut late = Instant::now() + HANDSHAKE_TIMEOUT;
        loop {
            tokio::select! {
                opened = &mut opening => break opened,
                incoming = incoming.recv(), if !has_left && early.len() < MAX_EARLY => {
                    match incoming {
                        Some(incoming) => early.push(incoming),
                        None => {
                            has_left = true;
                            late = late.min(Instant::now() + END_TIMEOUT);
                        }
                    }
                }
                _ = outbox.closed() => return Ok(Ended::Editor),
                () = &mut stop => return Ok(Ended::Editor),
                () = tokio::time::sleep_until(late) => {
                    break Err("the server accepted the connection, and did not answer".to_owned());
                }
            }
        }
    };
    let link = match link {
        Ok(link) => link,
        Err(why) => {
            refuse_early(&outbox, early, &why);
            outbox.drained(CLOSE_TIMEOUT).await;
            outbox.close(CloseReason::Finished);
            return Err(why);
        }
    };
    let mut adapter = Adapter::new(Editor::new(outbox.clone()), link, options);
    early.into_iter().for_each(|incoming| adapter.received(incoming));
    let mut deadline = has_left.then(|| adapter.interrupt_all());
    let ended = loop {
        if deadline.is_some() && adapter.sessions.values().all(|session| session.turn.is_none()) {
            break Ended::Editor;
        }
        let is_full = outbox.is_full() && outbox.close_reason().is_none();
        let flush = adapter.flush_at;
        tokio::select! {
            incoming = incoming.recv(), if deadline.is_none() => match incoming {
                Some(incoming) => adapter.received(incoming),
                None => deadline = Some(adapter.interrupt_all()),
            },
            // An editor that does not read makes the server wait.
            arrival = adapter.link.next(), if !is_full => match arrival {
                Arrival::Event(event) => adapter.event(event),
                Arrival::Answer(then, result) => then(&mut adapter, result),
                Arrival::Lost => {
                    adapter.refuse_all();
                    break Ended::ServerLost;
                }
            },
            () = outbox.room(), if is_full => {}
            () = until(flush), if flush.is_some() && !is_full => adapter.show_grown(),
            _ = outbox.closed(), if deadline.is_none() => {
                deadline = Some(adapter.interrupt_all());
            }
            () = &mut stop, if deadline.is_none() => deadline = Some(adapter.interrupt_all()),
            () = until(deadline), if deadline.is_some() => break Ended::Editor,
        }
    };
    drop(adapter);
    outbox.drained(CLOSE_TIMEOUT).await;
    outbox.close(CloseReason::Finished);
    Ok(ended)
}

/// Answers the requests that came before the server was found not to be one.
fn refuse_early(outbox: &Outbox, early: Vec<Incoming>, why: &str) {
    let editor = Editor::<Adapter>::new(outbox.clone());
    for incoming in early {
        if let Incoming::Message(Message::Request { id, .. }) = incoming {
            editor.refuse(Some(&id), &ErrorObject::internal(why));
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// The state of the adapter.
pub(crate) struct Adapter {
    editor: Editor<Self>,
    link: Link<Self>,
    options: Options,
    /// `None` before the handshake.
    client: Option<ClientCapabilities>,
    /// The version that the handshake agreed on.
    version: Version,
    /// The editor's requests without an answer.
    requests: HashMap<RequestId, Running>,
    sessions: HashMap<String, Session>,
    /// Threads of agents, and the sessions that they work for.
    agents: HashMap<String, String>,
    /// The server's open requests.
    questions: HashMap<RequestId, OpenQuestion>,
    login: Option<Login>,
    /// Messages of this program itself, for their ids.
    said: u64,
    /// When the output of running commands is shown next.
    flush_at: Option<Instant>,
}

/// The operation of an editor's request, for its cancellation.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Running {
    /// A turn of this session.
    Prompt(String),
    /// Loads or resumes this session.
    Opening(String),
    Login,
    /// Ends by itself.
    Other,
}

impl Adapter {
    fn new(editor: Editor<Self>, link: Link<Self>, options: Options) -> Self {
        Self {
            editor,
            link,
            options,
            client: None,
            version: Version::default(),
            requests: HashMap::new(),
            sessions: HashMap::new(),
            agents: HashMap::new(),
            questions: HashMap::new(),
            login: None,
            said: 0,
            flush_at: None,
        }
    }

    /// Calls a method of the server.
    fn call<M: Method>(
        &mut self,
        params: &M::Params,
        then: impl FnOnce(&mut Self, Result<M::Result, ErrorObject>) + Send + 'static,
    ) {
        let typed: Then<Self> = Box::new(move |this, result| {
            let read = result.and_then(|value| {
                serde_json::from_value(value)
                    .map_err(|error| ErrorObject::internal(format!("{}: {error}", M::NAME)))
            });
            then(this, read);
        });
        self.link.call::<M>(params, typed);
    }

    fn update(&self, session: &str, update: &SessionUpdate) {
        match self.version {
            Version::First => self.editor.update(session, update),
            Version::Second => {
                if let Some(update) = v2::update(update) {
                    self.editor.update(session, &update);
                }
            }
        }
    }

    /// Answers a request of the editor, unless it was cancelled.
    fn answer(&mut self, id: &RequestId, result: &impl Serialize) {
        if self.requests.remove(id).is_some() {
            self.editor.answer(id, result);
        }
    }

    /// Answers a request of the editor with an error, unless it was cancelled.
    fn refuse(&mut self, id: &RequestId, error: &ErrorObject) {
        if self.requests.remove(id).is_some() {
            self.editor.refuse(Some(id), error);
        }
    }

    fn is_running(&self, id: &RequestId) -> bool {
        self.requests.contains_key(id)
    }

    /// The editor is gone: nothing goes on without it. Returns until when the turns may take to end.
    fn interrupt_all(&mut self) -> Instant {
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        for session in sessions {
            self.interrupt(&session);
        }
        Instant::now() + END_TIMEOUT
    }

    /// The server is gone.
    fn refuse_all(&mut self) {
        let error = ErrorObject::internal(
            "the connection to the server was lost: start the agent again, and load the session",
        );
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        for session in &sessions {
            self.warn(session, &error.message, None);
        }
        for id in std::mem::take(&mut self.requests).into_keys() {
            self.editor.refuse(Some(&id), &error);
        }
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.client.clone().unwrap_or_default()
    }
}

/// An error of the server for the editor: those that the protocol has codes for have them.
fn for_editor(error: ErrorObject) -> ErrorObject {
    let is_missing =
        error.code == code::INVALID_REQUEST && error.message.starts_with("thread not found");
    let code = if is_missing { acp_code::NOT_FOUND } else { error.code };
    ErrorObject { code, ..error }
}

/// Reads an answer of the editor.
fn read_answer<T: serde::de::DeserializeOwned>(
    outcome: Result<Value, ErrorObject>,
) -> Result<T, ErrorObject> {
    serde_json::from_value(outcome?).map_err(|error| ErrorObject::internal(error.to_string()))
}
