//! Apps: what the tools of an MCP server name as their connectors. Which tools the configuration lets the
//! model have, the list of apps, and apps that an input mentions.

use serde_json::{Value, json};
use testkit::Peer;

use crate::mcp_turns::{Bench, tool};
use crate::tool_search::search_natively;
use crate::{calls, says};

/// A tool of an app.
fn of_app(app: &str, name: &str, annotations: Value) -> Value {
    let mut tool = tool(name, annotations);
    tool["_meta"] = json!({ "connector_id": app, "connector_name": app.to_uppercase() });
    tool
}

fn reads(app: &str, name: &str) -> Value {
    of_app(app, name, json!({ "readOnlyHint": true }))
}

/// The names of the server's tools in each request to the model.
async fn tools_of_server(bench: &Bench) -> Vec<Vec<String>> {
    let of_server = |tools: Vec<String>| {
        let tools = tools.iter().filter_map(|name| name.strip_prefix("mcp__one__"));
        tools.map(str::to_owned).collect()
    };
    bench.offered().await.into_iter().map(of_server).collect()
}

async fn apps(peer: &mut Peer, params: Value) -> Vec<(String, bool)> {
    let listed = peer.call("app/list", params).await;
    enablement(&listed)
}

fn enablement(listed: &Value) -> Vec<(String, bool)> {
    let rows = listed["data"].as_array().unwrap().iter();
    let row = |app: &Value| (app["id"].as_str().unwrap().to_owned(), app["isEnabled"] == true);
    rows.map(row).collect()
}

fn list(expected: &[(&str, bool)]) -> Vec<(String, bool)> {
    expected.iter().map(|(id, is_enabled)| ((*id).to_owned(), *is_enabled)).collect()
}

// Effect of `features.apps`, `apps._default.enabled`, `apps._default.destructive_enabled`.
// Effect of `apps._default.open_world_enabled`, `apps.<id>.enabled`.
// Effect of `apps.<id>.default_tools_enabled`, `apps.<id>.destructive_enabled`.
// Effect of `apps.<id>.open_world_enabled`, `apps.<id>.tools.<tool>.enabled`.
#[tokio::test]
async fn the_keys_of_apps_choose_the_tools_from_the_next_turn_on() {
    let keys: [(&str, &[&str]); 10] = [
        ("", &["break", "free", "mail_read", "mail_send", "open"]),
        ("[features]\napps = true", &["break", "free", "mail_read", "mail_send", "open"]),
        (
            "[features]\napps = true\n[apps._default]\nopen_world_enabled = false",
            &["break", "free", "mail_read", "mail_send"],
        ),
        (
            "[features]\napps = true\n[apps._default]\ndestructive_enabled = false",
            &["free", "mail_read", "mail_send", "open"],
        ),
        ("[features]\napps = true\n[apps._default]\nenabled = false", &["free"]),
        (
            "[features]\napps = true\n[apps._default]\nenabled = false\n[apps.mail]\nenabled = true",
            &["free", "mail_read", "mail_send"],
        ),
        (
            "[features]\napps = true\n[apps.mail]\nenabled = false\n[apps.web]\n\
             destructive_enabled = false\n",
            &["free", "open"],
        ),
        (
            "[features]\napps = true\n[apps._default]\nopen_world_enabled = false\n\
             destructive_enabled = false\n[apps.web]\nopen_world_enabled = true",
            &["free", "mail_read", "mail_send", "open"],
        ),
        (
            "[features]\napps = true\n[apps.mail]\ndefault_tools_enabled = false\n\
             tools = { mail_read = { enabled = true } }",
            &["break", "free", "mail_read", "open"],
        ),
        (
            "[features]\napps = true\n[apps._default]\ndestructive_enabled = false\n[apps.web]\n\
             tools = { open = { enabled = false }, break = { enabled = true } }",
            &["break", "free", "mail_read", "mail_send"],
        ),
    ];
    let responses = vec![says("Done."); keys.len()];
    let tools = [
        tool("free", json!({ "destructiveHint": true, "openWorldHint": true })),
        reads("mail", "mail_read"),
        of_app("mail", "mail_send", json!({})),
        of_app("web", "break", json!({ "destructiveHint": true })),
        of_app("web", "open", json!({ "openWorldHint": true })),
    ];
    let bench = Bench::new(responses.into(), &tools).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    for (keys, _) in keys {
        bench.configure(keys);
        peer.run_turn(&thread, "Go.").await;
    }
    let offered = tools_of_server(&bench).await;
    for (number, (keys, expected)) in keys.into_iter().enumerate() {
        let mut offered = offered[number].clone();
        offered.sort();
        assert_eq!(offered, expected, "{keys}");
    }
    // What stays keeps its place, so that requests begin as before.
    assert_eq!(offered[3], ["free", "mail_read", "mail_send", "open"]);
}

