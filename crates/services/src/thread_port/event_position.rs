//! Positions in the event log of a thread, as clients and handlers name them (docs/reconnecting.md).

/// A position in a log, as a client got it in a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPosition {
    /// Unique to the log: positions of different logs cannot be compared.
    pub epoch: String,
    pub position: u64,
    /// The first turn that a client at this position may have missed events of.
    pub turn: Option<String>,
}

impl EventPosition {
    /// Parses a cursor of the thread's event log.
    pub fn read(cursor: &str) -> Option<Self> {
        let mut parts = cursor.splitn(3, '.');
        let (epoch, position, turn) = (parts.next()?, parts.next()?, parts.next()?);
        let position = position.parse().ok()?;
        let turn = (!turn.is_empty()).then(|| turn.to_owned());
        Some(Self { epoch: epoch.to_owned(), position, turn })
    }
}

/// Why events cannot be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayGap {
    /// The position is of another log: the thread was unloaded since, or the server restarted.
    Reloaded,
    /// Events since the position were dropped, or turns were rolled back.
    TooOld,
}
