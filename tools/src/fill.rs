//! `cargo xtask fill`: homes with many stored threads, or with a very long one, to measure and to
//! try things on. Written through the store itself, so that they are what a server leaves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use serde_json::json;
use store::{Fragment, SqliteConfig, Store, ThreadRecord, TurnOutcome, Write};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The home folder to add to; created when it does not exist
    home: PathBuf,
    /// Add this many threads of one turn
    #[arg(long, value_name = "N", default_value_t = 1000)]
    threads: u64,
    /// Add one thread with this many turns instead
    #[arg(long, value_name = "N", conflicts_with = "threads")]
    turns: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let home = &options.home;
    let fill = options.turns.map_or(Fill::Threads(options.threads), Fill::Turns);
    std::fs::create_dir_all(home)?;
    let home = home.canonicalize()?;
    let ids = write(&home, &home, fill)?;
    println!("{} threads; the last one is {}", ids.len(), ids.last().map_or("", String::as_str));
    Ok(())
}

/// The thing to write.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    /// This many threads of one turn.
    Threads(u64),
    /// One thread with this many turns.
    Turns(u64),
}

/// Writes threads that work in `work` into `home`; returns their ids.
pub(crate) fn write(home: &Path, work: &Path, fill: Fill) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let owner = format!("fill-{}", std::process::id());
        let store = Store::open(SqliteConfig::new(home, 0, owner)).await?;
        let mut ids = Vec::new();
        match fill {
            Fill::Threads(count) => {
                let mut writes = Vec::new();
                for number in 0..count {
                    let id = id(number);
                    writes.push(create(&id, number, work));
                    writes.extend(turn(&id, number));
                    ids.push(id);
                    if writes.len() > 2000 || number + 1 == count {
                        store.commit(std::mem::take(&mut writes)).await?;
                    }
                }
            }
            Fill::Turns(count) => {
                let id = id(0);
                store.commit(vec![create(&id, 0, work)]).await?;
                for number in 0..count {
                    store.commit(turn(&id, number)).await?;
                }
                ids.push(id);
            }
        }
        store.close().await?;
        Ok(ids)
    })
}

/// Looks like the program's own ids.
fn id(number: u64) -> String {
    format!("01a00000-{:04x}-7000-8000-{:012x}", number >> 16 & 0xffff, number)
}

fn create(id: &str, number: u64, work: &Path) -> Write {
    let work = work.display().to_string();
    let at = 1_700_000_000 + i64::try_from(number).unwrap_or(0);
    let settings = json!({ "model": "scripted", "provider": "scripted", "cwd": work,
        "approval": "never", "sandbox": "dangerFullAccess", "mode": "default" });
    Write::CreateThread(Box::new(ThreadRecord {
        id: id.to_owned(),
        session_id: id.to_owned(),
        preview: preview(number),
        model_provider: "scripted".to_owned(),
        model: "scripted".to_owned(),
        cwd: work,
        created_at: at,
        updated_at: at,
        source_kind: "editor".to_owned(),
        source: "\"editor\"".to_owned(),
        settings: settings.to_string(),
        cli_version: "0.0.0".to_owned(),
        ..ThreadRecord::default()
    }))
}

fn preview(number: u64) -> String {
    const WORDS: [&str; 8] = [
        "parser",
        "release notes",
        "flaky test",
        "login page",
        "cache",
        "migration",
        "docs",
        "API",
    ];
    let word = usize::try_from(number).unwrap_or(0) % WORDS.len();
    format!("Request {number}: please have a look at the {} and fix it", WORDS[word])
}

/// A turn with a question and an answer, as a server stores it.
fn turn(thread: &str, number: u64) -> Vec<Write> {
    let turn = format!("01a00000-0000-7001-8000-{number:012x}");
    let at = 1_700_000_000_000 + i64::try_from(number).unwrap_or(0);
    let question = preview(number);
    let answer = format!("Done with number {number}. {}", "All tests pass now. ".repeat(4));
    let item = |kind: &str, item: String, payload: serde_json::Value| Write::PutItem {
        thread: thread.to_owned(),
        turn: turn.clone(),
        item,
        kind: kind.to_owned(),
        status: None,
        payload: payload.to_string(),
    };
    let said = |role: &str, kind: &str, text: &str, mark| Fragment {
        text: Arc::from(
            json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
                .to_string(),
        ),
        mark,
    };
    let ids = [format!("01a00000-0000-7002-8000-{number:012x}"), format!("msg-{number}")];
    let user = json!({ "type": "userMessage", "id": ids[0],
        "content": [{ "type": "text", "text": question }] });
    let agent = json!({ "type": "agentMessage", "id": ids[1], "text": answer });
    vec![
        Write::StartTurn { thread: thread.to_owned(), turn: turn.clone(), started_at_ms: at },
        item("userMessage", ids[0].clone(), user),
        item("agentMessage", ids[1].clone(), agent),
        Write::AppendHistory {
            thread: thread.to_owned(),
            turn: Some(turn.clone()),
            fragments: vec![
                said("user", "input_text", &question, 2),
                said("assistant", "output_text", &answer, 3),
            ],
            anew: false,
        },
        Write::FinishTurn {
            thread: thread.to_owned(),
            turn: turn.clone(),
            outcome: TurnOutcome::Completed,
            error: None,
            completed_at_ms: at + 1,
            duration_ms: 1,
            usage: None,
        },
    ]
}
