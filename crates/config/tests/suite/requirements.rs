//! Requirements applied to the merged configuration.

use config::{ApprovalPolicy, SandboxMode, WebSearch};
use serde_json::json;

use crate::TestHome;

fn home(requirements: &str, user: &str) -> TestHome {
    let home = TestHome::with(user);
    home.write("etc/requirements.toml", requirements);
    home
}

// Effect of requirement `allowed_approval_policies`.
#[test]
fn approval() {
    for (allowed, written, expected, warns) in [
        ("[\"on-request\", \"never\"]", "approval_policy = \"never\"", "never", false),
        ("[\"on-request\"]", "approval_policy = \"never\"", "on-request", true),
        ("[\"untrusted\", \"never\"]", "", "untrusted", false),
        ("[\"granular\"]", "approval_policy = { granular = { rules = true } }", "granular", false),
        ("[\"untrusted\"]", "approval_policy = { granular = { rules = true } }", "untrusted", true),
        ("[\"granular\"]", "approval_policy = \"untrusted\"", "granular", true),
    ] {
        let home = home(&format!("allowed_approval_policies = {allowed}\n"), written);
        assert_eq!(home.config().approval_policy.as_str(), expected, "{allowed} {written}");
        let warnings = home.warnings();
        assert_eq!(!warnings.is_empty(), warns, "{warnings:?}");
        assert!(!warns || warnings[0].contains("`allowed_approval_policies` ("), "{warnings:?}");
    }
}

// Effect of requirement `allowed_sandbox_modes`.
#[test]
fn sandbox() {
    for (allowed, written, expected) in [
        ("[\"read-only\", \"workspace-write\"]", "danger-full-access", SandboxMode::WorkspaceWrite),
        ("[\"read-only\", \"danger-full-access\"]", "workspace-write", SandboxMode::ReadOnly),
        ("[\"danger-full-access\"]", "read-only", SandboxMode::DangerFullAccess),
        ("[\"read-only\"]", "read-only", SandboxMode::ReadOnly),
    ] {
        let rule = format!("allowed_sandbox_modes = {allowed}\n");
        let written = format!("sandbox_mode = \"{written}\"\n");
        assert_eq!(home(&rule, &written).config().sandbox_mode, expected, "{allowed} {written}");
        let flagged = home(&rule, "").flag(written.trim());
        assert_eq!(flagged.config().sandbox_mode, expected, "flag");
        let mut profiled = home(&rule, &format!("[profiles.p]\n{written}")).flag("profile=p");
        assert_eq!(profiled.config().sandbox_mode, expected, "profile");
        profiled.flags.clear();
        profiled.thread = json!({ "profile": "p" });
        assert_eq!(profiled.config().sandbox_mode, expected, "thread");
    }
    let loose = "default_permissions = \"p\"\n[permissions.p.filesystem]\n\":root\" = \"write\"\n";
    let limited = home("allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n", loose);
    let config = limited.config();
    assert_eq!(
        (config.permission_profile.is_none(), config.sandbox_mode),
        (true, SandboxMode::WorkspaceWrite)
    );
    let tight = loose.replace(":root", "/srv");
    assert!(
        home("allowed_sandbox_modes = [\"workspace-write\"]\n", &tight)
            .config()
            .permission_profile
            .is_some()
    );
}

// Effect of requirement `allowed_web_search_modes`.
#[test]
fn web_search() {
    for (allowed, written, confined, open) in [
        ("[]", "", WebSearch::Disabled, WebSearch::Disabled),
        ("[\"cached\"]", "", WebSearch::Cached, WebSearch::Cached),
        ("[\"cached\"]", "web_search = \"live\"", WebSearch::Cached, WebSearch::Cached),
        ("[\"live\"]", "web_search = \"cached\"", WebSearch::Disabled, WebSearch::Disabled),
    ] {
        let config = home(&format!("allowed_web_search_modes = {allowed}\n"), written).config();
        let modes = [false, true].map(|full| config.web_search_mode(full).0);
        assert_eq!(modes, [confined, open], "{allowed} {written}");
    }
}

// Effect of requirement `features`.
#[test]
fn features() {
    let home =
        home("[features]\nshell_tool = false\nundo = true\n", "features.shell_tool = true\n");
    let config = home.config();
    assert!(!config.features.shell_tool && config.features.undo);
    assert!(
        home.warnings().iter().any(|w| w.contains("`features.shell_tool` (")),
        "{:?}",
        home.warnings()
    );
}

