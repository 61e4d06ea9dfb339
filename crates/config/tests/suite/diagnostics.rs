//! Messages about mistakes, as a user sees them.

use config::{Error, FileCache, Layer, LayerName, MAX_FILE_BYTES};

use crate::{TestHome, parse};

#[test]
fn errors_name_file_position_key_and_expected_value() {
    for (text, expected) in [
        ("model = 5", ":1:9: `model`: the number 5 is understood as the string \"5\"; write that"),
        ("model = [5]", ":1:9: `model` must be a string, found an array; it is left out"),
        (
            "\n\nallow_login_shell = \"yes\"",
            ":3:21: `allow_login_shell`: the string \"yes\" is understood as the boolean true",
        ),
        (
            "allow_login_shell = \"maybe\"",
            "is understood as the boolean false, the strictest value, since it must be true or false",
        ),
        ("sandbox_mode = \"workspaceWrite\"", "did you mean `workspace-write`?"),
        (
            "approval_policy = \"sometimes\"",
            "\"never\", or a table, found the string \"sometimes\"",
        ),
        (
            "[model_providers.x]\nbase_url = 1",
            ":2:12: `model_providers.x.base_url` must be a string with an address",
        ),
        ("[model_providers.x]\nwire_api = \"soap\"", "found the string \"soap\""),
        ("[model_providers.x]\nrequest_max_retries = 101", "from 0 to 100, found the number 101"),
        ("model_context_window = -1", "a whole number from 0 to 1000000000, found the number -1"),
        ("model_context_window = 1.5", "`1.5` is understood as the number 1; write that"),
        (
            "model_context_window = 99999999999999999999",
            ":1:24: not valid TOML: the number does not fit 64 bits",
        ),
        ("model_providers = 3", ":1:19: `model_providers` must be a table, found the number 3"),
        (
            "project_root_markers = [\n \".git\",\n 7]",
            ":3:2: `project_root_markers.1`: the number 7 is understood as the string \"7\"",
        ),
        (
            "shell_environment_policy.set.A = 1",
            ":1:34: `shell_environment_policy.set.A`: the value is understood as a string",
        ),
        ("profiles.fast = 1", "`profiles.fast` must be a table of keys"),
        ("[profiles.\"a.b\"]\nmodel = true", ":2:9: `profiles.\"a.b\".model` must be a string"),
        ("model = ", ":1:9: not valid TOML"),
        ("a = 1\nmodel = 'x", ":2:"),
        (
            "approval_policy = { granular = { rules = 1 } }",
            ":1:42: `approval_policy.granular.rules` must be true or false",
        ),
        ("forced_hosted_workspace_id = \"x\"", "a string with a UUID"),
        (
            "agents.a.nickname_candidates = [\"Ada\", \"Dari\\u202Eo\"]",
            "`agents.a.nickname_candidates.1` must be a name of 1 to 64 visible characters",
        ),
        (
            "agents.a.nickname_candidates = [\" \"]",
            "`agents.a.nickname_candidates.0` must be a name",
        ),
        (
            &format!("agents.a.nickname_candidates = ['{}']", "x".repeat(65)),
            "`agents.a.nickname_candidates.0` must be a name",
        ),
        (
            "agents.a.nickname_candidates = ['01a1fb98-0faf-7484-898d-4fa19c4cd3eb']",
            "that is not the id of a thread",
        ),
        (
            "tools.web_search.location = { country = \"zork\" }",
            ":1:41: `tools.web_search.location.country` must be a country code of two letters",
        ),
        (
            "tools.web_search.location.timezone = \"Nope/X\"",
            ":1:38: `tools.web_search.location.timezone` must be the name of a time zone",
        ),
        ("tools.web_search.location.timezone = \"Europe/\"", "the name of a time zone"),
        ("tools.web_search.location.timezone = \"\"", "the name of a time zone"),
        (
            "tools.web_search.allowed_domains = [\"a.com\", \"https://a.com/x\"]",
            ":1:46: `tools.web_search.allowed_domains.1` must be the name of a host without scheme",
        ),
        ("tools.web_search.allowed_domains = [\"\"]", "`tools.web_search.allowed_domains.0`"),
        ("tools.web_search.allowed_domains = [\"a.com/x\"]", "the name of a host"),
        ("tools.web_search.allowed_domains = [\"a.com:80\"]", "the name of a host"),
        ("tools.web_search.allowed_domains = [\"*.a.com\"]", "the name of a host"),
        ("tools.web_search.allowed_domains = [\"b\\u00FCcher.de\"]", "xn--bcher-kva"),
        ("skills.config = [7]", "`skills.config.0` must be a table"),
        ("notify = \"beep\"", "the string \"beep\" is understood as `[\"beep\"]`; write that"),
    ] {
        // A mistake in a part that is not used is a warning.
        let message = match parse(text) {
            Ok(_) => TestHome::with(text).warnings().remove(0).replace("`: must", "` must"),
            Err(error) => error.to_string(),
        };
        assert!(message.contains(expected), "{text:?} gave {message:?}");
        assert!(message.contains("/config.toml:"), "{message}");
    }
}

