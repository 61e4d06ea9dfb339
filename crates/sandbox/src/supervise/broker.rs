//! Changes files for a command that Landlock alone confines. Landlock grants whole folders and cannot exclude a name,
//! so it forbids such a command more than the policy does: to make an entry at the top of a writable folder, and to
//! change modes, owners and times. The seccomp filter stops these calls, and a thread of the supervisor, which is not
//! confined, makes those changes that the policy allows.
//!
//! Nothing that the caller can change is relied on. Paths are read from its memory once. Folders are opened, and their
//! real places decide ([`Places`]). A change is made in an open folder, of a name that is followed nowhere. What the
//! supervisor does not do for the caller, the kernel goes on with under Landlock, or refuses.

mod attributes;
mod caller;
mod changes;
mod entry;
mod network;
mod outcome;
mod signals;
mod terminals;

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::linux::notify::{Call, Listener};
use crate::linux::{capabilities, seccomp};
use crate::supervise::places::Places;
use crate::supervise::request::Ports;
use attributes::{Attributes, Target};
use caller::Caller;
use changes::{At, Changes};
use network::Network;
use outcome::{Outcome, int};

/// Named pipes that wait for their other end at the same time.
const MAX_WAITING: usize = 64;
const THREAD_STACK_BYTES: usize = 128 * 1024;
const AT_FDCWD: i32 = libc::AT_FDCWD;

/// Answers the calls of a command until its last process has ended.
pub(crate) struct Broker {
    listener: Arc<Listener>,
    places: Places,
    waiting: Arc<AtomicUsize>,
    /// Of a command whose network is managed.
    network: RefCell<Option<Network>>,
}

impl Broker {
    /// Starts the thread that answers.
    ///
    /// # Errors
    /// No thread can be started; then the calls fail.
    pub(crate) fn start(
        listener: Listener,
        places: Places,
        managed: Option<(Ports, OwnedFd)>,
    ) -> std::io::Result<()> {
        let network = managed.map(|(ports, server)| Network::new(ports, server));
        let broker = Self {
            listener: Arc::new(listener),
            places,
            waiting: Arc::default(),
            network: RefCell::new(network),
        };
        spawn(move || broker.run())
    }

    fn run(self) {
        // The supervisor may have more rights than the command, which this thread must not lend it.
        if capabilities::drop_all().is_err() {
            return;
        }
        loop {
            let mut watched = [PollFd::new(&*self.listener, PollFlags::IN)];
            match rustix::event::poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let events = watched[0].revents();
            if events.contains(PollFlags::IN) {
                match self.listener.receive() {
                    Ok(Some(call)) => self.answer(&call),
                    Ok(None) => {}
                    Err(_) => return,
                }
            } else if !events.is_empty() {
                return;
            }
        }
    }

    fn answer(&self, call: &Call) {
        if let Some(outcome) = signals::decide(call) {
            return self.finish(call, outcome);
        }
        let is_waiting = || self.listener.is_waiting(call);
        let outcome = match Caller::new(call.thread, is_waiting) {
            Ok(Some(caller)) => self.perform(&caller, call),
            // Another thread has this number now.
            Ok(None) => return,
            // A process whose memory cannot be read.
            Err(_) if is_landlocked(call) => Ok(Outcome::Continue),
            Err(error) => Err(error),
        };
        self.finish(call, outcome);
    }

    fn finish(&self, call: &Call, outcome: Result<Outcome, Errno>) {
        match outcome {
            Ok(Outcome::Continue) => self.listener.let_continue(call),
            Ok(Outcome::Value(value)) => self.listener.answer(call, Ok(value)),
            Ok(Outcome::Open { file, close_on_exec }) => {
                self.listener.answer_with(call, file.as_fd(), close_on_exec);
            }
            Ok(Outcome::OpenLater { open, close_on_exec }) => {
                self.open_later(*call, open, close_on_exec);
            }
            Err(error) => self.listener.answer(call, Err(error.raw_os_error())),
        }
    }

