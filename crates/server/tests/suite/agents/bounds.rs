//! What an agent may do: never more than the threads above it may at that moment, whoever starts its
//! turn.

use testkit::{Peer, TestServer};

use super::*;
use crate::runs;

fn escalated(command: &str) -> Value {
    let arguments = json!({ "cmd": command, "sandbox_permissions": "require_escalated",
        "justification": "please" });
    calls("exec_command", arguments)
}

fn send(message: &str) -> Value {
    calls("send_input", json!({ "target": "Ada", "message": message }))
}

fn turn(thread: &str, members: Value) -> Value {
    let mut params = json!({ "threadId": thread, "input": [{ "type": "text", "text": "Go." }] });
    for (member, value) in members.as_object().unwrap() {
        params[member] = value.clone();
    }
    params
}

fn mode(mode: &str) -> Value {
    json!({ "collaborationMode": { "mode": mode,
        "settings": { "model": "gpt-5", "developer_instructions": null } } })
}

fn id(outputs: &[String], at: usize) -> String {
    parsed(&outputs[at])["agent_id"].as_str().unwrap().to_owned()
}

/// The command of a finished item, and whether it succeeded.
async fn ran(peer: &mut Peer) -> bool {
    peer.item("commandExecution").await["status"] == "completed"
}

async fn open(server: &TestServer, params: Value) -> (Peer, String) {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(params).await;
    (peer, thread)
}

#[tokio::test]
async fn a_client_gives_an_agent_no_more_than_its_parent_has() {
    let environment = environment(vec![
        vec![spawn("Wait."), wait(&["Ada"], 10_000), says("Done.")],
        vec![says("Ready."), runs("touch made"), says("Tried.")],
    ])
    .await;
    let elsewhere = environment.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let server = environment.start();
    let params = json!({ "sandbox": "workspace-write", "approvalPolicy": "on-request" });
    let (mut peer, thread) = open(&server, params).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = id(&outputs(&environment, &thread), 0);
    peer.forget();
    let wide = json!({ "threadId": agent, "sandbox": "danger-full-access",
        "approvalPolicy": "never" });
    let resumed = peer.call("thread/resume", wide).await;
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite", "{resumed}");
    assert_eq!(resumed["approvalPolicy"], "onRequest");
    let of_sandbox = |params: &Value| {
        let summary = params["summary"].as_str().unwrap_or_default();
        summary.contains("the sandbox of this agent allows more")
    };
    peer.expect_where("configWarning", of_sandbox).await;
    // Another working folder is not the one that the parent may write.
    let wide = json!({ "cwd": elsewhere, "approvalPolicy": "never",
        "sandboxPolicy": { "type": "workspaceWrite" } });
    peer.send("turn/start", turn(&agent, wide)).await;
    assert!(!ran(&mut peer).await);
    assert!(!elsewhere.join("made").exists());
    peer.expect("turn/completed").await;
}

#[tokio::test]
async fn a_running_agent_obeys_its_narrowed_parent_with_its_next_command() {
    let environment = environment(vec![
        vec![spawn("Work."), says("It works.")],
        vec![escalated("touch first"), runs("touch second"), says("Tried.")],
    ])
    .await;
    let server = environment.start();
    let params = json!({ "sandbox": "workspace-write", "approvalPolicy": "on-request" });
    let (mut peer, thread) = open(&server, params).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = id(&outputs(&environment, &thread), 0);
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    let asked = peer.asked("item/commandExecution/requestApproval").await;
    let narrow = json!({ "threadId": thread, "sandbox": "read-only" });
    peer.call("thread/resume", narrow).await;
    peer.decide(&asked, "accept").await;
    assert!(ran(&mut peer).await);
    assert!(!ran(&mut peer).await);
    peer.expect("turn/completed").await;
    assert!(environment.workspace().join("first").exists());
    assert!(!environment.workspace().join("second").exists());
    let resumed = peer.call("thread/resume", json!({ "threadId": agent })).await;
    assert_eq!(resumed["sandbox"]["type"], "readOnly");
    // What the agent itself was given holds again with the parent's.
    let wide = json!({ "threadId": thread, "sandbox": "danger-full-access" });
    peer.call("thread/resume", wide).await;
    let resumed = peer.call("thread/resume", json!({ "threadId": agent })).await;
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite");
}

