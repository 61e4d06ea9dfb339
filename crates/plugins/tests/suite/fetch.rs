//! Real git over `file://` and a local HTTP server: marketplaces are added, upgraded and removed, plugins
//! installed from pinned commits; servers that redirect, hang or demand a password are given up on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common;
use crate::common::{
    add, commit, folder, git, home, marketplace, read, snapshot, upgrade, url, write,
};
use plugins::difference;

#[tokio::test]
async fn a_marketplace_is_added_upgraded_and_removed() {
    let top = folder();
    let root = top.path().join("market");
    let plugin = marketplace(&root);
    write(&plugin.join("scripts/run.sh"), "old");
    std::os::unix::fs::symlink("scripts/run.sh", plugin.join("start")).unwrap();
    let first = commit(&root);
    let home = home(&top.path().join("home"), &[]);
    let source = url(&root);
    let added = add(&home, &source, None, &[]).await.unwrap();
    assert_eq!((added.name.as_str(), added.already), ("market", false));
    assert!(add(&home, &source, None, &[]).await.unwrap().already);
    let old = home.install(&read(&added.root), "one", None).await.unwrap();
    assert_eq!((old.id.as_str(), old.revision.as_ref()), ("one@market", Some(&first)));
    assert!(home.verify(&old).unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(old.root.join("start")).unwrap(), "old");
    assert!(!upgrade(&home, "market").await.unwrap().changed);

    write(&plugin.join("scripts/run.sh"), "new");
    write(&plugin.join("hooks/hooks.json"), r#"{"hooks": {}}"#);
    std::fs::remove_dir_all(plugin.join("skills")).unwrap();
    commit(&root);
    let upgraded = upgrade(&home, "market").await.unwrap();
    assert!(upgraded.changed && !added.root.exists());
    assert_eq!(
        home.installed().unwrap().all,
        std::slice::from_ref(&old),
        "an installed plugin stays"
    );
    let staged = home.stage(&read(&upgraded.root), "one").await.unwrap();
    let shown = difference(&old.files, &staged.plugin.files);
    let names =
        |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>();
    assert_eq!(names(&shown.added), ["hooks/hooks.json"]);
    assert_eq!(names(&shown.removed), ["skills/greet/SKILL.md"]);
    assert_eq!(names(&shown.changed), ["scripts/run.sh"]);
    let digest = staged.plugin.digest.clone();
    drop(staged);
    let market = read(&upgraded.root);
    assert!(
        home.install(&market, "one", Some(&old.digest)).await.is_err(),
        "changed since it was shown"
    );
    let new = home.install(&market, "one", Some(&digest)).await.unwrap();
    assert!(!old.root.exists() && home.verify(&new).unwrap().is_empty());

    write(&new.root.join("scripts/run.sh"), "tampered");
    assert_eq!(names(&home.verify(&new).unwrap().changed), ["scripts/run.sh"]);
    let again = home.install(&market, "one", None).await.unwrap();
    assert!(home.verify(&again).unwrap().is_empty(), "installing again repairs");
    assert_eq!(home.remove_marketplace("market").await.unwrap().name, "market");
    assert!(upgrade(&home, "market").await.is_err());
    home.uninstall("one@market").await.unwrap();
    assert!(home.uninstall("one@market").await.is_err());
    let left: Vec<_> =
        snapshot(&top.path().join("home")).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, [top.path().join("home/.lock")]);
}

