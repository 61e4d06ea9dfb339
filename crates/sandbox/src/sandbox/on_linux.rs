//! The sandbox on Linux: namespaces with Landlock, or Landlock alone, each with a seccomp filter.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::files::Pool;
use policy::RootedPolicy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{OnceCell, Semaphore, mpsc, watch};

use super::confinement::{confine, layers, wrap};
use super::interface::{Config, Degradation, Layer, LayerStatus, Outputs, Platform, Spawn, Stdin};
use super::launch::Launcher;
use super::pipes::Pipes;
use crate::error::{Error, ErrorKind};
use crate::limits::{Exceeded, GroupLimits, Limits, Member, Scope};
use crate::linux::detect::{self, Detected};
use crate::output::OutputBuffer;
use crate::process::{Control, OUTPUT_CHUNKS, Process, Shared};
use crate::program::{empty_command, exec_error, find_program, too_long};
use crate::protect::{Placeholder, Protection};
use crate::pump::Pump;
use crate::resolved::Resolved;
use crate::supervise::handover;
use crate::supervise::request::{Confinement, REPORT_BYTES, Report, Request, Stage};
use crate::supervise::request_limits::RequestedLimits;

/// Starts commands through the launcher, under the layers that work here.
#[derive(Debug)]
pub(crate) struct Linux {
    config: Config,
    launcher: Launcher,
    detected: OnceCell<Arc<Detected>>,
    /// Runs what waits for the file systems that a command and its policy name.
    files: Pool,
    /// Bounds concurrent starts: each has descriptors in flight, whose number the kernel limits.
    starts: Semaphore,
}

const MAX_CONCURRENT_STARTS: usize = 32;
/// Time for a supervisor to start a command. One that takes longer waits for a file system.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The differences that commands notice where namespaces cannot be made.
const WITHOUT_NAMESPACES: &str = "No namespaces can be made here: `/proc` lists the machine's other processes, which \
     commands cannot signal or inspect; names and sizes of hidden files can be seen; a managed network carries TCP \
     only, and a server that a command starts on localhost cannot be reached in it.";
/// The same where, besides, supervisors cannot make changes of files.
const LANDLOCK_ALONE: &str = "The sandbox is stricter here: nothing new can be made directly in a writable folder \
     (only in folders that exist in it), modes, owners and times cannot be changed, and commands under permission \
     profiles or with the managed network are refused.";
/// The same where nothing confines commands.
const NOTHING: &str =
    "Commands cannot be confined here, so that only those can run that leave the sandbox.";

/// The name of the control groups among the layers.
const CONTROL_GROUPS: &str = "control groups";

impl Platform for Linux {
    fn new(config: Config) -> Self {
        Self {
            launcher: Launcher::new(config.supervisor.clone(), config.descriptors),
            config,
            detected: OnceCell::new(),
            files: Pool::default(),
            starts: Semaphore::new(MAX_CONCURRENT_STARTS),
        }
    }

    async fn spawn(&self, spawn: Spawn) -> Result<Process, Error> {
        let detected = match spawn.policy.is_unconfined() && !spawn.limits.are_watched() {
            true => None,
            false => Some(Arc::clone(self.detected().await)),
        };
        let found = detected.clone().filter(|_| !spawn.policy.is_unconfined());
        let (layer, place) = (self.config.layer, spawn.cwd.clone());
        let kept = self.config.kept.clone();
        let prepared = self.files.run(&place, move || {
            let prepared = prepare(layer, found.as_deref(), &kept, &spawn)?;
            Ok((prepared, spawn))
        });
        let (prepared, spawn) = prepared.await.map_err(unanswered)??;
        let Prepared { program, confinement, placeholders, lapsed } = prepared;
        let mut process =
            self.start(&program, &spawn, confinement, placeholders, detected.as_deref()).await?;
        process.lapsed = lapsed;
        Ok(process)
    }

    async fn prepare(&self) {
        self.detected().await;
    }

