//! No sequence of requests spends more than a hard limit and the bound of one request, over every path that the router
//! knows, and others. The paths are read from the router's own patterns, so that a new route is among them.

use std::sync::{Arc, Mutex, PoisonError};

use hyper::Method;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::common::gateway::{Tenant, TestGateway, config};
use crate::common::upstream::{Received, Script, Upstream};

const ROUTER: &str = include_str!("../../src/router.rs");
/// The hard limit, in micro-dollars: a cent.
const LIMIT: u64 = 10_000;
/// The most tokens that a usage may report: what exceeds it is not believed.
const MOST_REPORTED: u64 = 2000;
/// What one request may cost: as much input and output as is believed.
const BOUND: u64 = MOST_REPORTED + 10 * MOST_REPORTED;
const METHODS: [Method; 5] =
    [Method::POST, Method::GET, Method::PUT, Method::PATCH, Method::DELETE];

/// A part of a pattern: any of these words, or the rest of a path.
enum Part {
    Words(Vec<String>),
    Rest,
}

/// The patterns of segments in this part of the router.
fn patterns(code: &str) -> Vec<Vec<Part>> {
    let pattern = |text: &str| -> Option<Vec<Part>> {
        let inside = text.split(']').next().filter(|inside| inside.starts_with('"'))?;
        let part = |part: &str| match part.trim() {
            rest if rest.ends_with("..") => Part::Rest,
            words if words.starts_with('"') => {
                Part::Words(words.split('|').map(|word| word.trim().replace('"', "")).collect())
            }
            _ => Part::Words(vec!["x1".to_owned()]),
        };
        Some(inside.split(',').map(part).collect())
    };
    code.split('[').skip(1).filter_map(pattern).collect()
}

/// The part of the router from one mark to another.
fn code(from: &str, to: &str) -> &'static str {
    let code = ROUTER.split(from).nth(1).expect("a mark of the router");
    code.split(to).next().expect("code")
}

/// All paths of the router's patterns, and some that no pattern has.
fn paths() -> Vec<String> {
    let mut all = paths_of(code("fn makes(", "#[cfg(test)]"));
    all.extend(["/v1/new", "/v1/new/x1/run", "/v1/rerank", "/v1/chat/complete"].map(str::to_owned));
    all
}

fn paths_of(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for pattern in patterns(code) {
        let mut begun = vec!["/v1".to_owned()];
        for part in pattern {
            let extend = |words: &[String]| {
                begun
                    .iter()
                    .flat_map(|path| words.iter().map(move |word| format!("{path}{word}")))
                    .collect()
            };
            begun = match part {
                Part::Words(words) => {
                    let words: Vec<String> = words.iter().map(|word| format!("/{word}")).collect();
                    extend(&words)
                }
                Part::Rest => extend(&["", "/x1", "/x1/run"].map(str::to_owned)),
            };
        }
        all.extend(begun);
    }
    all.sort();
    all.dedup();
    all
}

/// Costs nothing: it only counts tokens.
fn only_counts(path: &str) -> bool {
    path.ends_with("/count_tokens") || path.ends_with("/responses/input_tokens")
}

/// What the upstream has generated, by its own count.
#[derive(Debug, Default)]
struct Generated {
    cost: u64,
    by_path: Vec<(String, u64)>,
}