// Effect of `apps.<id>.default_tools_approval_mode`, `apps.<id>.tools.<tool>.approval_mode`.
#[tokio::test]
async fn the_keys_of_apps_say_when_the_user_is_asked() {
    let call = |tool: &str| calls(&format!("mcp__one__{tool}"), json!({ "x": 1 }));
    let responses =
        json!([call("send"), call("read"), call("strict"), call("delete"), says("Done.")]);
    let tools = [
        of_app("mail", "send", json!({})),
        reads("mail", "read"),
        of_app("mail", "strict", json!({})),
        of_app("mail", "delete", json!({ "destructiveHint": true })),
    ];
    let bench = Bench::new(responses, &tools).await;
    bench.configure(
        "tools = { strict = { approval_mode = \"prompt\" } }\n[features]\napps = true\n[apps.mail]\n\
         default_tools_approval_mode = \"approve\"\ntools = { read = { approval_mode = \"prompt\" } }",
    );
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({ "approvalPolicy": "on-request" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    // `send` is approved by the app. The stricter mode of the server holds, and what destroys is asked
    // about whatever the configuration says.
    let mut items = Vec::new();
    for (name, action) in [("read", "accept"), ("strict", "decline"), ("delete", "cancel")] {
        let asked = peer.asked("mcpServer/elicitation/request").await;
        let meta = &asked.params["_meta"]["agentd/toolCall"];
        assert_eq!((&meta["tool"], &meta["connectorName"]), (&json!(name), &json!("MAIL")));
        let message = asked.params["message"].as_str().unwrap();
        assert!(message.contains(r#"of the app "MAIL" (the MCP server "one")?"#), "{message}");
        peer.answer(&asked, json!({ "action": action })).await;
        let is_call = |item: &Value| item["item"]["tool"] == name;
        items.push(peer.expect_where("item/completed", is_call).await);
    }
    assert_eq!(items[0]["item"]["status"], "completed");
    assert_eq!(items[1]["item"]["error"]["message"], "the user declined the call");
    assert_eq!(items[2]["item"]["status"], "failed");
    assert!(items[2]["item"]["error"]["message"].is_string(), "{}", items[2]);
    peer.turn_end(&turn).await;
    assert_eq!(bench.log().lines().filter(|line| line.contains("tools/call")).count(), 2);
}

#[tokio::test]
async fn an_approval_mode_of_a_client_or_for_an_entry_of_a_client_is_not_believed() {
    let call = || calls("mcp__one__send", json!({}));
    let bench = Bench::new(
        json!([call(), says("Done."), call(), says("Done.")]),
        &[of_app("mail", "send", json!({}))],
    )
    .await;
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let approves = json!({ "mail": { "default_tools_approval_mode": "approve" } });
    let params = |config: Value| json!({ "approvalPolicy": "never", "config": config });
    let (mut peer, thread) = bench.thread(&server, params(json!({ "apps": approves }))).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(bench.output(1).as_str().unwrap().contains("needs an approval"), "{}", bench.output(1));
    assert!(bench.output(1).as_str().unwrap().contains("`apps.mail.tools.send.approval_mode"));
    server.stop().await;
    bench.configure(
        "[features]\napps = true\n[apps.mail]\ndefault_tools_approval_mode = \"approve\"",
    );
    let server = bench.env.start();
    let config = json!({ "mcp_servers": { "one": { "env": { "X": "1" } } } });
    let (mut peer, thread) = bench.thread(&server, params(config)).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(bench.output(3).as_str().unwrap().contains("needs an approval"), "{}", bench.output(3));
}

#[tokio::test]
async fn apps_are_listed_in_pages_for_a_thread_and_for_the_configuration() {
    let mut described = reads("mail", "read");
    described["_meta"]["connector_description"] = "Mail\u{202e}".into();
    let mut unnamed = reads("web", "open");
    unnamed["_meta"]["connector_name"] = 7.into();
    let odd = [json!(7), json!(""), json!(null)].map(|id| {
        let mut odd = reads("x", &format!("odd{id}").replace('"', ""));
        odd["_meta"]["connector_id"] = id;
        odd
    });
    let mut tools = vec![described, reads("mail", "send"), unnamed, reads("cal", "look")];
    tools.extend(odd);
    let bench = Bench::new(json!([says("Done.")]), &tools).await;
    bench.configure("[features]\napps = true\n[apps.web]\nenabled = false");
    let server = bench.env.start();
    let mut peer = server.connect().await;
    // The server is started for the list.
    let listed = peer.call("app/list", json!({})).await;
    assert_eq!(enablement(&listed), list(&[("cal", true), ("mail", true), ("web", false)]));
    assert_eq!(listed["nextCursor"], Value::Null);
    let mail = json!({ "id": "mail", "name": "MAIL", "description": "Mail\\u{202e}",
        "isAccessible": true, "isEnabled": true });
    assert_eq!(listed["data"][1], mail);
    assert_eq!(listed["data"][2]["name"], "web");
    let first = peer.call("app/list", json!({ "limit": 2 })).await;
    assert_eq!(enablement(&first), list(&[("cal", true), ("mail", true)]));
    let next = json!({ "limit": 2, "cursor": first["nextCursor"] });
    assert_eq!(apps(&mut peer, next).await, list(&[("web", false)]));
    let unknown = peer.refused("app/list", json!({ "cursor": "nope" })).await;
    assert!(unknown.message.contains("`cursor` is not a cursor of this list"), "{unknown:?}");
    let unknown = peer.refused("app/list", json!({ "threadId": "nope" })).await;
    let as_elsewhere = peer.refused("turn/start", json!({ "threadId": "nope", "input": [] })).await;
    assert_eq!(unknown.message, as_elsewhere.message);
    // A thread has a configuration of its own.
    let config = json!({ "apps": { "cal": { "enabled": false }, "web": { "enabled": true } } });
    let thread = peer.start_thread(json!({ "config": config })).await;
    let of_thread = json!({ "threadId": thread });
    let expected = list(&[("cal", false), ("mail", true), ("web", true)]);
    assert_eq!(apps(&mut peer, of_thread.clone()).await, expected);
    // The list is that of the next turn.
    bench.configure("[features]\napps = true\n[apps.mail]\nenabled = false");
    let expected = list(&[("cal", false), ("mail", false), ("web", true)]);
    assert_eq!(apps(&mut peer, of_thread.clone()).await, expected);
    // The server announces no changes here: they are found when they are asked for.
    bench.write("tools", &[reads("new", "new")]);
    assert_eq!(apps(&mut peer, of_thread.clone()).await, expected);
    let refetched = json!({ "threadId": thread, "forceRefetch": true });
    assert_eq!(apps(&mut peer, refetched).await, list(&[("new", true)]));
    assert_eq!(apps(&mut peer, of_thread.clone()).await, list(&[("new", true)]));
    bench.configure("");
    assert_eq!(apps(&mut peer, of_thread).await, []);
    assert_eq!(apps(&mut peer, json!({ "forceRefetch": true })).await, []);
}

#[tokio::test]
async fn clients_are_notified_once_of_each_change_of_their_apps() {
    let responses = json!([calls("mcp__one__change", json!({})), says("Done."), says("Done.")]);
    let bench = Bench::new(responses, &[reads("mail", "change")]).await;
    bench.write("tools.next", &[reads("mail", "change"), reads("cal", "look")]);
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let updated = async |peer: &mut Peer| enablement(&peer.expect("app/list/updated").await);
    assert_eq!(updated(&mut peer).await, list(&[("mail", true)]));
    // A second thread with the same apps changes nothing, and neither does a turn.
    let second = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(updated(&mut peer).await, list(&[("cal", true), ("mail", true)]));
    // A change of the configuration, without a turn. Nothing came between the two.
    bench.configure("[features]\napps = true\n[apps.cal]\nenabled = false");
    assert_eq!(updated(&mut peer).await, list(&[("cal", false), ("mail", true)]));
    // Another client learns it when it subscribes.
    let mut other = server.connect().await;
    other.call("thread/resume", json!({ "threadId": second })).await;
    assert_eq!(updated(&mut other).await, list(&[("cal", false), ("mail", true)]));
    let off = json!({ "enablement": { "apps": false } });
    bench.configure("");
    assert_eq!(updated(&mut peer).await, []);
    assert_eq!(updated(&mut other).await, []);
    other.call("experimentalFeature/enablement/set", off).await;
    peer.run_turn(&thread, "Go on.").await;
    let sent = peer.transcript().iter().filter(|line| line.contains("app/list/updated")).count();
    assert_eq!(sent, 4, "{:?}", peer.transcript());
}

fn mention(name: &str, path: &str) -> Value {
    json!({ "type": "mention", "name": name, "path": path })
}

fn turn(thread: &str, input: &[Value]) -> Value {
    json!({ "threadId": thread, "input": input })
}

#[tokio::test]
async fn a_mention_loads_the_tools_of_an_app_that_are_deferred() {
    let responses =
        json!([calls("mcp__one__t77", json!({})), says("Done."), says("Done."), says("Done.")]);
    let bench = Bench::new(responses, &many_tools()).await;
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let text = json!({ "type": "text", "text": "Read my mail." });
    let input = [text, mention("Mail", "app://mail")];
    let ended = peer.run_turn_with(turn(&thread, &input)).await;
    assert_eq!(ended["status"], "completed");
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", read).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap().clone();
    assert_eq!(items[0]["content"][1], mention("Mail", "app://mail"));
    let called = items.iter().find(|item| item["type"] == "mcpToolCall").unwrap();
    assert_eq!((&called["tool"], &called["status"]), (&json!("t77"), &json!("completed")));
    let requests = bench.env.model().requests();
    let input = requests[0]["input"].as_array().unwrap();
    let shown = input.iter().find(|item| item.to_string().contains("app_mention id")).unwrap();
    let shown = shown["content"][1]["text"].as_str().unwrap();
    assert!(
        shown.contains("<app_mention id=\"mail\" name=\"Mail\">")
            && shown.contains("Its tools: mcp__one__t77, mcp__one__t88."),
        "{shown}"
    );
    let offered = bench.offered().await;
    let last = &offered[0][offered[0].len() - 2..];
    assert_eq!(last, ["mcp__one__t77", "mcp__one__t88"]);
    // They stay loaded, and a second mention loads nothing twice.
    peer.run_turn(&thread, "Go on.").await;
    peer.run_turn_with(turn(&thread, &[mention("Mail", "app://mail")])).await;
    let offered = bench.offered().await;
    assert!(offered.iter().all(|tools| *tools == offered[0]), "{offered:?}");
    let requests = bench.env.model().requests();
    let searches = requests[3]["input"].to_string().matches("\"tool_search\"").count();
    assert_eq!(searches, 1);
    let before = requests[2]["input"].as_array().unwrap();
    assert_eq!(&requests[3]["input"].as_array().unwrap()[..before.len()], before);
}

#[tokio::test]
async fn a_mention_of_an_app_that_cannot_be_used_is_refused() {
    let bench =
        Bench::new(json!([says("Done.")]), &[reads("mail", "read"), reads("cal", "look")]).await;
    bench.configure("");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let cases = [
        ("", "app://mail", "apps are switched off; set `features.apps` to true"),
        ("[features]\napps = true", "app://nope", "no MCP server of the thread has the app `nope`"),
        ("[features]\napps = true", "app://", "no MCP server of the thread has the app ``"),
        (
            "[features]\napps = true\n[apps.mail]\nenabled = false",
            "app://mail",
            "the app `mail` is switched off; set `apps.mail.enabled` to true",
        ),
        (
            "[features]\napps = true\n[apps.mail]\ndefault_tools_enabled = false",
            "app://mail",
            "switches off every tool of the app `mail`",
        ),
    ];
    for (keys, path, expected) in cases {
        bench.configure(keys);
        let refused = peer.refused("turn/start", turn(&thread, &[mention("x", path)])).await;
        assert!(refused.message.contains(expected), "{}", refused.message);
        assert!(refused.message.contains("`input[0].path`"), "{}", refused.message);
    }
    // The configuration as it is now counts, before any turn has it.
    let ended = peer.run_turn_with(turn(&thread, &[mention("x", "app://cal")])).await;
    assert_eq!(ended["status"], "completed");
}

/// 100 tools, of which two belong to the app `mail`.
fn many_tools() -> Vec<Value> {
    let mut tools: Vec<Value> =
        (0..100).map(|number| reads("many", &format!("t{number}"))).collect();
    tools[77] = reads("mail", "t77");
    tools[88] = reads("mail", "t88");
    tools
}

#[tokio::test]
async fn a_mention_loads_tools_also_where_the_search_is_the_providers() {
    let responses = json!([calls("mcp__one__t77", json!({})), says("Done.")]);
    let bench = Bench::new(responses, &many_tools()).await;
    search_natively(&bench.env);
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let started = turn(&thread, &[mention("Mail", "app://mail")]);
    assert_eq!(peer.run_turn_with(started).await["status"], "completed");
    let requests = bench.env.model().requests();
    let input = requests[0]["input"].as_array().unwrap();
    let [call, output] = input.last_chunk().unwrap();
    assert_eq!(
        (&call["type"], &output["type"]),
        (&json!("tool_search_call"), &json!("tool_search_output"))
    );
    assert_eq!(call["call_id"], output["call_id"]);
    assert_eq!(output["tools"][1]["name"], "mcp__one__t88");
    assert_eq!(bench.output(1), "done");
    assert_eq!(requests[0]["tools"], requests[1]["tools"]);
}

#[tokio::test]
async fn a_mention_in_steered_input_loads_tools_for_the_running_turn() {
    let responses = json!([
        calls("mcp__one__steps", json!({})),
        calls("mcp__one__t77", json!({})),
        says("Done."),
    ]);
    let mut tools = many_tools();
    tools.push(reads("many", "steps"));
    let bench = Bench::new(responses, &tools).await;
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let running = peer.start_turn(&thread, "Go.").await;
    peer.expect("item/mcpToolCall/progress").await;
    let mut steer = turn(&thread, &[mention("Mail", "app://mail")]);
    steer["expectedTurnId"] = running.as_str().into();
    peer.call("turn/steer", steer).await;
    bench.write("tools.go", &[]);
    assert_eq!(peer.turn_end(&running).await["status"], "completed");
    assert_eq!(bench.output(2), "done");
    let offered = bench.offered().await;
    let last = &offered[1][offered[1].len() - 2..];
    assert_eq!(last, ["mcp__one__t77", "mcp__one__t88"]);
    assert_eq!(offered[1][..offered[0].len()], offered[0]);
}

#[tokio::test]
async fn the_apps_of_a_server_that_is_down_are_not_accessible() {
    let responses = json!([calls("mcp__one__crash", json!({})), says("Done."), says("Done.")]);
    let bench = Bench::new(responses, &[reads("mail", "crash")]).await;
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let accessible = async |peer: &mut Peer| {
        let updated = peer.expect("app/list/updated").await;
        assert_eq!(updated["data"][0]["id"], "mail", "{updated}");
        updated["data"][0]["isAccessible"].clone()
    };
    assert_eq!(accessible(&mut peer).await, true);
    std::fs::remove_file(bench.env.root().join("server.sh")).unwrap();
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(accessible(&mut peer).await, false);
    let listed = peer.call("app/list", json!({ "threadId": thread })).await;
    assert_eq!(listed["data"][0]["isAccessible"], false, "{listed}");
    let warned =
        |warning: &Value| warning["message"].as_str().unwrap().contains("MCP server `one`");
    peer.expect_where("warning", warned).await;
    // Its tools stay, so the app can still be mentioned.
    let started = turn(&thread, &[mention("Mail", "app://mail")]);
    assert_eq!(peer.run_turn_with(started).await["status"], "completed");
}

#[tokio::test]
async fn an_administrator_can_switch_apps_off() {
    let bench = Bench::new(json!([says("Done.")]), &[reads("mail", "read")]).await;
    bench.configure("[features]\napps = true\n[apps.mail]\nenabled = false");
    std::fs::create_dir_all(bench.env.system_dir()).unwrap();
    let requirements = bench.env.system_dir().join("requirements.toml");
    std::fs::write(requirements, "[features]\napps = false\n").unwrap();
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    assert_eq!(apps(&mut peer, json!({ "threadId": thread })).await, []);
    let refused = turn(&thread, &[mention("Mail", "app://mail")]);
    let refused = peer.refused("turn/start", refused).await;
    assert!(refused.message.contains("apps are switched off"), "{}", refused.message);
    // Without apps, connectors mean nothing.
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(tools_of_server(&bench).await, [["read"]]);
}

#[tokio::test]
async fn a_client_is_notified_that_its_apps_are_gone_with_their_server() {
    let bench = Bench::new(json!([says("Done.")]), &[reads("mail", "read")]).await;
    bench.configure("[features]\napps = true");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    assert_eq!(enablement(&peer.expect("app/list/updated").await), list(&[("mail", true)]));
    let text = std::fs::read_to_string(bench.env.home().join("config.toml")).unwrap();
    bench.env.write_config(text.split("\n[mcp_servers").next().unwrap());
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(enablement(&peer.expect("app/list/updated").await), []);
    assert_eq!(apps(&mut peer, json!({ "threadId": thread })).await, []);
    let refused = turn(&thread, &[mention("Mail", "app://mail")]);
    let refused = peer.refused("turn/start", refused).await;
    assert!(refused.message.contains("has the app `mail`; choose one"), "{}", refused.message);
}