// Effect of requirement `mcp_servers.<id>.identity.command`, `mcp_servers.<id>.identity.url`.
#[test]
fn mcp_servers() {
    let rule = "[mcp_servers.docs.identity]\ncommand = \"docs-server\"\n[mcp_servers.web.identity]\nurl = \"https://mcp.example\"\n";
    let user = "[mcp_servers.docs]\ncommand = \"docs-server\"\n[mcp_servers.web]\nurl = \"https://mcp.example\"\n\
                [mcp_servers.other]\ncommand = \"x\"\n";
    let home = home(rule, user);
    let on = |home: &TestHome, id: &str| home.config().mcp_servers[id].enabled;
    assert!(on(&home, "docs") && on(&home, "web") && !on(&home, "other"));
    home.user("[mcp_servers.docs]\ncommand = \"another\"\n[mcp_servers.web]\nurl = \"https://mcp.example\"\ncommand = \"x\"\n");
    assert!(!on(&home, "docs") && !on(&home, "web"), "name and identity must fit");
    home.user("[mcp_servers.other]\ncommand = \"x\"\nrequired = true\n");
    assert!(home.error().contains("`mcp_servers.other` is `required`"), "{}", home.error());
    home.user("[mcp_servers.other]\ncommand = \"x\"\nrequired = true\nenabled = false\n");
    assert!(home.resolved().is_ok());
}

#[test]
fn each_file_can_only_narrow() {
    let home = home(
        "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n[features]\nundo = false\n",
        "sandbox_mode = \"danger-full-access\"\n",
    );
    home.write(
        "me/.agent/cache/requirements.toml",
        "allowed_sandbox_modes = [\"workspace-write\", \"danger-full-access\"]\n",
    );
    home.write("me/.agent/requirements.toml", "[features]\nundo = true\n");
    let config = home.config();
    assert_eq!(config.sandbox_mode, SandboxMode::WorkspaceWrite);
    assert_eq!(
        config.requirements.allowed_sandbox_modes(),
        Some(&[SandboxMode::WorkspaceWrite][..])
    );
    assert!(!config.features.undo, "the administrator's file counts more");
    home.write("me/.agent/requirements.toml", "allowed_sandbox_modes = [\"read-only\"]\n");
    assert!(home.error().contains("no common value"), "{}", home.error());
}

#[test]
fn invalid_requirements_are_errors() {
    for (rule, expected) in [
        ("allowed_sandbox_modes = []", "forbid every value"),
        ("allowed_approval_policies = []", "forbid every value"),
        ("allowed_approvals_reviewers = []", "forbid every value"),
        (
            "allowed_approvals_reviewers = [\"me\"]",
            "`allowed_approvals_reviewers.0` must be one of",
        ),
        (
            "allowed_sandbox_mode = [\"read-only\"]",
            "would have no effect; did you mean `allowed_sandbox_modes`?",
        ),
        ("allowed_sandbox_modes = [\"none\"]", "`allowed_sandbox_modes.0` must be one of"),
        ("features.shel_tool = true", "did you mean `shell_tool`?"),
        ("[mcp_servers.x.identity]", "write exactly one"),
        ("[mcp_servers.x.identity]\ncommand = \"a\"\nurl = \"b\"", "write exactly one"),
        (
            "[[rules.prefix_rules]]\npattern = []\ndecision = \"prompt\"",
            "`pattern` needs at least one",
        ),
        ("[[rules.prefix_rules]]\npattern = [{ token = \"a\" }]", "`decision` is missing"),
        (
            "[[rules.prefix_rules]]\npattern = [{ token = \"a\" }]\ndecision = \"allow\"",
            "one of \"prompt\", \"forbidden\"",
        ),
        (
            "[[rules.prefix_rules]]\npattern = [{ token = \"a\", any_of = [\"b\"] }]\ndecision = \"prompt\"",
            "either `token` or `any_of`",
        ),
        (
            "[[rules.prefix_rules]]\npattern = [{}]\ndecision = \"prompt\"",
            "either `token` or `any_of`",
        ),
        (
            "[[rules.prefix_rules]]\npattern = [{ token = \"\" }]\ndecision = \"prompt\"",
            "an empty word",
        ),
        (
            "[[rules.prefix_rules]]\npattern = [{ token = \"a\" }]\ndecision = \"prompt\"\njustification = \" \"",
            "`justification` is empty",
        ),
        ("not toml", "not valid TOML"),
    ] {
        let message = home(rule, "").error();
        assert!(message.contains(expected), "{rule:?} gave {message:?}");
    }
    let home = home(
        "[[rules.prefix_rules]]\npattern = [{ token = \"a\" }, { any_of = [\"b\", \"c\"] }]\ndecision = \"forbidden\"\njustification = \"no\"\n",
        "",
    );
    assert_eq!(home.config().requirements.prefix_rules().len(), 1);
    assert_eq!(home.config().approval_policy, ApprovalPolicy::OnRequest);
}

