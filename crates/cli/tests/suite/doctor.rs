//! `agentd doctor --bundle` as a user runs it: what is in the file, what is not, and which files it never touches.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common::{TestEnvironment, stderr, stdout};

const SECRET: &str = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Njc4OTA";

/// The files of a bundle by name.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let file = flate2::read::GzDecoder::new(fs::File::open(path).unwrap());
    let mut archive = tar::Archive::new(file);
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name.strip_prefix("agentd-bundle/").unwrap().to_owned(), text)
    });
    files.collect()
}

#[test]
fn a_bundle_has_what_support_needs_and_no_secrets() {
    let env = TestEnvironment::new();
    let log = env.home().join("log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("agentd.log"), format!("started\napi_key={SECRET}\nended\n")).unwrap();
    let config = format!(
        "model = \"gpt-5\"\n[model_providers.mine]\nname = \"m\"\nbase_url = \"https://u:{SECRET}@h/v1\"\n\
         experimental_bearer_token = \"plain words\"\nhttp_headers = {{ x-team = \"very blue\" }}\n\
         [features]\ngoals = true\n"
    );
    fs::write(env.home().join("config.toml"), config).unwrap();
    let output = env.run(&["doctor", "--bundle", "b.tar.gz", "--yes"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let path = env.work().join("b.tar.gz");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpacked(&path);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "configuration.toml",
        "doctor.txt",
        "features.txt",
        "log/agentd.log",
        "sandbox.txt",
        "stores.txt",
        "system.txt",
    ];
    assert_eq!(names, expected);
    for name in expected {
        assert!(stdout(&output).contains(&format!("  {name} ")), "{}", stdout(&output));
    }
    for (name, text) in &files {
        for hidden in [SECRET, "plain words", "very blue"] {
            assert!(!text.contains(hidden), "{name}: {text}");
        }
    }
    for (name, part) in [
        ("configuration.toml", "model = \"gpt-5\"  # "),
        ("configuration.toml", "config.toml:1"),
        ("doctor.txt", "configuration: can be used"),
        ("features.txt", "goals = true"),
        ("log/agentd.log", "started\napi_key=[redacted]\nended\n"),
        ("sandbox.txt", "seccomp"),
        ("stores.txt", "config.toml: "),
        ("stores.txt", "log: folder, 1 files, "),
        ("system.txt", "agentd "),
        ("system.txt", "AGENT_HOME"),
    ] {
        assert!(files[name].contains(part), "{name}: {part}:\n{}", files[name]);
    }
    assert!(stdout(&output).contains("1 secret removed"), "{}", stdout(&output));
}

#[test]
fn nothing_is_written_unasked_or_over_another_file() {
    let env = TestEnvironment::new();
    fs::write(env.work().join("taken"), "mine").unwrap();
    fs::write(env.work().join("target"), "mine").unwrap();
    symlink("target", env.work().join("link")).unwrap();
    symlink("nowhere", env.work().join("dangling")).unwrap();
    fs::create_dir(env.work().join("folder")).unwrap();
    let before = fs::read_dir(env.work()).unwrap().count();
    for (arguments, why) in [
        (vec!["doctor", "--bundle", "new"], "add `--yes` to write the bundle"),
        (vec!["doctor", "--bundle"], "add `--yes` to write the bundle"),
        (vec!["doctor", "--bundle", "taken", "--yes"], "exists and is not replaced"),
        (vec!["doctor", "--bundle", "link", "--yes"], "exists and is not replaced"),
        (vec!["doctor", "--bundle", "dangling", "--yes"], "exists and is not replaced"),
        (vec!["doctor", "--bundle", "folder", "--yes"], "is a folder: name a file in it"),
        (vec!["doctor", "--bundle", "none/b", "--yes"], "cannot write"),
        (vec!["doctor", "--yes"], "--bundle"),
    ] {
        let output = env.run(&arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read_dir(env.work()).unwrap().count(), before);
    assert_eq!(fs::read_to_string(env.work().join("taken")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(env.work().join("target")).unwrap(), "mine");
}

#[test]
fn a_hostile_home_is_described_within_bounds() {
    let env = TestEnvironment::new();
    let log = env.home().join("log");
    fs::create_dir_all(&log).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        log.join("agentd.1.log"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("/etc/passwd", log.join("agentd.2.log")).unwrap();
    symlink("/", env.home().join("all")).unwrap();
    // Ten gigabytes, most of which are a hole.
    let mut huge = fs::File::create(log.join("agentd.log")).unwrap();
    huge.seek(SeekFrom::Start(10 << 30)).unwrap();
    huge.write_all(format!("\napi_key={SECRET}\nthe end\n").as_bytes()).unwrap();
    fs::write(env.home().join("a\u{1b}[2J\nb"), "").unwrap();
    fs::write(env.home().join("config.toml"), "model = [broken").unwrap();
    let output = env.run(&["doctor", "--bundle", "b.tar.gz", "--yes"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let files = unpacked(&env.work().join("b.tar.gz"));
    assert!(files["log/agentd.log"].ends_with("api_key=[redacted]\nthe end\n"));
    assert!(files["log/agentd.log"].len() < 4 << 20);
    for (name, kind) in [("log/agentd.1.log", "FIFO"), ("log/agentd.2.log", "link")] {
        let text = &files[name];
        assert!(text.starts_with("not read: ") && text.contains(kind), "{text}");
        assert!(!text.contains("root:"), "{text}");
    }
    assert!(files["configuration.toml"].starts_with("the configuration cannot be used"));
    let stores = &files["stores.txt"];
    assert!(stores.contains("  all: a symbolic link\n"), "{stores}");
    assert!(
        !stores.contains('\u{1b}') && stores.contains("a\\u{1b}[2J\\nb: 0 bytes\n"),
        "{stores}"
    );
}
