//! Reports to clients about an invalid configuration.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::says;

#[tokio::test]
async fn unknown_keys_are_reported_after_the_handshake() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let file = env.home().join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    env.write_config(&format!("modle = \"x\"\n{text}"));
    let server = env.start();
    let mut peer = server.open(jsonrpc::Limits::default());
    peer.initialize(Value::Null).await;
    let notice = peer.expect("configWarning").await;
    let summary = notice["summary"].as_str().unwrap();
    assert!(summary.contains("modle") && summary.contains("config.toml"), "{summary}");
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
}

#[tokio::test]
async fn files_of_another_agent_start_and_clients_receive_their_warnings() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/tests/people");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path();
        println!("{}", file.display());
        let text = std::fs::read_to_string(file).unwrap();
        let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
        env.write_config(&text);
        let server = env.start();
        let mut peer = server.open(jsonrpc::Limits::default());
        peer.initialize(Value::Null).await;
        for expected in text.lines().filter_map(|line| line.strip_prefix("# warning: ")) {
            let is_renamed = expected.contains("was renamed");
            let method = if is_renamed { "deprecationNotice" } else { "configWarning" };
            let key = expected.split('`').nth(1).unwrap();
            println!("{expected}");
            peer.expect_where(method, |notice| notice["summary"].as_str().unwrap().contains(key))
                .await;
        }
        // No thread, which would start MCP servers.
        peer.call("config/read", json!({})).await;
        server.stop().await;
        count += 1;
    }
    assert!(count >= 12, "{count}");
}

#[tokio::test]
async fn a_provider_with_a_mistake_is_refused_with_it() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let text = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "{text}\n[model_providers.old]\nbase_url = \"http://h\"\nwire_api = \"soap\"\n"
    ));
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/start", json!({ "modelProvider": "old" })).await;
    assert!(fault.message.contains("must be"), "{}", fault.message);
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
}

#[tokio::test]
async fn an_unreadable_configuration_is_reported_and_refuses_threads_until_it_is_fixed() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    let good = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    for (bad, said) in [
        ("model = \n", "config.toml:1"),
        ("sandbox_mode = 5\n", "`sandbox_mode`"),
        ("approval_policy = \"sometimes\"\n", "approval_policy"),
        ("model_provider = \"unknown\"\n", "model_provider"),
    ] {
        env.write_config(bad);
        let server = env.start();
        let mut peer = server.open(jsonrpc::Limits::default());
        peer.initialize(Value::Null).await;
        let fault = peer.refused("thread/start", json!({})).await;
        assert!(fault.message.contains(said), "{bad}: {}", fault.message);
        env.write_config(&good);
        let thread = peer.start_thread(json!({})).await;
        assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed", "{bad}");
        server.stop().await;
    }
}

#[tokio::test]
async fn an_invalid_configuration_file_is_reported_at_the_handshake() {
    let env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    env.write_config("= nonsense");
    let server = env.start();
    let mut peer = server.open(jsonrpc::Limits::default());
    peer.initialize(Value::Null).await;
    let notice = peer.expect("configWarning").await;
    assert!(notice["details"].as_str().unwrap().contains("config.toml:1"), "{notice}");
}

#[tokio::test]
async fn a_thread_s_own_configuration_wins() {
    let mut env = TestEnvironment::with_responses(json!([says("Hello.")])).await;
    env.config_overrides.push("model=\"by-argument\"".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    for (params, model) in [
        (json!({}), "by-argument"),
        (json!({ "config": { "model": "by-thread" } }), "by-thread"),
        (json!({ "config": { "model": "by-thread" }, "model": "by-member" }), "by-member"),
    ] {
        assert_eq!(peer.call("thread/start", params).await["model"], model);
    }
}

#[tokio::test]
async fn misspelt_permission_keys_are_refused_in_a_threads_config() {
    let env = TestEnvironment::with_responses(json!([says("x")])).await;
    let server = env.start();
    let mut peer = server.connect().await;
    for (config, named) in [
        (json!({ "sandbox_mod": "read-only" }), "did you mean `sandbox_mode`?"),
        (json!({ "approvalPolicy": "never" }), "did you mean `approval_policy`?"),
        (
            json!({ "sandbox_workspace_write": { "network_acess": true } }),
            "did you mean `sandbox_workspace_write.network_access`?",
        ),
        (json!({ "sandbox_workspace_write.colour": 1 }), "`sandbox_workspace_write.colour`"),
        (
            json!({ "permissions": { "mine": { "file_system": {} } } }),
            "`permissions.mine.file_system`",
        ),
        (json!({ "default_permission": "x" }), "did you mean `default_permissions`?"),
        (json!({ "profiles": { "p": { "sandbox_mod": "x" } } }), "`profiles.p.sandbox_mode`"),
    ] {
        let fault = peer.refused("thread/start", json!({ "config": config })).await;
        assert_eq!(fault.code, -32602, "{fault:?}");
        assert!(fault.message.contains(named), "{fault:?}");
    }
    // All other mistakes are ignored with a warning.
    peer.call("thread/start", json!({ "config": { "modle": "x" } })).await;
    let notice = peer.expect("configWarning").await["summary"].as_str().unwrap().to_owned();
    assert!(notice.contains("`modle`"), "{notice}");
}
