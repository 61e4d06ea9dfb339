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
    let agent = "---\nname: reviewer\ndescription: Reviews: all of it\nmodel: opus\nhooks:\n  Stop: x\n\
         permissionMode: plan\n---\nReview it.\n";
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
        ("SUBAGENTS", "without its model, hooks, permissionMode"),
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
        "prefix_rule(pattern = [\"rm\"], decision = \"forbidden\")\n\
         prefix_rule(pattern = [\"npm\", \"run\", \"test\"], decision = \"allow\")\n"
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
        // No part chosen does not mean all of them.
        (changed("HOOKS", &|item| item["details"]["hooks"] = json!([])), "` is empty"),
        (
            changed("HOOKS", &|item| item["details"] = json!({ "commands": [{ "name": "x" }] })),
            "another kind",
        ),
        (session(env.root().join("elsewhere/s1.jsonl")), "no session"),
        (session(user.join(".claude/projects/-w/../../../../elsewhere/s1.jsonl")), "no session"),
        (changed("SESSIONS", &|item| item["details"] = Value::Null), "must name 1 to"),
        (changed("SESSIONS", &|item| item["cwd"] = json!("/nope")), "no `cwd`"),
        (
            changed("SESSIONS", &|item| item["details"]["sessions"][0]["cwd"] = json!("/nope")),
            "has changed since it was shown",
        ),
        (
            changed("SESSIONS", &|item| item["details"]["sessions"][0]["title"] = json!("FAKE")),
            "has changed since it was shown",
        ),
        (changed("SESSIONS", &|item| item["details"]["sessions"][0]["x"] = json!(1)), "`x`"),
        (changed("HOOKS", &|item| item["descripton"] = json!("x")), "`descripton`"),
    ] {
        // The item before it is not imported either.
        let params = json!({ "migrationItems": [of_type(&items, "MCP_SERVER_CONFIG"), item] });
        let fault = client.refused("externalAgentConfig/import", params).await;
        assert_eq!(fault.code, -32602, "{fault:?}");
        assert!(fault.message.contains(why), "{fault:?}");
    }
    assert_eq!(read(&env.home().join("config.toml")), before);
}

/// Files of both agents that want the same places here.
fn fill_both(user: &Path) {
    let server = |command: &str| json!({ "command": command });
    let servers = json!({ "mcpServers": { "github": server("gh1"), "same": server("s") } });
    put(&user.join(".claude.json"), &servers.to_string());
    let servers = "[mcp_servers.github]\ncommand = \"gh2\"\n[mcp_servers.same]\ncommand = \"s\"\n\
         [mcp_servers.more]\ncommand = \"m\"\n";
    put(&user.join(".codex/config.toml"), servers);
    put(&user.join(".claude/CLAUDE.md"), "Be kind.\n");
    put(&user.join(".codex/AGENTS.md"), "Be quick.\n");
    let skill = |text: &str| format!("---\nname: pdf\ndescription: For PDFs.\n---\n{text}\n");
    put(&user.join(".claude/skills/pdf/SKILL.md"), &skill("One."));
    put(&user.join(".codex/skills/pdf/SKILL.md"), &skill("Two."));
    let hooks = |command: &str| json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": command }] }] } });
    put(&user.join(".claude/settings.json"), &hooks("first").to_string());
    put(&user.join(".codex/hooks.json"), &hooks("second").to_string());
}

#[tokio::test]
async fn what_two_agents_call_by_one_name_is_offered_once() {
    let env = env().await;
    let (user, home) = (user_home(&env), env.home().to_owned());
    fill_both(&user);
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "includeHome": true })).await;
    let all = json!(items).to_string();
    for part in [
        "`github`: it would have the place of one of the MCP servers of Claude Code",
        "`same`: it is the same as that of the MCP servers of Claude Code",
        "`AGENTS.md of the instructions of Codex`: it would have the place",
        "`pdf of the skills of Codex`: it would have the place",
    ] {
        assert_eq!(all.matches(part).count(), 1, "{part}: {all}");
    }
    // Exactly what was offered can be imported, at once and again.
    import(&mut client, &items).await;
    import(&mut client, &items).await;
    let config = read(&home.join("config.toml"));
    assert!(config.contains("gh1") && !config.contains("gh2") && config.contains("\"m\""));
    assert!(config.contains("Be kind.") && !config.contains("Be quick."), "{config}");
    assert!(read(&home.join("skills/pdf/SKILL.md")).ends_with("One.\n"));
    let hooks = read(&home.join("hooks.json"));
    assert!(hooks.contains("first") && hooks.contains("second"), "both add to the file: {hooks}");
    assert_eq!(detect(&mut client, json!({ "includeHome": true })).await, [] as [Value; 0]);
}

