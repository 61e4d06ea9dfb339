//! An administrator's requirements apply to every way of setting a value.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::{runs, says, tool_outputs};

async fn env(requirements: &str) -> TestEnvironment {
    let env = TestEnvironment::with_responses(json!([says("Hi."), says("Hi."), says("Hi.")])).await;
    std::fs::create_dir(env.system_dir()).unwrap();
    std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
    env
}

const MODES: &str = "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n\
                     allowed_approval_policies = [\"untrusted\", \"on-request\"]\n";

#[tokio::test]
async fn every_source_of_settings_is_constrained() {
    let mut env = env(MODES).await;
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "sandbox_mode = \"danger-full-access\"\n{config}\n[profiles.free]\napproval_policy = \"never\"\n"
    ));
    env.config_overrides.push("profile=free".to_owned());
    let server = env.start();
    let mut peer = server.open(jsonrpc::Limits::default());
    peer.initialize(Value::Null).await;
    let first = peer.expect("configWarning").await["summary"].as_str().unwrap().to_owned();
    let second = peer.expect("configWarning").await["summary"].as_str().unwrap().to_owned();
    let said = first + &second;
    assert!(
        said.contains("allowed_sandbox_modes") && said.contains("allowed_approval_policies"),
        "{said}"
    );
    for params in [
        json!({}),
        json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" }),
        json!({ "config": { "sandbox_mode": "danger-full-access", "approval_policy": "never" } }),
    ] {
        let started = peer.call("thread/start", params.clone()).await;
        assert_eq!(started["sandbox"]["type"], "workspaceWrite", "{params}");
        assert_eq!(started["approvalPolicy"], "onRequest", "{params}");
    }
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn_with(json!({
        "threadId": thread, "input": [{ "type": "text", "text": "Go." }],
        "sandboxPolicy": { "type": "dangerFullAccess" }, "approvalPolicy": "never",
    }))
    .await;
    let notice = env.model().requests().pop().unwrap()["input"].to_string();
    assert!(
        !notice.contains("full access") && !notice.contains("no approval can be requested"),
        "{notice}"
    );
    let resumed = json!({ "threadId": thread, "sandbox": "dangerFullAccess" });
    assert_eq!(peer.call("thread/resume", resumed).await["sandbox"]["type"], "workspaceWrite");
    let written = json!({
        "keyPath": "sandbox_mode", "value": "danger-full-access", "mergeStrategy": "replace",
    });
    let written = peer.call("config/value/write", written).await;
    assert_eq!(written["status"], "okOverridden", "{written}");
    assert_eq!(written["overriddenMetadata"]["effectiveValue"], "workspace-write");
}

#[tokio::test]
async fn unsatisfiable_requirements_refuse_threads() {
    let env = env("allowed_sandbox_modes = []\n").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let fault = peer.refused("thread/start", json!({})).await;
    assert!(fault.message.contains("allowed_sandbox_modes"), "{}", fault.message);
}

#[tokio::test]
async fn requirements_can_be_read() {
    let env =
        env(&format!("{MODES}allowed_web_search_modes = []\n[features]\napps = false\n")).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let read = peer.call("configRequirements/read", json!({})).await;
    let expect = json!({
        "allowedApprovalPolicies": ["unlessTrusted", "onRequest"],
        "allowedSandboxModes": ["readOnly", "workspaceWrite"],
        "allowedWebSearchModes": ["disabled"],
        "featureRequirements": { "apps": false },
    });
    assert_eq!(read["requirements"], expect);
    let bare = TestEnvironment::with_responses(json!([says("Hi.")])).await;
    let server = bare.start();
    let mut peer = server.connect().await;
    assert_eq!(peer.call("configRequirements/read", json!({})).await["requirements"], Value::Null);
}

// Effect of requirement `rules.prefix_rules.<index>.pattern.<index>.token`.
// Effect of requirement `rules.prefix_rules.<index>.pattern.<index>.any_of`.
// Effect of requirement `rules.prefix_rules.<index>.decision`.
// Effect of requirement `rules.prefix_rules.<index>.justification`.
#[tokio::test]
async fn command_rules() {
    let env = TestEnvironment::with_responses(json!([
        runs("touch made"),
        runs("echo fine"),
        says("Done.")
    ]))
    .await;
    std::fs::create_dir(env.system_dir()).unwrap();
    let rules = "[[rules.prefix_rules]]\npattern = [{ any_of = [\"touch\", \"rm\"] }]\n\
                 decision = \"forbidden\"\njustification = \"files are made by patches\"\n";
    std::fs::write(env.system_dir().join("requirements.toml"), rules).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    let why = format!(
        "a rule forbids this command: files are made by patches (the rule at {}:1)",
        env.system_dir().join("requirements.toml").display()
    );
    assert!(outputs[0].contains(&why), "{outputs:?}");
    assert!(outputs[1].contains("fine"), "{outputs:?}");
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn a_pinned_feature_stays_as_it_is() {
    let env = env("[features]\ngoals = false\n").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let set = json!({ "enablement": { "goals": true, "fast_mode": false } });
    let now = peer.call("experimentalFeature/enablement/set", set).await;
    assert_eq!(now["enablement"], json!({ "goals": false, "fast_mode": false }));
}

#[tokio::test]
async fn settings_are_constrained_once_the_requirements_forbid_them() {
    let env =
        TestEnvironment::with_responses(json!([says("One."), says("Two."), says("Three.")])).await;
    std::fs::create_dir(env.system_dir()).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let free = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let loaded = peer.start_thread(free.clone()).await;
    let stored = peer.start_thread(free).await;
    peer.run_turn(&loaded, "One.").await;
    peer.run_turn(&stored, "One.").await;
    std::fs::write(env.system_dir().join("requirements.toml"), MODES).unwrap();
    peer.run_turn(&loaded, "Two.").await;
    let notice = env.model().requests().pop().unwrap()["input"].to_string();
    assert!(notice.contains("Sandbox: commands can read all files and write in"), "{notice}");
    server.stop().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let resumed = peer.call("thread/resume", json!({ "threadId": stored })).await;
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite");
    assert_eq!(resumed["approvalPolicy"], "onRequest");
}

#[tokio::test]
async fn a_reason_names_its_file() {
    let env = TestEnvironment::with_responses(json!([
        runs("touch made"),
        runs("rm made"),
        says("Done.")
    ]))
    .await;
    let rule = |word: &str| {
        format!(
            "[[rules.prefix_rules]]\npattern = [{{ token = \"{word}\" }}]\ndecision = \"forbidden\"\n"
        )
    };
    std::fs::create_dir(env.system_dir()).unwrap();
    let system = env.system_dir().join("requirements.toml");
    let modes =
        "allowed_sandbox_modes = [\"read-only\", \"workspace-write\", \"danger-full-access\"]\n";
    std::fs::write(&system, format!("{modes}{}", rule("touch"))).unwrap();
    let own = env.home().join("requirements.toml");
    let modes = "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    std::fs::write(&own, format!("{modes}\n\n{}", rule("rm"))).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({ "sandbox": "workspaceWrite" })).await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    assert!(outputs[0].contains(&format!("{}:2", system.display())), "{outputs:?}");
    assert!(outputs[1].contains(&format!("{}:4", own.display())), "{outputs:?}");
    // The first file allows the command, the second one does not.
    peer.call("thread/start", json!({ "sandbox": "dangerFullAccess" })).await;
    let notice = peer.expect("configWarning").await["summary"].as_str().unwrap().to_owned();
    assert!(notice.contains("danger-full-access"), "{notice}");
    assert!(notice.contains(&own.display().to_string()), "{notice}");
}
