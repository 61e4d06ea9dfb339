//! Load from many WebSocket clients at once, generated and measured by one thread. Either each
//! client keeps a number of requests in flight, or requests are made at set times regardless of the
//! server: then a slow server does not slow its load down, and delays count from when a request was
//! due.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::report::milliseconds;
use super::socket::{Answer, ReadBuffer, Socket, wait};

/// The server's queue is full; retry later.
const OVERLOADED: i64 = -32001;
/// Most bytes waiting for a client whose socket accepts none; requests due beyond it are skipped
/// and counted.
const MOST_READY: u64 = 64 << 10;
/// Longest wait without a response while responses are missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Accepted requests of each client whose ids are kept.
const REMEMBERED: usize = 256;

/// The clients.
pub(crate) struct Load<F> {
    clients: Vec<Client>,
    /// Writes the request of a client with an id.
    request: F,
    began: Instant,
    buffer: ReadBuffer,
    text: Vec<u8>,
    /// Called at intervals during the load.
    pub(crate) watch: Option<Box<dyn FnMut() -> Result<()>>>,
    next_watch: Instant,
}

struct Client {
    socket: Socket,
    /// Requests without a response, or after one without; the id of the first is `first`.
    asked: VecDeque<Asked>,
    first: u64,
    /// Number of `asked` that are known to be written.
    written: usize,
    unanswered: usize,
    /// The last requests that had a result.
    accepted: VecDeque<u64>,
}

/// A request.
struct Asked {
    due: Instant,
    /// Position of its last byte in the client's output.
    end: u64,
    written: Option<Instant>,
    is_answered: bool,
}

/// Result of a load.
#[derive(Default)]
pub(crate) struct Outcome {
    /// From when a request was due to its result.
    pub(crate) accepted: Times,
    /// From when the system accepted a request to its refusal.
    pub(crate) refused: Times,
    /// From when a request was due to when the system accepted it.
    pub(crate) blocked: Times,
    /// From when a request was due to when the generator made it.
    pub(crate) lag: Times,
    /// Requests that were skipped because the client's socket accepted no bytes when they were due.
    pub(crate) left_out: u64,
    pub(crate) took: Duration,
}

