//! The handshake; opening, listing, changing, closing and deleting sessions.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::harness::{Bench, says};

#[tokio::test]
async fn the_handshake_answers_version_1_whatever_is_asked_for() {
    let bench = Bench::new(json!([says("Hello.")])).await;
    for version in [0, 1, 2, 65535] {
        let mut editor = bench.connect();
        let params = json!({
            "protocolVersion": version,
            "clientInfo": { "name": "e", "version": "1" },
            "clientCapabilities": { "auth": { "terminal": version == 2 }, "elicitation": null },
        });
        let opened = editor.call("initialize", params).await;
        assert_eq!(opened["protocolVersion"], 1);
        assert_eq!(
            opened["agentInfo"],
            json!({ "name": "agentd", "title": "agentd", "version": "0.0.0" })
        );
        let capabilities = &opened["agentCapabilities"];
        assert_eq!(capabilities["loadSession"], true);
        assert_eq!(capabilities["mcpCapabilities"], json!({ "http": true, "sse": false }));
        assert_eq!(capabilities["auth"], json!({ "logout": {} }));
        let methods = opened["authMethods"].as_array().unwrap();
        assert_eq!(methods.len(), if version == 2 { 2 } else { 1 }, "{methods:?}");
        assert_eq!(methods.last().unwrap().get("args").is_some(), version == 2);
    }
}

#[tokio::test]
async fn the_handshake_comes_first_and_once() {
    let bench = Bench::new(json!([says("Hello.")])).await;
    let mut editor = bench.connect();
    let error = editor.refused("session/list", json!({})).await;
    assert_eq!((error.code, &error.message[..]), (-32600, "session/list: send `initialize` first"));
    for wrong in [json!("one"), json!(null), json!([1]), json!(1.5), json!(1e300)] {
        let id = editor.send_unchecked("initialize", json!({ "protocolVersion": wrong })).await;
        let error = editor.answer_to(id).await.unwrap_err();
        assert!(error.code == -32602 && error.message.contains("`protocolVersion`"), "{error:?}");
    }
    // The text of a number is good, too, and so is one that is written as a fraction.
    let mut other = bench.connect();
    let id = other.send_unchecked("initialize", json!({ "protocolVersion": 1.0 })).await;
    assert_eq!(other.answer_to(id).await.unwrap()["protocolVersion"], 1);
    let id = editor.send_unchecked("initialize", json!({ "protocolVersion": "1" })).await;
    assert_eq!(editor.answer_to(id).await.unwrap()["protocolVersion"], 1);
    assert_eq!(editor.refused("initialize", json!({ "protocolVersion": 1 })).await.code, -32600);
}

#[tokio::test]
async fn a_session_has_modes_and_options() {
    let mut env = TestEnvironment::with_responses(json!([says("One.")])).await;
    env.config_overrides.push("model=\"gpt-5.2\"".to_owned());
    let bench = Bench::of(env);
    let mut editor = bench.editor().await;
    let params = json!({ "cwd": bench.work(), "mcpServers": [] });
    let opened = editor.call("session/new", params).await;
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let modes = &opened["modes"];
    let ids: Vec<&Value> =
        modes["availableModes"].as_array().unwrap().iter().map(|mode| &mode["id"]).collect();
    assert!(
        ids.starts_with(&[&json!("read-only"), &json!("auto"), &json!("full-access")]),
        "{ids:?}"
    );
    let options = opened["configOptions"].as_array().unwrap();
    let ids: Vec<&Value> = options.iter().map(|option| &option["id"]).collect();
    assert_eq!(ids, ["mode", "model", "effort", "sandbox"]);
    assert_eq!(options[1]["currentValue"], "gpt-5.2");

    let set = |mode: &str| json!({ "sessionId": session, "modeId": mode });
    editor.call("session/set_mode", set("full-access")).await;
    let update = editor.update("config_option_update").await;
    assert_eq!(update["configOptions"][3]["currentValue"], "danger-full-access");
    let error = editor.refused("session/set_mode", set("yolo")).await;
    assert!(error.code == -32602 && error.message.contains("read-only, auto"), "{error:?}");

    let option =
        |id: &str, value: Value| json!({ "sessionId": session, "configId": id, "value": value });
    let set = editor.call("session/set_config_option", option("effort", json!("high"))).await;
    assert_eq!(set["configOptions"][2]["currentValue"], "high");
    editor.call("session/set_config_option", option("sandbox", json!("read-only"))).await;
    let update = editor.update("current_mode_update").await;
    assert_eq!(update["currentModeId"], "custom", "no preset has this sandbox without questions");
    let wrong =
        json!({ "sessionId": session, "configId": "effort", "type": "boolean", "value": true });
    assert_eq!(editor.refused("session/set_config_option", wrong).await.code, -32602);
    let error = editor.refused("session/set_config_option", option("tier", json!("x"))).await;
    assert!(error.message.contains("there is no option `tier`"), "{error:?}");

    editor.run(&session, "Go.").await;
    let request = &bench.env.model().requests()[0];
    assert_eq!(request["reasoning"]["effort"], "high");
    assert!(request.to_string().contains("read-only"), "{request}");
}

