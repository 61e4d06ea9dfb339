//! The Responses API over a WebSocket: `model::Client` against the scripted model, and against servers that
//! refuse, cut or stay silent. Nothing that fails before the first event loses the request.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::{Client, Event, Prompt, Provider};
use model_server::script::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The method and body of each request.
    fn requests(&self) -> Vec<(String, Value)> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| (line["method"].as_str().unwrap().to_owned(), line["body"].clone()))
            .collect()
    }

    /// How each request came: incremental or whole over a WebSocket, or over HTTP.
    fn transports(&self) -> Vec<&'static str> {
        let requests = self.requests();
        let transport = |(method, body): &(String, Value)| match (method.as_str(), body) {
            ("POST", _) => "http",
            (_, body) if body["previous_response_id"].is_string() => "incremental",
            _ => "whole",
        };
        requests.iter().map(transport).collect()
    }
}

async fn serve(responses: Value) -> (String, Log) {
    let script = Script::parse("the test", &json!({"responses": responses}).to_string()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Log::default();
    let written = Box::new(log.clone());
    tokio::spawn(async move {
        model_server::serve(listener, script, Some(written), std::future::pending()).await
    });
    (address.to_string(), log)
}

fn provider(address: &str) -> Arc<Provider> {
    let mut provider = Provider::http("p", format!("http://{address}/v1"));
    provider.supports_websockets = true;
    provider.stream_idle_timeout = Duration::from_millis(500);
    Arc::new(provider)
}

fn says(text: &str) -> Value {
    json!({"steps": [{"message": text}]})
}

/// A thread as its owner sees it.
struct Thread {
    client: Client,
    provider: Arc<Provider>,
    name: &'static str,
    items: Vec<Arc<str>>,
}

impl Thread {
    fn new(client: &Client, provider: &Arc<Provider>, name: &'static str) -> Self {
        let (client, provider) = (client.clone(), Arc::clone(provider));
        Self { client, provider, name, items: Vec::new() }
    }

    fn prompt(&self) -> Prompt {
        Prompt {
            model: "m".into(),
            input: self.items.clone(),
            cache_key: Some(self.name.into()),
            ..Prompt::default()
        }
    }

    /// Sends the user's text with all before it, and returns the text of the answer, or the failure.
    async fn turn(&mut self, text: &str) -> Result<String, String> {
        self.items.push(json!({"role": "user", "content": text}).to_string().into());
        let mut stream = self.client.stream_prompt(&self.provider, &self.prompt());
        let mut said = String::new();
        while let Some(batch) = stream.next().await {
            for event in batch {
                match event {
                    Event::TextDelta { text, .. } => said.push_str(&text),
                    Event::ItemDone { raw, .. } => self.items.push(raw),
                    Event::Failed(failure) => return Err(failure.message),
                    _ => {}
                }
            }
        }
        Ok(said)
    }
}

// Effect of `model_providers.<id>.supports_websockets`.
#[tokio::test]
async fn a_thread_sends_only_what_is_new_over_one_connection() {
    let (address, log) =
        serve(json!([says("one"), says("two"), says("three"), says("four")])).await;
    let client = Client::new();
    let mut thread = Thread::new(&client, &provider(&address), "a");
    assert_eq!(thread.turn("1").await.unwrap(), "one");
    assert_eq!(thread.turn("2").await.unwrap(), "two");
    let requests = log.requests();
    assert_eq!(requests[0].1["type"], "response.create");
    assert!(requests[0].1.get("stream").is_none());
    assert_eq!(requests[1].1["input"], json!([{"role": "user", "content": "2"}]));
    // A changed history is sent whole, on another connection.
    thread.items.remove(0);
    assert_eq!(thread.turn("3").await.unwrap(), "three");
    assert_eq!(thread.turn("4").await.unwrap(), "four");
    assert_eq!(log.transports(), ["whole", "incremental", "whole", "incremental"]);
}

#[tokio::test]
async fn threads_have_connections_of_their_own() {
    let script = json!([says("one"), says("two")]);
    let (address, log) = serve(script).await;
    let client = Client::new();
    let provider = provider(&address);
    let mut threads = ["a", "b"].map(|name| Thread::new(&client, &provider, name));
    for text in ["one", "two"] {
        for thread in &mut threads {
            assert_eq!(thread.turn("x").await.unwrap(), text);
        }
    }
    assert_eq!(log.transports(), ["whole", "whole", "incremental", "incremental"]);
}

#[tokio::test]
async fn a_refusal_has_the_status_of_http() {
    let refusal = json!({"steps": [{"error": {"status": 429,
        "code": "rate_limit_exceeded", "message": "Please try again in 30ms."}}]});
    let (address, log) = serve(json!([says("one"), refusal, says("two")])).await;
    let mut thread = Thread::new(&Client::new(), &provider(&address), "a");
    assert_eq!(thread.turn("1").await.unwrap(), "one");
    let failed = thread.turn("2").await.unwrap_err();
    assert!(failed.contains("429") && failed.contains("try again in 30ms"), "{failed}");
    assert_eq!(thread.turn("3").await.unwrap(), "two");
    assert_eq!(log.transports(), ["whole", "incremental", "whole"]);
}

#[tokio::test]
async fn a_stream_that_is_cut_continues_over_http() {
    let cut = json!({"steps": [{"message": {"chunks": ["ha"]}}, {"cut": {}}]});
    let (address, log) = serve(json!([says("one"), cut, says("two"), says("three")])).await;
    let mut thread = Thread::new(&Client::new(), &provider(&address), "a");
    assert_eq!(thread.turn("1").await.unwrap(), "one");
    let failed = thread.turn("2").await.unwrap_err();
    assert!(failed.contains("broke"), "{failed}");
    assert_eq!(thread.turn("3").await.unwrap(), "two");
    // A single cut says nothing about the provider.
    assert_eq!(thread.turn("4").await.unwrap(), "three");
    assert_eq!(log.transports(), ["whole", "incremental", "http", "whole"]);
}

/// A server before the scripted model that treats upgrades its own way, and counts them. Other requests pass.
async fn front(origin: String, upgrades: Upgrades) -> (String, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (origin, count) = (origin.clone(), Arc::clone(&counted));
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap();
                if head.starts_with(b"GET") {
                    *count.lock().unwrap() += 1;
                    match upgrades {
                        Upgrades::Answer(answer) => stream.write_all(answer).await.unwrap(),
                        Upgrades::Silence => drop(stream.read(&mut head).await),
                        Upgrades::PassFirst(bytes) => {
                            let mut upstream = TcpStream::connect(&origin).await.unwrap();
                            upstream.write_all(&head[..read]).await.unwrap();
                            let mut answer = vec![0; bytes];
                            let read = upstream.read(&mut answer).await.unwrap();
                            stream.write_all(&answer[..read]).await.unwrap();
                            // The request itself arrives, and then the connection ends.
                            drop(stream.read(&mut head).await);
                        }
                    }
                    return;
                }
                let mut upstream = TcpStream::connect(&origin).await.unwrap();
                upstream.write_all(&head[..read]).await.unwrap();
                // Ends with either side.
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
            });
        }
    });
    (address, count)
}

