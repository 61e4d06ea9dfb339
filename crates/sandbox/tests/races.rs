//! Folders that change while a command starts: the opened folder is the one that was checked.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{folder, layers, run, sandbox, shell, workspace};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbox::{ErrorKind, Policy, ReadAccess};

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
        let policy = Policy::WorkspaceWrite {
            writable_roots: vec![outer.clone(), outer.join("root")],
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        };
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
