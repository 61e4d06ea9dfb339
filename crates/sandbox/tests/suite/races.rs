//! Folders that change while a command starts: the opened folder is the one that was checked.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{folder, layers, read_only, run, sandbox, shell, workspace};
use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbox::{ErrorKind, Spawn};

/// A writable root inside another one is continually replaced by a link to another folder and
/// restored, as a command of the outer root could do while the next one starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_that_becomes_a_link_grants_nothing_elsewhere() {
    const TRIES: usize = 100;
    for layer in layers() {
        let (_guard, dir) = folder();
        let (outer, elsewhere) = (dir.join("outer"), dir.join("elsewhere"));
        for path in [&outer, &outer.join("root"), &elsewhere] {
            fs::create_dir(path).unwrap();
        }
        fs::write(elsewhere.join("file"), "old").unwrap();
        fs::write(outer.join("root/file"), "old").unwrap();
        symlink(&elsewhere, outer.join("other")).unwrap();
        let policy = SandboxPolicy::WorkspaceWrite {
            writable_roots: vec![outer.clone(), outer.join("root")],
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        }
        .rooted(Path::new("/"));
        let over = AtomicBool::new(false);
        let sandbox = sandbox(layer);
        std::thread::scope(|scope| {
            let over = &over;
            let (one, other) = (outer.join("root"), outer.join("other"));
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let runtime = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| {
                runtime.block_on(async {
                    for _ in 0..TRIES {
                        let script = format!("echo new > {}/root/file", outer.display());
                        match sandbox.spawn(shell(&script, policy.clone())).await {
                            Ok(process) => drop(process.wait().await),
                            Err(error) if error.kind() == ErrorKind::Unavailable => {
                                panic!("{error}")
                            }
                            // The folder no longer exists, so the command does not run.
                            Err(_) => {}
                        }
                    }
                });
            });
            over.store(true, Ordering::Relaxed);
        });
        let kept = fs::read_to_string(elsewhere.join("file")).unwrap();
        assert_eq!(kept, "old", "{layer:?}: written through a link");
        let ran = run(&sandbox, shell("true", policy.clone())).await;
        assert!(ran.ok(), "{layer:?}: {ran:?}");
    }
}

/// A background command continually changes the links to protected paths while other commands
/// start, each of which tries to use the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_to_protected_paths_do_not_change_during_a_command() {
    const TRIES: usize = 30;
    const WORK_AGAINST: &str = "while :; do \
        mv decoy away; mv way/one way/two; ln -sfn ../mine way/one; mv way gone; mkdir way; \
        ln -s ../mine way/one; rm -f .agent; ln -s mine .agent; ln -s mine decoy; \
        cp -r mine decoy; rm -rf decoy; mv away decoy; done 2> /dev/null";
    const USE: &str = "for f in decoy way/one .agent; do \
        echo new > $f/config.toml; rm -rf $f; cp -r mine $f; done 2> /dev/null";
    for layer in layers() {
        let (_guard, dir) = folder();
        for name in ["decoy", "way", "mine"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        fs::write(dir.join("decoy/config.toml"), "old").unwrap();
        fs::write(dir.join("mine/config.toml"), "new").unwrap();
        symlink("../decoy", dir.join("way/one")).unwrap();
        symlink("way/one", dir.join(".agent")).unwrap();
        let sandbox = sandbox(layer);
        let spawn = |script: &str| {
            let mut spawn = shell(script, workspace(&dir));
            spawn.cwd.clone_from(&dir);
            spawn
        };
        let against = sandbox.spawn(spawn(WORK_AGAINST)).await.unwrap();
        for _ in 0..TRIES {
            let _ = run(&sandbox, spawn(USE)).await;
            let found = fs::read_to_string(dir.join(".agent/config.toml")).unwrap();
            assert_eq!(found, "old", "{layer:?}");
        }
        drop(against);
    }
}

/// A granted folder is a real path; the folder in its place may be another one by the next command.
#[tokio::test]
async fn a_granted_folder_that_leads_elsewhere_permits_nothing() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        let (_guard, dir) = folder();
        for name in ["root", "granted", "other"] {
            fs::create_dir(dir.join(name)).unwrap();
            fs::write(dir.join(name).join("file"), name).unwrap();
        }
        let (root, granted, other) = (dir.join("root"), dir.join("granted"), dir.join("other"));
        let read = ReadAccess::Restricted { platform_defaults: true, roots: vec![granted.clone()] };
        let reads = SandboxPolicy::WorkspaceWrite {
            writable_roots: vec![root.clone()],
            read,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        }
        .rooted(Path::new("/"));
        let writes = SandboxPolicy::WorkspaceWrite {
            writable_roots: vec![root.clone(), granted.clone()],
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        }
        .rooted(Path::new("/"));
        let script = format!("cat {0}/file; echo x >> {0}/file", granted.display());
        let spawn = |policy: &RootedPolicy| Spawn {
            cwd: root.clone(),
            granted: vec![granted.clone()],
            ..shell(&script, policy.clone())
        };
        for (policy, can_write) in [(&reads, false), (&writes, true)] {
            fs::write(granted.join("file"), "granted").unwrap();
            let process = sandbox.spawn(spawn(policy)).await.unwrap();
            assert!(process.lapsed.is_empty(), "{layer:?}");
            drop(process);
            let ran = run(&sandbox, spawn(policy)).await;
            assert!(ran.stdout.contains("granted"), "{layer:?} {ran:?}");
            assert_eq!(ran.ok(), can_write, "{layer:?} {ran:?}");
            let away = dir.join("away");
            fs::rename(&granted, &away).unwrap();
            symlink(&other, &granted).unwrap();
            let process = sandbox.spawn(spawn(policy)).await.unwrap();
            assert_eq!(process.lapsed, std::slice::from_ref(&granted), "{layer:?}");
            drop(process);
            let ran = run(&sandbox, spawn(policy)).await;
            assert!(!ran.ok(), "{layer:?} {ran:?}");
            assert_eq!(ran.stdout.contains("other"), can_write, "what all commands can read");
            assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "other", "{layer:?}");
            fs::remove_file(&granted).unwrap();
            fs::rename(&away, &granted).unwrap();
        }
    }
}

#[tokio::test]
async fn a_command_starts_in_the_real_folder_that_was_decided_about_or_not_at_all() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        let (_guard, dir) = folder();
        fs::create_dir(dir.join("real")).unwrap();
        symlink("real", dir.join("link")).unwrap();
        for policy in [RootedPolicy::FULL_ACCESS, read_only(), workspace(&dir)] {
            let spawn = |name: &str, cwd_is_real| Spawn {
                cwd: dir.join(name),
                cwd_is_real,
                ..shell("pwd -P", policy.clone())
            };
            for (name, cwd_is_real) in [("real", true), ("link", false)] {
                let ran = run(&sandbox, spawn(name, cwd_is_real)).await;
                assert!(ran.ok(), "{layer:?} {name} {ran:?}");
                assert_eq!(ran.stdout.trim_end(), dir.join("real").to_str().unwrap());
            }
            let error = sandbox.spawn(spawn("link", true)).await.unwrap_err();
            assert!(error.to_string().contains("leads elsewhere"), "{layer:?} {error}");
        }
    }
}
