//! A thousand random turns against servers with each peculiarity that real ones have: texts, reasoning and calls arrive as
//! the server meant them, whatever the form.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::TestEnvironment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::streams::{
    DONE, block, candidate, chunk, message_end, message_start, says, sse, text_block, tool_block,
};
use super::{configure, last_message};

/// Turns with each peculiarity; together a thousand.
const TURNS: usize = 32;

/// A response as the server means it.
#[derive(Clone, Debug)]
struct Meant {
    number: usize,
    reasoning: String,
    text: String,
    /// Steps of plans: each is a call.
    calls: Vec<String>,
}

impl Meant {
    fn id(&self, call: usize) -> String {
        format!("call_{}_{call}", self.number)
    }

    fn arguments(step: &str) -> String {
        json!({ "plan": [{ "step": step, "status": "pending" }] }).to_string()
    }
}

/// A linear congruential generator: the same turns in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 12] = [
            "word",
            "a \"quoted\" one",
            "\u{e9}\u{1f600}",
            "{\"json\": [1]}",
            "back\\slash",
            "line\nbreak",
            "<think>",
            "data: x",
            "[DONE]",
            "\t",
            "\u{2028}",
            "null",
        ];
        let parts: Vec<&str> =
            (0..1 + self.below(6)).map(|_| PARTS[self.below(PARTS.len())]).collect();
        format!("t{}", parts.join(" ")).trim_end().to_owned()
    }

    fn meant(&mut self, number: usize, is_last: bool) -> Meant {
        let calls = if is_last { 0 } else { 1 + self.below(3) };
        Meant {
            number,
            reasoning: self.text(),
            text: self.text(),
            calls: (0..calls)
                .map(|_| self.text().replace(['\n', '\t', '\u{2028}'], " ").trim_end().to_owned())
                .collect(),
        }
    }
}

/// Pieces of a text, none of which is empty.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(5).map(|piece| piece.iter().collect()).collect()
}

type Write = fn(&Meant) -> String;

/// The calls of a response as deltas of Chat Completions: `form` writes those of one call.
fn chat(
    meant: &Meant,
    reasoning: &str,
    form: fn(&Meant, usize) -> Vec<Value>,
    finish: &str,
) -> Vec<Value> {
    let mut events = vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if !reasoning.is_empty() {
        events.extend(
            pieces(&meant.reasoning).iter().map(|it| chunk(json!({ reasoning: it }), Value::Null)),
        );
    }
    events
        .extend(pieces(&meant.text).iter().map(|it| chunk(json!({ "content": it }), Value::Null)));
    for call in 0..meant.calls.len() {
        let deltas = form(meant, call).into_iter();
        events.extend(deltas.map(|it| chunk(json!({ "tool_calls": [it] }), Value::Null)));
    }
    events.push(chunk(json!({}), finish.into()));
    events
}

/// A call in pieces: its head with an index, then its arguments.
fn in_pieces(meant: &Meant, call: usize) -> Vec<Value> {
    let arguments = Meant::arguments(&meant.calls[call]);
    let head = json!({ "index": call, "id": meant.id(call), "type": "function",
        "function": { "name": "update_plan", "arguments": "" } });
    let rest = pieces(&arguments);
    let rest =
        rest.iter().map(|piece| json!({ "index": call, "function": { "arguments": piece } }));
    [head].into_iter().chain(rest).collect()
}

fn whole(meant: &Meant, call: usize, index: Value, id: &str, arguments: Value) -> Vec<Value> {
    let mut delta = json!({ "id": id, "type": "function",
        "function": { "name": "update_plan", "arguments": arguments } });
    if !index.is_null() {
        delta["index"] = index;
    }
    debug_assert!(call < meant.calls.len());
    vec![delta]
}

fn finish(meant: &Meant) -> &'static str {
    if meant.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn plain_chat(meant: &Meant, reasoning: &str) -> String {
    sse(&chat(meant, reasoning, in_pieces, finish(meant))) + DONE
}

