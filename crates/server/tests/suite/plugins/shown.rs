//! What is shown of a plugin before the user decides: hooks in its manifest, broken skills, and what
//! skills need.

use std::fs;

use serde_json::{Value, json};
use testkit::Peer;

use super::{Bench, ID, add, install, listed, write};
use crate::says;

async fn shown(peer: &mut Peer) -> Value {
    let path = listed(peer).await["path"].clone();
    let params = json!({ "pluginName": "tidy", "marketplacePath": path });
    peer.call("plugin/read", params).await["plugin"].take()
}

fn group(line: &str) -> Value {
    json!([{ "hooks": [{ "type": "command", "command": line }] }])
}

/// A manifest with these hooks, in the format of the other agent.
fn write_manifest(bench: &Bench, hooks: &Value) {
    let _ = fs::remove_dir_all(bench.plugin_file(".codex-plugin"));
    let manifest = json!({ "name": "tidy", "version": "1.0.0", "hooks": hooks });
    write(&bench.plugin_file(".claude-plugin/plugin.json"), &manifest.to_string());
}

#[tokio::test]
async fn hooks_in_the_manifest_are_shown_and_run_once_they_are_trusted() {
    let bench = Bench::new(json!([says("1"), says("2")])).await;
    bench.configure("[features]\ncodex_hooks = true\n");
    fs::remove_file(bench.plugin_file("hooks/hooks.json")).unwrap();
    let note = format!("sh \"${{CLAUDE_PLUGIN_ROOT}}/note.sh\" {}", bench.log.display());
    write_manifest(&bench, &json!({ "Stop": group(&note) }));
    let server = bench.env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    add(&mut peer, &bench.shop).await;
    let plugin = shown(&mut peer).await;
    assert!(plugin["actions"].to_string().contains("note.sh"), "{plugin}");
    assert!(!plugin["actions"].to_string().contains("left out"), "{plugin}");
    assert_eq!(plugin["hooks"][0]["eventName"], "stop");
    install(&mut peer).await;

    let hook = peer.call("hooks/list", json!({})).await["data"][0]["hooks"][0].take();
    let key = format!("{ID}/.claude-plugin/plugin.json:Stop:0:0");
    assert_eq!((&hook["key"], &hook["trustStatus"]), (&json!(key), &json!("untrusted")));
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(!bench.log.exists(), "it is not trusted");
    let trust = json!({ "keyPath": format!("hooks.state.\"{key}\".trusted_hash"),
        "value": hook["currentHash"], "mergeStrategy": "replace" });
    peer.call("config/value/write", trust).await;
    peer.run_turn(&thread, "Again.").await;
    assert!(bench.log.exists());

    // Another content has another hash.
    write_manifest(&bench, &json!({ "Stop": group("true") }));
    shown(&mut peer).await;
    install(&mut peer).await;
    let hook = peer.call("hooks/list", json!({})).await["data"][0]["hooks"][0].take();
    assert_eq!(hook["trustStatus"], "modified", "{hook}");
}

#[tokio::test]
async fn every_form_of_hooks_in_a_manifest_is_read() {
    let bench = Bench::new(json!([says("1")])).await;
    let server = bench.env.start();
    let mut peer = server.connect().await;
    write(
        &bench.plugin_file("more.json"),
        &json!({ "hooks": { "Stop": group("more") } }).to_string(),
    );
    add(&mut peer, &bench.shop).await;
    let inline = |line: &str| json!({ "PreToolUse": group(line) });
    // What is expected is beside the hook of `hooks/hooks.json`.
    let cases = [
        (json!(null), vec![]),
        (json!("./more.json"), vec!["more"]),
        (json!("./hooks/hooks.json"), vec![]),
        (inline("one"), vec!["one"]),
        (json!({ "description": "x", "hooks": inline("one") }), vec!["one"]),
        (json!([inline("one"), "./more.json", inline("two")]), vec!["more", "one", "two"]),
        (json!({}), vec![]),
        (json!(7), vec!["left out: ", "`hooks`: it must be a path"]),
        (json!("../out.json"), vec!["left out: "]),
        (json!({ "Stop": 1 }), vec!["cannot be read"]),
        (json!({ "Nightly": [] }), vec!["Nightly: there is no event of this name"]),
        (json!([inline("one"), { "PreToolUse": 1 }]), vec!["one", "the second `PreToolUse`"]),
    ];
    for (hooks, expected) in cases {
        write_manifest(&bench, &hooks);
        let plugin = shown(&mut peer).await;
        let actions = plugin["actions"].to_string();
        assert!(actions.contains("note.sh"), "{hooks}: {actions}");
        for part in &expected {
            assert!(actions.contains(part), "{hooks}: {part}: {actions}");
        }
        let is_clean = !actions.contains("left out") && !actions.contains("cannot be read");
        let wants_clean = expected.iter().all(|part| part.len() <= 4);
        assert_eq!(is_clean, wants_clean, "{hooks}: {actions}");
    }
}

