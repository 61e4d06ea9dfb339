//! A proxy between a store and PostgreSQL, which cuts connections at a chosen statement and checks
//! that a pool of transactions, such as PgBouncer's, could be between the two.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Where a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before the server gets the statement.
    Before,
    /// After the server has carried it out, before the client gets the answer.
    After,
}

#[derive(Debug, Default)]
struct State {
    /// The part of a statement at which the next connections are cut, and how many.
    cut: Option<(Cut, &'static str, u32)>,
    /// New connections are refused, and open ones are cut at their next statement.
    is_away: bool,
    cuts: u32,
    /// Messages that need a session of their own.
    bound_to_session: Vec<String>,
}

/// A proxy on a port of its own.
#[derive(Clone, Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Starts a proxy to a server on this machine. It runs until the process ends.
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state: Arc<Mutex<State>> = Arc::default();
        let proxy = Self { port, state };
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

    /// The URL of the server's database through the proxy.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Cuts the next connections that send a statement with this part.
    pub fn cut(&self, cut: Cut, part: &'static str, times: u32) {
        self.state.lock().unwrap().cut = Some((cut, part, times));
    }

    /// Makes the server unreachable, or reachable again.
    pub fn set_away(&self, is_away: bool) {
        self.state.lock().unwrap().is_away = is_away;
    }

    /// Number of connections that were cut.
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
        let (proxy, drops) = (self.clone(), Arc::clone(&drops_answer));
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || {
            let mut bytes = vec![0; 1 << 20];
            let mut is_first = true;
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if !is_first {
                    proxy.check(&bytes[..count]);
                }
                is_first = false;
                match proxy.next_cut(&bytes[..count]) {
                    Some(Cut::Before) => break,
                    Some(Cut::After) => *drops.lock().unwrap() = true,
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
                if *drops_answer.lock().unwrap() || to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            close(&from, &to);
        });
    }

    fn next_cut(&self, bytes: &[u8]) -> Option<Cut> {
        let mut state = self.state.lock().unwrap();
        if state.is_away {
            state.cuts += 1;
            return Some(Cut::Before);
        }
        let (cut, part, times) = state.cut?;
        if times == 0 || !contains(bytes, part) {
            return None;
        }
        state.cut = Some((cut, part, times - 1));
        state.cuts += 1;
        Some(cut)
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

/// Either side may have closed its connection already.
fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}
