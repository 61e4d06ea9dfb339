//! Namespaces that one command has made and that later commands with the same view enter, so that a command costs
//! little more than one that is not confined. The launcher holds their descriptors, and nothing else keeps them: they
//! end with it. Each command has processes, IPC and a copy of the mounts of its own.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatVfsMountFlags, StatxAttributes, StatxFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use super::child::Network;
use super::request::encode_view;
use crate::linux::mount_calls;
use crate::linux::view::{Missing, Step, View};

/// Most views whose namespaces are kept: the oldest ones go first.
const MAX_KEPT: usize = 16;
/// Longest form of a view that is kept.
const MAX_KEY: usize = 32 * 1024;
/// Users, network, host name and mounts, in the order in which they are entered.
const KINDS: [&str; 4] = ["user", "net", "uts", "mnt"];

/// The view and the network, which distinguish namespaces.
pub(crate) type Key = Vec<u8>;

pub(crate) fn key(view: &View, network: Network) -> Key {
    let mut key = vec![match network {
        Network::None => 0,
        Network::Managed => 1,
        Network::Machine => 2,
    }];
    encode_view(&mut key, view);
    key
}

/// Namespaces that can be entered.
#[derive(Debug)]
pub(crate) struct Ready {
    key: Key,
    namespaces: [OwnedFd; KINDS.len()],
}

impl Ready {
    /// Enters them, the network only if `network`.
    pub(crate) fn enter(&self, network: bool) -> io::Result<()> {
        for (kind, namespace) in KINDS.iter().zip(&self.namespaces) {
            if network || *kind != "net" {
                mount_calls::enter(namespace.as_fd())?;
            }
        }
        Ok(())
    }
}

/// The namespaces that are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    list: Vec<Ready>,
    receiving: OwnedFd,
    sending: OwnedFd,
    /// Shows changes of the machine's mounts.
    mounts: OwnedFd,
}

impl Kept {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (receiving, sending) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())?;
        Ok(Self { list: Vec::new(), receiving, sending, mounts })
    }

    /// Receives what commands have made since the last call, and forgets all when the machine's mounts have changed.
    pub(crate) fn update(&mut self) {
        while let Ok(Some(ready)) = receive(self.receiving.as_fd()) {
            self.list.retain(|known| known.key != ready.key);
            self.list.push(ready);
            if self.list.len() > MAX_KEPT {
                self.list.remove(0);
            }
        }
        let mut watched = [PollFd::new(&self.mounts, PollFlags::PRI)];
        let polled = rustix::event::poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if polled.is_err() || watched[0].revents().contains(PollFlags::ERR) {
            self.list.clear();
        }
    }

    pub(crate) fn find(&self, key: &Key) -> Option<&Ready> {
        self.list.iter().find(|ready| ready.key == *key)
    }

    /// Offers the namespaces of this process to later commands.
    pub(crate) fn offer(&self, key: &Key) -> io::Result<()> {
        if key.len() > MAX_KEY {
            return Ok(());
        }
        let open = |kind: &&str| {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open(format!("/proc/self/ns/{kind}"), flags, Mode::empty())
        };
        let opened = KINDS.iter().map(open).collect::<Result<Vec<OwnedFd>, _>>()?;
        let fds: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(KINDS.len()))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let text = [io::IoSlice::new(key)];
        rustix::net::sendmsg(&self.sending, &text, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Ready>> {
    let mut key = vec![0; MAX_KEY];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(KINDS.len()))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [io::IoSliceMut::new(&mut key)];
    let message =
        rustix::net::recvmsg(socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::with_capacity(KINDS.len());
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            fds.extend(received);
        }
    }
    key.truncate(message.bytes);
    // Fewer arrive if the limit of open files is reached.
    Ok(fds.try_into().ok().map(|namespaces| Ready { key, namespaces }))
}

/// The file at the path of a step, outside of any namespaces, when a command started.
#[derive(Debug)]
pub(crate) struct Fact {
    path: PathBuf,
    follow: bool,
    /// Device and inode; `None`: nothing.
    outside: Option<(u64, u64)>,
    expected: Expected,
    /// True if it stands for a protected name that does not exist.
    is_placeholder: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The same file, mounted, and writable or not.
    Same { writable: bool },
    /// Another one, mounted.
    Other,
}

/// The facts of the steps of `view`, among which are `placeholders`.
pub(crate) fn facts(view: &View, placeholders: &[PathBuf]) -> Vec<Fact> {
    let fact = |step: &Step| {
        let (path, follow, expected) = match step {
            Step::Show { path, writable, missing } => {
                let follow = !*writable && *missing == Missing::Skipped;
                (path, follow, Expected::Same { writable: *writable })
            }
            Step::Empty(path) | Step::Cover(path) => (path, false, Expected::Other),
            Step::Freeze(_) | Step::Processes | Step::Devices | Step::Link { .. } => return None,
        };
        let outside = rustix::fs::statat(CWD, path, flags(follow)).ok();
        let outside = outside.map(|found| (found.st_dev, found.st_ino));
        let is_placeholder = placeholders.contains(path);
        Some(Fact { path: path.clone(), follow, outside, expected, is_placeholder })
    };
    view.steps.iter().filter_map(fact).collect()
}

/// A file or folder that has to be mounted read-only.
#[derive(Debug)]
pub(crate) struct Stale {
    pub(crate) path: PathBuf,
    /// Its device and inode.
    pub(crate) file: (u64, u64),
}

/// Compares the mounts of this process with those that the view would make now. Returns what is missing, which is
/// little: what stands for a protected name that does not exist is another folder for each command. `None`: they have
/// to be made again.
pub(crate) fn compare(facts: &[Fact]) -> Option<Vec<Stale>> {
    let mut missing = Vec::new();
    for fact in facts {
        match fact.state() {
            State::Current => {}
            State::Missing(stale) => missing.push(stale),
            State::Other => return None,
        }
    }
    Some(missing)
}

enum State {
    Current,
    /// A placeholder is there, and not mounted.
    Missing(Stale),
    Other,
}

impl Fact {
    fn state(&self) -> State {
        let path = self.path.as_path();
        let how = flags(self.follow);
        let Ok(inside) = rustix::fs::statat(CWD, path, how) else {
            return if self.outside.is_none() { State::Current } else { State::Other };
        };
        let mounted = rustix::fs::statx(CWD, path, how, StatxFlags::empty());
        let is_mounted =
            mounted.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
        let file = (inside.st_dev, inside.st_ino);
        let is_same = self.outside == Some(file);
        match self.expected {
            Expected::Same { writable } => {
                let is_writable = || {
                    let found = rustix::fs::statvfs(path);
                    found.is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::RDONLY))
                };
                if is_same && is_mounted && is_writable() == writable {
                    State::Current
                } else if is_same && !is_mounted && !writable && self.is_placeholder {
                    State::Missing(Stale { path: self.path.clone(), file })
                } else {
                    State::Other
                }
            }
            Expected::Other if is_mounted && !is_same => State::Current,
            Expected::Other => State::Other,
        }
    }
}

fn flags(follow: bool) -> AtFlags {
    if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}
