//! Commands that a client runs without a thread: `command/exec` and `process/*`. A session has the
//! client's own name, belongs to its connection and ends with it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonrpc::ErrorObject;
use sandbox::{
    Control, DEFAULT_OUTPUT_CAP, Exit, OutputBuffer, Process, Size, Spawn, SpawnError, Stream,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::connection::{ConnectionId, Peer};
use crate::in_flight::InFlight;
use crate::server::Core;

/// Sessions of one connection that run at once. Fewer than its concurrent requests, so that there
/// is always room for the one that ends a session.
const MAX_SESSIONS: usize = 32;
/// Most that is kept of a stream when the client wants all of it. As JSON it may become six times as
/// long, and both are in memory while the answer is made.
const MAX_OUTPUT: usize = 32 << 20;
/// Orders that may wait for a session, and pieces of input.
const MAX_ORDERS: usize = 64;
/// Bytes of input that may wait for a session; one piece may be longer.
const MAX_INPUT: usize = 4 << 20;
/// Between asking a session to end and killing it.
const GRACE: Duration = Duration::from_millis(500);
/// While a client has more than this in its queue, no more output of its sessions is read: they are
/// its own, and wait with it.
const BEHIND: usize = 1 << 20;

/// Which methods a session belongs to: each has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    /// `command/exec`.
    Command,
    /// `process/spawn`.
    Process,
}

/// What a client wants of a running session.
pub(crate) enum Order {
    /// Another size of its terminal.
    Resize(Size),
    /// Its end.
    Terminate,
}

type Key = (ConnectionId, Family, String);

struct Entry {
    orders: mpsc::Sender<Order>,
    input: mpsc::Sender<Input>,
    /// Bytes of input that wait.
    waiting: Arc<AtomicUsize>,
    takes_input: bool,
    has_terminal: bool,
    /// Ends the task that follows it, where nothing else does.
    task: Option<AbortHandle>,
}

/// All sessions that run.
#[derive(Default)]
pub(crate) struct Sessions {
    running: Mutex<HashMap<Key, Entry>>,
    /// Those whose end is reported by a notification.
    pub(crate) notifying: InFlight,
    /// Set when the server ends.
    ending: watch::Sender<bool>,
}

/// A piece of input, and whether it is the last.
pub(crate) struct Input {
    pub(crate) bytes: Vec<u8>,
    pub(crate) close: bool,
}

/// A place in the table; dropping it takes the session out.
pub(crate) struct Registered {
    core: Arc<Core>,
    key: Key,
    orders: mpsc::Receiver<Order>,
    input: Option<mpsc::Receiver<Input>>,
    waiting: Arc<AtomicUsize>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.core.sessions.lock().remove(&self.key);
    }
}

impl Sessions {
    /// Reserves a name.
    ///
    /// # Errors
    /// The name is in use, or the connection has as many sessions as it may.
    pub(crate) fn register(
        core: &Arc<Core>,
        connection: ConnectionId,
        family: Family,
        name: String,
        (takes_input, has_terminal): (bool, bool),
    ) -> Result<Registered, ErrorObject> {
        let mut running = core.sessions.lock();
        let own = running.keys().filter(|(owner, ..)| *owner == connection).count();
        if own >= MAX_SESSIONS {
            let message =
                format!("{own} sessions are running, {MAX_SESSIONS} at most; end one first");
            return Err(ErrorObject::invalid_request(message));
        }
        let key = (connection, family, name);
        if running.contains_key(&key) {
            let message = format!("there is a running session `{}` already", key.2);
            return Err(ErrorObject::invalid_request(message));
        }
        let (order, orders) = mpsc::channel(MAX_ORDERS);
        let (piece, input) = mpsc::channel(MAX_ORDERS);
        let waiting = Arc::new(AtomicUsize::new(0));
        let entry = Entry {
            orders: order,
            input: piece,
            waiting: waiting.clone(),
            takes_input,
            has_terminal,
            task: None,
        };
        running.insert(key.clone(), entry);
        drop(running);
        let registered =
            Registered { core: core.clone(), key, orders, input: Some(input), waiting };
        // A connection that ended meanwhile ends no sessions any more.
        match core.is_connected(connection) {
            true => Ok(registered),
            false => Err(ErrorObject::invalid_request("the connection has ended")),
        }
    }

