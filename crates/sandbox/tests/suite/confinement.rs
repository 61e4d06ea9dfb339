//! Actions that a confined command cannot perform, under each layer.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::common::{
    command, folder, layers, namespaces, read_only, run, sandbox, shell, workspace,
};
use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::{ErrorKind, Layer};

#[tokio::test]
async fn nothing_is_writable_under_read_only() {
    let (_guard, dir) = folder();
    fs::write(dir.join("file"), "old").unwrap();
    for layer in layers() {
        let sandbox = sandbox(layer);
        let file = dir.join("file").display().to_string();
        let check = async |script: &str| {
            let ran = run(&sandbox, shell(&script.replace("FILE", &file), read_only())).await;
            assert!(!ran.ok(), "{layer:?} {script}: {ran:?}");
        };
        check("echo new > FILE").await;
        check("echo new >> FILE").await;
        check("rm FILE").await;
        check("mv FILE FILE.moved").await;
        check("ln FILE FILE.link").await;
        check("mkdir FILE.folder").await;
        check("chmod 777 FILE").await;
        check("touch FILE").await;
        check("truncate -s 0 FILE").await;
        check("echo x > /tmp/sandbox-test-$$").await;
        check("echo core > /proc/sys/kernel/core_pattern").await;
        let ran = run(
            &sandbox,
            shell("echo ok > /dev/null && cat FILE".replace("FILE", &file).as_str(), read_only()),
        )
        .await;
        assert_eq!((ran.ok(), ran.stdout.as_str()), (true, "old"), "{layer:?} {ran:?}");
    }
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "old");
}

#[tokio::test]
async fn only_the_writable_root_can_be_written() {
    for layer in layers() {
        let (_guard, dir) = folder();
        fs::create_dir_all(dir.join("root/sub")).unwrap();
        fs::create_dir(dir.join("other")).unwrap();
        symlink(dir.join("other"), dir.join("root/link")).unwrap();
        let sandbox = sandbox(layer);
        let check = async |script: &str, expect: bool| {
            let mut spawn = shell(script, workspace(&dir.join("root")));
            spawn.cwd = dir.join("root");
            let ran = run(&sandbox, spawn).await;
            assert_eq!(ran.ok(), expect, "{layer:?} {script}: {ran:?}");
        };
        check("echo x > sub/new && mkdir -p sub/a/b && mv sub/new sub/a/b/ && rm -r sub/a", true)
            .await;
        check("echo x > ../other/new", false).await;
        check("echo x > link/new", false).await;
        check("echo x > /tmp/sandbox-test-$$", false).await;
        check("mv sub ../other/", false).await;
        check("echo x > new && mkdir made && echo y > made/file && mv new made/moved", true).await;
        check("rm -r made", true).await;
        assert_eq!(fs::read_dir(dir.join("other")).unwrap().count(), 0);
    }
}

/// The working folder of a command is not automatically a writable root.
#[tokio::test]
async fn the_working_folder_does_not_become_writable() {
    let (_guard, dir) = folder();
    fs::create_dir_all(dir.join("root")).unwrap();
    fs::create_dir_all(dir.join("elsewhere/sub")).unwrap();
    for layer in layers() {
        let mut spawn = shell("echo x > sub/new", workspace(&dir.join("root")));
        spawn.cwd = dir.join("elsewhere");
        assert!(!run(&sandbox(layer), spawn).await.ok(), "{layer:?}");
    }
}

#[tokio::test]
async fn temporary_folders_are_included_and_can_be_excluded() {
    if !namespaces() {
        return;
    }
    let (_guard, dir) = folder();
    let sandbox = sandbox(Layer::Namespaces);
    let check = async |exclude_slash_tmp, exclude_tmpdir, expect: [bool; 2]| {
        let policy = SandboxPolicy::WorkspaceWrite {
            writable_roots: vec![],
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp,
            exclude_tmpdir,
        }
        .rooted(Path::new("/usr"));
        for (path, expect) in ["/tmp", "$TMPDIR"].iter().zip(expect) {
            let script = format!("f={path}/sandbox-test-$$-x; echo x > $f && rm $f");
            let mut spawn = shell(&script, policy.clone());
            spawn.env.push(("TMPDIR".into(), dir.clone().into()));
            let ran = run(&sandbox, spawn).await;
            assert_eq!(ran.ok(), expect, "{path}: {ran:?}");
        }
    };
    check(false, false, [true, true]).await;
    check(true, false, [false, true]).await;
    check(false, true, [true, false]).await;
}

