//! What lines of the log look like, which are written, and what becomes of a full file.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::format::MAX_LINE;

fn logging(filter: &str, format: &str) -> Logging {
    Logging::from_settings(Some(filter), Some(format), LevelFilter::WARN).unwrap()
}

fn epoch() -> Clock {
    Arc::new(|| Timestamp::UNIX_EPOCH)
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What `emit` leaves in a log of these settings.
fn logged(filter: &str, format: &str, emit: impl FnOnce()) -> String {
    let memory = Memory::default();
    let writer = memory.clone();
    let subscriber = logging(filter, format).subscriber(epoch(), move || writer.clone());
    tracing::subscriber::with_default(subscriber, emit);
    String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn text_is_one_line_each() {
    let check = |emit: fn(), expected: &str| assert_eq!(logged("", "", emit), expected);
    check(
        || tracing::warn!(target: "server::store", "it failed\nbadly"),
        "1970-01-01T00:00:00.000Z WARN server::store: it failed ⏎ badly\n",
    );
    check(
        || {
            let _thread = tracing::error_span!("thread", thread = "t1").entered();
            let _turn = tracing::error_span!("turn", turn = 2).entered();
            tracing::error!(target: "model", status = 500, "it is down");
        },
        "1970-01-01T00:00:00.000Z ERROR model: it is down status=500 turn=2 thread=\"t1\"\n",
    );
    let long = logged("", "", || tracing::warn!("{}", "é".repeat(MAX_LINE)));
    assert!((MAX_LINE - 2..=MAX_LINE + 1).contains(&long.len()), "{}", long.len());
}

#[test]
fn json_is_one_object_a_line_with_its_spans() {
    let text = logged("info", "json", || {
        let thread = tracing::error_span!("thread", thread = "t1");
        thread.in_scope(|| tracing::info!(target: "server::turn", items = 3, "it\nended"));
    });
    assert_eq!(text.matches('\n').count(), 1);
    let line: Value = serde_json::from_str(&text).unwrap();
    let expected = json!({
        "timestamp": "1970-01-01T00:00:00.000Z",
        "level": "INFO",
        "target": "server::turn",
        "message": "it\nended",
        "items": 3,
        "spans": [{ "name": "thread", "thread": "t1" }],
    });
    assert_eq!(line, expected);
}

#[test]
fn the_filter_names_levels_and_targets() {
    let check = |filter: &str, expected: [bool; 3]| {
        let text = logged(filter, "", || {
            tracing::warn!(target: "server::notify", "first");
            tracing::debug!(target: "server::notify", "second");
            tracing::debug!(target: "model", "third");
        });
        assert_eq!(["first", "second", "third"].map(|word| text.contains(word)), expected);
    };
    check("", [true, false, false]);
    check("off", [false; 3]);
    check("debug", [true; 3]);
    check("server=debug", [true, true, false]);
    check("warn,model=debug", [true, false, true]);
}

#[test]
fn a_level_without_a_target_leaves_libraries_at_warn() {
    let check = |filter: &str, expected: &str| {
        let text = logged(filter, "", || {
            tracing::warn!(target: "hyper_util::client", "a");
            tracing::debug!(target: "hyper_util::client", "b");
            tracing::debug!(target: "server::notify", "c");
            tracing::debug!(target: "server::turn", "d");
            tracing::debug!(target: "gateway_store", "e");
            tracing::trace!(target: "gateway_store", "f");
        });
        let seen: String = text.lines().filter_map(|line| line.chars().last()).collect();
        assert_eq!(seen, expected, "{filter}");
    };
    check("debug", "acde");
    check("trace", "acdef");
    check("error", "");
    check("off", "");
    check("debug,hyper_util=debug", "abcde");
    check("debug,hyper_util=off", "cde");
    check("debug,server=warn", "ae");
    check("debug,server::notify=warn", "ade");
    check("debug,gateway=trace", "acdef");
    check("server=debug", "cd");
}

#[test]
fn a_target_of_the_text_log_is_a_filter_for_its_line() {
    let emit = || tracing::warn!(target: "server::login_shell", "it failed");
    let line = logged("", "", emit);
    let target = line.split(' ').nth(2).unwrap().strip_suffix(':').unwrap();
    assert_eq!(logged(&format!("{target}=warn"), "", emit), line);
    assert_eq!(logged(&format!("{target}=error"), "", emit), "");
}

/// A crate that is added and missing in the list would stay silent at `RUST_LOG=debug`.
#[test]
fn every_crate_of_the_program_is_its_own() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut names: Vec<String> = std::fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| path.file_name().unwrap().to_str().unwrap().replace('-', "_"))
        // The crate's program is called `agentd`.
        .map(|name| if name == "cli" { "agentd".to_owned() } else { name })
        .collect();
    names.sort();
    assert_eq!(names, OWN_TARGETS);
}

#[test]
fn invalid_settings_are_errors() {
    let error = |filter, format| {
        Logging::from_settings(Some(filter), Some(format), LevelFilter::WARN).unwrap_err()
    };
    let text = error("server=loud", "").to_string();
    assert!(
        text.contains("RUST_LOG: `server=loud`") && text.contains("warn,server=debug"),
        "{text}"
    );
    let text = error("", "xml").to_string();
    assert!(text.contains("LOG_FORMAT: `xml`") && text.contains("`json`"), "{text}");
}

#[test]
fn files_are_created_with_the_first_line_and_rotated_when_full() {
    const MAX_BYTES: u64 = 10 * 1024 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("deep/log");
    let file = LogFile::default();
    let subscriber = logging("", "").subscriber(epoch(), file.clone());
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!("dropped: the folder is not known");
        file.set_folder({
            let dir = dir.clone();
            move || dir.clone()
        });
        tracing::info!("not enabled");
        assert!(!dir.exists());
        tracing::warn!(target: "store", "it failed\nbadly");
    });
    let text = std::fs::read_to_string(dir.join("agentd.log")).unwrap();
    assert_eq!(text, "1970-01-01T00:00:00.000Z WARN store: it failed ⏎ badly\n");
    let long = "x".repeat(MAX_LINE);
    for _ in 0..5 * MAX_BYTES / MAX_LINE as u64 {
        (&file).write_all(long.as_bytes()).unwrap();
    }
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["agentd.1.log", "agentd.2.log", "agentd.3.log", "agentd.log"]);
    for name in names {
        assert!(dir.join(name).metadata().unwrap().len() <= MAX_BYTES);
    }
}
