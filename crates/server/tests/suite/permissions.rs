//! Permission profiles of the configuration, as they apply to commands and clients.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{calls, patches, runs, says, tool_outputs};

const PROFILES: &str = r#"
[permissions.careful.filesystem]
":minimal" = "read"
":project_roots" = { "." = "write", "secret" = "none", "docs" = "read" }

[permissions.open.filesystem]
":root" = "read"

[permissions.open.network]
enabled = true

[permissions.proxied.filesystem]
":root" = "read"

[permissions.proxied.network]
enabled = true
allowed_domains = ["a.example"]
"#;

async fn env(responses: Value, first_line: &str) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{first_line}\n{config}{PROFILES}"));
    for folder in ["secret", "docs"] {
        std::fs::create_dir(env.workspace().join(folder)).unwrap();
        std::fs::write(env.workspace().join(folder).join("file"), "content").unwrap();
    }
    env
}

/// Runs the script's turn and returns the outputs of its tools.
async fn outputs(env: &TestEnvironment, params: Value) -> Vec<String> {
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let thread = peer.start_thread(params).await;
    peer.run_turn(&thread, "Go.").await;
    tool_outputs(env)
}

// Effect of `permissions.<name>.filesystem`.
#[tokio::test]
async fn filesystem() {
    let script = json!([
        runs("cat secret/file; echo made > file && cat file; echo no > docs/file; cat docs/file"),
        patches("*** Add File: secret/new\n+x"),
        patches("*** Update File: docs/file\n@@\n-content\n+changed"),
        calls("view_image", json!({ "path": "secret/file" })),
        says("Done."),
    ]);
    let env = env(script, "default_permissions = \"careful\"\napproval_policy = \"never\"").await;
    let outputs = outputs(&env, json!({})).await;
    assert!(outputs[0].contains("made") && outputs[0].contains("content"), "{outputs:?}");
    assert_eq!(outputs[0].matches("content").count(), 1, "{outputs:?}");
    assert_eq!(std::fs::read_to_string(env.workspace().join("file")).unwrap(), "made\n");
    assert!(!env.workspace().join("secret/new").exists(), "{outputs:?}");
    let docs = std::fs::read_to_string(env.workspace().join("docs/file")).unwrap();
    assert_eq!(docs, "content", "{outputs:?}");
    assert!(outputs[3].contains("is not in a readable folder"), "{outputs:?}");
}

// Effect of `permissions.<name>.network.enabled`.
#[tokio::test]
async fn network() {
    let script = json!([runs("cat /proc/net/dev | wc -l"), says("Done.")]);
    let env = env(script, "").await;
    let lines = |outputs: Vec<String>| -> bool { outputs[0].contains("\n3") };
    let select = |id: &str| json!({ "permissions": { "type": "profile", "id": id } });
    let closed = outputs(&env, select("careful")).await;
    let open = outputs(&env, select("open")).await;
    let proxied = outputs(&env, select("proxied")).await;
    // When the network is off, only the loopback device exists.
    assert!(lines(closed.clone()), "{closed:?}");
    assert!(!lines(open.clone()) || open == closed, "{open:?}");
    assert!(
        lines(proxied.clone()),
        "what only a proxy could enforce keeps the network off: {proxied:?}"
    );
}

// Effect of `default_permissions`.
#[tokio::test]
async fn default_permissions() {
    let env = env(json!([says("Hi.")]), "default_permissions = \"careful\"").await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let started = peer.call("thread/start", json!({})).await;
    assert_eq!(started["activePermissionProfile"]["id"], "careful");
    assert_eq!(started["sandbox"]["type"], "workspaceWrite");
    let other = json!({ "permissions": { "type": "profile", "id": "open" } });
    let started = peer.call("thread/start", other).await;
    assert_eq!(started["activePermissionProfile"]["id"], "open");
    let unknown = json!({ "permissions": { "type": "profile", "id": "unknown" } });
    let fault = peer.refused("thread/start", unknown).await;
    assert!(fault.message.contains("careful, open, proxied"), "{}", fault.message);
    let both = json!({ "permissions": { "type": "profile", "id": "open" }, "sandbox": "readOnly" });
    assert!(peer.refused("thread/start", both).await.message.contains("exclude"));
    // Newer clients send the name alone; three names stand for the modes.
    for (id, profile, sandbox) in [
        ("open", json!("open"), "readOnly"),
        (":read-only", Value::Null, "readOnly"),
        (":workspace", Value::Null, "workspaceWrite"),
        (":danger-full-access", Value::Null, "dangerFullAccess"),
    ] {
        let started = peer.call("thread/start", json!({ "permissions": id })).await;
        let found = (&started["activePermissionProfile"]["id"], &started["sandbox"]["type"]);
        assert_eq!(found, (&profile, &json!(sandbox)), "{id}");
    }
    for id in ["unknown", ":unknown", ""] {
        let fault = peer.refused("thread/start", json!({ "permissions": id })).await;
        assert!(fault.message.contains("careful, open, proxied"), "{}", fault.message);
    }
}
