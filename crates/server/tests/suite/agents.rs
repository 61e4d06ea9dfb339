//! Sub-agents: threads that the model of a thread starts, talks to, waits for and closes.

mod bounds;
mod budgets;
mod elsewhere;
mod limits;
mod requests;
mod reviews;
mod trees;
mod waiting;

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{calls, says};

/// Responses of one conversation; conversations count in the order of their first requests.
pub(crate) fn of(conversation: u64, responses: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mark = |mut response: Value| {
        response["conversation"] = conversation.into();
        response
    };
    responses.into_iter().map(mark).collect()
}

/// A model whose thread has the first responses, and whose agents have the others, in the order in
/// which they start.
async fn environment(conversations: Vec<Vec<Value>>) -> TestEnvironment {
    let numbered = conversations.into_iter().enumerate();
    let responses: Vec<Value> = numbered.flat_map(|(at, list)| of(at as u64, list)).collect();
    TestEnvironment::with_responses(Value::from(responses)).await
}

fn spawn(message: &str) -> Value {
    calls("spawn_agent", json!({ "message": message }))
}

fn wait(targets: &[&str], timeout_ms: u64) -> Value {
    calls("wait_agent", json!({ "targets": targets, "timeout_ms": timeout_ms }))
}

/// The outputs that a thread's model got, oldest first.
pub(crate) fn outputs(environment: &TestEnvironment, thread: &str) -> Vec<String> {
    let requests = environment.model().requests();
    let mut own = requests.iter().filter(|request| request["prompt_cache_key"] == thread);
    let input = own.next_back().and_then(|request| request["input"].as_array());
    let outputs = input.into_iter().flatten().filter_map(|item| item["output"].as_str());
    outputs.map(str::to_owned).collect()
}

pub(crate) fn parsed(output: &str) -> Value {
    serde_json::from_str(output).unwrap_or_else(|_| panic!("not JSON: {output}"))
}

#[tokio::test]
async fn images_for_an_agent_are_prepared_as_those_of_clients_are() {
    let image = |url: &str| {
        json!([{ "type": "text", "text": "Look." },
        { "type": "image", "image_url": url }])
    };
    let url = testkit::png_url(5000, 5);
    let broken = "data:image/png;base64,JVBERg==";
    let send = |url: &str| calls("send_input", json!({ "target": "Ada", "items": image(url) }));
    let parent = vec![
        calls("spawn_agent", json!({ "items": image(&url) })),
        wait(&["Ada"], 10_000),
        send(broken),
        send(&url),
        wait(&["Ada"], 10_000),
        calls("spawn_agent", json!({ "items": image(broken) })),
        says("Done."),
    ];
    let agent = vec![says("Seen."), says("Seen again.")];
    let environment = environment(vec![parent, agent]).await;
    let mut peer = environment.start().connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Show it.").await["status"], "completed");
    let outputs = outputs(&environment, &thread);
    for (at, call) in [(5, "could not be started"), (2, "does not take the input")] {
        let output = &outputs[at];
        assert!(output.contains(call), "{output}");
        assert!(output.contains("`items[1].image_url`: not a PNG"), "{output}");
    }
    let requests = environment.model().requests();
    let own = requests.iter().rfind(|request| request["prompt_cache_key"] != thread.as_str());
    let input = own.unwrap()["input"].to_string();
    assert_eq!(input.matches("input_image").count(), 2, "{outputs:?}");
    assert!(!input.contains(&url), "it is scaled down");
}

