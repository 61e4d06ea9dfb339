//! Folders that no confined command may change (`Config::kept`): in a writable root, missing, behind a
//! link, being a root, and around one. The checks of paths agree with the commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{folder, layers, run, shell};
use policy::{ReadAccess, RootedPolicy, SandboxPolicy};
use sandbox::{Config, Layer, Resolved, Sandbox, Spawn, THIS_PROGRAM};

/// Where the home lies, as `home` of the folder of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    Below,
    Deep,
    Missing,
    Link,
    /// A link inside of the home leads into the root.
    LinkInside,
    /// It is a writable root itself, below another.
    Root,
    /// It is the only writable root.
    OnlyRoot,
    /// A writable root is in it.
    Around,
}

const HOMES: [Home; 8] = [
    Home::Below,
    Home::Deep,
    Home::Missing,
    Home::Link,
    Home::LinkInside,
    Home::Root,
    Home::OnlyRoot,
    Home::Around,
];

struct Place {
    /// As `AGENT_HOME` names it.
    home: PathBuf,
    /// Where its hooks are, or would be.
    hooks: PathBuf,
    roots: Vec<PathBuf>,
}

impl Place {
    fn new(kind: Home, dir: &Path) -> Self {
        let real = match kind {
            Home::Deep => dir.join("a/b/home"),
            Home::Link => dir.join("real"),
            _ => dir.join("home"),
        };
        if kind != Home::Missing {
            fs::create_dir_all(&real).unwrap();
            fs::write(real.join("config.toml"), "old").unwrap();
        }
        let (mut home, mut hooks) = (real.clone(), real.join("hooks.json"));
        let mut roots = vec![dir.to_owned()];
        fs::create_dir(dir.join("free")).unwrap();
        match kind {
            Home::Link => {
                home = dir.join("home");
                symlink("real", &home).unwrap();
            }
            Home::LinkInside => {
                fs::create_dir(dir.join("dotfiles")).unwrap();
                symlink("../dotfiles/hooks.json", &hooks).unwrap();
                hooks = dir.join("dotfiles/hooks.json");
            }
            Home::Root => roots.push(real),
            Home::OnlyRoot => roots = vec![real],
            Home::Around => {
                fs::create_dir_all(real.join("work/space/free")).unwrap();
                roots.push(real.join("work/space"));
            }
            Home::Below | Home::Deep | Home::Missing => {}
        }
        Self { home, hooks, roots }
    }

    fn policy(&self) -> RootedPolicy {
        SandboxPolicy::WorkspaceWrite {
            writable_roots: self.roots.clone(),
            read: ReadAccess::Full,
            network: false,
            exclude_slash_tmp: true,
            exclude_tmpdir: true,
        }
        .rooted(Path::new("/"))
    }
}

fn keeping(layer: Layer, home: &Path) -> Sandbox {
    Sandbox::new(Config {
        supervisor: THIS_PROGRAM.into(),
        layer,
        descriptors: None,
        kept: vec![home.to_owned()],
        limits_by: sandbox::LimitsBy::Auto,
    })
}

#[tokio::test]
async fn a_command_cannot_change_the_home() {
    for layer in layers() {
        for kind in HOMES {
            let (_guard, dir) = folder();
            let place = Place::new(kind, &dir);
            let sandbox = keeping(layer, &place.home);
            let works = async |script: String| {
                let spawn = Spawn { cwd: dir.clone(), ..shell(&script, place.policy()) };
                run(&sandbox, spawn).await.ok()
            };
            let (home, hooks) = (place.home.display(), place.hooks.display());
            for script in [
                format!("mkdir -p {home} && echo x > {hooks}"),
                format!("echo x > {hooks}.new && mv {hooks}.new {hooks}"),
                format!("echo x > {home}/config.toml"),
                format!(
                    "rm -f {home}/config.toml && test ! -e {home}/config.toml && test -d {home}"
                ),
                format!("mv {home} {home}.away && mkdir {home}"),
                format!("mkdir -p {home}/skills/new"),
                format!("mkdir {home}.evil && ln -sfn {home}.evil {home}"),
            ] {
                works(script.clone()).await;
                assert!(!place.hooks.exists(), "{layer:?} {kind:?}: {script}");
                assert!(!place.home.join("skills").exists(), "{layer:?} {kind:?}: {script}");
                let config = fs::read_to_string(place.home.join("config.toml"));
                let is_there = kind != Home::Missing;
                assert_eq!(config.ok().as_deref() == Some("old"), is_there, "{kind:?}: {script}");
            }
            // What lies beside it, or was chosen in it, can be written.
            let free = match kind {
                Home::OnlyRoot => continue,
                Home::Around => place.home.join("work/space/free"),
                _ => dir.join("free"),
            };
            let script = format!("echo x > {}/file", free.display());
            assert!(works(script).await, "{layer:?} {kind:?}");
        }
    }
}

#[test]
fn a_check_of_paths_denies_the_home() {
    for kind in HOMES {
        let (_guard, dir) = folder();
        let place = Place::new(kind, &dir);
        let policy =
            Resolved::new(&place.policy(), None).keeping(std::slice::from_ref(&place.home));
        for path in [
            place.hooks.clone(),
            place.home.join("hooks.json"),
            place.home.join("config.toml"),
            place.home.join("skills/new/SKILL.md"),
        ] {
            assert!(policy.check_write(&path).is_err(), "{kind:?}: {}", path.display());
        }
        let free = match kind {
            Home::OnlyRoot => continue,
            Home::Around => place.home.join("work/space/new/file"),
            _ => dir.join("new/file"),
        };
        assert!(policy.check_write(&free).is_ok(), "{kind:?}: {}", free.display());
        if kind == Home::Link {
            assert!(policy.check_write_entry(&place.home).is_err());
        }
    }
}

/// Nothing in a home needs protection from a command that has no writable folder, or is not confined. Such
/// a command also starts where the home has more entries than may be searched.
#[tokio::test]
async fn a_command_without_writable_folders_does_not_search_the_home() {
    let (_guard, dir) = folder();
    let home = dir.join("home");
    fs::create_dir(&home).unwrap();
    for number in 0..=1 << 16 {
        fs::write(home.join(number.to_string()), "").unwrap();
    }
    let sandbox = keeping(Layer::Auto, &home);
    for policy in [RootedPolicy::FULL_ACCESS, common::read_only()] {
        let spawn = Spawn { cwd: dir.clone(), ..shell("true", policy) };
        assert!(run(&sandbox, spawn).await.ok());
    }
    let spawn = Spawn { cwd: dir.clone(), ..shell("true", common::workspace(&dir)) };
    let error = sandbox.spawn(spawn).await;
    let error = error.map(drop).unwrap_err().to_string();
    assert!(error.contains("too many to look for links"), "{error}");
}
