//! Every place that reads a file named by a client, the model or a workspace, with every kind of
//! file that could block a careless reader: the read is bounded or fails with a clear error, and
//! the requests of another client are answered meanwhile. `-- --nocapture` prints the table.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment, TestServer};

use crate::{calls, patches, says, tool_outputs};

/// A slower answer has waited for the file.
const ANSWERED: Duration = Duration::from_secs(10);
/// A generous bound for another client's request; the table shows the actual times.
const UNDISTURBED: Duration = Duration::from_secs(2);

/// A kind of file, and the expected error.
const KINDS: [(&str, &str); 9] = [
    ("FIFO", "a named pipe (FIFO)"),
    ("socket", "a socket"),
    ("device", "a device"),
    ("folder", "a folder"),
    ("dangling link", "No such file"),
    ("link to FIFO", "a named pipe (FIFO)"),
    ("10 GB sparse", "larger than"),
    ("kernel's", "a file that the kernel makes (`proc`)"),
    ("growing", ""),
];

/// A file of a kind; removed when dropped.
struct SpecialFile {
    path: PathBuf,
    beside: PathBuf,
    _socket: Option<UnixListener>,
    growing: Option<(Arc<AtomicBool>, std::thread::JoinHandle<()>)>,
}

impl SpecialFile {
    fn new(kind: &str, path: &Path) -> Self {
        let parent = path.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        remove(path);
        let beside = parent.join("beside.fifo");
        let mut special = Self { path: path.to_owned(), beside, _socket: None, growing: None };
        match kind {
            "FIFO" => fifo(path),
            "socket" => special._socket = Some(UnixListener::bind(path).unwrap()),
            "device" => symlink("/dev/zero", path).unwrap(),
            "folder" => fs::create_dir(path).unwrap(),
            "kernel's" => symlink("/proc/self/environ", path).unwrap(),
            "dangling link" => symlink("nowhere", path).unwrap(),
            "link to FIFO" => {
                fifo(&special.beside);
                symlink(&special.beside, path).unwrap();
            }
            "10 GB sparse" => fs::File::create(path).unwrap().set_len(10 << 30).unwrap(),
            _ => special.growing = Some(grow(path)),
        }
        special
    }
}

impl Drop for SpecialFile {
    fn drop(&mut self) {
        if let Some((stop, writer)) = self.growing.take() {
            stop.store(true, Ordering::Relaxed);
            writer.join().unwrap();
        }
        remove(&self.path);
        remove(&self.beside);
    }
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
}

fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Appends lines until it is stopped or reaches a bound.
fn grow(path: &Path) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    const MOST: usize = 64 << 20;
    let mut file = fs::File::create(path).unwrap();
    let lines = "# growing\n".repeat(6_000);
    file.write_all(lines.as_bytes()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let writer = std::thread::spawn(move || {
        let mut written = 0;
        while !stopped.load(Ordering::Relaxed) && written < MOST {
            file.write_all(lines.as_bytes()).unwrap();
            written += lines.len();
            std::thread::yield_now();
        }
    });
    (stop, writer)
}

/// The result of an attack.
enum Outcome {
    /// Refused with this message.
    Refused(String),
    /// Continued; holds the text about the file that the client or the model received, if any.
    Continued(String),
}

use Outcome::{Continued, Refused};

/// A place that reads files.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FileUse {
    LocalImage,
    ViewImage,
    ProjectDoc,
    GitFile,
    GitHead,
    GitConfig,
    Instructions,
    CompactPrompt,
    ModelCatalog,
    ProjectConfig,
    Rules,
    Patch,
    JobInput,
    ThreadFile,
    ReviewedFile,
    Script,
    PromptHistory,
}

use FileUse::*;

const PLACES: [FileUse; 17] = [
    LocalImage,
    ViewImage,
    ProjectDoc,
    GitFile,
    GitHead,
    GitConfig,
    Instructions,
    CompactPrompt,
    ModelCatalog,
    ProjectConfig,
    Rules,
    Patch,
    JobInput,
    ThreadFile,
    ReviewedFile,
    Script,
    PromptHistory,
];