    async fn report(&self) -> Vec<LayerStatus> {
        let found = self.detected().await;
        let namespaces = match &found.namespaces {
            Ok(()) => (
                true,
                "user, mount, process, IPC, host name and network namespaces work".to_owned(),
            ),
            Err(why) => (false, why.to_string()),
        };
        let landlock = match &found.landlock {
            Ok(abi) => (
                true,
                match &found.broker {
                    Ok(()) => format!(
                        "version {abi}; without namespaces, a command's supervisor makes the changes of files \
                         that a policy allows and Landlock forbids"
                    ),
                    Err(why) => format!(
                        "version {abi}; without namespaces it is stricter than workspace policies: no \
                         new entries at the top of a writable folder, and no changes of modes, owners \
                         and times, because {why}"
                    ),
                },
            ),
            Err(why) => (false, why.to_string()),
        };
        // tidy: open a file of the kernel.
        let seccomp = match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
            Ok(actions) => (true, format!("actions: {}", actions.trim())),
            Err(_) => (false, "the kernel was built without CONFIG_SECCOMP_FILTER".to_owned()),
        };
        let groups = match &found.control_groups {
            Ok(groups) => {
                (true, format!("the kernel enforces limits of commands: {}", groups.describe()))
            }
            Err(why) => {
                (false, format!("limits of commands are enforced by their supervisors: {why}"))
            }
        };
        let layers = [
            ("namespaces", namespaces),
            ("landlock", landlock),
            ("seccomp", seccomp),
            (CONTROL_GROUPS, groups),
        ];
        layers.map(|(layer, (usable, detail))| LayerStatus { layer, usable, detail }).into()
    }

    async fn degradation(&self) -> Option<Degradation> {
        let found = self.detected().await;
        let (namespaces, landlock) = layers(self.config.layer, found);
        let no_namespaces = namespaces.err()?;
        let (warning, for_commands) = match (landlock, &found.broker) {
            (Ok(_), Ok(())) => (
                format!(
                    "the sandbox works without namespaces ({no_namespaces}). Commands are confined by Landlock and \
                 their supervisor, with these differences: they see the machine's other processes in /proc; the \
                 managed network carries TCP only, and servers of their own on localhost do not work in it; \
                 names and sizes of files that a permission profile hides can be seen{}",
                    detect::advice_in_container()
                ),
                WITHOUT_NAMESPACES,
            ),
            (Ok(_), Err(why)) => (
                format!(
                    "the sandbox works in part: {no_namespaces}. {why}. With Landlock alone, commands make no new \
                 entries at the top of a writable folder and change no modes, owners and times, and permission \
                 profiles and the managed network do not work"
                ),
                LANDLOCK_ALONE,
            ),
            (Err(no_landlock), _) => (
                format!(
                    "no command can be confined here, so that those run only that leave the sandbox: \
                 {no_namespaces}. {no_landlock}"
                ),
                NOTHING,
            ),
        };
        Some(Degradation { warning, for_commands: for_commands.to_owned() })
    }

    fn is_known_whole(&self) -> bool {
        let detected = self.detected.get();
        detected.is_some_and(|detected| layers(self.config.layer, detected).0.is_ok())
    }
}

impl Linux {
    async fn detected(&self) -> &Arc<Detected> {
        self.detected.get_or_init(|| async { Arc::new(self.detect().await) }).await
    }

    async fn detect(&self) -> Detected {
        Detected {
            namespaces: self.probe().await,
            landlock: detect::landlock(),
            broker: detect::broker(),
            control_groups: detect::control_groups(self.config.limits_by),
        }
    }

    /// Makes the confinement of a command, and starts none.
    async fn probe(&self) -> Result<(), Error> {
        let spawn = Spawn {
            argv: Vec::new(),
            cwd: PathBuf::from("/"),
            cwd_is_real: false,
            env: Vec::new(),
            policy: RootedPolicy::READ_ONLY,
            guarded: Vec::new(),
            granted: Vec::new(),
            tty: None,
            stdin: Stdin::Null,
            outputs: Outputs::Separate,
            egress: None,
            limits: Limits::default(),
        };
        let resolved = Resolved::new(&spawn.policy, None);
        let (confinement, placeholders) = wrap(false, &resolved, &Protection::default(), &spawn)
            .map_err(io_error("preparing the sandbox"))?;
        let mut process =
            self.start(Path::new(""), &spawn, confinement, placeholders, None).await?;
        let mut printed = OutputBuffer::new(2048);
        let exit = process.collect(&mut OutputBuffer::new(2048), &mut printed).await;
        if exit.success() { Ok(()) } else { Err(detect::explain(&printed.text())) }
    }

