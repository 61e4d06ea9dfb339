//! The connection to the server: its state, and the calls without an answer.

use crate::app::calls::{Calls, OnAnswer};
use crate::link::Tag;

/// First wait before another attempt to connect, in milliseconds. It doubles with each attempt.
const FIRST_WAIT_MS: u64 = 250;
/// Times that it doubles.
const MAX_DOUBLINGS: u32 = 5;

/// The server, as seen from here. `A` takes the answers: the program.
#[derive(Debug)]
pub(super) struct Server<A> {
    connection: Connection,
    /// Its home folder.
    home: String,
    calls: Calls<A>,
}

/// The state of the connection.
#[derive(Debug, PartialEq, Eq)]
enum Connection {
    Opening,
    Open,
    /// Lost; the next attempt is at this time, in milliseconds.
    Lost {
        attempts: u32,
        retry_at: Option<u64>,
    },
}

impl<A: 'static> Server<A> {
    pub(super) fn new() -> Self {
        Self { connection: Connection::Opening, home: String::new(), calls: Calls::default() }
    }

    pub(super) fn is_opening(&self) -> bool {
        self.connection == Connection::Opening
    }

    pub(super) fn is_lost(&self) -> bool {
        matches!(self.connection, Connection::Lost { .. })
    }

    pub(super) fn home(&self) -> &str {
        &self.home
    }

    /// The handshake is complete. Returns whether the connection was lost before.
    pub(super) fn connected(&mut self, home: &str) -> bool {
        home.clone_into(&mut self.home);
        let was_lost = self.is_lost();
        self.connection = Connection::Open;
        was_lost
    }

    /// The connection is lost, and no call gets an answer.
    pub(super) fn drop_calls(&mut self) {
        self.calls.reset();
    }

    /// Plans the next attempt to connect. Returns whether it is the first.
    pub(super) fn retry(&mut self, now: u64) -> bool {
        let attempts = match self.connection {
            Connection::Lost { attempts, .. } => attempts + 1,
            Connection::Opening | Connection::Open => 0,
        };
        let wait = FIRST_WAIT_MS << attempts.min(MAX_DOUBLINGS);
        self.connection = Connection::Lost { attempts, retry_at: Some(now + wait) };
        attempts == 0
    }

    /// When the next attempt is due, in milliseconds.
    pub(super) fn retry_at(&self) -> Option<u64> {
        match self.connection {
            Connection::Lost { retry_at, .. } => retry_at,
            Connection::Opening | Connection::Open => None,
        }
    }

    /// True if an attempt is due; asked again, it is not.
    pub(super) fn takes_retry(&mut self, now: u64) -> bool {
        let is_due = self.retry_at().is_some_and(|at| now >= at);
        if let (true, Connection::Lost { retry_at, .. }) = (is_due, &mut self.connection) {
            *retry_at = None;
        }
        is_due
    }

    pub(super) fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn calls_mut(&mut self) -> &mut Calls<A> {
        &mut self.calls
    }

    /// Removes and returns the function that takes the answer of a call; `None` if the connection was lost since it was sent.
    pub(super) fn answered(&mut self, tag: Tag) -> Option<OnAnswer<A>> {
        self.calls.answered(tag)
    }
}
