//! The order of a thread's events, and the recent ones, for clients that reconnect
//! (docs/reconnecting.md).
//!
//! Every event has a *position*. A delta takes as many positions as its text has bytes, any other
//! event takes one. So deltas can be joined, and a client that saw the first half of the joined text
//! is sent the second. Events that a later one supersedes are dropped: the deltas of an item when it
//! is final, an older status when there is a newer one.
//!
//! `handlers/thread/reconnect.rs` answers a client that comes back with the events that it missed,
//! or with a snapshot of the turns. The log begins when the first client asks for cursors.

use std::collections::VecDeque;

use bytes::Bytes;
use jsonrpc::Outgoing;
use protocol::{MessageInfo, Retention};
use session::Id;

use services::thread_port::{EventPosition, ReplayGap};

/// Bounds of the log, in bytes and in events. At a bound the oldest event is dropped; clients that
/// have not seen it get a snapshot.
const KEPT_BYTES: usize = 1024 * 1024;
const KEPT_EVENTS: usize = 2048;
/// The member of a message that holds its cursor.
const MEMBER: &str = "eventCursor";

/// The turn and the item that an event is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventSubject<'a> {
    pub turn: Option<&'a Id>,
    pub item: Option<(&'a Id, ItemPhase)>,
}

/// The phase of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemPhase {
    Started,
    Going,
    Completed,
}

/// The log of a thread's events.
pub(crate) struct EventLog {
    /// Unique to this log: positions of different logs cannot be compared.
    epoch: String,
    /// The position after the last event.
    end: u64,
    /// Every event from this position on is kept.
    floor: u64,
    entries: VecDeque<LoggedEvent>,
    bytes: usize,
    /// The newest turn.
    turn: Option<Id>,
    /// Items that are not final, with their turns, oldest first.
    open: Vec<(Id, Id)>,
}

struct LoggedEvent {
    start: u64,
    end: u64,
    info: &'static MessageInfo,
    item: Option<Id>,
    /// The turn that the event is about, if any.
    of_turn: Option<Id>,
    message: LoggedMessage,
    /// The first turn of a snapshot for a client that saw this event last.
    turn: Option<Id>,
}

enum LoggedMessage {
    Whole(Bytes),
    Delta { head: Bytes, text: Vec<u8>, tail: Bytes },
}

