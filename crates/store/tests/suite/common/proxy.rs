//! A proxy between a store and PostgreSQL, which cuts, freezes or delays connections at a chosen
//! statement, and checks that a pool of transactions, such as PgBouncer's, could be between the two.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use tokio::sync::Notify;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before the server gets the statement.
    Before,
    /// After the server has carried it out, before the client gets the answer.
    After,
}

/// A fault at a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut(Cut),
    /// The client loses its connection, and the server gets the statement later.
    Delay,
    /// Both connections stay open, and nothing passes any more.
    Freeze,
}

#[derive(Debug, Default)]
struct State {
    /// The parts of statements at which the next connections are cut, and how many.
    cut: Vec<(Cut, &'static str, u32)>,
    /// The server is unreachable from the next cut on.
    leaves: bool,
    /// New connections are refused, and open ones are cut at their next statement.
    is_away: bool,
    cuts: u32,
    /// The part of a statement at which the next connections freeze, and how many.
    freeze: Option<(&'static str, u32)>,
    /// New connections are frozen from the start.
    is_frozen: bool,
    /// Whether each connection is frozen.
    connections: Vec<Arc<AtomicBool>>,
    /// Parts of the statement that is delayed, and of the one that ends the delay.
    delay: Option<(&'static str, &'static str)>,
    is_delaying: bool,
    /// A part of a statement, and how often it was sent.
    watched: Option<(&'static str, u32)>,
    /// Messages that need a session of their own.
    bound_to_session: Vec<String>,
}

/// A proxy on a port of its own.
#[derive(Clone, Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
    delay_ends: Arc<Condvar>,
    statement_came: Arc<Notify>,
}

impl Proxy {
    /// Starts a proxy to a server on this machine. It runs until the process ends.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (state, delay_ends, statement_came) = Default::default();
        let proxy = Self { port, state, delay_ends, statement_came };
        let accepting = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state.lock().unwrap().is_away {
                    continue;
                }
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) {
                    accepting.connect(client, server);
                }
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the server's database through the proxy.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Cuts the next connections that send a statement with this part.
    pub fn cut(&self, cut: Cut, part: &'static str, times: u32) {
        self.state.lock().unwrap().cut = vec![(cut, part, times)];
    }

    /// Also cuts the next connections that send a statement with another part.
    pub fn also_cut(&self, cut: Cut, part: &'static str, times: u32) {
        self.state.lock().unwrap().cut.push((cut, part, times));
    }

    /// Cuts the next connection that sends a statement with this part, and makes the server
    /// unreachable.
    pub fn cut_and_leave(&self, cut: Cut, part: &'static str) {
        let mut state = self.state.lock().unwrap();
        (state.cut, state.leaves) = (vec![(cut, part, 1)], true);
    }

    /// Makes the server unreachable, or reachable again.
    pub fn set_away(&self, is_away: bool) {
        let mut state = self.state.lock().unwrap();
        (state.is_away, state.leaves) = (is_away, false);
    }

    /// Lets nothing pass on open connections any more; new ones work. So it is after a failover
    /// from a server that lost its power.
    pub fn freeze(&self) {
        for connection in &self.state.lock().unwrap().connections {
            connection.store(true, Ordering::SeqCst);
        }
    }

    /// Lets nothing pass at all any more.
    pub fn freeze_all(&self) {
        self.state.lock().unwrap().is_frozen = true;
        self.freeze();
    }

    /// Freezes the next connections that send a statement with this part.
    pub fn freeze_at(&self, part: &'static str, times: u32) {
        self.state.lock().unwrap().freeze = Some((part, times));
    }

    /// Closes the client's side of the next connection that sends a statement with this part. The
    /// server gets the statement when another one with the part `until` was sent.
    pub fn delay(&self, part: &'static str, until: &'static str) {
        self.state.lock().unwrap().delay = Some((part, until));
    }

    /// Counts statements with this part from now on.
    pub fn watch(&self, part: &'static str) {
        self.state.lock().unwrap().watched = Some((part, 0));
    }

    /// Number of statements with the watched part.
    pub fn seen(&self) -> u32 {
        self.state.lock().unwrap().watched.map_or(0, |(_, times)| times)
    }

    /// Waits until more than `times` statements with the watched part were sent.
    pub async fn wait_for_more_than(&self, times: u32) {
        self.wait_until(|| self.seen() > times).await;
    }

    /// Waits until a connection was cut, delayed or frozen at a statement.
    pub async fn wait_for_a_cut(&self) {
        self.wait_until(|| self.cuts() > 0).await;
    }

    async fn wait_until(&self, is_so: impl Fn() -> bool) {
        loop {
            let next = self.statement_came.notified();
            if is_so() {
                return;
            }
            next.await;
        }
    }

    /// Number of connections that were cut, delayed or frozen at a statement.
    pub fn cuts(&self) -> u32 {
        self.state.lock().unwrap().cuts
    }

    /// Messages that were sent and need a session of their own.
    pub fn bound_to_session(&self) -> Vec<String> {
        self.state.lock().unwrap().bound_to_session.clone()
    }

    fn connect(&self, client: TcpStream, server: TcpStream) {
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let drops_answer = Arc::new(Mutex::new(false));
        let is_frozen = {
            let mut state = self.state.lock().unwrap();
            let is_frozen = Arc::new(AtomicBool::new(state.is_frozen));
            state.connections.push(Arc::clone(&is_frozen));
            is_frozen
        };
        let (proxy, drops, freezes) =
            (self.clone(), Arc::clone(&drops_answer), Arc::clone(&is_frozen));
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || {
            let mut bytes = vec![0; 1 << 20];
            let mut is_first = true;
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if !is_first {
                    proxy.check(&bytes[..count]);
                }
                is_first = false;
                stay_if(&freezes);
                let fault = proxy.next_fault(&bytes[..count]);
                proxy.statement_came.notify_waiters();
                match fault {
                    Some(Fault::Cut(Cut::Before)) => break,
                    Some(Fault::Cut(Cut::After)) => *drops.lock().unwrap() = true,
                    Some(Fault::Freeze) => {
                        freezes.store(true, Ordering::SeqCst);
                        stay_if(&freezes);
                    }
                    Some(Fault::Delay) => {
                        let _ = from.shutdown(Shutdown::Both);
                        proxy.wait_for_end_of_delay();
                        to.write_all(&bytes[..count]).unwrap();
                        // The answer ends the other direction, and with it the connection.
                        return;
                    }
                    None => {}
                }
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            close(&from, &to);
        });
        let (mut from, mut to) = (server, client);
        thread::spawn(move || {
            let mut bytes = vec![0; 1 << 20];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                stay_if(&is_frozen);
                if *drops_answer.lock().unwrap() || to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            stay_if(&is_frozen);
            close(&from, &to);
        });
    }

