//! The signals of the process, as events.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal.
pub(super) enum Caught {
    Resized,
    Stop,
    Continue,
    End(u8),
}

/// The signals that the program takes.
pub(super) struct Signals {
    resized: Signal,
    stop: Signal,
    continued: Signal,
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        let stop = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        let continued = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        Ok(Self {
            resized: signal(SignalKind::window_change())?,
            stop: signal(stop)?,
            continued: signal(continued)?,
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) -> Caught {
        tokio::select! {
            _ = self.resized.recv() => Caught::Resized,
            _ = self.stop.recv() => Caught::Stop,
            _ = self.continued.recv() => Caught::Continue,
            _ = self.hangup.recv() => Caught::End(129),
            _ = self.terminate.recv() => Caught::End(143),
            _ = self.interrupt.recv() => Caught::End(130),
        }
    }
}
