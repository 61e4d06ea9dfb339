//! Commands that a client runs without a thread: `command/exec` and `process/*`. A process has the
//! client's own name, belongs to its connection and ends with it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox::{Control, DEFAULT_OUTPUT_CAP, Exit, OutputBuffer, Process, Size, Stream};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::command_runner::{CommandLine, CommandRunner};
use crate::connection::{ConnectionId, Peer};
use crate::connections::Connections;
use crate::error::{Error, start_of};
use crate::in_flight::{Accepted, InFlight};

/// Processes of one connection that run at once. Fewer than its concurrent requests, so that there
/// is always room for the one that ends a process.
const MAX_PROCESSES: usize = 32;
/// Most that is kept of a stream when the client wants all of it. As JSON it may become six times as
/// long, and both are in memory while the answer is made.
const MAX_OUTPUT: usize = 32 << 20;
/// Orders that may wait for a process, and pieces of input.
const MAX_ORDERS: usize = 64;
/// Bytes of input that may wait for a process; one piece may be longer.
const MAX_INPUT: usize = 4 << 20;
/// Between asking a process to end and killing it.
const GRACE: Duration = Duration::from_millis(500);
/// While a client has more than this in its queue, no more output of its processes is read: they are
/// its own, and wait with it.
const BEHIND: usize = 1 << 20;

/// Which methods a process belongs to: each has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MethodFamily {
    /// `command/exec`.
    Command,
    /// `process/spawn`.
    Process,
}

/// What a client wants of a running process.
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
        let ProcessRequest { command, timeout, cap, streams } = request;
        let program = command.argv.first().map(PathBuf::from).unwrap_or_default();
        let process = self.runner.spawn(command).await?;
        let ending = self.ending.subscribe();
        Ok(ClientProcess { process, program, timeout, cap, streams, registered, ending })
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
            let message = format!("{own} processes are running, {MAX_PROCESSES} at most");
            return Err(Error::wrong_state(message).next_step("terminate one first"));
        }
        let key = (connection, family, name);
        if running.contains_key(&key) {
            let message = format!("a process named `{}` is running already", start_of(&key.2));
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
    /// There is none of that name, or it cannot do that.
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

    /// Gives a running process input, which waits behind what was given before.
    ///
    /// # Errors
    /// There is none of that name, it takes no input, or it leaves too much of it unread.
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

const FULL: &str = "it does not take what is waiting for it already; try again later";

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

/// How a process is run.
pub(crate) struct ProcessRequest {
    pub(crate) command: CommandLine,
    pub(crate) timeout: Option<Duration>,
    /// Bytes that are kept, or streamed, of each stream; `None`: as many as there may be.
    pub(crate) cap: Option<usize>,
    /// Whether output is streamed.
    pub(crate) streams: bool,
}

/// How a process ended.
pub(crate) struct ProcessEnd {
    /// 124 after a timeout, -1 after a termination.
    pub(crate) exit_code: i32,
    /// It was killed because the server ends.
    pub(crate) is_cut: bool,
    /// What was kept of standard output and standard error, and whether it is less than there was.
    pub(crate) kept: [(String, bool); 2],
}

/// One stream as far as it has come.
struct StreamOutput {
    buffer: OutputBuffer,
    left: usize,
    capped: bool,
}

impl StreamOutput {
    fn new(cap: Option<usize>) -> Self {
        // What is streamed is not kept, so it needs no bound.
        let left = cap.unwrap_or(usize::MAX);
        Self { buffer: OutputBuffer::new(left.min(MAX_OUTPUT)), left, capped: false }
    }
}

/// A command that runs. Dropping it kills the command.
pub(crate) struct ClientProcess {
    process: Process,
    program: PathBuf,
    timeout: Option<Duration>,
    cap: Option<usize>,
    streams: bool,
    registered: Option<Registration>,
    ending: watch::Receiver<bool>,
}

impl ClientProcess {
    /// Waits for the end. `on_output` gets each piece of output that is streamed, and whether it is
    /// the last of its stream because of the cap. Dropping the future kills the command.
    ///
    /// # Errors
    /// `-32603` when the sandbox could not start the command.
    pub(crate) async fn follow(
        self,
        peer: &Peer,
        on_output: impl Fn(Stream, String, bool),
    ) -> Result<ProcessEnd, Error> {
        let Self { process, program, timeout, cap, streams, registered, ending } = self;
        let limits = (timeout, cap, streams);
        let (cause, exit, kept) =
            supervise(process, limits, registered, ending, peer, on_output).await;
        if let Some(error) = exit.not_executed(&program) {
            return Err(error.into());
        }
        // A command that was ended while its sandbox was set up did not fail.
        if exit.sandbox_failed && cause == EndCause::Itself {
            let [_, (why, _)] = &kept;
            let message = format!("the sandbox could not be set up: {}", why.trim());
            return Err(Error::failed(message));
        }
        let exit_code = match cause {
            EndCause::TimedOut => 124,
            EndCause::Terminated | EndCause::ServerEnds => -1,
            EndCause::Itself => exit.shell_code(),
        };
        Ok(ProcessEnd { exit_code, is_cut: cause == EndCause::ServerEnds, kept })
    }
}

/// Why a process ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndCause {
    Itself,
    Terminated,
    TimedOut,
    ServerEnds,
}