impl FileUse {
    /// The path of the file.
    fn path(self, env: &TestEnvironment) -> PathBuf {
        let work = env.workspace();
        match self {
            ProjectDoc => work.join("AGENTS.md"),
            GitFile => work.join(".git"),
            GitHead => work.join(".git/HEAD"),
            GitConfig => work.join(".git/config"),
            ProjectConfig => work.join(".agent/config.toml"),
            Rules => work.join(".agent/rules/x.rules"),
            PromptHistory => env.home().join("history.jsonl"),
            _ => work.join("victim.png"),
        }
    }

    /// Whether the work continues without the file.
    fn goes_on(self) -> bool {
        matches!(self, ProjectDoc | GitFile | GitHead | GitConfig | ReviewedFile | PromptHistory)
            || matches!(self, ProjectConfig | Rules)
    }

    async fn attack(self, env: &TestEnvironment, server: &TestServer, path: &Path) -> Outcome {
        let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
        let file = path.to_str().unwrap();
        match self {
            LocalImage => {
                let thread = peer.start_thread(json!({})).await;
                let input = json!([{ "type": "localImage", "path": file }]);
                refusal(&mut peer, "turn/start", json!({ "threadId": thread, "input": input }))
                    .await
            }
            ViewImage | Patch | JobInput => {
                let thread = peer.start_thread(json!({})).await;
                peer.run_turn(&thread, &format!("{self:?}")).await;
                Refused(tool_outputs(env).pop().unwrap_or_default())
            }
            Instructions => {
                let config = json!({ "model_instructions_file": file });
                refusal(&mut peer, "thread/start", json!({ "config": config })).await
            }
            CompactPrompt => {
                let config = json!({ "experimental_compact_prompt_file": file });
                refusal(&mut peer, "thread/start", json!({ "config": config })).await
            }
            ModelCatalog => {
                let config = json!({ "model_catalog_json": file });
                refusal(&mut peer, "thread/start", json!({ "config": config })).await
            }
            ThreadFile => {
                let params = json!({ "threadId": "", "path": file });
                refusal(&mut peer, "thread/resume", params).await
            }
            ReviewedFile => {
                let thread = peer.start_thread(json!({})).await;
                let target = json!({ "type": "uncommittedChanges" });
                let params = json!({ "threadId": thread, "target": target });
                let started = peer.call("review/start", params).await;
                let turn = started["turn"]["id"].as_str().unwrap().to_owned();
                assert_eq!(peer.turn_end(&turn).await["status"], "completed");
                Continued(String::new())
            }
            Script => {
                let params = json!({ "modelProvider": "offline", "model": file });
                let thread = peer.start_thread(params).await;
                let turn = peer.run_turn(&thread, "Hi.").await;
                Refused(turn["error"]["message"].as_str().unwrap_or_default().to_owned())
            }
            _ => {
                let answer = peer.try_call("thread/start", json!({})).await;
                let thread = match answer {
                    Err(fault) => return Refused(fault.message),
                    Ok(started) => started["thread"]["id"].as_str().unwrap().to_owned(),
                };
                assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
                peer.settled().await;
                let notice = peer.transcript().iter().filter(|line| line.contains("configWarning"));
                Continued(notice.cloned().collect::<Vec<_>>().join("\n"))
            }
        }
    }
}

async fn refusal(peer: &mut Peer, method: &str, params: Value) -> Outcome {
    match peer.try_call(method, params).await {
        Err(fault) => Refused(fault.message),
        Ok(answer) => Continued(answer.to_string()),
    }
}

/// Sends requests until the attack is over, at least 20; returns the duration of each.
async fn ask_meanwhile(other: &mut Peer, over: &AtomicBool) -> Vec<Duration> {
    let mut times = Vec::new();
    while times.len() < 20 || !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let method = if times.len() % 2 == 0 { "thread/list" } else { "model/list" };
        other.try_call(method, json!({})).await.ok();
        times.push(asked.elapsed());
    }
    times
}

