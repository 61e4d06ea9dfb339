//! The upstream of everything under test: one thread that responds to chats and responses, whole or
//! streamed, after a fixed time. Runs as a separate process with its own core.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde::{Deserialize, Serialize};

use super::answers::Answers;
use super::message::Request;

/// Timing of its responses.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pace {
    /// From the end of a request to the response, or to the first chunk of a stream.
    pub(crate) delay_us: u64,
    /// Between two chunks of a stream.
    pub(crate) piece_us: u64,
}

/// Most concurrent connections; more are closed.
const MOST_CONNECTIONS: usize = 16_384;
/// Longest request, in bytes; the connection of a longer one is closed.
const MOST_REQUEST: usize = 16 << 20;

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// Serves until the process is killed. Prints `listening on http://ADDRESS` first.
pub(crate) fn serve(pace: Pace) -> Result<()> {
    let upstream = Upstream::bind(pace)?;
    println!("listening on http://{}", upstream.listener.local_addr()?);
    upstream.run()
}

struct Upstream {
    pace: Pace,
    answers: Answers,
    poll: OwnedFd,
    listener: TcpListener,
    timer: OwnedFd,
    /// When the timer fires.
    armed: Option<Instant>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// When which connection has a chunk to send; the last number distinguishes it from earlier
    /// connections in the same slot.
    due: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    serial: u64,
    input: Vec<u8>,
    reading: Option<Request>,
    content: Vec<u8>,
    /// Remaining chunks of the response, the next one last.
    pieces: Vec<&'static [u8]>,
    output: Vec<u8>,
}

impl Upstream {
    fn bind(pace: Pace) -> Result<Upstream> {
        let listener = TcpListener::bind("127.0.0.1:0").context("a port for the upstream")?;
        // Many connections arrive at once, and the standard library's backlog is short.
        rustix::net::listen(&listener, 4096)?;
        listener.set_nonblocking(true)?;
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        epoll::add(&poll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Upstream {
            pace,
            answers: Answers::new(),
            poll,
            listener,
            timer,
            armed: None,
            connections: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            buffer: vec![0; 64 << 10],
        })
    }

