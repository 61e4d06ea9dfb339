//! Tools of MCP servers in turns, with a server that is a shell script: what the model is offered, how
//! calls are bound, asked about, carried out, answered and cancelled.

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, says};

/// A server of the earlier era, whose list of tools is in a file and is read again at each call of the
/// tool `change`.
const SCRIPT: &str = r#"
log=$1; tools=$2
[ -e "$tools.down" ] && exit 4
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
text() { say "$1" "{\"content\":[{\"type\":\"text\",\"text\":\"$2\"}]}"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    say "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}';;
  *'"method":"tools/list"'*) say "$id" "{\"tools\":$(cat "$tools")}"; echo listed >>"$log";;
  *'"method":"notifications/cancelled"'*) echo cancelled >>"$log";;
  *'"method":"tools/call"'*)
    token=${line#*\"progressToken\":}; token=${token%%[,\}]*}
    case $line in
    *'"name":"change"'*)
      cp "$tools.next" "$tools"
      printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
      text "$id" changed;;
    *'"name":"never"'*) echo called >>"$log";;
    *'"name":"crash"'*) exit 3;;
    *'"name":"fails"'*) say "$id" '{"content":[{"type":"text","text":"no such file"}],"isError":true}';;
    *'"name":"steps"'*)
      printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"total":2,"message":"half"}}\n' "$token"
      while ! [ -e "$tools.go" ]; do sleep 0.01; done
      text "$id" "both steps";;
    *'"name":"many"'*)
      say "$id" '{"content":[{"type":"text","text":"a picture\u202e"},{"type":"resource_link","uri":"x:y","name":"n"}],"structuredContent":{"n":1}}';;
    *) echo "$line" >>"$log"; text "$id" done;;
    esac;;
  *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
  esac
done
echo ended >>"$log"
"#;

pub(crate) fn tool(name: &str, annotations: Value) -> Value {
    json!({ "name": name, "description": format!("Does {name}."), "annotations": annotations,
        "inputSchema": { "type": "object", "properties": { "x": { "type": "integer" } } } })
}

pub(crate) fn reads(name: &str) -> Value {
    tool(name, json!({ "readOnlyHint": true }))
}

pub(crate) struct Bench {
    pub(crate) env: TestEnvironment,
}

impl Bench {
    pub(crate) async fn new(responses: Value, tools: &[Value]) -> Self {
        let env = TestEnvironment::with_responses(responses).await;
        std::fs::write(env.root().join("server.sh"), SCRIPT).unwrap();
        let bench = Self { env };
        bench.write("tools", tools);
        bench.configure("");
        bench
    }

    /// `keys`: further keys of the entry.
    pub(crate) fn configure(&self, keys: &str) {
        let config = self.env.home().join("config.toml");
        let text = std::fs::read_to_string(config).unwrap();
        let text = text.split("\n[mcp_servers").next().unwrap();
        let [script, log, tools] =
            ["server.sh", "server.log", "tools"].map(|name| self.env.root().join(name));
        self.env.write_config(&format!(
            "{text}\n[mcp_servers.one]\ncommand = \"sh\"\nargs = [{script:?}, {log:?}, {tools:?}]\n{keys}\n"
        ));
    }

    pub(crate) fn write(&self, file: &str, tools: &[Value]) {
        std::fs::write(self.env.root().join(file), Value::from(tools).to_string()).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.env.root().join("server.log")).unwrap_or_default()
    }

    /// A thread whose server is ready.
    pub(crate) async fn thread(&self, server: &TestServer, params: Value) -> (Peer, String) {
        let mut peer = server.connect().await;
        let thread = peer.start_thread(params).await;
        ready(&mut peer).await;
        (peer, thread)
    }

    /// The tools of the model's requests, by name.
    pub(crate) async fn offered(&self) -> Vec<Vec<String>> {
        let names = |request: &Value| {
            let tools = request["tools"].as_array().unwrap().iter();
            tools.map(|tool| tool["name"].as_str().unwrap_or("").to_owned()).collect()
        };
        self.env.model().requests().iter().map(names).collect()
    }

    pub(crate) fn output(&self, request: usize) -> Value {
        let requests = self.env.model().requests();
        requests[request]["input"].as_array().unwrap().last().unwrap()["output"].clone()
    }
}

async fn ready(peer: &mut Peer) {
    let is_ready = |status: &Value| status["name"] == "one" && status["status"] == "ready";
    peer.expect_where("mcpServer/startupStatus/updated", is_ready).await;
}

