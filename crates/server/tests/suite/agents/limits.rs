//! What bounds agents: how many work, how deep their tree is, and what their role may set.

use super::*;

// Effect of `agents.max_threads`.
#[tokio::test]
async fn a_place_is_free_when_an_agent_has_ended_and_not_before() {
    let working = json!({ "steps": [{ "delay_ms": 60_000 }, { "message": "late" }] });
    let parent = vec![
        spawn("One."),
        spawn("Two."),
        spawn("Three."),
        calls("close_agent", json!({ "target": "Ada" })),
        spawn("Four."),
        spawn("Five."),
        says("Done."),
    ];
    let environment =
        environment(vec![parent, vec![working.clone()], vec![working.clone()], vec![working]])
            .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let config = json!({ "agents": { "max_threads": 2 } });
    let thread = peer.start_thread(json!({ "config": config })).await;
    let end = peer.run_turn(&thread, "Go.").await;
    assert_eq!(end["status"], "completed");
    let outputs = outputs(&environment, &thread);
    assert!(parsed(&outputs[1])["agent_id"].is_string());
    for refused in [&outputs[2], &outputs[5]] {
        assert!(refused.contains("`agents.max_threads` is 2"), "{refused}");
    }
    assert_eq!(parsed(&outputs[3])["previous_status"], "running");
    assert!(parsed(&outputs[4])["agent_id"].is_string(), "{outputs:?}");
    server.stop().await;
}

