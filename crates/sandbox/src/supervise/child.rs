//! From fork to `exec`: makes the forked process the command's own, with its terminal, folder,
//! signals and confinement.

use std::ffi::{CStr, CString, OsString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};

use super::request::{Confinement, Narrowing, Ports, Request, Stage};
use crate::linux::{handover, landlock, seccomp, sys};
use crate::sandbox::{SUPERVISE_ARGUMENT, THIS_PROGRAM};

/// The standard streams of a command.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// Where the listeners of a managed network are sent.
    pub(crate) egress: Option<OwnedFd>,
}

/// What `exec` takes, with the descriptors that bubblewrap reads from and reports to.
pub(crate) struct Prepared {
    program: CString,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    terminal: bool,
    confinement: Confinement,
    inherited: Vec<OwnedFd>,
    /// See [`Request`].
    pub(crate) placeholders: Vec<PathBuf>,
    /// Where bubblewrap reports that it started the command, to be read after it ended.
    pub(crate) confined_report: Option<OwnedFd>,
    /// Where [`lead`] reports that it could not become the command, to be read after it ended.
    lead_report: Option<OwnedFd>,
}

/// The step at which [`lead`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// Before the confinement was whole; why is on standard error.
    Confine,
    /// The program could not be executed; the `errno`.
    Exec(i32),
}

impl Prepared {
    /// Does everything that can be done before the fork.
    pub(crate) fn new(request: Request, egress: Option<OwnedFd>) -> io::Result<Prepared> {
        let mut prepared = Prepared {
            program: c_string(request.program)?,
            argv: c_strings(request.argv)?,
            env: c_strings(request.env)?,
            cwd: c_string(request.cwd)?,
            terminal: request.terminal,
            confinement: request.confinement,
            inherited: Vec::new(),
            placeholders: request.placeholders.into_iter().map(path).collect(),
            confined_report: None,
            lead_report: None,
        };
        if let Confinement::Bubblewrap { bwrap, options, filter, narrowing } = &prepared.confinement
        {
            let (bwrap, options, filter) = (bwrap.clone(), options.join(&0), filter.clone());
            let narrowing = narrowing.as_ref().map(open_roots).transpose()?;
            prepared.wrap(bwrap, options, &filter, request.ports.zip(egress), narrowing)?;
        } else if request.ports.is_some() {
            // Nothing but bubblewrap makes a network of its own.
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(prepared)
    }

    /// Whether everything that the command started ends with it.
    pub(crate) fn confined(&self) -> bool {
        self.confinement != Confinement::None
    }

    /// Whether the first process is bubblewrap, which must outlive what it waits for.
    pub(crate) fn wrapped(&self) -> bool {
        self.confined_report.is_some()
    }

    fn wrap(
        &mut self,
        bwrap: Vec<u8>,
        mut options: Vec<u8>,
        filter: &[u8],
        egress: Option<(Ports, OwnedFd)>,
        narrowing: Option<Narrowed>,
    ) -> io::Result<()> {
        options.push(0);
        let options = memory_file(&options)?;
        let filter = memory_file(filter)?;
        let (report, reporting) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&report, true)?;
        let bwrap = c_string(bwrap)?;
        let mut argv = vec![bwrap.clone()];
        for (option, fd) in
            [(c"--args", &options), (c"--seccomp", &filter), (c"--json-status-fd", &reporting)]
        {
            argv.push(option.to_owned());
            argv.push(c_string(fd.as_raw_fd().to_string().into_bytes())?);
        }
        argv.push(c"--".to_owned());
        self.inherited = vec![options, filter, reporting];
        if self.terminal || egress.is_some() || narrowing.is_some() {
            argv.extend(self.leader(egress, narrowing)?);
        }
        argv.push(std::mem::replace(&mut self.program, bwrap));
        argv.extend(self.argv.drain(..).skip(1));
        self.argv = argv;
        // The command's own comes with the options: what is in it must not work on bubblewrap.
        self.env.clear();
        self.confined_report = Some(report);
        Ok(())
    }

    /// This program, inside of the sandbox, through a descriptor: see [`lead`].
    fn leader(
        &mut self,
        egress: Option<(Ports, OwnedFd)>,
        narrowing: Option<Narrowed>,
    ) -> io::Result<Vec<CString>> {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let program = rustix::fs::open(THIS_PROGRAM, flags, rustix::fs::Mode::empty())?;
        let path = c_string(format!("/proc/self/fd/{}", program.as_raw_fd()).into_bytes())?;
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
        match &narrowing {
            None => argv.push(NONE.to_owned()),
            Some((abi, roots)) => {
                argv.push(c_string(format!("{abi}:{}", roots.len()).into_bytes())?);
                for (path, root) in roots {
                    argv.push(c_string(root.as_raw_fd().to_string().into_bytes())?);
                    argv.push(c_string(path.clone())?);
                }
            }
        }
        let opened = narrowing.into_iter().flat_map(|(_, roots)| roots);
        self.inherited.extend(opened.map(|(_, root)| root));
        self.terminal = false;
        Ok(argv)
    }

