//! Namespaces that later commands enter: what they share, what each has for itself, and when they are made again.

use std::fs;
use std::path::Path;

use policy::RootedPolicy;
use sandbox::{Layer, Sandbox};

use crate::common::{folder, namespaces, read_only, run, sandbox, shell, workspace};

async fn output(sandbox: &Sandbox, script: &str, policy: &RootedPolicy) -> String {
    let ran = run(sandbox, shell(script, policy.clone())).await;
    assert!(ran.ok(), "{script}: {ran:?}");
    ran.stdout
}

/// The namespaces of a command: users, mounts, processes, IPC.
async fn of(sandbox: &Sandbox, policy: &RootedPolicy) -> Vec<String> {
    let script = "cd /proc/self/ns && readlink user mnt pid ipc";
    output(sandbox, script, policy).await.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn commands_of_one_policy_share_what_the_policy_decides() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    let sandbox = sandbox(Layer::Namespaces);
    let (one, other) = (read_only(), workspace(&dir));
    // What stands for the protected names that do not exist is another folder each time.
    let of_other = of(&sandbox, &other).await;
    assert_eq!(of_other[0], of(&sandbox, &other).await[0], "users");
    for script in ["mkdir .agent", "echo x > .git", "echo x > .agent/config.toml", "rmdir .git"] {
        let script = format!("cd {} && {script}", dir.display());
        assert!(!run(&sandbox, shell(&script, other.clone())).await.ok(), "{script}");
    }
    assert_eq!(of_other[0], of(&sandbox, &other).await[0], "users");
    let first = of(&sandbox, &one).await;
    let second = of(&sandbox, &one).await;
    assert_eq!(first[0], second[0], "users");
    assert_ne!(first[0], of(&sandbox, &other).await[0], "another policy has its own");
    for (at, kind) in ["user", "mnt", "pid", "ipc"].into_iter().enumerate() {
        let machine = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        for command in [&first, &second] {
            assert_ne!(Path::new(&command[at]), machine, "{kind}");
        }
    }
}

#[tokio::test]
async fn nothing_is_left_for_the_next_command() {
    if !namespaces() {
        return;
    }
    let sandbox = sandbox(Layer::Namespaces);
    let policy = read_only();
    for _ in 0..2 {
        // The first process and the shell.
        let left = output(&sandbox, "echo /dev/shm/* /proc/[0-9]*", &policy).await;
        assert_eq!(left, "/dev/shm/* /proc/1 /proc/2\n");
        output(&sandbox, "echo x > /dev/shm/left; cat /dev/shm/left", &policy).await;
    }
    let ran = run(&sandbox, shell("echo x > /dev/left", policy)).await;
    assert!(!ran.ok(), "{ran:?}");
}

/// Folders that a person replaces between two commands, by what the second one may do there.
#[tokio::test]
async fn what_has_changed_since_is_mounted_again() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    let sandbox = sandbox(Layer::Namespaces);
    let policy = workspace(&dir);
    fs::create_dir(dir.join(".git")).unwrap();
    let writes = async |path: &str| {
        let script = format!("echo x > {}", dir.join(path).display());
        run(&sandbox, shell(&script, policy.clone())).await.ok()
    };
    assert!(writes("a").await && !writes(".git/config").await);
    // A protected folder is replaced, removed and made again.
    fs::rename(dir.join(".git"), dir.join("old")).unwrap();
    fs::create_dir(dir.join(".git")).unwrap();
    assert!(!writes(".git/config").await && writes("old/config").await);
    fs::remove_dir_all(dir.join(".git")).unwrap();
    assert!(!writes(".git").await && !writes(".git/config").await && writes("b").await);
    fs::create_dir(dir.join(".git")).unwrap();
    assert!(!writes(".git/config").await && writes("c").await);
    // The writable folder itself is replaced.
    let moved = dir.with_extension("moved");
    fs::rename(&dir, &moved).unwrap();
    fs::create_dir(&dir).unwrap();
    fs::create_dir(dir.join(".git")).unwrap();
    assert!(writes("d").await && !writes(".git/config").await);
    assert!(dir.join("d").exists() && !moved.join("d").exists());
    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&moved, &dir).unwrap();
    assert!(writes("e").await && !writes(".git/config").await);
}

/// More policies than are kept, each with its own rights, in turn.
#[tokio::test]
async fn many_policies_in_turn_keep_their_rights() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    let sandbox = sandbox(Layer::Namespaces);
    let folders: Vec<_> = (0..20).map(|at| dir.join(at.to_string())).collect();
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    for round in 0..2 {
        for (at, own) in folders.iter().enumerate() {
            let other: &Path = &folders[(at + 1) % folders.len()];
            let script = format!("echo x > {}/{round}", own.display());
            output(&sandbox, &script, &workspace(own)).await;
            let script = format!("echo x > {}/stolen", other.display());
            assert!(!run(&sandbox, shell(&script, workspace(own))).await.ok());
        }
    }
}

/// A file system that is mounted on the machine meanwhile is there for the next command. Needs root.
#[test]
fn later_mounts_of_the_machine_are_seen() {
    let again = std::env::var_os("READY_MOUNTS");
    let Some(place) = again else {
        let (_guard, dir) = folder();
        let test = ["--exact", "ready::later_mounts_of_the_machine_are_seen", "--nocapture"];
        // A mount namespace of its own, so that nothing is left on the machine.
        let mut unshared = std::process::Command::new("unshare");
        unshared.args(["--mount", "--propagation=private"]).arg(std::env::current_exe().unwrap());
        let ran = unshared.args(test).env("READY_MOUNTS", &dir).output();
        let ran = ran.expect("`unshare` is on every Linux system");
        let printed = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() || printed.contains("not permitted"), "{ran:?}");
        return;
    };
    if !namespaces() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sandbox = sandbox(Layer::Namespaces);
        let policy = read_only();
        let script = format!("ls {}", Path::new(&place).display());
        assert_eq!(output(&sandbox, &script, &policy).await, "");
        let mounted =
            std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&place).status();
        assert!(mounted.unwrap().success());
        fs::write(Path::new(&place).join("new"), "").unwrap();
        assert_eq!(output(&sandbox, &script, &policy).await, "new\n");
    });
}