#[tokio::test]
async fn protected_names_stay_as_they_are() {
    for layer in layers() {
        let (_guard, dir) = folder();
        fs::create_dir_all(dir.join(".git/hooks")).unwrap();
        fs::create_dir(dir.join(".GIT")).unwrap();
        fs::write(dir.join(".git/config"), "old").unwrap();
        let sandbox = sandbox(layer);
        let check = async |script: &str| {
            let mut spawn = shell(script, workspace(&dir));
            spawn.cwd = dir.clone();
            let ran = run(&sandbox, spawn).await;
            assert!(!ran.ok(), "{layer:?} {script}: {ran:?}");
        };
        check("echo x > .git/config").await;
        check("echo x > .git/hooks/pre-commit").await;
        check("echo x > .GIT/new").await;
        check("rm -rf .git/config").await;
        check("mv .git moved").await;
        check("mv .GIT moved").await;
        check("mkdir .agent").await;
        check("echo x > .agent/config.toml").await;
        check("rmdir .agent && mkdir .agent").await;
        check("ln -s /tmp .agent").await;
        assert_eq!(fs::read_to_string(dir.join(".git/config")).unwrap(), "old");
        assert!(!dir.join(".agent").exists(), "{layer:?} leaves nothing behind");
        assert!(dir.join(".GIT").exists());
    }
}

#[tokio::test]
async fn protected_names_that_do_not_exist_cannot_be_created() {
    for layer in layers() {
        let (_guard, dir) = folder();
        let sandbox = sandbox(layer);
        for script in [
            "mkdir -p .git/hooks",
            "git init .",
            "echo gitdir: x > .git",
            "rm -rf .git; mkdir .git",
        ] {
            let mut spawn = shell(script, workspace(&dir));
            spawn.cwd = dir.clone();
            run(&sandbox, spawn).await;
            let left: Vec<_> = fs::read_dir(&dir).unwrap().collect();
            assert!(left.is_empty(), "{layer:?} {script}: {left:?}");
        }
    }
}

#[tokio::test]
async fn the_folder_that_a_git_file_points_to_is_protected() {
    for layer in layers() {
        let (_guard, dir) = folder();
        fs::create_dir_all(dir.join("store/deep/git/hooks")).unwrap();
        fs::create_dir_all(dir.join("store/free")).unwrap();
        fs::write(dir.join(".git"), "gitdir: store/deep/git\n").unwrap();
        let sandbox = sandbox(layer);
        let check = async |script: &str, expect: bool| {
            let mut spawn = shell(script, workspace(&dir));
            spawn.cwd = dir.clone();
            let ran = run(&sandbox, spawn).await;
            assert_eq!(ran.ok(), expect, "{layer:?} {script}: {ran:?}");
        };
        check("echo x > store/deep/git/hooks/pre-commit", false).await;
        check("echo gitdir: elsewhere > .git", false).await;
        check("rm .git", false).await;
        check("mv store/deep store/moved", false).await;
        check("mv store moved", false).await;
        check("echo x > store/free/file", true).await;
    }
}

#[tokio::test]
async fn a_protected_name_that_is_a_link_cannot_be_replaced() {
    for layer in layers() {
        let (_guard, dir) = folder();
        fs::create_dir_all(dir.join("dotfiles/agent")).unwrap();
        fs::create_dir(dir.join("src")).unwrap();
        symlink("dotfiles/agent", dir.join(".agent")).unwrap();
        let sandbox = sandbox(layer);
        let check = async |script: &str, expect: bool| {
            let mut spawn = shell(script, workspace(&dir));
            spawn.cwd = dir.clone();
            let ran = run(&sandbox, spawn).await;
            assert_eq!(ran.ok(), expect, "{layer:?} {script}: {ran:?}");
        };
        check("rm .agent", false).await;
        check("ln -sfn src .agent", false).await;
        check("echo x > src/file", true).await;
        assert!(!dir.join(".git").exists());
    }
}

