//! Text with wildcards: it acts, or it is refused.

use config::WarningKind;

use crate::TestHome;

#[test]
fn a_pattern_that_would_match_nothing_is_refused() {
    // Where more would be permitted without it, or a person would rely on it.
    for (text, key) in [
        ("sandbox_workspace_write.writable_roots = ['/srv/*']", "writable_roots.0"),
        ("permissions.p.filesystem.'**/*.env' = 'none'", "permissions.p.filesystem"),
        ("permissions.p.filesystem.'/a/[xy]' = 'none'", "permissions.p.filesystem"),
        ("permissions.p.filesystem.'/a/{b,c}' = 'none'", "permissions.p.filesystem"),
        (
            "permissions.p.filesystem.':project_roots' = { '.' = 'write', '!a.env' = 'none' }",
            "permissions.p.filesystem",
        ),
        ("permissions.p.network.allow_unix_sockets = ['/run/*.sock']", "allow_unix_sockets.0"),
        ("permissions.p.network.allow_unix_sockets = ['/run/{a,b}']", "allow_unix_sockets.0"),
        (
            "mcp_servers.m = { command = 'm', required = true, enabled_tools = ['[ab]'] }",
            "mcp_servers.m.enabled_tools.0",
        ),
        ("shell_environment_policy.exclude = ['AWS_[A-Z]*']", "exclude.0"),
        ("shell_environment_policy.include_only = ['{A,B}']", "include_only.0"),
        ("shell_environment_policy.set.'A*' = 'b'", "shell_environment_policy.set.\"A*\""),
        ("apps.'git*'.enabled = false", "apps.\"git*\""),
        ("apps.a.tools.'delete_*'.enabled = false", "apps.a.tools.\"delete_*\""),
        (
            "mcp_servers.m = { command = 'm', required = true, disabled_tools = ['delete_*'] }",
            "mcp_servers.m.disabled_tools.0",
        ),
    ] {
        let error = TestHome::with(text).error();
        assert!(
            error.contains(key) && error.contains("patterns have no effect here"),
            "{text}: {error}"
        );
    }
    for (text, key) in [
        ("project_root_markers = ['*.sln']", "project_root_markers.0"),
        ("project_doc_fallback_filenames = ['*.md']", "project_doc_fallback_filenames.0"),
        ("projects.'/srv/*'.trust_level = 'trusted'", "projects.\"/srv/*\""),
        ("plugins.'*'.enabled = false", "plugins.*"),
        ("skills.config = [{ path = '/a/*', enabled = false }]", "skills.config.0.path"),
        ("mcp_servers.m = { command = 'm', env_vars = ['AWS_*'] }", "mcp_servers.m.env_vars.0"),
        ("mcp_servers.m = { command = 'm', tools = { 'd*' = {} } }", "mcp_servers.m.tools.\"d*\""),
    ] {
        let warnings = TestHome::with(text).resolved().unwrap().warnings;
        let warning = warnings.first().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(warning.kind, WarningKind::LeftOut, "{text}: {warning}");
        let message = warning.to_string().replace('"', "");
        assert!(message.contains(&key.replace('"', "")), "{text}: {message}");
        assert!(message.contains("patterns have no effect here"), "{text}: {message}");
    }
}

#[test]
fn a_pattern_that_acts_and_a_name_are_taken() {
    for text in [
        "shell_environment_policy.exclude = ['AWS_*', 'A?']",
        "permissions.p.network = { enabled = true, allowed_domains = ['*.example.com'] }",
        "sandbox_workspace_write.writable_roots = ['/srv/[id]']",
        "projects.'/srv/[id]'.trust_level = 'trusted'",
    ] {
        let warnings = TestHome::with(text).warnings();
        assert!(warnings.is_empty(), "{text}: {warnings:?}");
    }
}

/// Without its list of hosts, the network of a profile would be open.
#[test]
fn the_network_of_a_profile_has_no_unknown_keys() {
    for (key, hint) in [
        ("domains = { 'a.com' = 'allow' }", "`allowed_domains` and `denied_domains`"),
        ("unix_sockets = { '/run/a' = 'allow' }", "`allow_unix_sockets`"),
        ("allowed_domain = ['a.com']", "did you mean `permissions.p.network.allowed_domains`?"),
        ("rules = []", "without it more could be allowed"),
    ] {
        let error =
            TestHome::with(&format!("permissions.p.network = {{ enabled = true, {key} }}")).error();
        assert!(error.contains(hint) && error.contains("permissions.p.network."), "{error}");
    }
    let others = "permissions.p = { description = 'x', network = { enabled = true } }";
    assert_eq!(TestHome::with(others).warnings().len(), 1);
}
