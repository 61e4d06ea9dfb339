//! Between fork and `exec`: sets up the terminal, folder, signals and confinement of the command.

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::process::{Pid, Signal};

use super::first_process::Inside;
use super::handover;
use super::request::{Confinement, Narrowing, Ports, Request, Stage};
use crate::lead::{self, NONE, TERMINAL};
use crate::linux::{landlock, seccomp, sys};
use crate::program::{SUPERVISE_ARGUMENT, THIS_PROGRAM};

/// The standard streams of a command.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Socket for the listeners of a managed network.
    pub(crate) egress: Option<OwnedFd>,
}

/// The arguments of `exec`, and the descriptors that the program before the command uses.
pub(crate) struct Prepared {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    cwd_is_real: bool,
    terminal: bool,
    confinement: Confinement,
    inherited: Vec<OwnedFd>,
    /// See [`Request`].
    pub(crate) placeholders: Vec<PathBuf>,
    /// The report of the program inside that it could not become the command; read after it has
    /// ended.
    lead_report: Option<OwnedFd>,
}

/// The step at which the program inside failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// Before the confinement was complete; standard error has the reason.
    Confine,
    /// The program could not be executed; the `errno`.
    Exec(i32),
}

impl Prepared {
    /// Does everything that is possible before the fork. `embedded` is the result of
    /// [`lead::load`].
    pub(crate) fn new(
        request: Request,
        egress: Option<OwnedFd>,
        embedded: Option<OwnedFd>,
    ) -> io::Result<Prepared> {
        let mut prepared = Prepared {
            program: c_string(request.program)?,
            argv: c_strings(request.argv)?,
            env: c_strings(request.env)?,
            cwd: c_string(request.cwd)?,
            cwd_is_real: request.cwd_is_real,
            terminal: request.terminal,
            confinement: request.confinement,
            inherited: Vec::new(),
            placeholders: request.placeholders.into_iter().map(path).collect(),
            lead_report: None,
        };
        if let Confinement::Namespaces { narrowing, .. } = &prepared.confinement {
            let narrowing = narrowing.as_ref().map(open_roots).transpose()?;
            let egress = request.ports.zip(egress);
            prepared.wrap(embedded, egress, narrowing)?;
        } else if request.ports.is_some() {
            // There is no network namespace.
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(prepared)
    }

    /// Returns whether the descendants of the command end with it.
    pub(crate) fn confined(&self) -> bool {
        self.confinement != Confinement::None
    }

    /// The namespaces of the command, if it has its own.
    pub(crate) fn inside(&self) -> Option<Inside<'_>> {
        match &self.confinement {
            Confinement::Namespaces { view, network, filter, .. } => {
                Some(Inside { view, network: *network, filter })
            }
            Confinement::None | Confinement::Landlock { .. } => None,
        }
    }

    /// Returns whether there is no command, only its confinement.
    pub(crate) fn runs_nothing(&self) -> bool {
        self.program.is_empty()
    }

    /// Puts the program that takes the last steps before the command.
    fn wrap(
        &mut self,
        embedded: Option<OwnedFd>,
        egress: Option<(Ports, OwnedFd)>,
        narrowing: Option<Narrowed>,
    ) -> io::Result<()> {
        if self.runs_nothing() {
            return Ok(());
        }
        let mut argv = self.leader(embedded, egress, narrowing)?;
        let leader = argv.first().cloned().unwrap_or_default();
        argv.push(std::mem::replace(&mut self.program, leader));
        argv.extend(self.argv.drain(..).skip(1));
        self.argv = argv;
        Ok(())
    }

