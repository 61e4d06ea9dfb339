//! Commands that a client runs without a thread: `command/exec` and `process/*`. A process has the
//! client's own name, belongs to its connection and ends with it.

mod run;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox::{DEFAULT_OUTPUT_CAP, Size};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::in_flight::{Accepted, InFlight};
use services::command_runner::CommandRunner;
use services::connections::Connections;
use services::error::{Error, start_of};
use services::peer::ConnectionId;

pub(crate) use run::{ClientProcess, ProcessRequest};

/// Processes of one connection that run at once. Fewer than its concurrent requests, so that there
/// is always room for the one that ends a process.
const MAX_PROCESSES: usize = 32;
/// Orders that may wait for a process, and pieces of input.
const MAX_ORDERS: usize = 64;
/// Bytes of input that may wait for a process; one piece may be longer.
const MAX_INPUT: usize = 4 << 20;

/// Which methods a process belongs to: each has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MethodFamily {
    /// `command/exec`.
    Command,
    /// `process/spawn`.
    Process,
}

/// A client's order to a running process.
pub(crate) enum ProcessOrder {
    /// Another size of its terminal.
    Resize(Size),
    /// Its end.
    Terminate,
}

type ProcessKey = (ConnectionId, MethodFamily, String);

struct RunningProcess {
    orders: mpsc::Sender<ProcessOrder>,
    input: mpsc::Sender<StdinChunk>,
    /// Bytes of input that wait.
    waiting: Arc<AtomicUsize>,
    takes_input: bool,
    has_terminal: bool,
    /// Ends the task that follows it, where nothing else does.
    task: Option<AbortHandle>,
}

/// All processes that run.
pub(crate) struct ClientProcesses {
    running: Arc<RunningProcesses>,
    runner: CommandRunner,
    connections: Arc<Connections>,
    /// Those whose end is reported by a notification.
    notifying: InFlight,
    /// Set when the server ends.
    ending: watch::Sender<bool>,
}

/// A piece of input, and whether it is the last.
pub(crate) struct StdinChunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) close: bool,
}

/// A place in the table; dropping it takes the process out.
pub(crate) struct Registration {
    running: Arc<RunningProcesses>,
    key: ProcessKey,
    orders: mpsc::Receiver<ProcessOrder>,
    input: Option<mpsc::Receiver<StdinChunk>>,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.running.lock().remove(&self.key);
    }
}

