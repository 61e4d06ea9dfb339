//! Lists that a server allows to be kept (`ttlMs`).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fake::*;

/// A server of the new era whose lists may be kept for `ttl` ms, and which reports a change of its prompts
/// when it is called.
fn keeping(ttl: Arc<AtomicU64>) -> impl Fn(&Value) -> Option<Vec<String>> {
    let subscription = std::sync::Mutex::new(Value::Null);
    move |message| {
        let list = |member: &str, entries: Value| {
            let mut answer = json!({
                "resultType": "complete", "ttlMs": ttl.load(Ordering::Relaxed), "cacheScope": "private",
            });
            answer[member] = entries;
            Some(result(message, answer))
        };
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" => Some(result(
                message,
                json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {
                        "tools": {}, "resources": {}, "prompts": {"listChanged": true},
                    },
                    "serverInfo": {"name": "new", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
                }),
            )),
            "tools/list" => list("tools", json!([tool("echo")])),
            "resources/list" => list("resources", json!([{"uri": "x:y", "name": "y"}])),
            "prompts/list" => list("prompts", json!([{"name": "p"}])),
            "subscriptions/listen" => {
                *subscription.lock().unwrap() = message["id"].clone();
                Some(vec![note(
                    message["id"].clone(),
                    "notifications/subscriptions/acknowledged",
                    json!({"notifications": message["params"]["notifications"]}),
                )])
            }
            "tools/call" => {
                let changed = "notifications/prompts/list_changed";
                let changed = note(subscription.lock().unwrap().clone(), changed, json!({}));
                let mut done = text("ok");
                done["resultType"] = "complete".into();
                Some([vec![changed], result(message, done)].concat())
            }
            _ => Some(Vec::new()),
        }
    }
}

fn note(subscription: Value, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": subscription});
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

#[tokio::test(start_paused = true)]
async fn lists_are_kept_for_their_time_unless_they_change() {
    let bench = Bench::new();
    let ttl = Arc::new(AtomicU64::new(5000));
    bench.fakes.add("s", keeping(ttl.clone()));
    let held = bench.pool.hold("t", Path::new("/"), vec![definition("s")]);
    let server = held.servers().remove(0);
    server.ready().await.unwrap();
    let counts =
        || ["tools/list", "resources/list", "prompts/list"].map(|list| bench.fakes.got(list).len());
    for _ in 0..3 {
        assert_eq!(server.resources().await.unwrap()[0]["uri"], "x:y");
        assert_eq!(server.prompts().await.unwrap()[0]["name"], "p");
        server.ready().await.unwrap();
    }
    assert_eq!(counts(), [1, 1, 1]);
    // The server reports that its prompts changed.
    let call = mcp::Call { tool: "echo".to_owned(), ..mcp::Call::default() };
    server.call(call).await.unwrap();
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resources().await.unwrap();
    server.prompts().await.unwrap();
    assert_eq!(counts(), [1, 1, 2]);
    // Their time is over; the tools are listed again when somebody wants them.
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(counts(), [1, 1, 2]);
    server.ready().await.unwrap();
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resources().await.unwrap();
    assert_eq!(counts(), [2, 2, 2]);
    // One that may not be kept is requested each time.
    ttl.store(0, Ordering::Relaxed);
    // tidy: sleep the clock is paused: it passes at once
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.resources().await.unwrap();
    server.resources().await.unwrap();
    assert_eq!(counts()[1], 4);
}

// The first list after the change is never answered or refused, and the second one is answered.
#[tokio::test(start_paused = true)]
async fn changed_tools_that_cannot_be_listed_at_first_are_listed_later() {
    // What the server answers to each list of tools.
    #[derive(Clone, Copy, PartialEq)]
    enum List {
        Refused,
        Answered,
        /// With the next message of the client.
        Late,
    }
    for lists in [[List::Refused, List::Refused, List::Answered], [List::Late; 3]] {
        let bench = Bench::new();
        let (asked, late) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
        bench.fakes.add("s", move |message| match message["method"].as_str().unwrap_or_default() {
            "tools/list" => {
                let time = asked.fetch_add(1, Ordering::Relaxed) as usize;
                let answer = |name| result(message, json!({"tools": [tool(name)]}));
                Some(match time.checked_sub(1).map(|time| lists[time]) {
                    None => answer("before"),
                    Some(List::Answered) => answer("after"),
                    Some(List::Refused) => error(message, -32603, "busy"),
                    Some(List::Late) => {
                        *late.lock().unwrap() = answer("after");
                        Vec::new()
                    }
                })
            }
            "tools/call" => {
                let changed =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let answer = result(message, text("ok"));
                Some(
                    [late.lock().unwrap().split_off(0), vec![changed.to_string()], answer].concat(),
                )
            }
            _ => earlier_era(message),
        });
        let held = bench.pool.hold("t", Path::new("/"), vec![definition("s")]);
        let server = held.servers().remove(0);
        let names = |catalog: &mcp::Catalog| -> Vec<String> {
            catalog.tools.iter().map(|tool| tool.name.clone()).collect()
        };
        assert_eq!(names(&server.ready().await.unwrap()), ["before"]);
        let call = || mcp::Call { tool: "before".to_owned(), ..mcp::Call::default() };
        server.call(call()).await.unwrap();
        // tidy: sleep the clock is paused: it passes at once
        tokio::time::sleep(Duration::from_secs(30)).await;
        if lists[0] == List::Late {
            assert_eq!(names(&server.ready().await.unwrap()), ["before"]);
            assert_eq!(bench.fakes.got("tools/list").len(), 2);
            server.call(call()).await.unwrap();
            // tidy: sleep the clock is paused: it passes at once
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(names(&server.ready().await.unwrap()), ["after"]);
    }
}
