//! Realtime conversations over the wire, with a scripted provider: text and audio both ways, calls over
//! WebRTC, and what a session does when its provider, its client or its thread goes.

use serde_json::{Value, json};
use testkit::{Peer, RealtimeReply, RealtimeScript, RealtimeServer, TestEnvironment, TestServer};

use RealtimeReply::{Binary, Bytes, Close, Cut, Event, Text};

const KEY: &str = "sk-key-of-realtime-tests";

struct Stage {
    realtime: RealtimeServer,
    env: TestEnvironment,
    server: TestServer,
    peer: Peer,
    thread: String,
}

impl Stage {
    async fn set(script: RealtimeScript) -> Self {
        Self::configured(script, "").await
    }

    async fn configured(script: RealtimeScript, more: &str) -> Self {
        let realtime = RealtimeServer::serve(script).await;
        let mut env = TestEnvironment::with_responses(json!([{ "steps": [] }])).await;
        env.write_config(&format!(
            "model = \"m\"\nmodel_provider = \"rt\"\n{more}\n[model_providers.rt]\nname = \"RT\"\n\
             base_url = \"{}\"\nenv_key = \"RT_KEY\"\nrequest_max_retries = 0\n\
             stream_max_retries = 0\n",
            realtime.base_url(),
        ));
        env.variables.push(("RT_KEY".into(), KEY.into()));
        let server = env.start();
        let mut peer = connect(&server).await;
        let thread = peer.start_thread(json!({})).await;
        Self { realtime, env, server, peer, thread }
    }

    /// A stage with a session that has begun.
    async fn started(script: RealtimeScript) -> Self {
        let mut stage = Self::set(script).await;
        stage.start(json!({})).await;
        stage.peer.expect("thread/realtime/started").await;
        stage
    }

    fn params(&self, more: &Value) -> Value {
        let mut params = json!({ "threadId": self.thread, "outputModality": "audio" });
        for (name, value) in more.as_object().unwrap() {
            params[name] = value.clone();
        }
        params
    }

    async fn start(&mut self, more: Value) {
        let params = self.params(&more);
        assert_eq!(self.peer.call("thread/realtime/start", params).await, json!({}));
    }

    async fn call(&mut self, method: &str, mut params: Value) -> Value {
        params["threadId"] = json!(self.thread);
        self.peer.call(method, params).await
    }

    async fn refused(&mut self, method: &str, mut params: Value) -> String {
        params["threadId"] = json!(self.thread);
        self.peer.refused(method, params).await.message
    }

    async fn closed(&mut self) -> Value {
        let closed = self.peer.expect("thread/realtime/closed").await;
        assert_eq!(closed["threadId"], json!(self.thread));
        closed["reason"].clone()
    }

    async fn error(&mut self) -> String {
        let error = self.peer.expect("thread/realtime/error").await;
        error["message"].as_str().unwrap().to_owned()
    }
}

async fn connect(server: &TestServer) -> Peer {
    server.connect_with(json!({ "experimentalApi": true })).await
}

fn chunk(data: &str) -> Value {
    json!({ "audio": { "data": data, "sampleRate": 24000, "numChannels": 1 } })
}

fn event(value: Value) -> RealtimeReply {
    Event(value)
}

/// A provider that answers a text by speaking.
fn speaking() -> RealtimeScript {
    let user = json!({ "id": "u", "type": "message", "role": "user" });
    let done = json!({ "type": "response.done", "response": { "status": "completed" } });
    let heard = "conversation.item.input_audio_transcription";
    RealtimeScript::starting()
        .reply(
            "conversation.item.create",
            vec![event(json!({ "type": "conversation.item.added", "item": user }))],
        )
        .reply(
            "input_audio_buffer.append",
            vec![
                event(json!({ "type": format!("{heard}.delta"), "delta": "What is" })),
                event(json!({ "type": format!("{heard}.completed"), "transcript": "What is it?" })),
            ],
        )
        .reply(
            "response.create",
            vec![
                event(json!({ "type": "response.created" })),
                event(json!({ "type": "response.output_audio.delta", "delta": "AAEC", "item_id": "a" })),
                event(json!({ "type": "response.output_audio.delta", "delta": "AAECAw==", "item_id": "a" })),
                event(json!({ "type": "response.output_audio_transcript.delta", "delta": "A crab" })),
                event(json!({ "type": "response.output_audio_transcript.done", "transcript": "A crab." })),
                event(done),
            ],
        )
}

/// As [`speaking`], with audio of whole samples alone.
fn well_spoken() -> RealtimeScript {
    let mut script = speaking();
    if let Some(replies) = script.replies.get_mut("response.create") {
        replies.remove(1);
    }
    script
}