#[tokio::test]
async fn a_tool_is_offered_called_and_answered() {
    let responses = json!([
        calls("mcp__one__steps", json!({ "x": 1 })),
        calls("mcp__one__many", json!({})),
        calls("mcp__one__fails", json!({})),
        says("Done."),
    ]);
    let tools = [reads("steps"), reads("many"), reads("fails")];
    let bench = Bench::new(responses, &tools).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let progress = peer.expect("item/mcpToolCall/progress").await;
    assert_eq!(progress["message"], "half (1 of 2)");
    bench.write("tools.go", &[]);
    let item = peer.item("mcpToolCall").await;
    assert_eq!((&item["server"], &item["tool"]), (&json!("one"), &json!("steps")));
    assert_eq!((&item["status"], &item["arguments"]), (&json!("completed"), &json!({ "x": 1 })));
    assert_eq!(item["result"]["content"][0]["text"], "both steps");
    let item = peer.item("mcpToolCall").await;
    assert_eq!(item["result"]["structuredContent"], json!({ "n": 1 }));
    assert_eq!(item["result"]["content"][0]["text"], "a picture\\u{202e}");
    let item = peer.item("mcpToolCall").await;
    assert_eq!(
        (&item["status"], &item["error"]["message"]),
        (&json!("failed"), &json!("no such file"))
    );
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let offered = bench.offered().await;
    let last = &offered[0][offered[0].len() - 3..];
    assert_eq!(last, ["mcp__one__fails", "mcp__one__many", "mcp__one__steps"]);
    assert!(offered.iter().all(|tools| *tools == offered[0]));
    assert_eq!(bench.output(1), "both steps");
    assert_eq!(bench.output(2), "a picture\\u{202e}\n[resource x:y: n ]\n{\"n\":1}");
    // The items are stored.
    let read = json!({ "threadId": thread, "includeTurns": true });
    let read = peer.call("thread/read", read).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap();
    assert_eq!(items.iter().filter(|item| item["type"] == "mcpToolCall").count(), 3);
}

// Effect of `mcp_servers.<id>.default_tools_approval_mode`.
#[tokio::test]
async fn the_mode_of_a_server_holds_for_tools_without_one_of_their_own() {
    let call = |tool: &str| calls(&format!("mcp__one__{tool}"), json!({ "x": 1 }));
    let responses = json!([call("plain"), call("own"), says("Done.")]);
    let tools = [tool("plain", json!({})), tool("own", json!({}))];
    let bench = Bench::new(responses, &tools).await;
    bench.configure(
        "default_tools_approval_mode = \"approve\"\ntools = { own = { approval_mode = \"prompt\" } }",
    );
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({ "approvalPolicy": "never" })).await;
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(bench.output(1), "done");
    let refused = bench.output(2).to_string();
    assert!(refused.contains("the configuration demands it"), "{refused}");
}