// Effect of requirement `allowed_approvals_reviewers`.
#[test]
fn reviewers() {
    let on = "[features]\nsmart_approvals = true\n";
    for (required, written, expected, warns) in [
        ("", "", "user", false),
        ("", on, "auto_review", false),
        ("", "approvals_reviewer = \"guardian_subagent\"\n", "guardian_subagent", false),
        ("allowed_approvals_reviewers = [\"user\"]\n", "", "user", false),
        ("allowed_approvals_reviewers = [\"user\"]\n", on, "user", false),
        (
            "allowed_approvals_reviewers = [\"user\"]\n",
            "approvals_reviewer = \"auto_review\"\n",
            "user",
            true,
        ),
        ("allowed_approvals_reviewers = [\"auto_review\"]\n", "", "auto_review", false),
        (
            "allowed_approvals_reviewers = [\"auto_review\"]\n",
            "approvals_reviewer = \"user\"\n",
            "auto_review",
            true,
        ),
        (
            "allowed_approvals_reviewers = [\"guardian_subagent\"]\n",
            "approvals_reviewer = \"auto_review\"\n",
            "auto_review",
            false,
        ),
        (
            "[features]\nsmart_approvals = false\n",
            "approvals_reviewer = \"auto_review\"\n",
            "user",
            true,
        ),
    ] {
        let home = home(required, written);
        assert_eq!(home.config().reviewer().as_str(), expected, "{required} {written}");
        let warnings = home.warnings();
        assert_eq!(!warnings.is_empty(), warns, "{required} {written}: {warnings:?}");
    }
    let profile = "[profiles.p]\napprovals_reviewer = \"auto_review\"\n";
    let profiled = home("", profile).flag("profile=p");
    assert_eq!(profiled.config().reviewer().as_str(), "auto_review");
    let allowed = home("allowed_approvals_reviewers = [\"user\"]\n", "");
    let allowed = allowed.config().requirements.allowed_reviewers();
    assert_eq!(allowed.unwrap().len(), 1);
    let none =
        "allowed_approvals_reviewers = [\"auto_review\"]\n[features]\nsmart_approvals = false\n";
    let error = home(none, "").error();
    assert!(error.contains("switches off every reviewer"), "{error}");
}

#[test]
fn a_client_starts_no_program_where_full_access_is_not_allowed() {
    let mut home = home("allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n", "");
    home.user("[mcp_servers.mine]\ncommand = \"x\"\n");
    let on = |home: &TestHome, id: &str| home.config().mcp_servers[id].enabled;
    home.thread = serde_json::json!({ "mcp_servers": { "web": { "url": "https://a" } } });
    assert!(on(&home, "mine") && on(&home, "web"));
    for server in [
        serde_json::json!({ "theirs": { "command": "x" } }),
        serde_json::json!({ "mine": { "args": ["y"] } }),
        serde_json::json!({ "mine": { "env": { "LD_PRELOAD": "y" } } }),
    ] {
        home.thread = serde_json::json!({ "mcp_servers": server });
        let error = home.error();
        assert!(error.contains("a client cannot start one"), "{error}");
    }
    home.thread =
        serde_json::json!({ "mcp_servers": { "mine": { "enabled": false, "args": [] } } });
    assert!(!on(&home, "mine"));
    home.thread = serde_json::json!({ "mcp_servers": { "mine": { "tool_timeout_sec": 5 } } });
    assert!(on(&home, "mine"));
}