/// Peculiarities of Chat Completions.
const CHAT: [(&str, Write); 16] = [
    ("none", |it| plain_chat(it, "")),
    ("`reasoning_content`", |it| plain_chat(it, "reasoning_content")),
    ("`reasoning`", |it| plain_chat(it, "reasoning")),
    ("no index", |it| {
        sse(&chat(
            it,
            "",
            |it, at| whole(it, at, Value::Null, &it.id(at), Meant::arguments(&it.calls[at]).into()),
            finish(it),
        )) + DONE
    }),
    ("the same index", |it| {
        sse(&chat(
            it,
            "",
            |it, at| whole(it, at, 0.into(), &it.id(at), Meant::arguments(&it.calls[at]).into()),
            finish(it),
        )) + DONE
    }),
    ("arguments as an object", |it| {
        sse(&chat(
            it,
            "",
            |it, at| {
                let arguments = serde_json::from_str(&Meant::arguments(&it.calls[at])).unwrap();
                whole(it, at, at.into(), &it.id(at), arguments)
            },
            finish(it),
        )) + DONE
    }),
    ("an empty id in later pieces", |it| {
        sse(&chat(
            it,
            "",
            |it, at| {
                let mut pieces = in_pieces(it, at);
                pieces[1..].iter_mut().for_each(|piece| piece["id"] = "".into());
                pieces
            },
            finish(it),
        )) + DONE
    }),
    ("ids that begin again", |it| {
        sse(&chat(
            it,
            "",
            |it, at| {
                whole(
                    it,
                    at,
                    at.into(),
                    &format!("call_{at}"),
                    Meant::arguments(&it.calls[at]).into(),
                )
            },
            finish(it),
        )) + DONE
    }),
    ("the name after the arguments", |it| {
        sse(&chat(
            it,
            "",
            |it, at| {
                let mut pieces = in_pieces(it, at);
                let name =
                    pieces[0]["function"].as_object_mut().unwrap().shift_remove("name").unwrap();
                pieces.push(json!({ "index": at, "function": { "name": name, "arguments": "" } }));
                pieces
            },
            finish(it),
        )) + DONE
    }),
    ("the wrong finish reason", |it| sse(&chat(it, "", in_pieces, "end_turn")) + DONE),
    ("no end of the stream", |it| sse(&chat(it, "", in_pieces, finish(it)))),
    ("comments and CRLF", |it| {
        let events = chat(it, "", in_pieces, finish(it));
        let events: Vec<String> = events
            .iter()
            .map(|event| format!(": PROCESSING\r\n\r\ndata: {event}\r\n\r\n"))
            .collect();
        events.concat() + "data: [DONE]\r\n\r\n"
    }),
    ("verdicts of filters", |it| {
        let mut events = chat(it, "", in_pieces, finish(it));
        events.insert(
            0,
            json!({ "id": "", "choices": [], "prompt_filter_results": [{ "prompt_index": 0 }] }),
        );
        events.insert(3, json!({ "choices": [{ "index": 0, "finish_reason": null, "content_filter_offsets": {} }] }));
        sse(&events) + DONE
    }),
    ("usage in a choice", |it| {
        let mut events = chat(it, "", in_pieces, finish(it));
        events.last_mut().unwrap()["choices"][0]["usage"] =
            json!({ "prompt_tokens": 9, "completion_tokens": 3 });
        sse(&events) + DONE
    }),
    ("content as a list", |it| {
        let mut events = chat(it, "", in_pieces, finish(it));
        for event in &mut events {
            let delta = &mut event["choices"][0]["delta"];
            if let Some(text) = delta["content"].as_str().filter(|text| !text.is_empty()) {
                delta["content"] = json!([{ "type": "text", "text": text }]);
            }
        }
        let thought =
            json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": it.reasoning }] }]);
        events.insert(1, chunk(json!({ "content": thought }), Value::Null));
        sse(&events) + DONE
    }),
    ("a text with the finish reason", |it| {
        let mut events = chat(it, "", in_pieces, finish(it));
        let last = events.pop().unwrap();
        let mut joined = events.pop().unwrap();
        joined["choices"][0]["finish_reason"] = last["choices"][0]["finish_reason"].clone();
        events.push(joined);
        sse(&events) + DONE
    }),
];

fn messages(meant: &Meant) -> Vec<Value> {
    let deltas: Vec<Value> = pieces(&meant.text)
        .iter()
        .map(|text| json!({ "type": "text_delta", "text": text }))
        .collect();
    let mut events = vec![message_start()];
    events.extend(block(0, json!({ "type": "text", "text": "" }), &deltas));
    for (at, step) in meant.calls.iter().enumerate() {
        events.extend(tool_block(at + 1, &meant.id(at), "update_plan", &Meant::arguments(step)));
    }
    events.extend(message_end(if meant.calls.is_empty() { "end_turn" } else { "tool_use" }));
    events
}

