//! MCP servers over the protocol, with a server that is a shell script: their states, their tools and
//! resources, their questions, and those that are required.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::says;

/// A server of the earlier era. It logs its start, its environment and its end.
const SCRIPT: &str = r#"
log=$1
echo started >>"$log"; env >>"$log"
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$1" "$2"; }
tools='"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}},{"name":"hidden","inputSchema":{"type":"object"}},{"name":"never","inputSchema":{"type":"object"}},{"name":"other","inputSchema":{"type":"object"}},{"name":"hasty","inputSchema":{"type":"object"}},{"name":"dies","inputSchema":{"type":"object"}}]'
form='{"type":"object","properties":{"n":{"type":"integer","default":4}}}'
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    say "$id" '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}';;
  *'"method":"tools/list"'*) say "$id" "\"result\":{$tools}";;
  *'"method":"resources/list"'*)
    say "$id" '"result":{"resources":[{"name":"r","uri":"test://r"}]}';;
  *'"method":"resources/templates/list"'*) say "$id" '"error":{"code":-32601,"message":"no"}';;
  *'"method":"prompts/list"'*)
    say "$id" '"result":{"prompts":[{"name":"p","description":"a\u200bb","arguments":[{"name":"topic","required":true}]}]}';;
  *'"method":"prompts/get"'*'"name":"p"'*)
    say "$id" '"result":{"messages":[{"role":"user","content":{"type":"text","text":"About x."}}]}';;
  *'"method":"prompts/get"'*) say "$id" '"error":{"code":-32602,"message":"no such prompt"}';;
  *'"method":"resources/read"'*'test://gone'*)
    say "$id" '"error":{"code":-32002,"message":"no such resource"}';;
  *'"method":"resources/read"'*'test://image'*)
    say "$id" "\"result\":{\"contents\":[{\"uri\":\"test://image\",\"mimeType\":\"image/png\",\"blob\":\"$(cat "$log.image")\"},{\"uri\":\"test://image\",\"mimeType\":\"application/pdf\",\"blob\":\"QUJD\"}]}";;
  *'"method":"resources/read"'*'test://slow'*)
    while ! [ -e "$log.go" ]; do sleep 0.01; done
    say "$id" '"result":{"contents":[{"uri":"test://slow","text":"content"}]}';;
  *'"method":"resources/read"'*)
    say "$id" '"result":{"contents":[{"uri":"test://r","text":"content"}]}';;
  *'"method":"tools/call"'*'"name":"ask"'*)
    call=$id
    say 900 "\"method\":\"elicitation/create\",\"params\":{\"message\":\"How many?\",\"requestedSchema\":$form}"
    while read -r answer; do case $answer in *'"id":900'*) break;; esac; done
    text=$(printf %s "$answer" | sed 's/.*"result"://; s/}$//; s/"/\\"/g')
    say "$call" "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}";;
  *'"method":"tools/call"'*'"name":"hasty"'*)
    say 901 "\"method\":\"elicitation/create\",\"params\":{\"message\":\"How many?\",\"requestedSchema\":$form}"
    [ -e "$log.waits" ] && while ! [ -e "$log.go" ]; do sleep 0.01; done
    say "$id" '"result":{"content":[{"type":"text","text":"done"}]}';;
  *'"method":"tools/call"'*'"name":"dies"'*)
    say 902 "\"method\":\"elicitation/create\",\"params\":{\"message\":\"How many?\",\"requestedSchema\":$form}"
    while ! [ -e "$log.go" ]; do sleep 0.01; done
    exit 5;;
  *'"id":901'*) echo "$line" >>"$log";;
  *'"method":"tools/call"'*'"name":"never"'*) ;;
  *'"method":"tools/call"'*)
    say "$id" '"result":{"content":[{"type":"text","text":"done"}],"isError":false}';;
  *'"method":"server/discover"'*) say "$id" '"error":{"code":-32601,"message":"no"}';;
  esac
done
echo ended >>"$log"
"#;

pub(crate) struct Bench {
    pub(crate) env: TestEnvironment,
    pub(crate) log: PathBuf,
}

