//! The offline model over HTTP, in the shapes that clients of the hosted API read.

use std::{net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use model_server::{OfflineModel, script::Script};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

struct Server(SocketAddr);

struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The data of the events.
    fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200);
        let text = String::from_utf8(self.body.clone()).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    #[track_caller]
    fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status);
        let error = &self.json()["error"];
        assert_eq!(error["code"], code);
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let model = OfflineModel { seed: 7, clock: Arc::new(|| 1_700_000_000) };
        tokio::spawn(model_server::serve_offline(listener, model, None, std::future::pending()));
        Server(address)
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let head = format!(
            "{method} /v1{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = memchr::memmem::find(&answer, b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_ascii_lowercase()).unwrap();
        let status = head[9..12].parse().unwrap();
        let body = answer.split_off(end + 4);
        let body =
            if head.contains("transfer-encoding: chunked") { dechunked(&body) } else { body };
        Answer { status, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "text/plain", b"").await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "text/plain", b"").await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, "application/json", body.to_string().as_bytes()).await
    }

    async fn form(&self, path: &str, fields: &[(&str, Option<&str>, &[u8])]) -> Answer {
        let mut body = Vec::new();
        for (name, file, content) in fields {
            let file = file.map(|file| format!("; filename=\"{file}\"")).unwrap_or_default();
            let head =
                format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        self.send("POST", path, "multipart/form-data; boundary=xyz", &body).await
    }
}

fn dechunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = memchr::memmem::find(body, b"\r\n").unwrap();
        let length = std::str::from_utf8(&body[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 4 + length..];
    }
}

#[tokio::test]
async fn responses_are_created_stored_and_deleted() {
    let server = Server::start().await;
    let request = json!({"model": "m", "input": "Hällo", "metadata": {"a": "b"}});
    let made = server.post("/responses", request.clone()).await.ok();
    assert_eq!(made["status"], "completed");
    assert_eq!(made["created_at"], 1_700_000_000);
    assert_eq!(made["metadata"], json!({"a": "b"}));
    let text = made["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("offline model") && text.ends_with("You said: Hällo"), "{text}");
    let usage = &made["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(2), &json!(19)));
    let id = made["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/responses/{id}")).await.ok(), made);
    let again = server.post("/responses", request).await.ok();
    assert_ne!(again["id"], made["id"], "no two responses have one id");
    let next = json!({"model": "m", "input": "x", "previous_response_id": id});
    assert_eq!(server.post("/responses", next.clone()).await.ok()["previous_response_id"], id);
    let deleted = server.delete(&format!("/responses/{id}")).await.ok();
    assert_eq!(deleted, json!({"id": id, "object": "response", "deleted": true}));
    server.get(&format!("/responses/{id}")).await.refused(404, "not_found");
    server.post("/responses", next).await.refused(400, "previous_response_not_found");
    let unkept = json!({"model": "m", "input": "x", "store": false});
    let id = server.post("/responses", unkept).await.ok()["id"].clone();
    server.get(&format!("/responses/{}", id.as_str().unwrap())).await.refused(404, "not_found");
}