// Effect of `features.multi_agent`.
#[tokio::test]
async fn an_agent_is_a_thread_whose_result_its_parent_gets() {
    let parent = vec![spawn("Count."), wait(&["Ada"], 10_000), says("Three.")];
    let environment = environment(vec![parent, vec![says("I counted three.")]]).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let end = peer.run_turn(&thread, "Have somebody count.").await;
    assert_eq!(end["status"], "completed");
    let outputs = outputs(&environment, &thread);
    let spawned = parsed(&outputs[0]);
    let agent = spawned["agent_id"].as_str().unwrap();
    assert_eq!(spawned["nickname"], "Ada");
    let waited = parsed(&outputs[1]);
    assert_eq!(waited["status"][agent], json!({ "completed": "I counted three." }));
    assert_eq!(waited["timed_out"], false);

    let read = peer.call("thread/read", json!({ "threadId": agent, "includeTurns": true })).await;
    let found = &read["thread"];
    assert_eq!(found["agentNickname"], "Ada");
    assert_eq!(found["threadSource"], "subagent");
    assert_eq!(found["sessionId"], thread);
    let spawned = &found["source"]["subAgent"]["thread_spawn"];
    assert_eq!(spawned["parent_thread_id"], thread);
    assert_eq!((&spawned["depth"], &spawned["agent_nickname"]), (&json!(1), &json!("Ada")));
    assert_eq!(found["turns"][0]["items"][1]["text"], "I counted three.");
    for (kinds, expected) in [
        (json!(["subAgentThreadSpawn"]), 1),
        (json!(["subAgent"]), 1),
        (json!(["subAgentReview"]), 0),
    ] {
        let listed = peer.call("thread/list", json!({ "sourceKinds": kinds })).await;
        assert_eq!(listed["data"].as_array().unwrap().len(), expected, "{kinds}");
    }

    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let calls: Vec<&Value> = items.iter().filter(|item| item["type"] == "collabToolCall").collect();
    let [spawn, wait] = calls[..] else { panic!("{items:?}") };
    assert_eq!((&spawn["tool"], &spawn["status"]), (&json!("spawnAgent"), &json!("completed")));
    assert_eq!((&spawn["senderThreadId"], &spawn["newThreadId"]), (&json!(thread), &json!(agent)));
    assert_eq!((&spawn["prompt"], &spawn["agentStatus"]), (&json!("Count."), &json!("running")));
    assert_eq!((&wait["tool"], &wait["status"]), (&json!("wait"), &json!("completed")));
    assert_eq!(wait["receiverThreadIds"], json!([agent]));
    let state = json!({ "status": "completed", "message": "I counted three." });
    assert_eq!(wait["agentsStates"][agent], state);
}

#[tokio::test]
async fn a_closed_agents_result_stays_and_it_can_be_resumed() {
    let parent = vec![
        spawn("Count."),
        wait(&["Ada"], 10_000),
        calls("close_agent", json!({ "target": "Ada" })),
        wait(&["Ada"], 0),
        calls("send_input", json!({ "target": "Ada", "message": "Again." })),
        calls("resume_agent", json!({ "id": "Ada" })),
        calls("send_input", json!({ "target": "Ada", "message": "Again." })),
        wait(&["Ada"], 10_000),
        says("Done."),
    ];
    let environment = environment(vec![parent, vec![says("One."), says("Two.")]]).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = outputs(&environment, &thread);
    let agent = parsed(&outputs[0])["agent_id"].as_str().unwrap().to_owned();
    assert_eq!(parsed(&outputs[2])["previous_status"], json!({ "completed": "One." }));
    assert_eq!(parsed(&outputs[3])["status"][&agent], json!({ "completed": "One." }));
    assert!(outputs[4].contains("closed") && outputs[4].contains("resume_agent"), "{outputs:?}");
    assert_eq!(parsed(&outputs[5])["status"], json!({ "completed": "One." }));
    assert_eq!(parsed(&outputs[7])["status"][&agent], json!({ "completed": "Two." }));
}

