//! No sequence of requests spends more than a hard limit and one request, and every cent that a backend reports is
//! charged once, whichever route a request takes to a backend of whichever wire.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use wire::Wire;

use super::dialects::{path, request, send};
use super::start;
use crate::common::upstream::{Received, Script, Step, Upstream, event};

/// A cent, in micro-dollars.
const LIMIT: u64 = 10_000;
/// Output tokens of the model, and the most that a usage tells.
const MOST_OUTPUT: u64 = 300;
const MOST_INPUT: u64 = 200;
const BOUND: u64 = 2 * MOST_INPUT + 10 * MOST_OUTPUT;

/// The limit that a server of a wire follows; without one it generates as much as the model can.
fn limit(wire: Wire, body: &Value) -> u64 {
    let limit = match wire {
        Wire::Responses => &body["max_output_tokens"],
        Wire::Chat => match &body["max_completion_tokens"] {
            Value::Null => &body["max_tokens"],
            limit => limit,
        },
        Wire::Messages => &body["max_tokens"],
        Wire::Gemini => &body["generationConfig"]["maxOutputTokens"],
    };
    limit.as_u64().unwrap_or(10 * MOST_OUTPUT)
}

fn usage(wire: Wire, input: u64, output: u64) -> Value {
    match wire {
        Wire::Responses | Wire::Messages => {
            json!({ "input_tokens": input, "output_tokens": output })
        }
        Wire::Chat => json!({ "prompt_tokens": input, "completion_tokens": output,
            "total_tokens": input + output }),
        // Half of the output are thoughts.
        Wire::Gemini => {
            json!({ "promptTokenCount": input, "candidatesTokenCount": output - output / 2,
            "thoughtsTokenCount": output / 2, "totalTokenCount": input + output })
        }
    }
}

