//! Reads messages from a stream of frames. Memory grows with the bytes received, not with the
//! announced length, and none is held between messages.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::ingress::{Charge, Ingress};
use crate::websocket::frame::{self, Header, Opcode};
use crate::websocket::{Role, Violation};

/// A received message or control frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A complete text message, valid UTF-8.
    Text(&'a [u8]),
    /// A complete binary message.
    Binary(&'a [u8]),
    /// A ping; the pong carries the same payload.
    Ping(&'a [u8]),
    /// A pong.
    Pong,
    /// The peer closes the connection, with code and reason if it sent them.
    Close(Option<(u16, &'a str)>),
}

/// Why reading ended.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer violated a rule.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// Reads messages of at most `limit` bytes.
pub struct MessageReader<R> {
    reader: R,
    role: Role,
    limit: usize,
    /// Bytes read and not yet taken: `buffer[start..]`.
    buffer: Vec<u8>,
    start: usize,
    frame: Option<Frame>,
    /// The message that arrives in pieces.
    message: Option<Message>,
    /// The payload of a control frame that arrives in pieces.
    control: Vec<u8>,
    /// Position in the buffer of the message returned last, if it arrived in one piece.
    whole: Option<Range<usize>>,
    /// Total number of bytes read.
    arrived: u64,
    ingress: Option<Arc<Ingress>>,
}

/// The frame in progress.
struct Frame {
    header: Header,
    /// Bytes of its payload already taken.
    taken: u64,
}

struct Message {
    is_text: bool,
    bytes: Vec<u8>,
    /// Length of the prefix that is known to be UTF-8.
    checked: usize,
    /// Its charges to the server's budget.
    charges: Vec<Charge>,
    /// It was complete and returned; the next call drops it.
    is_given: bool,
}

/// Most bytes of one read.
const READ_BYTES: usize = 32 << 10;
/// Most capacity of an empty buffer.
const RETAINED_BYTES: usize = 2 << 10;
/// An incomplete message is charged to the server's budget in steps of this many bytes. The first
/// step is free.
const FREE_BYTES: usize = 64 << 10;

enum Step {
    NeedsMore,
    Again,
    /// A message in one piece, in the buffer.
    Whole {
        is_text: bool,
        payload: Range<usize>,
    },
    /// A message in `message`.
    Joined,
    Control(Opcode),
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// Creates a reader for our side `role`; `early` are the bytes already read from the stream.
    pub fn new(reader: R, role: Role, limit: usize, early: &[u8]) -> Self {
        Self {
            reader,
            role,
            limit,
            buffer: early.to_vec(),
            start: 0,
            frame: None,
            message: None,
            control: Vec::new(),
            whole: None,
            arrived: 0,
            ingress: None,
        }
    }

    /// Charges long messages that are not whole yet to `ingress`.
    pub(crate) fn charged_to(mut self, ingress: Option<Arc<Ingress>>) -> Self {
        self.ingress = ingress;
        self
    }

    /// Returns the next message or control frame; `None` when the stream ends. Cancel safe: no byte
    /// is lost.
    ///
    /// # Errors
    /// An error of the stream, or a violation by the peer; both are final.
    pub async fn next(&mut self) -> Result<Option<Received<'_>>, ReadError> {
        self.whole = None;
        self.message.take_if(|message| message.is_given);
        let found = loop {
            match self.step()? {
                Step::NeedsMore => {
                    if self.fill().await? == 0 {
                        return Ok(None);
                    }
                }
                Step::Again => {}
                found => break found,
            }
        };
        Ok(Some(match found {
            Step::Whole { is_text, payload } => {
                self.whole = Some(payload.clone());
                received(is_text, &self.buffer[payload])
            }
            Step::Control(Opcode::Ping) => Received::Ping(&self.control),
            Step::Control(Opcode::Pong) => Received::Pong,
            Step::Control(_) => Received::Close(frame::read_close(&self.control)?),
            _ => match &mut self.message {
                Some(message) => {
                    message.is_given = true;
                    received(message.is_text, &message.bytes)
                }
                None => received(true, &[]),
            },
        }))
    }

    /// Drops the message that [`MessageReader::next`] returned last, and its charges to the
    /// server's budget.
    pub(crate) fn let_go(&mut self) {
        self.whole = None;
        self.message.take_if(|message| message.is_given);
    }

    /// The message that [`MessageReader::next`] returned last; empty if it returned something else.
    pub(crate) fn taken(&self) -> &[u8] {
        match (&self.whole, &self.message) {
            (Some(range), _) => &self.buffer[range.clone()],
            (None, Some(message)) if message.is_given => &message.bytes,
            _ => &[],
        }
    }

    /// Reads and discards until the stream ends. First drops an incomplete message and its charges
    /// to the server's budget.
    pub(crate) async fn drain(&mut self) -> io::Result<()> {
        (self.message, self.control) = (None, Vec::new());
        loop {
            (self.buffer, self.start) = (Vec::new(), 0);
            if self.fill().await? == 0 {
                return Ok(());
            }
        }
    }

    /// Total number of bytes read, including incomplete messages.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Memory in use, in bytes.
    pub fn held_bytes(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |message| message.bytes.capacity());
        self.buffer.capacity() + self.control.capacity() + message
    }

    fn step(&mut self) -> Result<Step, Violation> {
        let Some(Frame { header, taken }) = &mut self.frame else { return self.step_header() };
        let waiting = self.buffer.len() - self.start;
        let rest = usize::try_from(header.length - *taken).unwrap_or(usize::MAX);
        let part = self.start..self.start + rest.min(waiting);
        if part.len() < rest && (part.is_empty() || header.opcode.is_control()) {
            return Ok(Step::NeedsMore);
        }
        self.start = part.end;
        if let Some(key) = header.mask {
            frame::mask(&mut self.buffer[part.clone()], key, *taken);
        }
        let is_first_part = *taken == 0;
        *taken += part.len() as u64;
        let (header, at_end) = (*header, part.len() == rest);
        if at_end {
            self.frame = None;
        }
        if header.opcode.is_control() {
            self.control.clear();
            self.control.extend_from_slice(&self.buffer[part]);
            return Ok(Step::Control(header.opcode));
        }
        if at_end && is_first_part && header.is_final && header.opcode != Opcode::Continuation {
            return self.whole(header.opcode == Opcode::Text, part);
        }
        self.append(header.opcode, part)?;
        Ok(if at_end && header.is_final { self.joined()? } else { Step::Again })
    }

    fn step_header(&mut self) -> Result<Step, Violation> {
        let Some((header, length)) = Header::read(&self.buffer[self.start..])? else {
            return Ok(Step::NeedsMore);
        };
        match (self.role, header.mask) {
            (Role::Server, None) => {
                return Err(Violation::Protocol("a frame of the client is not masked"));
            }
            (Role::Client, Some(_)) => {
                return Err(Violation::Protocol("a frame of the server is masked"));
            }
            _ => {}
        }
        match (header.opcode, &self.message) {
            (Opcode::Continuation, None) => {
                return Err(Violation::Protocol("there is no message to continue"));
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(Violation::Protocol("a message begins within another one"));
            }
            _ => {}
        }
        if !header.opcode.is_control() {
            let before = self.message.as_ref().map_or(0, |message| message.bytes.len());
            let all = (before as u64).saturating_add(header.length);
            if all > self.limit as u64 {
                return Err(Violation::TooLong { limit: self.limit });
            }
        }
        self.start += length;
        self.frame = Some(Frame { header, taken: 0 });
        Ok(Step::Again)
    }

    fn whole(&self, is_text: bool, payload: Range<usize>) -> Result<Step, Violation> {
        if is_text && std::str::from_utf8(&self.buffer[payload.clone()]).is_err() {
            return Err(Violation::NotUtf8);
        }
        Ok(Step::Whole { is_text, payload })
    }

    fn append(&mut self, opcode: Opcode, part: Range<usize>) -> Result<(), Violation> {
        let message = self.message.get_or_insert_with(|| Message {
            is_text: opcode == Opcode::Text,
            bytes: Vec::new(),
            checked: 0,
            charges: Vec::new(),
            is_given: false,
        });
        message.bytes.extend_from_slice(&self.buffer[part]);
        if let Some(ingress) = &self.ingress {
            while message.bytes.len() > FREE_BYTES * (1 + message.charges.len()) {
                let charge = ingress.charge_bytes(FREE_BYTES).ok_or(Violation::Overloaded)?;
                message.charges.push(charge);
            }
        }
        if !message.is_text {
            return Ok(());
        }
        match std::str::from_utf8(&message.bytes[message.checked..]) {
            Ok(text) => message.checked += text.len(),
            Err(error) if error.error_len().is_none() => message.checked += error.valid_up_to(),
            Err(_) => return Err(Violation::NotUtf8),
        }
        Ok(())
    }

    fn joined(&self) -> Result<Step, Violation> {
        let cut = |message: &Message| message.is_text && message.checked < message.bytes.len();
        if self.message.as_ref().is_some_and(cut) {
            return Err(Violation::NotUtf8);
        }
        Ok(Step::Joined)
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > RETAINED_BYTES {
            self.buffer = Vec::new();
        }
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // On the stack, so that an idle connection holds no buffer.
        let mut room = [MaybeUninit::uninit(); READ_BYTES];
        let mut read = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut self.reader).poll_read(cx, &mut read))?;
        self.buffer.extend_from_slice(read.filled());
        self.arrived += read.filled().len() as u64;
        Poll::Ready(Ok(read.filled().len()))
    }
}

fn received(is_text: bool, payload: &[u8]) -> Received<'_> {
    if is_text { Received::Text(payload) } else { Received::Binary(payload) }
}