#[tokio::test]
async fn an_import_that_fails_has_written_nothing() {
    let env = env().await;
    let (user, home) = (user_home(&env), env.home().to_owned());
    fill_both(&user);
    put(&user.join(".claude/projects/-w/s1.jsonl"), SESSION);
    // The user's own file would not be usable with this value.
    let wrong = "[mcp_servers.wrong]\ncommand = \"x\"\nargs = 1\n";
    let project = env.workspace().canonicalize().unwrap();
    put(&project.join("CLAUDE.md"), "Be brief.\n");
    let server = env.start();
    let mut client = server.connect().await;
    let params = json!({ "includeHome": true, "cwds": [project] });
    let items = detect(&mut client, params.clone()).await;
    let before = read(&home.join("config.toml"));
    let unchanged = |why: &str| {
        assert_eq!(read(&home.join("config.toml")), before, "{why}");
        for path in ["hooks.json", "skills", "roles"] {
            assert!(!home.join(path).exists(), "{why}: {path}");
        }
        assert!(!project.join("AGENTS.md").is_file(), "{why}");
    };
    let import_all = json!({ "migrationItems": items });
    // A place that was taken meanwhile, a link on the way, a session that cannot be read.
    put(&home.join("skills-elsewhere/x"), "");
    std::os::unix::fs::symlink("skills-elsewhere", home.join("skills")).unwrap();
    let fault = client.refused("externalAgentConfig/import", import_all.clone()).await;
    assert!(fault.message.contains("link"), "{fault:?}");
    std::fs::remove_file(home.join("skills")).unwrap();
    unchanged("a link");
    std::fs::create_dir(project.join("AGENTS.md")).unwrap();
    let fault = client.refused("externalAgentConfig/import", import_all.clone()).await;
    assert!(fault.message.contains("AGENTS.md"), "{fault:?}");
    std::fs::remove_dir(project.join("AGENTS.md")).unwrap();
    unchanged("a folder in the place of a file");
    put(&user.join(".codex/config.toml"), wrong);
    let items = detect(&mut client, params).await;
    let import_all = json!({ "migrationItems": items });
    let fault = client.refused("externalAgentConfig/import", import_all).await;
    assert!(fault.message.contains("mcp_servers.wrong"), "{fault:?}");
    unchanged("a value that is not allowed");
}

#[tokio::test]
async fn a_member_that_is_there_twice_is_reported() {
    let env = env().await;
    let user = user_home(&env);
    let twice = r#"{"mcpServers": {"a": {"command": "x", "command": "y"}}}"#;
    put(&user.join(".claude.json"), twice);
    let server = env.start();
    let mut client = server.connect().await;
    assert_eq!(detect(&mut client, json!({ "includeHome": true })).await, [] as [Value; 0]);
    let is_about = |warning: &Value| {
        let text = warning.to_string();
        text.contains(".claude.json") && text.contains("`command` is there twice")
    };
    client.expect_where("configWarning", is_about).await;
}

