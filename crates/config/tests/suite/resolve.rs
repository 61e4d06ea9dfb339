//! Values, defaults, and settings derived from several keys.

use config::{ApprovalPolicy, EnvironmentInherit, Granular, SandboxMode, WebSearch};
use policy::{Access, Location};
use serde_json::json;

use crate::TestHome;

#[test]
fn an_empty_configuration_has_the_documented_defaults() {
    let home = TestHome::new();
    let config = home.config();
    assert_eq!(config.approval_policy, ApprovalPolicy::OnRequest);
    assert_eq!(config.sandbox_mode, SandboxMode::ReadOnly);
    assert_eq!(config.shell_environment_policy.inherit, EnvironmentInherit::All);
    assert!(config.allow_login_shell && config.features.unified_exec && !config.features.undo);
    assert_eq!(*config.project_doc_max_bytes, 32_768);
    assert_eq!(config.project_root_markers, [".git"]);
    assert_eq!(config.background_terminal_max_timeout.milliseconds(), 300_000);
    assert_eq!(config.sqlite_home, home.home);
    assert_eq!(config.log_dir, home.home.join("log"));
    assert_eq!((config.model.as_ref(), config.profile.as_ref()), (None, None));
    assert!(home.warnings().is_empty());
}

#[test]
fn approval_policies_have_two_spellings_and_a_table() {
    let none = Granular {
        sandbox_approval: false,
        rules: false,
        mcp_elicitations: false,
        request_permissions: false,
        skill_approval: false,
    };
    let granular = ApprovalPolicy::Granular(Granular { rules: true, ..none });
    for (text, expected) in [
        ("\"untrusted\"", ApprovalPolicy::Untrusted),
        ("\"unlessTrusted\"", ApprovalPolicy::Untrusted),
        ("\"on-request\"", ApprovalPolicy::OnRequest),
        ("\"onRequest\"", ApprovalPolicy::OnRequest),
        ("\"on-failure\"", ApprovalPolicy::OnRequest),
        ("\"never\"", ApprovalPolicy::Never),
        ("{ granular = { rules = true, skill_approval = false } }", granular),
    ] {
        let config = TestHome::with(&format!("approval_policy = {text}")).config();
        assert_eq!(config.approval_policy, expected, "{text}");
    }
    let mut home = TestHome::with("approval_policy = \"never\"");
    home.thread = json!({ "approval_policy": { "granular": { "rules": true } } });
    assert_eq!(home.config().approval_policy, granular);
}

// Effect of `features.web_search`, `features.web_search_cached`, `features.web_search_request`.
#[test]
fn web_search_mode() {
    for (text, confined, open) in [
        ("", WebSearch::Cached, WebSearch::Live),
        ("web_search = \"disabled\"", WebSearch::Disabled, WebSearch::Disabled),
        ("web_search = \"cached\"", WebSearch::Cached, WebSearch::Cached),
        ("features.web_search_request = true", WebSearch::Live, WebSearch::Live),
        ("features.web_search_cached = true", WebSearch::Cached, WebSearch::Cached),
        ("features.web_search = true", WebSearch::Cached, WebSearch::Cached),
        ("features.web_search_request = false", WebSearch::Cached, WebSearch::Live),
        (
            "features.web_search_request = true\nweb_search = \"cached\"",
            WebSearch::Cached,
            WebSearch::Cached,
        ),
        ("tools.web_search = false", WebSearch::Disabled, WebSearch::Disabled),
    ] {
        let config = TestHome::with(text).config();
        let modes = [false, true].map(|full| config.web_search_mode(full).0);
        assert_eq!(modes, [confined, open], "{text}");
    }
}

// Effect of `suppress_unstable_features_warning`.
#[test]
fn unstable_features() {
    let text = "features.codex_hooks = true\n";
    let warned = |text: &str| {
        TestHome::with(text).warnings().iter().any(|w| w.contains("under development"))
    };
    assert!(warned(text));
    assert!(!warned(&format!("suppress_unstable_features_warning = true\n{text}")));
    assert!(!warned("features.codex_hooks = false\n"));
}

#[test]
fn permission_profiles_are_read() {
    let home = TestHome::with(
        "default_permissions = \"p\"\n[permissions.p.filesystem]\n\":minimal\" = \"read\"\n\
         \":project_roots\" = { \".\" = \"write\", \"a/b\" = \"none\" }\n\"~/x\" = \"read\"\n\"/srv\" = \"none\"\n",
    );
    let profile = home.config().permission_profile.unwrap();
    let rules: Vec<_> = profile
        .rules
        .iter()
        .map(|rule| (rule.base.clone(), rule.subpath.clone(), rule.access))
        .collect();
    let path = |text: &str| Location::Path(text.into());
    let home_x = home.root.join("me/x").display().to_string();
    assert_eq!(
        rules,
        [
            (path("/srv"), None, Access::None),
            (Location::Minimal, None, Access::Read),
            (Location::ProjectRoots, None, Access::Write),
            (Location::ProjectRoots, Some("a/b".into()), Access::None),
            (path(&home_x), None, Access::Read),
        ]
    );
    for (text, expected) in [
        ("permissions.p.filesystem.\":home\" = \"read\"", "unknown token"),
        (
            "permissions.p.filesystem.\"**/*.env\" = \"none\"",
            "`**/*.env` is a pattern, and patterns have no",
        ),
        ("permissions.p.filesystem.\"/a/*\" = \"read\"", "`/a/*` is a pattern"),
        (
            "permissions.p.filesystem.\":project_roots\" = { \".\" = \"write\", \"**/.env?\" = \"none\" }",
            "`**/.env?` is a pattern",
        ),
        ("permissions.p.filesystem.\"a/b\" = \"read\"", "write an absolute path"),
        ("permissions.p.filesystem.\"/a/../b\" = \"read\"", "write an absolute path"),
        ("permissions.p.filesystem.\":minimal\" = \"write\"", "can only be `read`"),
        ("permissions.p.filesystem.\"/a\" = { \"../b\" = \"read\" }", "leaves its folder"),
        ("permissions.p.filesystem.\"/a\" = { \"/b\" = \"read\" }", "leaves its folder"),
        ("permissions.p.filesystem.\"/a\" = \"execute\"", "must be one of \"read\""),
        (
            "default_permissions = \"q\"\n[permissions.p]",
            "the permission profile `q` is not defined; did you mean `p`?",
        ),
    ] {
        let message = TestHome::with(text).error();
        assert!(message.contains(expected), "{text:?} gave {message:?}");
    }
}