    async fn start(
        &self,
        program: &Path,
        spawn: &Spawn,
        confinement: Confinement,
        placeholders: Vec<Placeholder>,
        found: Option<&Detected>,
    ) -> Result<Process, Error> {
        let own_network = matches!(confinement, Confinement::Namespaces { .. });
        let (limits, member) = limits(&spawn.limits, found)?;
        let request = request(program, spawn, confinement, &placeholders, limits)?;
        let mut pipes = Pipes::open(spawn).map_err(io_error("opening pipes for the command"))?;
        let mut proxied = None;
        if let Some(egress) = &spawn.egress {
            let pair = std::os::unix::net::UnixStream::pair();
            let (ours, theirs) = pair.map_err(io_error("opening a socket for the proxy"))?;
            pipes.theirs.egress = Some(theirs.into());
            proxied = Some((Arc::clone(egress), OwnedFd::from(ours)));
        }
        if let Some(member) = &member {
            let table = member.table().try_clone_to_owned();
            pipes.theirs.table = Some(table.map_err(io_error("sharing the table of limits"))?);
        }
        let permit = self.starts.acquire().await.expect("the semaphore is never closed");
        let supervisor = self
            .launcher
            .begin(&pipes.theirs)
            .and_then(|socket| {
                socket.set_nonblocking(true)?;
                UnixStream::from_std(socket)
            })
            .map_err(io_error("starting a supervisor for the command"))?;
        drop(pipes.theirs);
        let started = handshake(supervisor, request, program, spawn);
        let started = tokio::time::timeout(START_TIMEOUT, started).await;
        drop(permit);
        let (supervisor, pid) = started.map_err(|_| not_started_in_time(&spawn.cwd))??;
        let (ended, when_ended) = watch::channel(None);
        let (finished, when_finished) = watch::channel(None);
        let (output, receiver) = mpsc::channel(OUTPUT_CHUNKS);
        let shared = Arc::new(Shared {
            pid,
            supervisor,
            input: pipes.input,
            member,
            ended: when_ended,
            finished: when_finished,
        });
        let pump = Pump {
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            output,
            shared: Arc::clone(&shared),
            ended,
            finished,
            placeholders,
            files: self.files.clone(),
            place: spawn.cwd.clone(),
            output_limit: spawn.limits.output,
        };
        if let Some((egress, socket)) = proxied {
            let mut ended = shared.ended.clone();
            let ended = async move { drop(ended.wait_for(Option::is_some).await) };
            tokio::spawn(handover::proxy(egress, socket, own_network, ended));
        }
        tokio::spawn(pump.run());
        Ok(Process { output: receiver, lapsed: Vec::new(), control: Control { shared } })
    }
}

/// The limits as the supervisor gets them, and the command as a member of its group.
fn limits(
    limits: &Limits,
    found: Option<&Detected>,
) -> Result<(RequestedLimits, Option<Member>), Error> {
    let groups = found.and_then(|found| found.control_groups.as_ref().ok());
    let mut requested = RequestedLimits {
        command: limits.command.maxima(),
        file_size: limits.file_size,
        nice: limits.nice,
        control_groups: groups.map(|groups| groups.folder().to_owned()),
        ..RequestedLimits::default()
    };
    let Some(GroupLimits { group, together }) = &limits.group else {
        return Ok((requested, None));
    };
    requested.together = together.maxima();
    requested.group = group.number();
    if let Some((resource, limit, reached)) = group.used_up(&requested.together) {
        let used_up = Exceeded { resource, scope: Scope::Group, limit, reached };
        return Err(Error::limit(used_up));
    }
    let member = group.join().map_err(io_error("making a table of limits"))?;
    requested.row = member.row();
    Ok((requested, Some(member)))
}

/// A command that is ready to start.
struct Prepared {
    program: PathBuf,
    confinement: Confinement,
    placeholders: Vec<Placeholder>,
    lapsed: Vec<PathBuf>,
}

/// Looks at the files that a command and its policy name, which waits for their file systems.
/// `found` is present for a policy that confines.
fn prepare(
    layer: Layer,
    found: Option<&Detected>,
    kept: &[PathBuf],
    spawn: &Spawn,
) -> Result<Prepared, Error> {
    let program = spawn.argv.first().ok_or_else(empty_command)?;
    check_cwd(&spawn.cwd, spawn.cwd_is_real)?;
    let program = find_program(program, &spawn.cwd, &spawn.env)?;
    let tmpdir = spawn.env.iter().rfind(|(name, _)| name == "TMPDIR");
    let resolved = Resolved::new(&spawn.policy, tmpdir.map(|(_, value)| Path::new(value)));
    let resolved =
        resolved.guarding(&spawn.guarded).keeping(kept).granting(&spawn.granted).settle();
    let (confinement, placeholders) = confine(layer, found, &resolved, spawn)?;
    Ok(Prepared { program, confinement, placeholders, lapsed: resolved.lapsed() })
}

/// Sends the request, waits until the command runs, and returns its process id.
async fn handshake(
    mut supervisor: UnixStream,
    request: Vec<u8>,
    program: &Path,
    spawn: &Spawn,
) -> Result<(UnixStream, i32), Error> {
    let mut report = [0; REPORT_BYTES];
    let lost =
        io_error("the command's supervisor ended (a low limit of open files can cause this)");
    supervisor.write_all(&request).await.map_err(&lost)?;
    supervisor.read_exact(&mut report).await.map_err(&lost)?;
    match Report::decode(&report) {
        Some(Report::Started { pid }) => Ok((supervisor, pid)),
        Some(Report::Failed { stage, errno }) => Err(not_started(stage, errno, program, spawn)),
        _ => Err(lost(io::Error::from(io::ErrorKind::InvalidData))),
    }
}

