//! The terminal as a device: raw mode, its size, what it sends and what is written to it. Only this module
//! touches it.

mod encode;
pub mod input;
pub mod residue;
pub mod screen;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::terminal::screen::Size;

/// Bracketed paste and reports of the focus, and without the pointer's reports that another program may
/// have left switched on.
const ENTER: &[u8] = b"\x1b[?2004h\x1b[?1004h";
/// Undoes the changes of [`ENTER`] and frames, and the keyboard protocol.
const LEAVE: &[u8] = b"\x1b[?2026l\x1b[0m\x1b]8;;\x1b\\\x1b[<u\x1b[?1004l\x1b[?2004l\x1b[?25h";
const ENTER_ALTERNATE: &[u8] = b"\x1b[?1049h\x1b[H\x1b[2J";
const LEAVE_ALTERNATE: &[u8] = b"\x1b[?1049l";
/// Takes [`KEYBOARD`] back.
pub const LEAVE_KEYBOARD: &[u8] = b"\x1b[<u";
/// Asks for all modifiers of keys (flag 1: only where they would be ambiguous).
pub const KEYBOARD: &[u8] = b"\x1b[>1u";

/// The previous state of the terminal, for [`restore`]. Set while it is in raw mode.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    file: File,
    settings: Termios,
    is_alternate: bool,
}

/// The terminal in raw mode; dropped, it is as it was.
#[derive(Debug)]
pub struct Terminal {
    file: AsyncFd<File>,
    raw: Termios,
}

impl Terminal {
    /// Takes the terminal of the standard input and switches it to raw mode. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The standard input or output is no terminal, or it cannot be opened or set.
    pub fn open() -> io::Result<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Err(io::Error::other("the standard input and output are not a terminal"));
        }
        let name = termios::ttyname(io::stdin(), Vec::new())?;
        // A file of its own: other programs share the standard one, and do not expect it not to block.
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(name.to_string_lossy().as_ref())?;
        let settings = termios::tcgetattr(&file)?;
        let mut raw = settings.clone();
        raw.make_raw();
        let before = Before { file: file.try_clone()?, settings, is_alternate: false };
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let terminal = Self { file: registered(file)?, raw };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Raw mode again, after [`restore`] or after the process was stopped.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn enter(&self) -> io::Result<()> {
        termios::tcsetattr(self.file.get_ref(), OptionalActions::Now, &self.raw)?;
        write_all(self.file.get_ref(), ENTER);
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        if before.as_ref().is_some_and(|before| before.is_alternate) {
            write_all(self.file.get_ref(), ENTER_ALTERNATE);
        }
        Ok(())
    }

    /// The size now; 80 × 24 where the terminal does not know it.
    #[must_use]
    pub fn size(&self) -> Size {
        let size = termios::tcgetwinsize(self.file.get_ref()).ok();
        let known = |cells: u16, or: usize| if cells == 0 { or } else { usize::from(cells) };
        let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
        Size { columns: known(columns, 80), rows: known(rows, 24) }
    }

    /// Switches to or from the alternate screen.
    ///
    /// # Errors
    /// Those of [`Terminal::write`].
    pub async fn set_alternate(&self, is_alternate: bool) -> io::Result<()> {
        if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            before.is_alternate = is_alternate;
        }
        self.write(if is_alternate { ENTER_ALTERNATE } else { LEAVE_ALTERNATE }).await
    }

    /// Waits for bytes. None at all: the terminal is gone. Cancel safe.
    ///
    /// # Errors
    /// Of the operating system.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.async_io(Interest::READABLE, |mut file| file.read(buffer)).await
    }

    /// Writes everything, as fast as the terminal takes it.
    ///
    /// # Errors
    /// Of the operating system, as when the terminal is gone.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written =
                self.file.async_io(Interest::WRITABLE, |mut file| file.write(bytes)).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

// The function that replaces this one is `unsafe`, because a type may change its descriptor. A `File` keeps
// the same one open until it is dropped.
#[allow(deprecated)]
fn registered(file: File) -> io::Result<AsyncFd<File>> {
    AsyncFd::new(file)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Makes the terminal as it was before [`Terminal::open`]. For panics, too; without effect when there is
/// nothing to restore.
pub fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(before) = &*before else { return };
    if before.is_alternate {
        write_all(&before.file, LEAVE_ALTERNATE);
    }
    write_all(&before.file, LEAVE);
    // Nothing more can be done for a terminal that is gone.
    let _ = termios::tcsetattr(&before.file, OptionalActions::Now, &before.settings);
}

/// Writes a few bytes, waiting a second at most for a terminal that takes none.
fn write_all(mut file: &File, mut bytes: &[u8]) {
    let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut ready = [rustix::event::PollFd::new(&file, rustix::event::PollFlags::OUT)];
                if !matches!(rustix::event::poll(&mut ready, Some(&second)), Ok(1..)) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