// Effect of `agents.max_depth`.
#[tokio::test]
async fn agents_start_agents_down_to_the_largest_depth() {
    let environment = environment(vec![
        vec![spawn("Delegate."), wait(&["Ada"], 20_000), says("Done.")],
        vec![spawn("Delegate further."), wait(&["Basil"], 20_000), says("Passed on.")],
        vec![spawn("Too deep."), wait(&["Ada"], 10_000), says("Alone.")],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let config = json!({ "agents": { "max_depth": 2 } });
    let thread = peer.start_thread(json!({ "config": config })).await;
    peer.run_turn(&thread, "Go.").await;
    let top = outputs(&environment, &thread);
    let first = parsed(&top[0])["agent_id"].as_str().unwrap().to_owned();
    assert_eq!(parsed(&top[1])["status"][&first], json!({ "completed": "Passed on." }));
    let middle = outputs(&environment, &first);
    let second = parsed(&middle[0])["agent_id"].as_str().unwrap().to_owned();
    assert_eq!(parsed(&middle[1])["status"][&second], json!({ "completed": "Alone." }));
    let deepest = outputs(&environment, &second);
    assert!(deepest[0].contains("`agents.max_depth` is 2"), "{deepest:?}");
    assert!(deepest[1].contains("is above this agent in the tree"), "{deepest:?}");
    let requests = environment.model().requests();
    let offered = |thread: &str| {
        let request = requests.iter().find(|request| request["prompt_cache_key"] == thread);
        let tools = request.unwrap()["tools"].as_array().unwrap().clone();
        tools.iter().any(|tool| tool["name"] == "spawn_agent")
    };
    assert!(offered(&thread) && offered(&first) && !offered(&second));
}

// Effect of `agents.<name>.description`, `agents.<name>.nickname_candidates`.
#[tokio::test]
async fn roles_are_described_to_the_model_and_name_their_agents() {
    let call = calls("spawn_agent", json!({ "agent_type": "explorer", "message": "Look." }));
    let environment = environment(vec![
        vec![call.clone(), call, wait(&["Atlas", "Delta"], 10_000), says("Done.")],
        vec![says("Seen.")],
        vec![says("Seen.")],
    ])
    .await;
    let server = environment.start();
    let mut peer = server.connect().await;
    let role = json!({ "description": "Reads code.", "nickname_candidates": ["Atlas", "Delta"] });
    let config = json!({ "agents": { "explorer": role } });
    let thread = peer.start_thread(json!({ "config": config })).await;
    peer.run_turn(&thread, "Go.").await;
    let tools = environment.model().requests()[0]["tools"].clone();
    let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "spawn_agent").unwrap();
    let described = tool["parameters"]["properties"]["agent_type"]["description"].as_str().unwrap();
    assert!(described.contains("`explorer`: Reads code."), "{described}");
    let outputs = outputs(&environment, &thread);
    assert_eq!(parsed(&outputs[0])["nickname"], "Atlas");
    assert_eq!(parsed(&outputs[1])["nickname"], "Delta");
    let agent = parsed(&outputs[1])["agent_id"].as_str().unwrap().to_owned();
    let read = peer.call("thread/read", json!({ "threadId": agent })).await;
    assert_eq!(read["thread"]["agentRole"], "explorer");
    assert_eq!(read["thread"]["agentNickname"], "Delta");
}

// Effect of `agents.<name>.config_file`.
#[tokio::test]
async fn the_file_of_a_role_is_a_layer_that_gives_no_more_than_the_parent_has() {
    let environment = environment(vec![
        vec![
            calls("spawn_agent", json!({ "agent_type": "reader", "message": "Look." })),
            calls("spawn_agent", json!({ "agent_type": "boss", "message": "Rule." })),
            calls("spawn_agent", json!({ "agent_type": "lost", "message": "Search." })),
            wait(&["Ada"], 10_000),
            wait(&["Basil"], 10_000),
            says("Done."),
        ],
        vec![says("Seen.")],
        vec![says("Seen.")],
    ])
    .await;
    let file = std::fs::read_to_string(environment.home().join("config.toml")).unwrap();
    environment.write_config(&format!(
        "{file}\n[agents.reader]\nconfig_file = \"roles/reader.toml\"\n\
         [agents.boss]\nconfig_file = \"roles/boss.toml\"\n\
         [agents.lost]\nconfig_file = \"roles/lost.toml\"\n\
         [agents.typo]\nconfig_file = \"roles/typo.toml\"\n"
    ));
    let roles = environment.home().join("roles");
    std::fs::create_dir(&roles).unwrap();
    let reader = "model = \"gpt-5-mini\"\nsandbox_mode = \"read-only\"\n\
                  approval_policy = \"untrusted\"\ndeveloper_instructions = \"Only read.\"\n";
    std::fs::write(roles.join("reader.toml"), reader).unwrap();
    let boss = "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\n\
                [projects.\"/\"]\ntrust_level = \"trusted\"\n";
    std::fs::write(roles.join("boss.toml"), boss).unwrap();
    std::fs::write(roles.join("typo.toml"), "sandbox_mode = \"zork\"\n").unwrap();
    let server = environment.start();
    let mut peer = server.connect().await;
    for (role, why) in [("lost", "lost.toml"), ("typo", "sandbox_mode")] {
        let key = format!("`agents.{role}.config_file`: the role is not offered");
        let is_about_role = |params: &Value| {
            let summary = params["summary"].as_str().unwrap();
            summary.contains(&key) && summary.contains(why)
        };
        let warning = peer.expect_where("configWarning", is_about_role).await;
        assert!(warning["path"].as_str().unwrap().ends_with("config.toml"), "{warning}");
    }
    let params = json!({ "sandbox": "workspace-write", "approvalPolicy": "on-request" });
    let thread = peer.start_thread(params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let wider = |params: &Value| {
        params["summary"]
            .as_str()
            .is_some_and(|text| text.contains("the sandbox of an agent's role"))
    };
    peer.expect_where("configWarning", wider).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let outputs = outputs(&environment, &thread);
    assert!(outputs[2].contains("`agents.lost.config_file`"), "{outputs:?}");
    let id = |at: usize| parsed(&outputs[at])["agent_id"].as_str().unwrap().to_owned();
    let resumed = peer.call("thread/resume", json!({ "threadId": id(0) })).await;
    assert_eq!(resumed["model"], "gpt-5-mini");
    assert_eq!(resumed["sandbox"]["type"], "readOnly", "{resumed}");
    assert_eq!(resumed["approvalPolicy"], "unlessTrusted");
    let resumed = peer.call("thread/resume", json!({ "threadId": id(1) })).await;
    assert_eq!(resumed["model"], "gpt-5");
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite", "{resumed}");
    assert_eq!(resumed["approvalPolicy"], "onRequest");
    let requests = environment.model().requests();
    let own = requests.iter().find(|request| request["prompt_cache_key"] == id(0).as_str());
    assert!(own.unwrap()["input"].to_string().contains("Only read."));
    let of_root = requests.iter().find(|request| request["prompt_cache_key"] == thread.as_str());
    let tools = of_root.unwrap()["tools"].to_string();
    assert!(tools.contains("`reader`: "), "{tools}");
    assert!(!tools.contains("`lost`: ") && !tools.contains("`typo`: "), "{tools}");
}
