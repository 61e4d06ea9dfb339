//! A model server for chats, plain and streamed, that counts how often it was asked each question.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Micro-dollars of an answer, at 1.25 and 10 dollars for a million tokens: 3.75 and 50, rounded up.
pub(crate) const COST: u64 = 54;
/// Events of a stream, which takes half a second with the pauses between them.
const EVENTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);

pub(crate) struct Models {
    /// `http://127.0.0.1:PORT/v1`.
    pub(crate) url: String,
    asked: Arc<Mutex<HashMap<String, usize>>>,
}

impl Models {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<HashMap<String, usize>>>::default();
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                let asked = Arc::clone(&counted);
                // The gateway closes connections at its end.
                std::thread::spawn(move || drop(serve(stream, &asked)));
            }
        });
        Self { url, asked }
    }

    /// How often each question was asked.
    pub(crate) fn asked(&self) -> HashMap<String, usize> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, asked: &Mutex<HashMap<String, usize>>) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    writer.set_nodelay(true)?;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body)?;
        let question = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        *asked.lock().unwrap().entry(question).or_default() += 1;
        match body["stream"] == true {
            true => stream_answer(&mut writer)?,
            false => {
                let choice = json!({"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "hello"}});
                let answer = with(json!({"choices": [choice], "usage": usage()}));
                let length = answer.len();
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
                writer.write_all(format!("{head} {length}\r\n\r\n{answer}").as_bytes())?;
            }
        }
    }
}

fn stream_answer(writer: &mut TcpStream) -> Result<()> {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes())?;
    let mut event = |data: &str| {
        let text = format!("data: {data}\n\n");
        writer.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    };
    for number in 0..EVENTS {
        event(&with(
            json!({"choices": [{"index": 0, "delta": {"content": format!("{number} ")}}]}),
        ))?;
        std::thread::sleep(PAUSE); // tidy: sleep because a stream takes time
    }
    event(&with(json!({"choices": [], "usage": usage()})))?;
    event("[DONE]")?;
    writer.write_all(b"0\r\n\r\n")
}

fn usage() -> Value {
    json!({"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8})
}

/// An object of the API with these members.
fn with(mut members: Value) -> String {
    members["id"] = "chatcmpl-1".into();
    members["object"] = "chat.completion".into();
    members["created"] = 1.into();
    members["model"] = "big".into();
    members.to_string()
}