/// Times, in microseconds.
#[derive(Default)]
pub(crate) struct Times(Vec<u32>);

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn append(&mut self, mut others: Times) {
        self.0.append(&mut others.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a quantile in milliseconds; 1.0 returns the maximum.
    pub(crate) fn quantile(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        // Rounded up: the smallest value that at least this share does not exceed.
        let at = (self.0.len() as f64 * share).ceil() as usize;
        milliseconds(Duration::from_micros(self.0[at.saturating_sub(1).min(last)].into()))
    }
}

impl<F: FnMut(usize, u64, &mut Vec<u8>)> Load<F> {
    /// Creates a load; `request` writes the request of a client with an id.
    pub(crate) fn over(sockets: Vec<Socket>, request: F) -> Load<F> {
        let client = |mut socket: Socket| Client {
            first: socket.take_id(),
            socket,
            asked: VecDeque::new(),
            written: 0,
            unanswered: 0,
            accepted: VecDeque::new(),
        };
        let clients = sockets.into_iter().map(client).collect();
        let now = Instant::now();
        let (buffer, text) = (ReadBuffer::default(), Vec::new());
        Load { clients, request, began: now, buffer, text, watch: None, next_watch: now }
    }

    /// Ends the load; returns the ids of each client's last requests that had a result.
    pub(crate) fn accepted(self) -> Vec<VecDeque<u64>> {
        self.clients.into_iter().map(|client| client.accepted).collect()
    }

    /// Sends one request from each client.
    pub(crate) fn once(&mut self) -> Result<Outcome> {
        let outcome = self.begin();
        for at in 0..self.clients.len() {
            self.ask(at, self.began);
        }
        self.end(outcome)
    }

    /// Keeps `depth` requests of each client in flight for `time`.
    pub(crate) fn closed(&mut self, depth: usize, time: Duration) -> Result<Outcome> {
        let mut outcome = self.begin();
        while self.began.elapsed() < time {
            let now = Instant::now();
            for at in 0..self.clients.len() {
                while self.clients[at].unanswered < depth {
                    self.ask(at, now);
                }
            }
            self.turn(Duration::from_millis(100), &mut outcome)?;
        }
        self.end(outcome)
    }

    /// Sends `rate` requests per second, from all clients together, for `time`; makes them every
    /// `tick`.
    pub(crate) fn open(&mut self, rate: f64, tick: Duration, time: Duration) -> Result<Outcome> {
        let mut outcome = self.begin();
        let all = (rate * time.as_secs_f64()) as u64;
        let mut made = 0_u64;
        while made < all {
            let now = Instant::now();
            loop {
                let due = self.began + Duration::from_secs_f64(made as f64 / rate);
                if due > now || made == all {
                    break;
                }
                let at = (made % self.clients.len() as u64) as usize;
                made += 1;
                let socket = &self.clients[at].socket;
                if socket.queued_bytes() - socket.written_bytes() > MOST_READY {
                    outcome.left_out += 1;
                    continue;
                }
                outcome.lag.push(now.saturating_duration_since(due));
                self.ask(at, due);
            }
            self.turn(tick, &mut outcome)?;
        }
        self.end(outcome)
    }

    fn begin(&mut self) -> Outcome {
        self.began = Instant::now();
        Outcome::default()
    }

    fn ask(&mut self, at: usize, due: Instant) {
        let client = &mut self.clients[at];
        let id = client.first + client.asked.len() as u64;
        self.text.clear();
        (self.request)(at, id, &mut self.text);
        client.socket.queue(&self.text);
        let end = client.socket.queued_bytes();
        client.asked.push_back(Asked { due, end, written: None, is_answered: false });
        client.unanswered += 1;
    }

    /// Writes, waits for `most` at most, and reads.
    fn turn(&mut self, most: Duration, outcome: &mut Outcome) -> Result<bool> {
        for client in &mut self.clients {
            client.flush(outcome)?;
        }
        wait(self.clients.iter().map(|client| &client.socket), most)?;
        let mut any = false;
        for client in &mut self.clients {
            any |= client.receive(&mut self.buffer, outcome)?;
        }
        if let Some(watch) = &mut self.watch
            && Instant::now() >= self.next_watch
        {
            watch()?;
            self.next_watch = Instant::now() + WATCH_EVERY;
        }
        Ok(any)
    }

    /// Waits for the missing responses.
    fn end(&mut self, mut outcome: Outcome) -> Result<Outcome> {
        outcome.took = self.began.elapsed();
        let mut last = Instant::now();
        while self.clients.iter().any(|client| client.unanswered > 0) {
            if self.turn(Duration::from_millis(100), &mut outcome)? {
                last = Instant::now();
            }
            let missing: usize = self.clients.iter().map(|client| client.unanswered).sum();
            ensure!(last.elapsed() < PATIENCE, "{missing} requests got no response");
        }
        Ok(outcome)
    }
}

/// Interval of the calls to [`Load::watch`].
const WATCH_EVERY: Duration = Duration::from_millis(200);

impl Client {
    fn flush(&mut self, outcome: &mut Outcome) -> Result<()> {
        if self.written == self.asked.len() {
            return Ok(());
        }
        self.socket.flush()?;
        let (written, now) = (self.socket.written_bytes(), Instant::now());
        while let Some(asked) = self.asked.get_mut(self.written)
            && asked.end <= written
        {
            asked.written = Some(now);
            outcome.blocked.push(now.saturating_duration_since(asked.due));
            self.written += 1;
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut ReadBuffer, outcome: &mut Outcome) -> Result<bool> {
        let (mut wrong, mut now) = (None, None);
        let any = self.socket.receive(buffer, |text| {
            let now = *now.get_or_insert_with(Instant::now);
            let Some(Answer { id, error }) = Answer::read(text) else { return };
            let place = id.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
            let asked = place.and_then(|place| self.asked.get_mut(place));
            let Some(asked) = asked.filter(|asked| !asked.is_answered) else {
                wrong = Some(format!("request {id} was answered twice, or never sent"));
                return;
            };
            asked.is_answered = true;
            self.unanswered -= 1;
            match error {
                None => {
                    outcome.accepted.push(now.saturating_duration_since(asked.due));
                    if self.accepted.len() == REMEMBERED {
                        self.accepted.pop_front();
                    }
                    self.accepted.push_back(id);
                }
                Some(OVERLOADED) => {
                    let written = asked.written.unwrap_or(now);
                    outcome.refused.push(now.saturating_duration_since(written));
                }
                Some(_) => wrong = Some(String::from_utf8_lossy(text).into_owned()),
            }
        })?;
        if let Some(wrong) = wrong {
            bail!("unexpected response from the server: {wrong}");
        }
        if let Some(ended) = self.socket.ended() {
            bail!("the server ended a connection: {ended:?}");
        }
        while self.asked.front().is_some_and(|asked| asked.is_answered) && self.written > 0 {
            self.asked.pop_front();
            self.first += 1;
            self.written -= 1;
        }
        Ok(any)
    }
}

/// Connects `count` clients.
pub(crate) fn connect(count: usize, address: SocketAddr, not: &[&str]) -> Result<Vec<Socket>> {
    (0..count).map(|_| Socket::connect(address, not)).collect()
}

/// Reads from a socket until it has ended, for `most` at most.
pub(crate) fn read_to_end(
    socket: &mut Socket,
    most: Duration,
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    let (mut buffer, began) = (ReadBuffer::default(), Instant::now());
    while socket.ended().is_none() && began.elapsed() < most {
        wait(std::iter::once(&*socket), Duration::from_millis(100))?;
        while socket.receive(&mut buffer, &mut each)? {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let mut times = Times::default();
        assert!(times.quantile(0.5).is_nan());
        for milliseconds in (1..=100).rev() {
            times.push(Duration::from_millis(milliseconds));
        }
        for (share, expected) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((times.quantile(share) - expected).abs() < 1e-9, "{share}");
        }
    }
}