#[tokio::test]
async fn plugins_of_other_repositories_are_pinned() {
    let top = folder();
    let (market, other) = (top.path().join("market"), top.path().join("other"));
    write(&other.join("deep/.codex-plugin/plugin.json"), r#"{"name": "one"}"#);
    write(&other.join("rest/file"), "not wanted");
    let pinned = commit(&other);
    write(&other.join("deep/later"), "x");
    commit(&other);
    let list = |sha: &str| {
        let text = format!(
            r#"{{"name": "m", "plugins": [{{"name": "one", "source": {{"source": "git-subdir",
            "url": "{}", "path": "./deep", "sha": "{sha}"}}}}]}}"#,
            url(&other)
        );
        write(&market.join(".claude-plugin/marketplace.json"), text);
        read(&market)
    };
    let home = home(&top.path().join("home"), &[]);
    let installed = home.install(&list(&pinned), "one", None).await.unwrap();
    assert_eq!(installed.revision, Some(pinned));
    let files: Vec<_> =
        installed.files.iter().map(|file| file.path.display().to_string()).collect();
    assert_eq!(files, [".codex-plugin/plugin.json"]);
    let error = home.install(&list(&"0".repeat(40)), "one", None).await.unwrap_err();
    assert!(error.to_string().contains("git failed"), "{error}");
    assert_eq!(home.installed().unwrap().all, [installed]);
}

#[tokio::test]
async fn sparse_paths_leave_the_rest_out() {
    let top = folder();
    let root = top.path().join("market");
    marketplace(&root);
    for number in 0..5 {
        write(&root.join(format!("huge{number}")), vec![number; 15 << 20]);
    }
    write(&root.join("plugins-not/x"), "x");
    commit(&root);
    let home = home(&top.path().join("home"), &[]);
    assert!(add(&home, &url(&root), None, &[]).await.is_err(), "too large as a whole");
    let sparse = [".claude-plugin".to_owned(), "plugins".to_owned()];
    let added = add(&home, &url(&root), Some("main"), &sparse).await.unwrap();
    assert!(added.root.join("plugins/one").is_dir() && !added.root.join("plugins-not").exists());
    assert!(add(&home, &url(&root), Some("no-such"), &[]).await.is_err());
}

/// Serves a repository with git's own server, or answers each request with `fixed`.
fn serve(repository: PathBuf, fixed: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let repository = repository.clone();
            std::thread::spawn(move || answer(stream, &repository, fixed));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, repository: &Path, fixed: Option<&str>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(_) if line.trim().is_empty() => break,
            Ok(_) => head.push(line.trim().to_owned()),
            Err(_) => return,
        }
    }
    match fixed {
        // Silent until git is ended, which closes the connection.
        Some("") => drop(reader.read_line(&mut String::new())),
        Some(fixed) => drop(stream.write_all(fixed.as_bytes())),
        None => {
            let body = backend(&head, &mut reader, repository);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n");
            let _ = stream.write_all(&body);
        }
    }
}

