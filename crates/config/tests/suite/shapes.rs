//! Values of another shape than their key accepts.

use config::docs::rows;
use config::{Error, FileCache, Layer, WarningKind};
use serde_json::json;

use crate::{TestHome, parse};

/// A value of each shape, as it stands in a file.
const SHAPES: [&str; 16] = [
    "true",
    "false",
    "0",
    "5",
    "-1",
    "2.5",
    "'text'",
    "'100'",
    "'true'",
    "''",
    "[]",
    "['a']",
    "[1]",
    "{}",
    "{ a = 1 }",
    "2026-01-01",
];

/// Keys that decide a permission, or where the conversation is sent: a value that is not understood
/// keeps the program from starting. All keys below them count, too.
const DECISIVE: [&str; 13] = [
    "agents.max_total_seconds",
    "agents.max_total_tokens",
    "apps.x.tools",
    "approval_policy",
    "approvals_reviewer",
    "default_permissions",
    "default_provider_base_url",
    "forced_hosted_workspace_id",
    "forced_login_method",
    "model_provider",
    "permissions",
    "profile",
    "sandbox_mode",
];
const DECISIVE_TABLES: [&str; 6] = [
    "command_limits",
    "sandbox_workspace_write",
    "shell_environment_policy",
    "store",
    "thread_limits",
    "tools.web_search.allowed_domains",
];

