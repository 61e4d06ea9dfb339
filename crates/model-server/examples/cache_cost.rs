//! Prints what the prompt cache of Messages saves in a thread of fifty turns, as the scripted model counts it, with marks
//! and without: `cargo run -p model-server --example cache_cost`.
#![allow(clippy::print_stdout)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use model::{
    CacheHints, CacheMarks, Client, Event, KeySource, Prompt, Provider, Secret, Usage, Wire,
};
use model_server::script::Script;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const TURNS: usize = 50;

/// The requests that the server logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The share of the bytes of requests that repeat the request before, but for marks of the cache.
    fn repeated(&self) -> Result<f64, serde_json::Error> {
        #[derive(Deserialize)]
        struct Line<'l> {
            #[serde(borrow)]
            body: &'l RawValue,
        }
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut before, mut repeated, mut all) = (String::new(), 0, 0);
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let body = serde_json::from_slice::<Line<'_>>(line)?.body.get();
            let body = body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
            if !before.is_empty() {
                repeated += body.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
                all += body.len();
            }
            before = body;
        }
        Ok(repeated as f64 / all as f64)
    }
}

fn item(role: &str, kind: &str, text: &str) -> Arc<str> {
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
        .to_string()
        .into()
}

/// Runs the thread. Returns the tokens of its responses, and which share of the requests repeats the one before.
async fn run(wire: Wire, marks: CacheMarks) -> Result<(Usage, f64), Box<dyn std::error::Error>> {
    let response =
        json!({ "steps": [{ "message": "This part is like the others, and needs no change." }] });
    let script = json!({ "responses": [response], "on_exhausted": "repeat_last" });
    let script = Script::parse("the example", &script.to_string())?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    let log = Log::default();
    let written = Box::new(log.clone());
    tokio::spawn(model_server::serve(listener, script, Some(written), std::future::pending()));
    let api_key = KeySource::Value(Secret::new("none"));
    let base_url = if wire == Wire::Chat { format!("{address}/v1") } else { address };
    let provider =
        Provider { wire, api_key, cache_marks: Some(marks), ..Provider::http("example", base_url) };
    let (client, provider) = (Client::new(), Arc::new(provider));
    let model = match wire {
        Wire::Messages => "claude-sonnet-5",
        Wire::Gemini => "gemini-3-pro",
        Wire::Responses | Wire::Chat => "some-model",
    };
    let mut prompt = Prompt {
        model: model.into(),
        instructions: "You look at lists, part by part, and say what is there. ".repeat(200).into(),
        cache: CacheHints::default(),
        ..Prompt::default()
    };
    let mut sum = Usage::default();
    for turn in 0..TURNS {
        let text = format!("Part {turn}: {}", "one more line of the list, ".repeat(40));
        prompt.input.push(item("user", "input_text", &text));
        let mut stream = client.stream_prompt(&provider, &prompt);
        while let Some(batch) = stream.next().await {
            for event in batch {
                match event {
                    Event::ItemDone { raw, .. } => prompt.input.push(raw),
                    Event::Completed { usage, .. } => {
                        sum.input += usage.input;
                        sum.cached_input += usage.cached_input;
                        sum.cache_write += usage.cache_write;
                        sum.cache_write_1h += usage.cache_write_1h;
                    }
                    Event::Failed(failure) => return Err(failure.message.into()),
                    _ => {}
                }
            }
        }
    }
    Ok((sum, log.repeated()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for wire in [Wire::Responses, Wire::Messages, Wire::Chat, Wire::Gemini] {
        let (_, share) = run(wire, CacheMarks::Short).await?;
        println!("{wire}: {:.1} % of the bytes of a request repeat the one before", share * 100.0);
    }
    for (name, marks) in [
        ("without marks", CacheMarks::None),
        ("5 minutes", CacheMarks::Short),
        ("1 hour", CacheMarks::Long),
    ] {
        let (usage, _) = run(Wire::Messages, marks).await?;
        let fresh = usage.input - usage.cached_input - usage.cache_write;
        let short = usage.cache_write - usage.cache_write_1h;
        // Prices relative to other input.
        let cost = fresh as f64
            + 1.25 * short as f64
            + 2.0 * usage.cache_write_1h as f64
            + 0.1 * usage.cached_input as f64;
        let line: Value = json!({ "input": usage.input, "read": usage.cached_input, "written": usage.cache_write });
        println!("Messages, {name}: {line}, as {cost:.0} tokens of other input");
    }
    Ok(())
}