fn unanswered(error: ::files::Error) -> Error {
    let source = io::Error::new(io::ErrorKind::TimedOut, error.to_string());
    Error::io("looking at the command's files", source)
}

fn not_started_in_time(cwd: &Path) -> Error {
    let seconds = START_TIMEOUT.as_secs();
    let reason = format!(
        "the command did not start within {seconds} s; check that the file systems of this folder \
         and of the writable folders respond"
    );
    bad_cwd(cwd, &reason)
}

fn not_started(stage: Stage, errno: i32, program: &Path, spawn: &Spawn) -> Error {
    let source = io::Error::from_raw_os_error(errno);
    let context = match stage {
        Stage::Folder if errno == libc::ESTALE => return moved_cwd(&spawn.cwd),
        Stage::Folder => return bad_cwd(&spawn.cwd, &source.to_string()),
        Stage::Namespaces => return detect::refused(&source),
        Stage::Confine => {
            return unavailable(&format!("Landlock could not be applied: {source}"));
        }
        Stage::Exec => return exec_error(program, &source),
        Stage::Fork => "creating a process for the command",
        Stage::Session => "preparing the command's process",
        Stage::Request if errno == libc::ESTALE => {
            let context = "a writable folder changed while the command was starting";
            return Error::io(context, source).next_step("start the command again");
        }
        Stage::Request => "reading the command in its supervisor",
    };
    Error::io(context, source)
}

fn request(
    program: &Path,
    spawn: &Spawn,
    confinement: Confinement,
    placeholders: &[Placeholder],
    limits: RequestedLimits,
) -> Result<Vec<u8>, Error> {
    let variable =
        |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
    let mut env = spawn.env.clone();
    for (name, value) in spawn.egress.iter().flat_map(|egress| egress.variables()) {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value.into()));
    }
    let request = Request {
        program: bytes(program),
        argv: spawn.argv.iter().map(bytes).collect(),
        env: env.iter().map(variable).collect(),
        cwd: bytes(&spawn.cwd),
        cwd_is_real: spawn.cwd_is_real,
        terminal: spawn.tty.is_some(),
        ports: spawn.egress.as_deref().map(handover::ports),
        placeholders: placeholders.iter().map(|held| bytes(held.path())).collect(),
        confinement,
        limits,
    };
    let mut strings = request.argv.iter().chain(&request.env).chain([&request.cwd]);
    if strings.any(|string| string.contains(&0)) {
        let message = "an argument, a variable or the working folder has a NUL byte";
        return Err(Error::new(ErrorKind::InvalidCommand, message).next_step("remove it"));
    }
    check_lengths(&request)?;
    Ok(request.encode())
}

/// Refuses what the kernel would refuse later.
fn check_lengths(request: &Request) -> Result<(), Error> {
    const MAX_STRING: usize = 128 << 10;
    const MAX_TOTAL: usize = 2 << 20;
    let all = || request.argv.iter().chain(&request.env);
    if let Some(long) = all().find(|string| string.len() >= MAX_STRING) {
        let start = String::from_utf8_lossy(long.get(..32).unwrap_or_default()).into_owned();
        return Err(too_long(&format!("`{start}…` has {} bytes", long.len())));
    }
    let total: usize = all().map(|string| string.len() + size_of::<usize>() + 1).sum();
    if total > MAX_TOTAL {
        return Err(too_long(&format!("the arguments and variables have {total} bytes")));
    }
    Ok(())
}

fn check_cwd(cwd: &Path, is_real: bool) -> Result<(), Error> {
    if !cwd.is_absolute() {
        return Err(bad_cwd(cwd, "it is not an absolute path"));
    }
    match cwd.metadata() {
        Ok(meta) if !meta.is_dir() => Err(bad_cwd(cwd, "it is not a folder")),
        Ok(_) if is_real && cwd.canonicalize().ok().as_deref() != Some(cwd) => Err(moved_cwd(cwd)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(bad_cwd(cwd, "it does not exist"))
        }
        Err(error) => Err(bad_cwd(cwd, &error.to_string())),
    }
}

fn moved_cwd(cwd: &Path) -> Error {
    bad_cwd(cwd, "it leads elsewhere than when the command was decided about")
        .next_step("nothing was run; try again, so that it is decided about again")
}

pub(super) fn bad_cwd(path: &Path, reason: &str) -> Error {
    let message = format!("the working folder {} cannot be used: {reason}", path.display());
    Error::new(ErrorKind::InvalidCommand, message)
}

pub(super) fn unavailable(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the sandbox is not available: {why}"))
}

pub(super) fn io_error(context: &str) -> impl Fn(io::Error) -> Error {
    move |source| Error::io(context, source)
}

pub(super) fn bytes(string: impl AsRef<OsStr>) -> Vec<u8> {
    string.as_ref().as_bytes().to_vec()
}