// Effect of `realtime.model`, `realtime.transcription_model`.
#[tokio::test]
async fn a_session_is_set_up_as_the_client_and_the_configuration_say() {
    let more = "[realtime]\nmodel = \"rt-model 1\"\ntranscription_model = \"scribe\"";
    let mut stage = Stage::configured(RealtimeScript::starting(), more).await;
    let more = json!({ "prompt": "Be brief.", "voice": "cedar", "outputModality": "text",
                       "transport": { "type": "websocket" } });
    stage.start(more).await;
    let started = stage.peer.expect("thread/realtime/started").await;
    let expected =
        json!({ "threadId": stage.thread, "realtimeSessionId": "sess_1", "version": "v2" });
    assert_eq!(started, expected);
    let upgrade = stage
        .realtime
        .logged(|entry| entry["request"] == "GET /v1/realtime?model=rt-model%201")
        .await;
    let head = upgrade["head"].as_str().unwrap().to_lowercase();
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    let session = &stage.realtime.message("session.update").await["session"];
    assert_eq!(session["instructions"], "Be brief.");
    assert_eq!(session["output_modalities"], json!(["text"]));
    assert_eq!(session["audio"]["output"]["voice"], "cedar");
    assert_eq!(session["audio"]["input"]["transcription"]["model"], "scribe");
    let format = json!({ "type": "audio/pcm", "rate": 24000 });
    assert_eq!(session["audio"]["input"]["format"], format);
}

#[tokio::test]
async fn text_and_audio_go_both_ways_and_all_clients_of_the_thread_follow() {
    let mut stage = Stage::set(well_spoken()).await;
    let mut other = connect(&stage.server).await;
    other.call("thread/resume", json!({ "threadId": stage.thread })).await;
    stage.start(json!({ "realtimeSessionId": "mine" })).await;
    let started = stage.peer.expect("thread/realtime/started").await;
    assert_eq!(started["realtimeSessionId"], "mine");
    stage.call("thread/realtime/appendAudio", chunk("AAECAw==")).await;
    let sent = stage.realtime.message("input_audio_buffer.append").await;
    assert_eq!(sent["audio"], "AAECAw==");
    stage.call("thread/realtime/appendText", json!({ "text": "Answer me." })).await;
    let sent = stage.realtime.message("conversation.item.create").await;
    assert_eq!(sent["item"]["content"], json!([{ "type": "input_text", "text": "Answer me." }]));
    for peer in [&mut stage.peer, &mut other] {
        let item = peer.expect("thread/realtime/itemAdded").await;
        assert_eq!(item["item"]["id"], "u");
        let audio = &peer.expect("thread/realtime/outputAudio/delta").await["audio"];
        let expected = json!({ "data": "AAECAw==", "sampleRate": 24000, "numChannels": 1,
                               "samplesPerChannel": 2, "itemId": "a" });
        assert_eq!(*audio, expected);
        for (role, delta, text) in
            [("user", "What is", "What is it?"), ("assistant", "A crab", "A crab.")]
        {
            let found = peer.expect("thread/realtime/transcript/delta").await;
            assert_eq!((&found["role"], &found["delta"]), (&json!(role), &json!(delta)));
            let found = peer.expect("thread/realtime/transcript/done").await;
            assert_eq!((&found["role"], &found["text"]), (&json!(role), &json!(text)));
        }
    }
    stage.call("thread/realtime/stop", json!({})).await;
    assert_eq!(stage.closed().await, "requested");
    other.expect("thread/realtime/closed").await;
    stage.realtime.logged(|entry| entry["end"] == true).await;
    assert!(stage.peer.settled().await.iter().all(|method| !method.contains("realtime")));
}