#[tokio::test]
async fn responses_are_streamed_limited_and_cancelled() {
    let server = Server::start().await;
    let streamed =
        json!({"model": "m", "input": [{"role": "user", "content": "hi"}], "stream": true});
    let events = server.post("/responses", streamed).await.events();
    assert_eq!(events[0]["type"], "response.created");
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let text: String = deltas.map(|event| event["delta"].as_str().unwrap()).collect();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], *text);
    let id = last["response"]["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/responses/{id}")).await.ok(), last["response"]);

    let short = json!({"model": "m", "input": "hi", "max_output_tokens": 3});
    let short = server.post("/responses", short).await.ok();
    assert_eq!(short["status"], "incomplete");
    assert_eq!(short["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(short["usage"]["output_tokens"], 3);

    let background = json!({"model": "m", "input": "hi", "background": true});
    let queued = server.post("/responses", background.clone()).await.ok();
    assert_eq!((&queued["status"], &queued["output"]), (&json!("queued"), &json!([])));
    let path = format!("/responses/{}", queued["id"].as_str().unwrap());
    let cancelled = server.send("POST", &format!("{path}/cancel"), "", b"").await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(server.get(&path).await.ok()["status"], "cancelled");
    let queued = server.post("/responses", background).await.ok();
    let path = format!("/responses/{}", queued["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.ok()["status"], "completed");
    let path = format!("/responses/{id}/cancel");
    server.send("POST", &path, "", b"").await.refused(400, "not_cancellable");

    let tools = json!([{"type": "function", "name": "look", "parameters": {}}]);
    let call = json!({"model": "m", "input": "x", "tools": tools, "tool_choice": "required"});
    let item = &server.post("/responses", call).await.ok()["output"][0];
    assert_eq!((&item["type"], &item["name"]), (&json!("function_call"), &json!("look")));
    let input = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]);
    let compact = json!({"model": "m", "input": input, "moderation": {}});
    let moderated = server.post("/responses", compact.clone()).await.ok();
    assert_eq!(moderated["moderation"]["input"]["flagged"], false);
    let compacted = server.post("/responses/compact", compact).await.ok();
    assert_eq!(compacted["object"], "response.compaction");
    assert_eq!(compacted["output"][0]["role"], "user");
    assert_eq!(compacted["output"][1]["type"], "compaction");
}

#[tokio::test]
async fn chat() {
    let server = Server::start().await;
    let path = "/chat/completions";
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]);
    let request = |more: Value| {
        let mut request = json!({"model": "m", "messages": messages});
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let plain = server.post(path, request(json!({"n": 2}))).await.ok();
    let text = plain["choices"][1]["message"]["content"].as_str().unwrap();
    assert!(text.contains("offline model") && text.ends_with("hello"));
    assert_eq!(plain["usage"]["prompt_tokens"], 2);
    assert_eq!(plain["usage"]["completion_tokens"], 2 * text.len().div_ceil(4));
    let stream = server.post(path, request(json!({"stream": true}))).await;
    assert!(stream.body.ends_with(b"data: [DONE]\n\n"));
    let chunks = stream.events();
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(deltas.collect::<String>(), text);
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    let usage = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = server.post(path, request(usage)).await.events();
    let (last, rest) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["prompt_tokens"], 2);
    assert!(rest.iter().all(|chunk| chunk["usage"].is_null()));
    let short = server.post(path, request(json!({"max_tokens": 2}))).await.ok();
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    assert_eq!(short["usage"]["completion_tokens"], 2);
    let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}});
    let choice = &server.post(path, request(tools)).await.ok()["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["name"], "f");
    let schema = request(json!({"response_format": {"type": "json_schema"}}));
    server.post(path, schema).await.refused(400, "invalid_value");
    server.post(path, request(json!({"max_tokens": -1}))).await.refused(400, "invalid_value");
    server.post(path, json!({"model": "m"})).await.refused(400, "invalid_value");
    server.send("POST", path, "application/json", b"{").await.refused(400, "invalid_json");
    let older = server.post("/completions", json!({"model": "m", "prompt": ["a", "b"]})).await.ok();
    assert_eq!(older["choices"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn embeddings_depend_on_the_text() {
    let server = Server::start().await;
    let request = json!({"model": "m", "input": ["a", "bcdef", "a"], "dimensions": 16});
    let answer = server.post("/embeddings", request).await.ok();
    let vector = |at: usize| -> Vec<f64> {
        let entries = answer["data"][at]["embedding"].as_array().unwrap();
        entries.iter().map(|x| x.as_f64().unwrap()).collect()
    };
    assert_eq!(vector(0), vector(2));
    assert_ne!(vector(0), vector(1));
    let length: f64 = vector(1).iter().map(|x| x * x).sum();
    assert!((length - 1.0).abs() < 1e-5, "{length}");
    assert_eq!(answer["usage"], json!({"prompt_tokens": 4, "total_tokens": 4}));
    let request =
        json!({"model": "m", "input": "a", "dimensions": 16, "encoding_format": "base64"});
    let answer = server.post("/embeddings", request).await.ok();
    let bytes = STANDARD.decode(answer["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let first = f32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!((f64::from(first) - vector(0)[0]).abs() < 1e-6);
    let ids = json!({"model": "m", "input": [[1, 2], [3]]});
    let answer = server.post("/embeddings", ids).await.ok();
    assert_eq!(answer["usage"]["total_tokens"], 3);
    assert_eq!(answer["data"][1]["embedding"].as_array().unwrap().len(), 1536);
    for bad in [json!(""), json!([]), json!({}), json!([""]), json!([-1]), json!(null)] {
        let request = json!({"model": "m", "input": bad});
        server.post("/embeddings", request).await.refused(400, "invalid_value");
    }
}

#[tokio::test]
async fn generated_images_are_valid() {
    let server = Server::start().await;
    for (format, begin) in [("png", &b"\x89PNG"[..]), ("webp", b"RIFF"), ("jpeg", b"\xff\xd8\xff")]
    {
        let request = json!({"model": "m", "prompt": "p", "n": 2, "output_format": format});
        let answer = server.post("/images/generations", request).await.ok();
        assert_eq!(answer["data"].as_array().unwrap().len(), 2);
        let image = STANDARD.decode(answer["data"][1]["b64_json"].as_str().unwrap()).unwrap();
        assert!(image.starts_with(begin), "{format}");
        assert_eq!(answer["usage"]["output_tokens"], 544);
    }
    let fields = [
        ("model", None, &b"m"[..]),
        ("prompt", None, b"p"),
        ("n", None, b"3"),
        ("image[]", Some("a.png"), b"x"),
    ];
    let answer = server.form("/images/edits", &fields).await.ok();
    assert_eq!(answer["data"].as_array().unwrap().len(), 3);
    let request = json!({"prompt": "p", "images": [{"file_id": "f"}]});
    assert_eq!(
        server.post("/images/edits", request).await.ok()["data"].as_array().unwrap().len(),
        1
    );
    let request = json!({"prompt": "p", "stream": true, "partial_images": 2});
    let events = server.post("/images/generations", request).await.events();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2]["type"], "image_generation.completed");
    let request = json!({"prompt": "p", "n": 11});
    server.post("/images/generations", request).await.refused(400, "invalid_value");
}

#[tokio::test]
async fn sound() {
    let server = Server::start().await;
    let request = json!({"model": "m", "voice": "v", "input": "say", "response_format": "wav"});
    let speech = server.post("/audio/speech", request).await;
    assert_eq!(speech.status, 200);
    assert!(speech.body.starts_with(b"RIFF") && speech.body.len() == 44 + 32_000);
    let sound = [speech.body.clone(), vec![0; 16_000]].concat();
    let mut longer = sound.clone();
    longer[40..44].copy_from_slice(&48_000_u32.to_le_bytes());
    let fields = |sound: &[u8], format: &'static str| {
        [
            ("model", None, b"m".to_vec()),
            ("response_format", None, format.as_bytes().to_vec()),
            ("file", Some("a.wav"), sound.to_vec()),
        ]
    };
    let heard = async |sound: &[u8], format| {
        let fields = fields(sound, format);
        let fields: Vec<_> =
            fields.iter().map(|(name, file, text)| (*name, *file, &text[..])).collect();
        server.form("/audio/transcriptions", &fields).await
    };
    let answer = heard(&longer, "json").await.ok();
    assert_eq!(answer["duration"], 1.5);
    assert_eq!(answer["usage"], json!({"type": "duration", "seconds": 2}));
    assert!(answer["text"].as_str().unwrap().contains("offline model"));
    assert_eq!(heard(&sound, "verbose_json").await.ok()["duration"], 1.0);
    assert_eq!(heard(&[0; 48_000], "json").await.ok()["duration"], 3.0);
    assert!(heard(&sound, "vtt").await.body.starts_with(b"WEBVTT"));
    heard(&sound, "mp4").await.refused(400, "invalid_value");
    let stream = [("model", None, &b"m"[..]), ("stream", None, b"true"), ("file", Some("a"), b"x")];
    let events = server.form("/audio/transcriptions", &stream).await.events();
    assert_eq!(events.last().unwrap()["type"], "transcript.text.done");
    server.form("/audio/transcriptions", &stream[..1]).await.refused(400, "invalid_value");
    let request = json!({"model": "m", "input": "x", "response_format": "mp3"});
    server.post("/audio/speech", request).await.refused(400, "not_supported");
}

#[tokio::test]
async fn files_and_vector_stores() {
    let server = Server::start().await;
    let upload = |name: &'static str| {
        let fields = [("purpose", None, &b"assistants"[..]), ("file", Some(name), b"content")];
        let server = &server;
        async move { server.form("/files", &fields).await.ok() }
    };
    let (first, second) = (upload("a.txt").await, upload("b.txt").await);
    assert_eq!((&first["filename"], &first["bytes"]), (&json!("a.txt"), &json!(7)));
    let id = first["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/files/{id}")).await.ok(), first);
    assert_eq!(server.get(&format!("/files/{id}/content")).await.body, b"content");
    let page = server.get("/files?limit=1&purpose=assistants").await.ok();
    assert_eq!((&page["data"][0], &page["has_more"]), (&second, &json!(true)));
    let after = format!("/files?after={}", second["id"].as_str().unwrap());
    assert_eq!(server.get(&after).await.ok()["data"], json!([first]));
    server.get("/files?limit=0").await.refused(400, "invalid_value");
    server.get("/files?limit=10000").await.ok();
    server.get("/files?limit=10001").await.refused(400, "invalid_value");
    server.get("/vector_stores?limit=101").await.refused(400, "invalid_value");

    let store = server.post("/vector_stores", json!({"name": "s", "file_ids": [id]})).await.ok();
    assert_eq!(store["file_counts"]["completed"], 1);
    assert_eq!(store["usage_bytes"], 7);
    let path = format!("/vector_stores/{}", store["id"].as_str().unwrap());
    let file = server.post(&format!("{path}/files"), json!({"file_id": second["id"]})).await.ok();
    assert_eq!(
        (&file["object"], &file["status"]),
        (&json!("vector_store.file"), &json!("completed"))
    );
    let both = json!({"file_ids": [id, second["id"]]});
    let batch = server.post(&format!("{path}/file_batches"), both).await.ok();
    assert_eq!(batch["file_counts"]["total"], 2);
    let batch = format!("{path}/file_batches/{}", batch["id"].as_str().unwrap());
    let listed = server.get(&format!("{batch}/files")).await.ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2);
    assert_eq!(server.get(&path).await.ok()["file_counts"]["total"], 2);
    let unknown = json!({"file_id": "file-none"});
    server.post(&format!("{path}/files"), unknown).await.refused(404, "not_found");
    assert_eq!(server.delete(&format!("{path}/files/{id}")).await.ok()["deleted"], true);
    assert_eq!(server.delete(&path).await.ok()["object"], "vector_store.deleted");
    server.get(&path).await.refused(404, "not_found");
    assert_eq!(server.delete(&format!("/files/{id}")).await.ok()["deleted"], true);
    server.delete(&format!("/files/{id}")).await.refused(404, "not_found");
    server.form("/files", &[("file", Some("a"), b"x")]).await.refused(400, "invalid_value");
    server.send("POST", "/files", "text/plain", b"x").await.refused(400, "invalid_value");
}