/// Peculiarities of Messages.
const MESSAGES: [(&str, Write); 8] = [
    ("none", |it| sse(&messages(it))),
    ("no names of events", |it| {
        messages(it).iter().map(|event| format!("data: {event}\n\n")).collect()
    }),
    ("a start without an input", |it| {
        let mut events = messages(it);
        for event in &mut events {
            if let Some(start) = event["content_block"].as_object_mut() {
                start.shift_remove("input");
            }
        }
        sse(&events)
    }),
    ("thinking without a signature", |it| {
        let delta = json!({ "type": "thinking_delta", "thinking": it.reasoning });
        let mut events = messages(it);
        for event in &mut events {
            if let Some(index) = event["index"].as_u64() {
                event["index"] = (index + 1).into();
            }
        }
        events.splice(1..1, block(0, json!({ "type": "thinking", "thinking": "" }), &[delta]));
        sse(&events)
    }),
    ("pings and unknown events", |it| {
        let more = [json!({ "type": "ping" }), json!({ "type": "news", "index": 0 })];
        sse(&messages(it)
            .into_iter()
            .flat_map(|event| [vec![event], more.to_vec()].concat())
            .collect::<Vec<_>>())
    }),
    ("no last event", |it| {
        let mut events = messages(it);
        events.pop();
        sse(&events)
    }),
    ("indices that jump", |it| {
        let mut events = messages(it);
        for event in &mut events {
            if let Some(index) = event["index"].as_u64() {
                event["index"] = (index * 3 + 2).into();
            }
        }
        sse(&events)
    }),
    ("an empty block", |it| {
        let mut events = messages(it);
        let at = events.len() - 2;
        events.splice(at..at, text_block(90, ""));
        sse(&events)
    }),
];

fn gemini(meant: &Meant, has_ids: bool) -> Vec<Value> {
    let texts = pieces(&meant.text);
    let mut events: Vec<Value> =
        texts.iter().map(|text| candidate(json!([{ "text": text }]), Value::Null)).collect();
    let calls = meant.calls.iter().enumerate().map(|(at, step)| {
        let arguments: Value = serde_json::from_str(&Meant::arguments(step)).unwrap();
        let mut call = json!({ "name": "update_plan", "args": arguments });
        if has_ids {
            call["id"] = meant.id(at).into();
        }
        json!({ "functionCall": call })
    });
    let calls: Vec<Value> = calls.collect();
    events.push(candidate(calls.into(), "STOP".into()));
    events
}

/// Peculiarities of Gemini.
const GEMINI: [(&str, Write); 6] = [
    ("none", |it| sse(&gemini(it, true))),
    ("no ids", |it| sse(&gemini(it, false))),
    ("CRLF", |it| gemini(it, false).iter().map(|event| format!("data: {event}\r\n\r\n")).collect()),
    ("an end of its own", |it| {
        let mut events = gemini(it, true);
        let last = events.last_mut().unwrap();
        last["candidates"][0].as_object_mut().unwrap().shift_remove("finishReason");
        let mut end = candidate(json!([]), "STOP".into());
        end["candidates"][0]["content"] = json!({ "role": "model" });
        events.push(end);
        sse(&events)
    }),
    ("thoughts, and a signature at the end", |it| {
        let mut events = gemini(it, true);
        events
            .insert(0, candidate(json!([{ "text": it.reasoning, "thought": true }]), Value::Null));
        let at = events.len() - 1;
        if it.calls.is_empty() {
            let signed = json!([{ "text": "", "thoughtSignature": "c2lnbg==" }]);
            events.insert(at, candidate(signed, Value::Null));
        } else {
            events[at]["candidates"][0]["content"]["parts"][0]["thoughtSignature"] =
                "c2lnbg==".into();
        }
        sse(&events)
    }),
    ("no usage", |it| {
        let mut events = gemini(it, true);
        for event in &mut events {
            event.as_object_mut().unwrap().shift_remove("usageMetadata");
        }
        sse(&events)
    }),
];

/// Peculiarities of the Responses API have tests of their own.
const RESPONSES: [(&str, Write); 2] = [
    ("none", |it| {
        let message = says("responses", &it.text);
        let (message, end) = message.split_at(message.rfind("event:").unwrap());
        let calls = it.calls.iter().enumerate().map(|(at, step)| {
            json!({ "type": "response.output_item.done", "output_index": at + 1, "item": {
                "type": "function_call", "call_id": it.id(at), "name": "update_plan",
                "arguments": Meant::arguments(step) } })
        });
        format!("{message}{}{end}", sse(&calls.collect::<Vec<_>>()))
    }),
    ("items at the end alone", |it| {
        let message = json!({ "type": "message", "id": "m", "role": "assistant",
            "content": [{ "type": "output_text", "text": it.text }] });
        let calls = it.calls.iter().enumerate().map(|(at, step)| {
            json!({ "type": "function_call", "call_id": it.id(at), "name": "update_plan",
                "arguments": Meant::arguments(step) })
        });
        let output: Vec<Value> = [message].into_iter().chain(calls).collect();
        sse(&[json!({ "type": "response.completed", "response": { "id": "r", "output": output } })])
    }),
];