    /// Has `task` ended with the connection.
    pub(crate) fn follow(
        &self,
        connection: ConnectionId,
        family: Family,
        name: &str,
        task: AbortHandle,
    ) {
        let key = (connection, family, name.to_owned());
        match self.lock().get_mut(&key) {
            Some(entry) => entry.task = Some(task),
            // It is over already, or its connection is.
            None => task.abort(),
        }
    }

    /// Gives a running session something to do.
    ///
    /// # Errors
    /// There is none of that name, or it cannot do that.
    pub(crate) fn order(
        &self,
        connection: ConnectionId,
        family: Family,
        name: &str,
        order: Order,
    ) -> Result<(), ErrorObject> {
        let running = self.lock();
        let entry = entry(&running, connection, family, name)?;
        if matches!(order, Order::Resize(_)) && !entry.has_terminal {
            return Err(refused(name, "it has no terminal; start it with `tty`"));
        }
        entry.orders.try_send(order).map_err(|_| refused(name, FULL))
    }

    /// Gives a running session input, which waits behind what was given before.
    ///
    /// # Errors
    /// There is none of that name, it takes no input, or it leaves too much of it unread.
    pub(crate) fn write(
        &self,
        connection: ConnectionId,
        family: Family,
        name: &str,
        input: Input,
    ) -> Result<(), ErrorObject> {
        let running = self.lock();
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

    /// Ends all sessions of a connection that is gone.
    pub(crate) fn end_all(&self, connection: ConnectionId) {
        self.lock().retain(|(owner, ..), entry| {
            let ends = *owner == connection;
            if ends && let Some(task) = &entry.task {
                task.abort();
            }
            !ends
        });
    }

    /// Kills all sessions, named or not: the server ends.
    pub(crate) fn shut_down(&self) {
        self.ending.send_replace(true);
    }

    /// Waits until the end of each session is reported.
    pub(crate) async fn done(&self) {
        self.notifying.done().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const FULL: &str = "it does not take what is waiting for it already; try again later";

fn entry<'a>(
    running: &'a HashMap<Key, Entry>,
    connection: ConnectionId,
    family: Family,
    name: &str,
) -> Result<&'a Entry, ErrorObject> {
    let key = (connection, family, name.to_owned());
    running.get(&key).ok_or_else(|| refused(name, "there is none that runs"))
}

fn refused(name: &str, why: &str) -> ErrorObject {
    let shown: String = name.chars().take(80).collect();
    ErrorObject::invalid_request(format!("session `{shown}`: {why}"))
}

/// How a session is run.
pub(crate) struct Run {
    pub(crate) spawn: Spawn,
    pub(crate) timeout: Option<Duration>,
    /// Bytes that are kept, or streamed, of each stream; `None`: as many as there may be.
    pub(crate) cap: Option<usize>,
    /// Whether output is told as it comes.
    pub(crate) streams: bool,
}

/// How a session ended.
pub(crate) struct Ended {
    /// 124 after a timeout, -1 after a termination.
    pub(crate) exit_code: i32,
    /// It was killed because the server ends.
    pub(crate) is_cut: bool,
    /// What was kept of standard output and standard error, and whether it is less than there was.
    pub(crate) kept: [(String, bool); 2],
}

/// One stream as far as it has come.
struct Kept {
    buffer: OutputBuffer,
    left: usize,
    capped: bool,
}

impl Kept {
    fn new(cap: Option<usize>) -> Self {
        // What is streamed is not kept, so it needs no bound.
        let left = cap.unwrap_or(usize::MAX);
        Self { buffer: OutputBuffer::new(left.min(MAX_OUTPUT)), left, capped: false }
    }
}

/// A command that runs. Dropping it kills the command.
pub(crate) struct Session {
    process: Process,
    program: PathBuf,
    timeout: Option<Duration>,
    cap: Option<usize>,
    streams: bool,
    registered: Option<Registered>,
    ending: watch::Receiver<bool>,
}

impl Session {
    /// Starts a command.
    ///
    /// # Errors
    /// `-32602` where the request is at fault, `-32603` when the program or the sandbox cannot be
    /// started. In a sandbox some of this shows at the command's end only: see [`Session::follow`].
    pub(crate) async fn start(
        core: &Core,
        run: Run,
        registered: Option<Registered>,
    ) -> Result<Self, ErrorObject> {
        let Run { spawn, timeout, cap, streams } = run;
        let program = spawn.argv.first().map(PathBuf::from).unwrap_or_default();
        let process = core.sandbox.spawn(spawn).await.map_err(|error| not_started(&error))?;
        let ending = core.sessions.ending.subscribe();
        Ok(Self { process, program, timeout, cap, streams, registered, ending })
    }

