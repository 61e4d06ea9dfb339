//! Layers merged and resolved: precedence, profiles, defaults, providers, paths.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{
    ApprovalPolicy, Config, EnvironmentInherit, Granular, HttpProvider, Layer, Provider,
    ReasoningEffort, SandboxMode, Surroundings, resolve,
};
use serde_json::json;

fn environment(name: &str) -> Option<String> {
    match name {
        "HOME" => Some("/home/a".to_owned()),
        "MY_KEY" => Some("secret-1".to_owned()),
        "MY_ORG" => Some("org-7".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn resolved(file: &str, arguments: &[&str], thread: &serde_json::Value) -> Result<Config, String> {
    let file =
        Layer::parse(Path::new("/home/a/.agent/config.toml"), file).map_err(|e| e.to_string())?;
    let line = Layer::command_line(arguments).map_err(|e| e.to_string())?;
    let thread = Layer::thread(thread.as_object().unwrap()).map_err(|e| e.to_string())?;
    let around = Surroundings {
        home: Path::new("/home/a/.agent"),
        cwd: Path::new("/work"),
        env: &environment,
    };
    resolve(&[&file, &line, &thread], &around).map_err(|e| e.to_string())
}

fn from_file(text: &str) -> Result<Config, String> {
    resolved(text, &[], &json!({}))
}

fn http(config: &Config, id: &str) -> HttpProvider {
    match &config.providers[id] {
        Provider::Http(http) => http.as_ref().clone(),
        Provider::Offline => panic!("{id} is offline"),
    }
}

#[test]
fn later_layers_win_and_the_profile_lies_between() {
    let file = "model = \"file\"\n[profiles.p]\nmodel = \"profile\"\n";
    for (file, arguments, thread, expected) in [
        (file, vec![], json!({}), "file"),
        (file, vec!["profile=p"], json!({}), "profile"),
        (file, vec!["model=line"], json!({"profile": "p"}), "line"),
        (file, vec!["model=line", "model=last"], json!({}), "last"),
        (file, vec!["profile=p", "profiles.p.model=\"line\""], json!({}), "line"),
        (file, vec!["model=line"], json!({"model": "thread"}), "thread"),
        (file, vec!["model=line"], json!({"profile": null, "model": null}), "none"),
        ("model = 'a' # comment", vec!["model = \"spaced\""], json!({}), "spaced"),
    ] {
        let config = resolved(file, &arguments, &thread).unwrap();
        assert_eq!(config.model.as_deref().unwrap_or("none"), expected, "{arguments:?} {thread}");
    }
    let message = resolved(file, &["profile=q"], &json!({})).unwrap_err();
    assert_eq!(message, "-c profile=…: `profile`: there is no `q`; did you mean `p`? (defined: p)");
}

#[test]
fn an_empty_configuration_has_the_documented_defaults() {
    let config = from_file("").unwrap();
    assert_eq!(config.provider.id(), "default");
    assert_eq!(config.approval_policy, ApprovalPolicy::OnRequest);
    assert_eq!(config.sandbox_mode, SandboxMode::ReadOnly);
    assert_eq!(config.shell_environment_policy.inherit, EnvironmentInherit::All);
    assert!(!config.shell_environment_policy.ignore_default_excludes);
    assert!(config.allow_login_shell);
    assert_eq!(config.project_doc_max_bytes, 32_768);
    assert_eq!(config.project_root_markers, [".git"]);
    assert_eq!(config.background_terminal_max_timeout, Duration::from_secs(300));
    assert_eq!(config.sqlite_home, PathBuf::from("/home/a/.agent"));
    assert_eq!(config.secret_variables, ["AGENT_API_KEY", "OPENAI_API_KEY"]);
    assert_eq!(config.model, None);
}

#[test]
fn approval_policies_have_two_spellings_and_a_table() {
    let granular = Granular { rules: true, ..Granular::default() };
    for (text, expected) in [
        ("\"untrusted\"", ApprovalPolicy::Untrusted),
        ("\"unlessTrusted\"", ApprovalPolicy::Untrusted),
        ("\"on-request\"", ApprovalPolicy::OnRequest),
        ("\"onRequest\"", ApprovalPolicy::OnRequest),
        ("\"on-failure\"", ApprovalPolicy::OnRequest),
        ("\"never\"", ApprovalPolicy::Never),
        (
            "{ granular = { rules = true, skill_approval = false } }",
            ApprovalPolicy::Granular(granular),
        ),
    ] {
        let config = from_file(&format!("approval_policy = {text}")).unwrap();
        assert_eq!(config.approval_policy, expected, "{text}");
    }
    let config = resolved(
        "approval_policy = \"never\"",
        &[],
        &json!({"approval_policy": {"granular": {"rules": true}}}),
    );
    assert_eq!(config.unwrap().approval_policy, ApprovalPolicy::Granular(granular));
}

#[test]
fn keys_reach_their_fields() {
    let config = from_file(
        r#"
        model_reasoning_effort = "xhigh"
        model_context_window = 1000
        developer_instructions = "be brief"
        model_instructions_file = "base.md"
        sqlite_home = "~/state"
        background_terminal_max_timeout = 5
        show_raw_agent_reasoning = true
        sandbox_mode = "workspace-write"
        [sandbox_workspace_write]
        writable_roots = ["/srv", "cache", "~/x"]
        network_access = true
        [shell_environment_policy]
        inherit = "core"
        exclude = ["AWS_*"]
        set = { CI = "1" }
        "#,
    )
    .unwrap();
    assert_eq!(config.model_reasoning_effort, Some(ReasoningEffort::XHigh));
    assert_eq!(config.model_context_window, Some(1000));
    assert_eq!(config.developer_instructions.as_deref(), Some("be brief"));
    assert_eq!(config.model_instructions_file, Some("/home/a/.agent/base.md".into()));
    assert_eq!(config.sqlite_home, PathBuf::from("/home/a/state"));
    assert_eq!(config.background_terminal_max_timeout, Duration::from_millis(5));
    assert!(config.show_raw_agent_reasoning);
    assert_eq!(config.sandbox_mode, SandboxMode::WorkspaceWrite);
    let roots = ["/srv", "/home/a/.agent/cache", "/home/a/x"].map(PathBuf::from);
    assert_eq!(config.sandbox_workspace_write.writable_roots, roots);
    assert!(config.sandbox_workspace_write.network_access);
    assert_eq!(config.shell_environment_policy.inherit, EnvironmentInherit::Core);
    assert_eq!(config.shell_environment_policy.exclude, ["AWS_*"]);
    assert_eq!(config.shell_environment_policy.set["CI"], "1");

    let config = resolved("", &["model_instructions_file=a.md"], &json!({})).unwrap();
    assert_eq!(config.model_instructions_file, Some("/work/a.md".into()));
}

#[test]
fn providers_are_resolved_with_their_secrets_hidden() {
    let config = from_file(
        r#"
        model_provider = "mine"
        default_provider_base_url = "https://api.test/v1/"
        [model_providers.mine]
        base_url = "http://127.0.0.1:1/v1"
        env_key = "MY_KEY"
        env_http_headers = { X-Org = "MY_ORG", X-None = "EMPTY" }
        http_headers = { X-A = "b" }
        query_params = { v = "1" }
        request_max_retries = 0
        stream_idle_timeout_ms = 10
        [model_providers.token]
        base_url = "http://t"
        experimental_bearer_token = "inline"
        [model_providers.borrowing]
        base_url = "http://b"
        requires_default_auth = true
        "#,
    )
    .unwrap();
    assert_eq!(config.provider, config.providers["mine"]);
    let mine = http(&config, "mine");
    assert_eq!(mine.name, "mine");
    assert_eq!(mine.credential.as_ref().unwrap().expose(), "secret-1");
    assert_eq!(mine.http_headers.keys().collect::<Vec<_>>(), ["X-A", "X-Org"]);
    assert_eq!(mine.http_headers["X-Org"].expose(), "org-7");
    assert_eq!((mine.request_max_retries, mine.stream_max_retries), (0, 5));
    assert_eq!(mine.stream_idle_timeout, Duration::from_millis(10));
    assert!(!format!("{config:?}").contains("secret-1"));
    assert_eq!(http(&config, "token").credential.unwrap().expose(), "inline");
    assert_eq!(http(&config, "borrowing").env_key.as_deref(), Some("AGENT_API_KEY"));
    assert_eq!(http(&config, "default").base_url, "https://api.test/v1");
    assert_eq!(
        config.secret_variables,
        ["AGENT_API_KEY", "EMPTY", "MY_KEY", "MY_ORG", "OPENAI_API_KEY"]
    );
}

#[test]
fn a_provider_says_why_it_cannot_be_used_yet() {
    for (text, expected) in [
        (
            "",
            "needs the environment variable AGENT_API_KEY, which is not set: set it, or OPENAI_API_KEY",
        ),
        (
            "model_provider = \"x\"\n[model_providers.x]\nbase_url = \"http://h\"\nenv_key = \"NOPE\"\nenv_key_instructions = \"ask Ada\"",
            "the provider `x` needs the environment variable NOPE, which is not set: ask Ada",
        ),
    ] {
        let message = from_file(text).unwrap().provider.ready().unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(from_file("model_provider = \"offline\"").unwrap().provider.ready(), Ok(()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (text, expected) in [
        (
            "model_provider = \"offlin\"",
            ":1: `model_provider`: there is no `offlin`; did you mean `offline`? (defined: default, offline)",
        ),
        (
            "[model_providers.offline]\nbase_url = \"http://x\"",
            ":1: `model_providers.offline`: the built-in provider `offline` cannot be redefined",
        ),
        ("[model_providers.default]\nbase_url = \"http://x\"", "set `default_provider_base_url`"),
        (
            "[model_providers.x]\nname = \"X\"",
            ":1: `model_providers.x.base_url`: a provider needs its address",
        ),
        (
            "[model_providers.x]\nbase_url = \"ftp://h\"",
            ":2: `model_providers.x.base_url`: an address starts with",
        ),
        (
            "default_provider_base_url = \"https:///v1\"",
            ":1: `default_provider_base_url`: an address starts with",
        ),
        ("profile = \"p\"", ":1: `profile`: there is no `p`; (defined: none)"),
    ] {
        let message = from_file(text).unwrap_err();
        assert!(message.contains(expected), "{text:?} gave {message:?}");
        assert!(message.starts_with("/home/a/.agent/config.toml"), "{message}");
    }
}
