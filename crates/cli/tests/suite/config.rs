//! `agentd config`, and starting with an invalid configuration: the real program.

use crate::common::{TestEnvironment, stderr, stdout};

fn env(text: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    std::fs::write(env.home().join("config.toml"), text).unwrap();
    env
}

#[test]
fn an_invalid_configuration_exits_with_2_and_its_position() {
    let env = env("\nsandbox_mode = true\n");
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
        stderr_text.contains("config.toml:2:16: `sandbox_mode` must be one of"),
        "{stderr_text}"
    );
    assert!(
        stderr_text.contains("2 | sandbox_mode = true\n  |                ^^^^"),
        "{stderr_text}"
    );
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
        "# mine\n\napproval_policy = 5\nfile_opener = \"vscode\"\nsandbox_mode = true\n[tui]\n\
         animations = 1\n[shell_environment_policy]\ninherit = \"x\"\n",
    );
    let text = stderr(&env.run(&["config", "check"]));
    let kinds = lines_of(&text);
    let expected = [
        "error: 3 approval_policy",
        "warning: 4 file_opener",
        "error: 5 sandbox_mode",
        "warning: 7 tui.animations",
        "error: 9 shell_environment_policy.inherit",
    ];
    assert_eq!(kinds, expected, "{text}");
    // Another mistake is not made meanwhile.
    assert_eq!(env.run(&["config", "set", "hide_agent_reasoning", "1"]).status.code(), Some(2));
    assert_eq!(env.run(&["config", "set", "approval_policy", "6"]).status.code(), Some(2));
    for arguments in [
        &["config", "set", "sandbox_mode", "read-only"][..],
        &["config", "unset", "approval_policy"],
        &["config", "unset", "shell_environment_policy.inherit"],
    ] {
        assert_eq!(env.run(&["config", "check"]).status.code(), Some(2), "{arguments:?}");
        let output = env.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    }
    let output = env.run(&["config", "check"]);
    assert_eq!(stdout(&output), "the configuration is valid, with 2 warnings\n");
    let file = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    assert!(file.starts_with("# mine\n\nfile_opener"), "{file}");
}

/// The findings of a check of one file, each as its kind, line and key.
fn lines_of(text: &str) -> Vec<String> {
    let found =
        text.lines().filter(|line| line.starts_with("error: ") || line.starts_with("warning: "));
    let short = |line: &str| {
        let (kind, rest) = line.split_once(' ').unwrap();
        let (_, place) = rest.split_once("config.toml:").unwrap_or((rest, "0"));
        let (line, _) = place.split_once(':').unwrap_or((place, ""));
        let key = rest.split('`').nth(1).unwrap_or_default();
        format!("{kind} {line} {key}")
    };
    found.map(short).collect()
}