#[test]
fn an_entry_of_a_project_or_a_client_is_not_trusted() {
    let mut home =
        TestHome::with("[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.b]\ncommand = \"x\"\n");
    assert!(home.config().untrusted_servers.is_empty());
    home.thread = serde_json::json!({ "mcp_servers": { "b": { "env": { "X": "1" } } },
        "apps": { "mail": { "default_tools_approval_mode": "approve" } } });
    let config = home.config();
    assert_eq!(config.untrusted_servers, ["b".to_owned()].into());
    assert_eq!(config.untrusted_apps, ["mail".to_owned()].into());
    home.user(&format!(
        "[mcp_servers.a]\ncommand = \"x\"\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        home.cwd.display()
    ));
    home.write(
        "work/.agent/config.toml",
        "[mcp_servers.c]\ncommand = \"x\"\n[mcp_servers.a]\nargs = [\"y\"]\n",
    );
    home.thread = serde_json::json!({});
    assert_eq!(home.config().untrusted_servers, ["a".to_owned(), "c".to_owned()].into());
}

// Effect of requirement `command_limits.memory_mib`, `command_limits.processes`, `command_limits.cpu_seconds`.
// Effect of requirement `command_limits.disk_written_mib`, `command_limits.file_mib`, `command_limits.output_mib`.
// Effect of requirement `thread_limits.memory_mib`, `thread_limits.processes`, `thread_limits.cpu_seconds`.
// Effect of requirement `thread_limits.disk_written_mib`.
#[test]
fn limits_of_commands() {
    for (table, key, default) in [
        ("command_limits", "memory_mib", None),
        ("command_limits", "processes", Some(4_096)),
        ("command_limits", "cpu_seconds", Some(0)),
        ("command_limits", "disk_written_mib", Some(65_536)),
        ("command_limits", "file_mib", Some(32_768)),
        ("command_limits", "output_mib", Some(0)),
        ("thread_limits", "memory_mib", None),
        ("thread_limits", "processes", Some(8_192)),
        ("thread_limits", "cpu_seconds", Some(0)),
        ("thread_limits", "disk_written_mib", Some(0)),
    ] {
        let rule = format!("[{table}]\n{key} = 100\n");
        let value = |home: &TestHome| limit(&home.config(), table, key);
        for (written, expected) in [(0, 100), (101, 100), (100, 100), (7, 7)] {
            let set = home(&rule, &format!("[{table}]\n{key} = {written}\n"));
            assert_eq!(value(&set), Some(expected), "{table}.{key} = {written}");
            assert_eq!(set.warnings().len(), usize::from(expected != written), "{key} = {written}");
        }
        let unset = home(&rule, "");
        assert_eq!(value(&unset), default.map(|_| 100), "{table}.{key}");
        assert!(unset.warnings().is_empty(), "{:?}", unset.warnings());
        assert_eq!(unset.config().requirements.ceiling(&format!("{table}.{key}")), Some(100));
        let free = home("", &format!("[{table}]\n{key} = 5000\n"));
        assert_eq!(value(&free), Some(5_000));
        assert_eq!(value(&home("", "")), default, "{table}.{key}");
        // The lowest of all files.
        let both = home(&rule, "");
        both.write("me/.agent/requirements.toml", &format!("[{table}]\n{key} = 50\n"));
        assert_eq!(both.config().requirements.ceiling(&format!("{table}.{key}")), Some(50));
    }
}

fn limit(config: &config::Config, table: &str, key: &str) -> Option<u64> {
    let (command, thread) = (&config.command_limits, &config.thread_limits);
    match (table, key) {
        ("command_limits", "memory_mib") => command.memory_mib.map(|limit| *limit),
        ("command_limits", "processes") => Some(*command.processes),
        ("command_limits", "cpu_seconds") => Some(*command.cpu_seconds),
        ("command_limits", "disk_written_mib") => Some(*command.disk_written_mib),
        ("command_limits", "file_mib") => Some(*command.file_mib),
        ("command_limits", "output_mib") => Some(*command.output_mib),
        ("thread_limits", "memory_mib") => thread.memory_mib.map(|limit| *limit),
        ("thread_limits", "processes") => Some(*thread.processes),
        ("thread_limits", "cpu_seconds") => Some(*thread.cpu_seconds),
        ("thread_limits", "disk_written_mib") => Some(*thread.disk_written_mib),
        _ => panic!("{table}.{key}"),
    }
}