/// The events that a client has missed, in order, or why they cannot be sent again.
pub(crate) type Replay = Result<Vec<(&'static MessageInfo, Outgoing)>, ReplayGap>;

impl EventLog {
    /// An empty log; `turn` is the thread's newest turn, `open` its items that are not final.
    pub(crate) fn new(epoch: String, turn: Option<Id>, open: Vec<(Id, Id)>) -> Self {
        let (entries, bytes) = (VecDeque::new(), 0);
        Self { epoch, end: 0, floor: 0, entries, bytes, turn, open }
    }

    /// The cursor after the newest event.
    pub(crate) fn cursor(&self) -> String {
        cursor_at(&self.epoch, self.end, self.first_open_turn())
    }

    /// Appends an event and returns it with its cursor.
    pub(crate) fn add(
        &mut self,
        info: &'static MessageInfo,
        message: &Outgoing,
        subject: EventSubject<'_>,
    ) -> Outgoing {
        self.follow(subject);
        let size = match message {
            Outgoing::Whole(_) => 1,
            Outgoing::Delta { text, .. } => text.len() as u64,
        };
        let start = self.end;
        self.end += size;
        self.keep(start, info, message, subject);
        with_cursor(message, &self.cursor())
    }

    /// A message in the place of the newest event.
    pub(crate) fn with_cursor(&self, message: &Outgoing) -> Outgoing {
        with_cursor(message, &self.cursor())
    }

    /// Drops all events: clients that reconnect get a snapshot.
    pub(crate) fn cut(&mut self) {
        self.end += 1;
        self.floor = self.end;
        self.entries.clear();
        self.bytes = 0;
        self.turn = None;
    }

    /// The events after `position`, in order.
    pub(crate) fn since(&self, position: &EventPosition) -> Replay {
        if position.epoch != self.epoch {
            return Err(ReplayGap::Reloaded);
        }
        if position.position < self.floor || position.position > self.end {
            return Err(ReplayGap::TooOld);
        }
        let missed = self.entries.iter().filter(|entry| entry.end > position.position);
        let send = |entry: &LoggedEvent| {
            let seen = position.position.saturating_sub(entry.start) as usize;
            let rest = entry.rest(seen).ok_or(ReplayGap::TooOld)?;
            let at = cursor_at(&self.epoch, entry.end, entry.turn.as_ref());
            Ok((entry.info, with_cursor(&rest, &at)))
        };
        missed.map(send).collect()
    }

    /// The first turn that a client may miss events of when it disconnects now. A background command
    /// may still change an item of a turn that has ended.
    fn first_open_turn(&self) -> Option<&Id> {
        self.open.first().map(|(_, turn)| turn).or(self.turn.as_ref())
    }

    fn follow(&mut self, subject: EventSubject<'_>) {
        if let Some(turn) = subject.turn
            && self.turn.as_ref() != Some(turn)
            && subject.item.is_none()
        {
            self.turn = Some(turn.clone());
        }
        match (subject.item, subject.turn) {
            (Some((item, ItemPhase::Started)), Some(turn)) => {
                self.open.push((item.clone(), turn.clone()));
            }
            (Some((item, ItemPhase::Completed)), _) => {
                self.open.retain(|(open, _)| open != item);
                // The final item contains everything that its deltas did.
                self.forget(|entry| {
                    entry.item.as_ref() == Some(item)
                        && matches!(entry.message, LoggedMessage::Delta { .. })
                });
            }
            _ => {}
        }
    }

    fn keep(
        &mut self,
        start: u64,
        info: &'static MessageInfo,
        message: &Outgoing,
        subject: EventSubject<'_>,
    ) {
        let (end, turn) = (self.end, self.first_open_turn().cloned());
        let message = match message {
            Outgoing::Whole(message) => LoggedMessage::Whole(message.clone()),
            Outgoing::Delta { text, .. } if text.is_empty() => return,
            Outgoing::Delta { head, text, tail } => {
                if let Some(last) = self.entries.back_mut()
                    && last.extend(head, text)
                {
                    (last.end, last.turn) = (end, turn);
                    self.bytes += text.len();
                    return self.bound();
                }
                LoggedMessage::Delta { head: head.clone(), text: text.to_vec(), tail: tail.clone() }
            }
        };
        if info.retention == Retention::Newest {
            self.forget(|entry| {
                entry.info.name == info.name && entry.of_turn.as_ref() == subject.turn
            });
        }
        let item = subject.item.map(|(item, _)| item.clone());
        let of_turn = subject.turn.cloned();
        let entry = LoggedEvent { start, end, info, item, of_turn, message, turn };
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        self.bound();
    }

    fn forget(&mut self, is_pointless: impl Fn(&LoggedEvent) -> bool) {
        let bytes = &mut self.bytes;
        self.entries.retain(|entry| {
            let goes = is_pointless(entry);
            if goes {
                *bytes -= entry.bytes();
            }
            !goes
        });
    }

    fn bound(&mut self) {
        while self.bytes > KEPT_BYTES || self.entries.len() > KEPT_EVENTS {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= oldest.bytes();
            self.floor = oldest.end;
        }
    }
}

/// Memory of an event besides its text.
const ENTRY_BYTES: usize = size_of::<LoggedEvent>();

impl LoggedEvent {
    fn bytes(&self) -> usize {
        ENTRY_BYTES
            + match &self.message {
                LoggedMessage::Whole(message) => message.len(),
                LoggedMessage::Delta { head, text, .. } => head.len() + text.len(),
            }
    }

    /// Appends a delta of the same stream; returns `false` for one of another stream.
    fn extend(&mut self, new_head: &Bytes, new_text: &Bytes) -> bool {
        let LoggedMessage::Delta { head, text, .. } = &mut self.message else { return false };
        // A stream has one frame, so its head is at one address.
        let same = head.as_ptr() == new_head.as_ptr() && head.len() == new_head.len();
        if same {
            text.extend_from_slice(new_text);
        }
        same
    }

    /// The message without its first `seen` positions; `None` when they end inside a character.
    fn rest(&self, seen: usize) -> Option<Outgoing> {
        match &self.message {
            LoggedMessage::Whole(message) => Some(Outgoing::Whole(message.clone())),
            LoggedMessage::Delta { head, text, tail } => {
                let rest = text.get(seen..)?;
                is_between_characters(text, seen).then(|| Outgoing::Delta {
                    head: head.clone(),
                    text: Bytes::copy_from_slice(rest),
                    tail: tail.clone(),
                })
            }
        }
    }
}

/// Returns whether the content of a JSON string can be cut at `at`: not inside a character or an
/// escape.
fn is_between_characters(text: &[u8], at: usize) -> bool {
    let mut from = 0;
    while from < at {
        from += match (text[from], text.get(from + 1)) {
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            (0x00..0x80, _) => 1,
            (0x80..0xE0, _) => 2,
            (0xE0..0xF0, _) => 3,
            _ => 4,
        };
    }
    from == at
}

fn cursor_at(epoch: &str, position: u64, turn: Option<&Id>) -> String {
    format!("{epoch}.{position}.{}", turn.map_or("", |turn| &**turn))
}

/// The message with its cursor, as a member next to `method` and `params`. A cursor needs no escaping:
/// it consists of ids and digits.
fn with_cursor(message: &Outgoing, cursor: &str) -> Outgoing {
    let append = |bytes: &Bytes| {
        let open = bytes.strip_suffix(b"}").unwrap_or(bytes);
        let mut longer = Vec::with_capacity(open.len() + MEMBER.len() + cursor.len() + 7);
        longer.extend_from_slice(open);
        for part in [",\"", MEMBER, "\":\"", cursor, "\"}"] {
            longer.extend_from_slice(part.as_bytes());
        }
        Bytes::from(longer)
    };
    match message {
        Outgoing::Whole(message) => Outgoing::Whole(append(message)),
        Outgoing::Delta { head, text, tail } => {
            Outgoing::Delta { head: head.clone(), text: text.clone(), tail: append(tail) }
        }
    }
}

#[cfg(test)]
#[path = "event_log_tests.rs"]
mod tests;
