//! The load generator: one thread with many connections, each of which sends its next request as
//! soon as it has received a response, or when it is due at a given rate. Runs as a separate process with its own core, and prints its
//! measurements as one line of JSON.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};

use super::message::Response;

/// The load: the requests to send, over how many connections and for how long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    /// The whole request, head and body.
    pub(crate) request: String,
    pub(crate) connections: usize,
    /// Requests per second that are due, whether or not earlier ones are answered; a request counts from when it was
    /// due. Without it, each connection sends the next one after a response.
    pub(crate) offered: Option<f64>,
    /// Time without measurement, then time with it.
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
    /// Measures up to the first byte of the response's body instead of its end.
    pub(crate) to_first_byte: bool,
}

/// The result. Times in microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Responses per second.
    pub(crate) rate: f64,
    pub(crate) median: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
}

/// Without any progress for this time, the measurement fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest response, in bytes. A longer one is an error.
const MOST_ANSWER: usize = 16 << 20;
const MOST_SHOWN: usize = 500;

/// Any response other than a success is an error, because its figures would be meaningless.
pub(crate) fn run(load: &Load) -> Result<Measured> {
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut generator = Generator {
        load,
        poll,
        clients: Vec::with_capacity(load.connections),
        begin: Instant::now(),
        times: Vec::with_capacity(1 << 20),
        idle: VecDeque::new(),
        due: Instant::now(),
        buffer: vec![0; 64 << 10],
        content: Vec::new(),
    };
    for at in 0..load.connections {
        let client = generator.connect(at)?;
        generator.clients.push(client);
    }
    generator.run()
}

struct Generator<'l> {
    load: &'l Load,
    poll: OwnedFd,
    clients: Vec<Client>,
    /// Start of the measurement.
    begin: Instant,
    /// Times of the measured responses, in nanoseconds.
    times: Vec<u64>,
    /// Connections without a request, while the rate is given.
    idle: VecDeque<usize>,
    /// When the next request is due, while the rate is given.
    due: Instant,
    buffer: Vec<u8>,
    content: Vec<u8>,
}

struct Client {
    stream: TcpStream,
    /// When its request was sent, or was to be sent.
    sent_at: Instant,
    is_asking: bool,
    /// Bytes of the request written.
    written: usize,
    input: Vec<u8>,
    reading: Option<Response>,
    first_byte: Option<Instant>,
}

/// Progress of the response.
enum Progress {
    Waiting,
    Answered,
    Closed,
}

