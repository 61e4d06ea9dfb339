//! Moves the output of a command from its pipes to the reader, and receives its exit. One task per
//! command; does not read while the reader lags.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use ::files::Pool;
use bytes::Bytes;
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::limits::{Exceeded, Resource, Scope, Spent};
use crate::process::{CHUNK_BYTES, Chunk, Control, Exit, LINGER, Shared, Stream};
use crate::protect::Placeholder;
use crate::supervise::request::{Ended, REPORT_BYTES, Report};

/// Exit code of a command that could not be executed, as in shells.
const NOT_EXECUTED: i32 = 127;
/// Bytes that are read after [`LINGER`] from an output that never pauses; more than a pipe holds.
const MAX_LATE_BYTES: usize = 1024 * 1024;

/// The reading end of an output; `None` after its end.
pub(crate) type Source = Option<Arc<AsyncFd<OwnedFd>>>;

pub(crate) struct Pump {
    pub(crate) stdout: Source,
    pub(crate) stderr: Source,
    pub(crate) output: mpsc::Sender<Chunk>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ended: watch::Sender<Option<Exit>>,
    pub(crate) finished: watch::Sender<Option<Exit>>,
    /// Released when no process of the command remains that could use their absence.
    pub(crate) placeholders: Vec<Placeholder>,
    /// Releases the placeholders, which waits for the file system of `place`, the command's folder.
    pub(crate) files: Pool,
    pub(crate) place: PathBuf,
    /// Bytes that the command may print.
    pub(crate) output_limit: Option<u64>,
}

/// The next event of a command.
enum Event {
    /// No bytes at the end.
    Output(Stream, io::Result<Bytes>),
    /// There is room for a chunk, or the reader was dropped.
    Room,
    Exit(Exit),
    /// The supervisor ends the command.
    Limit(Exceeded),
    /// The wait for an end of file after the exit has timed out.
    Late,
}

impl Pump {
    pub(crate) async fn run(mut self) {
        let mut exit: Option<(Exit, Instant)> = None;
        let mut waiting: Option<Chunk> = None;
        let mut late = false;
        let mut printed = 0;
        let mut limit = None;
        let mut late_budget = MAX_LATE_BYTES;
        let exit = loop {
            let at_end = self.stdout.is_none() && self.stderr.is_none() && waiting.is_none();
            if let Some((exit, _)) = exit.filter(|_| at_end) {
                break exit;
            }
            let read = waiting.is_none();
            let poll = read && !late;
            let event = tokio::select! {
                permit = self.output.reserve(), if !read => {
                    if let (Ok(permit), Some(chunk)) = (permit, waiting.take()) {
                        permit.send(chunk);
                    }
                    Event::Room
                }
                read = read_some(&self.stdout), if poll && self.stdout.is_some()
                    => Event::Output(Stream::Stdout, read),
                read = read_some(&self.stderr), if poll && self.stderr.is_some()
                    => Event::Output(Stream::Stderr, read),
                report = next_report(&self.shared), if exit.is_none() => match report {
                    Report::Limited(exceeded) => Event::Limit(exceeded),
                    report => Event::Exit(self.exit(report)),
                },
                () = until(exit.map(|(_, at)| at + LINGER)), if exit.is_some() && read
                    => Event::Late,
            };
            match event {
                Event::Room => {}
                Event::Limit(exceeded) => limit = limit.or(Some(exceeded)),
                Event::Exit(how) => {
                    let how = Exit { limit, ..how };
                    exit = Some((how, Instant::now()));
                    let held = std::mem::take(&mut self.placeholders);
                    if !held.is_empty() {
                        // The next command in this folder takes over what an unresponsive file
                        // system keeps.
                        let _ = self.files.run(&self.place, move || drop(held)).await;
                    }
                    self.ended.send_replace(Some(how));
                }
                Event::Output(stream, Ok(bytes)) if !bytes.is_empty() => {
                    printed += bytes.len() as u64;
                    waiting = Some(Chunk { stream, bytes });
                    if let Some(most) = self.output_limit.filter(|most| printed > *most) {
                        limit = limit.or(Some(too_much_output(most, printed)));
                        // Closed, so that what is in the pipes does not delay the end.
                        (self.stdout, self.stderr) = (None, None);
                        Control { shared: Arc::clone(&self.shared) }.kill();
                    }
                }
                // The end; a terminal reports an error when its last user closes it.
                Event::Output(Stream::Stdout, _) => self.stdout = None,
                Event::Output(Stream::Stderr, _) => self.stderr = None,
                Event::Late => {
                    late = true;
                    waiting = self.read_late(&mut late_budget);
                }
            }
        };
        drop(self.output);
        self.finished.send_replace(Some(exit));
    }

    /// The exit in a report; anything else means that the supervisor was killed together with its command.
    fn exit(&self, report: Report) -> Exit {
        let Report::Exited { how, cpu_time, disk_written } = report else { return Exit::killed() };
        if let Some(member) = &self.shared.member {
            member.has_spent(Spent { cpu_time, disk_written });
        }
        exit(how)
    }

    /// Reads available output without waiting; closes a source at its end.
    fn read_late(&mut self, budget: &mut usize) -> Option<Chunk> {
        let sources = [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)];
        for (stream, source) in sources {
            let Some(fd) = source else { continue };
            match read_chunk(fd) {
                Ok(bytes) if !bytes.is_empty() && *budget > 0 => {
                    *budget = budget.saturating_sub(bytes.len());
                    return Some(Chunk { stream, bytes });
                }
                _ => *source = None,
            }
        }
        None
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn read_some(source: &Source) -> io::Result<Bytes> {
    let Some(fd) = source else { return std::future::pending().await };
    loop {
        let mut ready = fd.readable().await?;
        match ready.try_io(|fd| Ok(read_chunk(fd)?)) {
            Ok(Err(e)) if e.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
            Ok(result) => return result,
            Err(_would_block) => {}
        }
    }
}

/// Reads once, without waiting. Most commands print little or nothing, so the buffer costs only the
/// pages that are written.
#[inline(never)]
fn read_chunk(fd: &AsyncFd<OwnedFd>) -> rustix::io::Result<Bytes> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); CHUNK_BYTES];
    let (bytes, _) = rustix::io::read(fd.as_fd(), &mut buffer)?;
    Ok(Bytes::copy_from_slice(bytes))
}

fn too_much_output(limit: u64, reached: u64) -> Exceeded {
    Exceeded { resource: Resource::Output, scope: Scope::Command, limit, reached }
}

/// The next report of the supervisor. One that ends without a report was killed, together with its command. Reports
/// are written atomically, so none is read in parts.
async fn next_report(shared: &Shared) -> Report {
    let killed = Report::exited(Ended::Signal(libc::SIGKILL));
    let mut bytes = [0; REPORT_BYTES];
    loop {
        if shared.supervisor.readable().await.is_err() {
            return killed;
        }
        match shared.supervisor.try_read(&mut bytes) {
            Ok(REPORT_BYTES) => return Report::decode(&bytes).unwrap_or(killed),
            Ok(_) => return killed,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return killed,
        }
    }
}

fn exit(ended: Ended) -> Exit {
    let code = |code: i32| Exit { code: Some(code), signal: None, ..Exit::killed() };
    match ended {
        Ended::Code(exited) => code(exited),
        Ended::Signal(signal) => Exit { signal: Some(signal), ..Exit::killed() },
        Ended::NotConfined(exited) => Exit { sandbox_failed: true, ..code(exited) },
        Ended::NotExecuted(errno) => Exit { exec_errno: Some(errno), ..code(NOT_EXECUTED) },
    }
}
