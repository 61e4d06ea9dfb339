//! A WebSocket client for scenarios with many of them: non-blocking sockets, frames written by
//! hand, messages searched instead of parsed as JSON. The client's own cost must stay far below the
//! server's, because they share a machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

/// Longest wait for a response outside of measurements.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// The server's way of ending a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With a close frame.
    Closed { code: u16, words: String },
    /// Without a close frame.
    Gone(String),
}

/// A connected client.
pub(crate) struct Socket {
    stream: TcpStream,
    /// Frames; `out[written..]` is still to be written.
    out: Vec<u8>,
    written: usize,
    /// Total bytes queued, including those written.
    queued_bytes: u64,
    written_bytes: u64,
    /// Total bytes read.
    received_bytes: u64,
    /// The beginning of an incomplete frame.
    input: Vec<u8>,
    ended: Option<Ended>,
    next_id: u64,
}

impl Socket {
    /// Connects and completes the upgrade and the handshake, as a client that opts out of the
    /// notifications in `not`.
    pub(crate) fn connect(address: SocketAddr, not: &[&str]) -> Result<Socket> {
        Socket::over(TcpStream::connect(address).context("connecting to the server")?, not)
    }

    /// See [`Socket::connect`].
    pub(crate) fn over(mut stream: TcpStream, not: &[&str]) -> Result<Socket> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: YWdlbnRkLWJlbmNobWFyaw==\r\n\r\n",
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).context("the response to the upgrade")?;
            head.extend(byte);
        }
        ensure!(
            head.starts_with(b"HTTP/1.1 101 "),
            "the server refused a WebSocket: {}",
            String::from_utf8_lossy(&head).trim()
        );
        stream.set_nonblocking(true)?;
        let mut socket = Socket {
            stream,
            out: Vec::new(),
            written: 0,
            queued_bytes: 0,
            written_bytes: 0,
            received_bytes: 0,
            input: Vec::new(),
            ended: None,
            next_id: 1,
        };
        let params = json!({
            "clientInfo": {"name": "bench", "title": "Benchmark", "version": "1"},
            "capabilities": {"optOutNotificationMethods": not},
        });
        socket.call("initialize", &params)?;
        socket.queue(br#"{"method":"initialized"}"#);
        socket.flush()?;
        Ok(socket)
    }

    /// Returns the id of the next request.
    pub(crate) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Queues a text message.
    pub(crate) fn queue(&mut self, text: &[u8]) {
        self.queue_frame(0x81, text);
    }

    /// Writes queued bytes until the system accepts no more.
    pub(crate) fn flush(&mut self) -> Result<()> {
        while self.written < self.out.len() && self.ended.is_none() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.written_bytes += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A client that is cut off can still read the reason.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error).context("writing to the server"),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Total bytes queued.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Total bytes that the system has accepted.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Total bytes read.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Returns the server's way of ending the connection, if the end was read.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Reads available bytes and passes each text message on; returns whether there were any.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut ReadBuffer,
        mut each: impl FnMut(&[u8]),
    ) -> Result<bool> {
        if self.ended.is_some() {
            return Ok(false);
        }
        let count = match self.stream.read(&mut buffer.0) {
            Ok(0) => {
                self.ended = Some(Ended::Gone("end of the stream".to_owned()));
                return Ok(true);
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => {
                self.ended = Some(Ended::Gone(error.to_string()));
                return Ok(true);
            }
        };
        self.received_bytes += count as u64;
        let read = &buffer.0[..count];
        if self.input.is_empty() {
            let taken = self.take_frames(read, &mut each)?;
            self.input.extend_from_slice(&read[taken..]);
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend_from_slice(read);
            let taken = self.take_frames(&input, &mut each)?;
            input.drain(..taken);
            self.input = input;
        }
        Ok(true)
    }

    /// Calls a method and waits for its result, outside of measurements.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.take_id();
        self.queue(json!({"id": id, "method": method, "params": params}).to_string().as_bytes());
        let (mut buffer, mut answer) = (ReadBuffer::default(), None);
        let deadline = Instant::now() + PATIENCE;
        while answer.is_none() {
            self.flush()?;
            ensure!(Instant::now() < deadline, "waited {PATIENCE:?} for the response to {method}");
            wait(std::iter::once(&*self), Duration::from_secs(1))?;
            self.receive(&mut buffer, |text| {
                if matches!(Answer::read(text), Some(found) if found.id == id) {
                    answer = Some(serde_json::from_slice::<Value>(text));
                }
            })?;
            if let (None, Some(ended)) = (&answer, &self.ended) {
                bail!("the server ended the connection before it answered {method}: {ended:?}");
            }
        }
        let mut answer = answer.context("an answer")??;
        match answer.get("error") {
            Some(error) => bail!("{method} was refused: {error}"),
            None => Ok(answer["result"].take()),
        }
    }

    fn queue_frame(&mut self, first: u8, payload: &[u8]) {
        let before = self.out.len();
        self.out.push(first);
        match u16::try_from(payload.len()) {
            Ok(short @ 0..126) => self.out.push(0x80 | short as u8),
            Ok(medium) => {
                self.out.push(0x80 | 126);
                self.out.extend(medium.to_be_bytes());
            }
            Err(_) => {
                self.out.push(0x80 | 127);
                self.out.extend((payload.len() as u64).to_be_bytes());
            }
        }
        // A zero mask leaves the bytes unchanged, and costs the server the same.
        self.out.extend([0; 4]);
        self.out.extend_from_slice(payload);
        self.queued_bytes += (self.out.len() - before) as u64;
    }

    /// Takes the complete frames at the beginning of `bytes`; returns their length.
    fn take_frames(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Result<usize> {
        let mut taken = 0;
        while let Some((first, payload)) = frame(&bytes[taken..]) {
            let whole = payload.end;
            let payload = &bytes[taken..][payload];
            match first {
                0x81 => each(payload),
                0x88 => self.ended = Some(close(payload)),
                0x89 => {
                    self.queue_frame(0x8A, payload);
                    self.flush()?;
                }
                0x8A => {}
                other => bail!("the server sent a frame that begins with {other:#x}"),
            }
            taken += whole;
        }
        Ok(taken)
    }
}