impl Generator<'_> {
    fn run(mut self) -> Result<Measured> {
        for at in 0..self.clients.len() {
            self.go_on(at)?;
        }
        self.begin = Instant::now() + self.load.warm_up;
        self.due = Instant::now();
        let end = self.begin + self.load.time;
        let mut events = Vec::with_capacity(1024);
        let mut heard_at = Instant::now();
        while Instant::now() < end {
            self.send_due()?;
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.poll, buffer, Some(&self.wait()?)) {
                Ok(0) if heard_at.elapsed() >= PATIENCE => bail!("no response for {PATIENCE:?}"),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => heard_at = Instant::now(),
                Err(error) => return Err(error).context("waiting for answers"),
            }
            for event in &events {
                let event: &epoll::Event = event;
                self.advance(usize::try_from(event.data.u64())?)?;
            }
        }
        ensure!(!self.times.is_empty(), "no response within {:?}", self.load.time);
        Ok(self.measured())
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        let client = &mut self.clients[at];
        client.write(self.load.request.as_bytes())?;
        match client.read(&mut self.buffer, &mut self.content)? {
            Progress::Waiting => return Ok(()),
            Progress::Answered => {
                let now = Instant::now();
                let answered = self.load.to_first_byte.then_some(client.first_byte).flatten();
                let took = answered.unwrap_or(now) - client.sent_at;
                if client.sent_at >= self.begin || self.load.connections > 1 && now >= self.begin {
                    self.times.push(u64::try_from(took.as_nanos())?);
                }
            }
            // A server may close a connection between two responses.
            Progress::Closed => {
                let is_asking = client.is_asking;
                self.clients[at] = self.connect(at)?;
                if !is_asking && self.load.offered.is_some() {
                    return Ok(());
                }
            }
        }
        self.go_on(at)
    }

    /// Sends the next request of a connection, now or when it is due.
    fn go_on(&mut self, at: usize) -> Result<()> {
        if self.load.offered.is_none() {
            return self.send(at, Instant::now());
        }
        self.clients[at].is_asking = false;
        self.idle.push_back(at);
        Ok(())
    }

    fn send_due(&mut self) -> Result<()> {
        let Some(rate) = self.load.offered else { return Ok(()) };
        while self.due <= Instant::now() {
            let Some(at) = self.idle.pop_front() else { break };
            self.send(at, self.due)?;
            self.due += Duration::from_secs_f64(1.0 / rate);
        }
        Ok(())
    }

    /// The longest wait for events.
    fn wait(&self) -> Result<Timespec> {
        let wait = match self.load.offered {
            Some(_) if !self.idle.is_empty() => self.due.saturating_duration_since(Instant::now()),
            _ => PATIENCE,
        };
        let nanoseconds = wait.subsec_nanos().into();
        Ok(Timespec { tv_sec: i64::try_from(wait.as_secs())?, tv_nsec: nanoseconds })
    }

    fn connect(&self, at: usize) -> Result<Client> {
        let address = self.load.address;
        let stream = TcpStream::connect(address).with_context(|| address.to_string())?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.poll, &stream, EventData::new_u64(at as u64), flags)?;
        Ok(Client {
            stream,
            sent_at: Instant::now(),
            is_asking: false,
            // Nothing is to be written before the first request.
            written: usize::MAX,
            input: Vec::new(),
            reading: None,
            first_byte: None,
        })
    }

    fn send(&mut self, at: usize, sent_at: Instant) -> Result<()> {
        let client = &mut self.clients[at];
        client.is_asking = true;
        client.written = 0;
        client.first_byte = None;
        client.sent_at = sent_at;
        client.write(self.load.request.as_bytes())
    }

    fn measured(mut self) -> Measured {
        self.times.sort_unstable();
        let quantile = |share: f64| {
            // Rounded up: the smallest value that at least this share does not exceed.
            let at = (self.times.len() as f64 * share).ceil() as usize;
            let nanoseconds = self.times.get(at.saturating_sub(1));
            nanoseconds.map_or(f64::NAN, |&nanoseconds| nanoseconds as f64 / 1e3)
        };
        Measured {
            rate: self.times.len() as f64 / self.load.time.as_secs_f64(),
            median: quantile(0.5),
            p99: quantile(0.99),
            longest: quantile(1.0),
        }
    }
}

impl Client {
    fn write(&mut self, request: &[u8]) -> Result<()> {
        while self.written < request.len() {
            match self.stream.write(&request[self.written..]) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A response sent before the close says more than this error.
                Err(error) if is_closed(&error) => return Ok(()),
                Err(error) => return Err(error).context("sending a request"),
            }
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8], content: &mut Vec<u8>) -> Result<Progress> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) if self.reading.is_none() && self.input.is_empty() => {
                    return Ok(Progress::Closed);
                }
                Ok(0) => bail!("the connection was closed within a response"),
                Ok(length) => {
                    self.input.extend_from_slice(&buffer[..length]);
                    if self.take(content)? {
                        return Ok(Progress::Answered);
                    }
                    ensure!(self.input.len() < MOST_ANSWER, "the response is too long");
                    if length < buffer.len() {
                        return Ok(Progress::Waiting);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Progress::Waiting);
                }
                Err(error) if is_closed(&error) => return Ok(Progress::Closed),
                Err(error) => return Err(error).context("reading an answer"),
            }
        }
    }

    /// Returns whether the response in progress is now complete.
    fn take(&mut self, content: &mut Vec<u8>) -> Result<bool> {
        let mut used = 0;
        if self.reading.is_none() {
            let Some((response, length)) = Response::read(&self.input)? else { return Ok(false) };
            self.reading = Some(response);
            used = length;
            content.clear();
        }
        let Some(response) = &mut self.reading else { return Ok(false) };
        let before = content.len();
        used += response.body.take(&self.input[used..], content)?;
        if content.len() > before && self.first_byte.is_none() {
            self.first_byte = Some(Instant::now());
        }
        self.input.drain(..used);
        if response.status != 200 {
            let shown = &content[..content.len().min(MOST_SHOWN)];
            bail!("answered {}: {}", response.status, String::from_utf8_lossy(shown));
        }
        if !response.body.is_done() {
            content.clear();
            return Ok(false);
        }
        self.reading = None;
        Ok(true)
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