#[tokio::test]
async fn there_is_no_network_not_even_loopback() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let script = format!(
        "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).sendall(b'hello')"
    );
    for layer in layers() {
        let sandbox = sandbox(layer);
        let ran = run(&sandbox, command(&["python3", "-c", &script], read_only())).await;
        assert!(!ran.ok() && ran.stderr.contains("Error"), "{layer:?} {ran:?}");
        assert!(tcp.accept().is_err());
        let open = SandboxPolicy::ReadOnly { read: ReadAccess::Full, network: true }
            .rooted(Path::new("/"));
        let ran = run(&sandbox, command(&["python3", "-c", &script], open)).await;
        assert!(ran.ok(), "{layer:?} {ran:?}");
        tcp.accept().unwrap();
    }
}

/// A program that listens at a Unix socket acts outside the sandbox.
#[tokio::test]
async fn unix_sockets_cannot_be_reached() {
    let (_guard, dir) = folder();
    let listener = UnixListener::bind(dir.join("s")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = format!(
        "import socket\na, b = socket.socketpair()\na.send(b'pair ok')\nprint(b.recv(9))\n\
         socket.socket(socket.AF_UNIX).connect('{}')",
        dir.join("s").display()
    );
    for layer in layers() {
        for network in [false, true] {
            let policy =
                SandboxPolicy::ReadOnly { read: ReadAccess::Full, network }.rooted(Path::new("/"));
            let ran = run(&sandbox(layer), command(&["python3", "-c", &script], policy)).await;
            assert!(!ran.ok() && ran.stdout.contains("pair ok"), "{layer:?} {ran:?}");
            assert!(listener.accept().is_err());
        }
    }
}

#[tokio::test]
async fn restricted_reading() {
    let (_guard, dir) = folder();
    for name in ["in", "out"] {
        fs::create_dir(dir.join(name)).unwrap();
        fs::write(dir.join(name).join("file"), "content").unwrap();
    }
    let policy = SandboxPolicy::ReadOnly {
        read: ReadAccess::Restricted { platform_defaults: true, roots: vec![dir.join("in")] },
        network: false,
    }
    .rooted(Path::new("/"));
    for layer in layers() {
        let sandbox = sandbox(layer);
        let check = async |script: &str, expect: bool| {
            let mut spawn = shell(script, policy.clone());
            spawn.cwd = dir.join("in");
            let ran = run(&sandbox, spawn).await;
            assert_eq!(ran.ok(), expect, "{layer:?} {script}: {ran:?}");
        };
        check("cat file", true).await;
        check("cat ../out/file", false).await;
        check("ls /root", false).await;
        check("cat /etc/shadow", false).await;
        check("echo x > file", false).await;
        let mut spawn = shell("true", policy.clone());
        spawn.cwd = dir.join("out");
        let refused = sandbox.spawn(spawn).await;
        let error = refused.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidCommand, "{layer:?} {error}");
    }
}