// Effect of `mcp_servers.<id>.tools.<tool>.approval_mode`.
#[tokio::test]
async fn tools_that_may_do_harm_are_asked_about() {
    let call = |tool: &str| calls(&format!("mcp__one__{tool}"), json!({ "x": 1 }));
    let responses =
        json!([call("plain"), call("plain"), call("removes"), call("adds"), says("Done."),]);
    let tools = [
        tool("plain", json!({})),
        tool("removes", json!({ "destructiveHint": true })),
        tool("adds", json!({ "destructiveHint": false })),
    ];
    let bench = Bench::new(responses, &tools).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({ "approvalPolicy": "on-request" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked("mcpServer/elicitation/request").await;
    assert_eq!(
        (&asked.params["serverName"], &asked.params["turnId"]),
        (&json!("one"), &json!(turn))
    );
    let message = asked.params["message"].as_str().unwrap();
    assert!(message.contains(r#"the tool "plain" of the MCP server "one"?"#), "{message}");
    assert!(message.contains(r#"Arguments: {"x":1}"#), "{message}");
    assert_eq!(asked.params["_meta"]["agentd/toolCall"]["arguments"], json!({ "x": 1 }));
    let remember = json!({ "action": "accept", "content": { "allowForSession": true } });
    peer.answer(&asked, remember.clone()).await;
    // The second call of the tool is not asked about; what destroys is, and cannot be remembered.
    let asked = peer.asked("mcpServer/elicitation/request").await;
    assert_eq!(asked.params["_meta"]["agentd/toolCall"]["tool"], "removes");
    assert_eq!(asked.params["requestedSchema"]["properties"], json!({}));
    peer.answer(&asked, json!({ "action": "decline" })).await;
    let declined = |item: &Value| item["item"]["tool"] == "removes";
    let item = peer.expect_where("item/completed", declined).await;
    assert_eq!(item["item"]["error"]["message"], "the user declined the call");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(bench.log().lines().filter(|line| line.contains("tools/call")).count(), 3);
    // Without anybody to ask, what was not allowed is refused; the configuration can allow a tool.
    server.stop().await;
    bench.configure("tools = { plain = { approval_mode = \"approve\" }, adds = { approval_mode = \"prompt\" } }");
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({ "approvalPolicy": "never" })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(bench.output(6), "done");
    let refused = [8, 9].map(|request| bench.output(request).to_string());
    assert!(refused[0].contains("none can be requested"), "{refused:?}");
    assert!(refused[1].contains("the configuration demands it"), "{refused:?}");
}

#[tokio::test]
async fn a_changed_list_holds_from_the_next_turn_on_and_redirects_no_call() {
    let responses = json!([
        calls("mcp__one__change", json!({})),
        calls("mcp__one__read", json!({})),
        calls("mcp__one__gone", json!({})),
        says("Done."),
        calls("mcp__one__read", json!({})),
        says("Done."),
    ]);
    let bench =
        Bench::new(responses, &[reads("change"), reads("read"), reads("gone"), reads("stays")])
            .await;
    let changed = tool("read", json!({ "readOnlyHint": true, "title": "Other" }));
    bench.write("tools.next", &[reads("another"), changed, reads("stays"), reads("change")]);
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    peer.expect_where("item/completed", |item| item["item"]["tool"] == "change").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert!(bench.output(3).as_str().unwrap().contains("no longer offers the tool `gone`"));
    assert!(
        bench.output(2).as_str().unwrap().contains("has changed since it offered the tool `read`")
    );
    let turn = peer.start_turn(&thread, "Again.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(bench.output(5), "done");
    let offered = bench.offered().await;
    assert_eq!(offered[3], offered[0], "a turn keeps its tools");
    let servers = |request: usize| -> Vec<&str> {
        let of_server = offered[request].iter().filter_map(|name| name.strip_prefix("mcp__one__"));
        of_server.collect()
    };
    assert_eq!(servers(0), ["change", "gone", "read", "stays"]);
    // What was there keeps its place, and what is new follows.
    assert_eq!(servers(4), ["change", "read", "stays", "another"]);
}

#[tokio::test]
async fn a_server_that_is_ready_late_joins_with_the_next_turn() {
    let responses = json!([says("One."), says("Two.")]);
    let bench = Bench::new(responses, &[reads("read")]).await;
    let root = bench.env.root();
    let gate = root.join("gate");
    std::fs::rename(root.join("server.sh"), root.join("real.sh")).unwrap();
    let waits = format!(
        "while ! [ -e {} ]; do sleep 0.01; done; exec sh {} \"$@\"",
        gate.display(),
        root.join("real.sh").display()
    );
    std::fs::write(root.join("server.sh"), waits).unwrap();
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    std::fs::write(gate, "").unwrap();
    ready(&mut peer).await;
    let turn = peer.start_turn(&thread, "Go on.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let offered = bench.offered().await;
    let (name, before) = offered[1].split_last().unwrap();
    // `read_tool_output` is for long results of servers.
    let before: Vec<&String> = before.iter().filter(|name| *name != "read_tool_output").collect();
    assert_eq!((name.as_str(), before), ("mcp__one__read", offered[0].iter().collect()));
}

#[tokio::test]
async fn the_end_of_a_turn_and_of_a_server_end_a_call() {
    let responses = json!([
        calls("mcp__one__never", json!({})),
        calls("mcp__one__crash", json!({})),
        calls("mcp__one__read", json!({})),
        says("Done."),
    ]);
    let bench = Bench::new(responses, &[reads("never"), reads("crash"), reads("read")]).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let begun = |item: &Value| item["item"]["type"] == "mcpToolCall";
    peer.expect_where("item/started", begun).await;
    wait_for(&bench, "called").await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    let item = peer.item("mcpToolCall").await;
    assert_eq!(item["status"], "failed");
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    wait_for(&bench, "cancelled").await;
    // A server that ends during a call is started again for the next one.
    let turn = peer.start_turn(&thread, "Go on.").await;
    let item = peer.item("mcpToolCall").await;
    assert_eq!(item["status"], "failed");
    let message = item["error"]["message"].as_str().unwrap();
    assert!(message.contains("MCP server `one`"), "{message}");
    assert_eq!(peer.item("mcpToolCall").await["status"], "completed");
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
}

pub(crate) async fn wait_for(bench: &Bench, line: &str) {
    while !bench.log().lines().any(|logged| logged == line) {
        // tidy: sleep processes of others report nothing
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn many_tools_are_deferred_to_the_search() {
    let responses = json!([
        calls("tool_search", json!({ "query": "Does t77." , "limit": 1 })),
        calls("mcp__one__t77", json!({})),
        says("Done."),
    ]);
    let tools: Vec<Value> = (0..100).map(|number| reads(&format!("t{number}"))).collect();
    let bench = Bench::new(responses, &tools).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let item = peer.item("mcpToolCall").await;
    assert_eq!((&item["tool"], &item["status"]), (&json!("t77"), &json!("completed")));
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let offered = bench.offered().await;
    assert!(offered[0].len() <= 40 && offered[0].contains(&"tool_search".to_owned()));
}

#[tokio::test]
async fn an_entry_of_a_client_is_not_believed() {
    let responses = json!([calls("mcp__one__read", json!({})), says("Done.")]);
    let bench = Bench::new(responses, &[reads("read")]).await;
    let server = bench.env.start();
    let config = json!({ "mcp_servers": { "one": {
        "env": { "X": "1" }, "default_tools_approval_mode": "approve",
    } } });
    let params = json!({ "approvalPolicy": "on-request", "config": config });
    let (mut peer, thread) = bench.thread(&server, params).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked("mcpServer/elicitation/request").await;
    peer.answer(&asked, json!({ "action": "cancel" })).await;
    let ended = peer.turn_end(&turn).await;
    assert_eq!(ended["status"], "interrupted");
}

/// An answer that accepts more than what was offered accepts what was offered.
#[tokio::test]
async fn an_accepted_call_stays_accepted_whatever_else_the_answer_says() {
    let call = || calls("mcp__one__removes", json!({}));
    let responses = json!([call(), call(), call(), says("Done.")]);
    let bench = Bench::new(responses, &[tool("removes", json!({ "destructiveHint": true }))]).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    for (content, part) in [
        (
            json!({ "allowForSession": true }),
            "was not offered, so the answer holds for this call only",
        ),
        (json!({ "bogus": 1 }), "`content.bogus` is not a field of the form"),
    ] {
        let asked = peer.asked("mcpServer/elicitation/request").await;
        peer.answer(&asked, json!({ "action": "accept", "content": content })).await;
        let warning = peer.expect("warning").await;
        assert!(warning["message"].as_str().unwrap().contains(part), "{warning}");
        let item =
            peer.expect_where("item/completed", |item| item["item"]["tool"] == "removes").await;
        assert_eq!(item["item"]["status"], "completed", "{item}");
    }
    // Nothing was remembered.
    let asked = peer.asked("mcpServer/elicitation/request").await;
    peer.answer(&asked, json!({ "action": "decline", "content": { "allowForSession": true } }))
        .await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    assert_eq!(bench.log().lines().filter(|line| line.contains("tools/call")).count(), 2);
}

#[tokio::test]
async fn a_schema_that_model_apis_refuse_is_loosened_for_the_model_and_arguments_pass_as_they_are()
{
    let arguments = json!({ "a b": [1, null], "x": "no number" });
    let responses = json!([calls("mcp__one__odd", arguments.clone()), says("Done.")]);
    let mut odd = reads("odd");
    odd["inputSchema"] = json!({
        "type": "object", "properties": { "x": { "type": "nmuber", "minLength": -1 }, "a b": true },
        "anyOf": [{ "required": ["x"] }, { "$ref": "http://127.0.0.1:1/x" }],
    });
    let mut none = reads("none");
    none["inputSchema"] = json!({ "type": "string" });
    let bench = Bench::new(responses, &[odd, none]).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
    let warning = peer.expect("warning").await;
    let left_out = "the server `one` lists tools that cannot be offered and are left out: `none` has an \
                    `inputSchema` that no object fits, and arguments are one";
    assert_eq!(warning["message"], left_out);
    let turn = peer.start_turn(&thread, "Go.").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "completed");
    let requests = bench.env.model().requests();
    let tools = requests[0]["tools"].as_array().unwrap();
    let odd = tools.iter().find(|tool| tool["name"] == "mcp__one__odd").unwrap();
    let expected = json!({
        "type": "object", "properties": { "x": {} }, "description": "Further properties: \"a b\"",
    });
    assert_eq!(odd["parameters"], expected);
    assert!(tools.iter().all(|tool| tool["name"] != "mcp__one__none"));
    let sent = bench.log();
    let sent: Value =
        serde_json::from_str(sent.lines().find(|line| line.contains("tools/call")).unwrap())
            .unwrap();
    assert_eq!(sent["params"]["arguments"], arguments);
}
