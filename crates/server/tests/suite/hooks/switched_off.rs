//! Hooks while the feature is off: listed, with what to do, and never run.

use std::fs;

use serde_json::json;
use testkit::TestEnvironment;

use super::{command, file, listed, open, trust_project, write_config, write_project_hook};
use crate::says;

#[tokio::test]
async fn hooks_are_listed_while_they_are_off_and_the_list_says_so() {
    for (config, requirements, expected) in [
        ("", "", Some("agentd config set features.codex_hooks true")),
        ("[features]\ncodex_hooks = false\n", "", Some("features.codex_hooks = true")),
        (
            "[features]\nhooks = true\n",
            "[features]\ncodex_hooks = false\n",
            Some("the administrator has switched hooks off"),
        ),
        ("[features]\nhooks = true\n", "", None),
    ] {
        let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
        write_config(&env, config);
        fs::write(env.home().join("requirements.toml"), requirements).unwrap();
        trust_project(&env);
        let line = format!("touch {}", env.root().join("ran").display());
        fs::write(env.home().join("hooks.json"), file(&[("Stop", command(&line))])).unwrap();
        write_project_hook(&env, &[("PreToolUse", command("true"))]);
        let (_server, mut peer, thread) = open(&env).await;

        let entry = listed(&mut peer).await;
        assert_eq!(entry["hooks"].as_array().map(Vec::len), Some(2), "{entry}");
        assert_eq!(entry["hooksEnabled"], expected.is_none(), "{entry}");
        let warnings = entry["warnings"].to_string();
        match expected {
            Some(text) => assert!(warnings.contains(text), "{warnings}"),
            None => assert_eq!(warnings, "[]"),
        }
        peer.start_turn(&thread, "Go.").await;
        peer.expect("turn/completed").await;
        assert_eq!(env.root().join("ran").exists(), expected.is_none(), "{config}");
    }
}

#[tokio::test]
async fn nothing_is_said_about_the_feature_where_there_are_no_hooks() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let (_server, mut peer, _thread) = open(&env).await;
    let entry = listed(&mut peer).await;
    assert_eq!((&entry["hooks"], &entry["warnings"]), (&json!([]), &json!([])), "{entry}");
}
