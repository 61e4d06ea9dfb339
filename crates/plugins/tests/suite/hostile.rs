//! Hostile folders and repositories: each is refused with the file named, nothing is installed, nothing
//! outside of the home changes; and each has a control that shows what plain `cp -a` or `git` makes of it.

use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::common::{add, commit, folder, git, home, marketplace, read, snapshot, url, write};
use plugins::Home;

const SECRET: &str = "the user's secret";

struct Case {
    name: &'static str,
    /// Makes the plugin hostile. The second argument is a folder of the user, with a file `secret`.
    make: fn(&Path, &Path),
    expect: &'static str,
    /// Whether a copy by `cp -a` does or holds harm.
    harm: fn(&Path) -> bool,
}

fn leaks(copy: &Path) -> bool {
    ["leak", "a/leak", "leak/secret"]
        .iter()
        .any(|name| std::fs::read_to_string(copy.join(name)).is_ok_and(|text| text == SECRET))
}

fn kind(copy: &Path, name: &str) -> std::fs::FileType {
    copy.join(name).symlink_metadata().unwrap().file_type()
}

/// Two names that a file system without letter case or Unicode forms takes for one.
fn collides(copy: &Path) -> bool {
    let names = snapshot(copy).into_iter().map(|(path, _)| path.to_string_lossy().into_owned());
    let mut folded: Vec<String> = names
        .map(|name| name.replace("e\u{301}", "\u{e9}").replace('\u{fb01}', "fi").to_lowercase())
        .collect();
    let all = folded.len();
    folded.sort();
    folded.dedup();
    folded.len() < all
}

fn holds_control(copy: &Path) -> bool {
    snapshot(copy).iter().any(|(path, _)| {
        let text = path.to_string_lossy().into_owned();
        text.chars().any(|c| c.is_control() || c == '\u{202e}' || c == '\u{fffd}' || c == '\\')
    })
}

