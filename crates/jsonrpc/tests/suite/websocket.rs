//! Our WebSocket against an independent one, in memory and in both roles; what it holds while
//! nothing is under way; and when a silent peer is given up.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use jsonrpc::websocket::{MessageReader, ReadError, Received, Role, Violation};
use jsonrpc::{CloseReason, Connection, Incoming, Limits, Message};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tungstenite::WebSocket;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Message as Theirs, Role as TheirRole};

/// The longest message of these tests.
const LIMIT: usize = 1 << 20;
/// What a connection may hold that waits.
const IDLE_BYTES: usize = 4 << 10;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A stream that gives `input` and keeps what is written.
#[derive(Debug, Default)]
struct Memory {
    input: Cursor<Vec<u8>>,
    output: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut self.input, buffer)
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut self.output, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives its pieces, one a read, and waits once before each.
struct SplitReader {
    left: VecDeque<Vec<u8>>,
    waited: bool,
}

impl SplitReader {
    /// `bytes`, cut where `cuts` say.
    fn new(bytes: &[u8], cuts: &[usize]) -> Self {
        let mut left = VecDeque::new();
        let (mut rest, mut cuts) = (bytes, cuts.iter().cycle());
        while !rest.is_empty() {
            let length =
                cuts.next().map_or(rest.len(), |cut| cut.clamp(&1, &rest.len()).to_owned());
            let (piece, behind) = rest.split_at(length);
            left.push_back(piece.to_vec());
            rest = behind;
        }
        Self { left, waited: false }
    }
}

impl AsyncRead for SplitReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.waited = !self.waited;
        if self.waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(mut piece) = self.left.pop_front() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.left.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// A received message or control frame, or the failure that ended reading.
#[derive(Clone, Debug, PartialEq)]
enum ReceivedFrame {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<(u16, String)>),
    Failed(Option<Violation>),
}

impl ReceivedFrame {
    fn from_received(received: &Received<'_>) -> Self {
        match received {
            Received::Text(text) => Self::Text(String::from_utf8(text.to_vec()).unwrap()),
            Received::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Received::Ping(payload) => Self::Ping(payload.to_vec()),
            Received::Pong => Self::Pong,
            Received::Close(said) => {
                Self::Close(said.map(|(code, words)| (code, words.to_owned())))
            }
        }
    }
}

/// Everything that our reader makes of `bytes`; what it held at most when it was asked, beyond what
/// it had been given.
fn read_all(bytes: &[u8], cuts: &[usize], early: usize, role: Role) -> (Vec<ReceivedFrame>, usize) {
    let early = early.min(bytes.len());
    let pieces = SplitReader::new(&bytes[early..], cuts);
    let mut reader = MessageReader::new(pieces, role, LIMIT, &bytes[..early]);
    let mut said = Vec::new();
    let ended = runtime().block_on(async {
        loop {
            match reader.next().await {
                Ok(Some(received)) => said.push(ReceivedFrame::from_received(&received)),
                Ok(None) => return None,
                Err(ReadError::Violation(violation)) => return Some(violation),
                Err(ReadError::Io(error)) => panic!("{error}"),
            }
        }
    });
    said.extend(ended.map(|violation| ReceivedFrame::Failed(Some(violation))));
    (said, reader.held_bytes())
}

/// A message, the lengths of its parts, and pings between them.
#[derive(Clone, Debug)]
struct Sent {
    said: ReceivedFrame,
    parts: Vec<usize>,
    ping: Option<Vec<u8>>,
}

fn message() -> impl Strategy<Value = Sent> {
    let long =
        (prop_oneof![0usize..200, 65_000..67_000usize, 120_000..200_000usize], any::<char>())
            .prop_map(|(count, letter)| letter.to_string().repeat(count / letter.len_utf8()));
    let control = prop::collection::vec(any::<u8>(), 0..126);
    let said = prop_oneof![
        4 => ".{0,300}".prop_map(ReceivedFrame::Text),
        2 => long.prop_map(ReceivedFrame::Text),
        1 => prop::collection::vec(any::<u8>(), 0..300).prop_map(ReceivedFrame::Binary),
    ];
    let parts = prop::collection::vec(0usize..2000, 0..6);
    (said, parts, prop::option::of(control)).prop_map(|(said, parts, ping)| Sent {
        said,
        parts,
        ping,
    })
}