    /// Waits for the end; `tell` is given each piece of output that is streamed, and whether it is
    /// the last of its stream because of the cap. Dropping the future kills the command.
    ///
    /// # Errors
    /// `-32603` when the sandbox could not start the command.
    pub(crate) async fn follow(
        self,
        peer: &Peer,
        tell: impl Fn(Stream, String, bool),
    ) -> Result<Ended, ErrorObject> {
        let Self { process, program, timeout, cap, streams, registered, ending } = self;
        let limits = (timeout, cap, streams);
        let (cause, exit, kept) = supervise(process, limits, registered, ending, peer, tell).await;
        if let Some(error) = exit.not_executed(&program) {
            return Err(not_started(&error));
        }
        if exit.sandbox_failed {
            let [_, (why, _)] = &kept;
            let message = format!("the sandbox could not be set up: {}", why.trim());
            return Err(ErrorObject::internal(message));
        }
        let exit_code = match cause {
            Cause::TimedOut => 124,
            Cause::Terminated | Cause::ServerEnds => -1,
            Cause::Itself => exit.shell_code(),
        };
        Ok(Ended { exit_code, is_cut: cause == Cause::ServerEnds, kept })
    }
}

/// Why a session ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Itself,
    Terminated,
    TimedOut,
    ServerEnds,
}

async fn supervise(
    mut process: Process,
    (timeout, cap, streams): (Option<Duration>, Option<usize>, bool),
    mut registered: Option<Registered>,
    mut ending: watch::Receiver<bool>,
    peer: &Peer,
    tell: impl Fn(Stream, String, bool),
) -> (Cause, Exit, [(String, bool); 2]) {
    let feeding = registered.as_mut().and_then(|registered| {
        let (input, waiting) = (registered.input.take()?, registered.waiting.clone());
        Some(tokio::spawn(feed(process.control(), input, waiting)))
    });
    let _feeding = feeding.map(AbortOnDrop);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut kept = [Kept::new(cap), Kept::new(cap)];
    let mut cause = Cause::Itself;
    // A session that was killed for one of these reasons is not killed again.
    let is_killed = |cause| matches!(cause, Cause::TimedOut | Cause::ServerEnds);
    loop {
        let outbox = &peer.outbox;
        let is_open = outbox.close_reason().is_none();
        let is_behind = streams
            && is_open
            && cause != Cause::ServerEnds
            && (outbox.queued_bytes() > BEHIND || outbox.is_full());
        tokio::select! {
            biased;
            order = next_order(&mut registered) => {
                if matches!(order, Order::Terminate) && !is_killed(cause) {
                    cause = Cause::Terminated;
                }
                obey(&process, order);
            }
            () = until(deadline), if !is_killed(cause) => {
                cause = Cause::TimedOut;
                process.kill();
            }
            () = is_set(&mut ending), if !is_killed(cause) => {
                cause = Cause::ServerEnds;
                process.kill();
            }
            () = outbox.below(BEHIND), if is_behind => {}
            chunk = process.output.recv(), if !is_behind => {
                let Some(chunk) = chunk else { break };
                let at = usize::from(chunk.stream == Stream::Stderr);
                let Some(kept) = kept.get_mut(at) else { continue };
                take(kept, streams, &chunk.bytes, |delta, capped| tell(chunk.stream, delta, capped));
            }
        }
    }
    let exit = tokio::select! {
        exit = process.wait() => exit,
        () = until(deadline), if !is_killed(cause) => {
            cause = Cause::TimedOut;
            process.kill();
            process.wait().await
        }
        () = is_set(&mut ending), if !is_killed(cause) => {
            cause = Cause::ServerEnds;
            process.kill();
            process.wait().await
        }
    };
    let kept = kept.map(|kept| {
        let cut = kept.capped || kept.buffer.omitted() > 0;
        (kept.buffer.into_text(), cut)
    });
    (cause, exit, kept)
}

