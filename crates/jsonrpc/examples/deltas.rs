//! Measures what a streamed delta costs from `push` to the write on standard output, and what a
//! request costs to decode. Run it in release, piped: `deltas 1000000 64 | cat > /dev/null`; the
//! second number is how many deltas are pushed before the writer gets its turn.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::time::Instant;

use jsonrpc::{CloseReason, Connection, DeltaFrame, Limits, decode};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse().unwrap());
    let count: u32 = numbers.next().unwrap_or(1_000_000);
    let burst: u32 = numbers.next().unwrap_or(64);
    decoding(count);

    let connection = Connection::stdio(Limits::default()).unwrap();
    let params =
        json!({"threadId": "t".repeat(36), "turnId": "u".repeat(36), "itemId": "i".repeat(36)});
    let frame = DeltaFrame::new("a/b", &params, "delta").unwrap();
    let mut pushing = std::time::Duration::ZERO;
    let start = Instant::now();
    for _ in 0..count / burst {
        let before = Instant::now();
        for _ in 0..burst {
            connection.outbox.push(frame.delta("some text, ")).unwrap();
        }
        pushing += before.elapsed();
        tokio::task::yield_now().await;
    }
    connection.outbox.close(CloseReason::Finished);
    connection.outbox.flushed().await.unwrap();
    let all = start.elapsed();
    eprintln!("push {:?} a delta, push and write {:?} a delta", pushing / count, all / count);
}

fn decoding(count: u32) {
    let line = br#"{"id":12345,"method":"some/method","params":{"threadId":"0199-aaaa-bbbb","input":[{"type":"text","text":"hello there"}]}}"#;
    let start = Instant::now();
    for _ in 0..count {
        std::hint::black_box(decode(std::hint::black_box(line)).unwrap());
    }
    eprintln!("decode {:?} a request", start.elapsed() / count);
}