    fn run(mut self) -> Result<()> {
        let mut events = Vec::with_capacity(1024);
        loop {
            events.clear();
            match epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for requests"),
            }
            for event in &events {
                let event: &epoll::Event = event;
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    TIMER => self.armed = None,
                    at => self.serve_one(usize::try_from(at)?),
                }
            }
            self.send_due();
            self.arm()?;
        }
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("accepting a connection"),
            };
            if self.connections.len() - self.free.len() >= MOST_CONNECTIONS {
                continue;
            }
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let at = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.poll, &stream, EventData::new_u64(at as u64), flags)?;
            self.connections[at] = Some(Connection::new(stream));
        }
    }

    /// Reads the available bytes and handles the request; closes the connection on its end or on an
    /// error.
    fn serve_one(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at).and_then(Option::as_mut) else {
            return;
        };
        let goes_on =
            connection.flush().is_ok() && connection.fill(&mut self.buffer).unwrap_or(false);
        let goes_on = goes_on && connection.take_up(&self.answers).is_ok();
        if !goes_on {
            self.connections[at] = None;
            self.free.push(at);
            return;
        }
        if let Some(serial) = connection.begun() {
            let delay = Duration::from_micros(self.pace.delay_us);
            self.due.push(Reverse((Instant::now() + delay, at, serial)));
        }
    }

    fn send_due(&mut self) {
        let mut now = Instant::now();
        while let Some(Reverse((due, at, serial))) = self.due.peek().copied() {
            if due > now {
                now = Instant::now();
                if due > now {
                    return;
                }
            }
            self.due.pop();
            let Some(connection) = self.connections[at].as_mut() else { continue };
            if connection.serial != serial {
                continue;
            }
            let Some(piece) = connection.pieces.pop() else { continue };
            if connection.send(piece).is_err() {
                self.connections[at] = None;
                self.free.push(at);
            } else if connection.pieces.is_empty() {
                connection.serial = 0;
                // The next request may already be in the buffer.
                self.serve_one(at);
            } else {
                let next = due + Duration::from_micros(self.pace.piece_us);
                self.due.push(Reverse((next, at, serial)));
            }
        }
    }

    fn arm(&mut self) -> Result<()> {
        let Some(Reverse((due, ..))) = self.due.peek() else { return Ok(()) };
        if self.armed.is_some_and(|armed| armed <= *due) {
            return Ok(());
        }
        // A time of zero would disarm the timer.
        let wait = due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(wait.as_secs())?,
            tv_nsec: wait.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        self.armed = Some(*due);
        Ok(())
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            serial: 0,
            input: Vec::new(),
            reading: None,
            content: Vec::new(),
            pieces: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Reads all available bytes; `false` when the client has closed.
    fn fill(&mut self, buffer: &mut [u8]) -> std::io::Result<bool> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.input.extend_from_slice(&buffer[..length]);
                    if self.input.len() > MOST_REQUEST {
                        return Ok(false);
                    }
                    // A short read means that no more is available; the end has its own event.
                    if length < buffer.len() {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// Handles a complete request, unless a response is still in progress.
    fn take_up(&mut self, answers: &Answers) -> Result<()> {
        if !self.pieces.is_empty() || self.input.is_empty() {
            return Ok(());
        }
        let mut used = 0;
        if self.reading.is_none() {
            let Some((request, length)) = Request::read(&self.input)? else { return Ok(()) };
            self.reading = Some(request);
            used = length;
        }
        let Some(request) = &mut self.reading else { return Ok(()) };
        used += request.body.take(&self.input[used..], &mut self.content)?;
        self.input.drain(..used);
        if request.body.is_done() {
            self.pieces.extend(answers.pieces(&request.path, &self.content).iter().rev());
            self.reading = None;
            self.content.clear();
        }
        Ok(())
    }

    /// Assigns a serial number to a response that has just started; `None` if none has.
    fn begun(&mut self) -> Option<u64> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.pieces.is_empty() || self.serial != 0 {
            return None;
        }
        self.serial = NEXT.fetch_add(1, Ordering::Relaxed);
        Some(self.serial)
    }

    fn send(&mut self, piece: &[u8]) -> std::io::Result<()> {
        if self.output.is_empty() {
            let sent = match self.stream.write(piece) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.output.extend_from_slice(&piece[sent..]);
            return Ok(());
        }
        self.output.extend_from_slice(piece);
        self.flush()
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gateway::admin::{exchange, request};
    use crate::bench::gateway::load::{self, Load};

    fn started(pace: Pace) -> std::net::SocketAddr {
        let upstream = Upstream::bind(pace).unwrap();
        let address = upstream.listener.local_addr().unwrap();
        // Runs for as long as the tests.
        std::thread::spawn(move || upstream.run());
        address
    }

    #[test]
    fn the_load_includes_the_upstream_latency() {
        let address = started(Pace { delay_us: 3000, piece_us: 1000 });
        for (path, body, to_first_byte, least) in [
            ("/v1/chat/completions", "{}", false, 3000.0),
            ("/v1/responses", r#"{"stream":true}"#, true, 3000.0),
            // Six more chunks follow the first.
            ("/v1/chat/completions", r#"{"stream":true}"#, false, 9000.0),
        ] {
            let load = Load {
                address,
                request: request(path, address, Some("key"), body),
                connections: 3,
                offered: None,
                warm_up: Duration::ZERO,
                time: Duration::from_millis(200),
                to_first_byte,
            };
            let measured = load::run(&load).unwrap();
            assert!(measured.median >= least && measured.p99 <= measured.longest, "{measured:?}");
            assert!(measured.rate > 0.0 && measured.rate <= 3e6 / least, "{measured:?}");
        }
    }

    #[test]
    fn an_offered_rate_is_not_exceeded_and_late_answers_count_from_when_they_were_due() {
        let address = started(Pace { delay_us: 50_000, piece_us: 1000 });
        let load = Load {
            address,
            request: request("/v1/chat/completions", address, Some("key"), "{}"),
            connections: 4,
            offered: Some(100.0),
            warm_up: Duration::ZERO,
            time: Duration::from_millis(500),
            to_first_byte: false,
        };
        let measured = load::run(&load).unwrap();
        // Four connections carry at most 80 a second.
        assert!(measured.rate > 0.0 && measured.rate <= 80.0, "{measured:?}");
        // The last of half a second waits for a connection.
        assert!(measured.longest > 60_000.0, "{measured:?}");
        let load = Load { offered: Some(20.0), ..load };
        let measured = load::run(&load).unwrap();
        assert!(measured.rate > 0.0 && measured.rate <= 22.0, "{measured:?}");
    }

    #[test]
    fn a_bad_answer_ends_the_load() {
        let address = started(Pace { delay_us: 0, piece_us: 0 });
        let request = request("/v1/other", address, None, "{}");
        let (status, body) = exchange(address, &request).unwrap();
        assert_eq!(status, 404, "{}", String::from_utf8_lossy(&body));
        let (connections, to_first_byte) = (1, false);
        let (warm_up, time) = (Duration::ZERO, Duration::from_secs(10));
        let load =
            Load { address, request, connections, offered: None, warm_up, time, to_first_byte };
        let error = load::run(&load).unwrap_err().to_string();
        assert!(error.contains("answered 404: ") && error.contains("no such path"), "{error}");
    }
}
