//! Between fork and `exec`: sets up the terminal, folder, signals and confinement of the command.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};

use super::broker::Broker;
use super::handover;
use super::request::{Confinement, Narrowing, Ports, Request, Stage};
use crate::linux::view::View;
use crate::linux::{capabilities, landlock, limit_calls, notify, seccomp, sys};

/// The standard streams of a command.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Socket for the listeners of a managed network.
    pub(crate) egress: Option<OwnedFd>,
    /// The table of the limits of its group.
    pub(crate) table: Option<OwnedFd>,
}

/// The confinement of a command in namespaces.
pub(crate) struct Inside<'a> {
    pub(crate) view: &'a View,
    pub(crate) network: Network,
    pub(crate) filter: &'a [u8],
}

/// The network of a command in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// None but loopback.
    None,
    /// None but loopback, where this command's listeners are.
    Managed,
    /// The machine's.
    Machine,
}

/// A command that is ready to start: the arguments of `exec`, and what was opened for its confinement.
pub(crate) struct Prepared {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    cwd_is_real: bool,
    terminal: bool,
    confinement: Confinement,
    /// The writable folders, opened before they are mounted.
    narrowing: Option<Narrowed>,
    /// The socket for the listeners of a managed network.
    egress: Option<(Ports, OwnedFd)>,
    /// Those that the command has from its start.
    file_size: Option<u64>,
    nice: u8,
    /// Most processes.
    pub(crate) processes: Option<u64>,
    /// See [`Request`].
    pub(crate) placeholders: Vec<PathBuf>,
    /// Through these the command sends the supervisor the listener of its calls, which the second receives.
    asking: Option<(UnixStream, UnixStream)>,
}

impl Prepared {
    /// Does everything that is possible before the fork.
    pub(crate) fn new(
        request: Request,
        (file_size, nice, processes): (Option<u64>, u8, Option<u64>),
        egress: Option<OwnedFd>,
    ) -> io::Result<Prepared> {
        let narrowing = match &request.confinement {
            Confinement::Namespaces { narrowing, .. } => narrowing.as_ref(),
            // Nothing keeps the command from the machine's network.
            Confinement::None | Confinement::Landlock { places: None, .. }
                if request.ports.is_some() =>
            {
                return Err(io::ErrorKind::Unsupported.into());
            }
            Confinement::None | Confinement::Landlock { .. } => None,
        };
        let asks = matches!(request.confinement, Confinement::Landlock { places: Some(_), .. });
        Ok(Prepared {
            asking: asks.then(UnixStream::pair).transpose()?,
            narrowing: narrowing.map(open_roots).transpose()?,
            egress: request.ports.zip(egress),
            program: c_string(request.program)?,
            argv: c_strings(request.argv)?,
            env: c_strings(request.env)?,
            cwd: c_string(request.cwd)?,
            cwd_is_real: request.cwd_is_real,
            terminal: request.terminal,
            file_size,
            nice,
            processes,
            confinement: request.confinement,
            placeholders: request.placeholders.into_iter().map(path).collect(),
        })
    }

    /// Returns whether the descendants of the command end with it.
    pub(crate) fn confined(&self) -> bool {
        self.confinement != Confinement::None
    }