/// Writes with the other implementation, and gives what is to come out.
fn write_theirs(messages: &[Sent], role: TheirRole) -> (Vec<u8>, Vec<ReceivedFrame>) {
    let mut theirs = WebSocket::from_raw_socket(Memory::default(), role, None);
    let mut expected = Vec::new();
    let mut write = |frame| theirs.write(Theirs::Frame(frame)).unwrap();
    for Sent { said, parts, ping } in messages {
        let (bytes, kind) = match said {
            ReceivedFrame::Text(text) => (text.as_bytes(), Data::Text),
            ReceivedFrame::Binary(bytes) => (&bytes[..], Data::Binary),
            _ => unreachable!("messages alone are made"),
        };
        let (mut rest, mut kind) = (bytes, OpCode::Data(kind));
        for length in parts {
            let (part, behind) = rest.split_at((*length).min(rest.len()));
            write(Frame::message(part.to_vec(), kind, false));
            (rest, kind) = (behind, OpCode::Data(Data::Continue));
            if let Some(payload) = ping {
                write(Frame::ping(payload.clone()));
                expected.push(ReceivedFrame::Ping(payload.clone()));
            }
        }
        write(Frame::message(rest.to_vec(), kind, true));
        expected.push(said.clone());
        if ping.is_some() {
            write(Frame::pong(&b"unasked"[..]));
            expected.push(ReceivedFrame::Pong);
        }
    }
    let close = CloseFrame { code: 4000.into(), reason: "bye".into() };
    theirs.close(Some(close)).unwrap();
    expected.push(ReceivedFrame::Close(Some((4000, "bye".to_owned()))));
    theirs.flush().unwrap();
    (std::mem::take(&mut theirs.get_mut().output), expected)
}

/// What their end makes of bytes that ours wrote.
fn read_theirs(bytes: Vec<u8>, role: TheirRole) -> Vec<ReceivedFrame> {
    let memory = Memory { input: Cursor::new(bytes), output: Vec::new() };
    let mut theirs = WebSocket::from_raw_socket(memory, role, None);
    let mut said = Vec::new();
    while let Ok(message) = theirs.read() {
        said.push(match message {
            Theirs::Text(text) => ReceivedFrame::Text(text.to_string()),
            Theirs::Binary(bytes) => ReceivedFrame::Binary(bytes.to_vec()),
            Theirs::Ping(payload) => ReceivedFrame::Ping(payload.to_vec()),
            Theirs::Pong(_) => ReceivedFrame::Pong,
            Theirs::Close(frame) => ReceivedFrame::Close(
                frame.map(|frame| (frame.code.into(), frame.reason.to_string())),
            ),
            Theirs::Frame(_) => unreachable!("frames are put together"),
        });
    }
    said
}

/// What a connection of ours writes for `messages` and the end.
fn write_ours(messages: &[String], role: Role, reason: CloseReason) -> Vec<u8> {
    runtime().block_on(async {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let (reader, writer) = tokio::io::split(ours);
        let limits = Limits { outgoing_bytes: usize::MAX, ..Limits::default() };
        let connection = Connection::websocket(reader, writer, role, b"", limits, None);
        for message in messages {
            connection.outbox.push(bytes::Bytes::from(message.clone())).unwrap();
        }
        connection.outbox.close(reason);
        let mut written = Vec::new();
        theirs.read_to_end(&mut written).await.unwrap();
        written
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn frames_of_the_reference_are_decoded(
        messages in prop::collection::vec(message(), 0..6),
        cuts in prop::collection::vec(1usize..5000, 0..8),
        early in 0usize..300,
        is_server: bool,
    ) {
        let (theirs, ours) = match is_server {
            true => (TheirRole::Client, Role::Server),
            false => (TheirRole::Server, Role::Client),
        };
        let (bytes, expected) = write_theirs(&messages, theirs);
        let (found, held) = read_all(&bytes, &cuts, early, ours);
        prop_assert_eq!(found, expected);
        prop_assert!(held <= IDLE_BYTES, "{} bytes are held", held);
    }

    #[test]
    fn our_frames_are_decoded_by_the_reference(
        texts in prop::collection::vec(message(), 0..6), is_server: bool,
    ) {
        let texts: Vec<String> = texts
            .into_iter()
            .filter_map(|sent| match sent.said {
                ReceivedFrame::Text(text) => Some(text),
                _ => None,
            })
            .collect();
        let (ours, theirs) = match is_server {
            true => (Role::Server, TheirRole::Client),
            false => (Role::Client, TheirRole::Server),
        };
        let written = write_ours(&texts, ours, CloseReason::Shutdown);
        let found = read_theirs(written, theirs);
        let mut expected: Vec<ReceivedFrame> = texts.into_iter().map(ReceivedFrame::Text).collect();
        let words = "the program is shutting down".to_owned();
        expected.push(ReceivedFrame::Close(Some((1001, words))));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn invalid_bytes_fail_alike_for_any_split(
        bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), Just(0x81), Just(0x01), Just(0x80), Just(0x00), Just(0x85)],
            0..400,
        ),
        cuts in prop::collection::vec(1usize..40, 1..8),
        is_server: bool,
    ) {
        let role = if is_server { Role::Server } else { Role::Client };
        let at_once = read_all(&bytes, &[], bytes.len(), role).0;
        prop_assert_eq!(read_all(&bytes, &cuts, 0, role).0, at_once);
    }
}

