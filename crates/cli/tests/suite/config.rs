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
fn all_mistakes_are_named_and_can_be_corrected_one_by_one() {
    let env = env(
        "# mine\n\nnotify = 5\nmodel = true\nfile_opener = \"vscode\"\n[tui]\nanimations = 1\n",
    );
    let text = stderr(&env.run(&["config", "check"]));
    let places: Vec<usize> =
        [":3:10: `notify`", ":4:9: `model`", ":5:15: `file_opener`", ":7:14: `tui.animations`"]
            .map(|place| text.find(place).unwrap_or_else(|| panic!("{place}: {text}")))
            .to_vec();
    assert!(places[0] < places[1] && places[1] < places[3], "{text}");
    // Another mistake is not made meanwhile.
    assert_eq!(env.run(&["config", "set", "hide_agent_reasoning", "1"]).status.code(), Some(2));
    assert_eq!(env.run(&["config", "set", "notify", "6"]).status.code(), Some(2));
    for arguments in [
        &["config", "set", "model", "b"][..],
        &["config", "unset", "notify"],
        &["config", "set", "tui.animations", "true"],
    ] {
        assert_eq!(env.run(&["config", "check"]).status.code(), Some(2), "{arguments:?}");
        let output = env.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }
    let output = env.run(&["config", "check"]);
    assert_eq!(stdout(&output), "the configuration is valid, with 1 warning\n");
    let file = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(file.starts_with("# mine\n\nmodel = \"b\""), "{file}");
}

#[test]
fn files_that_a_first_turn_reads_are_checked() {
    let env = env("model_catalog_json = \"models.json\"\nmodel_instructions_file = \"gone.md\"\n\
         [mcp_servers.both]\ncommand = \"x\"\nurl = \"http://h\"\n[mcp_servers.none]\nrequired = true\n");
    std::fs::write(env.home().join("models.json"), "[{ \"id\": \"a\", \"colour\": 1 }]").unwrap();
    let output = env.run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for expected in [
        "config.toml:1:22: `model_catalog_json`: ",
        "unknown field `colour`",
        "config.toml:2:27: `model_instructions_file`: ",
        "has both `command` and `url`",
        "has neither `command` nor `url`",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    std::fs::write(env.home().join("models.json"), "[{ \"slug\": \"a\", \"colour\": 1 }]").unwrap();
    std::fs::write(env.home().join("gone.md"), "Be brief.").unwrap();
    let output = env.run(&["config", "check"]);
    assert_eq!(stdout(&output), "the configuration is valid, with 2 warnings\n");
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
