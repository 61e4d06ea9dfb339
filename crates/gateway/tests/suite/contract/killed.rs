//! A node that is killed settles what it had open when it starts again.

use std::sync::Arc;

use serde_json::{Value, json};

use super::BIG;
use super::ends::rows;
use super::later::spent;
use crate::common::gateway::{START, TestGateway, chat_with, config};
use crate::common::mortal::Mortal;
use crate::common::upstream::{Script, Step, Upstream, event, usage};

fn data(value: &Value) -> Step {
    Step::Bytes(event(value).into())
}

/// Twelve characters: three tokens.
fn text() -> Step {
    data(&json!({ "choices": [{ "delta": { "content": "123456789012" } }] }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_streamed_is_settled_and_the_rest_is_free_again() {
    let upstream = Upstream::start().await;
    let config = config(&upstream, BIG);
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let node = Mortal::start(folder, config.clone(), 1, START);
    let tenant = node.gateway.tenant("free").await;
    let ask = chat_with(json!({ "stream": true, "max_tokens": 500 }));
    let reported = data(&json!({ "choices": [{ "delta": {} }], "usage": usage(20, 4) }));
    let mut clients = Vec::new();
    for (steps, pieces) in [
        (vec![text(), Step::Hang], 1),
        (vec![reported, text(), Step::Hang], 2),
        // The head of an answer that has no text yet.
        (vec![Step::Bytes(": begins\n\n".into()), Step::Hang], 0),
    ] {
        upstream.script([Script::stream(steps)]);
        let mut begun = node.gateway.stream(&tenant, &ask).await;
        let mut seen = String::new();
        while seen.matches("data:").count() < pieces {
            seen.push_str(&String::from_utf8_lossy(&begun.next().await.unwrap().unwrap()));
        }
        clients.push(begun);
    }
    // An answer that has ended, and whose row may not be written yet.
    assert_eq!(node.gateway.chat(&tenant).await.status, 200);
    let reserved = spent(&node.gateway, &tenant).await;
    assert!(reserved[0] > 10_000, "{reserved:?}");
    let left = node.kill();
    for time in 1..=2 {
        // The second start finds nothing more to settle.
        let node = Mortal::start(Arc::clone(&left), config.clone(), 1 + time, START);
        let mut ends: Vec<Value> = rows(&node.gateway, &tenant).await;
        ends.sort_by_key(|row| row["output_tokens"].as_u64());
        let row = |row: &Value| {
            let count = |name: &str| row[name].as_u64().unwrap();
            let ended = row["ended"].as_str().unwrap().to_owned();
            (count("status"), ended, [count("input_tokens"), count("output_tokens")])
        };
        let killed = |tokens| (503, "killed".to_owned(), tokens);
        let expected =
            [killed([1, 0]), (200, "complete".to_owned(), [3, 2]), killed([1, 3]), killed([20, 7])];
        assert_eq!(ends.iter().map(row).collect::<Vec<_>>(), expected);
        let cost = 1 + (3 + 20) + (1 + 30) + (20 + 70);
        assert_eq!(spent(&node.gateway, &tenant).await, [cost, cost]);
        assert_eq!(node.gateway.cost(&tenant.organization).await, cost);
        node.end();
    }
    drop(clients);
}

#[tokio::test]
async fn a_journal_that_cannot_be_read_ends_the_start() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.open-0");
    std::fs::write(&path, "something else".repeat(1000)).unwrap();
    let error = TestGateway::try_open_in(&folder, &config(&upstream, BIG)).await;
    let text = error.err().expect("it is no journal").to_string();
    for part in ["gateway.open-0", "it is not a journal of open requests", "move it away"] {
        assert!(text.contains(part) && !text.contains('\n'), "{text}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(TestGateway::try_open_in(&folder, &config(&upstream, BIG)).await.is_ok());
}