fn is_decisive(key: &str) -> bool {
    DECISIVE.iter().chain(&DECISIVE_TABLES).any(|decisive| {
        key.strip_prefix(decisive).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Every key and every table around one, with names for the placeholders.
fn keys() -> Vec<String> {
    let mut keys = Vec::new();
    for row in rows() {
        let path = row
            .path
            .replace("otel.exporter.<id>", "otel.exporter.otlp-http")
            .replace("otel.trace_exporter.<id>", "otel.trace_exporter.otlp-http")
            .replace("otel.metrics_exporter.<id>", "otel.metrics_exporter.otlp-http");
        if path.contains("<index>") {
            continue;
        }
        let parts: Vec<&str> = path.split('.').collect();
        let named = |part: &&str| match (part.find('<'), part.find('>')) {
            (Some(from), Some(to)) => format!("{}x{}", &part[..from], &part[to + 1..]),
            _ => (*part).to_owned(),
        };
        for length in 1..=parts.len() {
            keys.push(parts[..length].iter().map(named).collect::<Vec<_>>().join("."));
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

/// The line of the text with the key, below a first line with a comment.
fn file(key: &str, value: &str) -> String {
    format!("# mine\n{key} = {value}\n")
}

#[test]
fn a_value_of_another_shape_is_a_warning_unless_it_decides_a_permission() {
    let keys = keys();
    assert!(keys.len() > 200, "{}", keys.len());
    let (mut understood, mut left_out) = (0, 0);
    let mut home = TestHome::new();
    for (key, value) in keys.iter().flat_map(|key| SHAPES.iter().map(move |shape| (key, *shape))) {
        let fits = match Layer::command_line(&[format!("{key}={value}")]) {
            Ok(layer) => !layer.warnings().iter().any(|it| it.kind == WarningKind::Unknown),
            Err(_) => false,
        };
        let text = file(key, value);
        home.user(&text);
        home.files = FileCache::default();
        let resolved = match home.resolved() {
            Ok(resolved) => resolved,
            Err(error) => {
                let is_misfit = |error: &Error| matches!(error, Error::Invalid(_));
                let all = error.clone().each();
                assert!(!all.iter().any(is_misfit) || is_decisive(key), "{text}{error}");
                assert!(error.to_string().contains("config.toml:2:"), "{text}{error}");
                continue;
            }
        };
        if fits {
            continue;
        }
        let says = |warning: &&config::Warning| {
            let place = warning.origin.range().map(|range| range.line_column().0);
            let message = warning.to_string();
            let is_named = warning.key.starts_with(key.as_str()) || key.starts_with(&warning.key);
            let says_what = [
                "is understood as",
                "it is left out",
                "is left out until",
                "cannot be used until",
                "so it is ignored",
            ];
            place == Some(2) && is_named && says_what.iter().any(|part| message.contains(part))
        };
        let warnings = &resolved.warnings;
        let found = warnings.iter().find(says).unwrap_or_else(|| panic!("{text}{warnings:#?}"));
        match found.kind {
            WarningKind::Converted => understood += 1,
            _ => left_out += 1,
        }
    }
    assert!(understood > 200 && left_out > 1000, "{understood} {left_out}");
}

#[test]
fn values_of_another_shape_act_as_what_they_stand_for() {
    for (text, key, expect) in [
        ("web_search = true", "web_search", json!("live")),
        ("web_search = false", "web_search", json!("disabled")),
        ("web_search = 'off'", "web_search", json!("disabled")),
        ("web_search = 'sometimes'", "web_search", json!("disabled")),
        ("web_search = 'Cached'", "web_search", json!("cached")),
        ("tools.web_search = 'live'", "web_search", json!("live")),
        ("web_search = 'cached'\ntools.web_search = 'live'", "web_search", json!("cached")),
        ("tools.web_search = 'off'", "tools.web_search", json!(false)),
        ("tools.web_search = 7", "tools.web_search", json!(false)),
        ("history = 'none'", "history.persistence", json!("none")),
        ("history = false", "history.persistence", json!("none")),
        ("history = 'save-all'", "history.persistence", json!("save-all")),
        ("history = 7", "history.persistence", json!("none")),
        ("history.persistence = true", "history.persistence", json!("save-all")),
        ("history.persistence = 'sometimes'", "history.persistence", json!("none")),
        ("notify = 'say'", "notify", json!(["say"])),
        ("notify = 'notify-send Done'", "notify", json!(["notify-send", "Done"])),
        ("tool_output_token_limit = '100'", "tool_output_token_limit", json!(100)),
        ("tool_output_token_limit = '1_000.9'", "tool_output_token_limit", json!(1000)),
        ("agents.max_threads = 'six'", "agents.max_threads", json!(1)),
        ("hide_agent_reasoning = 'yes'", "hide_agent_reasoning", json!(true)),
        ("hide_agent_reasoning = 1", "hide_agent_reasoning", json!(true)),
        ("feedback = false", "feedback.enabled", json!(false)),
        ("apps.a = false", "apps.a.enabled", json!(false)),
        ("apps.a.enabled = 'no'", "apps.a.enabled", json!(false)),
        ("apps.a.enabled = 'perhaps'", "apps.a.enabled", json!(false)),
        ("apps = 'none'", "apps._default.enabled", json!(false)),
        (
            "project_doc_fallback_filenames = 'A.md'",
            "project_doc_fallback_filenames",
            json!(["A.md"]),
        ),
        ("project_root_markers = '.hg'", "project_root_markers", json!([".hg"])),
        ("shell_environment_policy = 'core'", "shell_environment_policy.inherit", json!("core")),
        ("shell_environment_policy.set.A = 1", "shell_environment_policy.set.A", json!("1")),
        ("shell_environment_policy.set.A = true", "shell_environment_policy.set.A", json!("true")),
        (
            "shell_environment_policy.exclude = 'A*'",
            "shell_environment_policy.exclude",
            json!(["A*"]),
        ),
        ("mcp_servers.m = { command = 'm', env = { N = 5 } }", "mcp_servers.m.env.N", json!("5")),
        (
            "mcp_servers.m = { command = 'm', startup_timeout_sec = '2.5' }",
            "mcp_servers.m.startup_timeout_sec",
            json!(2.5),
        ),
        (
            "tui.notifications = 'agent-turn-complete'",
            "tui.notifications",
            json!(["agent-turn-complete"]),
        ),
        ("tui.alternate_screen = false", "tui.alternate_screen", json!("never")),
        ("model_reasoning_effort = 'High'", "model_reasoning_effort", json!("high")),
        ("otel.exporter = false", "otel.exporter", json!("none")),
        ("otel.exporter = { other = {} }", "otel.exporter", json!("none")),
        (
            "model_provider = 'p'\n[model_providers.p]\nbase_url = 'https://h'\nrequest_max_retries = '3'",
            "model_providers.p.request_max_retries",
            json!(3),
        ),
    ] {
        let home = TestHome::with(text);
        let resolved = home.resolved().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(!resolved.warnings.is_empty(), "{text}");
        let effective = resolved.effective();
        let found = effective.pointer(&format!("/{}", key.replace('.', "/")));
        assert_eq!(found, Some(&expect), "{text}: {effective}");
    }
}

#[test]
fn a_value_that_is_left_out_is_as_if_it_were_unset() {
    for text in [
        "tui = true",
        "otel = 'on'",
        "model_context_window = -1",
        "notify = 'say \"x\" | tee y'",
        "model = true",
        "log_dir = []",
    ] {
        let home = TestHome::with(text);
        let resolved = home.resolved().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(resolved.warnings.len(), 1, "{text}: {:?}", resolved.warnings);
        assert_eq!(resolved.warnings[0].kind, WarningKind::LeftOut, "{text}");
        assert_eq!(resolved.config.model, TestHome::new().config().model);
        assert_eq!(resolved.to_json(), json!({}), "{text}");
    }
}

#[test]
fn messages_quote_no_value_that_can_be_a_credential() {
    for text in [
        "model_providers.p = { base_url = 'https://h', experimental_bearer_token = 7700 }",
        "model_providers.p = { base_url = 'https://h', http_headers = { A = 7700 } }",
        "mcp_servers.m = { command = 'm', env = { A = 7700 } }",
        "shell_environment_policy.set.A = 7700",
    ] {
        let layer = parse(text).unwrap();
        let message = layer.warnings()[0].to_string();
        assert!(
            message.contains("is understood as a string") && !message.contains("7700"),
            "{message}"
        );
    }
}
