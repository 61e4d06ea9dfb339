//! Measures the cost of a delta on each wire, decoded and translated, and of the translation of a small request. Run
//! in release, on an idle machine.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use wire::{
    Decoder, EncodeContext, Encoder, Event, ResponseContext, Target, Wire, read_request,
    write_request,
};

/// Runs of a measurement; the fastest counts.
const SLICES: usize = 200;
/// Deltas of a run.
const DELTAS: usize = 1000;

fn main() {
    for wire in Wire::ALL {
        let (start, delta) = stream(wire);
        time(&format!("{wire}: a delta decoded"), || {
            let mut decoder = Decoder::new(wire, ResponseContext::default());
            let mut length = 0;
            let mut sink = |event: Event<'_>| {
                if let Event::TextDelta { text, .. } = event {
                    length += text.len();
                }
            };
            start.iter().for_each(|data| decoder.event(data.as_bytes(), &mut sink));
            for _ in 0..DELTAS {
                decoder.event(black_box(delta.as_bytes()), &mut sink);
            }
            assert!(black_box(length) >= DELTAS);
        });
        for to in Wire::ALL {
            time(&format!("{wire} to {to}: a delta translated"), || {
                let mut decoder = Decoder::new(wire, ResponseContext::default());
                let mut encoder = Encoder::new(to, EncodeContext::default());
                let mut out = String::with_capacity(1024);
                for data in
                    start.iter().map(String::as_str).chain(std::iter::repeat_n(delta, DELTAS))
                {
                    out.clear();
                    decoder.event(black_box(data.as_bytes()), &mut |event| {
                        encoder.event(&event, &mut out);
                    });
                }
                assert!(!black_box(&out).is_empty());
            });
        }
    }
    let body = br#"{"model":"m","max_tokens":100,"system":"You are a careful assistant.","tools":[{"name":"read","description":"Reads.","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}}],"messages":[{"role":"user","content":"What is the height of the tower?"}]}"#;
    for to in [Wire::Responses, Wire::Chat, Wire::Gemini] {
        time(&format!("messages to {to}: {} bytes of a request, 1000 times", body.len()), || {
            for _ in 0..DELTAS {
                let (request, _) = read_request(Wire::Messages, "", black_box(body)).unwrap();
                black_box(write_request(to, &request, &Target::default()).unwrap());
            }
        });
    }
}

/// The events before the deltas, and a delta.
fn stream(wire: Wire) -> (Vec<String>, &'static str) {
    match wire {
        Wire::Responses => (
            vec![
                r#"{"type":"response.created","response":{"id":"r","model":"m"}}"#.into(),
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}"#.into(),
            ],
            r#"{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_0123456789abcdef0123456789abcdef","output_index":0,"content_index":0,"delta":" word","logprobs":[],"obfuscation":"aB3dE6"}"#,
        ),
        Wire::Messages => (
            vec![
                r#"{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1}}}"#.into(),
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#.into(),
            ],
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}"#,
        ),
        Wire::Chat => (
            vec![r#"{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#.into()],
            r#"{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-2025-08-07","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}],"obfuscation":"aB3dE6"}"#,
        ),
        Wire::Gemini => (
            Vec::new(),
            r#"{"candidates":[{"content":{"parts":[{"text":" word"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":1,"totalTokenCount":9},"modelVersion":"gemini-3-pro","responseId":"g1"}"#,
        ),
    }
}

fn time(name: &str, mut run: impl FnMut()) {
    let fastest = (0..SLICES).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    let fastest = fastest.min().unwrap_or_default();
    println!("{name}: {:.0} ns each", fastest.as_secs_f64() * 1e9 / DELTAS as f64);
}
