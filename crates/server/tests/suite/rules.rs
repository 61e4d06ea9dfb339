//! Files of command rules: which ones apply in a folder, and the effect of one that cannot be read.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{patches, runs, says, tool_outputs};

const COMMAND: &str = "item/commandExecution/requestApproval";

async fn env(scripts: &[&str]) -> TestEnvironment {
    let mut responses: Vec<Value> = scripts.iter().map(|script| runs(script)).collect();
    responses.push(says("Done."));
    TestEnvironment::with_responses(json!(responses)).await
}

fn write(folder: &Path, name: &str, text: &str) {
    let folder = folder.join("rules");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

async fn thread(peer: &mut Peer, approval: &str) -> String {
    let params = json!({ "approvalPolicy": approval, "sandbox": "workspaceWrite" });
    peer.start_thread(params).await
}

#[tokio::test]
async fn the_strictest_of_all_sources_wins() {
    let env = env(&["touch a", "touch b; date", "uname"]).await;
    write(env.home(), "a.rules", "prefix_rule(pattern=['touch'])\n");
    write(env.home(), "b.rules", "prefix_rule(pattern=['date'], decision='forbidden')");
    write(env.home(), "c.txt", "this is not a file of rules");
    let requirements = "[[rules.prefix_rules]]\npattern = [{ token = \"uname\" }]\n\
                        decision = \"forbidden\"\njustification = \"ours\"\n";
    std::fs::create_dir_all(env.system_dir()).unwrap();
    std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = thread(&mut peer, "unlessTrusted").await;
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    assert!(env.workspace().join("a").exists(), "{outputs:?}");
    assert!(!env.workspace().join("b").exists(), "{outputs:?}");
    assert!(outputs[1].contains("a rule forbids this command: the rule at"), "{outputs:?}");
    assert!(outputs[1].contains("b.rules:1"), "{outputs:?}");
    assert!(outputs[2].contains("a rule forbids this command: ours (the rule at"), "{outputs:?}");
    assert!(outputs[2].contains("requirements.toml:1)"), "{outputs:?}");
}

#[tokio::test]
async fn a_reason_names_the_file_and_line_of_its_rule() {
    let rule = "[[rules.prefix_rules]]\npattern = [{ token = \"touch\" }]\n";
    let required = |why: &str| format!("\n{rule}decision = \"DECISION\"\n{why}");
    let because = "justification = \"ours\"\n";
    let written =
        |why: &str| format!("\nprefix_rule(pattern=['touch'], decision='DECISION'{why})\n");
    let cases = [
        ("home", "requirements.toml", required(because), "ours (the rule at PATH:2)"),
        ("home", "requirements.toml", required(""), "the rule at PATH:2"),
        ("system", "requirements.toml", required(because), "ours (the rule at PATH:2)"),
        ("home", "rules/x.rules", written(", justification='ours'"), "ours (the rule at PATH:2)"),
        ("home", "rules/x.rules", written(""), "the rule at PATH:2"),
    ];
    for (folder, file, text, expected) in cases {
        for decision in ["forbidden", "prompt"] {
            let env = env(&["touch made"]).await;
            let folder = if folder == "home" { env.home().to_owned() } else { env.system_dir() };
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text.replace("DECISION", decision)).unwrap();
            let expected = expected.replace("PATH", &path.display().to_string());
            let server = env.start();
            let mut peer = server.connect().await;
            let thread = thread(&mut peer, "onRequest").await;
            if decision == "prompt" {
                let turn = peer.start_turn(&thread, "Go.").await;
                let asked = peer.asked(COMMAND).await;
                assert_eq!(asked.params["reason"], json!(expected));
                peer.decide(&asked, "decline").await;
                peer.turn_end(&turn).await;
                continue;
            }
            peer.run_turn(&thread, "Go.").await;
            let outputs = tool_outputs(&env);
            let why = format!("a rule forbids this command: {expected}");
            assert!(outputs[0].contains(&why), "{why}: {outputs:?}");
        }
    }
}

#[tokio::test]
async fn rules_of_a_project_hold_when_it_is_trusted() {
    for trusted in [false, true] {
        let env = env(&["touch made"]).await;
        let rule = "prefix_rule(pattern=['touch'], decision='forbidden')";
        write(&env.workspace().join(".agent"), "x.rules", rule);
        if trusted {
            let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
            let path = env.workspace().display().to_string();
            env.write_config(&format!(
                "{config}\n[projects.\"{path}\"]\ntrust_level = \"trusted\"\n"
            ));
        }
        let server = env.start();
        let mut peer = server.connect().await;
        let thread = thread(&mut peer, "never").await;
        peer.run_turn(&thread, "Go.").await;
        assert_eq!(env.workspace().join("made").exists(), !trusted);
        let notice = peer.transcript().iter().any(|line| line.contains("configWarning"));
        assert_eq!(notice, !trusted, "{:?}", peer.transcript());
    }
}

