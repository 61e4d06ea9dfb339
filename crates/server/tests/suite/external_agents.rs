//! What other agents have is detected, shown, and imported once.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

const SESSION: &str = concat!(
    r#"{"type":"user","cwd":"/work/app","timestamp":"2026-01-02T03:04:05.678Z","message":{"role":"user","content":"Fix the bug"}}"#,
    "\n",
    r#"{"type":"assistant","timestamp":"2026-01-02T03:04:06Z","message":{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}"#,
    "\n",
    r#"{"type":"user","timestamp":"2026-01-02T03:04:07Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a.rs"}]}}"#,
    "\n",
    r#"{"type":"assistant","timestamp":"2026-01-02T03:04:08Z","message":{"role":"assistant","content":[{"type":"text","text":"Fixed."}]}}"#,
    "\n",
    r#"{"type":"user","mess"#,
);

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

async fn env() -> TestEnvironment {
    let script = json!({ "responses": [says("Yes.")], "on_exhausted": "repeat_last" });
    TestEnvironment::with_script(&script).await
}

fn user_home(env: &TestEnvironment) -> PathBuf {
    env.root().join("user")
}

fn fill(base: &Path, servers: &str) {
    let servers_text = json!({ "mcpServers": {
        "files": { "command": "mcp-files", "args": ["/x"], "env": { "KEY": "s3cret" } },
        "old": { "type": "sse", "url": "https://a.example" },
    }});
    put(&base.join(servers), &servers_text.to_string());
    let settings = json!({
        "permissions": { "allow": ["Bash(npm run test:*)", "Read(./x)"], "deny": ["Bash(rm:*)"] },
        "hooks": {
            "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "check" }] }],
            "Unheard": [{ "hooks": [{ "type": "command", "command": "x" }] }],
        },
    });
    put(&base.join(".claude/settings.json"), &settings.to_string());
    let agent =
        "---\nname: reviewer\ndescription: Reviews: all of it\nmodel: opus\n---\nReview it.\n";
    put(&base.join(".claude/agents/reviewer.md"), agent);
    put(&base.join(".claude/commands/git/ship.md"), "Ship $ARGUMENTS.\n");
    put(&base.join(".claude/commands/shell.md"), "State: !`git status`\n");
    let skill = "---\nname: pdf\ndescription: For PDFs.\n---\nRead.\n";
    put(&base.join(".claude/skills/pdf/SKILL.md"), skill);
    put(&base.join(".claude/skills/pdf/scripts/run.sh"), "#!/bin/sh\n");
}

async fn detect(client: &mut Peer, params: Value) -> Vec<Value> {
    let found = client.call("externalAgentConfig/detect", params).await;
    found["items"].as_array().unwrap().clone()
}

async fn import(client: &mut Peer, items: &[Value]) {
    let answer =
        client.call("externalAgentConfig/import", json!({ "migrationItems": items })).await;
    assert_eq!(answer, json!({}));
    client.expect("externalAgentConfig/import/completed").await;
}