impl Bench {
    /// `keys`: further keys of the entry.
    pub(crate) async fn new(keys: &str) -> Self {
        Self::with_responses(json!([says("One.")]), keys).await
    }

    pub(crate) async fn with_responses(responses: Value, keys: &str) -> Self {
        let mut env = TestEnvironment::with_responses(responses).await;
        env.variables.push(("MY_TOKEN".into(), "secret".into()));
        env.variables.push(("PASSED".into(), "too".into()));
        let (script, log) = (env.root().join("server.sh"), env.root().join("server.log"));
        std::fs::write(&script, SCRIPT).unwrap();
        let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        env.write_config(&format!(
            "{text}\n[mcp_servers.one]\ncommand = \"sh\"\nargs = [{script:?}, {log:?}]\n{keys}\n"
        ));
        Self { env, log }
    }

    /// An entry that starts the script with a log of its own.
    pub(crate) fn entry(&self, log: &str) -> Value {
        let (script, log) = (self.env.root().join("server.sh"), self.env.root().join(log));
        json!({ "command": "sh", "args": [script, log] })
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn count(&self, line: &str) -> usize {
        self.log().lines().filter(|logged| *logged == line).count()
    }
}

pub(crate) fn call(thread: &str, tool: &str) -> Value {
    json!({ "threadId": thread, "server": "one", "tool": tool, "arguments": {} })
}

// Effect of `mcp_servers.<id>.command`, `mcp_servers.<id>.args`, `mcp_servers.<id>.cwd`.
// Effect of `mcp_servers.<id>.env`, `mcp_servers.<id>.env_vars`, `mcp_servers.<id>.enabled`.
// Effect of `mcp_servers.<id>.enabled_tools`, `mcp_servers.<id>.disabled_tools`.
// Effect of `mcp_servers.<id>.tool_timeout_sec`.
#[tokio::test]
async fn tools_and_resources_are_listed_called_and_read() {
    let bench = Bench::new(
        "enabled_tools = [\"ask\", \"echo\", \"never\", \"hidden\"]\n\
         disabled_tools = [\"hidden\"]\ntool_timeout_sec = 0.75\ncwd = \"/usr\"\n\
         env = { MINE = \"1\" }\nenv_vars = [\"PASSED\"]\n\
         [mcp_servers.off]\ncommand = \"sh\"\nenabled = false",
    )
    .await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let listed = peer.call("mcpServerStatus/list", json!({ "start": true })).await;
    let row = &listed["data"][0];
    assert_eq!((&row["status"], &row["error"]), (&json!("ready"), &Value::Null));
    assert_eq!((&row["name"], &row["authStatus"]), (&json!("one"), &json!("unsupported")));
    let tools: Vec<&String> = row["tools"].as_object().unwrap().keys().collect();
    assert_eq!(tools, ["ask", "echo", "never"]);
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(row["resources"][0]["uri"], "test://r");
    let brief = json!({ "detail": "toolsAndAuthOnly", "limit": 1 });
    assert_eq!(peer.call("mcpServerStatus/list", brief).await["data"][0]["resources"], json!([]));
    let read = json!({ "server": "one", "uri": "test://r" });
    let read = peer.call("mcpServer/resource/read", read).await;
    assert_eq!(read["contents"][0]["text"], "content");

    let mut threads = Vec::new();
    for _ in 0..5 {
        threads.push(peer.start_thread(json!({})).await);
    }
    let is_ready = |status: &Value| status["name"] == "one" && status["status"] == "ready";
    peer.expect_where("mcpServer/startupStatus/updated", is_ready).await;
    let done = peer.call("mcpServer/tool/call", call(&threads[4], "echo")).await;
    assert_eq!(done["content"][0]["text"], "done");
    assert_eq!(done["isError"], false);
    let unknown = peer.refused("mcpServer/tool/call", call(&threads[0], "hidden")).await;
    assert!(unknown.message.contains("offers no tool `hidden`"), "{}", unknown.message);
    let mut other = call(&threads[0], "echo");
    other["server"] = "two".into();
    let unknown = peer.refused("mcpServer/tool/call", other).await;
    assert!(unknown.message.contains("no MCP server `two`"), "{}", unknown.message);
    let mut odd = call(&threads[0], "echo");
    odd["arguments"] = json!([1]);
    let odd = peer.refused("mcpServer/tool/call", odd).await;
    assert!(odd.message.contains("`arguments` must be an object"), "{}", odd.message);
    // One process for all of them, with an environment of its own, which ends with the server.
    assert_eq!((bench.count("started"), bench.count("MINE=1")), (1, 1));
    assert_eq!((bench.count("PASSED=too"), bench.count("PWD=/usr")), (1, 1));
    let late = peer.refused("mcpServer/tool/call", call(&threads[0], "never")).await;
    assert!(late.message.contains("within 0.75 s (`tool_timeout_sec`)"), "{}", late.message);
    assert!(!bench.log().contains("MY_TOKEN"), "{}", bench.log());
    server.stop().await;
    assert_eq!(bench.count("ended"), 1);
}

#[tokio::test]
async fn a_question_is_answered_with_the_defaults_of_its_form() {
    let bench = Bench::new("").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let id = peer.send("mcpServer/tool/call", call(&thread, "ask")).await;
    let asked = peer.asked("mcpServer/elicitation/request").await;
    assert_eq!(asked.params["threadId"], thread.as_str());
    assert_eq!(
        (&asked.params["serverName"], &asked.params["mode"]),
        (&json!("one"), &json!("form"))
    );
    assert_eq!(asked.params["requestedSchema"]["properties"]["n"]["default"], json!(4));
    peer.answer(&asked, json!({ "action": "accept", "content": {} })).await;
    let done = peer.response(id).await.unwrap();
    assert_eq!(done["content"][0]["text"], r#"{"action":"accept","content":{"n":4}}"#);
    peer.expect("serverRequest/resolved").await;
    // Values that the form does not allow count as no answer.
    let id = peer.send("mcpServer/tool/call", call(&thread, "ask")).await;
    let asked = peer.asked("mcpServer/elicitation/request").await;
    peer.answer(&asked, json!({ "action": "accept", "content": { "n": "many" } })).await;
    let warning = peer.expect("warning").await;
    assert!(warning["message"].as_str().unwrap().contains("content.n"), "{warning}");
    let done = peer.response(id).await.unwrap();
    assert_eq!(done["content"][0]["text"], r#"{"action":"cancel"}"#);
    // A policy without approvals is none without questions.
    let never = peer.start_thread(json!({ "approvalPolicy": "never" })).await;
    let id = peer.send("mcpServer/tool/call", call(&never, "ask")).await;
    let asked = peer.asked("mcpServer/elicitation/request").await;
    assert_eq!(asked.params["threadId"], never.as_str());
    peer.answer(&asked, json!({ "action": "decline" })).await;
    let done = peer.response(id).await.unwrap();
    assert_eq!(done["content"][0]["text"], r#"{"action":"decline"}"#);
    // A policy that lets no questions through declines them.
    let granular = json!({ "sandbox_approval": true, "rules": true, "mcp_elicitations": false });
    let strict = json!({ "approvalPolicy": { "granular": granular } });
    let strict = peer.start_thread(strict).await;
    let done = peer.call("mcpServer/tool/call", call(&strict, "ask")).await;
    assert_eq!(done["content"][0]["text"], r#"{"action":"decline"}"#);
}

// Effect of `approval_policy.granular.mcp_elicitations`.
#[tokio::test]
async fn a_granular_policy_says_whether_servers_may_ask() {
    for (lets, expected) in [(true, "accept"), (false, "decline")] {
        let bench = Bench::new("").await;
        let text = std::fs::read_to_string(bench.env.home().join("config.toml")).unwrap();
        let granular = format!("sandbox_approval = true, rules = true, mcp_elicitations = {lets}");
        bench
            .env
            .write_config(&format!("approval_policy = {{ granular = {{ {granular} }} }}\n{text}"));
        let server = bench.env.start();
        let mut peer = server.connect().await;
        let thread = peer.start_thread(json!({})).await;
        let id = peer.send("mcpServer/tool/call", call(&thread, "ask")).await;
        if lets {
            let asked = peer.asked("mcpServer/elicitation/request").await;
            peer.answer(&asked, json!({ "action": "accept", "content": {} })).await;
        }
        let done = peer.response(id).await.unwrap();
        let said = done["content"][0]["text"].as_str().unwrap();
        assert!(said.contains(expected), "{lets}: {said}");
    }
}

#[tokio::test]
async fn a_list_of_servers_shows_what_is_and_starts_nothing() {
    let bench = Bench::new(
        "[mcp_servers.broken]\ncommand = \"false\"\n\
         [mcp_servers.slow]\ncommand = \"sleep\"\nargs = [\"60\"]",
    )
    .await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let rows = |listed: &Value| -> Vec<(String, String, usize, bool)> {
        let rows = listed["data"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rows.map(|row| {
            let tools = row["tools"].as_object().unwrap().len();
            (text(&row["name"]), text(&row["status"]), tools, row["error"].is_string())
        })
        .collect()
    };
    let row = |name: &str, status: &str, tools: usize, has_error: bool| {
        (name.to_owned(), status.to_owned(), tools, has_error)
    };
    let listed = peer.call("mcpServerStatus/list", json!({})).await;
    let idle = ["broken", "one", "slow"].map(|name| row(name, "notStarted", 0, false));
    assert_eq!(rows(&listed), idle);
    assert_eq!(bench.log(), "", "a list started the server");

    let thread = peer.start_thread(json!({})).await;
    for (name, status) in [("one", "ready"), ("broken", "failed")] {
        let reached = |it: &Value| it["name"] == name && it["status"] == status;
        peer.expect_where("mcpServer/startupStatus/updated", reached).await;
    }
    let listed = peer.call("mcpServerStatus/list", json!({})).await;
    let now = [
        row("broken", "failed", 0, true),
        row("one", "ready", 7, false),
        row("slow", "starting", 0, false),
    ];
    assert_eq!(rows(&listed), now);
    assert!(listed["data"][0]["error"].as_str().unwrap().contains("exit code 1"), "{listed}");
    assert_eq!(listed["data"][1]["resources"][0]["uri"], "test://r");

    // The turn does not wait for the slow one, and says so once.
    peer.run_turn(&thread, "Go.").await;
    let warning = peer.expect("warning").await;
    let message = warning["message"].as_str().unwrap();
    assert!(message.starts_with("the MCP server `slow` still starts"), "{message}");
    assert_eq!(warning["threadId"], json!(thread));
}

// Effect of `mcp_servers.<id>.required`, `mcp_servers.<id>.startup_timeout_ms`.
// Effect of `mcp_servers.<id>.startup_timeout_sec`.
#[tokio::test]
async fn only_a_required_server_that_fails_refuses_a_thread() {
    let bench = Bench::new("[mcp_servers.slow]\ncommand = \"sleep\"\nargs = [\"60\"]").await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let is_starting = |status: &Value| status["name"] == "slow" && status["status"] == "starting";
    peer.expect_where("mcpServer/startupStatus/updated", is_starting).await;
    let required = |program: &str| {
        json!({ "mcp_servers": { "needed": {
            "command": program, "required": true, "startup_timeout_ms": 200,
        } } })
    };
    let refused = peer.refused("thread/start", json!({ "config": required("false") })).await;
    let message = &refused.message;
    assert!(message.contains("required MCP server `needed` did not start"), "{message}");
    assert!(message.contains("exit code 1"), "{message}");
    let mut slow = required("sh");
    slow["mcp_servers"]["needed"]["args"] = json!(["-c", "sleep 60"]);
    let refused = peer.refused("thread/start", json!({ "config": slow })).await;
    assert!(refused.message.contains("not ready within 0.2 s"), "{}", refused.message);
    let needed = slow["mcp_servers"]["needed"].as_object_mut().unwrap();
    needed.remove("startup_timeout_ms");
    needed.insert("startup_timeout_sec".to_owned(), json!(1));
    let refused = peer.refused("thread/start", json!({ "config": slow })).await;
    assert!(refused.message.contains("not ready within 1 s"), "{}", refused.message);
    let resume = json!({ "threadId": thread, "config": required("nothing-like-it") });
    // A loaded thread has its servers already.
    peer.call("thread/resume", resume).await;
    let both = json!({ "mcp_servers": { "odd": { "command": "x", "url": "http://y/" } } });
    peer.start_thread(json!({ "config": both })).await;
    let has_failed = |status: &Value| status["name"] == "odd" && status["status"] == "failed";
    let failed = peer.expect_where("mcpServer/startupStatus/updated", has_failed).await;
    assert!(failed["error"].as_str().unwrap().contains("both `command` and `url`"), "{failed}");
    let missing = json!({ "mcp_servers": { "web": {
        "url": "http://127.0.0.1:9/mcp", "bearer_token_env_var": "NO_SUCH_TOKEN",
    } } });
    peer.start_thread(json!({ "config": missing })).await;
    let has_failed = |status: &Value| status["name"] == "web" && status["status"] == "failed";
    let failed = peer.expect_where("mcpServer/startupStatus/updated", has_failed).await;
    assert!(failed["error"].as_str().unwrap().contains("NO_SUCH_TOKEN"), "{failed}");
}

#[tokio::test]
async fn a_server_and_what_it_started_end_with_the_program() {
    let env = Bench::new("").await.env;
    let pids = env.root().join("pids");
    let script = format!("sleep 1000 & echo $! > {}; exec sleep 1000", pids.display());
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "{text}\n[mcp_servers.tree]\ncommand = \"sh\"\nargs = [\"-c\", {script:?}]\n"
    ));
    let server = env.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    let child = loop {
        match std::fs::read_to_string(&pids) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            // tidy: sleep processes of others report no end
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert!(PathBuf::from(format!("/proc/{child}")).exists());
    server.stop().await;
    while PathBuf::from(format!("/proc/{child}")).exists() {
        // tidy: sleep processes of others report no end
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

// Effect of `mcp_servers.<id>.sandbox`, `mcp_servers.<id>.sandbox_network`.
#[tokio::test]
async fn a_confined_server_changes_only_its_folder() {
    let env = Bench::new("").await.env;
    let (inside, outside) = (env.root().join("inside"), env.root().join("outside"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::create_dir(&outside).unwrap();
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let entry = |name: &str, keys: &str| {
        let tried = outside.join(name);
        let script = format!(
            "touch made; touch {}; {{ exec 3<>/dev/tcp/127.0.0.1/9; }} 2>&1 | grep -q permitted && touch offline; \
             exit 7",
            tried.display()
        );
        format!(
            "[mcp_servers.{name}]\ncommand = \"bash\"\nargs = [\"-c\", {script:?}]\ncwd = {:?}\n{keys}\n",
            inside.join(name)
        )
    };
    for (name, keys, expect) in [
        ("free", "", (true, true, false)),
        ("writes", "sandbox = \"workspace-write\"", (true, false, true)),
        ("reaches", "sandbox = \"workspace-write\"\nsandbox_network = true", (true, false, false)),
        ("reads", "sandbox = \"read-only\"", (false, false, false)),
    ] {
        std::fs::create_dir(inside.join(name)).unwrap();
        env.write_config(&format!("{text}\n{}", entry(name, &format!("required = true\n{keys}"))));
        let server = env.start();
        let mut peer = server.connect().await;
        // It has ended once the start of the thread was refused.
        peer.refused("thread/start", json!({})).await;
        let made = (
            inside.join(name).join("made").exists(),
            outside.join(name).exists(),
            inside.join(name).join("offline").exists(),
        );
        assert_eq!(made, expect, "{name}");
        server.stop().await;
    }
    for (keys, why) in [
        ("sandbox = \"workspace-write\"", "`mcp_servers.bare.cwd`"),
        ("sandbox_network = true", "has no effect without `mcp_servers.bare.sandbox`"),
    ] {
        let entry = format!("[mcp_servers.bare]\ncommand = \"bash\"\nrequired = true\n{keys}\n");
        env.write_config(&format!("{text}\n{entry}"));
        let server = env.start();
        let mut peer = server.connect().await;
        let fault = peer.refused("thread/start", json!({})).await;
        assert!(fault.message.contains(why), "{keys}: {}", fault.message);
        server.stop().await;
    }
}