#[tokio::test]
async fn plan_mode_changes_nothing_through_agents_and_ends_for_them_too() {
    let environment = environment(vec![
        vec![
            spawn("Wait."),
            wait(&["Ada"], 10_000),
            says("Ready."),
            send("Make it."),
            wait(&["Ada"], 10_000),
            spawn("Make it too."),
            wait(&["Basil"], 10_000),
            says("A plan."),
            send("Make it now."),
            calls("send_input", json!({ "target": "Basil", "message": "Make it now." })),
            wait(&["Ada"], 10_000),
            wait(&["Basil"], 10_000),
            says("Made."),
        ],
        vec![says("Ready."), runs("touch ada"), says("Tried."), runs("touch ada"), says("Made.")],
        vec![runs("touch basil"), says("Tried."), runs("touch basil"), says("Made.")],
    ])
    .await;
    let made = ["ada", "basil"].map(|name| environment.workspace().join(name));
    let server = environment.start();
    let params = json!({ "sandbox": "danger-full-access", "approvalPolicy": "never" });
    let (mut peer, thread) = open(&server, params).await;
    peer.run_turn(&thread, "Go.").await;
    peer.run_turn_with(turn(&thread, mode("plan"))).await;
    let agents = [0, 4].map(|at| id(&outputs(&environment, &thread), at));
    assert!(made.iter().all(|file| !file.exists()));
    for agent in &agents {
        let requests = environment.model().requests();
        let own = requests.iter().rfind(|request| request["prompt_cache_key"] == agent.as_str());
        assert!(!own.unwrap()["tools"].to_string().contains("apply_patch"));
    }
    peer.run_turn_with(turn(&thread, mode("default"))).await;
    assert!(made.iter().all(|file| file.exists()));
}

#[tokio::test]
async fn after_a_restart_an_agent_is_bound_by_its_stored_parent() {
    let mut environment = environment(vec![
        vec![spawn("Wait."), wait(&["Ada"], 10_000), says("Done."), says("Narrowed.")],
        vec![says("Ready."), runs("touch made"), says("Tried.")],
    ])
    .await;
    let server = environment.start();
    let params = json!({ "sandbox": "danger-full-access", "approvalPolicy": "never" });
    let (mut peer, thread) = open(&server, params).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = id(&outputs(&environment, &thread), 0);
    let narrow = json!({ "sandboxPolicy": { "type": "readOnly" } });
    peer.run_turn_with(turn(&thread, narrow)).await;
    environment.crash();
    drop(server);
    let server = environment.start();
    let mut peer = server.connect().await;
    let wide = json!({ "threadId": agent, "sandbox": "danger-full-access" });
    let resumed = peer.call("thread/resume", wide).await;
    assert_eq!(resumed["sandbox"]["type"], "readOnly", "{resumed}");
    peer.start_turn(&agent, "Make it.").await;
    assert!(!ran(&mut peer).await);
    peer.expect("turn/completed").await;
    assert!(!environment.workspace().join("made").exists());
}

