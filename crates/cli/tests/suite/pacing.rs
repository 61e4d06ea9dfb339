//! Many threads that share a key, against `agentd gateway` with a limit of requests a minute: their
//! requests wait for the limit instead of being refused by it, and use all of it.
//!
//! `cargo xtask soak` runs it as long as a limit of 20 requests a minute needs: it sets [`THREADS`],
//! [`RATE`], [`WARM_UP`] and [`MEASURED`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::common::gateway::{Gateway, configured, key};
use crate::common::{Running, TestEnvironment};
use serde_json::{Value, json};

/// The environment variable with the number of threads.
const THREADS: &str = "SOAK_PACING_THREADS";
/// The environment variable with the limit, in requests a minute.
const RATE: &str = "SOAK_PACING_RATE";
/// The environment variable with the seconds before the figures count.
const WARM_UP: &str = "SOAK_PACING_WARM_UP";
/// The environment variable with the seconds of which the figures are.
const MEASURED: &str = "SOAK_PACING_SECONDS";

/// What clients and the gateway count.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    completed: u64,
    /// Failed turns, and requests that a turn sends again.
    disturbed: u64,
    /// Notifications about waits.
    warnings: u64,
    /// Of the gateway.
    admitted: u64,
    refused: u64,
}

#[test]
fn threads_that_share_a_key_wait_for_its_limit_and_use_all_of_it() {
    let number = |name, default| std::env::var(name).map_or(default, |it| it.parse().unwrap());
    let (threads, rate) = (number(THREADS, 10), number(RATE, 240));
    let (warm_up, measured) = (number(WARM_UP, 5), number(MEASURED, 10));
    let env = TestEnvironment::new();
    let config = configured(&env, &format!("[tiers.free.limits.offline]\nrpm = {rate}\n"));
    let (gateway, _) = Gateway::start(&env, &["--config", &config]);
    let settings = format!(
        "model = \"offline\"\nmodel_provider = \"gateway\"\n[model_providers.gateway]\n\
         name = \"Gateway\"\nbase_url = \"http://{}/v1\"\nexperimental_bearer_token = \"{}\"\n",
        gateway.address,
        key(&gateway)
    );
    std::fs::write(env.home().join("config.toml"), settings).unwrap();
    let mut server = Running::server(&env, &[]);
    let ids: Vec<String> = (0..threads)
        .map(|_| {
            let started = server.call(1, "thread/start", json!({}));
            started["result"]["thread"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut turns: BTreeMap<String, u64> = BTreeMap::new();
    let mut figures = Figures::default();
    // What the bucket holds at the beginning is used up as fast as the threads can.
    ids.iter().for_each(|thread| begin(&mut server, thread));
    work(&mut server, &mut figures, &mut turns, Duration::from_secs(warm_up));
    let before =
        Figures { admitted: count(&gateway, 200), refused: count(&gateway, 429), ..figures };
    println!("the first {warm_up} s: {before:?}");
    turns.clear();
    let began = Instant::now();
    work(&mut server, &mut figures, &mut turns, Duration::from_secs(measured));
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let admitted = count(&gateway, 200) - before.admitted;
    let refused = count(&gateway, 429) - before.refused;
    let disturbed = figures.disturbed - before.disturbed;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (a_minute, share) =
        (admitted as f64 / minutes, 100.0 * admitted as f64 / (minutes * rate as f64));
    let (least, most) = (turns.values().min(), turns.values().max());
    println!(
        "then {measured} s: {threads} threads, {a_minute:.1} of {rate} requests a minute ({share:.1} %), \
         {} turns completed, {refused} refusals of the gateway, {disturbed} turns disturbed by one, {} \
         warnings about waits, {} threads had {least:?} to {most:?} turns",
        figures.completed - before.completed,
        figures.warnings - before.warnings,
        turns.len(),
    );
    assert_eq!(refused, 0, "the gateway refuses no request");
    assert_eq!(disturbed, 0, "no turn learns of a refusal");
    assert!(share >= 95.0, "{share}");
    drop(server);
    gateway.end();
}

fn begin(server: &mut Running, thread: &str) {
    let params = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go on." }] });
    server.send(&json!({ "id": 2, "method": "turn/start", "params": params }).to_string());
}

/// Each thread begins a turn when its last one has ended.
fn work(
    server: &mut Running,
    figures: &mut Figures,
    turns: &mut BTreeMap<String, u64>,
    time: Duration,
) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let Some(message) = server.message_within(left) else { continue };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("turn/completed") => {
                let is_completed = params["turn"]["status"] == "completed";
                figures.completed += u64::from(is_completed);
                figures.disturbed += u64::from(!is_completed);
                let thread = text(&params["threadId"]);
                begin(server, &thread);
                *turns.entry(thread).or_default() += 1;
            }
            Some("error") => figures.disturbed += 1,
            Some("warning") => figures.warnings += 1,
            _ => assert_eq!(message.get("error"), None, "{message}"),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Requests that the gateway answered with a status.
fn count(gateway: &Gateway, status: u16) -> u64 {
    gateway.metric(&format!("gateway_requests_total{{model=\"offline\",status=\"{status}\"}} "))
}
