//! A server and requests to it.

use std::net::SocketAddr;
use std::sync::Arc;

use model::{Client, Event, Item, Prompt, Provider, Wire};
use model_server::OfflineModel;
use model_server::script::Script;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Server(pub(crate) SocketAddr);

/// An answer without its head, and with its chunks joined.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    body: Vec<u8>,
}

impl Server {
    pub(crate) async fn start(script: &Value) -> Self {
        let script = Script::parse("test", &script.to_string()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(model_server::serve(listener, script, None, std::future::pending()));
        Self(address)
    }

    pub(crate) async fn offline() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let offline = OfflineModel { seed: 1, clock: Arc::new(|| 1_700_000_000) };
        tokio::spawn(model_server::serve_offline(listener, offline, None, std::future::pending()));
        Self(address)
    }

    pub(crate) fn provider(&self, wire: Wire) -> Arc<Provider> {
        let base = match wire {
            Wire::Responses | Wire::Chat => "/v1",
            Wire::Messages | Wire::Gemini => "",
        };
        Arc::new(Provider { wire, ..Provider::http("test", format!("http://{}{base}", self.0)) })
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, b"").await
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        self.send("POST", path, headers, body.to_string().as_bytes()).await
    }

    /// A request for a message, with these members.
    pub(crate) async fn messages(&self, members: Value) -> Answer {
        let body = json!({"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]});
        self.post("/v1/messages", &[("anthropic-version", "2023-06-01")], with(body, members)).await
    }

    pub(crate) async fn chat(&self, members: Value) -> Answer {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
        self.post("/v1/chat/completions", &[], with(body, members)).await
    }

    pub(crate) async fn gemini(&self, members: Value) -> Answer {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
        self.post("/v1beta/models/gemini-3-pro:generateContent", &[], with(body, members)).await
    }

    pub(crate) async fn responses(&self, members: Value) -> Answer {
        self.post("/v1/responses", &[], with(json!({"model": "m", "input": "hi"}), members)).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: test\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        Answer { status, head, body: answer[end + 4..].to_vec() }
    }
}

/// `members` in place of those of `body`; `null` removes one.
fn with(mut body: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members are an object") };
    for (name, value) in members {
        let object = body.as_object_mut().unwrap();
        if value.is_null() {
            object.shift_remove(&name);
        } else {
            object.insert(name, value);
        }
    }
    body
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The data of a stream's events.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text());
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

pub(crate) fn user(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// A prompt with a function and a free-form tool.
pub(crate) fn prompt(model: &str, input: &[Value]) -> Prompt {
    let tools = json!([
        {"type": "function", "name": "read", "description": "Reads.", "strict": false,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
        {"type": "custom", "name": "apply_patch", "description": "Edits.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}]);
    Prompt {
        model: model.into(),
        instructions: "Be brief.".into(),
        input: input.iter().map(|item| item.to_string().into()).collect(),
        tools: tools.to_string().into(),
        reasoning: Some(model::Reasoning {
            effort: Some("low".into()),
            summary: Some("auto".into()),
        }),
        include_encrypted_reasoning: true,
        ..Prompt::default()
    }
}

pub(crate) async fn ask(provider: &Arc<Provider>, prompt: &Prompt) -> Vec<Event> {
    let mut stream = Client::new().stream_prompt(provider, prompt);
    let mut events = Vec::new();
    while let Some(batch) = stream.next().await {
        events.extend(batch);
    }
    events
}

/// The finished items, as they are stored and as they are read.
pub(crate) fn items(events: &[Event]) -> Vec<(Value, Item)> {
    let done = events.iter().filter_map(|event| match event {
        Event::ItemDone { raw, item, .. } => {
            Some((serde_json::from_str(raw).unwrap(), item.clone()))
        }
        _ => None,
    });
    done.collect()
}

/// The text of all deltas.
pub(crate) fn text_of(events: &[Event]) -> String {
    let deltas = events.iter().filter_map(|event| match event {
        Event::TextDelta { text, .. } => Some(text.as_str()),
        _ => None,
    });
    deltas.collect()
}