#[tokio::test]
async fn what_was_said_is_in_the_history_of_later_turns() {
    let mut stage = Stage::started(well_spoken()).await;
    stage.call("thread/realtime/appendAudio", chunk("AAECAw==")).await;
    stage.peer.expect("thread/realtime/transcript/done").await;
    stage.call("thread/realtime/appendText", json!({ "text": "Answer me." })).await;
    stage.peer.expect("thread/realtime/transcript/done").await;
    stage.call("thread/realtime/stop", json!({})).await;
    stage.closed().await;
    let turn = stage.peer.run_turn(&stage.thread, "Go on.").await;
    assert_eq!(turn["status"], "completed", "{turn}");
    let request = stage.realtime.logged(|entry| entry["request"] == "POST /v1/responses").await;
    let request: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
    let input = request["input"].as_array().unwrap();
    let said = |item: &Value| {
        Some(format!("{}: {}", item["role"].as_str()?, item["content"][0]["text"].as_str()?))
    };
    let mut said: Vec<String> = input.iter().filter_map(said).collect();
    said.retain(|line| !line.starts_with("developer") && !line.contains("<environment_context>"));
    let expected = ["user: What is it?", "user: Answer me.", "assistant: A crab.", "user: Go on."];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_thread_has_one_session_and_another_after_it() {
    let mut stage = Stage::started(RealtimeScript::starting()).await;
    let params = stage.params(&json!({}));
    let fault = stage.peer.refused("thread/realtime/start", params.clone()).await;
    assert_eq!(fault.code, -32600);
    assert!(fault.message.contains("thread/realtime/stop"), "{}", fault.message);
    // The second one begins after the end of the first.
    stage.peer.send("thread/realtime/stop", json!({ "threadId": stage.thread })).await;
    stage.peer.call("thread/realtime/start", params).await;
    stage.peer.expect("thread/realtime/started").await;
    let lines = stage.peer.raw_lines();
    let at = |part: &str| lines.iter().rposition(|line| line.contains(part)).unwrap();
    assert!(at("realtime/closed") < at("realtime/started"));
}

#[tokio::test]
async fn stopping_a_thread_without_a_session_changes_nothing() {
    let mut stage = Stage::set(RealtimeScript::starting()).await;
    assert_eq!(stage.call("thread/realtime/stop", json!({})).await, json!({}));
    let message = stage.refused("thread/realtime/appendText", json!({ "text": "x" })).await;
    assert!(message.contains("no realtime session"), "{message}");
    let fault = stage.peer.refused("thread/realtime/stop", json!({ "threadId": "nope" })).await;
    assert!(fault.message.contains("thread not found"), "{}", fault.message);
}

#[tokio::test]
async fn input_that_cannot_be_used_is_refused() {
    let mut stage = Stage::started(RealtimeScript::starting()).await;
    let audio = |data: &str, rate: u32, channels: u16| json!({ "audio": { "data": data, "sampleRate": rate, "numChannels": channels } });
    for (params, expected) in [
        (audio("AAAA", 24_000, 1), "whole number of 16-bit samples"),
        (audio("", 24_000, 1), "empty"),
        (audio("?", 24_000, 1), "base64"),
        (audio("AAECAw==", 48_000, 1), "24000 Hz"),
        (audio("AAECAw==", 24_000, 2), "mono"),
        (audio(&"A".repeat(1 << 20), 24_000, 1), "shorter chunks"),
    ] {
        let message = stage.refused("thread/realtime/appendAudio", params).await;
        assert!(message.contains(expected), "{message}");
    }
    for text in [String::new(), "x".repeat((256 << 10) + 1)] {
        let message = stage.refused("thread/realtime/appendText", json!({ "text": text })).await;
        assert!(message.contains("must have 1 to"), "{message}");
    }
    for (params, expected) in [
        (json!({ "voice": "cove" }), "marin"),
        (json!({ "realtimeSessionId": "" }), "1 to 256"),
        (json!({ "transport": { "type": "webrtc", "sdp": "hello" } }), "v=0"),
        (json!({ "prompt": "x".repeat(1 << 20) }), "`prompt`"),
    ] {
        let params = stage.params(&params);
        let fault = stage.peer.refused("thread/realtime/start", params).await;
        assert_eq!(fault.code, -32602);
        assert!(fault.message.contains(expected), "{}", fault.message);
    }
}

#[tokio::test]
async fn voices_are_listed() {
    let mut stage = Stage::set(RealtimeScript::starting()).await;
    let voices = &stage.peer.call("thread/realtime/listVoices", json!({})).await["voices"];
    assert_eq!(voices["defaultV1"], "cove");
    assert_eq!(voices["defaultV2"], "marin");
    assert_eq!(voices["v1"].as_array().unwrap().len(), 9);
    assert_eq!(voices["v2"].as_array().unwrap().len(), 10);
    let mut plain = stage.server.connect().await;
    let fault = plain.refused("thread/realtime/listVoices", json!({})).await;
    assert!(fault.message.contains("experimentalApi"), "{}", fault.message);
}

#[tokio::test]
async fn a_provider_without_the_api_or_a_key_is_refused_at_once() {
    let mut stage = Stage::set(RealtimeScript::starting()).await;
    let offline = stage.peer.start_thread(json!({ "modelProvider": "offline" })).await;
    let params = json!({ "threadId": offline, "outputModality": "text" });
    let fault = stage.peer.refused("thread/realtime/start", params).await;
    assert!(fault.message.contains("`offline` has no realtime API"), "{}", fault.message);
    let Stage { mut env, .. } = stage;
    env.variables.retain(|(name, _)| name != "RT_KEY");
    let server = env.start();
    let mut peer = connect(&server).await;
    let thread = peer.start_thread(json!({})).await;
    let params = json!({ "threadId": thread, "outputModality": "text" });
    let fault = peer.refused("thread/realtime/start", params).await;
    assert!(fault.message.contains("RT_KEY"), "{}", fault.message);
}

/// A session that such a provider ends, with this error and this reason.
async fn check_end(name: &str, script: RealtimeScript, error: Option<&str>, reason: &str) {
    let mut stage = Stage::set(script).await;
    stage.start(json!({})).await;
    if let Some(expected) = error {
        let message = stage.error().await;
        assert!(message.contains(expected), "{name}: {message}");
    }
    assert_eq!(stage.closed().await, reason, "{name}");
    let known = stage.peer.raw_lines().join("\n");
    assert!(!known.contains(KEY), "{name}: the key was shown");
    // Another session can be tried.
    stage.start(json!({})).await;
}

fn refusal(head: &str) -> RealtimeScript {
    let refusal = format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\nno {KEY}");
    RealtimeScript { refusal: Some(refusal), ..RealtimeScript::default() }
}

#[tokio::test]
async fn a_refused_connection_ends_the_session_with_the_reason() {
    check_end("401", refusal("401 Unauthorized"), Some("401 Unauthorized"), "error").await;
    check_end("404", refusal("404 Not Found"), Some("may not have a realtime API"), "error").await;
    let moved = refusal("302 Found\r\nlocation: http://elsewhere.example/");
    check_end("a redirect", moved, Some("redirects are not followed"), "error").await;
    check_end("200", refusal("200 OK"), Some("in place of switching"), "error").await;
    check_end("no HTTP", refusal("garbage"), Some("cannot reach"), "error").await;
}

#[tokio::test]
async fn a_provider_that_misbehaves_ends_the_session_with_an_error() {
    let sends = |replies: Vec<RealtimeReply>| {
        let mut script = RealtimeScript::starting();
        script.opening.extend(replies);
        script
    };
    // The head of a frame of 100 MB.
    let mut long = vec![0x81, 127];
    long.extend(100_000_000_u64.to_be_bytes());
    let quotes = json!({ "type": "error", "error": { "message": format!("key {KEY}") } });
    for (name, replies, error, reason) in [
        ("no JSON", vec![Text("{".to_owned())], Some("not an event"), "error"),
        ("no event", vec![event(json!([1]))], Some("not an event"), "error"),
        ("binary", vec![Binary(vec![0; 10])], Some("a binary message of 10 bytes"), "error"),
        ("a long frame", vec![Bytes(long)], Some("connection to the provider was lost"), "error"),
        ("no frame", vec![Bytes(vec![0xff; 64])], Some("was lost"), "error"),
        ("cut", vec![Cut], Some("was lost"), "error"),
        ("closed", vec![Close("")], None, "transport_closed"),
        ("closed with words", vec![Close("time is up")], Some("time is up"), "transport_closed"),
        ("quotes the key", vec![event(quotes), Close("")], Some("key ***"), "transport_closed"),
    ] {
        check_end(name, sends(replies), error, reason).await;
    }
}

#[tokio::test]
async fn audio_that_is_not_of_whole_samples_ends_the_session() {
    let mut stage = Stage::started(speaking()).await;
    stage.call("thread/realtime/appendText", json!({ "text": "Speak." })).await;
    let message = stage.error().await;
    assert!(message.contains("16-bit samples"), "{message}");
    assert_eq!(stage.closed().await, "error");
}

#[tokio::test]
async fn an_error_event_does_not_end_the_session() {
    let failed = json!({ "type": "error", "error": { "message": "too loud", "code": "loud" } });
    let script = RealtimeScript::starting().reply("input_audio_buffer.append", vec![event(failed)]);
    let mut stage = Stage::started(script).await;
    stage.call("thread/realtime/appendAudio", chunk("AAECAw==")).await;
    assert_eq!(stage.error().await, "too loud (`loud`)");
    stage.call("thread/realtime/appendText", json!({ "text": "Sorry." })).await;
    stage.realtime.message("conversation.item.create").await;
}

#[tokio::test]
async fn a_provider_that_never_answers_can_be_stopped_and_its_inputs_are_bounded() {
    let script = RealtimeScript { is_silent: true, ..RealtimeScript::default() };
    let mut stage = Stage::set(script).await;
    stage.start(json!({})).await;
    let mut accepted = 0;
    let fault = loop {
        let mut params = chunk("AAECAw==");
        params["threadId"] = json!(stage.thread);
        match stage.peer.try_call("thread/realtime/appendAudio", params).await {
            Ok(_) => accepted += 1,
            Err(fault) => break fault,
        }
    };
    assert_eq!(accepted, 32);
    assert!(fault.message.contains("wait for thread/realtime/started"), "{}", fault.message);
    stage.call("thread/realtime/stop", json!({})).await;
    assert_eq!(stage.closed().await, "requested");
}

#[tokio::test]
async fn a_session_ends_with_its_thread() {
    for method in ["thread/archive", "thread/delete"] {
        let mut stage = Stage::started(RealtimeScript::starting()).await;
        // A thread is stored with its first turn.
        stage.peer.run_turn(&stage.thread, "Hello.").await;
        stage.call(method, json!({})).await;
        assert_eq!(stage.closed().await, "thread_closed", "{method}");
        stage.realtime.logged(|entry| entry["end"] == true).await;
    }
}

#[tokio::test]
async fn a_session_ends_with_the_connection_that_started_it() {
    let mut stage = Stage::set(RealtimeScript::starting()).await;
    let mut other = connect(&stage.server).await;
    other.call("thread/resume", json!({ "threadId": stage.thread })).await;
    let params = json!({ "threadId": stage.thread, "outputModality": "audio" });
    other.call("thread/realtime/start", params).await;
    other.expect("thread/realtime/started").await;
    drop(other);
    assert_eq!(stage.closed().await, "client_disconnected");
    stage.realtime.logged(|entry| entry["end"] == true).await;
}

#[tokio::test]
async fn a_session_ends_with_the_server() {
    let mut stage = Stage::started(RealtimeScript::starting()).await;
    stage.server.server().drain(std::time::Duration::from_secs(60)).await;
    assert_eq!(stage.closed().await, "shutting_down");
    let params = stage.params(&json!({}));
    let fault = stage.peer.refused("thread/realtime/start", params).await;
    assert_eq!(fault.code, -32001);
}

const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\n";

fn calling(head: &str, answer: &str) -> RealtimeScript {
    let length = answer.len();
    let call =
        format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}");
    RealtimeScript { call, ..well_spoken() }
}

