//! Measures the cost of reading a body: a scan of requests, and an event of a stream. Run in
//! release, on an idle machine.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use gateway_body::{Edits, EventFilter, Kind, Reader, scan};
use serde_json::{Value, json};

/// Runs per measurement.
const SLICES: usize = 500;

fn main() {
    let small = json!({"model": "big", "stream": true, "max_tokens": 200, "messages": [
        {"role": "system", "content": "You are a careful assistant. Answer in one sentence."},
        {"role": "user", "content": "What is the height of the tower?\nGive it in metres, please."}],
        "temperature": 0.2, "user": "u-1"});
    let tool = json!({"type": "function", "name": "read_file", "description": "Reads one file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"},
            "from": {"type": "integer"}, "to": {"type": "integer"}}, "required": ["path"]}});
    let line = "    let value = items.iter().map(|item| item.total()).sum::<u64>(); // \"sum\"\n";
    let conversation = |text: &str| {
        let item = json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
        json!({"model": "big", "tools": vec![tool.clone(); 20], "input": vec![item; 8]})
    };
    let name = |body: &Value| format!("{} bytes", body.to_string().len());
    requests(&format!("small chat, {}", name(&small)), Kind::Chat, &small);
    let large = conversation(&line.repeat(68));
    requests(&format!("conversation, {}", name(&large)), Kind::Responses, &large);
    let large = conversation(&"Ein Wort über die Größe. ".repeat(210));
    requests(&format!("conversation beyond ASCII, {}", name(&large)), Kind::Responses, &large);
    events();
}

fn requests(name: &str, kind: Kind, body: &Value) {
    let body = Bytes::from(body.to_string());
    let rounds = 1_000_000 / (body.len() + 2000);
    time(name, "a scan", rounds, || drop(black_box(scan(black_box(&body), kind).unwrap())));
    time(name, "a scan and three edits", rounds, || {
        let scanned = scan(black_box(&body), kind).unwrap();
        let mut edits = Edits::new();
        edits.set_text(scanned.model.unwrap(), "big-2026-08-01");
        edits.set_prompt_cache_retention(&scanned, "24h");
        edits.include_usage(&scanned);
        drop(black_box(edits.apply(&body)));
    });
}

fn events() {
    let response = |at: usize| {
        format!(
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
             \"sequence_number\":{at},\"item_id\":\"msg_0123456789abcdef0123456789abcdef\",\
             \"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[],\
             \"obfuscation\":\"aB3dE6\"}}\n\n"
        )
    };
    let chat = |_: usize| {
        "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\
         \"created\":1700000000,\"model\":\"big\",\"choices\":[{\"index\":0,\"delta\":\
         {\"content\":\" word\"},\"finish_reason\":null}],\"usage\":null}\n\n"
            .to_owned()
    };
    const COUNT: usize = 500;
    let responses: String = (0..COUNT).map(response).collect();
    let chats: String = (0..COUNT).map(chat).collect();
    for (name, stream) in [("responses delta", responses), ("chat delta", chats)] {
        let stream = Bytes::from(stream);
        let each = stream.len() / COUNT;
        for piece in [16 << 10, each] {
            let name = format!("{name}, {each} bytes, in pieces of {piece}");
            let pieces: Vec<Bytes> = (0..stream.len())
                .step_by(piece)
                .map(|at| stream.slice(at..stream.len().min(at + piece)))
                .collect();
            time_many(&name, "watched", 1, COUNT, || {
                let mut reader = Reader::events();
                pieces.iter().for_each(|piece| reader.feed(piece));
                drop(black_box(reader.finish()));
            });
            time_many(&name, "filtered", 1, COUNT, || {
                let (mut filter, mut out) = (EventFilter::new(true, None), Vec::new());
                for piece in &pieces {
                    filter.feed(piece.clone(), &mut out);
                    black_box(&out);
                    out.clear();
                }
                drop(black_box(filter.finish(&mut out)));
            });
        }
    }
}

fn time(name: &str, what: &str, rounds: usize, run: impl FnMut()) {
    time_many(name, what, rounds, 1, run);
}

/// The fastest of many short runs, so that other load on the machine has little influence.
fn time_many(name: &str, what: &str, rounds: usize, each: usize, mut run: impl FnMut()) {
    let best = (0..SLICES).map(|_| {
        let begin = Instant::now();
        (0..rounds).for_each(|_| run());
        begin.elapsed()
    });
    let best = best.min().unwrap();
    println!("{name}: {} ns {what}", best.as_nanos() as usize / rounds / each);
}