/// An environment whose model does what `file_use` requires.
async fn env(file_use: FileUse) -> TestEnvironment {
    let mut responses = vec![says("Done.")];
    match file_use {
        ViewImage => responses.insert(0, calls("view_image", json!({ "path": "victim.png" }))),
        Patch => {
            responses.insert(0, patches("*** Update File: victim.png\n@@\n-old\n+new"));
        }
        JobInput => {
            let job = json!({ "csv_path": "victim.png", "instruction": "Do {nothing}." });
            responses.insert(0, calls("spawn_agents_on_csv", job));
        }
        _ => {}
    }
    let script = json!({ "on_exhausted": "repeat_last", "responses": responses });
    let env = TestEnvironment::with_script(&script).await;
    let config = fs::read_to_string(env.home().join("config.toml")).unwrap();
    let trusted = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", env.workspace());
    env.write_config(&format!("{config}{trusted}"));
    if file_use == ReviewedFile {
        let mut git = std::process::Command::new("git");
        assert!(git.args(["init", "-q"]).arg(env.workspace()).status().unwrap().success());
    }
    env
}

fn check(file_use: FileUse, kind: &str, said: &str, outcome: &Outcome) {
    let special = !matches!(kind, "dangling link" | "10 GB sparse" | "growing");
    match outcome {
        Refused(why) => {
            assert!(
                !file_use.goes_on() || file_use == ProjectConfig,
                "{file_use:?}, {kind}: {why}"
            );
            assert!(!why.is_empty(), "{file_use:?}, {kind}: no reason");
            assert!(!special || why.contains(said), "{file_use:?}, {kind}: {why}");
            let is_long = ["larger than", "more than", "longer than", "at most"];
            let is_reported = is_long.iter().any(|words| why.contains(words));
            assert!(kind != "10 GB sparse" || is_reported, "{file_use:?}, {kind}: {why}");
        }
        Continued(notice) => {
            // The text that was read from a growing file is within the bound.
            let is_read = kind == "growing" && matches!(file_use, Instructions | CompactPrompt);
            assert!(file_use.goes_on() || is_read, "{file_use:?}, {kind} was accepted: {notice}");
            let is_reported = matches!(file_use, ProjectDoc | Rules);
            // A link is judged by where it leads.
            let leads_out = file_use == ProjectDoc && notice.contains("outside of the project");
            assert!(
                !special || !is_reported || leads_out || notice.contains(said),
                "{file_use:?}, {kind}: {notice}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kind_of_file_blocks_the_server() {
    let mut all = Vec::new();
    println!(
        "{:<15} {:<14} {:<9} {:>9} {:>9} {:>9}",
        "place", "file", "outcome", "took", "p99", "most"
    );
    for file_use in PLACES {
        let env = env(file_use).await;
        let server = env.start();
        let mut other = server.connect().await;
        for (kind, said) in KINDS {
            let special = SpecialFile::new(kind, &file_use.path(&env));
            let over = AtomicBool::new(false);
            let begun = Instant::now();
            let attack = async {
                let attacked = file_use.attack(&env, &server, &special.path);
                let outcome = tokio::time::timeout(ANSWERED, attacked).await;
                over.store(true, Ordering::Relaxed);
                (outcome, begun.elapsed())
            };
            let ((outcome, took), mut times) =
                tokio::join!(attack, ask_meanwhile(&mut other, &over));
            let outcome = outcome.unwrap_or_else(|_| panic!("{file_use:?}, {kind}: no answer"));
            check(file_use, kind, said, &outcome);
            times.sort_unstable();
            let (p99, most) = (times[times.len() * 99 / 100], times[times.len() - 1]);
            let name = if matches!(outcome, Refused(_)) { "refused" } else { "went on" };
            println!(
                "{:<15} {kind:<14} {name:<9} {took:>9.1?} {p99:>9.1?} {most:>9.1?}",
                format!("{file_use:?}")
            );
            assert!(most < UNDISTURBED, "{file_use:?}, {kind}: another client waited {most:?}");
            all.append(&mut times);
        }
        server.stop().await;
    }
    all.sort_unstable();
    let (p99, most) = (all[all.len() * 99 / 100], all[all.len() - 1]);
    println!("requests of another client: {}, p99 {p99:.1?}, most {most:.1?}", all.len());
}
