//! Configuration of git or an agent that applies to a writable root but is found elsewhere: in a
//! folder above it, or in a folder inside it that the user trusts separately.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common;
use crate::common::{folder, layers, run, sandbox, shell, workspace};
use sandbox::{Sandbox, Spawn};

/// Runs `script` in `root`, its only writable folder.
async fn works(sandbox: &Sandbox, root: &Path, guarded: &[&Path], script: &str) -> bool {
    let guarded = guarded.iter().map(|folder| folder.to_path_buf()).collect();
    let spawn = Spawn { cwd: root.to_owned(), guarded, ..shell(script, workspace(root)) };
    run(sandbox, spawn).await.ok()
}

#[tokio::test]
async fn targets_of_a_parents_protected_names_are_protected() {
    let script = |folder: &str| format!("echo x > {folder}/config");
    for layer in layers() {
        let sandbox = sandbox(layer);
        for (name, link, target) in [
            (".agent", Some("sub/target"), "target"),
            (".git", None, "target"),
            (".git/hooks", Some("../sub/target"), "target"),
            (".git/hooks", Some("../sub/in/target"), "in/target"),
        ] {
            let (_guard, dir) = folder();
            let root = dir.join("sub");
            fs::create_dir_all(root.join(target)).unwrap();
            fs::write(root.join(target).join("config"), "old").unwrap();
            fs::create_dir_all(root.join("free")).unwrap();
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            match link {
                Some(to) => symlink(to, dir.join(name)).unwrap(),
                None => fs::write(dir.join(name), format!("gitdir: sub/{target}\n")).unwrap(),
            }
            let row = format!("{layer:?} {name} {target}");
            assert!(!works(&sandbox, &root, &[], &script(target)).await, "{row}");
            assert!(!works(&sandbox, &root, &[], "mv in away || mv target away").await, "{row}");
            assert!(works(&sandbox, &root, &[], &script("free")).await, "{row}");
            // The user named this folder as writable.
            assert!(works(&sandbox, &root.join(target), &[], "echo x > config").await, "{row}");
        }
    }
}

#[tokio::test]
async fn protected_names_of_guarded_folders_are_protected() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        let (_guard, dir) = folder();
        let (there, missing) = (dir.join("there"), dir.join("missing"));
        fs::create_dir_all(there.join(".git")).unwrap();
        let guarded = [there.as_path(), missing.as_path(), Path::new("/elsewhere")];
        for script in [
            "mkdir there/.agent",
            "mkdir -p missing/.agent",
            "echo x > there/.git/config",
            "mv there away",
            "rm -rf there",
        ] {
            assert!(!works(&sandbox, &dir, &guarded, script).await, "{layer:?} {script}");
        }
        assert!(there.join(".git").is_dir() && !there.join(".agent").exists());
        assert!(works(&sandbox, &dir, &[], "mkdir there/.agent && rmdir there/.agent").await);
    }
    // Landlock alone forbids new entries in a folder that holds a protected one.
    let (_guard, dir) = folder();
    fs::create_dir_all(dir.join("there")).unwrap();
    if common::namespaces() {
        let sandbox = sandbox(sandbox::Layer::Namespaces);
        let guarded = [dir.join("there")];
        let guarded: Vec<&Path> = guarded.iter().map(|folder| folder.as_path()).collect();
        assert!(works(&sandbox, &dir, &guarded, "echo x > there/file && mkdir beside").await);
    }
}

/// Changes by other programs while a command runs apply from the next command on
/// (docs/deviations.md).
#[tokio::test]
async fn links_changed_by_others_apply_from_the_next_command() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        let (_guard, dir) = folder();
        for name in ["one", "two"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        symlink("one", dir.join(".agent")).unwrap();
        assert!(!works(&sandbox, &dir, &[], "echo x > one/config").await, "{layer:?}");
        assert!(works(&sandbox, &dir, &[], "echo x > two/config").await, "{layer:?}");
        fs::remove_file(dir.join(".agent")).unwrap();
        symlink("two", dir.join(".agent")).unwrap();
        assert!(works(&sandbox, &dir, &[], "echo x > one/config").await, "{layer:?}");
        assert!(!works(&sandbox, &dir, &[], "echo x > two/config").await, "{layer:?}");
    }
}