#[test]
fn null_removes_a_key_and_a_text_that_looks_like_another_value_is_quoted() {
    let env = env("# head\nmodel = \"a\"\n");
    let file = || std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let output = env.run(&["config", "set", "model", "null"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("for the text write '\"null\"'"), "{}", stderr(&output));
    assert_eq!(file(), "# head\n");
    assert!(env.run(&["config", "set", "model", "\"null\""]).status.success());
    assert_eq!(file(), "# head\nmodel = \"null\"\n");
    // For one command as well.
    let shown = env.run(&["-c", "model=null", "config", "get", "model"]);
    assert!(stderr(&shown).contains("is not set and has no default"), "{}", stderr(&shown));
    for (typed, hint) in [("true", true), ("5", true), ("[]", true), ("'x'", false)] {
        let output = env.run(&["config", "set", "model", typed]);
        assert_eq!(output.status.code(), if hint { Some(2) } else { Some(0) }, "{typed}");
        let said = stderr(&output);
        let quoted = format!("to set text, quote it: agentd config set model '\"{typed}\"'");
        assert_eq!(said.contains(&quoted), hint, "{typed}: {said}");
    }
    // Where no text is meant, there is no such hint.
    let said = stderr(&env.run(&["config", "set", "sandbox_mode", "true"]));
    assert!(!said.contains("to set text"), "{said}");
}

#[test]
fn unset_says_when_nothing_was_set() {
    let env = env("[tui]\nanimations = false\n");
    for (key, said) in [
        ("model", "`model` is not set in "),
        ("tui.theme", "so nothing was removed"),
        ("modle", "did you mean `model`?"),
        ("tui.animatons", "did you mean `tui.animations`?"),
    ] {
        let output = env.run(&["config", "unset", key]);
        assert!(output.status.success(), "{key}");
        assert!(stderr(&output).contains(said), "{key}: {}", stderr(&output));
    }
    let output = env.run(&["-c", "model=\"m\"", "config", "unset", "model"]);
    assert!(stderr(&output).contains("it is set by -c model"), "{}", stderr(&output));
    let output = env.run(&["config", "unset", "tui.animations"]);
    assert!(!stderr(&output).contains("nothing"), "{}", stderr(&output));
}

#[test]
fn files_that_a_first_turn_reads_are_checked() {
    let env =
        env("model_catalog_json = \"models.json\"\nexperimental_instructions_file = \"gone.md\"\n\
         [mcp_servers.both]\ncommand = \"x\"\nurl = \"http://h\"\n[mcp_servers.none]\n");
    std::fs::write(env.home().join("models.json"), "[{ \"id\": \"a\", \"colour\": 1 }]").unwrap();
    let output = env.run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for expected in [
        "config.toml:1:22: `model_catalog_json`: ",
        "unknown field `colour`",
        "config.toml:2:34: `experimental_instructions_file`: ",
        "has both `command` and `url`",
        "has neither `command` nor `url`",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    std::fs::write(env.home().join("models.json"), "[{ \"slug\": \"a\", \"colour\": 1 }]").unwrap();
    std::fs::write(env.home().join("gone.md"), "Be brief.").unwrap();
    let output = env.run(&["config", "check"]);
    assert_eq!(stdout(&output), "the configuration is valid, with 3 warnings\n");
}

/// Everything that a first turn would use, each with a mistake: a part that is used is an error.
#[test]
fn everything_that_a_first_turn_uses_is_checked_in_the_order_of_the_lines() {
    let lines = [
        ("model_provider = 'used'", ""),
        ("notify = ['no-such-program']", "warning notify no-such-program"),
        ("default_permissions = 'used'", ""),
        ("log_dir = 'config.toml'", "error log_dir is not a folder"),
        ("tui.theme = 'no-such-theme'", "warning tui.theme there is no theme"),
        (
            "tui.status_line = ['model', 'weather']",
            "warning tui.status_line.1 the status line has no item \"weather\"; it has model, mode, folder",
        ),
        ("[sandbox_workspace_write]", ""),
        (
            "writable_roots = ['/', '/no/such/folder']",
            "warning sandbox_workspace_write.writable_roots.1 /no/such/folder",
        ),
        ("[mcp_servers.gone]", ""),
        ("command = 'no-such-program'", "warning mcp_servers.gone.command is in no folder of PATH"),
        ("[mcp_servers.needed]", ""),
        ("command = './config.toml'", ""),
        ("cwd = '/no/such/folder'", "error mcp_servers.needed.cwd /no/such/folder"),
        ("required = true", ""),
        ("[mcp_servers.remote]", ""),
        ("url = 'http://127.0.0.1:9/mcp'", ""),
        (
            "bearer_token_env_var = 'UNSET_TOKEN'",
            "warning mcp_servers.remote.bearer_token_env_var UNSET_TOKEN",
        ),
        (
            "http_headers = { 'a b' = 'c' }",
            "warning mcp_servers.remote.http_headers.\"a b\" not the name of a header",
        ),
        (
            "env_http_headers = { X-A = 'UNSET_HEADER' }",
            "warning mcp_servers.remote.env_http_headers.X-A UNSET_HEADER",
        ),
        ("[mcp_servers.off]", ""),
        ("command = 'no-such-program'", ""),
        ("enabled = false", ""),
        ("[model_providers.unused]", ""),
        ("base_url = 'https://h'", ""),
        (
            "http_headers = { A = \"b\\n\" }",
            "warning model_providers.unused.http_headers.A control character",
        ),
        ("[model_providers.used]", ""),
        ("base_url = 'https://h'", ""),
        ("env_key = 'UNSET_KEY'", "warning model_providers.used.env_key UNSET_KEY"),
        (
            "http_headers = { A = \"b\\n\" }",
            "error model_providers.used.http_headers.A control character",
        ),
        ("[model_providers.used.tls]", ""),
        ("ca-certificate = 'gone.pem'", "error model_providers.used.tls.ca-certificate gone.pem"),
        (
            "client-certificate = 'config.toml'",
            "error model_providers.used.tls.client-certificate has no certificate",
        ),
        ("client-private-key = 'config.toml'", ""),
        ("[permissions.used.network]", ""),
        ("enabled = true", ""),
        (
            "allowed_domains = ['example.com', 'http://x']",
            "error permissions.used.network.allowed_domains.1 host pattern",
        ),
        (
            "allow_unix_sockets = ['relative']",
            "error permissions.used.network.allow_unix_sockets.0 not absolute",
        ),
        ("proxy_url = 'http://192.0.2.1:1'", "error permissions.used.network.proxy_url loopback"),
        ("[permissions.unused.network]", ""),
        ("enabled = true", ""),
        (
            "denied_domains = ['a.*']",
            "warning permissions.unused.network.denied_domains.0 host pattern",
        ),
        ("[otel.exporter.otlp-http]", ""),
        ("endpoint = 'http://127.0.0.1:9'", ""),
        (
            "headers = { A = \"b\\n\" }",
            "warning otel.exporter.otlp-http.headers.A control character",
        ),
        (
            "tls = { ca-certificate = 'gone.pem' }",
            "warning otel.exporter.otlp-http.tls.ca-certificate gone.pem",
        ),
    ];
    let text: Vec<&str> = lines.iter().map(|(line, _)| *line).collect();
    let env = env(&text.join("\n"));
    let folder = env.home().join("rules");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.rules"), "host_executable(name='git')").unwrap();
    std::fs::write(folder.join("b.rules"), "rule(").unwrap();
    let output = env.run(&["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    let mut expected: Vec<(String, &str)> = Vec::new();
    for ((_, expect), line) in lines.iter().zip(1..).filter(|((_, expect), _)| !expect.is_empty()) {
        let (kind, rest) = expect.split_once(' ').unwrap();
        let (key, part) = match rest.split_once("\" ") {
            Some((key, part)) => (format!("{key}\""), part),
            None => rest.split_once(' ').map(|(key, part)| (key.to_owned(), part)).unwrap(),
        };
        expected.push((format!("{kind}: {line} {key}"), part));
    }
    let found = lines_of(&said);
    let in_file: Vec<&str> = found.iter().map(String::as_str).take(expected.len()).collect();
    let wanted: Vec<&str> = expected.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(in_file, wanted, "{said}");
    for (_, part) in &expected {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The files of command rules follow.
    assert_eq!(found.len(), expected.len() + 2, "{said}");
    assert!(said.contains("b.rules:1:") && said.contains("a.rules:1:"), "{said}");
    // `doctor` names the same.
    let doctor = stdout(&env.run(&["doctor"]));
    for (_, part) in &expected {
        assert!(doctor.contains(part), "{part}: {doctor}");
    }
    assert!(
        doctor.contains("PROBLEM configuration: ") && doctor.contains("PROBLEM rules: "),
        "{doctor}"
    );
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
