//! One process of a client, from its start to its end: its input, its output within bounds, its
//! timeout.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandbox::{Control, Exit, OutputBuffer, Process, Stream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::client_processes::{ProcessOrder, Registration, StdinChunk};
use services::command_limits::reason;
use services::command_runner::{CommandLine, CommandRunner};
use services::error::Error;
use services::peer::Peer;

/// While a client has more than this in its queue, no more output of its processes is read: they are
/// its own, and wait with it.
const BEHIND: usize = 1 << 20;
/// Between asking a process to end and killing it.
const GRACE: Duration = Duration::from_millis(500);
/// Most that is kept of a stream when the client wants all of it. As JSON it may become six times as
/// long, and both are in memory while the answer is made.
const MAX_OUTPUT: usize = 32 << 20;
/// The parameters of running a process.
pub(crate) struct ProcessRequest {
    pub(crate) command: CommandLine,
    pub(crate) timeout: Option<Duration>,
    /// Bytes that are kept, or streamed, of each stream; `None`: as many as there may be.
    pub(crate) cap: Option<usize>,
    /// True if output is streamed.
    pub(crate) streams: bool,
}

/// The end of a process.
pub(crate) struct ProcessEnd {
    /// 124 after a timeout, -1 after a termination.
    pub(crate) exit_code: i32,
    /// It was killed because the server ends.
    pub(crate) is_cut: bool,
    /// The kept parts of standard output and standard error, and whether each is less than the
    /// whole.
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
    /// See [`super::ClientProcesses::start`]; `ending` is set when the server ends.
    pub(super) async fn start(
        runner: &CommandRunner,
        request: ProcessRequest,
        registered: Option<Registration>,
        ending: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let ProcessRequest { command, timeout, cap, streams } = request;
        let program = command.argv.first().map(PathBuf::from).unwrap_or_default();
        let process = runner.spawn(command).await?;
        Ok(Self { process, program, timeout, cap, streams, registered, ending })
    }

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
            supervise(process, limits, registered, ending, peer, &on_output).await;
        if let Some(error) = exit.not_executed(&program) {
            return Err(error.into());
        }
        // A command that was ended while its sandbox was set up did not fail.
        if exit.sandbox_failed && cause == EndCause::Itself {
            let [_, (why, _)] = &kept;
            let message = format!("the sandbox could not be set up: {}", why.trim());
            return Err(Error::failed(message));
        }
        let mut kept = kept;
        if let Some(reason) = reason(&exit).filter(|_| cause == EndCause::Itself) {
            let text = format!("\n[ended at a limit: {reason}]\n");
            let [_, (errors, _)] = &mut kept;
            match streams {
                true => on_output(Stream::Stderr, STANDARD.encode(text), false),
                false => errors.push_str(&text),
            }
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