#[derive(Clone, Copy)]
enum Upgrades {
    Answer(&'static [u8]),
    Silence,
    /// Passes the answer to the upgrade, and ends after the first frame.
    PassFirst(usize),
}

#[tokio::test]
async fn what_fails_before_the_first_event_goes_over_http() {
    let check = async |name: &str, upgrades: Upgrades, tries: usize| {
        let (origin, log) =
            serve(json!([says("one"), says("two"), says("three"), says("four")])).await;
        let (address, count) = front(origin, upgrades).await;
        let mut thread = Thread::new(&Client::new(), &provider(&address), "a");
        for text in ["one", "two", "three", "four"] {
            assert_eq!(thread.turn("x").await.as_deref(), Ok(text), "{name}");
        }
        assert_eq!(log.transports(), ["http"; 4], "{name}");
        assert_eq!(*count.lock().unwrap(), tries, "{name}: it is remembered");
    };
    let answer = |text: &'static str| Upgrades::Answer(text.as_bytes());
    check("404", answer("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"), 1).await;
    check("426", answer("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n"), 1).await;
    check("200", answer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"), 1).await;
    let wrong = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-accept: wrong\r\n\r\n";
    check("another key", answer(wrong), 1).await;
    // These may pass: a second try follows, not with the very next request.
    check("503", answer("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"), 2).await;
    check("no answer", Upgrades::Silence, 2).await;
    check("cut at once", Upgrades::PassFirst(4096), 2).await;
}

#[tokio::test]
async fn silence_ends_after_the_idle_timeout_and_the_next_request_goes_over_http() {
    let (address, log) = serve(json!([{"steps": ["idle"]}, says("one")])).await;
    let mut thread = Thread::new(&Client::new(), &provider(&address), "a");
    let failed = thread.turn("1").await.unwrap_err();
    assert!(failed.contains("sent nothing"), "{failed}");
    assert_eq!(thread.turn("2").await.unwrap(), "one");
    assert_eq!(log.transports(), ["whole", "http"]);
}

#[tokio::test]
async fn a_dropped_stream_closes_its_connection() {
    let half = json!({"steps": [{"message": {"chunks": ["ha"]}}, "idle"]});
    let (address, log) = serve(json!([half, says("two")])).await;
    let client = Client::new();
    let mut thread = Thread::new(&client, &provider(&address), "a");
    thread.items.push(json!({"role": "user", "content": "1"}).to_string().into());
    let mut stream = client.stream_prompt(&thread.provider, &thread.prompt());
    let _ = stream.next().await.unwrap();
    drop(stream);
    assert_eq!(thread.turn("2").await.unwrap(), "two");
    assert_eq!(log.transports(), ["whole", "whole"]);
}
