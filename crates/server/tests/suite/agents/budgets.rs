//! Budgets of turns with agents: what counts against which, and that they hold.

use super::trees::Random;
use super::*;
use crate::runs;

/// A response that uses so many tokens.
fn costs(tokens: u64, mut response: Value) -> Value {
    let usage = json!({ "usage": { "input_tokens": tokens, "output_tokens": 0 } });
    response["steps"].as_array_mut().unwrap().push(usage);
    response
}

fn unrestricted() -> Value {
    json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" })
}

fn turn(thread: &str, max_total_tokens: u64) -> Value {
    let input = json!([{ "type": "text", "text": "Go." }]);
    json!({ "threadId": thread, "input": input, "maxTotalTokens": max_total_tokens })
}

#[tokio::test]
async fn input_for_a_turn_of_somebody_else_counts_against_the_senders_budget() {
    let root = vec![
        spawn("Start."),
        wait(&["Ada"], 10_000),
        says("It is ready."),
        calls("send_input", json!({ "target": "Ada", "message": "Go on." })),
        runs("touch go"),
        wait(&["Ada"], 60_000),
        says("Never said."),
    ];
    let root = root.into_iter().map(|response| costs(10, response)).collect();
    let mut agent = vec![says("Ready."), runs("while [ ! -e go ]; do sleep 0.01; done")];
    agent.extend((0..9).map(|_| runs("true")));
    let agent = agent.into_iter().map(|response| costs(10_000, response)).collect();
    let environment = environment(vec![root, agent]).await;
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(unrestricted()).await;
    assert_eq!(peer.run_turn(&thread, "Prepare.").await["status"], "completed");
    let agent = parsed(&outputs(&environment, &thread)[0])["agent_id"].clone();
    let agent = agent.as_str().unwrap();
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    // The user's own turn, with a limit that the sender's work does not reach.
    let own = peer.call("turn/start", turn(agent, 10_000_000)).await["turn"]["id"].clone();
    peer.expect_where("item/started", |params| params["item"]["type"] == "commandExecution").await;
    let end = peer.run_turn_with(turn(&thread, 25_000)).await;
    assert_eq!(end["error"]["agentErrorInfo"], "UsageLimitExceeded", "{end}");
    let end = peer.turn_end(own.as_str().unwrap()).await;
    let message = end["error"]["message"].as_str().unwrap();
    assert!(message.contains("25000 tokens"), "{message}");
    let requests = environment.model().requests();
    let of_agent = requests.iter().filter(|request| request["prompt_cache_key"] == agent).count();
    // "Ready.", the command, and the three requests that use up the sender's budget.
    assert_eq!(of_agent, 5);
}

#[tokio::test]
async fn the_limit_of_input_for_an_agent_is_none_for_its_tree() {
    let root = vec![spawn("Work."), wait(&["Ada"], 10_000), says("Done.")];
    let root = root.into_iter().map(|response| costs(10, response)).collect();
    let mut agent = vec![runs("while [ ! -e go ]; do sleep 0.01; done")];
    agent.extend((0..9).map(|_| runs("touch went")));
    let agent = agent.into_iter().map(|response| costs(10_000, response)).collect();
    let environment = environment(vec![root, agent]).await;
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(unrestricted()).await;
    let tree = peer.call("turn/start", turn(&thread, 1_000_000)).await["turn"]["id"].clone();
    peer.expect_where("item/started", |params| params["item"]["tool"] == "wait").await;
    let agent = parsed(&outputs(&environment, &thread)[0])["agent_id"].clone();
    let agent = agent.as_str().unwrap();
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    let joined = peer.call("turn/start", turn(agent, 15_000)).await["turn"]["id"].clone();
    let cwd = peer.call("thread/read", json!({ "threadId": agent })).await["thread"]["cwd"].clone();
    std::fs::write(std::path::Path::new(cwd.as_str().unwrap()).join("go"), "").unwrap();
    let end = peer.turn_end(joined.as_str().unwrap()).await;
    assert!(end["error"]["message"].as_str().unwrap().contains("15000 tokens"), "{end}");
    let end = peer.turn_end(tree.as_str().unwrap()).await;
    assert_eq!(end["status"], "completed", "{end}");
}

#[tokio::test]
async fn what_an_agent_used_before_it_was_closed_is_charged() {
    let root =
        vec![spawn("Work."), calls("close_agent", json!({ "target": "Ada" })), says("Done.")];
    let root = root.into_iter().map(|response| costs(10, response)).collect();
    let environment = environment(vec![root, vec![json!({ "steps": ["idle"] })]]).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let is_last = |params: &Value| params["tokenUsage"]["total"]["totalTokens"] == 30;
    let used = peer.expect_where("thread/tokenUsage/updated", is_last).await;
    let with_agents = used["tokenUsage"]["tokensWithAgents"].as_i64().unwrap();
    assert!(with_agents > 500, "the request that was cut off is not charged: {used}");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}

/// Each request of the random trees uses about as much as it may.
const REQUEST: u64 = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_trees_stay_within_their_budgets() {
    for seed in 0..8 {
        let mut random = Random(seed);
        let agents = 2 + random.below(5);
        let limit = 100_000 + random.below(400_000);
        let mut root: Vec<Value> = (0..agents).map(|_| spawn("Work.")).collect();
        root.extend((0..9).map(|_| wait(&["Ada"], 60_000)));
        let agent = || (0..30).map(|_| costs(REQUEST, runs("true"))).collect();
        let mut conversations: Vec<Vec<Value>> = (0..agents).map(|_| agent()).collect();
        conversations.insert(0, root.into_iter().map(|it| costs(REQUEST, it)).collect());
        let environment = environment(conversations).await;
        let server = environment.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let thread = peer.start_thread(unrestricted()).await;
        let end = peer.run_turn_with(turn(&thread, limit)).await;
        assert_eq!(end["error"]["agentErrorInfo"], "UsageLimitExceeded", "seed {seed}: {end}");
        let requests = environment.model().requests().len() as u64;
        assert_eq!(requests, limit.div_ceil(REQUEST), "seed {seed}: limit {limit}");
        server.stop().await;
    }
}