#[tokio::test]
async fn the_file_of_a_role_raises_no_limit_after_a_restart() {
    let role = calls("spawn_agent", json!({ "agent_type": "boss", "message": "Wait." }));
    let mut environment = environment(vec![
        vec![role, wait(&["Ada"], 10_000), says("Done.")],
        vec![says("Ready."), spawn("Deeper."), says("Tried.")],
    ])
    .await;
    let file = std::fs::read_to_string(environment.home().join("config.toml")).unwrap();
    environment.write_config(&format!(
        "{file}\n[agents]\nmax_depth = 1\n[agents.boss]\nconfig_file = \"boss.toml\"\n"
    ));
    let boss = "[agents]\nmax_depth = 9\nmax_threads = 99\n";
    std::fs::write(environment.home().join("boss.toml"), boss).unwrap();
    let server = environment.start();
    let (mut peer, thread) = open(&server, json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = id(&outputs(&environment, &thread), 0);
    environment.crash();
    drop(server);
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": agent })).await;
    peer.run_turn(&agent, "Start another.").await;
    let outputs = outputs(&environment, &agent);
    assert!(outputs[0].contains("`agents.max_depth` is 1"), "{outputs:?}");
}

#[tokio::test]
async fn nicknames_reach_their_agents_after_a_restart_and_stay_theirs() {
    let mut environment = environment(vec![
        vec![
            spawn("Count."),
            wait(&["Ada"], 10_000),
            says("Done."),
            wait(&["Ada"], 10_000),
            spawn("Count on."),
            says("Done."),
        ],
        vec![says("Three.")],
        vec![says("Four.")],
    ])
    .await;
    let server = environment.start();
    let (mut peer, thread) = open(&server, json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = id(&outputs(&environment, &thread), 0);
    environment.crash();
    drop(server);
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "Go on.").await;
    let outputs = outputs(&environment, &thread);
    let three = json!({ "completed": "Three." });
    assert_eq!(parsed(&outputs[2])["status"][&agent], three, "{outputs:?}");
    assert_eq!(parsed(&outputs[3])["nickname"], "Basil");
}

#[tokio::test]
async fn an_agent_ends_with_its_root_when_nothing_between_them_is_loaded() {
    for method in ["thread/archive", "thread/delete"] {
        let mut environment = environment(vec![
            vec![spawn("Delegate."), wait(&["Ada"], 20_000), says("Done.")],
            vec![spawn("Delegate."), wait(&["Basil"], 20_000), says("Done.")],
            vec![spawn("Delegate."), wait(&["Cleo"], 20_000), says("Done.")],
            vec![says("Ready."), json!({ "steps": [{ "delay_ms": 60_000 }] })],
        ])
        .await;
        environment.config_overrides.push("agents.max_depth=3".to_owned());
        let server = environment.start();
        let (mut peer, root) = open(&server, json!({})).await;
        peer.run_turn(&root, "Go.").await;
        let line = ["", "", ""].iter().fold(vec![root.clone()], |mut line, _| {
            let last = outputs(&environment, line.last().unwrap());
            line.push(id(&last, 0));
            line
        });
        environment.crash();
        drop(server);
        let server = environment.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        peer.call("thread/resume", json!({ "threadId": line[3] })).await;
        let turn = peer.start_turn(&line[3], "Go on.").await;
        peer.call(method, json!({ "threadId": root })).await;
        assert_eq!(peer.turn_end(&turn).await["status"], "interrupted", "{method}");
        let loaded = peer.call("thread/loaded/list", json!({})).await;
        assert_eq!(loaded["data"], json!([]), "{method}");
    }
}

#[tokio::test]
async fn a_thread_that_is_loaded_while_the_server_ends_ends_with_it() {
    let environment = environment(vec![vec![says("Never.")]]).await;
    let server = environment.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    server.server().shutdown().await;
    // The connection is still there.
    let fault = peer.refused("thread/start", json!({ "ephemeral": true })).await;
    assert!(fault.message.contains("the server is shutting down"), "{fault:?}");
}

#[tokio::test]
async fn a_fork_of_an_agent_begins_within_the_agents_bound_and_is_the_users() {
    let mut environment = environment(vec![
        vec![spawn("Wait."), wait(&["Ada"], 10_000), says("Done.")],
        vec![says("Ready.")],
    ])
    .await;
    let server = environment.start();
    let params = json!({ "sandbox": "danger-full-access", "approvalPolicy": "never" });
    let (mut peer, thread) = open(&server, params).await;
    peer.run_turn(&thread, "Go.").await;
    let agent = id(&outputs(&environment, &thread), 0);
    // The agent keeps settings of its own that ask for more.
    let narrow =
        json!({ "threadId": thread, "sandbox": "read-only", "approvalPolicy": "untrusted" });
    peer.call("thread/resume", narrow).await;
    let fork = peer.call("thread/fork", json!({ "threadId": agent })).await;
    let shown = |fork: &Value| json!([fork["sandbox"]["type"], fork["approvalPolicy"]]);
    assert_eq!(shown(&fork), json!(["readOnly", "unlessTrusted"]));
    let found = &fork["thread"];
    assert_eq!((&found["agentNickname"], &found["forkedFromId"]), (&Value::Null, &json!(agent)));
    assert!(found["source"].is_string(), "{found}");
    // What the client chooses holds: no thread is above a fork.
    let wide = json!({ "threadId": agent, "sandbox": "workspace-write",
        "approvalPolicy": "on-request" });
    let chosen = peer.call("thread/fork", wide).await;
    assert_eq!(shown(&chosen), json!(["workspaceWrite", "onRequest"]));
    // Nor does what becomes of the thread above the agent concern it.
    let wider = json!({ "threadId": thread, "sandbox": "danger-full-access" });
    peer.call("thread/resume", wider).await;
    let again = peer.call("thread/resume", json!({ "threadId": found["id"] })).await;
    assert_eq!(shown(&again), json!(["readOnly", "unlessTrusted"]));

    // Neither the agent nor the thread above it is loaded.
    peer.call("thread/resume", json!({ "threadId": thread, "sandbox": "read-only" })).await;
    environment.crash();
    drop(server);
    std::fs::create_dir_all(environment.system_dir()).unwrap();
    let file = environment.system_dir().join("requirements.toml");
    std::fs::write(file, "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n").unwrap();
    let server = environment.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let fork = peer.call("thread/fork", json!({ "threadId": agent })).await;
    assert_eq!(shown(&fork), json!(["readOnly", "unlessTrusted"]));
    let wide = json!({ "threadId": agent, "sandbox": "danger-full-access" });
    let fork = peer.call("thread/fork", wide).await;
    assert_ne!(fork["sandbox"]["type"], "dangerFullAccess", "{fork}");
}