/// A server that answers with random responses, of which every second one has no calls.
async fn server(seed: u64, write: Write) -> (String, Arc<Mutex<Vec<Meant>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let meant = Arc::<Mutex<Vec<Meant>>>::default();
    let log = Arc::clone(&meant);
    tokio::spawn(async move {
        let mut random = Random(seed);
        while let Ok((mut stream, _)) = listener.accept().await {
            if !is_request(&mut stream).await {
                continue;
            }
            let number = log.lock().unwrap().len();
            let response = random.meant(number, number % 2 == 1);
            let body = write(&response);
            log.lock().unwrap().push(response);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, meant)
}

/// Reads a request. Returns whether it asks for a response.
async fn is_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    let end = loop {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return false;
        }
        if let Some(at) = request.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|it| it.lines().next());
    let length = length.map_or(0, |length| length.parse().unwrap());
    while request.len() < end + length {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return false;
        }
    }
    head.starts_with("post")
}

/// Runs turns against a server with a peculiarity, and compares what arrived with what was meant.
async fn check(wire: &str, seed: u64, (name, write): (&str, Write)) {
    let name = &format!("{wire}: {name}");
    let env = TestEnvironment::with_responses(json!([crate::says("Unused.")])).await;
    let (address, meant) = server(seed, write).await;
    configure(&env, wire, &address, "", "request_max_retries = 0\nstream_max_retries = 0");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    for turn in 0..TURNS {
        let end = peer.run_turn(&thread, &format!("Turn {turn}.")).await;
        assert_eq!(end["status"], "completed", "{name}, turn {turn}: {end}");
    }
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let meant = meant.lock().unwrap().clone();
    assert_eq!(meant.len(), 2 * TURNS, "{name}");
    let turns = read["thread"]["turns"].as_array().unwrap().iter();
    for (turn, pair) in turns.zip(meant.chunks(2)) {
        assert_eq!(last_message(turn), pair[1].text, "{name}: {turn}");
    }
    let lines = peer.raw_lines().iter().filter(|line| line.contains("\"turn/plan/updated\""));
    let steps: Vec<String> = lines
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["params"]["plan"][0]["step"].as_str().unwrap().to_owned()
        })
        .collect();
    let expected: Vec<String> = meant.iter().flat_map(|it| it.calls.clone()).collect();
    assert_eq!(steps, expected, "{name}");
    server.stop().await;
}

async fn check_all(wire: &str, quirks: &[(&str, Write)]) {
    for (seed, quirk) in (1..).zip(quirks) {
        check(wire, seed, *quirk).await;
    }
}

#[tokio::test]
async fn random_turns_with_the_reasoning_and_indices_of_chat_completions() {
    check_all("chat", &CHAT[..4]).await;
}

#[tokio::test]
async fn random_turns_with_the_arguments_and_ids_of_chat_completions() {
    check_all("chat", &CHAT[4..8]).await;
}

#[tokio::test]
async fn random_turns_with_the_names_and_ends_of_chat_completions() {
    check_all("chat", &CHAT[8..12]).await;
}

#[tokio::test]
async fn random_turns_with_the_contents_of_chat_completions() {
    check_all("chat", &CHAT[12..]).await;
}

#[tokio::test]
async fn random_turns_with_the_events_of_messages() {
    check_all("messages", &MESSAGES[..4]).await;
}

#[tokio::test]
async fn random_turns_with_the_ends_of_messages() {
    check_all("messages", &MESSAGES[4..]).await;
}

#[tokio::test]
async fn random_turns_with_the_peculiarities_of_gemini() {
    check_all("gemini", &GEMINI).await;
}

#[tokio::test]
async fn random_turns_with_the_responses_api() {
    check_all("responses", &RESPONSES).await;
    let count = CHAT.len() + MESSAGES.len() + GEMINI.len() + RESPONSES.len();
    assert!(count * TURNS >= 1000, "{count} peculiarities");
}
