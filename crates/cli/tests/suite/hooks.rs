//! `agentd hooks`, as a person uses it.

use crate::common::{TestEnvironment, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn hooks_are_listed_trusted_and_switched() {
    let env = TestEnvironment::new();
    let run = |arguments: &[&str], code: i32| {
        let output = env.run(&[&["hooks"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert!(run(&["list"], 0).1.contains("there are no hooks"));
    let config = env.home().join("config.toml");
    let before = std::fs::read_to_string(&config).unwrap_or_default();
    let workspace = env.work();
    let workspace = workspace.display();
    let more = format!(
        "[features]\ncodex_hooks = true\n[projects.\"{workspace}\"]\ntrust_level = \"trusted\"\n"
    );
    std::fs::write(config, before + "\n" + &more).unwrap();
    let group = |command: &str| json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let file = |hooks: Value| json!({ "hooks": hooks }).to_string();
    let folder = env.work().join(".agent");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("hooks.json"), file(json!({ "Stop": group("make lint") }))).unwrap();
    let own = file(json!({ "Stop": group("true"), "Nightly": [] }));
    std::fs::write(env.home().join("hooks.json"), own).unwrap();

    let (listed, warnings) = run(&["list"], 0);
    assert!(warnings.contains("Nightly: there is no event of this name"), "{warnings}");
    let key = format!("{workspace}/.agent/hooks.json:Stop:0:0");
    let line =
        |state: &str| format!("{key}  ({state})\n    at stop (at most 600 s) runs: make lint\n");
    assert!(listed.contains(&line("does not run: not trusted")), "{listed}");
    assert!(
        listed.contains("hooks.json:Stop:0:0  (runs)\n    at stop (at most 600 s) runs: true\n"),
        "{listed}"
    );
    // Without a terminal no one can be asked.
    assert!(run(&["trust", &key], 2).1.contains("add `--yes`"));
    run(&["trust", "--yes", &key], 0);
    assert!(run(&["list"], 0).0.contains(&line("runs")));
    run(&["disable", &key], 0);
    assert!(run(&["list"], 0).0.contains(&line("switched off")));
    run(&["enable", &key], 0);
    let changed = file(json!({ "Stop": group("make test\n/x:Stop:0:0  (runs)") }));
    std::fs::write(folder.join("hooks.json"), changed).unwrap();
    let listed = run(&["list"], 0).0;
    assert!(listed.contains(r"runs: make test\u{a}/x:Stop:0:0  (runs)"), "{listed}");
    let listed: Value = serde_json::from_str(&run(&["list", "--json"], 0).0).unwrap();
    assert_eq!(listed[1]["trustStatus"], "modified", "{listed}");
    assert!(run(&["trust", "--yes", "nothing"], 2).1.contains("there is no hook `nothing`"));
}

#[test]
fn hooks_are_listed_while_they_are_off() {
    let env = TestEnvironment::new();
    let hooks =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "x" }] }] } });
    std::fs::write(env.home().join("hooks.json"), hooks.to_string()).unwrap();
    let output = env.run(&["hooks", "list"]);
    let (listed, warnings) = (stdout(&output), stderr(&output));
    assert!(listed.contains("hooks.json:Stop:0:0  (does not run: hooks are off)"), "{listed}");
    assert!(warnings.contains("agentd config set features.codex_hooks true"), "{warnings}");
    let set = env.run(&["config", "set", "features.codex_hooks", "true"]);
    assert!(set.status.success(), "{}", stderr(&set));
    let output = env.run(&["hooks", "list"]);
    assert!(stdout(&output).contains("hooks.json:Stop:0:0  (runs)"), "{}", stdout(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn hooks_of_a_folder_with_quotes_are_trusted() {
    let env = TestEnvironment::new();
    let folder = env.work().join(r#"it's "a\b" ü"#);
    std::fs::create_dir_all(folder.join(".agent")).unwrap();
    let hooks =
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "x" }] }] } });
    std::fs::write(folder.join(".agent/hooks.json"), hooks.to_string()).unwrap();
    let config = format!(
        "[features]\ncodex_hooks = true\n[projects.{}]\ntrust_level = \"trusted\"\n",
        json!(folder)
    );
    std::fs::write(env.home().join("config.toml"), config).unwrap();
    let run = |arguments: &[&str]| {
        let output = env.agentd(arguments).current_dir(&folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    let list = || -> Value { serde_json::from_str(&run(&["hooks", "list", "--json"])).unwrap() };
    let hook = list()[0].clone();
    assert_eq!(hook["trustStatus"], "untrusted");
    run(&["hooks", "trust", "--yes", hook["key"].as_str().unwrap()]);
    assert_eq!(list()[0]["trustStatus"], "trusted");
}

#[test]
fn a_prompt_that_a_hook_refuses_is_a_failure() {
    let env = TestEnvironment::new();
    let hooks = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [
        { "type": "command", "command": "echo not today >&2; exit 2" }
    ] }] } });
    std::fs::write(env.home().join("hooks.json"), hooks.to_string()).unwrap();
    std::fs::write(env.home().join("config.toml"), "[features]\ncodex_hooks = true\n").unwrap();
    for form in [None, Some("--json"), Some("--experimental-json")] {
        let mut arguments = vec!["exec", "-c", "model_provider=offline", "-c", "model=echo"];
        arguments.push("--skip-git-repo-check");
        arguments.extend(form);
        arguments.push("hello");
        let output = env.run(&arguments);
        assert_eq!(output.status.code(), Some(1), "{form:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("because of a hook: not today"), "{}", stderr(&output));
        let events = stdout(&output);
        match form {
            None => assert_eq!(events, ""),
            Some("--json") => {
                assert!(events.contains("\"hook/completed\"") && events.contains("not today"));
            }
            Some(_) => {
                let message = "hook of userPromptSubmit in ";
                assert!(events.contains(message) && events.contains("not today"), "{events}");
                assert!(!events.contains("turn.completed"), "{events}");
            }
        }
    }
}