#[test]
fn clients_mask_every_frame_with_a_new_key() {
    let texts: Vec<String> = (0..200).map(|number| format!("{number:0100}")).collect();
    let written = write_ours(&texts, Role::Client, CloseReason::Finished);
    let mut keys = std::collections::HashSet::new();
    let (mut rest, mut frames) = (&written[..], 0);
    while let [_, second, behind @ ..] = rest {
        assert_eq!(second & 0x80, 0x80, "frame {frames} is masked");
        let length = usize::from(second & 0x7f);
        assert!(length < 126);
        keys.insert(behind[..4].to_vec());
        rest = &behind[4 + length..];
        frames += 1;
    }
    assert_eq!(frames, 201, "with the close frame");
    assert!(keys.len() > 190, "{} keys", keys.len());
    assert!(!written.windows(20).any(|part| part == [b'0'; 20]), "nothing stands there in clear");
    let served = write_ours(&texts, Role::Server, CloseReason::Finished);
    assert_eq!(served[1] & 0x80, 0);
}

/// A client's frame, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = announced(first, payload.len());
    out.extend(payload);
    out
}

fn announced(first: u8, length: usize) -> Vec<u8> {
    let mut out = vec![first, 0x80 | 127];
    if first & 0x08 != 0 {
        out[1] = 0x80 | length as u8;
    } else {
        out.extend((length as u64).to_be_bytes());
    }
    out.extend([0; 4]);
    out
}

#[tokio::test]
async fn memory_follows_received_and_not_announced_bytes() {
    const MIB: usize = 1 << 20;
    let (ours, mut theirs) = tokio::io::duplex(MIB);
    let mut reader = MessageReader::new(ours, Role::Server, 16 * MIB, b"");
    assert_eq!(reader.held_bytes(), 0);
    let pending = async |reader: &mut MessageReader<_>| {
        // Everything that was sent is read, and then there is nothing.
        let waited = tokio::time::timeout(Duration::from_millis(20), reader.next()).await;
        assert!(waited.is_err(), "nothing is whole");
    };
    theirs.write_all(&announced(0x81, 16 * MIB)).await.unwrap();
    pending(&mut reader).await;
    assert!(reader.held_bytes() <= IDLE_BYTES, "{} for an announcement", reader.held_bytes());
    theirs.write_all(&[b'x'; 100_000]).await.unwrap();
    pending(&mut reader).await;
    assert!(reader.held_bytes() <= 400_000, "{} for 100,000 bytes", reader.held_bytes());
    let mut rest = 16 * MIB - 100_000;
    let sending = async {
        while rest > 0 {
            let part = rest.min(MIB);
            theirs.write_all(&vec![b'x'; part]).await.unwrap();
            rest -= part;
        }
    };
    let (_, received) = tokio::join!(sending, reader.next());
    assert!(matches!(received, Ok(Some(Received::Text(text))) if text.len() == 16 * MIB));
    theirs.write_all(&frame(0x8A, b"")).await.unwrap();
    assert!(matches!(reader.next().await, Ok(Some(Received::Pong))));
    pending(&mut reader).await;
    assert!(reader.held_bytes() <= IDLE_BYTES, "{} afterwards", reader.held_bytes());
}