#[tokio::test]
async fn no_capability_is_left() {
    for layer in layers() {
        let ran = run(&sandbox(layer), command(&["cat", "/proc/self/status"], read_only())).await;
        for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert!(
                ran.stdout.contains(&format!("{name}:\t0000000000000000")),
                "{layer:?} {ran:?}"
            );
        }
        assert!(
            ran.stdout.contains("NoNewPrivs:\t1") && ran.stdout.contains("Seccomp:\t2"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn dangerous_system_calls_are_refused() {
    for layer in layers() {
        let sandbox = sandbox(layer);
        for script in
            ["unshare -U true", "unshare -r -m true", "mount -t tmpfs x /mnt", "chroot / true"]
        {
            let ran = run(&sandbox, shell(script, read_only())).await;
            assert!(!ran.ok(), "{layer:?} {script}: {ran:?}");
        }
        let script = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\n\
                      assert l.ptrace(0, 0, 0, 0) == -1\nprint(ctypes.get_errno())\n";
        let ran = run(&sandbox, command(&["python3", "-c", script], read_only())).await;
        assert_eq!(ran.stdout, "1\n", "{layer:?} {ran:?}");
    }
}

/// A command gets exactly the given environment: no variable of the server, so none of its secrets.
/// The process that starts commands, whose environment a command could read, has no secrets either.
#[tokio::test]
async fn the_environment_is_exactly_the_one_given() {
    for policy in [read_only(), RootedPolicy::FULL_ACCESS] {
        let mut spawn = command(&["env"], policy);
        spawn.env.push(("LANG".into(), "C".into()));
        let ran = run(&sandbox(Layer::Auto), spawn).await;
        let mut names: Vec<_> = ran.stdout.lines().filter_map(|l| l.split('=').next()).collect();
        names.retain(|name| *name != "PWD");
        names.sort_unstable();
        assert_eq!(names, ["LANG", "PATH"], "{ran:?}");
    }
    let ran = run(
        &sandbox(Layer::Auto),
        shell("tr '\\0' '\\n' < /proc/$PPID/environ", RootedPolicy::FULL_ACCESS),
    )
    .await;
    assert_eq!(ran.stdout, "");
}

/// A variable for the dynamic linker must not affect what is not confined yet.
#[tokio::test]
async fn the_environment_does_not_act_on_the_sandbox_itself() {
    if !namespaces() {
        return;
    }
    let mut spawn = command(&["env"], read_only());
    spawn.env.push(("LD_DEBUG".into(), "libs".into()));
    let ran = run(&sandbox(Layer::Namespaces), spawn).await;
    assert!(ran.stderr.contains("env") && !ran.stderr.contains("agentd"), "{ran:?}");
}

#[tokio::test]
async fn other_processes_cannot_be_seen_or_signalled() {
    let sandbox_of_victim = sandbox(Layer::Auto);
    let victim = sandbox_of_victim
        .spawn(command(&["sleep", "1000"], RootedPolicy::FULL_ACCESS))
        .await
        .unwrap();
    for layer in layers() {
        let sandbox = sandbox(layer);
        for script in ["kill -9 PID", "cat /proc/PID/environ", "ls /proc/PID/root/"] {
            let script = script.replace("PID", &victim.pid().to_string());
            let ran = run(&sandbox, shell(&script, read_only())).await;
            assert!(!ran.ok(), "{layer:?} {script}: {ran:?}");
        }
    }
    assert!(Path::new(&format!("/proc/{}", victim.pid())).exists());
}

#[tokio::test]
async fn without_any_layer_nothing_runs() {
    let refused = sandbox(Layer::None).spawn(shell("true", read_only())).await;
    let error = refused.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let degradation = sandbox(Layer::None).degradation().await.unwrap();
    assert!(degradation.warning.contains("no command can be confined"), "{degradation:?}");
    assert!(degradation.for_commands.contains("cannot be confined"), "{degradation:?}");
}

#[tokio::test]
async fn a_program_hidden_by_the_sandbox_is_distinguished_from_a_failing_command() {
    if !namespaces() {
        return;
    }
    let sandbox = sandbox(Layer::Namespaces);
    let mut spawn = shell("exit 1", read_only());
    let ran = run(&sandbox, spawn.clone()).await;
    assert_eq!((ran.exit.code, ran.exit.sandbox_failed), (Some(1), false));
    // The program exists for the server, but outside the readable part of the file system.
    spawn.policy = SandboxPolicy::ReadOnly {
        read: ReadAccess::Restricted { platform_defaults: false, roots: vec!["/etc".into()] },
        network: false,
    }
    .rooted(Path::new("/"));
    spawn.cwd = "/etc".into();
    let ran = run(&sandbox, spawn).await;
    assert!(ran.exit.not_executed("bash".as_ref()).is_some(), "{ran:?}");
    assert!(!ran.exit.sandbox_failed, "{ran:?}");
}

#[tokio::test]
async fn the_report_names_every_layer() {
    let report = sandbox(Layer::Auto).report().await;
    let names: Vec<_> = report.iter().map(|status| status.layer).collect();
    assert_eq!(names, ["namespaces", "landlock", "seccomp", "control groups"]);
    assert!(report.iter().take(3).all(|status| status.usable || layers().len() == 1), "{report:?}");
}

/// The write end of this process's pipe must not leak into the child.
#[tokio::test]
async fn no_descriptor_but_the_streams_is_inherited() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    for layer in layers() {
        for policy in [read_only(), RootedPolicy::FULL_ACCESS] {
            let ran = run(&sandbox(layer), command(&["ls", "/proc/self/fd"], policy)).await;
            // The fourth descriptor is the folder that `ls` reads.
            assert_eq!(ran.stdout, "0\n1\n2\n3\n", "{layer:?} {ran:?}");
        }
    }
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}