    /// The program that takes the last steps inside of the sandbox, as a descriptor: the embedded
    /// one, or this one if that does not suffice (see [`lead`]).
    fn leader(
        &mut self,
        embedded: Option<OwnedFd>,
        egress: Option<(Ports, OwnedFd)>,
        narrowing: Option<Narrowed>,
    ) -> io::Result<Vec<CString>> {
        let program = match embedded.filter(|_| egress.is_none()) {
            Some(embedded) => embedded,
            None => {
                let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
                rustix::fs::open(THIS_PROGRAM, flags, rustix::fs::Mode::empty())?
            }
        };
        let path = lead::path(&program)?;
        self.inherited.push(program);
        let mut argv = vec![path, c_string(SUPERVISE_ARGUMENT.into())?, c_string(LEAD.into())?];
        let (report, reporting) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&report, true)?;
        self.lead_report = Some(report);
        argv.push(c_string(reporting.as_raw_fd().to_string().into_bytes())?);
        self.inherited.push(reporting);
        argv.push(if self.terminal { TERMINAL.to_owned() } else { NONE.to_owned() });
        argv.push(match &egress {
            None => NONE.to_owned(),
            Some((ports, socket)) => {
                c_string(format!("{}:{}", socket.as_raw_fd(), ports.text()).into_bytes())?
            }
        });
        self.inherited.extend(egress.map(|(_, socket)| socket));
        argv.push(if self.cwd_is_real { self.cwd.clone() } else { NONE.to_owned() });
        match &narrowing {
            None => argv.push(NONE.to_owned()),
            Some(roots) => {
                argv.push(c_string(roots.len().to_string().into_bytes())?);
                for (path, root) in roots {
                    argv.push(c_string(root.as_raw_fd().to_string().into_bytes())?);
                    argv.push(c_string(path.clone())?);
                }
            }
        }
        let opened = narrowing.into_iter().flatten();
        self.inherited.extend(opened.map(|(_, root)| root));
        self.terminal = false;
        Ok(argv)
    }

    /// The report of the program inside; `None` if it became the command.
    pub(crate) fn failed_lead(&self) -> Option<Lead> {
        let mut errno = [0; 4];
        let read = rustix::io::read(self.lead_report.as_ref()?, &mut errno).ok()?;
        match i32::from_le_bytes(errno) {
            _ if read != errno.len() => None,
            0 => Some(Lead::Confine),
            errno => Some(Lead::Exec(errno)),
        }
    }

    /// Closes the descriptors that only the command needs.
    pub(crate) fn started(&mut self) {
        self.inherited.clear();
    }

    /// Becomes the command; returns only with the step that failed.
    pub(crate) fn exec(&self, streams: &Streams, parent: Pid) -> (Stage, io::Error) {
        match self.become_command(streams, parent) {
            Err(failed) => failed,
            Ok(()) => (Stage::Exec, self.replace_program()),
        }
    }

    /// The steps in any process of a command: its session, streams and folder.
    pub(crate) fn begin(&self, streams: &Streams) -> Result<(), (Stage, io::Error)> {
        let at = |stage: Stage| move |error: rustix::io::Errno| (stage, error.into());
        rustix::process::setsid().map_err(at(Stage::Session))?;
        sys::reset_signals();
        rustix::stdio::dup2_stdin(&streams.stdin).map_err(at(Stage::Session))?;
        rustix::stdio::dup2_stdout(&streams.stdout).map_err(at(Stage::Session))?;
        rustix::stdio::dup2_stderr(&streams.stderr).map_err(at(Stage::Session))?;
        if self.terminal {
            let terminal = streams.stdin.as_fd();
            rustix::process::ioctl_tiocsctty(terminal).map_err(at(Stage::Session))?;
        }
        self.enter_folder().map_err(at(Stage::Folder))
    }

    /// Goes to the working folder of another root.
    pub(crate) fn enter_again(&self) -> rustix::io::Result<()> {
        rustix::process::chdir(&self.cwd)
    }

    /// Becomes the program before the command, in a child of the first process; returns only an error.
    pub(crate) fn exec_inside(&self) -> io::Error {
        match self.pass_descriptors() {
            Ok(()) => sys::exec(&self.program, &self.argv, &self.env),
            Err(error) => error,
        }
    }

    fn pass_descriptors(&self) -> io::Result<()> {
        sys::close_on_exec_from(3)?;
        for fd in &self.inherited {
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    }

    fn become_command(&self, streams: &Streams, parent: Pid) -> Result<(), (Stage, io::Error)> {
        let at = |stage: Stage| move |error: rustix::io::Errno| (stage, error.into());
        self.begin(streams)?;
        sys::close_on_exec_from(3).map_err(|error| (Stage::Session, error))?;
        self.confine().map_err(|error| (Stage::Confine, error))?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(at(Stage::Session))?;
        if rustix::process::getppid() != Some(parent) {
            sys::exit_now(lead::NOT_STARTED);
        }
        Ok(())
    }

    /// Goes to the working folder. Where that must be a real path, the way to it had no link: the
    /// kernel names the folder by its real path.
    fn enter_folder(&self) -> rustix::io::Result<()> {
        rustix::process::chdir(&self.cwd)?;
        if self.cwd_is_real && rustix::process::getcwd(Vec::new())? != self.cwd {
            return Err(rustix::io::Errno::STALE);
        }
        Ok(())
    }

    fn confine(&self) -> io::Result<()> {
        let Confinement::Landlock { ruleset, filter } = &self.confinement else { return Ok(()) };
        rustix::thread::set_no_new_privs(true)?;
        ruleset.apply()?;
        drop_capabilities()?;
        sys::install_filter(&seccomp::from_bytes(filter))
    }

    fn replace_program(&self) -> io::Error {
        let error = sys::exec(&self.program, &self.argv, &self.env);
        if error.raw_os_error() != Some(libc::ENOEXEC) || !self.is_script() {
            return error;
        }
        // A script without an interpreter line runs in the shell, as from any shell.
        let rest = self.argv.iter().skip(1).cloned();
        let argv: Vec<CString> =
            [c"sh".to_owned(), self.program.clone()].into_iter().chain(rest).collect();
        sys::exec(c"/bin/sh", &argv, &self.env)
    }

    /// Returns whether the program, which the kernel does not execute, can be a script.
    fn is_script(&self) -> bool {
        let flags = rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK;
        let mut block = [0; lead::FIRST_BLOCK];
        let read = rustix::fs::open(&self.program, flags, rustix::fs::Mode::empty())
            .and_then(|file| rustix::io::read(file, &mut block));
        read.is_ok_and(|count| lead::is_text(block.get(..count).unwrap_or_default()))
    }
}