#[tokio::test]
async fn other_routes_are_served() {
    let server = Server::start().await;
    let answer = server.post("/moderations", json!({"input": ["a", "b"]})).await.ok();
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    assert_eq!(answer["results"][0]["categories"].as_object().unwrap().len(), 13);
    assert_eq!(server.get("/models").await.ok()["data"][0]["owned_by"], "offline");
    assert_eq!(server.get("/models/any").await.ok()["id"], "any");
    let jobs = json!({"object": "list", "data": [], "has_more": false});
    assert_eq!(server.get("/fine_tuning/jobs").await.ok(), jobs);
    let video =
        server.post("/videos/edits", json!({"prompt": "p", "video": {"id": "v"}})).await.ok();
    assert_eq!((&video["object"], &video["status"]), (&json!("video"), &json!("completed")));
    let path = format!("/videos/{}", video["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.ok(), video);
    let remix = server.post(&format!("{path}/remix"), json!({"prompt": "q"})).await.ok();
    assert_eq!(remix["remixed_from_video_id"], video["id"]);
    server.get("/threads").await.refused(404, "not_found");
    server.send("PATCH", "/responses", "", b"").await.refused(404, "not_found");
}

#[tokio::test]
async fn a_script_serves_requests_without_streaming() {
    let script = json!({"responses": [{"steps": [{"delay_ms": 1},
        {"message": "said"}, {"usage": {"input_tokens": 9, "output_tokens": 3}}]},
        {"steps": [{"cut": {}}]}, {"steps": [{"message": "more"}]}]});
    let script = Script::parse("test", &script.to_string()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server(listener.local_addr().unwrap());
    tokio::spawn(model_server::serve(listener, script, None, std::future::pending()));
    let answer = server.post("/responses", json!({"model": "m", "input": "x"})).await.ok();
    assert_eq!(answer["output"][0]["content"][0]["text"], "said");
    assert_eq!(answer["usage"]["total_tokens"], 12);
    let answer = server.post("/responses", json!({"model": "m", "input": "x"})).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (500, &json!("cut_response")));
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let answer = server.post("/chat/completions", chat).await.ok();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["choices"][0]["message"]["content"], "more");
    // Other routes are the offline model's.
    let embedded = json!({"model": "m", "input": "hi"});
    assert_eq!(server.post("/embeddings", embedded).await.ok()["object"], "list");
}