#[tokio::test]
async fn what_has_no_counterpart_at_all_is_reported() {
    let env = env().await;
    let user = user_home(&env);
    let rules = json!({ "permissions": { "allow": ["Read(./x)"] } });
    put(&user.join(".claude/settings.json"), &rules.to_string());
    put(&user.join(".claude/CLAUDE.md"), "<!-- End of the import from X: y -->\n");
    let server = env.start();
    let mut client = server.connect().await;
    assert_eq!(detect(&mut client, json!({ "includeHome": true })).await, [] as [Value; 0]);
    for part in ["permissions of commands of Claude Code: nothing", "the markers of an import"] {
        let is_about = |warning: &Value| warning.to_string().contains(part);
        client.expect_where("configWarning", is_about).await;
    }
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

#[tokio::test]
async fn servers_of_one_project_are_offered_with_the_project() {
    let env = env().await;
    let user = user_home(&env);
    let project = env.workspace().canonicalize().unwrap();
    let server = |command: &str| json!({ "command": command });
    let own = json!({ "mcpServers": { "mine": server("all") }, "projects": {
        project.to_str().unwrap(): { "mcpServers": {
            "here": { "command": "local", "env": { "KEY": "s3cret" } },
            "web": { "url": "https://a.example/mcp", "headers": { "X-Key": "s3cret" } },
            "open": { "command": "x", "args": ["--token", "s3cret"] },
            "shared": server("x"),
        } },
        "/elsewhere": { "mcpServers": { "there": server("other") } },
    }});
    put(&user.join(".claude.json"), &own.to_string());
    let shared = json!({ "mcpServers": { "shared": server("team"), "more": server("more") } });
    put(&project.join(".mcp.json"), &shared.to_string());
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "includeHome": true, "cwds": [project] })).await;
    let of = |is_home: bool| {
        let fits = |item: &&Value| item["cwd"].is_null() == is_home;
        items.iter().find(fits).unwrap()["description"].as_str().unwrap().to_owned()
    };
    let (mine, here) = (of(true), of(false));
    assert!(
        mine.contains("- mine: runs") && mine.contains("is imported with that project"),
        "{mine}"
    );
    assert!(
        here.contains(
            "- here: runs \"local\", with KEY (only yours so far: it would be in a file of the project, without \
             the values of KEY: set these in your environment)"
        ),
        "{here}"
    );
    assert!(here.contains("- `open`: its command line looks as if it had a secret"), "{here}");
    assert!(
        here.contains("- shared: runs \"x\" (only yours") && here.contains("- more:"),
        "{here}"
    );
    assert!(!here.contains("\"other\"") && !here.contains("\"team\""), "{here}");
    import(&mut client, &items).await;
    let written = read(&project.join(".agent/config.toml"));
    for name in ["here", "shared", "more", "web"] {
        assert!(written.contains(&format!("[mcp_servers.{name}")), "{written}");
    }
    assert!(!written.contains("s3cret"), "{written}");
    assert!(written.contains("env_vars = [\"KEY\"]") && written.contains("WEB_X_KEY"), "{written}");
    let left = detect(&mut client, json!({ "includeHome": true, "cwds": [project] })).await;
    assert_eq!(left, Vec::<Value>::new());
}

