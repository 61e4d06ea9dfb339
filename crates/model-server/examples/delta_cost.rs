//! Measures the CPU time per streamed text delta: decoding alone, and over loopback from a scripted
//! server in this process. Run in release; the second measurement works only on Linux.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{hint::black_box, sync::Arc, time::Duration};

use model::{Decoder, Event, Prompt, Provider};
use model_server::{ScriptedTransport, script::Script};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const DELTAS: usize = 50_000;
const ROUNDS: usize = 10;

fn main() {
    decode_alone();
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let two =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (name, runtime) in [("1 thread", one), ("2 threads", two)] {
        runtime.block_on(over_loopback(name));
        runtime.block_on(in_process(name));
        runtime.block_on(chunk_per_event(name));
    }
}

fn event(at: usize) -> String {
    format!(
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
         \"sequence_number\":{at},\"item_id\":\"msg_0123456789abcdef0123456789abcdef\",\
         \"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[],\
         \"obfuscation\":\"aB3dE6\"}}\n\n"
    )
}

fn report(name: &str, time: Duration) {
    let each = time.as_nanos() as usize / (DELTAS * ROUNDS);
    println!("{name}: {each} ns CPU a delta");
}

fn decode_alone() {
    let stream: String = (0..DELTAS).map(event).collect();
    for chunk in [16 << 10, 230] {
        let begin = cpu_time();
        for _ in 0..ROUNDS {
            let mut decoder = Decoder::new();
            for bytes in stream.as_bytes().chunks(chunk) {
                let mut out = Vec::new();
                decoder.feed(bytes, &mut out);
                black_box(&out);
            }
        }
        report(&format!("bytes to events, reads of {chunk} bytes"), cpu_time() - begin);
    }
}

const SCRIPT: &str = r#"{"on_exhausted": "repeat_last", "responses": [
    {"steps": [{"message": {"chunks": [" word"], "repeat": 50000}}]}]}"#;

async fn over_loopback(name: &str) {
    let script = Script::parse("bench", SCRIPT).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(model_server::serve(listener, script, None, std::future::pending()));
    let provider = Provider::http("bench", format!("http://{address}/v1"));
    measure(&format!("script server and client, {name}"), provider, "m").await;
}

async fn in_process(name: &str) {
    let path = std::env::temp_dir().join("delta_cost_script.json");
    std::fs::write(&path, SCRIPT).unwrap();
    measure(&format!("in-process script, {name}"), Provider::offline(), path.to_str().unwrap())
        .await;
}

/// A server that sends every event as an HTTP chunk of its own, as hosted APIs do.
async fn chunk_per_event(name: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut answer = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let done = "data: {\"type\":\"response.completed\",\"response\":{}}\n\n".to_owned();
    for event in (0..DELTAS).map(event).chain([done]) {
        answer.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
    }
    answer.push_str("0\r\n\r\n");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 64 << 10];
                while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let provider = Provider::http("bench", format!("http://{address}/v1"));
    measure(&format!("client, a chunk an event, {name}"), provider, "m").await;
}

async fn measure(name: &str, provider: Provider, model: &str) {
    let client = ScriptedTransport::client(model::Network::default());
    let provider = Arc::new(provider);
    let prompt = Prompt { model: model.into(), ..Prompt::default() };
    let begin = cpu_time();
    for _ in 0..ROUNDS {
        let mut stream = client.stream_prompt(&provider, &prompt);
        let mut deltas = 0;
        while let Some(batch) = stream.next().await {
            deltas += batch.iter().filter(|event| matches!(event, Event::TextDelta { .. })).count();
        }
        assert_eq!(deltas, DELTAS);
    }
    report(name, cpu_time() - begin);
}

/// CPU time of the process so far, to 10 ms.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
