//! A client over TCP or a Unix socket, with an independent WebSocket implementation.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use tungstenite::protocol::{Message, Role};
use tungstenite::{Error, WebSocket};

use super::PATIENCE;

pub(crate) trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// A connection after its handshake.
pub(crate) struct Socket {
    web: WebSocket<Box<dyn Stream>>,
}

/// Reads the head of an HTTP response; returns its status and text.
pub(crate) fn head(stream: &mut impl Read) -> io::Result<(u16, String)> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.expect("a status line"), text))
}

/// Returns a client's opening handshake, with this bearer token if given.
pub(crate) fn handshake(host: &str, bearer: Option<&str>) -> String {
    let bearer = bearer.map(|token| format!("Authorization: Bearer {token}\r\n"));
    format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n",
        bearer.unwrap_or_default()
    )
}

/// Returns the status of a GET over TCP.
pub(crate) fn get(address: &str, path: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    head(&mut stream).unwrap().0
}

impl Socket {
    /// Connects over TCP; returns the HTTP status if refused.
    ///
    /// # Errors
    /// I/O errors of the stream.
    pub(crate) fn tcp(address: &str, bearer: Option<&str>) -> io::Result<Result<Self, u16>> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Self::over(stream, address, bearer)
    }

    /// Connects over a Unix socket.
    ///
    /// # Errors
    /// I/O errors of the stream.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self::over(stream, "localhost", None)?.expect("who is of the same user is let in"))
    }

    fn over(
        mut stream: impl Stream + 'static,
        host: &str,
        bearer: Option<&str>,
    ) -> io::Result<Result<Self, u16>> {
        stream.write_all(handshake(host, bearer).as_bytes())?;
        let (status, _) = head(&mut stream)?;
        if status != 101 {
            return Ok(Err(status));
        }
        let stream: Box<dyn Stream> = Box::new(stream);
        Ok(Ok(Self { web: WebSocket::from_raw_socket(stream, Role::Client, None) }))
    }

    /// Completes the protocol's handshake.
    pub(crate) fn initialize(&mut self) {
        let answer =
            self.call(0, "initialize", json!({"clientInfo": {"name": "test", "version": "1"}}));
        assert!(answer.get("result").is_some(), "{answer}");
        self.send(&json!({"method": "initialized"}));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.web.send(Message::text(message.to_string())).unwrap();
    }

    /// Returns the next message that `wanted` accepts; skips others.
    pub(crate) fn message(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Message::Text(text) = self.web.read().expect("the message comes") {
                let message = serde_json::from_str(&text).expect("each message is JSON");
                if wanted(&message) {
                    return message;
                }
            }
        }
    }

    pub(crate) fn notification(&mut self, method: &str) -> Value {
        self.message(|message| message["method"] == method)["params"].clone()
    }

    /// Calls a method and returns the whole response.
    pub(crate) fn call(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.send(&json!({"id": id, "method": method, "params": params}));
        self.message(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Starts a thread with a scripted model and returns its id.
    pub(crate) fn thread(&mut self, model: &str) -> String {
        let answer =
            self.call(1, "thread/start", json!({"modelProvider": "offline", "model": model}));
        answer["result"]["thread"]["id"].as_str().expect("a thread has an id").to_owned()
    }

    /// Reads to the end; returns the messages, and code and reason of the close frame.
    pub(crate) fn rest(&mut self) -> (Vec<Value>, Option<(u16, String)>) {
        let mut messages = Vec::new();
        loop {
            match self.web.read() {
                Ok(Message::Text(text)) => messages.push(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(frame)) => {
                    let said = frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                    return (messages, said);
                }
                Ok(_) => {}
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    panic!("the server says nothing more")
                }
                Err(_) => return (messages, None),
            }
        }
    }
}