const FOLDERS: &[Case] = &[
    Case {
        name: "absolute link",
        make: |p, u| symlink(u.join("secret"), p.join("leak")).unwrap(),
        expect: "is absolute",
        harm: leaks,
    },
    Case {
        name: "absolute link to a folder",
        make: |p, u| symlink(u, p.join("leak")).unwrap(),
        expect: "is absolute",
        harm: leaks,
    },
    Case {
        name: "relative link out",
        make: |p, _| symlink("../../../user/secret", p.join("leak")).unwrap(),
        expect: "leads out of the folder",
        harm: |c| c.join("leak").read_link().unwrap().starts_with(".."),
    },
    Case {
        name: "link that goes out and comes back",
        make: |p, _| symlink("../one/skills", p.join("leak")).unwrap(),
        expect: "leads out of the folder",
        harm: |c| c.join("leak").read_link().unwrap().starts_with(".."),
    },
    Case {
        name: "link through a link",
        make: |p, _| {
            symlink("skills", p.join("a")).unwrap();
            symlink("a/../../x", p.join("leak")).unwrap();
        },
        expect: "through another link",
        harm: |c| kind(c, "leak").is_symlink(),
    },
    Case {
        name: "broken link",
        make: |p, _| symlink("later", p.join("leak")).unwrap(),
        expect: "leads to nothing",
        harm: |c| {
            std::fs::write(c.join("leak"), "x").unwrap();
            c.join("later").exists()
        },
    },
    Case {
        name: "link to itself",
        make: |p, _| symlink("leak", p.join("leak")).unwrap(),
        expect: "through another link",
        harm: |c| std::fs::read(c.join("leak")).is_err(),
    },
    Case {
        name: "link to its own folder",
        make: |p, _| symlink(".", p.join("leak")).unwrap(),
        expect: "that it is in",
        harm: |c| c.join("leak/leak/leak/leak/skills").is_dir(),
    },
    Case {
        name: "link to the folder above",
        make: |p, _| symlink("..", p.join("skills/up")).unwrap(),
        expect: "that it is in",
        harm: |c| c.join("skills/up/skills/up/skills").is_dir(),
    },
    Case {
        name: "named pipe",
        make: |p, _| mkfifo(&p.join("pipe")),
        expect: "FIFO",
        harm: |c| kind(c, "pipe").is_fifo(),
    },
    Case {
        name: "named pipe as the manifest",
        make: |p, _| {
            std::fs::remove_file(p.join(".claude-plugin/plugin.json")).unwrap();
            mkfifo(&p.join(".claude-plugin/plugin.json"));
        },
        expect: "FIFO",
        harm: |c| kind(c, ".claude-plugin/plugin.json").is_fifo(),
    },
    Case {
        name: "socket",
        make: |p, _| drop(UnixListener::bind(p.join("s")).unwrap()),
        expect: "socket",
        harm: |c| kind(c, "s").is_socket(),
    },
    Case {
        name: "hard link to a file outside",
        make: |p, u| std::fs::hard_link(u.join("secret"), p.join("leak")).unwrap(),
        expect: "hard link",
        harm: leaks,
    },
    Case {
        name: "repository within",
        make: |p, _| write(&p.join("sub/.git/config"), "[core]\n\tfsmonitor = touch ran"),
        expect: "repository of git",
        harm: |c| c.join("sub/.git/config").exists(),
    },
    Case {
        name: "repository in capitals",
        make: |p, _| write(&p.join("sub/.GIT/config"), ""),
        expect: "repository of git",
        harm: |c| c.join("sub/.GIT/config").exists(),
    },
    Case {
        name: "repository by its short name",
        make: |p, _| write(&p.join("sub/git~1/config"), ""),
        expect: "repository of git",
        harm: |c| c.join("sub/git~1").exists(),
    },
    Case {
        name: "repository with a dot at its end",
        make: |p, _| write(&p.join("sub/.git./config"), ""),
        expect: "repository of git",
        harm: |c| c.join("sub/.git.").exists(),
    },
    Case {
        name: "names in two letter cases",
        make: |p, _| {
            write(&p.join("Run.sh"), "a");
            write(&p.join("run.sh"), "b");
        },
        expect: "letter case",
        harm: collides,
    },
    Case {
        name: "folders in two letter cases",
        make: |p, _| {
            write(&p.join("A/x"), "a");
            write(&p.join("a/x"), "b");
        },
        expect: "letter case",
        harm: collides,
    },
    Case {
        name: "names in two Unicode forms",
        make: |p, _| {
            write(&p.join("\u{e9}"), "a");
            write(&p.join("e\u{301}"), "b");
        },
        expect: "Unicode form",
        harm: collides,
    },
    Case {
        name: "a ligature",
        make: |p, _| {
            write(&p.join("\u{fb01}x"), "a");
            write(&p.join("fix"), "b");
        },
        expect: "Unicode form",
        harm: collides,
    },
    Case {
        name: "new line in a name",
        make: |p, _| write(&p.join("a\nb"), ""),
        expect: "control characters",
        harm: holds_control,
    },
    Case {
        name: "escape in a name",
        make: |p, _| write(&p.join("a\u{1b}[2J"), ""),
        expect: "control characters",
        harm: holds_control,
    },
    Case {
        name: "right-to-left override in a name",
        make: |p, _| write(&p.join("a\u{202e}txt.sh"), ""),
        expect: "not visible",
        harm: holds_control,
    },
    Case {
        name: "backslash in a name",
        make: |p, _| write(&p.join("..\\x"), ""),
        expect: "backslash",
        harm: holds_control,
    },
    Case {
        name: "name that is not UTF-8",
        make: |p, _| {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(b"a\xff");
            std::fs::write(p.join(name), "").unwrap();
        },
        expect: "UTF-8",
        harm: holds_control,
    },
    Case {
        name: "huge file",
        make: |p, _| std::fs::File::create(p.join("big")).unwrap().set_len(1 << 40).unwrap(),
        expect: "larger than 16 MiB",
        harm: |c| c.join("big").metadata().unwrap().len() == 1 << 40,
    },
    Case {
        name: "much altogether",
        make: |p, _| {
            for n in 0..5 {
                std::fs::File::create(p.join(format!("big{n}")))
                    .unwrap()
                    .set_len(15 << 20)
                    .unwrap();
            }
        },
        expect: "together are larger",
        harm: |c| snapshot(c).len() > 5,
    },
    Case {
        name: "many files",
        make: |p, _| {
            for n in 0..10_001 {
                std::fs::File::create(p.join(format!("f{n}"))).unwrap();
            }
        },
        expect: "more than 10000 files",
        harm: |c| std::fs::read_dir(c).unwrap().count() > 10_000,
    },
    Case {
        name: "deep folders",
        make: |p, _| std::fs::create_dir_all(p.join(["d"; 40].join("/"))).unwrap(),
        expect: "folders deep",
        harm: |c| c.join(["d"; 40].join("/")).is_dir(),
    },
    Case {
        name: "manifest of another plugin",
        make: |p, _| write(&p.join(".claude-plugin/plugin.json"), r#"{"name": "two"}"#),
        expect: "names the plugin `two`",
        harm: |c| {
            std::fs::read_to_string(c.join(".claude-plugin/plugin.json")).unwrap().contains("two")
        },
    },
    Case {
        name: "manifest with a path as its name",
        make: |p, _| write(&p.join(".claude-plugin/plugin.json"), r#"{"name": "../../x"}"#),
        expect: "plugin.json: the name",
        harm: |c| c.join(".claude-plugin/plugin.json").exists(),
    },
    Case {
        name: "manifest of 2 MiB",
        make: |p, _| write(&p.join(".claude-plugin/plugin.json"), vec![b' '; 2 << 20]),
        expect: "larger than 1024 KiB",
        harm: |c| c.join(".claude-plugin/plugin.json").metadata().unwrap().len() > 1 << 20,
    },
    Case {
        name: "manifest nested without end",
        make: |p, _| write(&p.join(".claude-plugin/plugin.json"), "[".repeat(500_000)),
        expect: "line 1",
        harm: |c| c.join(".claude-plugin/plugin.json").exists(),
    },
    Case {
        name: "no manifest and no parts",
        make: |p, _| {
            std::fs::remove_dir_all(p.join(".claude-plugin")).unwrap();
            std::fs::rename(p.join("skills"), p.join("other")).unwrap();
        },
        expect: "is not a plugin",
        harm: |c| c.join("other").exists(),
    },
    Case {
        name: "a file in the place of what the marketplace says",
        make: |p, _| write(&p.join(".agent-plugin/marketplace-entry.json"), "{}"),
        expect: "this place is for what the marketplace says",
        harm: |c| c.join(".agent-plugin").exists(),
    },
    Case {
        name: "a link in the place of what the marketplace says",
        make: |p, _| {
            std::fs::create_dir(p.join(".agent-plugin")).unwrap();
            let place = p.join(".agent-plugin/marketplace-entry.json");
            symlink("../skills/greet/SKILL.md", place).unwrap();
        },
        expect: "this place is for what the marketplace says",
        harm: |c| c.join(".agent-plugin").exists(),
    },
];

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Installs, expects the refusal, and that nothing has changed but for the home's own empty folders.
async fn refused(home: &Home, root: &Path, user: &Path, name: &str, expect: &str) {
    let before = snapshot(user);
    let error = home.install(&read(root), "one", None).await.expect_err(name).to_string();
    assert!(error.contains(expect), "{name}: {error}");
    assert!(!error.chars().any(|c| c.is_control()), "{name}: {error:?}");
    assert_eq!(home.installed().unwrap().all, [], "{name}");
    assert_eq!(snapshot(user), before, "{name}");
}

#[tokio::test]
async fn hostile_folders_are_refused() {
    for case in FOLDERS {
        let top = folder();
        let (root, user) = (top.path().join("market"), top.path().join("user"));
        write(&user.join("secret"), SECRET);
        let plugin = marketplace(&root);
        (case.make)(&plugin, &user);
        let home_folder = top.path().join("home");
        refused(&home(&home_folder, &[]), &root, &user, case.name, case.expect).await;
        let left: Vec<_> = snapshot(&home_folder).into_iter().map(|(path, _)| path).collect();
        assert_eq!(left, [home_folder.join(".lock")], "{}", case.name);
        let copy = top.path().join("copy");
        let copied = Command::new("cp").arg("-a").arg(&plugin).arg(&copy).status().unwrap();
        assert!(copied.success() && (case.harm)(&copy), "{}: no harm in the control", case.name);
    }
}

/// Configuration and environment of the user or an attacker that make plain git run a program.
type Trap = (&'static str, fn(&Path) -> Vec<(&'static str, String)>);

fn config(user: &Path, text: &str) -> Vec<(&'static str, String)> {
    write(&user.join(".gitconfig"), text.replace("RUN", &run(user)));
    vec![("HOME", user.display().to_string())]
}

/// A script that leaves the file `ran`, and passes its input on.
fn run(user: &Path) -> String {
    let script = user.join("run");
    write(
        &script,
        format!("#!/bin/sh\ntouch {}\nexec timeout 2 cat\n", user.join("ran").display()),
    );
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    script.display().to_string()
}

const TRAPS: &[Trap] = &[
    ("smudge filter", |u| config(u, "[filter \"evil\"]\n\tsmudge = RUN\n\tclean = cat\n")),
    ("process filter", |u| config(u, "[filter \"evil\"]\n\tprocess = RUN\n\tsmudge = RUN\n")),
    ("hooks folder", |u| {
        let script = run(u);
        write(&u.join("hooks/post-checkout"), "");
        std::fs::copy(script, u.join("hooks/post-checkout")).unwrap();
        config(u, &format!("[core]\n\thooksPath = {}\n", u.join("hooks").display()))
    }),
    ("template with hooks", |u| {
        let script = run(u);
        write(&u.join("template/hooks/post-checkout"), "");
        std::fs::copy(script, u.join("template/hooks/post-checkout")).unwrap();
        config(u, &format!("[init]\n\ttemplateDir = {}\n", u.join("template").display()))
    }),
    ("template in the environment", |u| {
        let script = run(u);
        write(&u.join("template/hooks/post-checkout"), "");
        std::fs::copy(script, u.join("template/hooks/post-checkout")).unwrap();
        vec![("GIT_TEMPLATE_DIR", u.join("template").display().to_string())]
    }),
    ("configuration in the environment", |u| {
        vec![
            ("GIT_CONFIG_COUNT", "1".to_owned()),
            ("GIT_CONFIG_KEY_0", "filter.evil.smudge".to_owned()),
            ("GIT_CONFIG_VALUE_0", run(u)),
        ]
    }),
    ("packing hook", |u| config(u, "[uploadpack]\n\tpackObjectsHook = RUN\n")),
    ("rewritten address", |u| {
        config(
            u,
            "[protocol \"ext\"]\n\tallow = always\n[url \"ext::RUN \"]\n\tinsteadOf = \"file:\"\n",
        )
    }),
];

#[tokio::test]
async fn nothing_of_the_environment_or_the_repository_runs() {
    for (name, make) in TRAPS {
        let top = folder();
        let (root, user) = (top.path().join("market"), top.path().join("user"));
        marketplace(&root);
        write(&root.join(".gitattributes"), "* filter=evil\n");
        commit(&root);
        let env = make(&user);
        let home = home(&top.path().join("home"), &env);
        let added = add(&home, &url(&root), None, &[])
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        home.install(&read(&added.root), "one", None).await.unwrap();
        assert!(!user.join("ran").exists(), "{name}");
        let copy = top.path().join("copy");
        git(top.path(), &env, &["clone", "-q", &url(&root), &copy.display().to_string()], b"");
        assert!(user.join("ran").exists(), "{name}: no harm in the control");
    }
}

/// An object of git, as it is: `git` itself refuses to make such trees in other ways.
fn object(repository: &Path, kind: &str, bytes: &[u8]) -> String {
    git(repository, &[], &["hash-object", "-t", kind, "--literally", "-w", "--stdin"], bytes)
        .unwrap()
}

fn tree(repository: &Path, entries: &[(&str, &str, &str)]) -> String {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        let digits = id.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        bytes.extend(digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
    }
    object(repository, "tree", &bytes)
}

#[tokio::test]
async fn hostile_trees_are_refused() {
    type Entries = fn(&Path, &str) -> Vec<(&'static str, &'static str, String)>;
    let cases: [(&str, Entries, &str); 8] = [
        (
            "parent folder",
            |r, b| vec![("40000", "..", tree(r, &[("100644", "x", b)]))],
            "empty component",
        ),
        (
            "repository",
            |r, b| vec![("40000", ".git", tree(r, &[("100644", "config", b)]))],
            "repository of git",
        ),
        ("absolute path", |_, b| vec![("100644", "/etc/x", b.to_owned())], "empty component"),
        ("path in a name", |_, b| vec![("100644", "a/../../x", b.to_owned())], "empty component"),
        (
            "link out",
            |r, _| vec![("120000", "leak", object(r, "blob", b"../../user/secret"))],
            // The link is left out; see `a_bad_link_refuses_what_it_belongs_to`.
            "is not a marketplace",
        ),
        (
            "absolute link",
            |r, _| vec![("120000", "leak", object(r, "blob", b"/etc/passwd"))],
            "is not a marketplace",
        ),
        (
            "one name twice",
            |r, b| vec![("100644", "a", b.to_owned()), ("120000", "a", object(r, "blob", b"/etc"))],
            "not at all",
        ),
        (
            "huge file",
            |r, _| vec![("100644", "big", object(r, "blob", &vec![0; 17 << 20]))],
            // Left out; see `a_large_file_and_a_name_in_two_spellings_refuse_what_they_belong_to`.
            "is not a marketplace",
        ),
    ];
    for (name, make, expect) in cases {
        let top = folder();
        let root = top.path().join("market");
        marketplace(&root);
        let plain = commit(&root);
        let blob = object(&root, "blob", b"x");
        let entries = make(&root, &blob);
        let entries: Vec<_> =
            entries.iter().map(|(mode, name, id)| (*mode, *name, id.as_str())).collect();
        let made = tree(&root, &entries);
        let commit =
            git(&root, &[], &["commit-tree", "-p", &plain, "-m", "c", &made], b"").unwrap();
        git(&root, &[], &["update-ref", "refs/heads/main", &commit], b"").unwrap();
        let home_folder = top.path().join("home");
        let home = home(&home_folder, &[]);
        let error = add(&home, &url(&root), None, &[]).await.expect_err(name).to_string();
        assert!(error.contains(expect), "{name}: {error}");
        assert_eq!(home.marketplaces().unwrap().all, [], "{name}");
        assert!(!top.path().join("x").exists());
        // The control: plain git fetches such a tree, and its own list of it names the path.
        let copy = top.path().join("copy");
        let fetched = git(
            top.path(),
            &[],
            &["clone", "-q", "--bare", &url(&root), &copy.display().to_string()],
            b"",
        );
        assert!(fetched.is_some(), "{name}");
        let list = git(&copy, &[], &["ls-tree", "-r", "main"], b"").unwrap();
        assert!(!list.is_empty(), "{name}: no harm in the control");
    }
}

/// A tree of 10 levels, in each of which ten names mean the same tree: 10^10 files in a few objects.
#[tokio::test]
async fn a_tree_that_multiplies_is_refused() {
    let top = folder();
    let root = top.path().join("market");
    marketplace(&root);
    let plain = commit(&root);
    let mut id = tree(&root, &[("100644", "f", &object(&root, "blob", b"x"))]);
    for _ in 0..10 {
        let names = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let entries: Vec<_> = names.iter().map(|name| ("40000", *name, id.as_str())).collect();
        id = tree(&root, &entries);
    }
    let commit = git(&root, &[], &["commit-tree", "-p", &plain, "-m", "c", &id], b"").unwrap();
    git(&root, &[], &["update-ref", "refs/heads/main", &commit], b"").unwrap();
    let home = home(&top.path().join("home"), &[]);
    let error = add(&home, &url(&root), None, &[]).await.unwrap_err().to_string();
    assert!(error.contains("too long"), "{error}");
}

#[tokio::test]
async fn a_bad_link_refuses_what_it_belongs_to() {
    let top = folder();
    let (root, other) = (top.path().join("market"), top.path().join("other"));
    marketplace(&root);
    symlink("/etc/passwd", root.join("plugins/one/leak")).unwrap();
    write(&root.join("plugins/two/.claude-plugin/plugin.json"), r#"{"name": "two"}"#);
    write(&other.join(".claude-plugin/plugin.json"), r#"{"name": "far"}"#);
    symlink("../user/secret", other.join("leak")).unwrap();
    commit(&other);
    let list = format!(
        r#"{{"name": "market", "plugins": [{{"name": "one", "source": "./plugins/one"}},
        {{"name": "two", "source": "./plugins/two"}},
        {{"name": "far", "source": {{"source": "url", "url": "{}"}}}}]}}"#,
        url(&other)
    );
    write(&root.join(".claude-plugin/marketplace.json"), list);
    commit(&root);
    let home = home(&top.path().join("home"), &[]);
    let added = add(&home, &url(&root), None, &[]).await.unwrap();
    assert!(added.root.join("plugins/one/leak").symlink_metadata().is_err());
    let market = read(&added.root);
    for (name, why) in [("one", "`/etc/passwd` is absolute"), ("far", "leads out of the folder")] {
        let error = home.install(&market, name, None).await.unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    home.install(&market, "two", None).await.unwrap();
    let known = home.marketplaces().unwrap().all;
    assert_eq!(known[0].obstacle(Path::new("plugins/two")), None);
}

#[tokio::test]
async fn a_large_file_and_a_name_in_two_spellings_refuse_what_they_belong_to() {
    let top = folder();
    let root = top.path().join("market");
    marketplace(&root);
    for name in ["two", "three", "four"] {
        let manifest = format!(r#"{{"name": "{name}"}}"#);
        write(&root.join("plugins").join(name).join(".claude-plugin/plugin.json"), manifest);
    }
    let large = std::fs::File::create(root.join("plugins/one/large")).unwrap();
    large.set_len(17 << 20).unwrap();
    write(&root.join("plugins/two/Name"), "1");
    write(&root.join("plugins/two/name"), "2");
    write(&root.join("plugins/three/Folder/a"), "1");
    write(&root.join("plugins/three/folder/b"), "2");
    let entries = ["one", "two", "three", "four"]
        .map(|name| format!(r#"{{"name": "{name}", "source": "./plugins/{name}"}}"#));
    let list = format!(r#"{{"name": "market", "plugins": [{}]}}"#, entries.join(", "));
    write(&root.join(".claude-plugin/marketplace.json"), list);
    commit(&root);
    let home = home(&top.path().join("home"), &[]);
    let added = add(&home, &url(&root), None, &[]).await.unwrap();
    assert!(!added.root.join("plugins/one/large").exists());
    let market = read(&added.root);
    for (name, why) in [
        ("one", "larger than 16 MiB"),
        ("two", "differs from `plugins/two/Name` only in letter case"),
        ("three", "differs from `plugins/three/Folder` only in letter case"),
    ] {
        let error = home.install(&market, name, None).await.unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    home.install(&market, "four", None).await.unwrap();
}