#[tokio::test]
async fn a_call_is_offered_answered_and_ended() {
    let head = "201 Created\r\nlocation: /v1/realtime/calls/rtc_7";
    let mut stage = Stage::set(calling(head, "v=0\r\nanswer")).await;
    stage.start(json!({ "transport": { "type": "webrtc", "sdp": OFFER } })).await;
    let sdp = stage.peer.expect("thread/realtime/sdp").await;
    assert_eq!(sdp["sdp"], "v=0\r\nanswer");
    stage.peer.expect("thread/realtime/started").await;
    let offered =
        stage.realtime.logged(|entry| entry["request"] == "POST /v1/realtime/calls").await;
    let body = offered["body"].as_str().unwrap();
    assert!(body.contains(OFFER) && body.contains("\"voice\":\"marin\""), "{body}");
    stage.realtime.logged(|entry| entry["request"] == "GET /v1/realtime?call_id=rtc_7").await;
    stage.call("thread/realtime/appendText", json!({ "text": "Speak." })).await;
    stage.peer.expect("thread/realtime/transcript/done").await;
    let message = stage.refused("thread/realtime/appendAudio", chunk("AAECAw==")).await;
    assert!(message.contains("WebRTC"), "{message}");
    stage.call("thread/realtime/stop", json!({})).await;
    assert_eq!(stage.closed().await, "requested");
    let hangup = "POST /v1/realtime/calls/rtc_7/hangup";
    stage.realtime.logged(|entry| entry["request"] == hangup).await;
}

#[tokio::test]
async fn a_call_that_is_not_answered_ends_the_session() {
    for (head, answer, expected) in [
        ("201 Created", "v=0", "Location"),
        ("201 Created\r\nlocation: /calls/a%20b", "v=0", "Location"),
        ("201 Created\r\nlocation: /calls/rtc_1", "{}", "v=0"),
        ("400 Bad Request", "bad offer", "bad offer"),
        ("302 Found\r\nlocation: http://x.example/", "", "redirects are not followed"),
    ] {
        let mut stage = Stage::set(calling(head, answer)).await;
        stage.start(json!({ "transport": { "type": "webrtc", "sdp": OFFER } })).await;
        let message = stage.error().await;
        assert!(message.contains(expected), "{head}: {message}");
        assert_eq!(stage.closed().await, "error");
    }
}
