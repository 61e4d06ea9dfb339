//! Files that people bring along from another agent, and files with more than one mistake.

use config::{Error, FileCache, Layer, LayerName, WarningKind};
use serde_json::json;

use crate::{TestHome, parse};

/// The files, each with what its warnings must contain, in their order. `unknown` counts the keys that
/// do not exist.
struct Brought {
    name: &'static str,
    text: String,
}

fn brought() -> Vec<Brought> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/people");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| Brought {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned().leak(),
        text: std::fs::read_to_string(path).unwrap(),
    };
    files.iter().map(read).collect()
}

/// The lines `# warning: …` of a file.
fn expected(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("# warning: ")).collect()
}

#[test]
fn files_of_another_agent_start_and_their_warnings_say_what_was_understood() {
    let files = brought();
    assert!(files.len() >= 12, "{}", files.len());
    for Brought { name, text } in &files {
        let home = TestHome::with(text);
        let resolved =
            home.resolved().unwrap_or_else(|error| panic!("{name}: {}", error.diagnostic()));
        let warnings: Vec<String> = resolved
            .warnings
            .iter()
            .map(|warning| {
                let warning = warning.to_string();
                warning
                    .rsplit_once("config.toml:")
                    .map_or(warning.clone(), |(_, rest)| rest.to_owned())
            })
            .collect();
        let expected = expected(text);
        assert_eq!(warnings.len(), expected.len(), "{name}: {warnings:#?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.contains(expected), "{name}: {warning}\nhas not: {expected}");
        }
    }
}

#[test]
fn a_value_of_another_agent_acts_as_ours() {
    let value = |text: &str, key: &str| {
        let home = TestHome::with(text);
        let resolved = home.resolved().unwrap_or_else(|error| panic!("{text}: {error}"));
        resolved.effective().pointer(&format!("/{}", key.replace('.', "/"))).cloned()
    };
    for (text, key, expect) in [
        ("file_opener = 'vscode'", "file_opener", json!("editor")),
        ("model_provider = 'openai'", "model_provider", json!("default")),
        ("default_permissions = ':workspace'", "sandbox_mode", json!("workspace-write")),
        (
            "default_permissions = ':read-only'\nsandbox_mode = 'danger-full-access'",
            "sandbox_mode",
            json!("read-only"),
        ),
        ("otel.metrics_exporter = 'statsig'", "otel.metrics_exporter", json!("hosted")),
        ("forced_login_method = 'chatgpt'", "forced_login_method", json!("hosted")),
        ("openai_base_url = 'https://h/v1'", "default_provider_base_url", json!("https://h/v1")),
        (
            "forced_chatgpt_workspace_id = '01a1fb98-0faf-7484-898d-4fa19c4cd3eb'",
            "forced_hosted_workspace_id",
            json!("01a1fb98-0faf-7484-898d-4fa19c4cd3eb"),
        ),
        ("service_tier = 'priority'", "service_tier", json!("fast")),
        ("features.multi_agent = { enabled = false }", "features.multi_agent", json!(false)),
        ("model_context_window = 1000.5", "model_context_window", json!(1000)),
        (
            "agents.default_subagent_model = 'x'\nagents.max_threads = 3",
            "agents.max_threads",
            json!(3),
        ),
        (
            "[model_providers.p]\nbase_url = 'https://h'\nrequires_openai_auth = true",
            "model_providers.p.requires_default_auth",
            json!(true),
        ),
        (
            "[mcp_servers.m]\ncommand = 'x'\ndefault_tools_approval_mode = 'writes'\nenv_vars = ['A', { name = 'B' }, { name = 'C', source = 'remote' }]",
            "mcp_servers.m.env_vars",
            json!(["A", "B"]),
        ),
        ("permissions.p.filesystem.'/a' = 'deny'", "permissions.p.filesystem.~1a", json!("none")),
        ("profile = 'p'\n[profiles.p]\nfile_opener = 'vscode'", "file_opener", json!("editor")),
    ] {
        assert_eq!(value(text, key), Some(expect), "{text}");
    }
    // A client and the command line are not files that people bring along.
    assert!(Layer::command_line(&["file_opener=vscode"]).is_err());
    // A preference that is not known is left out.
    for text in ["model_reasoning_effort = 'ultra'", "personality = 7", "tui.theme = true"] {
        let mut home = TestHome::with(text);
        let warnings = home.resolved().unwrap().warnings;
        assert_eq!(warnings[0].kind, WarningKind::LeftOut, "{text}");
        assert!(
            warnings[0].message.ends_with("; it is left out"),
            "{text}: {}",
            warnings[0].message
        );
        home.strict = true;
        assert!(home.error().contains("; it is left out"), "{text}");
    }
    // What restricts is never left out.
    for text in [
        "sandbox_mode = 'workspace'",
        "approval_policy = 'ask'",
        "approval_policy = false",
        "default_permissions = ':other'",
        "forced_login_method = 'sso'",
        "shell_environment_policy.inherit = 'minimal'",
        "permissions.p.filesystem.'/a' = 'hidden'",
        "sandbox_workspace_write.network_access = 'no'",
        "mcp_servers.m = { command = 'x', required = true, enabled_tools = { a = 1 } }",
        "profile = 'p'\n[profiles.p]\nsandbox_mode = 'workspace'",
    ] {
        assert!(TestHome::with(text).resolved().is_err(), "{text}");
    }
}

