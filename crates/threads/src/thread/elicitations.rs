//! Prompts to the user that pause a turn: those that are open outside the server, as clients count them
//! (`thread/increment_elicitation`), and questions of MCP servers that the turn waits for. While there is
//! one, the clock of the thread and of its agents stands still (`pausable_clock`).

use std::collections::BTreeMap;

use tokio::sync::watch;

use services::error::Error;
use services::peer::ConnectionId;
use services::thread_port::ElicitationChange;

/// Prompts that one connection may count.
const MAX_PROMPTS: u64 = 1_000;

/// The prompts to the user that pause a turn.
pub(crate) struct Elicitations {
    /// By connection, none of them zero.
    open: BTreeMap<ConnectionId, u64>,
    /// A turn waits for the answer to a question of an MCP server.
    is_asking: bool,
    paused: watch::Sender<bool>,
}

impl Elicitations {
    pub(crate) fn new() -> Self {
        Self { open: BTreeMap::new(), is_asking: false, paused: watch::Sender::new(false) }
    }

    /// Returns a receiver of whether a prompt is open.
    pub(crate) fn paused(&self) -> watch::Receiver<bool> {
        self.paused.subscribe()
    }

    /// Changes the count for a connection, and returns the count of all connections.
    ///
    /// # Errors
    /// The connection counts no prompt, or too many.
    pub(super) fn change(
        &mut self,
        connection: ConnectionId,
        change: ElicitationChange,
    ) -> Result<u64, Error> {
        let own = self.open.get(&connection).copied().unwrap_or(0);
        let own = match change {
            ElicitationChange::Increment if own >= MAX_PROMPTS => {
                return Err(Error::wrong_state(format!(
                    "this connection counts {MAX_PROMPTS} open prompts already"
                ))
                .next_step("decrement the count when a prompt closes"));
            }
            ElicitationChange::Increment => own + 1,
            ElicitationChange::Decrement if own == 0 => {
                return Err(Error::wrong_state(format!(
                    "this connection counts no open prompt; other connections count {}",
                    self.count()
                ))
                .next_step("decrement on the connection that incremented"));
            }
            ElicitationChange::Decrement => own - 1,
        };
        match own {
            0 => drop(self.open.remove(&connection)),
            own => drop(self.open.insert(connection, own)),
        }
        self.publish();
        Ok(self.count())
    }

    /// Sets whether a turn waits for the answer to a question of an MCP server.
    pub(super) fn set_asking(&mut self, is_asking: bool) {
        self.is_asking = is_asking;
        self.publish();
    }

    /// A connection has ended: its prompts count no longer.
    pub(super) fn disconnected(&mut self, connection: ConnectionId) {
        self.open.remove(&connection);
        self.publish();
    }

    fn count(&self) -> u64 {
        self.open.values().sum()
    }

    fn publish(&self) {
        let is_paused = self.is_asking || !self.open.is_empty();
        self.paused.send_if_modified(|paused| std::mem::replace(paused, is_paused) != is_paused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use services::thread_port::ElicitationChange::{Decrement, Increment};

    #[test]
    fn each_connection_takes_back_its_own_increments() {
        let mut elicitations = Elicitations::new();
        let paused = elicitations.paused();
        for (connection, change, expected) in [
            (1, Decrement, None),
            (1, Increment, Some(1)),
            (2, Increment, Some(2)),
            (2, Increment, Some(3)),
            (1, Decrement, Some(2)),
            (1, Decrement, None),
        ] {
            let count = elicitations.change(connection, change);
            assert_eq!(count.as_ref().ok(), expected.as_ref(), "{count:?}");
            assert_eq!(*paused.borrow(), elicitations.count() > 0);
        }
        elicitations.disconnected(1);
        assert!(*paused.borrow());
        elicitations.set_asking(true);
        elicitations.disconnected(2);
        assert!(*paused.borrow(), "a server still waits for its answer");
        elicitations.set_asking(false);
        assert!(!*paused.borrow());
        for _ in 0..MAX_PROMPTS {
            elicitations.change(3, Increment).unwrap();
        }
        assert!(elicitations.change(3, Increment).is_err());
    }
}