/// A read buffer that many sockets share, one after the other.
pub(crate) struct ReadBuffer(Vec<u8>);

impl Default for ReadBuffer {
    fn default() -> ReadBuffer {
        ReadBuffer(vec![0; READ_BYTES])
    }
}

/// Waits until a socket is readable, or writable if it has bytes to write.
pub(crate) fn wait<'s>(sockets: impl Iterator<Item = &'s Socket>, most: Duration) -> Result<()> {
    let open = sockets.filter(|socket| socket.ended.is_none());
    let mut polled: Vec<PollFd<'_>> = open
        .map(|socket| {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, socket.written < socket.out.len());
            PollFd::new(&socket.stream, flags)
        })
        .collect();
    let most = Timespec::try_from(most)?;
    match poll(&mut polled, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("waiting for the server"),
    }
}

/// The relevant parts of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    /// The code of its error.
    pub(crate) error: Option<i64>,
}

impl Answer {
    /// Returns `None` for any other message. Relies on the order of members in our server's output.
    pub(crate) fn read(text: &[u8]) -> Option<Answer> {
        let (id, rest) = number(text.strip_prefix(br#"{"id":"#)?)?;
        if rest.starts_with(br#","result":"#) {
            return Some(Answer { id, error: None });
        }
        let rest = rest.strip_prefix(br#","error":{"code":"#)?;
        let (code, _) = number(rest.strip_prefix(b"-").unwrap_or(rest))?;
        let code = i64::try_from(code).ok()?;
        Some(Answer { id, error: Some(if rest[0] == b'-' { -code } else { code }) })
    }
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[..length]
        .iter()
        .fold(0_u64, |value, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    (length > 0).then(|| (value, &text[length..]))
}

/// Returns the first byte of the frame at the beginning of `bytes`, and the range of its payload.
fn frame(bytes: &[u8]) -> Option<(u8, std::ops::Range<usize>)> {
    let (&[first, length], rest) = bytes.split_first_chunk::<2>()?;
    let (begin, length) = match length {
        126 => (4, u64::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (10, u64::from_be_bytes(*rest.first_chunk()?)),
        length => (2, u64::from(length)),
    };
    let end = begin + usize::try_from(length).ok()?;
    (bytes.len() >= end).then_some((first, begin..end))
}

fn close(payload: &[u8]) -> Ended {
    let (code, words) = payload
        .split_first_chunk()
        .map_or((1005, &[][..]), |(code, words)| (u16::from_be_bytes(*code), words));
    Ended::Closed { code, words: String::from_utf8_lossy(words).into_owned() }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn responses_are_distinguished_from_other_messages() {
        let read = |text: &str| Answer::read(text.as_bytes());
        assert_eq!(read(r#"{"id":17,"result":{}}"#), Some(Answer { id: 17, error: None }));
        let refused = r#"{"id":3,"error":{"code":-32001,"message":"busy"}}"#;
        assert_eq!(read(refused), Some(Answer { id: 3, error: Some(-32001) }));
        for other in [r#"{"method":"x","params":{}}"#, r#"{"id":1,"method":"x"}"#, "{\"id\":}", ""]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn frames_are_found_whole() {
        for length in [0, 125, 126, 65535, 65536] {
            let mut bytes = vec![0x81];
            match length {
                0..126 => bytes.push(length as u8),
                126..65536 => {
                    bytes.push(126);
                    bytes.extend((length as u16).to_be_bytes());
                }
                _ => {
                    bytes.push(127);
                    bytes.extend((length as u64).to_be_bytes());
                }
            }
            let begin = bytes.len();
            bytes.resize(begin + length, b'x');
            assert_eq!(frame(&bytes[..bytes.len() - 1]), None, "{length}");
            bytes.push(0x81);
            assert_eq!(frame(&bytes), Some((0x81, begin..begin + length)), "{length}");
        }
    }

    #[test]
    fn a_call_gets_its_response_and_a_close_is_recognised() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut read = vec![0; 4096];
            let _ = stream.read(&mut read).unwrap();
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").unwrap();
            let _ = stream.read(&mut read).unwrap();
            stream.write_all(b"\x81\x14{\"id\":1,\"result\":{}}").unwrap();
            stream.write_all(b"\x88\x06\x03\xf0slow").unwrap();
        });
        let mut socket = Socket::connect(address, &[]).unwrap();
        let error = socket.call("x", &json!({})).unwrap_err().to_string();
        assert!(error.contains("before it answered x"), "{error}");
        assert_eq!(socket.ended(), Some(&Ended::Closed { code: 1008, words: "slow".to_owned() }));
        server.join().unwrap();
    }
}