#[test]
fn a_mistake_in_a_part_that_is_not_used_is_a_warning() {
    let text = "[model_providers.old]\nbase_url = 'https://h'\nwire_api = 'soap'\nenv_key = 'OLD'\n\
                [model_providers.half]\nname = 'Half'\n\
                [mcp_servers.m]\ncommand = []\n[mcp_servers.n]\ncommand = 'n'\n\
                [profiles.p]\nsandbox_mode = 'x'\n";
    let home = TestHome::with(text);
    let resolved = home.resolved().unwrap();
    let found: Vec<(&str, WarningKind)> =
        resolved.warnings.iter().map(|warning| (warning.key.as_str(), warning.kind)).collect();
    assert_eq!(
        found,
        [
            ("mcp_servers.m.command", WarningKind::LeftOut),
            ("model_providers.old.wire_api", WarningKind::LeftOut),
            ("profiles.p.sandbox_mode", WarningKind::LeftOut),
            ("model_providers.half.base_url", WarningKind::LeftOut),
        ]
    );
    let config = resolved.config;
    assert!(!config.providers.contains_key("old") && !config.providers.contains_key("half"));
    assert!(config.broken_providers["old"].contains("must be"));
    assert!(config.secret_variables.contains(&"OLD".to_owned()), "{:?}", config.secret_variables);
    assert_eq!(config.mcp_servers.keys().collect::<Vec<_>>(), ["n"]);
    for used in ["model_provider = 'old'\n", "model_provider = 'half'\n", "profile = 'p'\n"] {
        assert!(TestHome::with(&format!("{used}{text}")).resolved().is_err(), "{used}");
    }
}

#[test]
fn what_would_have_no_effect_is_named() {
    let home = TestHome::with(
        "permissions.p.network.allowed_domains = ['a.example']\n\
         [mcp_servers.m]\ncommand = 'm'\ndisabled_tools = ['delete_*']\n\
         [mcp_servers.n]\ncommand = 'n'\ndisabled_tools = ['delete_file']\n",
    );
    let resolved = home.resolved().unwrap();
    let found: Vec<&str> = resolved.warnings.iter().map(|warning| warning.key.as_str()).collect();
    assert_eq!(found, ["mcp_servers.m.disabled_tools.0", "permissions.p.network"]);
    assert_eq!(resolved.config.mcp_servers.keys().collect::<Vec<_>>(), ["n"]);
    assert!(TestHome::with("permissions.p.network.enabled = false").warnings().is_empty());
    let required = "[mcp_servers.m]\ncommand = 'm'\nrequired = true\ndisabled_tools = ['delete_*']";
    assert!(TestHome::with(required).error().contains("the name of a tool"));
}

#[test]
fn all_mistakes_are_named_in_the_order_of_the_lines() {
    let text = "approval_policy = 'beep'\nsandbox_mode = 'x'\n\
                default_permissions = 'missing'\n[shell_environment_policy]\ninherit = 1\n\
                [permissions.p.filesystem]\n'rel' = 'read'\n[model_providers.offline]\nname = 'x'\n\
                [agents]\nmax_total_tokens = -1\n";
    let error = parse(text).unwrap_err();
    assert!(
        error.to_string().ends_with("(and 3 more mistakes; `agentd config check` lists them all)"),
        "{error}"
    );
    assert!(error.to_string().contains(":1:19: `approval_policy`"), "{error}");
    let mut home = TestHome::with(text);
    home.files = FileCache::of_usable_parts();
    let rest = home.resolved().unwrap_err();
    let all = Error::of_all(home.files.broken().into_iter().chain([rest])).unwrap();
    let places: Vec<(usize, String)> = all
        .each()
        .iter()
        .map(|error| {
            let line = error.origin().unwrap().range().unwrap().line_column().0;
            (line, error.gist().0.unwrap().to_owned())
        })
        .collect();
    let keys = [
        (1, "approval_policy"),
        (2, "sandbox_mode"),
        (3, "default_permissions"),
        (5, "shell_environment_policy.inherit"),
        (7, "permissions.p.filesystem.rel"),
        (8, "model_providers.offline"),
        (11, "agents.max_total_tokens"),
    ];
    assert_eq!(places, keys.map(|(line, key)| (line, key.to_owned())));
    let diagnostic = Error::of_all([Layer::parse(
        LayerName::User { file: "/c".into() },
        "sandbox_mode = 1\napproval_policy = 2",
    )
    .unwrap_err()])
    .unwrap()
    .diagnostic();
    assert_eq!(diagnostic.matches(" must be ").count(), 2, "{diagnostic}");
}
