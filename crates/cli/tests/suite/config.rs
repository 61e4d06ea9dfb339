//! `agentd config`, and starting with an invalid configuration: the real program.

use crate::common::{TestEnvironment, stderr, stdout};

fn env(text: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    std::fs::write(env.home().join("config.toml"), text).unwrap();
    env
}

#[test]
fn an_invalid_configuration_exits_with_2_and_its_position() {
    let env = env("\nmodel = true\n");
    for arguments in [
        &["app-server"][..],
        &["exec", "go"],
        &["config", "check"],
        &["config", "show"],
        &["-c", "sandbox_mode=x", "app-server"],
        &["--enable", "shel_tool", "app-server"],
    ] {
        let output = env.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).is_empty(), "{arguments:?}");
    }
    let stderr_text = stderr(&env.run(&["app-server"]));
    assert!(
        stderr_text.contains("config.toml:2:9: `model` must be a string, found the boolean true"),
        "{stderr_text}"
    );
    assert!(stderr_text.contains("2 | model = true\n  |         ^^^^"), "{stderr_text}");
}

#[test]
fn unknown_keys_warn_unless_the_configuration_is_strict() {
    let env = env("modle = \"x\"\n");
    let output = env.run(&["config", "check"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("did you mean `model`?"), "{}", stderr(&output));
    assert!(stderr(&output).contains("so it is ignored"), "{}", stderr(&output));
    for command in [&["config", "check"][..], &["app-server"]] {
        let strict = env.run(&[&["--strict-config"], command].concat());
        assert_eq!(strict.status.code(), Some(2));
        let text = stderr(&strict);
        assert!(text.contains("there is no such key, which `--strict-config` does not"), "{text}");
    }
    // A folder in the place of the file.
    let file = env.home().join("config.toml");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let output = env.run(&["config", "set", "model", "x"]);
    let expected =
        "it is a folder, so it cannot hold the configuration; move it away or delete it\n";
    assert!(stderr(&output).ends_with(expected), "{}", stderr(&output));
}

#[test]
fn values_are_set_shown_and_removed() {
    let env = env("# mine\nmodel = \"a\" # why\n");
    assert!(env.run(&["config", "set", "model", "b"]).status.success());
    assert!(env.run(&["config", "set", "tools.view_image", "false"]).status.success());
    let shown = stdout(&env.run(&["config", "show", "--origins"]));
    assert!(shown.contains("model = \"b\"  # ") && shown.contains("config.toml:2\n"), "{shown}");
    assert!(shown.contains("tools.view_image = false"), "{shown}");
    assert_eq!(stdout(&env.run(&["config", "get", "sandbox_mode"])), "read-only\n");
    assert_eq!(env.run(&["config", "set", "model", "5"]).status.code(), Some(2));
    assert_eq!(env.run(&["config", "set", "modle", "x"]).status.code(), Some(2));
    assert!(env.run(&["config", "unset", "tools.view_image"]).status.success());
    assert!(!stdout(&env.run(&["config", "show"])).contains("view_image"));
    assert!(stdout(&env.run(&["config", "path"])).contains("config.toml"));
    let schema: serde_json::Value =
        serde_json::from_str(&stdout(&env.run(&["config", "schema"]))).unwrap();
    assert!(schema["properties"]["model"].is_object());
}

#[test]
fn secrets_are_shown_on_request_only() {
    let env = env(
        "[model_providers.x]\nbase_url = \"http://h\"\nexperimental_bearer_token = \"tell-nobody\"\n\
         http_headers = { X-Key = \"tell-nobody\" }\n",
    );
    for arguments in [&["config", "show"][..], &["config", "show", "--json"]] {
        assert!(!stdout(&env.run(arguments)).contains("tell-nobody"), "{arguments:?}");
        let all = [arguments, &["--secrets"]].concat();
        assert!(stdout(&env.run(&all)).contains("tell-nobody"), "{arguments:?}");
    }
}
