//! News of later versions, from a feed on this machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use testkit::{Peer, TestEnvironment};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::says;

/// How long a test waits for what has to happen.
const LIMIT: Duration = Duration::from_secs(60);
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A feed that answers with the version of its document.
struct Feed {
    address: String,
    version: Arc<Mutex<&'static str>>,
    requests: watch::Receiver<usize>,
}

impl Feed {
    async fn serve(version: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/feed.json", listener.local_addr().unwrap());
        let version = Arc::new(Mutex::new(version));
        let (count, requests) = watch::channel(0);
        let latest = version.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let read = stream.read(&mut [0; 4096]).await.unwrap();
                assert!(read > 0);
                let version = *latest.lock().unwrap();
                let body =
                    json!({ "version": version, "notes": "https://news.example/" }).to_string();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).await.unwrap();
                count.send_modify(|count| *count += 1);
            }
        });
        Self { address, version, requests }
    }

    async fn was_asked(&mut self, times: usize) {
        let asked = self.requests.wait_for(|count| *count >= times);
        tokio::time::timeout(LIMIT, asked).await.expect("the feed is asked").unwrap();
        assert_eq!(*self.requests.borrow(), times);
    }
}

async fn env(keys: &str) -> TestEnvironment {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{keys}\n{config}"));
    env
}

/// Waits until a file has what is expected.
async fn until(holds: impl Fn() -> bool) {
    let look = async {
        while !holds() {
            // tidy: sleep because the end of the writing is not reported; with a bound
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, look).await.expect("the state is written");
}

async fn news(peer: &mut Peer) -> String {
    let is_news = |params: &serde_json::Value| {
        params["message"].as_str().is_some_and(|text| text.contains("is available"))
    };
    let warning = peer.expect_where("warning", is_news).await;
    warning["message"].as_str().unwrap().to_owned()
}

// Effect of `update_feed`.
#[tokio::test]
async fn a_later_version_is_news_once_and_the_feed_is_asked_once_a_day() {
    let mut feed = Feed::serve("1.4.0").await;
    let env = env(&format!("update_feed = \"{}\"", feed.address)).await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    let expected = "agentd 1.4.0 is available; this is 0.0.0. See https://news.example/";
    assert_eq!(news(&mut peer).await, expected);
    // Each server looks once.
    peer.start_thread(json!({})).await;
    let state = env.home().join("updates.json");
    let remembered = || std::fs::read_to_string(&state).unwrap_or_default();
    until(|| remembered().contains("1.4.0")).await;
    server.stop().await;
    for (advance, version, times) in
        [(0, "1.4.0", 1), (DAY_MS, "1.4.0", 2), (DAY_MS, "1.5.0", 3), (-3 * DAY_MS, "1.6.0", 4)]
    {
        env.clock.advance(advance);
        *feed.version.lock().unwrap() = version;
        let server = env.start();
        let mut peer = server.connect().await;
        peer.start_thread(json!({})).await;
        if version != "1.4.0" {
            assert!(news(&mut peer).await.contains(version));
        }
        feed.was_asked(times).await;
        let now = server::Clock::now_ms(&*env.clock).to_string();
        until(|| remembered().contains(version) && (advance == 0 || remembered().contains(&now)))
            .await;
        server.stop().await;
        let is_news = |line: &String| line.contains("is available");
        let expected = usize::from(version != "1.4.0");
        assert_eq!(peer.raw_lines().iter().filter(|line| is_news(line)).count(), expected);
    }
}

// Effect of `check_for_update_on_startup`.
#[tokio::test]
async fn the_feed_is_asked_only_where_the_user_wants_it() {
    let mut feed = Feed::serve("1.4.0").await;
    let address = feed.address.clone();
    let off = format!("update_feed = \"{address}\"\ncheck_for_update_on_startup = false");
    for keys in [off.as_str(), ""] {
        let env = env(keys).await;
        let project = env.workspace().join(".agent");
        std::fs::create_dir_all(&project).unwrap();
        let of_project =
            format!("update_feed = \"{address}\"\ncheck_for_update_on_startup = true\n");
        std::fs::write(project.join("config.toml"), of_project).unwrap();
        let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        let trust = format!(
            "{config}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
            env.workspace().display()
        );
        env.write_config(&trust);
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "Go.").await;
        server.stop().await;
        assert!(!env.home().join("updates.json").exists(), "{keys}");
    }
    // One that is asked afterwards is the first.
    let env = env(&format!("update_feed = \"{address}\"")).await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    news(&mut peer).await;
    feed.was_asked(1).await;
}

#[tokio::test]
async fn a_feed_that_fails_and_a_damaged_state_do_no_harm() {
    let mut feed = Feed::serve("not a version").await;
    let env = env(&format!("update_feed = \"{}\"", feed.address)).await;
    std::fs::create_dir(env.home().join("updates.json")).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    feed.was_asked(1).await;
    peer.run_turn(&thread, "Go.").await;
    server.stop().await;
    std::fs::remove_dir(env.home().join("updates.json")).unwrap();
    std::fs::write(env.home().join("updates.json"), "{").unwrap();
    *feed.version.lock().unwrap() = "1.4.0";
    let server = env.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    assert!(news(&mut peer).await.contains("1.4.0"));
}