/// An answer that reports these tokens and says nothing, which breaks off after its usage if `is_cut`.
fn reported(wire: Wire, stream: bool, (input, output): (u64, u64), is_cut: bool) -> Script {
    let usage = usage(wire, input, output);
    let whole = match wire {
        Wire::Responses => {
            json!({ "id": "resp_9", "object": "response", "status": "completed", "model": "up",
            "output": [], "usage": usage })
        }
        Wire::Chat => {
            json!({ "id": "c", "object": "chat.completion", "model": "up", "usage": usage,
            "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "" } }] })
        }
        Wire::Messages => {
            json!({ "id": "m", "type": "message", "role": "assistant", "model": "up", "content": [],
            "stop_reason": "end_turn", "usage": usage })
        }
        Wire::Gemini => json!({ "responseId": "g", "usageMetadata": usage,
            "candidates": [{ "finishReason": "STOP", "content": { "role": "model", "parts": [] } }] }),
    };
    if !stream {
        return Script::json(&whole);
    }
    let events = match wire {
        Wire::Responses => vec![json!({ "type": "response.completed", "response": whole })],
        Wire::Chat => vec![
            json!({ "id": "c", "object": "chat.completion.chunk", "model": "up",
                "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
            json!({ "id": "c", "object": "chat.completion.chunk", "model": "up", "choices": [], "usage": usage }),
        ],
        Wire::Messages => vec![
            json!({ "type": "message_start", "message": { "id": "m", "type": "message", "role": "assistant",
                "model": "up", "content": [], "usage": { "input_tokens": input, "output_tokens": 1 } } }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": output } }),
            json!({ "type": "message_stop" }),
        ],
        Wire::Gemini => vec![whole],
    };
    let mut steps: Vec<Step> =
        events.iter().map(|value| Step::Bytes(event(value).into())).collect();
    if is_cut {
        steps.push(Step::Cut);
    }
    Script::stream(steps)
}

/// A backend of a wire that generates as much as it may, and counts what it generated.
async fn upstream(wire: Wire, seed: u64) -> (Upstream, Arc<Mutex<u64>>) {
    let generated = Arc::<Mutex<u64>>::default();
    let (random, shared) = (Mutex::new(StdRng::seed_from_u64(seed)), Arc::clone(&generated));
    let answering = move |received: &Received| {
        let body: Value = serde_json::from_slice(&received.body).unwrap_or_default();
        let stream = body["stream"] == true || received.path.contains("streamGenerate");
        let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
        let output = random.random_range(1..=limit(wire, &body));
        let input = random.random_range(1..=MOST_INPUT);
        *shared.lock().unwrap_or_else(PoisonError::into_inner) += input + 10 * output;
        reported(wire, stream, (input, output), random.random_ratio(1, 4))
    };
    (Upstream::answering(answering).await, generated)
}

/// A request with a limit of its output in one of the spellings that its wire has, or without one.
fn body(random: &mut StdRng, caller: Wire, stream: bool) -> Value {
    let mut body = request(caller, stream);
    let most = random.random_range(1..=MOST_OUTPUT);
    let is_named = random.random_ratio(2, 3);
    match caller {
        Wire::Responses if is_named => body["max_output_tokens"] = json!(most),
        Wire::Responses => body["max_output_tokens"] = Value::Null,
        Wire::Chat => {
            body["max_tokens"] = Value::Null;
            let name =
                if random.random_ratio(1, 2) { "max_tokens" } else { "max_completion_tokens" };
            if is_named {
                body[name] = json!(most);
            }
        }
        Wire::Messages => body["max_tokens"] = json!(most),
        Wire::Gemini if is_named => {
            let name =
                if random.random_ratio(1, 2) { "maxOutputTokens" } else { "max_output_tokens" };
            body["generationConfig"] = json!({ name: most });
        }
        Wire::Gemini => {
            body.as_object_mut().unwrap().remove("generationConfig");
        }
    }
    body
}

#[tokio::test]
async fn no_route_spends_more_than_a_limit_and_one_request() {
    for backend in Wire::ALL {
        for seed in 0..2 {
            let (upstream, generated) = upstream(backend, seed).await;
            let settings =
                format!("max_output_tokens = {MOST_OUTPUT}\nmax_reported_tokens = 10000\n");
            let gateway = start(&upstream, backend, &settings).await;
            let tenant = gateway.tenant("free").await;
            gateway.hard_limit(&tenant, false, 1).await;
            let mut random = StdRng::seed_from_u64(seed);
            let mut refused = 0;
            for _ in 0..40 {
                let caller = Wire::ALL[random.random_range(0..4)];
                // A server of Gemini reads its own second spelling, which the script does not.
                let stream = random.random_ratio(1, 2);
                let mut body = body(&mut random, caller, stream);
                if caller == Wire::Gemini && backend == Wire::Gemini {
                    let limit = body["generationConfig"]["max_output_tokens"].clone();
                    if !limit.is_null() {
                        body["generationConfig"] = json!({ "maxOutputTokens": limit });
                    }
                }
                let context =
                    format!("{caller} to {backend}, {seed}, {}: {body}", path(caller, stream));
                let answer =
                    status_of(&gateway, &tenant, caller, stream, &body).await.unwrap_or(200);
                gateway.is_idle().await;
                refused += usize::from(answer == 429);
                assert!(matches!(answer, 200 | 429), "{context}: {answer}");
                let cost = gateway.cost(&tenant.organization).await;
                assert_eq!(cost, *generated.lock().unwrap(), "{context}");
                assert!(cost <= LIMIT + BOUND, "{context}: {cost}");
            }
            assert!(refused > 5, "{backend}, {seed}: {refused} refused");
        }
    }
}

/// The status of an answer; `None` for a stream that broke off.
async fn status_of(
    gateway: &crate::common::gateway::TestGateway,
    tenant: &crate::common::gateway::Tenant,
    caller: Wire,
    stream: bool,
    body: &Value,
) -> Option<u16> {
    if !stream {
        return Some(send(gateway, tenant, caller, stream, body).await.status.as_u16());
    }
    let mut streaming = gateway.stream_from(tenant, path(caller, stream), body).await;
    let status = streaming.status.as_u16();
    let (_, is_regular) = streaming.rest().await;
    is_regular.then_some(status)
}