/// The marketplace's entry has the parts of a plugin that has no manifest; they act as those of a manifest do.
#[tokio::test]
async fn a_plugin_that_its_marketplace_defines_is_listed_shown_and_used() {
    let bench = Bench::new(json!([says("1"), says("2")])).await;
    bench.configure("[features]\ncodex_hooks = true\n");
    for name in [".codex-plugin", "hooks", ".mcp.json", ".app.json"] {
        let path = bench.plugin_file(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(path),
            false => fs::remove_file(path),
        };
        removed.unwrap();
    }
    let note = format!("sh \"${{CLAUDE_PLUGIN_ROOT}}/note.sh\" {}", bench.log.display());
    let entry = |note: &str| {
        let entry = json!({ "name": "tidy", "source": "./plugins/tidy", "strict": false, "version": "2.0.0",
            "description": "Tidies.", "hooks": { "Stop": group(note) }, "agents": ["./agents/a.md"],
            "mcpServers": { "broom": { "command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/server.sh"] } } });
        let file = json!({ "name": "shop", "plugins": [entry] });
        write(&bench.shop.join(".agents/plugins/marketplace.json"), &file.to_string());
    };
    entry(&note);
    let server = bench.env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    add(&mut peer, &bench.shop).await;
    let summary = listed(&mut peer).await["plugins"][0].take();
    assert_eq!(summary["interface"]["shortDescription"], "Tidies.", "{summary}");
    let plugin = shown(&mut peer).await;
    assert_eq!(plugin["skills"][0]["name"], "tidy:sweep", "{plugin}");
    assert_eq!(plugin["hooks"][0]["eventName"], "stop", "{plugin}");
    assert_eq!(plugin["mcpServers"], json!(["broom"]), "{plugin}");
    let actions = plugin["actions"].to_string();
    assert!(actions.contains("note.sh") && actions.contains("its `agents`"), "{actions}");
    assert!(!actions.contains("left out"), "{actions}");
    install(&mut peer).await;
    assert_eq!(super::skills(&mut peer).await, ["tidy:sweep"]);

    let hook = peer.call("hooks/list", json!({})).await["data"][0]["hooks"][0].take();
    let key = format!("{ID}/.agent-plugin/marketplace-entry.json:Stop:0:0");
    assert_eq!((&hook["key"], &hook["trustStatus"]), (&json!(key), &json!("untrusted")));
    let trust = json!({ "keyPath": format!("hooks.state.\"{key}\".trusted_hash"),
        "value": hook["currentHash"], "mergeStrategy": "replace" });
    peer.call("config/value/write", trust).await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    peer.run_turn(&thread, "Go.").await;
    assert!(bench.log.exists());
    // A changed entry changes the plugin, so its hooks must be trusted again.
    entry("true");
    assert!(shown(&mut peer).await["changes"].to_string().contains("true"));
    install(&mut peer).await;
    let hook = peer.call("hooks/list", json!({})).await["data"][0]["hooks"][0].take();
    assert_eq!(hook["trustStatus"], "modified", "{hook}");
}

#[tokio::test]
async fn broken_skills_and_what_skills_need_are_shown() {
    let bench = Bench::new(json!([says("1")])).await;
    write(&bench.plugin_file("skills/bad/SKILL.md"), "---\nname: bad\n");
    let tools = json!([
        { "type": "env_var", "value": "BROOM_TOKEN", "description": "the key of the broom" },
        { "type": "mcp", "value": "dustpan", "command": "dustpan --serve" },
        { "type": "mcp", "value": "mop", "url": "https://mop.example/mcp" },
    ]);
    let file = json!({ "dependencies": { "tools": tools } }).to_string();
    write(&bench.plugin_file("skills/sweep/SKILL.json"), &file);
    let server = bench.env.start();
    let mut peer = server.connect().await;
    add(&mut peer, &bench.shop).await;
    let plugin = shown(&mut peer).await;
    assert_eq!(plugin["skills"].as_array().map(Vec::len), Some(1), "{plugin}");
    let actions = plugin["actions"].to_string();
    for part in [
        "a skill has an error: ${AGENT_PLUGIN_ROOT}/skills/bad/SKILL.md: ",
        "`tidy:sweep` asks you for the environment variable `BROOM_TOKEN`",
        "the key of the broom",
        "needs the MCP server `dustpan`, which runs: dustpan --serve",
        "needs the MCP server `mop`, which is reached at https://mop.example/mcp",
    ] {
        assert!(actions.contains(part), "{part}: {actions}");
    }
    assert!(!actions.contains(".staging"), "{actions}");
    // An upgrade says what is new of that.
    install(&mut peer).await;
    fs::remove_file(bench.plugin_file("skills/bad/SKILL.md")).unwrap();
    let changes = shown(&mut peer).await["changes"].to_string();
    assert!(changes.contains("no longer: a skill has an error"), "{changes}");
    assert!(!changes.contains("BROOM_TOKEN"), "{changes}");
}