/// The open writable folders, with their paths.
type Narrowed = Vec<(Vec<u8>, OwnedFd)>;

/// Opens the roots by their real paths.
///
/// # Errors
/// A path now leads elsewhere, or to nothing.
fn open_roots(narrowing: &Narrowing) -> io::Result<Narrowed> {
    let open = |path: &Vec<u8>| {
        let changed = || io::Error::from_raw_os_error(libc::ESTALE);
        Ok((path.clone(), landlock::open_real(path)?.ok_or_else(changed)?))
    };
    narrowing.roots.iter().map(open).collect()
}

/// The second argument with which this program prepares a command inside of its namespaces.
pub(super) const LEAD: &str = "lead";

/// Runs inside of the namespaces instead of the embedded program: sends the listeners of a managed
/// network, then takes the same steps. Returns only after it has reported a failure, since an exit code
/// could be that of the command.
pub(super) fn lead(argv: impl Iterator<Item = OsString>) {
    /// The argument after the descriptor for reports and the terminal.
    const EGRESS: usize = 2;
    let mut argv: Vec<OsString> = argv.collect();
    if let Some(egress) = argv.get_mut(EGRESS).filter(|egress| !lead::is_left_out(egress)) {
        let given = std::mem::replace(egress, OsStr::from_bytes(NONE.to_bytes()).to_owned());
        if let Err(error) = hand_over(&given) {
            let _ = writeln!(io::stderr(), "preparing the command: {error}");
            let report = argv.first().and_then(|fd| fd.to_str()?.parse().ok());
            // Without a report, only the exit code shows the failure.
            let _ = report.map(|fd| {
                sys::with_inherited(fd, |fd| Ok(rustix::io::write(fd, &0_i32.to_le_bytes())?))
            });
            return;
        }
    }
    lead::run(argv.into_iter());
}

fn hand_over(egress: &OsStr) -> io::Result<()> {
    let (fd, ports) = egress
        .to_str()
        .and_then(|text| text.split_once(':'))
        .and_then(|(fd, ports)| Some((fd.parse().ok()?, Ports::parse(ports)?)))
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    sys::with_inherited(fd, |socket| handover::send(ports, socket))
}

/// Drops all capabilities. Root without them is an ordinary user who owns the system's files; the
/// bounding set prevents `exec` from restoring them.
pub(super) fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let _ = rustix::thread::clear_ambient_capability_set();
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // Not permitted without capabilities, which then cannot be gained either.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn c_string(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn c_strings(list: Vec<Vec<u8>>) -> io::Result<Vec<CString>> {
    list.into_iter().map(c_string).collect()
}
