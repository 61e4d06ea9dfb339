//! Values, defaults, and what follows from several keys together.

use config::table::Access;
use config::{
    ApprovalPolicy, EnvironmentInherit, Granular, PermissionPlace, SandboxMode, WebSearch,
};
use serde_json::json;

use crate::Place;

#[test]
fn an_empty_configuration_has_the_documented_defaults() {
    let place = Place::new();
    let config = place.config();
    assert_eq!(config.approval_policy, ApprovalPolicy::OnRequest);
    assert_eq!(config.sandbox_mode, SandboxMode::ReadOnly);
    assert_eq!(config.shell_environment_policy.inherit, EnvironmentInherit::All);
    assert!(config.allow_login_shell && config.features.unified_exec && !config.features.undo);
    assert_eq!(*config.project_doc_max_bytes, 32_768);
    assert_eq!(config.project_root_markers, [".git"]);
    assert_eq!(*config.background_terminal_max_timeout, 300_000);
    assert_eq!(config.sqlite_home, place.home);
    assert_eq!(config.log_dir, place.home.join("log"));
    assert_eq!((config.model.as_ref(), config.profile.as_ref()), (None, None));
    assert!(place.warnings().is_empty());
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
        let config = Place::with(&format!("approval_policy = {text}")).config();
        assert_eq!(config.approval_policy, expected, "{text}");
    }
    let mut place = Place::with("approval_policy = \"never\"");
    place.thread = json!({ "approval_policy": { "granular": { "rules": true } } });
    assert_eq!(place.config().approval_policy, granular);
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
        let config = Place::with(text).config();
        let modes = [false, true].map(|full| config.web_search_mode(full).0);
        assert_eq!(modes, [confined, open], "{text}");
    }
}

// Effect of `suppress_unstable_features_warning`.
#[test]
fn unstable_features() {
    let text = "features.codex_hooks = true\n";
    let warned =
        |text: &str| Place::with(text).warnings().iter().any(|w| w.contains("under development"));
    assert!(warned(text));
    assert!(!warned(&format!("suppress_unstable_features_warning = true\n{text}")));
    assert!(!warned("features.codex_hooks = false\n"));
}

#[test]
fn permission_profiles_are_read() {
    let place = Place::with(
        "default_permissions = \"p\"\n[permissions.p.filesystem]\n\":minimal\" = \"read\"\n\
         \":project_roots\" = { \".\" = \"write\", \"a/b\" = \"none\" }\n\"~/x\" = \"read\"\n\"/srv\" = \"none\"\n",
    );
    let profile = place.config().permission_profile.unwrap();
    let rules: Vec<_> = profile
        .rules
        .iter()
        .map(|rule| (rule.place.clone(), rule.subpath.clone(), rule.access))
        .collect();
    let path = |text: &str| PermissionPlace::Path(text.into());
    let home_x = place.root.join("me/x").display().to_string();
    assert_eq!(
        rules,
        [
            (path("/srv"), None, Access::None),
            (PermissionPlace::Minimal, None, Access::Read),
            (PermissionPlace::ProjectRoots, None, Access::Write),
            (PermissionPlace::ProjectRoots, Some("a/b".into()), Access::None),
            (path(&home_x), None, Access::Read),
        ]
    );
    for (text, expected) in [
        ("permissions.p.filesystem.\":home\" = \"read\"", "there is no such token"),
        ("permissions.p.filesystem.\"a/b\" = \"read\"", "a path here is absolute"),
        ("permissions.p.filesystem.\"/a/../b\" = \"read\"", "a path here is absolute"),
        ("permissions.p.filesystem.\":minimal\" = \"write\"", "can only be `read`"),
        ("permissions.p.filesystem.\"/a\" = { \"../b\" = \"read\" }", "leaves its folder"),
        ("permissions.p.filesystem.\"/a\" = { \"/b\" = \"read\" }", "leaves its folder"),
        ("permissions.p.filesystem.\"/a\" = \"execute\"", "must be one of \"read\""),
        ("default_permissions = \"q\"\n[permissions.p]", "there is no `q`; did you mean `p`?"),
    ] {
        let message = Place::with(text).error();
        assert!(message.contains(expected), "{text:?} gave {message:?}");
    }
}