/// A command that was not started: what is wrong with the request, or what failed underneath.
fn not_started(error: &SpawnError) -> ErrorObject {
    let message = format!("the command was not started: {error}");
    match error {
        SpawnError::Empty
        | SpawnError::NulByte
        | SpawnError::TooLong(_)
        | SpawnError::BadCwd { .. } => ErrorObject::invalid_params(message),
        SpawnError::ProgramNotFound { .. }
        | SpawnError::NotExecutable { .. }
        | SpawnError::Unavailable(_)
        | SpawnError::Io { .. } => ErrorObject::internal(message),
    }
}

/// Keeps or streams a piece of output.
fn take(kept: &mut Kept, streams: bool, bytes: &[u8], tell: impl FnOnce(String, bool)) {
    if !streams {
        return kept.buffer.push(bytes);
    }
    if kept.capped {
        return;
    }
    let fits = bytes.get(..kept.left.min(bytes.len())).unwrap_or_default();
    kept.left -= fits.len();
    kept.capped = fits.len() < bytes.len();
    tell(STANDARD.encode(fits), kept.capped);
}

async fn next_order(registered: &mut Option<Registered>) -> Order {
    match registered {
        Some(registered) => match registered.orders.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn obey(process: &Process, order: Order) {
    let control: Control = process.control();
    match order {
        Order::Resize(size) => {
            // A terminal that is gone has no size.
            let _ = control.resize(size);
        }
        Order::Terminate => {
            tokio::spawn(async move { control.terminate(GRACE).await });
        }
    }
}

/// Ends a task that nobody needs any more.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Gives a command its input, piece by piece, for as long as it runs.
async fn feed(control: Control, mut input: mpsc::Receiver<Input>, waiting: Arc<AtomicUsize>) {
    while let Some(Input { bytes, close }) = input.recv().await {
        // A command that has closed its input does not miss it.
        let _ = control.write_stdin(&bytes).await;
        waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        if close {
            let _ = control.close_stdin().await;
        }
    }
}

async fn is_set(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|is_set| *is_set).await.is_err() {
        // The server is gone, and this task with it.
        std::future::pending::<()>().await;
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Bytes that a client sent as base64.
///
/// # Errors
/// `-32602` naming the member.
pub(crate) fn decoded(delta: Option<&str>) -> Result<Vec<u8>, ErrorObject> {
    STANDARD
        .decode(delta.unwrap_or_default())
        .map_err(|error| ErrorObject::invalid_params(format!("`deltaBase64`: {error}")))
}

/// Bytes that are kept of each stream.
///
/// # Errors
/// `-32602` for a cap together with the wish for none.
pub(crate) fn cap(bytes: Option<u64>, none: bool) -> Result<Option<usize>, ErrorObject> {
    match (bytes, none) {
        (Some(_), true) => Err(ErrorObject::invalid_params(
            "`outputBytesCap` and `disableOutputCap` exclude each other: give one",
        )),
        (_, true) => Ok(None),
        (None, false) => Ok(Some(DEFAULT_OUTPUT_CAP)),
        (Some(bytes), false) => Ok(Some(usize::try_from(bytes).unwrap_or(usize::MAX))),
    }
}
