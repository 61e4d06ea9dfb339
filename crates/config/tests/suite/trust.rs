//! Whose files are read.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use config::SandboxMode;

use crate::Place;

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

/// A project whose file says so; the user's file has these entries.
fn place(entries: &[(&str, &str)]) -> Place {
    let place = Place::new();
    place.write("work/.agent/config.toml", "model = \"project\"\n");
    trust(&place, entries);
    place
}

fn trust(place: &Place, entries: &[(&str, &str)]) {
    let entry = |(path, level): &(&str, &str)| {
        format!("[projects.\"{}\"]\ntrust_level = \"{level}\"\n", place.root.join(path).display())
    };
    place.user(&entries.iter().map(entry).collect::<String>());
}

fn trusted(place: &Place) -> bool {
    place.config().model.as_deref() == Some("project")
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
        assert_eq!(trusted(&place(entries)), expected, "{entries:?}");
    }
}

/// An agent that works in the project can create this file.
#[test]
fn trust_in_a_project_does_not_extend_to_the_folders_in_it() {
    let place = place(&[("work", "trusted")]);
    place.write("work/sub/.agent/config.toml", "sandbox_mode = \"danger-full-access\"\n");
    let sub = place.cwd.join("sub");
    let resolved = place.resolved_in(&sub).unwrap();
    assert_eq!(resolved.config.model.as_deref(), Some("project"));
    assert_ne!(resolved.config.sandbox_mode, SandboxMode::DangerFullAccess);
    assert!(resolved.config.trusted);
    assert!(!resolved.config.rule_folders.iter().any(|folder| folder.starts_with(&sub)));
    let warning = format!("{} is not trusted", sub.display());
    assert!(resolved.warnings.iter().any(|it| it.message.contains(&warning)));
    trust(&place, &[("work", "trusted"), ("work/sub", "trusted")]);
    let resolved = place.resolved_in(&sub).unwrap();
    assert_eq!(resolved.config.sandbox_mode, SandboxMode::DangerFullAccess);
}

#[test]
fn each_folder_is_judged_by_itself() {
    let place = place(&[("work", "trusted"), ("work/vendor", "untrusted")]);
    place.write("work/vendor/.agent/config.toml", "review_model = \"vendor\"\n");
    let resolved = place.resolved_in(&place.cwd.join("vendor")).unwrap();
    assert_eq!(resolved.config.model.as_deref(), Some("project"));
    assert_eq!(resolved.config.review_model, None);
    assert!(!resolved.config.trusted);
}

#[test]
fn spellings_of_one_folder_are_one() {
    let place = place(&[]);
    symlink(&place.cwd, place.root.join("link")).unwrap();
    for spelling in ["link", "work/../work", "me/../link"] {
        trust(&place, &[(spelling, "trusted")]);
        assert!(trusted(&place), "{spelling}");
    }
    trust(&place, &[("work", "trusted"), ("link", "untrusted")]);
    assert!(!trusted(&place), "the stricter of two spellings counts");
    trust(&place, &[("work", "trusted")]);
    let by_link = place.resolved_in(&place.root.join("link")).unwrap();
    assert_eq!(by_link.config.model.as_deref(), Some("project"));
    place.user("[projects.\"~/../work\"]\ntrust_level = \"trusted\"\n");
    assert!(trusted(&place));
}

#[test]
fn an_untrusted_file_is_not_read() {
    let place = place(&[]);
    let file = place.cwd.join(".agent/config.toml");
    std::fs::write(&file, "= this is not TOML").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
    let warnings = place.warnings();
    assert!(
        warnings[0].contains("is not trusted: its configuration, rules, hooks"),
        "{warnings:?}"
    );
}

#[test]
fn a_project_cannot_speak_for_its_user() {
    let place = place(&[("work", "trusted")]);
    place.write(
        "work/.agent/config.toml",
        &format!(
            "model = \"project\"\nprofile = \"mine\"\nsqlite_home = \"/elsewhere\"\n\
             [history]\npersistence = \"none\"\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n\
             [profiles.mine]\nmodel = \"sneaky\"\n",
            place.root.join("other").display()
        ),
    );
    let config = place.config();
    assert_eq!(config.model.as_deref(), Some("project"));
    assert_eq!(config.sqlite_home, place.home);
    assert!(config.projects.len() == 1 && config.profile.is_none());
    let warnings = place.warnings();
    let ignored =
        warnings.iter().filter(|w| w.contains("a project's file cannot set this key")).count();
    assert_eq!(ignored, 5, "{warnings:?}");
}

#[test]
fn the_home_is_no_project() {
    let place = Place::with("model = \"user\"\nreview_model = \"x\"\n");
    let me = place.root.join("me");
    std::fs::create_dir(me.join(".git")).unwrap();
    let resolved = place.resolved_in(&me).unwrap();
    assert!(!resolved.warnings.iter().any(|w| w.message.contains("not trusted")));
}

// Effect of `project_root_markers`.
#[test]
fn root_markers() {
    let place = Place::new();
    place.write("work/.agent/config.toml", "model = \"outer\"\n");
    place.write("work/in/.agent/config.toml", "review_model = \"inner\"\n");
    place.write("work/in/marker.txt", "");
    let own = |markers: &str| {
        place.user(&format!(
            "project_root_markers = {markers}\n[projects.\"{0}\"]\ntrust_level = \"trusted\"\n\
             [projects.\"{0}/in\"]\ntrust_level = \"trusted\"\n",
            place.cwd.display()
        ));
        let config = place.resolved_in(&place.cwd.join("in")).unwrap().config;
        (config.model.is_some(), config.review_model.is_some())
    };
    assert_eq!(own("[\".git\"]"), (true, true));
    assert_eq!(own("[\"marker.txt\"]"), (false, true));
    assert_eq!(own("[]"), (false, true));
    assert_eq!(own("[\"../work\", \"..\", \"\"]"), (false, true), "a marker is a name");
}

#[test]
fn worktrees_share_the_trust_of_their_repository() {
    let place = place(&[("work", "trusted")]);
    std::fs::remove_dir(place.cwd.join(".git")).unwrap();
    git(&place.cwd, &["init", "-q"]);
    git(&place.cwd, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let tree = place.root.join("elsewhere/tree");
    git(&place.cwd, &["worktree", "add", "-q", tree.to_str().unwrap()]);
    place.write("elsewhere/tree/.agent/config.toml", "model = \"tree\"\n");
    let model = |place: &Place| place.resolved_in(&tree).unwrap().config.model.clone();
    assert_eq!(model(&place).as_deref(), Some("tree"));
    trust(&place, &[("work", "trusted"), ("elsewhere/tree", "untrusted")]);
    assert_eq!(model(&place), None, "an entry for the worktree itself counts more");
    // A `.git` file that names somebody else's worktree, or a repository that does not know it.
    let forged = place.root.join("forged");
    place.write("forged/.agent/config.toml", "model = \"forged\"\n");
    trust(&place, &[("work", "trusted")]);
    let pointer = std::fs::read_to_string(tree.join(".git")).unwrap();
    for text in [
        pointer,
        format!("gitdir: {}\n", place.cwd.join(".git").display()),
        format!("gitdir: {}\n", place.cwd.join(".git/worktrees").display()),
        "gitdir: ".to_owned(),
        "x".repeat(100_000),
    ] {
        std::fs::write(forged.join(".git"), &text).unwrap();
        let config = place.resolved_in(&forged).unwrap().config;
        assert_eq!(config.model, None, "{}", &text[..text.len().min(80)]);
    }
}