/// A connection of a server with `keepalive`, and the client's end of its stream.
fn served(keepalive: Duration) -> (Connection, tokio::io::DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    let limits = Limits { keepalive, ..Limits::default() };
    (Connection::websocket(reader, writer, Role::Server, b"", limits, None), theirs)
}

const KEEPALIVE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_pinged_once_and_then_closed() {
    let (connection, mut theirs) = served(KEEPALIVE);
    let begun = tokio::time::Instant::now();
    assert_eq!(connection.outbox.closed().await, CloseReason::Unresponsive);
    assert_eq!(begun.elapsed(), 2 * KEEPALIVE);
    let mut written = Vec::new();
    theirs.read_to_end(&mut written).await.unwrap();
    let words = "the client is silent and answers no ping".to_owned();
    let expected = [ReceivedFrame::Ping(Vec::new()), ReceivedFrame::Close(Some((1011, words)))];
    assert_eq!(read_theirs(written, TheirRole::Client), expected);
}

#[tokio::test(start_paused = true)]
async fn any_frame_resets_the_keepalive() {
    for (what, said) in [
        ("a pong", frame(0x8A, b"")),
        ("a ping", frame(0x89, b"")),
        ("a message", frame(0x81, b"{}")),
        ("a part of one", frame(0x01, b" ")),
    ] {
        let (connection, mut theirs) = served(KEEPALIVE);
        for number in 0..10 {
            let mut said = said.clone();
            if said[0] == 0x01 && number > 0 {
                said[0] = 0x00;
            }
            // tidy: sleep in paused time.
            tokio::time::sleep(KEEPALIVE * 3 / 2).await;
            theirs.write_all(&said).await.unwrap();
        }
        tokio::task::yield_now().await;
        assert_eq!(connection.outbox.close_reason(), None, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_long_frame_resets_the_keepalive() {
    let (mut connection, mut theirs) = served(KEEPALIVE);
    let text = br#"{"id":1,"method":"m"}"#;
    // Within a frame no pong can be sent.
    for byte in frame(0x81, text) {
        // tidy: sleep in paused time.
        tokio::time::sleep(KEEPALIVE * 2 / 3).await;
        theirs.write_all(&[byte]).await.unwrap();
    }
    let came = connection.incoming.recv().await;
    assert!(matches!(came, Some(Incoming::Message(Message::Request { .. }))), "{came:?}");
    assert_eq!(connection.outbox.closed().await, CloseReason::Unresponsive);
}

#[tokio::test(start_paused = true)]
async fn the_last_sixty_four_of_a_flood_of_pings_are_answered() {
    const PINGS: u16 = 1000;
    let (reader, mut sending) = tokio::io::duplex(1 << 20);
    let (writer, mut receiving) = tokio::io::duplex(1);
    let limits = Limits { stall: Some(100 * KEEPALIVE), ..Limits::default() };
    let connection = Connection::websocket(reader, writer, Role::Server, b"", limits, None);
    let pings: Vec<u8> = (0..PINGS).flat_map(|number| frame(0x89, &number.to_be_bytes())).collect();
    sending.write_all(&pings).await.unwrap();
    // Long before anybody reads an answer.
    // tidy: sleep in paused time.
    tokio::time::sleep(KEEPALIVE / 2).await;
    connection.outbox.close(CloseReason::Finished);
    let mut written = Vec::new();
    receiving.read_to_end(&mut written).await.unwrap();
    let pongs: Vec<u16> = written
        .chunks(4)
        .take_while(|pong| pong[0] == 0x8A)
        .map(|pong| u16::from_be_bytes([pong[2], pong[3]]))
        .collect();
    // The first ones may have been on their way when the others came.
    assert!((64..=128).contains(&pongs.len()), "{} answers", pongs.len());
    let last: Vec<u16> = (PINGS - 64..PINGS).collect();
    assert_eq!(pongs[pongs.len() - 64..], last);
}