/// Commands and patches in a project cannot configure a later thread: neither through a folder that
/// they create, nor in a folder that the user trusts separately.
#[tokio::test]
async fn files_written_by_an_agent_configure_no_later_thread() {
    let plant = |folder: &str| {
        let file = format!("{folder}/.agent/config.toml");
        format!("mkdir -p {folder}/.agent; echo 'sandbox_mode=\"danger-full-access\"' > {file}")
    };
    let patch = "*** Add File: patched/.agent/config.toml\n+sandbox_mode = \"danger-full-access\"\n\
                 *** Add File: trusted/.agent/rules/x.rules\n+";
    let env = TestEnvironment::with_responses(json!([
        runs(&plant("made")),
        runs(&plant("trusted")),
        patches(patch),
        says("Done."),
    ]))
    .await;
    let workspace = env.workspace().to_owned();
    std::fs::create_dir_all(workspace.join(".git")).unwrap();
    std::fs::create_dir_all(workspace.join("trusted")).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let entry = |folder: &Path| format!("[projects.{folder:?}]\ntrust_level = \"trusted\"\n");
    let entries = [entry(&workspace), entry(&workspace.join("trusted"))].concat();
    env.write_config(&format!("{config}\n{entries}"));
    let server = env.start();
    let mut peer = server.connect().await;
    let first = thread(&mut peer, "never").await;
    peer.run_turn(&first, "Go.").await;
    assert!(workspace.join("made/.agent/config.toml").exists());
    assert!(!workspace.join("trusted/.agent/config.toml").exists());
    assert!(!workspace.join("patched/.agent").exists(), "a patch is applied whole or not at all");
    for folder in ["made", "trusted", "patched"] {
        std::fs::create_dir_all(workspace.join(folder)).unwrap();
        let started = peer.call("thread/start", json!({ "cwd": workspace.join(folder) })).await;
        assert_ne!(started["sandbox"]["type"], "dangerFullAccess", "{folder}: {started}");
    }
}

#[tokio::test]
async fn a_changed_rules_file_applies_from_the_next_command() {
    let env = env(&["touch made"]).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = thread(&mut peer, "never").await;
    let rule = "prefix_rule(pattern=['touch'], decision='prompt')";
    write(env.home(), "late.rules", rule);
    peer.run_turn(&thread, "Go.").await;
    let outputs = tool_outputs(&env);
    assert!(outputs[0].contains("no approval can be requested: the rule at"), "{outputs:?}");
}

#[tokio::test]
async fn everything_is_asked_about_while_a_file_cannot_be_read() {
    let env = env(&["ls", "touch made"]).await;
    write(env.home(), "broken.rules", "\nprefix_rule(pattern=[TOUCH], decision='deny')");
    let server = env.start();
    let mut peer = server.connect().await;
    let warning = peer.expect("configWarning").await;
    let summary = warning["summary"].as_str().unwrap();
    assert!(summary.contains("broken.rules:2:22: a text in quotes or a list"), "{summary}");
    let thread = thread(&mut peer, "onRequest").await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    assert_eq!(asked.params["reason"], json!(summary));
    peer.decide(&asked, "accept").await;
    let asked = peer.asked(COMMAND).await;
    // The file is fixed while the request is open: the next command is assessed by it.
    write(env.home(), "broken.rules", "prefix_rule(pattern=['touch'], decision='forbidden')");
    peer.decide(&asked, "decline").await;
    peer.turn_end(&turn).await;
    assert!(!env.workspace().join("made").exists());
}

#[tokio::test]
async fn nothing_is_appended_to_a_file_that_cannot_be_read() {
    let env = env(&["touch made"]).await;
    write(env.home(), "default.rules", "torn(");
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = thread(&mut peer, "unlessTrusted").await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked(COMMAND).await;
    assert_eq!(asked.params["proposedExecpolicyAmendment"], json!(null));
    let decision =
        json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["touch"] } });
    peer.decide(&asked, decision).await;
    let warning = peer.expect("warning").await;
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains("default.rules:1:1: `torn` is not known"), "{message}");
    peer.turn_end(&turn).await;
    assert!(env.workspace().join("made").exists());
    let text = std::fs::read_to_string(env.home().join("rules/default.rules")).unwrap();
    assert_eq!(text, "torn(");
}