    fn next_fault(&self, bytes: &[u8]) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        if let Some((part, times)) = &mut state.watched
            && contains(bytes, part)
        {
            *times += 1;
        }
        if let Some((_, until)) = state.delay
            && state.is_delaying
            && contains(bytes, until)
        {
            (state.delay, state.is_delaying) = (None, false);
            self.delay_ends.notify_all();
        }
        if state.is_away {
            state.cuts += 1;
            return Some(Fault::Cut(Cut::Before));
        }
        if let Some((part, times @ 1..)) = state.freeze
            && contains(bytes, part)
        {
            state.freeze = Some((part, times - 1));
            state.cuts += 1;
            return Some(Fault::Freeze);
        }
        if let Some((part, _)) = state.delay
            && !state.is_delaying
            && contains(bytes, part)
        {
            state.is_delaying = true;
            state.cuts += 1;
            return Some(Fault::Delay);
        }
        let mut rules = state.cut.iter_mut();
        let (cut, _, times) = rules.find(|(_, part, times)| *times > 0 && contains(bytes, part))?;
        *times -= 1;
        let cut = *cut;
        state.cuts += 1;
        state.is_away |= state.leaves;
        Some(Fault::Cut(cut))
    }

    fn wait_for_end_of_delay(&self) {
        let state = self.state.lock().unwrap();
        drop(self.delay_ends.wait_while(state, |state| state.is_delaying).unwrap());
    }

    /// Notes statements that have a name, and settings that outlive their transaction.
    fn check(&self, mut bytes: &[u8]) {
        while let [kind, a, b, c, d, rest @ ..] = bytes {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let Some(body) = length.checked_sub(4).and_then(|length| rest.get(..length)) else {
                return;
            };
            let text = String::from_utf8_lossy(body).into_owned();
            let is_named = *kind == b'P' && body.first() != Some(&0);
            let is_setting = matches!(*kind, b'Q' | b'P')
                && (text
                    .replace("SET LOCAL", "")
                    .split(';')
                    .any(|one| one.trim_matches(['\0', ' ']).starts_with("SET "))
                    || text.contains("LISTEN")
                    || text.contains("pg_advisory_lock"));
            if is_named || is_setting {
                self.state.lock().unwrap().bound_to_session.push(text);
            }
            bytes = &rest[length - 4..];
        }
    }
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

/// Ends with the process on a frozen connection.
fn stay_if(is_frozen: &AtomicBool) {
    while is_frozen.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Either side may have closed its connection already.
fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