    fn open_later(
        &self,
        call: Call,
        open: Box<dyn FnOnce() -> Result<OwnedFd, Errno> + Send>,
        close_on_exec: bool,
    ) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return self.listener.answer(&call, Err(libc::EMFILE));
        }
        let (listener, waiting) = (Arc::clone(&self.listener), Arc::clone(&self.waiting));
        let started = spawn(move || {
            match open() {
                Ok(file) => {
                    listener.answer_with(&call, file.as_fd(), close_on_exec);
                }
                Err(error) => listener.answer(&call, Err(error.raw_os_error())),
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.listener.answer(&call, Err(libc::EAGAIN));
        }
    }

    fn perform(&self, caller: &Caller, call: &Call) -> Result<Outcome, Errno> {
        let changes = Changes { caller, places: &self.places };
        let [a, b, c, d, e, _] = call.arguments;
        match libc::c_long::from(call.number) {
            libc::SYS_openat => changes.open(At(int(a), b), c, d),
            libc::SYS_mkdirat => changes.make_folder(At(int(a), b), c),
            libc::SYS_mknodat => changes.make_file(At(int(a), b), c),
            libc::SYS_symlinkat => changes.make_link(a, At(int(b), c)),
            libc::SYS_linkat => changes.link(At(int(a), b), At(int(c), d), e),
            libc::SYS_renameat => changes.rename(At(int(a), b), At(int(c), d), 0),
            libc::SYS_renameat2 => changes.rename(At(int(a), b), At(int(c), d), e),
            libc::SYS_unlinkat => changes.remove(At(int(a), b), c),
            libc::SYS_truncate => changes.truncate(At(AT_FDCWD, a), b),
            libc::SYS_socket => self.managed(|network| network.open([a, b, c])),
            libc::SYS_connect => self.managed(|network| network.connect(caller, [a, b, c])),
            number => self
                .perform_older(&changes, number, call.arguments)
                .unwrap_or_else(|| self.change_attributes(caller, number, call.arguments)),
        }
    }

    fn managed(
        &self,
        with: impl FnOnce(&mut Network) -> Result<Outcome, Errno>,
    ) -> Result<Outcome, Errno> {
        self.network.borrow_mut().as_mut().map_or(Err(Errno::PERM), with)
    }

    /// The calls without a folder, which only older architectures have.
    #[cfg(target_arch = "x86_64")]
    fn perform_older(
        &self,
        changes: &Changes<'_>,
        number: libc::c_long,
        [a, b, c, ..]: [u64; 6],
    ) -> Option<Result<Outcome, Errno>> {
        let here = |path: u64| At(AT_FDCWD, path);
        let create = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        Some(match number {
            libc::SYS_open => changes.open(here(a), b, c),
            libc::SYS_creat => changes.open(here(a), create.unsigned_abs().into(), b),
            libc::SYS_mkdir => changes.make_folder(here(a), b),
            libc::SYS_mknod => changes.make_file(here(a), b),
            libc::SYS_symlink => changes.make_link(a, here(b)),
            libc::SYS_link => changes.link(here(a), here(b), 0),
            libc::SYS_rename => changes.rename(here(a), here(b), 0),
            libc::SYS_unlink => changes.remove(here(a), 0),
            libc::SYS_rmdir => changes.remove(here(a), libc::AT_REMOVEDIR.unsigned_abs().into()),
            _ => return None,
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn perform_older(
        &self,
        _: &Changes<'_>,
        _: libc::c_long,
        _: [u64; 6],
    ) -> Option<Result<Outcome, Errno>> {
        None
    }

    fn change_attributes(
        &self,
        caller: &Caller,
        number: libc::c_long,
        [a, b, c, d, e, _]: [u64; 6],
    ) -> Result<Outcome, Errno> {
        let attributes = Attributes { caller, places: &self.places };
        let at = |folder: u64, path: u64, follow: bool| Target::Path {
            at: At(int(folder), path),
            follow,
        };
        let here = |path: u64, follow: bool| Target::Path { at: At(AT_FDCWD, path), follow };
        let open = |descriptor: u64| Target::Open(int(descriptor));
        match number {
            libc::SYS_fchmod => attributes.mode(open(a), b),
            libc::SYS_fchmodat => attributes.mode(at(a, b, true), c),
            libc::SYS_fchown => attributes.owner(open(a), b, c),
            libc::SYS_fchownat => attributes.owner(self.named(caller, a, b, e)?, c, d),
            libc::SYS_utimensat if b == 0 => attributes.times(open(a), c),
            libc::SYS_utimensat => attributes.times(self.named(caller, a, b, d)?, c),
            libc::SYS_setxattr => attributes.set_attribute(here(a, true), b, [c, d, e]),
            libc::SYS_lsetxattr => attributes.set_attribute(here(a, false), b, [c, d, e]),
            libc::SYS_fsetxattr => attributes.set_attribute(open(a), b, [c, d, e]),
            libc::SYS_removexattr => attributes.remove_attribute(here(a, true), b),
            libc::SYS_lremovexattr => attributes.remove_attribute(here(a, false), b),
            libc::SYS_fremovexattr => attributes.remove_attribute(open(a), b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => attributes.mode(here(a, true), b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => attributes.owner(here(a, true), b, c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => attributes.owner(here(a, false), b, c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => attributes.times_in_seconds(here(a, true), b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => attributes.times_in_microseconds(here(a, true), b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat if b == 0 => attributes.times_in_microseconds(open(a), c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => attributes.times_in_microseconds(at(a, b, true), c),
            _ => Err(Errno::PERM),
        }
    }

    /// The file that a folder, a path and flags name: with an empty path, the folder itself.
    fn named(&self, caller: &Caller, folder: u64, path: u64, flags: u64) -> Result<Target, Errno> {
        let flags = flags & 0xffff_ffff;
        let has = |flag: i32| flags & u64::from(flag.unsigned_abs()) != 0;
        let known = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
        if flags & !u64::from(known.unsigned_abs()) != 0 {
            return Err(Errno::INVAL);
        }
        if has(libc::AT_EMPTY_PATH) && caller.string(path)?.is_empty() {
            return Ok(Target::Open(int(folder)));
        }
        let follow = !has(libc::AT_SYMLINK_NOFOLLOW);
        Ok(Target::Path { at: At(int(folder), path), follow })
    }
}

/// Returns whether Landlock controls a call.
fn is_landlocked(call: &Call) -> bool {
    let number = libc::c_long::from(call.number);
    seccomp::OPEN.contains(&number) || seccomp::BY_PATH.contains(&number)
}

fn spawn(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn(run).map(drop)
}