/// What `git http-backend` answers: headers and body.
fn backend(head: &[String], reader: &mut impl Read, repository: &Path) -> Vec<u8> {
    let header = |name: &str| {
        let found = head.iter().filter_map(|line| line.split_once(": "));
        let mut found = found.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    let mut request = head.first().map(String::as_str).unwrap_or_default().split(' ');
    let (method, path) = (request.next().unwrap_or_default(), request.next().unwrap_or_default());
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let length = header("content-length").parse().unwrap_or(0);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).unwrap();
    let mut command = Command::new("git");
    command.arg("http-backend").env_clear().env("PATH", common::PATH).env("HOME", "/nonexistent");
    command.env("GIT_PROJECT_ROOT", repository).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("REQUEST_METHOD", method).env("PATH_INFO", path).env("QUERY_STRING", query);
    command.env("CONTENT_TYPE", header("content-type")).env("CONTENT_LENGTH", length.to_string());
    command.env("HTTP_CONTENT_ENCODING", header("content-encoding"));
    command.env("GIT_PROTOCOL", header("git-protocol")).env("REMOTE_ADDR", "127.0.0.1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(&body);
    child.wait_with_output().unwrap().stdout
}

#[tokio::test]
async fn http_servers() {
    let top = folder();
    let root = top.path().join("market");
    marketplace(&root);
    commit(&root);
    let elsewhere = serve(root.join(".git"), None);
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nLocation: {elsewhere}/info/refs?service=git-upload-pack\r\nContent-Length: 0\r\n\r\n"
    );
    let redirect: &'static str = redirect.leak();
    let password = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let prose = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    let home = home(&top.path().join("home"), &[]);
    for (name, fixed) in [("redirect", redirect), ("password", password), ("prose", prose)] {
        let source = serve(PathBuf::new(), Some(fixed));
        let error = add(&home, &source, None, &[]).await.expect_err(name);
        assert!(error.to_string().contains("git failed"), "{name}: {error}");
        assert_eq!(home.marketplaces().unwrap().all, [], "{name}");
    }
    let added = add(&home, &elsewhere, None, &[]).await.unwrap();
    home.install(&read(&added.root), "one", None).await.unwrap();
    // The control: plain git follows the redirect.
    let source = serve(PathBuf::new(), Some(redirect));
    assert!(git(top.path(), &[], &["ls-remote", &source], b"").is_some());
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_on() {
    let top = folder();
    let source = serve(PathBuf::new(), Some(""));
    let sandbox = sandbox::Sandbox::new(sandbox::Config {
        supervisor: sandbox::THIS_PROGRAM.into(),
        layer: sandbox::Layer::Auto,
        descriptors: None,
        kept: Vec::new(),
        limits_by: sandbox::LimitsBy::Auto,
    });
    let environment = vec![("PATH".into(), common::PATH.into())];
    let mut git = plugins::Git::new(std::sync::Arc::new(sandbox), environment);
    git.time_limit = std::time::Duration::from_secs(2);
    let home = plugins::Home::new(top.path().join("home"), git);
    let error = add(&home, &source, None, &[]).await.unwrap_err().to_string();
    assert!(error.contains("did not end within 2 s"), "{error}");
}

const PLACE: &str = "PLUGINS_TEST_TRACED";

/// The traced process. Does nothing in an ordinary run.
#[tokio::test]
async fn traced() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let home = home(&place.join("home"), &[]);
    let added = add(&home, &url(&place.join("market")), None, &[]).await.unwrap();
    home.install(&read(&added.root), "one", None).await.unwrap();
}

#[test]
fn only_git_is_executed_and_only_the_home_is_written() {
    let top = folder();
    let root = top.path().join("market");
    let plugin = marketplace(&root);
    write(&plugin.join("hooks/hooks.json"), r#"{"hooks": {}}"#);
    write(&plugin.join("scripts/run.sh"), "#!/bin/sh\n");
    commit(&root);
    let trace = top.path().join("trace");
    let ran = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=execve,openat,openat2,creat", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "fetch::traced"])
        .env(PLACE, top.path())
        .output();
    let Ok(ran) = ran else {
        println!("skipped: strace is not installed");
        return;
    };
    let text = std::fs::read_to_string(&trace).unwrap_or_default();
    if !text.contains("execve(") {
        println!("skipped: strace cannot trace here: {}", String::from_utf8_lossy(&ran.stderr));
        return;
    }
    if !ran.status.success() {
        // Namespaces may be refused while it is traced.
        println!(
            "skipped: the install does not work under strace: {}",
            String::from_utf8_lossy(&ran.stdout)
        );
        return;
    }
    let place = top.path().display().to_string();
    for line in text.lines().filter(|line| line.contains(" = ") && !line.contains(" = -1")) {
        let path = line.split('"').nth(1).unwrap_or_default();
        // The first argument is the program.
        assert!(!line.contains("execve(") || !path.starts_with(&place), "{line}");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| line.contains(flag));
        if writes && line.contains("\"/") {
            let own = ["/dev/", "/proc/", "/newroot/", "/tmp/"]
                .iter()
                .any(|start| path.starts_with(start));
            assert!(own || path.starts_with(&format!("{place}/home")), "{line}");
        }
    }
}
