//! Changes of the terminal as a whole: its size, the alternate screen, another program that takes
//! it over, job control, and the end.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::app::Event;
use crate::link::Connector;
use crate::programs;
use crate::run::pace::Due;
use crate::run::{REPLIES, Running};
use crate::terminal::residue::WHERE;
use crate::terminal::screen::{Frame, Screen};
use crate::terminal::{self, KEYBOARD, LEAVE_KEYBOARD};

impl<C: Connector> Running<C> {
    /// Takes a new size now, for what cannot wait until it is settled.
    pub(super) async fn settle(&mut self) -> io::Result<()> {
        match self.settles_at {
            Some(_) => self.resized().await,
            None => Ok(()),
        }
    }

    pub(super) async fn alternate(&mut self, is_alternate: bool) -> io::Result<()> {
        self.settle().await?;
        if is_alternate {
            let bytes = self.screen.clear();
            self.terminal.write(&bytes).await?;
        }
        self.terminal.set_alternate(is_alternate).await?;
        let has_history = !is_alternate && self.app.environment().is_tmux;
        let screen = Screen::new(self.terminal.size(), self.app.palette());
        self.screen = screen.in_tmux(has_history);
        if has_history {
            self.terminal.write(WHERE).await?;
        }
        self.pace.changed(Due::Now);
        Ok(())
    }

    /// Shows the alternate screen, or the ordinary one as it was.
    pub(super) async fn overlay(&mut self, is_overlaid: bool) -> io::Result<()> {
        let size = self.terminal.size();
        match (is_overlaid, self.below.take()) {
            (true, None) => {
                let blank = self.screen.blank(size);
                self.below = Some(std::mem::replace(&mut self.screen, blank));
                self.terminal.set_alternate(true).await?;
                // Each screen has its own.
                if self.has_keyboard {
                    self.terminal.write(KEYBOARD).await?;
                }
            }
            (true, below) => self.below = below,
            (false, None) => {}
            (false, Some(below)) => {
                let shows_cursor = self.screen.shows_cursor();
                self.screen = below;
                if self.has_keyboard {
                    self.terminal.write(LEAVE_KEYBOARD).await?;
                }
                self.terminal.set_alternate(false).await?;
                self.screen.set_cursor_shown(shows_cursor);
                if self.screen.size() != size {
                    let bytes = self.screen.resize(size, self.app.environment().reflows);
                    self.terminal.write(&bytes).await?;
                }
            }
        }
        self.pace.changed(Due::Now);
        Ok(())
    }

    pub(super) async fn clear(&mut self) -> io::Result<()> {
        self.settle().await?;
        let mut bytes = self.screen.clear();
        bytes.extend_from_slice(b"\x1b[H\x1b[2J");
        self.screen.set_cleared();
        self.terminal.write(&bytes).await?;
        self.pace.changed(Due::Now);
        Ok(())
    }

    pub(super) async fn edit(&mut self, text: String) -> io::Result<()> {
        self.settle().await?;
        let bytes = self.screen.clear();
        self.terminal.write(&bytes).await?;
        self.take_replies().await?;
        terminal::restore();
        let edited = programs::edit(self.app.environment().editor.clone(), &text).await;
        self.enter_again().await?;
        self.event(Event::Edited(edited), Due::Now);
        Ok(())
    }

    /// Stops the process as the user's shell expects it. This thread may run on for a moment, so the loop
    /// does nothing more before the signal that continues it.
    pub(super) async fn suspend(&mut self) -> io::Result<()> {
        self.settle().await?;
        let bytes = self.screen.clear();
        self.terminal.write(&bytes).await?;
        self.take_replies().await?;
        terminal::restore();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        self.is_stopped = true;
        Ok(())
    }

    pub(super) async fn enter_again(&mut self) -> io::Result<()> {
        self.is_stopped = false;
        self.terminal.enter()?;
        self.resized().await?;
        self.pace.changed(Due::Now);
        Ok(())
    }

    pub(super) async fn resized(&mut self) -> io::Result<()> {
        self.settles_at = None;
        let size = self.terminal.size();
        let bytes = self.screen.resize(size, self.app.environment().reflows);
        self.terminal.write(&bytes).await?;
        self.event(Event::Resized(size), Due::Now);
        self.pace.changed(Due::Now);
        Ok(())
    }

    /// Takes the replies that are still to come, before another program reads from the terminal.
    async fn take_replies(&mut self) -> io::Result<()> {
        let end = match self.awaits_replies {
            true => self.started + REPLIES,
            false => Instant::now() + REPLIES,
        };
        let mut buffer = vec![0; 1 << 10];
        while self.awaits_replies || self.screen.awaits_row() {
            tokio::select! {
                read = self.terminal.read(&mut buffer) => {
                    // A terminal that is gone replies no more.
                    let Ok(count @ 1..) = read else { return Ok(()) };
                    let inputs = self.decoder.feed(&buffer[..count]);
                    self.take(inputs).await?;
                }
                () = sleep_until(end) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Removes the live region: what was printed stays.
    pub(super) async fn leave(&mut self) {
        // A terminal that is gone needs nothing more.
        let _ = self.settle().await;
        if self.overlay(false).await.is_err() {
            return;
        }
        self.app.close_views();
        let last = Frame { printed: self.app.frame(self.now_ms()).printed, ..Frame::default() };
        let mut bytes = self.screen.draw(&last);
        bytes.extend(self.screen.clear());
        // A terminal that is gone needs nothing more.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.terminal.write(&bytes)).await;
        let _ = self.take_replies().await;
    }
}