#[tokio::test]
async fn calls_that_cannot_be_carried_out_say_why() {
    let bad = [
        ("spawn_agent", json!({}), "`message` is missing"),
        ("spawn_agent", json!({ "message": null }), "`message` is missing"),
        ("spawn_agent", json!({ "message": " " }), "empty"),
        ("spawn_agent", json!({ "mesage": "x" }), "no member `\"mesage\"`"),
        (
            "spawn_agent",
            json!({ "message": "x", "items": [{ "type": "text", "text": "y" }] }),
            "not both",
        ),
        ("spawn_agent", json!({ "items": [{ "type": "film" }] }), "`type`"),
        ("spawn_agent", json!({ "message": "x", "agent_type": "chef" }), "`chef`; the types are"),
        ("spawn_agent", json!({ "message": "x", "reasoning_effort": "huge" }), "reasoning_effort"),
        ("send_input", json!({ "target": "Ada", "message": "x" }), "you have started no agent"),
        ("send_input", json!({ "message": "x" }), "`target` is missing"),
        ("wait_agent", json!({ "targets": [] }), "name 1 to"),
        ("wait_agent", json!({ "targets": null }), "`targets` is missing"),
        ("wait_agent", json!({ "targets": ["x"], "timeout": 1 }), "no member"),
        ("wait_agent", json!({ "targets": ["x"], "timeout_ms": -1 }), "not negative"),
        ("wait_agent", json!({ "targets": ["x"] }), "no agent `x`"),
        ("resume_agent", json!({ "id": "" }), "`id`"),
        ("close_agent", json!({ "target": "none" }), "no agent `none`"),
    ];
    let mut responses: Vec<Value> =
        bad.iter().map(|(tool, arguments, _)| calls(tool, arguments.clone())).collect();
    responses.push(says("Well."));
    let environment = environment(vec![responses]).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let end = peer.run_turn(&thread, "Try.").await;
    assert_eq!(end["status"], "completed");
    let outputs = outputs(&environment, &thread);
    for ((tool, arguments, expected), output) in bad.iter().zip(&outputs) {
        let shown: String = arguments.to_string().chars().take(80).collect();
        assert!(output.contains(expected), "{tool} {shown}: {output}");
    }
    let read = peer.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
    let calls = items.iter().filter(|item| item["type"] == "collabToolCall");
    for item in calls.clone() {
        assert_eq!(item["status"], "failed", "{item}");
        assert!(item["reason"].is_string(), "{item}");
    }
    assert_eq!(calls.count(), bad.len());
}

