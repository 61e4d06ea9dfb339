//! `agentd mcp`: the real program, and a server that is a shell script.

use crate::common::{TestEnvironment, stderr, stdout};
use serde_json::json;

/// A server with one tool.
pub(crate) const SERVER: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}';;
  *'"method":"server/discover"'*) result='{}';;
  *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"echoed"}]}';;
  *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;

#[test]
fn servers_are_added_listed_tested_and_removed() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["mcp"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    run(&["add", "one", "--env", "KEY=secret", "--", "sh", "-c", SERVER], 0);
    run(&["add", "two", "--url", "http://127.0.0.1:9/mcp"], 0);
    let (listed, _) = run(&["list"], 0);
    assert_eq!(listed, "one  sh\ntwo  http://127.0.0.1:9/mcp\n");
    let (_, refused) = run(&["add", "two", "--url", "http://127.0.0.1:8/mcp"], 1);
    assert!(refused.contains("already has an MCP server `two`"), "{refused}");
    assert_eq!(run(&["list"], 0).0, listed);
    run(&["add", "two", "--replace", "--url", "http://127.0.0.1:7/mcp"], 0);
    assert!(run(&["list"], 0).0.ends_with("two  http://127.0.0.1:7/mcp\n"));
    let (shown, _) = run(&["get", "one"], 0);
    assert!(shown.contains("\"KEY\": \"***\""), "{shown}");
    assert!(run(&["get", "one", "--secrets"], 0).0.contains("\"KEY\": \"secret\""));
    let (tested, _) = run(&["test"], 1);
    assert!(tested.contains("one  ok, 1 tools\n"), "{tested}");
    assert!(tested.contains("two  failed: ") && tested.contains("cannot be reached"), "{tested}");
    run(&["remove", "two"], 0);
    assert!(run(&["remove", "two"], 1).1.contains("no MCP server `two`"));
    for unseen in ["", "a\nb", "a\u{202e}b"] {
        assert!(run(&["add", unseen, "--", "sh"], 2).1.contains("no hidden ones"));
    }
    assert_eq!(run(&["test"], 0).0, "one  ok, 1 tools\n");
    assert!(run(&["login", "one"], 2).1.contains("only servers with `url` have logins"));
    assert!(run(&["logout", "two"], 1).1.contains("no MCP server `two`"));
    assert!(run(&["get", "two"], 1).1.contains("no MCP server `two`"));
}

#[test]
fn a_server_is_added_with_its_sandbox() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["mcp"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    run(&["add", "reads", "--sandbox", "read-only", "--", "sh", "-c", SERVER], 0);
    let folder = ["--cwd", "/tmp", "--sandbox", "workspace-write", "--sandbox-network"];
    run(&[&["add", "writes"], &folder[..], &["--", "sh", "-c", SERVER]].concat(), 0);
    let (listed, _) = run(&["list"], 0);
    let expected =
        "reads  sh  (sandbox: read-only)\nwrites  sh  (sandbox: workspace-write, with network)\n";
    assert_eq!(listed, expected);
    assert!(run(&["get", "writes"], 0).0.contains("\"cwd\": \"/tmp\""));
    let tested = "reads  ok, 1 tools\nwrites  ok, 1 tools\n";
    assert_eq!(run(&["test"], 0).0, tested);
    let without_folder = ["add", "x", "--sandbox", "workspace-write", "--", "sh"];
    assert!(run(&without_folder, 2).1.contains("--cwd"));
    assert!(run(&["add", "x", "--sandbox-network", "--", "sh"], 2).1.contains("--sandbox"));
    assert!(
        run(&["add", "x", "--sandbox", "read-only", "--url", "http://h/"], 2).1.contains("--url")
    );
}

#[test]
fn a_test_names_the_tools_that_are_left_out() {
    let env = TestEnvironment::new();
    let server = SERVER.replace(r#"[{"name":"echo","#, r#"[{"name":""},{"name":"echo","#);
    let added = env.run(&["mcp", "add", "one", "--", "sh", "-c", &server]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let tested = env.run(&["mcp", "test"]);
    assert_eq!(stdout(&tested), "one  ok, 1 tools\n", "{}", stderr(&tested));
    let warning = "agentd: warning: the server `one` lists tools that cannot be offered";
    assert!(stderr(&tested).contains(warning), "{}", stderr(&tested));
}

#[test]
fn the_one_turn_of_exec_has_the_tools_of_servers() {
    let env = TestEnvironment::new();
    let call = json!({ "name": "mcp__one__echo", "arguments": "{}" });
    let model = env.script(&json!([
        { "steps": [{ "function_call": call }] },
        { "steps": [{ "message": { "text": "Done.", "phase": "final_answer" } }] },
    ]));
    let added = env.run(&["mcp", "add", "one", "--", "sh", "-c", SERVER]);
    assert_eq!(added.status.code(), Some(0), "{}", stderr(&added));
    let exec = ["exec", "-c", "model_provider=\"offline\"", "-m", &model, "Call it."];
    // Nobody can be asked.
    let refused = env.run(&exec);
    assert_eq!(stdout(&refused), "Done.\n", "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("mcp_servers.one.tools.echo.approval_mode"),
        "{}",
        stderr(&refused)
    );
    let allowed = ["-c", "mcp_servers.one.default_tools_approval_mode=\"approve\""];
    let done = env.run(&[&exec[..1], &allowed, &exec[1..]].concat());
    assert_eq!(stdout(&done), "Done.\n", "{}", stderr(&done));
    assert!(stderr(&done).contains("one/echo\n"), "{}", stderr(&done));
}