fn of_type<'i>(items: &'i [Value], kind: &str) -> &'i Value {
    items
        .iter()
        .find(|item| item["itemType"] == kind)
        .unwrap_or_else(|| panic!("{kind}: {items:?}"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[tokio::test]
async fn everything_of_the_user_is_imported_once() {
    let env = env().await;
    let (user, home) = (user_home(&env), env.home().to_owned());
    fill(&user, ".claude.json");
    put(&user.join(".claude/CLAUDE.md"), "Be kind.\n");
    put(&user.join(".claude/projects/-work-app/s1.jsonl"), SESSION);
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "includeHome": true })).await;
    let kinds: Vec<&str> = items.iter().map(|item| item["itemType"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "AGENTS_MD",
            "HOOKS",
            "CONFIG",
            "MCP_SERVER_CONFIG",
            "SKILLS",
            "SUBAGENTS",
            "COMMANDS",
            "SESSIONS"
        ]
    );
    assert!(!json!(items).to_string().contains("s3cret"), "secrets are not shown");
    let servers = of_type(&items, "MCP_SERVER_CONFIG");
    assert_eq!(servers["details"], json!({ "mcpServers": [{ "name": "files" }] }));
    for (kind, part) in [
        ("MCP_SERVER_CONFIG", "files: runs \"mcp-files\" \"/x\", with KEY"),
        ("MCP_SERVER_CONFIG", "`old`: the transport `sse` is not supported"),
        ("HOOKS", "`Unheard`: there is no event"),
        ("CONFIG", "`allow: Read(./x)`: only rules about commands"),
        ("COMMANDS", "`shell`: it runs commands when it is used"),
        ("SUBAGENTS", "without its model"),
    ] {
        let description = of_type(&items, kind)["description"].as_str().unwrap();
        assert!(description.contains(part), "{description}");
    }
    assert!(!home.join("hooks.json").exists(), "detection writes nothing");

    import(&mut client, &items).await;
    let config = read(&home.join("config.toml"));
    assert!(config.contains("developer_instructions = \"Be kind.\""), "{config}");
    assert!(config.contains("s3cret") && config.contains("roles/reviewer.toml"), "{config}");
    assert!(!config.contains("a.example"));
    assert_eq!(
        read(&home.join("roles/reviewer.toml")),
        "developer_instructions = \"Review it.\"\n"
    );
    assert!(read(&home.join("skills/git-ship/SKILL.md")).contains("Ship $ARGUMENTS."));
    assert_eq!(read(&home.join("skills/pdf/scripts/run.sh")), "#!/bin/sh\n");
    assert!(read(&home.join("hooks.json")).contains("\"command\": \"check\""));
    assert_eq!(
        read(&home.join("rules/claude-code.rules")),
        "prefix_rule(pattern = [\"npm\", \"run\", \"test\"], decision = \"allow\")\n\
         prefix_rule(pattern = [\"rm\"], decision = \"forbidden\")\n"
    );

    assert_eq!(detect(&mut client, json!({ "includeHome": true })).await, [] as [Value; 0]);
    import(&mut client, &items).await;
    assert_eq!(read(&home.join("config.toml")), config);

    let skills = client.call("skills/list", json!({})).await;
    assert!(skills.to_string().contains("\"git-ship\""), "{skills}");
}

#[tokio::test]
async fn sessions_become_threads_that_go_on() {
    let env = env().await;
    let workspace = env.workspace().display().to_string();
    let session = SESSION.replace("/work/app", &workspace);
    put(&user_home(&env).join(".claude/projects/-w/s1.jsonl"), &session);
    let codex = [
        json!({ "type": "session_meta", "payload": { "id": "x", "cwd": workspace } }),
        json!({ "type": "response_item", "payload": { "type": "message", "role": "user",
            "content": [{ "type": "input_text", "text": "<environment_context>x" }] } }),
        json!({ "type": "response_item", "payload": { "type": "message", "role": "user",
            "content": [{ "type": "input_text", "text": "Say hello" }] } }),
        json!({ "type": "response_item", "payload": { "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Hello." }] } }),
    ]
    .map(|line| line.to_string())
    .join("\n");
    put(&user_home(&env).join(".codex/sessions/2026/01/02/rollout-1.jsonl"), &codex);
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "includeHome": true })).await;
    assert_eq!(items.len(), 2, "{items:?}");
    import(&mut client, &items).await;
    import(&mut client, &items).await;
    let listed = client.call("thread/list", json!({})).await["data"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let thread = listed.iter().find(|thread| thread["name"] == "Fix the bug").unwrap();
    assert_eq!((&thread["cwd"], &thread["createdAt"]), (&json!(workspace), &json!(1_767_323_045)));
    let id = thread["id"].as_str().unwrap();
    let read = client.call("thread/read", json!({ "threadId": id, "includeTurns": true })).await;
    let kinds: Vec<&str> = read["thread"]["turns"][0]["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["userMessage", "agentMessage", "dynamicToolCall", "agentMessage"]);
    client.call("thread/resume", json!({ "threadId": id })).await;
    client.run_turn(id, "And then?").await;
    let sent = env.model().requests()[0]["input"].to_string();
    for part in ["Fix the bug", "[Called Bash with", "a.rs", "Fixed.", "And then?"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
}

#[tokio::test]
async fn a_project_is_imported_into_its_own_folder_and_grants_nothing() {
    let env = env().await;
    let project = env.workspace().canonicalize().unwrap();
    fill(&project, ".mcp.json");
    put(&project.join("CLAUDE.md"), "Be quick.\n");
    put(&project.join("AGENTS.md"), "# Mine\n");
    env.write_config(&format!(
        "{}\n[features]\ncodex_hooks = true\n",
        read(&env.home().join("config.toml"))
    ));
    let before = read(&env.home().join("config.toml"));
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "cwds": [project] })).await;
    import(&mut client, &items).await;
    assert_eq!(read(&env.home().join("config.toml")), before);
    assert!(read(&project.join(".agent/config.toml")).contains("mcp-files"));
    let instructions = read(&project.join("AGENTS.md"));
    let block = "# Mine\n\n<!-- Imported from Claude Code: CLAUDE.md -->\nBe quick.\n<!-- End";
    assert!(instructions.starts_with(block), "{instructions}");
    assert!(project.join(".agent/hooks.json").is_file());
    assert_eq!(detect(&mut client, json!({ "cwds": [project] })).await, [] as [Value; 0]);
    let listed = client.call("hooks/list", json!({ "cwds": [project] })).await;
    assert_eq!(listed["data"][0]["hooks"], json!([]), "the project is not trusted");
}

