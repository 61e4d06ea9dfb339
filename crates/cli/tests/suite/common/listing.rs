//! A model server that only lists its models, to those that have its key.

use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

/// The key that it accepts.
pub(crate) const KEY: &str = "key-of-the-server";

/// Starts one. Returns its address, `http://127.0.0.1:PORT/v1`.
pub(crate) fn start(models: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that is gone needs no answer.
            std::thread::spawn(move || drop(serve(&stream, models)));
        }
    });
    url
}

/// An address where nothing listens.
pub(crate) fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

fn serve(mut stream: &TcpStream, models: &[&str]) -> Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut target, mut has_key) = (String::new(), false);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            if target.is_empty() {
                line.clone_into(&mut target);
            }
            has_key |= line.eq_ignore_ascii_case(&format!("authorization: bearer {KEY}"));
            if line.is_empty() {
                break;
            }
        }
        let data: Vec<_> = models.iter().map(|id| json!({"id": id, "object": "model"})).collect();
        let (status, body) = match (target.starts_with("GET /v1/models "), has_key) {
            (true, true) => ("200 OK", json!({"object": "list", "data": data})),
            (true, false) => ("401 Unauthorized", json!({"error": {"message": "wrong key"}})),
            (false, _) => ("404 Not Found", json!({"error": {"message": "no such page"}})),
        };
        let (body, kind) = (body.to_string(), "content-type: application/json");
        let length = body.len();
        write!(stream, "HTTP/1.1 {status}\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}")?;
    }
}