impl ClientProcesses {
    pub(crate) fn new(runner: CommandRunner, connections: Arc<Connections>) -> Self {
        let (running, notifying) = (Arc::default(), InFlight::default());
        Self { running, runner, connections, notifying, ending: watch::Sender::new(false) }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// The request is at fault, or the program or the sandbox cannot be started. In a sandbox some
    /// of this shows at the command's end only: see [`ClientProcess::follow`].
    pub(crate) async fn start(
        &self,
        request: ProcessRequest,
        registered: Option<Registration>,
    ) -> Result<ClientProcess, Error> {
        ClientProcess::start(&self.runner, request, registered, self.ending.subscribe()).await
    }

    /// The end of the server waits until this is dropped: the end of a process is reported with it.
    pub(crate) fn accept_notification(&self) -> Accepted {
        self.notifying.accept()
    }

    /// Reserves a name.
    ///
    /// # Errors
    /// The name is in use, or the connection has as many processes as it may.
    pub(crate) fn register(
        &self,
        connection: ConnectionId,
        family: MethodFamily,
        name: String,
        (takes_input, has_terminal): (bool, bool),
    ) -> Result<Registration, Error> {
        let mut running = self.running.lock();
        let own = running.keys().filter(|(owner, ..)| *owner == connection).count();
        if own >= MAX_PROCESSES {
            let message = format!(
                "{own} processes are running; at most {MAX_PROCESSES} are \
                allowed"
            );
            return Err(Error::wrong_state(message).next_step("terminate one first"));
        }
        let key = (connection, family, name);
        if running.contains_key(&key) {
            let message = format!("a process named `{}` is already running", start_of(&key.2));
            return Err(Error::wrong_state(message).next_step("choose another name"));
        }
        let (order, orders) = mpsc::channel(MAX_ORDERS);
        let (piece, input) = mpsc::channel(MAX_ORDERS);
        let waiting = Arc::new(AtomicUsize::new(0));
        let entry = RunningProcess {
            orders: order,
            input: piece,
            waiting: waiting.clone(),
            takes_input,
            has_terminal,
            task: None,
        };
        running.insert(key.clone(), entry);
        drop(running);
        let registered = Registration {
            running: self.running.clone(),
            key,
            orders,
            input: Some(input),
            waiting,
        };
        // A connection that has ended since would not end this process.
        match self.connections.contains(connection) {
            true => Ok(registered),
            false => Err(Error::wrong_state("the connection has ended")),
        }
    }

    /// Has `task` ended with the connection.
    pub(crate) fn follow(
        &self,
        connection: ConnectionId,
        family: MethodFamily,
        name: &str,
        task: AbortHandle,
    ) {
        let key = (connection, family, name.to_owned());
        match self.running.lock().get_mut(&key) {
            Some(entry) => entry.task = Some(task),
            // It is over already, or its connection is.
            None => task.abort(),
        }
    }

    /// Gives a running process something to do.
    ///
    /// # Errors
    /// No process has that name, or it does not support the operation.
    pub(crate) fn order(
        &self,
        connection: ConnectionId,
        family: MethodFamily,
        name: &str,
        order: ProcessOrder,
    ) -> Result<(), Error> {
        let running = self.running.lock();
        let entry = entry(&running, connection, family, name)?;
        if matches!(order, ProcessOrder::Resize(_)) && !entry.has_terminal {
            return Err(refused(name, "it has no terminal; start it with `tty`"));
        }
        entry.orders.try_send(order).map_err(|_| refused(name, FULL))
    }

    /// Gives a running process input, which waits until earlier input is written.
    ///
    /// # Errors
    /// No process has that name, it takes no input, or it leaves too much input unread.
    pub(crate) fn write(
        &self,
        connection: ConnectionId,
        family: MethodFamily,
        name: &str,
        input: StdinChunk,
    ) -> Result<(), Error> {
        let running = self.running.lock();
        let entry = entry(&running, connection, family, name)?;
        if !entry.takes_input {
            let why = "it takes no input; start it with `streamStdin` or `tty`";
            return Err(refused(name, why));
        }
        let length = input.bytes.len();
        let waiting = entry.waiting.fetch_add(length, Ordering::Relaxed);
        let fits = waiting == 0 || waiting + length <= MAX_INPUT;
        if fits && entry.input.try_send(input).is_ok() {
            return Ok(());
        }
        entry.waiting.fetch_sub(length, Ordering::Relaxed);
        Err(refused(name, FULL))
    }

    /// Ends all processes of a connection that is gone.
    pub(crate) fn end_all(&self, connection: ConnectionId) {
        self.running.lock().retain(|(owner, ..), entry| {
            let ends = *owner == connection;
            if ends && let Some(task) = &entry.task {
                task.abort();
            }
            !ends
        });
    }

    /// Kills all processes, named or not: the server ends.
    pub(crate) fn shut_down(&self) {
        self.ending.send_replace(true);
    }

    /// Waits until the end of each process is reported.
    pub(crate) async fn done(&self) {
        self.notifying.done().await;
    }
}

#[derive(Default)]
struct RunningProcesses {
    by_key: Mutex<HashMap<ProcessKey, RunningProcess>>,
}

impl RunningProcesses {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, RunningProcess>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const FULL: &str = "it has not processed earlier requests yet; try again later";

fn entry<'a>(
    running: &'a HashMap<ProcessKey, RunningProcess>,
    connection: ConnectionId,
    family: MethodFamily,
    name: &str,
) -> Result<&'a RunningProcess, Error> {
    let key = (connection, family, name.to_owned());
    running.get(&key).ok_or_else(|| {
        Error::not_found(format!("no running process is named `{}`", start_of(name)))
    })
}

fn refused(name: &str, why: &str) -> Error {
    Error::wrong_state(format!("process `{}`: {why}", start_of(name)))
}

/// Bytes that a client sent as base64.
///
/// # Errors
/// `-32602` naming the member.
pub(crate) fn decoded(delta: Option<&str>) -> Result<Vec<u8>, Error> {
    STANDARD
        .decode(delta.unwrap_or_default())
        .map_err(|error| Error::invalid_params(format!("`deltaBase64`: {error}")))
}

/// Bytes that are kept of each stream.
///
/// # Errors
/// Invalid parameters: a cap together with `disableOutputCap`.
pub(crate) fn cap(bytes: Option<u64>, none: bool) -> Result<Option<usize>, Error> {
    match (bytes, none) {
        (Some(_), true) => Err(Error::exclusive("outputBytesCap", "disableOutputCap")),
        (_, true) => Ok(None),
        (None, false) => Ok(Some(DEFAULT_OUTPUT_CAP)),
        (Some(bytes), false) => Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX))),
    }
}
