//! Trust in project folders.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use config::SandboxMode;

use crate::TestHome;

fn git(folder: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A project with a file of its own, and a user's file with these entries.
fn home(entries: &[(&str, &str)]) -> TestHome {
    let home = TestHome::new();
    home.write("work/.agent/config.toml", "model = \"project\"\n");
    trust(&home, entries);
    home
}

fn trust(home: &TestHome, entries: &[(&str, &str)]) {
    let entry = |(path, level): &(&str, &str)| {
        format!("[projects.\"{}\"]\ntrust_level = \"{level}\"\n", home.root.join(path).display())
    };
    home.user(&entries.iter().map(entry).collect::<String>());
}

fn trusted(home: &TestHome) -> bool {
    home.config().model.as_deref() == Some("project")
}

// Effect of `projects.<path>.trust_level`.
#[test]
fn each_folder_needs_its_own_entry() {
    for (entries, expected) in [
        (&[][..], false),
        (&[("work", "trusted")], true),
        (&[("", "trusted")], false),
        (&[("", "trusted"), ("work", "untrusted")], false),
        (&[("", "untrusted"), ("work", "trusted")], true),
        (&[("work/deeper", "trusted")], false),
        (&[("wor", "trusted")], false),
    ] {
        assert_eq!(trusted(&home(entries)), expected, "{entries:?}");
    }
}

/// An agent that works in the project can create this file.
#[test]
fn trust_does_not_extend_to_subfolders() {
    let home = home(&[("work", "trusted")]);
    home.write("work/sub/.agent/config.toml", "sandbox_mode = \"danger-full-access\"\n");
    let sub = home.cwd.join("sub");
    let resolved = home.resolved_in(&sub).unwrap();
    assert_eq!(resolved.config.model.as_deref(), Some("project"));
    assert_ne!(resolved.config.sandbox_mode, SandboxMode::DangerFullAccess);
    assert!(resolved.config.trusted);
    assert!(!resolved.config.rule_folders.iter().any(|folder| folder.starts_with(&sub)));
    let warning = format!("{} is not trusted", sub.display());
    assert!(resolved.warnings.iter().any(|it| it.message.contains(&warning)));
    trust(&home, &[("work", "trusted"), ("work/sub", "trusted")]);
    let resolved = home.resolved_in(&sub).unwrap();
    assert_eq!(resolved.config.sandbox_mode, SandboxMode::DangerFullAccess);
}

#[test]
fn each_folder_has_its_own_trust() {
    let home = home(&[("work", "trusted"), ("work/vendor", "untrusted")]);
    home.write("work/vendor/.agent/config.toml", "review_model = \"vendor\"\n");
    let resolved = home.resolved_in(&home.cwd.join("vendor")).unwrap();
    assert_eq!(resolved.config.model.as_deref(), Some("project"));
    assert_eq!(resolved.config.review_model, None);
    assert!(!resolved.config.trusted);
}

#[test]
fn different_spellings_name_one_folder() {
    let home = home(&[]);
    symlink(&home.cwd, home.root.join("link")).unwrap();
    for spelling in ["link", "work/../work", "me/../link"] {
        trust(&home, &[(spelling, "trusted")]);
        assert!(trusted(&home), "{spelling}");
    }
    trust(&home, &[("work", "trusted"), ("link", "untrusted")]);
    assert!(!trusted(&home), "the stricter of two spellings counts");
    trust(&home, &[("work", "trusted")]);
    let by_link = home.resolved_in(&home.root.join("link")).unwrap();
    assert_eq!(by_link.config.model.as_deref(), Some("project"));
    home.user("[projects.\"~/../work\"]\ntrust_level = \"trusted\"\n");
    assert!(trusted(&home));
}

#[test]
fn an_untrusted_file_is_not_read() {
    let home = home(&[]);
    let file = home.cwd.join(".agent/config.toml");
    std::fs::write(&file, "= this is not TOML").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
    let warnings = home.warnings();
    assert!(
        warnings[0].contains("is not trusted: its configuration, rules, hooks"),
        "{warnings:?}"
    );
}

#[test]
fn untrusted_skills_and_hooks_are_reported() {
    for part in [".agent/hooks.json", ".agent/skills/a", ".agents/skills", ".claude/skills"] {
        let home = home(&[]);
        std::fs::create_dir_all(home.cwd.join(part)).unwrap();
        let warnings = home.warnings();
        assert_eq!(warnings.len(), 1, "{part}: {warnings:?}");
        assert!(warnings[0].contains("is not trusted"), "{warnings:?}");
        // Clients ask the user about the folders of these layers.
        assert_eq!(home.left_out(), 1, "{part}");
    }
}

#[test]
fn a_project_cannot_set_user_keys() {
    let home = home(&[("work", "trusted")]);
    home.write(
        "work/.agent/config.toml",
        &format!(
            "model = \"project\"\nprofile = \"mine\"\nsqlite_home = \"/elsewhere\"\n\
             [history]\npersistence = \"none\"\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n\
             [profiles.mine]\nmodel = \"sneaky\"\n[features]\ncodex_hooks = true\nhooks = true\n\
             [skills]\nconfig = []\n",
            home.root.join("other").display()
        ),
    );
    let config = home.config();
    assert_eq!(config.model.as_deref(), Some("project"));
    assert_eq!(config.sqlite_home, home.home);
    assert!(config.projects.len() == 1 && config.profile.is_none());
    let warnings = home.warnings();
    let ignored =
        warnings.iter().filter(|w| w.contains("a project's file cannot set this key")).count();
    assert!(!config.has_hooks());
    assert_eq!(ignored, 8, "{warnings:?}");
}

#[test]
fn the_agent_home_is_not_a_project() {
    let home = TestHome::with("model = \"user\"\nreview_model = \"x\"\n");
    let me = home.root.join("me");
    std::fs::create_dir(me.join(".git")).unwrap();
    let resolved = home.resolved_in(&me).unwrap();
    assert!(!resolved.warnings.iter().any(|w| w.message.contains("not trusted")));
}

// Effect of `project_root_markers`.
#[test]
fn root_markers() {
    let home = TestHome::new();
    home.write("work/.agent/config.toml", "model = \"outer\"\n");
    home.write("work/in/.agent/config.toml", "review_model = \"inner\"\n");
    home.write("work/in/marker.txt", "");
    let own = |markers: &str| {
        home.user(&format!(
            "project_root_markers = {markers}\n[projects.\"{0}\"]\ntrust_level = \"trusted\"\n\
             [projects.\"{0}/in\"]\ntrust_level = \"trusted\"\n",
            home.cwd.display()
        ));
        let config = home.resolved_in(&home.cwd.join("in")).unwrap().config;
        (config.model.is_some(), config.review_model.is_some())
    };
    assert_eq!(own("[\".git\"]"), (true, true));
    assert_eq!(own("[\"marker.txt\"]"), (false, true));
    assert_eq!(own("[]"), (false, true));
    assert_eq!(own("[\"../work\", \"..\", \"\"]"), (false, true), "a marker is a name");
}

#[test]
fn worktrees_share_the_trust_of_their_repository() {
    let home = home(&[("work", "trusted")]);
    std::fs::remove_dir(home.cwd.join(".git")).unwrap();
    git(&home.cwd, &["init", "-q"]);
    git(&home.cwd, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let tree = home.root.join("elsewhere/tree");
    git(&home.cwd, &["worktree", "add", "-q", tree.to_str().unwrap()]);
    home.write("elsewhere/tree/.agent/config.toml", "model = \"tree\"\n");
    let model = |home: &TestHome| home.resolved_in(&tree).unwrap().config.model.clone();
    assert_eq!(model(&home).as_deref(), Some("tree"));
    trust(&home, &[("work", "trusted"), ("elsewhere/tree", "untrusted")]);
    assert_eq!(model(&home), None, "an entry for the worktree itself counts more");
    // A `.git` file that names another worktree, or a repository that does not know it.
    let forged = home.root.join("forged");
    home.write("forged/.agent/config.toml", "model = \"forged\"\n");
    trust(&home, &[("work", "trusted")]);
    let pointer = std::fs::read_to_string(tree.join(".git")).unwrap();
    for text in [
        pointer,
        format!("gitdir: {}\n", home.cwd.join(".git").display()),
        format!("gitdir: {}\n", home.cwd.join(".git/worktrees").display()),
        "gitdir: ".to_owned(),
        "x".repeat(100_000),
    ] {
        std::fs::write(forged.join(".git"), &text).unwrap();
        let config = home.resolved_in(&forged).unwrap().config;
        assert_eq!(config.model, None, "{}", &text[..text.len().min(80)]);
    }
}