#[tokio::test]
async fn what_was_not_offered_is_refused_and_nothing_changes() {
    let env = env().await;
    let user = user_home(&env);
    fill(&user, ".claude.json");
    put(&env.root().join("elsewhere/s1.jsonl"), SESSION);
    put(&user.join(".claude/projects/-w/s1.jsonl"), SESSION);
    let before = read(&env.home().join("config.toml"));
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "includeHome": true })).await;
    let changed = |kind: &str, change: &dyn Fn(&mut Value)| {
        let mut item = of_type(&items, kind).clone();
        change(&mut item);
        item
    };
    let session = |path: PathBuf| {
        changed("SESSIONS", &|item| item["details"]["sessions"][0]["path"] = json!(path))
    };
    for (item, why) in [
        (changed("HOOKS", &|item| item["description"] = json!("x")), "no such item"),
        (changed("HOOKS", &|item| item["cwd"] = json!(env.workspace())), "no such item"),
        (changed("HOOKS", &|item| item["cwd"] = json!("relative")), "absolute"),
        (
            changed("COMMANDS", &|item| item["details"]["commands"][0]["name"] = json!("../../x")),
            "no part",
        ),
        (session(env.root().join("elsewhere/s1.jsonl")), "no session"),
        (session(user.join(".claude/projects/-w/../../../../elsewhere/s1.jsonl")), "no session"),
        (changed("SESSIONS", &|item| item["details"] = Value::Null), "must name 1 to"),
    ] {
        // The item before it is not imported either.
        let params = json!({ "migrationItems": [of_type(&items, "MCP_SERVER_CONFIG"), item] });
        let fault = client.refused("externalAgentConfig/import", params).await;
        assert_eq!(fault.code, -32602, "{fault:?}");
        assert!(fault.message.contains(why), "{fault:?}");
    }
    assert_eq!(read(&env.home().join("config.toml")), before);
}

#[cfg(unix)]
#[tokio::test]
async fn links_fifos_and_broken_files_are_reported_and_hide_nothing() {
    use std::os::unix::fs::symlink;
    let env = env().await;
    let project = env.workspace().canonicalize().unwrap();
    let outside = env.root().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    put(&outside.join("CLAUDE.md"), "Secret.\n");
    symlink(outside.join("CLAUDE.md"), project.join("CLAUDE.md")).unwrap();
    put(&project.join(".claude/settings.json"), "{ \"hooks\": ");
    put(&project.join(".mcp.json"), r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    put(&project.join(".claude/commands/ok.md"), "Do it.");
    let fifo = project.join(".claude/commands/pipe.md");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let huge = std::fs::File::create(project.join(".claude/commands/huge.md")).unwrap();
    huge.set_len(10 << 30).unwrap();
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "cwds": [project] })).await;
    let commands = of_type(&items, "COMMANDS");
    assert_eq!(commands["details"], json!({ "commands": [{ "name": "ok" }] }));
    let description = commands["description"].as_str().unwrap();
    assert!(description.contains("not a regular file") && description.contains("larger than"));
    assert!(!items.iter().any(|item| item["itemType"] == "AGENTS_MD"), "{items:?}");

    // Between the two calls the project's folder becomes a link that leads elsewhere.
    symlink(&outside, project.join(".agent")).unwrap();
    for item in &items {
        let params = json!({ "migrationItems": [item] });
        let fault = client.refused("externalAgentConfig/import", params).await;
        assert!(fault.message.contains("symbolic link"), "{fault:?}");
    }
    let names: Vec<_> =
        std::fs::read_dir(&outside).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["CLAUDE.md"]);
}
