//! What the agent may do in a project (`projects.<path>.access`).

use std::path::Path;

use config::{ApprovalPolicy, LayerName, SandboxMode};

use crate::TestHome;

const EDIT: (SandboxMode, ApprovalPolicy) =
    (SandboxMode::WorkspaceWrite, ApprovalPolicy::OnRequest);
const ASK: (SandboxMode, ApprovalPolicy) = (SandboxMode::ReadOnly, ApprovalPolicy::OnRequest);
const READ_ONLY: (SandboxMode, ApprovalPolicy) = (SandboxMode::ReadOnly, ApprovalPolicy::Never);

/// A home whose user file has these entries after `first`.
fn home(first: &str, entries: &[(&str, &str)]) -> TestHome {
    let home = TestHome::new();
    let entry = |(path, access): &(&str, &str)| {
        format!("[projects.\"{}\"]\naccess = \"{access}\"\n", home.root.join(path).display())
    };
    let text: String = entries.iter().map(entry).collect();
    home.user(&format!("{first}\n{text}"));
    home
}

fn in_force(home: &TestHome, folder: &Path) -> (SandboxMode, ApprovalPolicy) {
    let config = home.resolved_in(folder).unwrap().config;
    (config.sandbox_mode, config.approval_policy)
}

// Effect of `projects.<path>.access`.
#[test]
fn the_access_of_a_project_decides_sandbox_and_approvals() {
    for (access, expected) in [
        ("read-only", READ_ONLY),
        ("ask", ASK),
        ("edit", EDIT),
        ("full-access", (SandboxMode::DangerFullAccess, ApprovalPolicy::Never)),
    ] {
        let home = home("", &[("work", access)]);
        assert_eq!(in_force(&home, &home.cwd), expected, "{access}");
        // It is the user's value, and says where it was written.
        let resolved = home.resolved_in(&home.cwd).unwrap();
        let (_, origin) = resolved.value("sandbox_mode").unwrap();
        assert!(matches!(origin.layer(), LayerName::User { .. }));
        assert_eq!(origin.range().unwrap().line_column().0, 3);
        // Elsewhere it has no effect.
        assert_eq!(in_force(&home, &home.root), ASK);
        assert!(home.resolved_in(&home.root).unwrap().value("sandbox_mode").is_none());
    }
}

#[test]
fn the_nearest_entry_up_to_the_root_of_the_project_applies() {
    let home = home("", &[("", "full-access"), ("work", "edit"), ("work/vendor", "read-only")]);
    let vendor = home.cwd.join("vendor/deep");
    std::fs::create_dir_all(&vendor).unwrap();
    let src = home.cwd.join("src");
    std::fs::create_dir_all(&src).unwrap();
    assert_eq!(in_force(&home, &src), EDIT);
    assert_eq!(in_force(&home, &vendor), READ_ONLY);
    // The entry of a folder above the root is not the project's.
    home.user(&format!("[projects.\"{}\"]\naccess = \"edit\"\n", home.root.display()));
    assert_eq!(in_force(&home, &src), ASK);
}

#[test]
fn it_comes_after_the_users_own_file_and_before_everything_else() {
    let own = "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\n\
               default_permissions = \"p\"\n[permissions.p.filesystem]\n\"/\" = \"read\"\n\
               [profiles.bold]\nsandbox_mode = \"danger-full-access\"\n";
    let mut home = home(own, &[("work", "ask")]);
    let config = home.config();
    assert_eq!((config.sandbox_mode, config.approval_policy), ASK);
    assert!(config.permission_profile.is_none());
    home.flags = vec!["sandbox_mode=\"workspace-write\"".to_owned()];
    assert_eq!(home.config().sandbox_mode, SandboxMode::WorkspaceWrite);
    home.flags = vec!["profile=\"bold\"".to_owned()];
    assert_eq!(home.config().sandbox_mode, SandboxMode::DangerFullAccess);
}

#[test]
fn a_project_cannot_set_its_own_access_and_requirements_hold() {
    let home = home("", &[("work", "edit")]);
    let own = format!("[projects.\"{}\"]\naccess = \"full-access\"\n", home.cwd.display());
    home.write("work/.agent/config.toml", &own);
    let trusted = format!(
        "[projects.\"{}\"]\naccess = \"edit\"\ntrust_level = \"trusted\"\n",
        home.cwd.display()
    );
    home.user(&trusted);
    assert_eq!(in_force(&home, &home.cwd), EDIT);
    home.write("etc/requirements.toml", "allowed_sandbox_modes = [\"read-only\"]\n");
    assert_eq!(in_force(&home, &home.cwd), ASK);
}

#[test]
fn of_two_spellings_the_stricter_entry_applies() {
    let home = home("", &[("work", "edit"), ("work/../work", "ask")]);
    assert_eq!(in_force(&home, &home.cwd), ASK);
    let home = self::home("", &[("work", "read-only"), ("me/../work", "edit")]);
    assert_eq!(in_force(&home, &home.cwd), READ_ONLY);
}