    /// The namespaces of the command, if it has its own.
    pub(crate) fn inside(&self) -> Option<Inside<'_>> {
        match &self.confinement {
            Confinement::Namespaces { view, network, filter, .. } => {
                let network = match (network, &self.egress) {
                    (true, _) => Network::Machine,
                    (false, Some(_)) => Network::Managed,
                    (false, None) => Network::None,
                };
                Some(Inside { view, network, filter })
            }
            Confinement::None | Confinement::Landlock { .. } => None,
        }
    }

    /// Returns whether there is no command, only its confinement.
    pub(crate) fn runs_nothing(&self) -> bool {
        self.program.is_empty()
    }

    /// Starts to answer the calls of the command, which runs, where its filter asks.
    ///
    /// # Errors
    /// The command has sent no listener, or no thread can be started.
    pub(crate) fn answer(&mut self) -> io::Result<()> {
        let Some((sending, receiving)) = self.asking.take() else { return Ok(()) };
        drop(sending);
        let Confinement::Landlock { places: Some(places), .. } = &self.confinement else {
            return Ok(());
        };
        let (_, listener) = handover::receive_one(&receiving)?;
        Broker::start(listener.into(), places.clone(), self.egress.take())
    }

    /// Closes the descriptors that only the command needs.
    pub(crate) fn started(&mut self) {
        self.narrowing = None;
        self.egress = None;
    }

    /// Becomes the command; returns only with the step that failed.
    pub(crate) fn exec(&self, streams: &Streams, parent: Pid) -> (Stage, io::Error) {
        match self.become_command(streams, parent) {
            Err(failed) => failed,
            Ok(()) => (Stage::Exec, self.replace_program()),
        }
    }

    /// The first steps: session, streams and folder.
    pub(crate) fn begin(&self, streams: &Streams) -> Result<(), (Stage, io::Error)> {
        let at = |stage: Stage| move |error: rustix::io::Errno| (stage, error.into());
        rustix::process::setsid().map_err(at(Stage::Session))?;
        sys::reset_signals();
        limit_calls::restrain(self.file_size, self.nice)
            .map_err(|error| (Stage::Session, error))?;
        rustix::stdio::dup2_stdin(&streams.stdin).map_err(at(Stage::Session))?;
        rustix::stdio::dup2_stdout(&streams.stdout).map_err(at(Stage::Session))?;
        rustix::stdio::dup2_stderr(&streams.stderr).map_err(at(Stage::Session))?;
        // In namespaces, the session is that of the command: an interrupt that is typed into the terminal must not
        // reach their first process.
        if self.inside().is_none() {
            self.take_terminal(streams.stdin.as_fd()).map_err(at(Stage::Session))?;
        }
        self.enter_folder().map_err(at(Stage::Folder))
    }

    fn take_terminal(&self, terminal: BorrowedFd<'_>) -> rustix::io::Result<()> {
        if self.terminal { rustix::process::ioctl_tiocsctty(terminal) } else { Ok(()) }
    }

    /// The last steps in the first process of namespaces: sends the listeners of a managed network, and lets
    /// nothing be written but the folders that were opened.
    pub(crate) fn narrow(&self) -> io::Result<()> {
        if let Some((ports, socket)) = &self.egress {
            handover::send(*ports, socket.as_fd())?;
        }
        self.narrowing.as_deref().map_or(Ok(()), landlock::narrow)
    }

    /// Becomes the command, in a child of the first process of namespaces; returns only the error.
    pub(crate) fn exec_inside(&self) -> io::Error {
        let session = || -> io::Result<()> {
            if self.terminal {
                rustix::process::setsid()?;
                self.take_terminal(rustix::stdio::stdin())?;
            }
            sys::close_on_exec_from(3)
        };
        session().err().unwrap_or_else(|| self.replace_program())
    }

    fn become_command(&self, streams: &Streams, parent: Pid) -> Result<(), (Stage, io::Error)> {
        let at = |stage: Stage| move |error: rustix::io::Errno| (stage, error.into());
        self.begin(streams)?;
        sys::close_on_exec_from(3).map_err(|error| (Stage::Session, error))?;
        self.confine().map_err(|error| (Stage::Confine, error))?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(at(Stage::Session))?;
        if rustix::process::getppid() != Some(parent) {
            sys::exit_now(sys::NOT_STARTED);
        }
        Ok(())
    }

    /// Goes to the working folder of this process's root. Where that must be a real path, the way to it had no link: the
    /// kernel names the folder by its real path.
    pub(crate) fn enter_folder(&self) -> rustix::io::Result<()> {
        rustix::process::chdir(&self.cwd)?;
        if self.cwd_is_real && rustix::process::getcwd(Vec::new())? != self.cwd {
            return Err(rustix::io::Errno::STALE);
        }
        Ok(())
    }

    fn confine(&self) -> io::Result<()> {
        let Confinement::Landlock { ruleset, filter, .. } = &self.confinement else {
            return Ok(());
        };
        rustix::thread::set_no_new_privs(true)?;
        let terminal = rustix::stdio::stdin();
        ruleset.apply(self.terminal.then_some(terminal))?;
        capabilities::drop_all()?;
        let filter = seccomp::from_bytes(filter);
        match &self.asking {
            None => sys::install_filter(&filter),
            Some((sending, _)) => handover::send_one(sending, 0, notify::install(&filter)?.as_fd()),
        }
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

    /// Returns whether the program, which the kernel does not execute, can be a script, that is text.
    fn is_script(&self) -> bool {
        let flags = rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::NONBLOCK;
        let mut block = [0; 512];
        let read = rustix::fs::open(&self.program, flags, rustix::fs::Mode::empty())
            .and_then(|file| rustix::io::read(file, &mut block));
        let is_text = |block: &[u8]| !block.starts_with(b"\x7fELF") && !block.contains(&0);
        read.is_ok_and(|count| is_text(block.get(..count).unwrap_or_default()))
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

fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn c_string(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn c_strings(list: Vec<Vec<u8>>) -> io::Result<Vec<CString>> {
    list.into_iter().map(c_string).collect()
}