#[tokio::test]
async fn interrupting_a_turn_interrupts_the_agents_that_it_waits_for() {
    let working = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] });
    let environment = environment(vec![
        vec![spawn("Work."), wait(&["Ada"], 60_000), wait(&["Ada"], 0), says("Stopped.")],
        vec![working],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let is_wait = |params: &Value| params["item"]["tool"] == "wait";
    peer.expect_where("item/started", is_wait).await;
    let spawned = parsed(&outputs(&environment, &thread)[0]);
    let agent = spawned["agent_id"].as_str().unwrap().to_owned();
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    let is_of = |id: String| move |params: &Value| params["threadId"] == id.as_str();
    let ended = peer.expect_where("turn/completed", is_of(agent.clone())).await;
    assert_eq!(ended["turn"]["status"], "interrupted");
    // The next turn learns of it at once.
    let end = peer.run_turn(&thread, "What now?").await;
    assert_eq!(end["status"], "completed");
    let last = outputs(&environment, &thread).last().cloned().unwrap();
    assert_eq!(parsed(&last)["status"][&agent], "interrupted");
}

#[tokio::test]
async fn a_wait_ends_in_time_and_input_joins_the_running_turn() {
    let slow = json!({ "steps": [{ "delay_ms": 400 }, { "message": "First." }] });
    let environment = environment(vec![
        vec![
            spawn("Work."),
            wait(&["Ada"], 50),
            calls("send_input", json!({ "target": "Ada", "message": "Also this." })),
            wait(&["Ada"], 10_000),
            calls("close_agent", json!({ "target": "Ada" })),
            wait(&["Ada"], 0),
            says("Done."),
        ],
        vec![slow, says("Second.")],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = outputs(&environment, &thread);
    let agent = parsed(&outputs[0])["agent_id"].as_str().unwrap().to_owned();
    assert_eq!(parsed(&outputs[1]), json!({ "status": {}, "timed_out": true }));
    assert_eq!(parsed(&outputs[3])["status"][&agent], json!({ "completed": "Second." }));
    // The turn that joined has no message of its own, and is the last one in the store.
    assert_eq!(parsed(&outputs[5])["status"][&agent], json!({ "completed": "Second." }));
}

#[tokio::test]
async fn an_agents_approvals_reach_the_clients_of_the_root() {
    let command = calls(
        "exec_command",
        json!({ "cmd": "touch made", "sandbox_permissions":
        "require_escalated", "justification": "It must." }),
    );
    let environment = environment(vec![
        vec![spawn("Make it."), wait(&["Ada"], 20_000), says("Done.")],
        vec![command, says("Made.")],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "on-request" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let announced = |params: &Value| params["thread"]["agentNickname"] == "Ada";
    let announced = peer.expect_where("thread/started", announced).await;
    let agent = announced["thread"]["id"].as_str().unwrap().to_owned();
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    assert_eq!(asked.params["threadId"], agent.as_str());
    // A client that comes later can answer too.
    let mut late = server.connect().await;
    late.call("thread/resume", json!({ "threadId": thread })).await;
    let asked_too = late.asked("item/commandExecution/requestApproval").await;
    assert_eq!(asked_too.params["threadId"], agent.as_str());
    late.decide(&asked_too, "accept").await;
    let resolved = peer.expect("serverRequest/resolved").await;
    assert_eq!(resolved["threadId"], agent.as_str());
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert!(environment.workspace().join("made").exists());
}

#[tokio::test]
async fn archiving_or_deleting_a_thread_closes_its_agents() {
    for method in ["thread/archive", "thread/delete"] {
        let working = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] });
        let environment =
            environment(vec![vec![spawn("Work."), says("It works.")], vec![working]]).await;
        let server = environment.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let thread = peer.start_thread(json!({})).await;
        peer.run_turn(&thread, "Go.").await;
        let agent =
            parsed(&outputs(&environment, &thread)[0])["agent_id"].as_str().unwrap().to_owned();
        peer.call(method, json!({ "threadId": thread })).await;
        let closed = |params: &Value| params["threadId"] == agent.as_str();
        peer.expect_where("thread/closed", closed).await;
        let loaded = peer.call("thread/loaded/list", json!({})).await;
        assert_eq!(loaded["data"], json!([]));
        let params = json!({ "threadId": agent, "includeTurns": true });
        let read = peer.call("thread/read", params).await;
        let turns = read["thread"]["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0]["status"], "interrupted");
    }
}

#[tokio::test]
async fn an_agent_can_begin_with_the_history_of_its_parent() {
    for ephemeral in [false, true] {
        let call = calls("spawn_agent", json!({ "message": "Go on.", "fork_context": true }));
        let environment = environment(vec![
            vec![says("Understood."), call, wait(&["Ada"], 10_000), says("Done.")],
            vec![says("I know the code word.")],
        ])
        .await;
        let server = environment.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({ "ephemeral": ephemeral })).await;
        peer.run_turn(&thread, "The code word is plum.").await;
        peer.run_turn(&thread, "Hand over.").await;
        let outputs = outputs(&environment, &thread);
        let agent = parsed(&outputs[0])["agent_id"].as_str().unwrap().to_owned();
        let message = json!({ "completed": "I know the code word." });
        assert_eq!(parsed(&outputs[1])["status"][&agent], message, "{outputs:?}");
        let requests = environment.model().requests();
        let own = requests.iter().find(|request| request["prompt_cache_key"] == agent.as_str());
        let input = own.unwrap()["input"].to_string();
        for part in ["plum", "Understood.", "Hand over.", "Go on."] {
            assert!(input.contains(part), "{part}: {input}");
        }
        assert!(!input.contains("spawn_agent"), "a call without its output: {input}");
    }
}

#[tokio::test]
async fn after_a_crash_an_agent_has_one_end_and_can_be_resumed() {
    let mut environment = environment(vec![
        vec![
            spawn("Work."),
            wait(&["Ada"], 60_000),
            calls("resume_agent", json!({ "id": "{{agent}}" })),
            says("Done."),
        ],
        vec![json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] })],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.start_turn(&thread, "Go.").await;
    peer.expect_where("item/started", |params| params["item"]["tool"] == "wait").await;
    let agent = parsed(&outputs(&environment, &thread)[0])["agent_id"].as_str().unwrap().to_owned();
    environment.crash();
    drop(server);
    let server = environment.start();
    let mut peer = server.connect().await;
    for id in [&thread, &agent] {
        let read = peer.call("thread/read", json!({ "threadId": id, "includeTurns": true })).await;
        let turns = read["thread"]["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0]["status"], "interrupted");
    }
    server.stop().await;
}

/// A response that uses 10,000 tokens, more than a request is expected to use.
fn costs_10_000(mut response: Value) -> Value {
    let usage = json!({ "usage": { "input_tokens": 9_000, "output_tokens": 1_000 } });
    response["steps"].as_array_mut().unwrap().push(usage);
    response
}

#[tokio::test]
async fn a_turn_and_its_agents_share_a_budget() {
    let parent =
        vec![costs_10_000(spawn("Count.")), costs_10_000(wait(&["Ada"], 10_000)), says("Never.")];
    let agent = (0..5).map(|_| costs_10_000(crate::runs("true"))).collect();
    let mut environment = environment(vec![parent, agent]).await;
    environment.config_overrides.push("agents.max_total_tokens=35000".to_owned());
    let server = environment.start();
    let mut peer = server.connect().await;
    let settings = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = peer.start_thread(settings).await;
    let end = peer.run_turn(&thread, "Have somebody count.").await;
    assert_eq!(end["error"]["agentErrorInfo"], "UsageLimitExceeded", "{end}");
    // Four requests use 40,000 tokens; the fifth would be over the limit.
    assert_eq!(environment.model().requests().len(), 4);
    let list = json!({ "sourceKinds": ["subAgentThreadSpawn"] });
    let agent = peer.call("thread/list", list).await["data"][0]["id"].clone();
    let read = peer.call("thread/read", json!({ "threadId": agent, "includeTurns": true })).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1);
    assert_ne!(turns[0]["status"], "inProgress", "{turns:?}");
    // The next turn starts anew.
    let end = peer.run_turn(&thread, "And now?").await;
    assert_eq!(end["status"], "completed", "{end}");
}

#[tokio::test]
async fn the_tokens_of_a_turn_with_agents_are_reported_as_a_sum() {
    let parent = vec![
        costs_10_000(spawn("Count.")),
        costs_10_000(wait(&["Ada"], 10_000)),
        costs_10_000(says("Three.")),
    ];
    let environment = environment(vec![parent, vec![costs_10_000(says("Three."))]]).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Have somebody count.").await;
    let of_root = |sum: i64| {
        let thread = thread.clone();
        move |params: &Value| {
            params["threadId"] == thread && params["tokenUsage"]["tokensWithAgents"] == sum
        }
    };
    peer.expect_where("thread/tokenUsage/updated", of_root(40_000)).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}

#[tokio::test]
async fn after_a_crash_the_parent_resumes_its_agent_by_id_and_reads_its_result() {
    let slow = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] });
    let mut environment = environment(vec![
        vec![spawn("Count."), wait(&["Ada"], 10_000), spawn("Work."), wait(&["Basil"], 60_000)],
        vec![says("Three.")],
        vec![slow],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.start_turn(&thread, "Go.").await;
    let waits = |params: &Value| params["item"]["receiverThreadIds"] == json!(["Basil"]);
    peer.expect_where("item/started", waits).await;
    let before = outputs(&environment, &thread);
    let id = |at: usize| parsed(&before[at])["agent_id"].as_str().unwrap().to_owned();
    let (done, cut) = (id(0), id(2));
    environment.crash();
    drop(server);

    // The next model knows the ids.
    let second = of(
        0,
        [
            wait(&[&done, &cut], 10_000),
            calls("send_input", json!({ "target": cut, "message": "Go on." })),
            calls("resume_agent", json!({ "id": cut })),
            calls("send_input", json!({ "target": cut, "message": "Go on." })),
            wait(&[&cut], 10_000),
            wait(&[&thread], 0),
            says("Done."),
        ],
    );
    let responses: Vec<Value> = second.into_iter().chain(of(1, [says("Finished.")])).collect();
    let model = testkit::ScriptedModel::serve(&json!({ "responses": responses })).await;
    let file = std::fs::read_to_string(environment.home().join("config.toml")).unwrap();
    let old = environment.model().base_url();
    environment.write_config(&file.replace(&old, &model.base_url()));
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let end = peer.run_turn(&thread, "What is left?").await;
    assert_eq!(end["status"], "completed");
    let requests = model.requests();
    let own = requests.iter().rfind(|request| request["prompt_cache_key"] == thread.as_str());
    let input = own.unwrap()["input"].as_array().unwrap().clone();
    let outputs: Vec<&str> = input.iter().filter_map(|item| item["output"].as_str()).collect();
    let after = &outputs[outputs.len() - 6..];
    let states = &parsed(after[0])["status"];
    assert_eq!(states[&done], json!({ "completed": "Three." }));
    assert_eq!(states[&cut], "interrupted");
    assert!(after[1].contains("resume_agent"), "{after:?}");
    assert_eq!(parsed(after[2])["status"], "interrupted");
    assert_eq!(parsed(after[4])["status"][&cut], json!({ "completed": "Finished." }));
    assert!(after[5].contains("is this agent itself"), "{after:?}");
}

#[tokio::test]
async fn agents_of_another_tree_cannot_be_reached() {
    let environment = environment(vec![
        vec![spawn("Count."), wait(&["Ada"], 10_000), says("Done.")],
        vec![says("Three.")],
        vec![wait(&["Ada"], 0), says("{{last_tool_output}}")],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let first = peer.start_thread(json!({})).await;
    peer.run_turn(&first, "Go.").await;
    let second = peer.start_thread(json!({})).await;
    peer.run_turn(&second, "Go.").await;
    let outputs = outputs(&environment, &second);
    assert!(outputs[0].contains("there is no agent `Ada`"), "{outputs:?}");
}

const ASKS: &str = "item/tool/requestUserInput";

/// A tree whose agent asks its user.
async fn asking_agent() -> TestEnvironment {
    let question = json!({ "id": "q", "header": "Header", "question": "Which one?",
        "options": [{ "label": "A", "description": "One." }, { "label": "B", "description": "Two." }] });
    let ask = calls("request_user_input", json!({ "questions": [question] }));
    let mut environment = environment(vec![
        vec![spawn("Ask."), wait(&["Ada"], 300_000), says("Done.")],
        vec![ask, says("{{last_tool_output}}")],
    ])
    .await;
    // The scripted model's idle connections do not survive the jump in time.
    environment.config_overrides.push("model_providers.scripted.request_max_retries=3".to_owned());
    environment
}

async fn advance(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn an_agents_question_ends_a_while_after_the_last_client_of_the_root_has_left() {
    for unsubscribes in [true, false] {
        let environment = asking_agent().await;
        let server = environment.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let thread = peer.start_thread(json!({ "approvalPolicy": "on-request" })).await;
        // It cannot answer.
        let mut plain = server.connect().await;
        plain.call("thread/resume", json!({ "threadId": thread })).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked(ASKS).await;
        if unsubscribes {
            peer.call("thread/unsubscribe", json!({ "threadId": thread })).await;
        } else {
            drop(peer);
        }
        // It returns, and leaves again: that is another wait.
        advance(20).await;
        let mut back = server.connect_with(json!({ "experimentalApi": true })).await;
        back.call("thread/resume", json!({ "threadId": thread })).await;
        assert_eq!(back.asked(ASKS).await.id, asked.id);
        back.call("thread/unsubscribe", json!({ "threadId": thread })).await;
        advance(20).await;
        back.call("thread/resume", json!({ "threadId": thread })).await;
        assert_eq!(back.asked(ASKS).await.id, asked.id, "{unsubscribes}");
        back.call("thread/unsubscribe", json!({ "threadId": thread })).await;
        advance(31).await;
        assert_eq!(plain.turn_end(&turn).await["status"], "completed");
        let outputs = outputs(&environment, &thread);
        let why = "every client that could answer has disconnected";
        assert!(outputs[1].contains(why), "{unsubscribes}: {outputs:?}");
    }
}