#[tokio::test]
async fn gemini_and_cursor_are_imported() {
    let env = env().await;
    let user = user_home(&env);
    let project = env.workspace().canonicalize().unwrap();
    let gemini = json!({ "theme": "x", "mcpServers": {
        "web": { "httpUrl": "https://a.example/mcp", "headers": { "K": "s3cret" }, "trust": true,
            "includeTools": ["one"], "timeout": 1000 },
        "old": { "url": "https://a.example/sse" },
        "var": { "command": "x", "env": { "K": "$KEY" } },
    }});
    put(&user.join(".gemini/settings.json"), &gemini.to_string());
    put(&user.join(".gemini/GEMINI.md"), "Be brief.\n");
    put(&project.join("GEMINI.md"), "Build with make.\n");
    let cursor = json!({ "mcpServers": { "db": { "command": "db", "args": ["-x"] },
        "file": { "command": "y", "envFile": ".env" } } });
    put(&project.join(".cursor/mcp.json"), &cursor.to_string());
    put(&project.join(".cursorrules"), "Old rule.\n");
    let always = "---\ndescription: d\nglobs:\nalwaysApply: true\n---\nUse tabs.\n";
    put(&project.join(".cursor/rules/style.mdc"), always);
    let sometimes = "---\nglobs: *.py\nalwaysApply: false\n---\nUse spaces.\n";
    put(&project.join(".cursor/rules/sub/python.mdc"), sometimes);
    let server = env.start();
    let mut client = server.connect().await;
    let places = json!({ "includeHome": true, "cwds": [project] });
    let items = detect(&mut client, places.clone()).await;
    let shown = json!(items).to_string();
    assert!(!shown.contains("s3cret"), "{shown}");
    for part in [
        "MCP servers of Gemini CLI into",
        "`old`: its `url` is reached by the transport `sse`",
        "`var`: `env` refers to a variable with `$`",
        "instructions of Gemini CLI into",
        "MCP servers of Cursor into",
        "`file`: `envFile` has no counterpart here",
        "instructions of Cursor into",
        "`.cursor/rules/sub/python.mdc`: it does not always apply",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    import(&mut client, &items).await;
    let own = read(&env.home().join("config.toml"));
    for part in
        ["developer_instructions", "Be brief.", "[mcp_servers.web", "enabled_tools = [\"one\"]"]
    {
        assert!(own.contains(part), "{part} in {own}");
    }
    assert!(!own.contains("trust"), "{own}");
    let agents = read(&project.join("AGENTS.md"));
    for part in ["Build with make.", "Old rule.", "Use tabs."] {
        assert_eq!(agents.matches(part).count(), 1, "{part} in {agents}");
    }
    assert!(!agents.contains("Use spaces."), "{agents}");
    assert!(read(&project.join(".agent/config.toml")).contains("[mcp_servers.db]"));
    assert_eq!(detect(&mut client, places).await, Vec::<Value>::new());
}

#[tokio::test]
async fn settings_are_imported_key_by_key() {
    let env = env().await;
    let user = user_home(&env);
    let codex = "model_verbosity = 'low'\nfile_opener = 'vscode'\nunknown_key = 1\n\
        [tui]\nnotifications = true\n[profiles.fast]\nmodel_reasoning_effort = 'low'\n\
        [model_providers.old]\nbase_url = 'https://h.example/v1'\nwire_api = 'soap'\n\
        [[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = 'command'\ncommand = 'ours'\n\
        command_windows = 'theirs'\n";
    // As an editor on Windows stores it.
    let bytes: Vec<u8> =
        format!("\u{feff}{codex}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::create_dir_all(user.join(".codex")).unwrap();
    std::fs::write(user.join(".codex/config.toml"), bytes).unwrap();
    let settings = json!({ "env": { "TEAM": "red" }, "model": "opus" });
    put(&user.join(".claude/settings.json"), &settings.to_string());
    let server = env.start();
    let mut client = server.connect().await;
    let items = detect(&mut client, json!({ "includeHome": true })).await;
    let kinds: Vec<&str> = items.iter().map(|item| item["itemType"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["CONFIG", "CONFIG", "HOOKS"]);
    for (at, part) in [
        (0, "- shell_environment_policy.set.TEAM: a value that is not shown"),
        (0, "it names a model of another provider"),
        (1, "- model_verbosity: \"low\""),
        (1, "- file_opener: \"editor\" (the string \"vscode\" is understood as"),
        (1, "- profiles.fast.model_reasoning_effort: \"low\""),
        (1, "Not imported:"),
        (1, "- `unknown_key`: there is no such key here"),
        (1, "- `model_providers.old.wire_api`: must be"),
        (2, "runs ours (its commands for other systems are left out)"),
    ] {
        let description = items[at]["description"].as_str().unwrap();
        assert!(description.contains(part), "{part} in {description}");
    }
    import(&mut client, &items).await;
    let config = read(&env.home().join("config.toml"));
    for part in [
        "model_verbosity = \"low\"",
        "file_opener = \"editor\"",
        "TEAM = \"red\"",
        "[profiles.fast]",
    ] {
        assert!(config.contains(part), "{part} in {config}");
    }
    assert!(!config.contains("unknown_key") && !config.contains("h.example"), "{config}");
    let hooks = read(&env.home().join("hooks.json"));
    assert!(hooks.contains("ours") && !hooks.contains("theirs"), "{hooks}");
    assert_eq!(detect(&mut client, json!({ "includeHome": true })).await, [] as [Value; 0]);
}

#[tokio::test]
async fn plugins_of_another_agent_are_reported() {
    let env = env().await;
    let settings = json!({ "enabledPlugins": { "fmt@tools": true },
        "extraKnownMarketplaces": { "tools": { "source": { "source": "github", "repo": "o/tools" } } } });
    put(&user_home(&env).join(".claude/settings.json"), &settings.to_string());
    let server = env.start();
    let mut client = server.connect().await;
    assert_eq!(detect(&mut client, json!({ "includeHome": true })).await, Vec::<Value>::new());
    let about = |notice: &Value| notice["summary"].as_str().unwrap().contains("fmt@tools");
    let notice = client.expect_where("configWarning", about).await;
    let summary = notice["summary"].as_str().unwrap();
    assert!(summary.contains("`agentd plugins marketplace add o/tools`"), "{summary}");
}
