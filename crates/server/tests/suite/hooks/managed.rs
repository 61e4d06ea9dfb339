//! Hooks of the administrator (`requirements.toml`).

use std::fs;

use serde_json::{Value, json};
use testkit::TestEnvironment;

use super::{command, completed, env, listed, open, write_config};
use crate::{calls, says};

const GUARD: &str = r#"
[[hooks.PreToolUse]]
matcher = "Bash"

[[hooks.PreToolUse.hooks]]
type = "command"
command = "echo 'not on this machine' >&2; exit 2"
timeout = 10
statusMessage = "Checking"
"#;

// Effect of requirement `hooks`.
#[tokio::test]
async fn users_cannot_switch_off_the_hooks_of_the_administrator() {
    let state = |key: &str| format!("[hooks.state.\"{key}\"]\nenabled = false\n");
    for feature in ["", "[features]\ncodex_hooks = false\n", "[features]\nhooks = true\n"] {
        let responses =
            json!([calls("exec_command", json!({ "cmd": "touch done" })), says("Done.")]);
        let env = TestEnvironment::with_responses(responses).await;
        let file = env.home().join("requirements.toml");
        fs::write(&file, GUARD).unwrap();
        let key = format!("{}:PreToolUse:0:0", file.display());
        write_config(&env, &format!("{feature}{}", state(&key)));
        let (_server, mut peer, thread) = open(&env).await;

        let hooks = listed(&mut peer).await;
        let hook = &hooks["hooks"][0];
        assert_eq!(hook["key"], key, "{hooks}");
        assert_eq!(
            (&hook["isManaged"], &hook["trustStatus"], &hook["enabled"], &hook["source"]),
            (&json!(true), &json!("managed"), &json!(true), &json!("system"))
        );
        let shown = peer.call("configRequirements/read", json!({})).await;
        let group = &shown["requirements"]["hooks"]["PreToolUse"][0];
        assert_eq!(group["matcher"], "Bash");
        assert_eq!(group["hooks"][0]["timeoutSec"], 10);

        peer.start_turn(&thread, "Go.").await;
        let run = completed(&mut peer, "preToolUse").await;
        assert_eq!((&run["status"], &run["source"]), (&json!("blocked"), &json!("system")));
        peer.expect("turn/completed").await;
        assert!(!env.workspace().join("done").exists(), "{feature}");
    }
}

#[tokio::test]
async fn a_hook_of_the_administrator_runs_outside_of_the_sandbox_after_the_users() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    write_config(&env, "[features]\ncodex_hooks = true\n");
    let outside = env.root().join("outside");
    let line = format!("touch {}", outside.display());
    let required = json!({ "type": "command", "command": line }).to_string();
    let required = format!("[[hooks.Stop]]\nhooks = [{}]\n", toml_of(&required));
    fs::write(env.home().join("requirements.toml"), required).unwrap();
    let own =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "true" }] }] } });
    fs::write(env.home().join("hooks.json"), own.to_string()).unwrap();
    let (_server, mut peer, thread) = open(&env).await;
    let hooks = listed(&mut peer).await;
    let sources: Vec<&Value> =
        hooks["hooks"].as_array().unwrap().iter().map(|hook| &hook["source"]).collect();
    assert_eq!(sources, ["user", "system"]);
    peer.run_turn(&thread, "Go.").await;
    assert!(outside.exists());
}

#[tokio::test]
async fn a_required_hook_that_would_have_no_effect_is_an_error() {
    let cases = [
        ("[[hooks.PreToolUs]]\nhooks = []\n", "there is no event of this name"),
        ("[[hooks.PreToolUse]]\nmatcher = \"(\"\nhooks = []\n", "hooks.PreToolUse[0]"),
        (
            "[[hooks.PreToolUse]]\nhooks = [{ type = \"comand\", command = \"x\" }]\n",
            "no handlers of the type `comand`",
        ),
        (
            "[[hooks.PreToolUse]]\nhooks = [{ type = \"command\", comand = \"x\" }]\n",
            "the member `command` is missing",
        ),
    ];
    for (file, expected) in cases {
        let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
        fs::write(env.home().join("requirements.toml"), file).unwrap();
        let server = env.start();
        let mut peer = server.connect().await;
        let fault = peer.refused("thread/start", json!({})).await;
        let message = &fault.message;
        assert!(message.contains(expected) && message.contains("requirements.toml"), "{message}");
    }
}

#[tokio::test]
async fn the_users_hooks_do_not_answer_the_question_of_a_required_rule() {
    let consents = [
        ("PreToolUse", json!({ "permissionDecision": "allow" })),
        ("PermissionRequest", json!({ "decision": { "behavior": "allow" } })),
    ];
    for (event, consent) in consents {
        let answer = json!({ "hookSpecificOutput": consent });
        let responses = json!([calls("exec_command", json!({ "cmd": "uname" })), says("Done.")]);
        let env = env(&[(event, command(&format!("echo '{answer}'")))], responses).await;
        let rule =
            "[[rules.prefix_rules]]\npattern = [{ token = \"uname\" }]\ndecision = \"prompt\"\n";
        fs::write(env.home().join("requirements.toml"), rule).unwrap();
        let server = env.start();
        let mut peer = server.connect().await;
        let policy = json!({ "approvalPolicy": "on-request", "sandbox": "workspaceWrite" });
        let thread = peer.start_thread(policy).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked("item/commandExecution/requestApproval").await;
        peer.decide(&asked, "decline").await;
        peer.turn_end(&turn).await;
    }
}

/// An inline table of TOML with the members of a JSON object of strings.
fn toml_of(json: &str) -> String {
    let members: serde_json::Map<String, Value> = serde_json::from_str(json).unwrap();
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    format!("{{ {} }}", members.join(", "))
}