#[tokio::test]
async fn sessions_are_listed_from_the_store_in_pages() {
    let bench = Bench::new(json!([says("Hello.")])).await;
    let other = bench.env.root().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut editor = bench.editor().await;
    for number in 0..60 {
        bench.env.clock.advance(1000);
        let cwd = if number == 0 { other.display().to_string() } else { bench.work() };
        let session = editor.new_session(&cwd).await;
        editor.run(&session, &format!("Message {number}\nmore")).await;
    }
    let mut editor = bench.editor().await;
    let first = editor.call("session/list", json!({})).await;
    let sessions = first["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["title"]), (50, &json!("Message 59")));
    assert!(sessions[0]["updatedAt"].as_str().unwrap().ends_with('Z'), "{}", sessions[0]);
    let next = json!({ "cursor": first["nextCursor"] });
    let second = editor.call("session/list", next).await;
    assert_eq!(second["sessions"].as_array().unwrap().len(), 10);
    assert_eq!(second.get("nextCursor"), None);
    let filtered = editor.call("session/list", json!({ "cwd": other })).await;
    assert_eq!(filtered["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(filtered["sessions"][0]["cwd"], json!(other));
    assert_eq!(editor.refused("session/list", json!({ "cwd": "relative" })).await.code, -32602);
    assert_eq!(editor.refused("session/list", json!({ "cursor": "no" })).await.code, -32602);
}

#[tokio::test]
async fn a_closed_session_can_be_resumed_and_a_deleted_one_is_gone() {
    let bench = Bench::new(json!([says("One."), says("Two.")])).await;
    let mut editor = bench.editor().await;
    let session = editor.new_session(&bench.work()).await;
    editor.run(&session, "Go.").await;
    let of = json!({ "sessionId": session });
    editor.call("session/close", of.clone()).await;
    assert_eq!(editor.refused("session/close", of.clone()).await.code, -32002);
    let id = editor.prompt(&session, "Go.").await;
    let error = editor.answer_to(id).await.unwrap_err();
    assert!(error.code == -32002 && error.message.contains("is not open"), "{error:?}");
    editor.take_log();
    let place = json!({ "sessionId": session, "cwd": bench.work() });
    let resumed = editor.call("session/resume", place.clone()).await;
    assert_eq!(resumed.get("sessionId"), None);
    editor.update("available_commands_update").await;
    let log = editor.take_log();
    assert_eq!(log, ["> session/resume", "< session/resume", "* available_commands_update"]);
    assert_eq!(editor.run(&session, "Again.").await, "end_turn");

    editor.call("session/delete", of.clone()).await;
    let listed = editor.call("session/list", json!({})).await;
    assert_eq!(listed["sessions"], json!([]));
    assert_eq!(editor.refused("session/resume", place).await.code, -32002);
    editor.call("session/delete", of).await;
    editor.call("session/delete", json!({ "sessionId": "never" })).await;
}

#[tokio::test]
async fn additional_directories_are_writable() {
    let bench = Bench::new(json!([says("Done.")])).await;
    let more = bench.env.root().join("more");
    std::fs::create_dir(&more).unwrap();
    let mut editor = bench.editor().await;
    let params = json!({ "cwd": bench.work(), "mcpServers": [], "additionalDirectories": [more] });
    let opened = editor.call("session/new", params).await;
    let session = opened["sessionId"].as_str().unwrap();
    assert_eq!(editor.run(session, "Go.").await, "end_turn");
    let mut peer = bench.server.connect().await;
    let resumed = peer.call("thread/resume", json!({ "threadId": session })).await;
    assert_eq!(resumed["sandbox"]["writableRoots"], json!([bench.work(), more]));
    let params = json!({ "cwd": bench.work(), "mcpServers": [], "additionalDirectories": ["x"] });
    let error = editor.refused("session/new", params).await;
    assert!(error.message.contains("`additionalDirectories[0]`"), "{error:?}");
}