/// The error about a file, or its first warning.
fn diagnostic(text: &str) -> String {
    match parse(text) {
        Ok(layer) => layer.warnings()[0].diagnostic(),
        Err(error) => error.diagnostic(),
    }
}

#[test]
fn a_mistake_under_a_renamed_key_names_the_key_as_it_was_written() {
    for (text, key) in [
        ("experimental_instructions_file = [5]", "experimental_instructions_file"),
        ("tools_view_image = 'perhaps'", "tools_view_image"),
        ("openai_base_url = 'ftp://h'", "openai_base_url"),
        ("profiles.p.tools_view_image = 'perhaps'", "profiles.p.tools_view_image"),
        (
            "model_providers.p = { base_url = 'https://h', requires_openai_auth = 'perhaps' }",
            "model_providers.p.requires_openai_auth",
        ),
        ("model_instructions_file = [5]", "model_instructions_file"),
    ] {
        let home = TestHome::with(text);
        let found = match home.resolved() {
            Ok(resolved) => resolved.warnings.iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        let about = |message: &&String| message.contains("must be ");
        let message = found.iter().find(about).unwrap_or_else(|| panic!("{text}: {found:?}"));
        assert!(message.contains(&format!("`{key}`")), "{text}: {message}");
        assert!(message.contains("config.toml:1:"), "{text}: {message}");
    }
    let argument = Layer::command_line(&["experimental_instructions_file=5"]).unwrap_err();
    assert!(argument.to_string().contains("`experimental_instructions_file` must"), "{argument}");
}

#[test]
fn diagnostics_show_the_line_with_a_mark() {
    for (text, expected) in [
        ("model = 5", "  |\n1 | model = 5\n  |         ^"),
        ("\r\nmodel = true # ?\r\n", "  |\n2 | model = true # ?\n  |         ^^^^"),
        ("\tmodel = 12", "  |\n1 |  model = 12\n  |          ^^"),
        ("\"ü\" = 1\nmodel = ['é']", "  |\n2 | model = ['é']\n  |         ^^^^^"),
        ("model = '", "  |\n1 | model = '\n  |          ^"),
    ] {
        let diagnostic = diagnostic(text);
        let (_, snippet) = diagnostic.split_once('\n').unwrap();
        assert_eq!(snippet, expected, "{text:?}");
    }
    let long = format!("model = [{}7]", "1, ".repeat(1000));
    let diagnostic = diagnostic(&long);
    assert!(diagnostic.lines().all(|line| line.chars().count() < 200), "{diagnostic}");
}

#[test]
fn unknown_keys_are_warnings_or_strict_errors() {
    for (text, expected) in [
        (
            "modle = \"m\"",
            "/home/a/config.toml:1:1: `modle`: there is no such key, so it is ignored; did you mean `model`?",
        ),
        (
            "colour = 1",
            "/home/a/config.toml:1:1: `colour`: there is no such key, so it is ignored; remove it",
        ),
        (
            "[features]\nundoo = true",
            "/home/a/config.toml:2:1: `features.undoo`: there is no such key, so it is ignored; did you mean `features.undo`?",
        ),
        (
            "[profiles.p]\nmodle = 1",
            "`profiles.p.modle`: there is no such key, so it is ignored; did you mean `profiles.p.model`?",
        ),
        ("[mcp_servers.x]\ncomand = 1", "did you mean `mcp_servers.x.command`?"),
    ] {
        let layer = parse(text).unwrap();
        let warning = layer.warnings()[0].to_string();
        assert!(warning.ends_with(expected) || warning.contains(expected), "{warning}");
        let mut home = TestHome::with(text);
        assert!(home.resolved().is_ok());
        home.strict = true;
        let error = home.error();
        assert!(
            error.contains(": there is no such key, which `--strict-config` does not permit; "),
            "{error}"
        );
    }
}

#[test]
fn pending_keys_name_the_missing_part() {
    let warnings = TestHome::with("windows_wsl_setup_acknowledged = true\n").warnings();
    assert!(
        warnings[0].ends_with(
            "`windows_wsl_setup_acknowledged`: has no effect yet: it requires the sandbox on Windows"
        ),
        "{warnings:?}"
    );
    assert!(TestHome::with("notice.hide_big_migration_prompt = true").resolved().is_ok());
}

#[test]
fn arguments_and_threads_are_checked_like_files() {
    for (argument, expected) in [
        ("model", "-c model: there is no `=`; write it as `-c key=value`"),
        ("=x", "a part of the key is empty"),
        ("a..b=x", "a part of the key is empty"),
        ("model=5", "-c model=…: `model` must be a string, found the number 5"),
        ("sandbox_mode=full", "-c sandbox_mode=…: `sandbox_mode` must be one of"),
    ] {
        let message = Layer::command_line(&[argument]).unwrap_err().to_string();
        assert!(message.contains(expected), "{argument:?} gave {message:?}");
    }
    let map = |json: serde_json::Value| Layer::thread(json.as_object().unwrap());
    let message =
        map(serde_json::json!({ "sandbox_workspace_write.network_access": 1 })).unwrap_err();
    let expected = "the thread's `config`: `sandbox_workspace_write.network_access` must be true or false, found the number 1";
    assert_eq!(message.to_string(), expected);
    assert!(map(serde_json::json!({ "a..b": 1 })).is_err());
    assert!(map(serde_json::json!({ "model": null, "model_providers": { "x": null } })).is_ok());
}

#[test]
fn unreadable_files_are_errors() {
    let home = TestHome::new();
    let name = LayerName::User { file: home.home.join("config.toml") };
    assert!(FileCache::default().layer(&name).unwrap().is_none());
    std::fs::write(home.home.join("config.toml"), b"model = \"a\"\nx = \"\xff\"").unwrap();
    let message = Layer::read(name.clone()).unwrap_err().to_string();
    assert!(
        message.contains("config.toml:2:6: not valid TOML: a byte that is not UTF-8"),
        "{message}"
    );
    let large = vec![b'\n'; usize::try_from(MAX_FILE_BYTES).unwrap() + 1];
    std::fs::write(home.home.join("config.toml"), large).unwrap();
    assert!(matches!(Layer::read(name), Err(Error::TooLarge { .. })));
    let pipe = home.home.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert!(matches!(Layer::read(LayerName::User { file: pipe }), Err(Error::NotAFile { .. })));
    let folder = LayerName::User { file: home.home };
    let message = Layer::read(folder).unwrap_err().to_string();
    let expected =
        ": it is a folder, so it cannot hold the configuration; move it away or delete it";
    assert!(message.ends_with(expected), "{message}");
}