    /// What [`lead`] reported before it ended; `None` when it became the command.
    pub(crate) fn failed_lead(&self) -> Option<Lead> {
        let mut errno = [0; 4];
        let read = rustix::io::read(self.lead_report.as_ref()?, &mut errno).ok()?;
        match i32::from_le_bytes(errno) {
            _ if read != errno.len() => None,
            0 => Some(Lead::Confine),
            errno => Some(Lead::Exec(errno)),
        }
    }

    /// Closes what only the command needs.
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

    fn become_command(&self, streams: &Streams, parent: Pid) -> Result<(), (Stage, io::Error)> {
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
        rustix::process::chdir(&self.cwd).map_err(at(Stage::Folder))?;
        sys::close_on_exec_from(3).map_err(|error| (Stage::Session, error))?;
        for fd in &self.inherited {
            let keep = rustix::io::FdFlags::empty();
            rustix::io::fcntl_setfd(fd, keep).map_err(at(Stage::Session))?;
        }
        self.confine().map_err(|error| (Stage::Confine, error))?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(at(Stage::Session))?;
        if rustix::process::getppid() != Some(parent) {
            sys::exit_now(127);
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
        if error.raw_os_error() != Some(libc::ENOEXEC) {
            return error;
        }
        // A script without an interpreter line runs in the shell, as it does from any shell.
        let rest = self.argv.iter().skip(1).cloned();
        let argv: Vec<CString> =
            [c"sh".to_owned(), self.program.clone()].into_iter().chain(rest).collect();
        sys::exec(c"/bin/sh", &argv, &self.env)
    }
}

/// Landlock's version, and the folders that may be written, open, with their paths.
type Narrowed = (u32, Vec<(Vec<u8>, OwnedFd)>);

/// Opens the roots as they are named. A path that leads elsewhere by now, or to nothing, is an
/// error: bubblewrap would mount what it leads to.
fn open_roots(narrowing: &Narrowing) -> io::Result<Narrowed> {
    let open = |path: &Vec<u8>| {
        let changed = || io::Error::from_raw_os_error(libc::ESTALE);
        Ok((path.clone(), landlock::open_real(path)?.ok_or_else(changed)?))
    };
    let roots = narrowing.roots.iter().map(open).collect::<io::Result<_>>()?;
    Ok((narrowing.abi, roots))
}

/// The second argument with which this program prepares a command inside of bubblewrap.
pub(super) const LEAD: &str = "lead";
const TERMINAL: &CStr = c"terminal";
const NONE: &CStr = c"-";

/// Runs inside of bubblewrap: sends the listeners of a managed network away, becomes the leader of
/// a session with the terminal, gives up writing anything but the folders that were opened before
/// bubblewrap looked for them, then becomes the command. Were bubblewrap in that session, an interrupt
/// typed into the terminal would end it, and everything in it, before the command could react.
/// Returns when that failed, and has reported it: an exit code could be the command's own.
pub(super) fn lead(mut argv: impl Iterator<Item = OsString>) {
    let report = argv.next().and_then(|fd| fd.to_str()?.parse().ok());
    let failed = match prepare(&mut argv) {
        Err(error) => {
            let _ = writeln!(io::stderr(), "preparing the command: {error}");
            0
        }
        // The same environment: it is the command's.
        #[allow(clippy::disallowed_methods, reason = "replaces this program, which is the sandbox")]
        Ok(program) => {
            let error = std::process::Command::new(program).args(argv).exec();
            error.raw_os_error().unwrap_or(libc::EIO)
        }
    };
    // Without a report it is an exit code.
    let _ = report
        .map(|fd| sys::with_inherited(fd, |fd| Ok(rustix::io::write(fd, &failed.to_le_bytes())?)));
}

fn prepare(argv: &mut impl Iterator<Item = OsString>) -> io::Result<OsString> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let terminal = argv.next().ok_or_else(invalid)?;
    let egress = argv.next().ok_or_else(invalid)?;
    if egress.as_bytes() != NONE.to_bytes() {
        let (fd, ports) = egress
            .to_str()
            .and_then(|text| text.split_once(':'))
            .and_then(|(fd, ports)| Some((fd.parse().ok()?, Ports::parse(ports)?)))
            .ok_or_else(invalid)?;
        sys::with_inherited(fd, |socket| handover::send(ports, socket))?;
    }
    if terminal.as_bytes() == TERMINAL.to_bytes() {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(io::stdin())?;
    }
    let narrowing = argv.next().ok_or_else(invalid)?;
    if narrowing.as_bytes() != NONE.to_bytes() {
        let mut numbers = narrowing.to_str().into_iter().flat_map(|text| text.split(':'));
        let mut number = || numbers.next()?.parse::<u32>().ok();
        let (abi, count) = number().zip(number()).ok_or_else(invalid)?;
        let mut roots = Vec::new();
        for _ in 0..count {
            let (fd, path) = argv.next().zip(argv.next()).ok_or_else(invalid)?;
            let fd = fd.to_str().and_then(|fd| fd.parse().ok()).ok_or_else(invalid)?;
            roots.push((fd, path));
        }
        landlock::narrow(abi, &roots)?;
    }
    sys::close_on_exec_from(3)?;
    argv.next().ok_or_else(invalid)
}

/// Root without capabilities is an ordinary user who owns the system's files; the bounding set
/// keeps `exec` from giving them back.
fn drop_capabilities() -> io::Result<()> {
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

fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::memfd_create(c"sandbox", flags)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
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