/// An upstream that generates for every body with a model, whatever the path, by each method that changes something.
async fn upstream(seed: u64, lies: bool) -> (Upstream, Arc<Mutex<Generated>>) {
    let generated = Arc::<Mutex<Generated>>::default();
    let (random, shared) = (Mutex::new(StdRng::seed_from_u64(seed)), Arc::clone(&generated));
    let answering = move |received: &Received| {
        let body = serde_json::from_slice::<Value>(&received.body).unwrap_or_default();
        let has_output =
            !["/embeddings", "/moderations"].iter().any(|end| received.path.ends_with(end));
        let most = if has_output { most_output(&received.path, &body) } else { 0 };
        let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
        let output = match lies && random.random_ratio(1, 3) {
            true => random.random_range(0..=MOST_REPORTED),
            false => random.random_range(0..=most),
        };
        let input = if lies { random.random_range(1..=MOST_REPORTED) } else { 1 };
        let has_model = body["model"].is_string();
        let changes = matches!(received.method, Method::POST | Method::PUT | Method::PATCH);
        let generates = has_model && changes && !only_counts(&received.path);
        if generates {
            let mut generated = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let cost = input + 10 * output;
            generated.cost += cost;
            generated.by_path.push((format!("{} {}", received.method, received.path), cost));
        }
        let path = &*received.path;
        let is_old =
            ["/completions", "/embeddings", "/moderations"].iter().any(|end| path.ends_with(end));
        let usage = match (generates, is_old) {
            (false, _) => Value::Null,
            (_, true) => json!({
                "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            }),
            _ => json!({ "input_tokens": input, "output_tokens": output }),
        };
        Script::json(&json!({ "object": "list", "data": [], "choices": [], "usage": usage }))
    };
    (Upstream::answering(answering).await, generated)
}

/// The most output of a model whose server follows only the limits of its wire, and answers each prompt.
fn most_output(path: &str, body: &Value) -> u64 {
    let followed: &[&str] = match path {
        "/v1/chat/completions" => &["max_completion_tokens", "max_tokens"],
        "/v1/completions" | "/v1/messages" => &["max_tokens"],
        path if path.starts_with("/v1/responses") => &["max_output_tokens"],
        _ => &LIMITS,
    };
    let one = followed.iter().filter_map(|name| body[*name].as_u64()).max();
    let prompts = match (path, body["prompt"].as_array()) {
        ("/v1/completions", Some(prompts)) => prompts.len() as u64,
        _ => 1,
    };
    one.unwrap_or(MOST_OUTPUT) * prompts
}

/// The members that limit the output on some wire.
const LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
/// The model's own maximum of output tokens.
const MOST_OUTPUT: u64 = 400;

/// Names some of the limits, of which a server may know none.
fn body(random: &mut StdRng) -> Value {
    let prompt = match random.random_ratio(1, 4) {
        true => json!(["x", "y"]),
        false => json!("x"),
    };
    let mut body = json!({
        "model": "big", "messages": [{ "role": "user", "content": "x" }], "input": "x", "prompt": prompt,
        "query": "x", "voice": "v",
    });
    for name in LIMITS {
        if random.random_ratio(1, 2) {
            body[name] = json!(random.random_range(1..MOST_OUTPUT));
        }
    }
    body
}

async fn start(upstream: &Upstream, named: &str) -> (TestGateway, Tenant) {
    let text = format!(
        "[models.big]\nprice = {{ input = 1.0, output = 10.0 }}\nmax_output_tokens = {MOST_OUTPUT}\n\
         max_reported_tokens = {MOST_REPORTED}\n[server]\npass_through = [{named}]\n"
    );
    let gateway = TestGateway::start(&config(upstream, &text)).await;
    let tenant = gateway.tenant("free").await;
    gateway.hard_limit(&tenant, false, 1).await;
    (gateway, tenant)
}

#[test]
fn the_paths_are_those_of_the_router() {
    // Every arm of the table is a pattern that is read, or has no words of its own.
    let table = code("Route::Api(match segments {", "#[cfg(test)]");
    for arm in table.lines().map(str::trim).filter(|line| line.contains("=>")) {
        assert!(arm.starts_with("[\"") || arm.starts_with("_ "), "an arm of another form: {arm}");
    }
    let paths = paths();
    for path in [
        "/v1/responses",
        "/v1/responses/x1",
        "/v1/chat/completions",
        "/v1/messages/batches/x1/run",
        "/v1/audio/transcriptions",
        "/v1/videos/x1/remix",
        "/v1/vector_stores/x1/file_batches",
        "/v1/evals/x1/runs",
        "/v1/realtime/x1",
    ] {
        assert!(paths.iter().any(|known| known == path), "{path}: {paths:?}");
    }
}

#[tokio::test]
async fn no_sequence_of_requests_spends_more_than_a_limit_and_one_request() {
    let paths = paths();
    for seed in 0..8 {
        let (upstream, generated) = upstream(seed, true).await;
        // Without a name and with one: what the operator opens counts, too.
        let named = ["", "\"/v1/rerank\", \"/v1/new/*\", \"/v1/realtime/*\""][seed as usize % 2];
        let (gateway, tenant) = start(&upstream, named).await;
        let mut random = StdRng::seed_from_u64(seed);
        let posts = paths.iter().map(|path| (Method::POST, path));
        let mut requests: Vec<(Method, &String)> = posts.collect();
        for _ in 0..paths.len() / 2 {
            let method = METHODS[random.random_range(0..METHODS.len())].clone();
            requests.push((method, &paths[random.random_range(0..paths.len())]));
        }
        requests.shuffle(&mut random);
        let (mut refused, mut requests_sent) = (0, 0);
        for (method, path) in requests {
            let headers = [("content-type", "application/json")];
            let body = body(&mut random).to_string();
            let answer = gateway.with(&tenant, method.clone(), path, &headers, body).await;
            gateway.is_idle().await;
            requests_sent += 1;
            refused += usize::from(answer.status == 429);
            let cost = gateway.cost(&tenant.organization).await;
            let generated = generated.lock().unwrap();
            let context =
                format!("{seed}: {method} {path} {}: {:?}", answer.status, generated.by_path);
            // An answer without a usage is charged for what was sent.
            let unreported = requests_sent;
            assert!((generated.cost..=generated.cost + unreported).contains(&cost), "{context}");
            assert!(cost <= LIMIT + BOUND, "{context}");
        }
        let cost = generated.lock().unwrap().cost;
        assert!(cost > LIMIT / 2 && refused > 20, "{seed}: {cost}, {refused} refused");
    }
}

/// Where all that a request may cost is reserved, not even requests at the same time exceed the limit.
#[tokio::test]
async fn requests_at_the_same_time_spend_no_more_than_the_limit() {
    let paths = paths_of(code("fn makes(", "fn manages("));
    for seed in 0..4 {
        let (upstream, generated) = upstream(seed, false).await;
        let (gateway, tenant) = start(&upstream, "").await;
        let gateway = Arc::new(gateway);
        let mut random = StdRng::seed_from_u64(seed);
        let mut requests: Vec<&String> = (0..8).flat_map(|_| &paths).collect();
        requests.shuffle(&mut random);
        for some in requests.chunks(16) {
            let mut clients = tokio::task::JoinSet::new();
            for path in some {
                let (gateway, tenant) = (Arc::clone(&gateway), tenant.clone());
                let (path, body) = (path.to_string(), body(&mut random));
                clients.spawn(async move { gateway.post(&tenant, &path, &body).await });
            }
            clients.join_all().await;
        }
        gateway.is_idle().await;
        let cost = gateway.cost(&tenant.organization).await;
        let generated = generated.lock().unwrap();
        assert_eq!(cost, generated.cost, "{seed}: {:?}", generated.by_path);
        assert!(cost <= LIMIT && cost > LIMIT / 4, "{seed}: {cost} {:?}", generated.by_path);
    }
}