async fn supervise(
    mut process: Process,
    (timeout, cap, streams): (Option<Duration>, Option<usize>, bool),
    mut registered: Option<Registration>,
    mut ending: watch::Receiver<bool>,
    peer: &Peer,
    on_output: impl Fn(Stream, String, bool),
) -> (EndCause, Exit, [(String, bool); 2]) {
    let feeding = registered.as_mut().and_then(|registered| {
        let (input, waiting) = (registered.input.take()?, registered.waiting.clone());
        Some(tokio::spawn(feed(process.control(), input, waiting)))
    });
    let _feeding = feeding.map(AbortOnDrop);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut kept = [StreamOutput::new(cap), StreamOutput::new(cap)];
    let mut cause = EndCause::Itself;
    // A process that was killed for one of these reasons is not killed again.
    let is_killed = |cause| matches!(cause, EndCause::TimedOut | EndCause::ServerEnds);
    loop {
        let outbox = &peer.outbox;
        let is_open = outbox.close_reason().is_none();
        let is_behind = streams
            && is_open
            && cause != EndCause::ServerEnds
            && (outbox.queued_bytes() > BEHIND || outbox.is_full());
        tokio::select! {
            biased;
            order = next_order(&mut registered) => {
                if matches!(order, ProcessOrder::Terminate) && !is_killed(cause) {
                    cause = EndCause::Terminated;
                }
                obey(&process, order);
            }
            () = until(deadline), if !is_killed(cause) => {
                cause = EndCause::TimedOut;
                process.kill();
            }
            () = is_set(&mut ending), if !is_killed(cause) => {
                cause = EndCause::ServerEnds;
                process.kill();
            }
            () = outbox.below(BEHIND), if is_behind => {}
            chunk = process.output.recv(), if !is_behind => {
                let Some(chunk) = chunk else { break };
                let at = usize::from(chunk.stream == Stream::Stderr);
                let Some(kept) = kept.get_mut(at) else { continue };
                take(kept, streams, &chunk.bytes, |delta, capped| on_output(chunk.stream, delta, capped));
            }
        }
    }
    let exit = tokio::select! {
        exit = process.wait() => exit,
        () = until(deadline), if !is_killed(cause) => {
            cause = EndCause::TimedOut;
            process.kill();
            process.wait().await
        }
        () = is_set(&mut ending), if !is_killed(cause) => {
            cause = EndCause::ServerEnds;
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

/// Keeps or streams a piece of output.
fn take(
    kept: &mut StreamOutput,
    streams: bool,
    bytes: &[u8],
    on_output: impl FnOnce(String, bool),
) {
    if !streams {
        return kept.buffer.push(bytes);
    }
    if kept.capped {
        return;
    }
    let fits = bytes.get(..kept.left.min(bytes.len())).unwrap_or_default();
    kept.left -= fits.len();
    kept.capped = fits.len() < bytes.len();
    on_output(STANDARD.encode(fits), kept.capped);
}

async fn next_order(registered: &mut Option<Registration>) -> ProcessOrder {
    match registered {
        Some(registered) => match registered.orders.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn obey(process: &Process, order: ProcessOrder) {
    let control: Control = process.control();
    match order {
        ProcessOrder::Resize(size) => {
            // A terminal that is gone has no size.
            let _ = control.resize(size);
        }
        ProcessOrder::Terminate => {
            tokio::spawn(async move { control.terminate(GRACE).await });
        }
    }
}

/// Aborts a task when it is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Gives a command its input, piece by piece, for as long as it runs.
async fn feed(control: Control, mut input: mpsc::Receiver<StdinChunk>, waiting: Arc<AtomicUsize>) {
    while let Some(StdinChunk { bytes, close }) = input.recv().await {
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
