//! A thread as lines of JSON, to move it from one home to another: what it shows, what the model
//! sees, and its settings. Forks come out whole, without their parents.
//!
//! The first line is the thread. Then come its places in order: a line for each turn, followed by
//! lines for its items and its part of the history. History that was added outside of any turn
//! follows a line with no turn.

use std::io::BufRead;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    Fragment, ItemRow, Place, Store, StoreError, ThreadChanges, ThreadRecord, TurnOutcome, TurnRow,
    TurnStatus, Write,
};

/// Version of the lines' form.
const FORMAT: u32 = 1;

/// Places that are read at once.
const BATCH: usize = 64;

const NO_HEAD: &str = "the first line, and no other, must be the thread";

/// Why a thread could not be read from lines.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A line is not what it should be.
    #[error("line {line}: {why}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The lines cannot be read.
    #[error("the lines cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// The thread cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Line {
    Thread(Box<Head>),
    Turn {
        /// Absent for what was added outside of a turn.
        turn: Option<Turn>,
    },
    Item {
        id: String,
        kind: String,
        status: Option<String>,
        item: Box<RawValue>,
    },
    History {
        mark: u8,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        anew: bool,
        item: Box<RawValue>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    format: u32,
    id: String,
    session_id: String,
    forked_from_id: Option<String>,
    preview: String,
    name: Option<String>,
    model_provider: String,
    model: String,
    cwd: String,
    created_at: i64,
    updated_at: i64,
    source_kind: String,
    source: Box<RawValue>,
    archived: bool,
    git_info: Option<Box<RawValue>>,
    settings: Box<RawValue>,
    cli_version: String,
    token_usage: Option<Box<RawValue>>,
    extra: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    id: String,
    status: Status,
    started_at_ms: i64,
    completed_at_ms: Option<i64>,
    duration_ms: Option<i64>,
    error: Option<Box<RawValue>>,
    usage: Option<Box<RawValue>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    InProgress,
    Completed,
    Interrupted,
    Failed,
}

/// Gives a thread to `write`, line by line without line breaks; reads as it goes, so that a long
/// thread takes little memory.
///
/// # Errors
/// The thread is not stored, the store cannot be read, or `write` fails.
pub async fn export(
    store: &Store,
    thread: &str,
    mut write: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), ImportError> {
    let found = store.thread(thread).await?;
    let record =
        found.ok_or_else(|| StoreError::ThreadNotFound { thread: thread.to_owned() })?.record;
    write(&line(&head(record)?)?)?;
    let mut behind = None;
    loop {
        let places = store.places(thread, behind, BATCH).await?;
        let Some(last) = places.last() else { return Ok(()) };
        behind = Some(last.ordinal);
        for place in places {
            for part in parts(place)? {
                write(&line(&part)?)?;
            }
        }
    }
}

/// Id of the thread that the lines hold; only the first of them is read.
///
/// # Errors
/// [`ImportError::Line`] when the first line is no thread.
pub fn thread_id(lines: impl BufRead) -> Result<String, ImportError> {
    for (at, text) in lines.lines().enumerate() {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let bad = |why: String| ImportError::Line { line: at + 1, why };
        return match serde_json::from_str(&text).map_err(|error| bad(error.to_string()))? {
            Line::Thread(head) => Ok(head.id),
            _ => Err(bad(NO_HEAD.to_owned())),
        };
    }
    Err(ImportError::Line { line: 1, why: "there is no thread".to_owned() })
}

/// Stores the thread that the lines hold, and gives its id: the one in the lines, or `new_id`, as
/// a fork of the one in the lines. All of it is stored, or nothing.
///
/// # Errors
/// [`ImportError::Line`]; a thread with this id is stored already.
pub async fn import(
    store: &Store,
    lines: impl BufRead,
    new_id: Option<String>,
) -> Result<String, ImportError> {
    let mut reader = Reader { id: String::new(), writes: Vec::new(), turn: None, updated_at: 0 };
    for (at, text) in lines.lines().enumerate() {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let bad = |why: String| ImportError::Line { line: at + 1, why };
        let line: Line = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        reader.take(line, new_id.as_deref()).map_err(bad)?;
    }
    if reader.writes.is_empty() {
        return Err(ImportError::Line { line: 1, why: "there is no thread".to_owned() });
    }
    reader.finish_turn();
    let changes = ThreadChanges { updated_at: Some(reader.updated_at), ..ThreadChanges::default() };
    let (thread, changes) = (reader.id.clone(), Box::new(changes));
    reader.writes.push(Write::UpdateThread { thread, changes });
    store.commit(reader.writes).await?;
    store.release(&reader.id).await?;
    Ok(reader.id)
}

struct Reader {
    id: String,
    writes: Vec<Write>,
    turn: Option<Turn>,
    updated_at: i64,
}

impl Reader {
    fn take(&mut self, line: Line, new_id: Option<&str>) -> Result<(), String> {
        if matches!(line, Line::Thread(_)) != self.writes.is_empty() {
            return Err(NO_HEAD.to_owned());
        }
        let thread = self.id.clone();
        match line {
            Line::Thread(head) => self.begin(*head, new_id)?,
            Line::Turn { turn } => {
                self.finish_turn();
                if let Some(turn) = &turn {
                    let (turn, started_at_ms) = (turn.id.clone(), turn.started_at_ms);
                    self.writes.push(Write::StartTurn { thread, turn, started_at_ms });
                }
                self.turn = turn;
            }
            Line::Item { id, kind, status, item } => {
                let Some(turn) = &self.turn else {
                    return Err("an item needs a turn before it".to_owned());
                };
                self.writes.push(Write::PutItem {
                    thread,
                    turn: turn.id.clone(),
                    item: id,
                    kind,
                    status,
                    payload: item.get().to_owned(),
                });
            }
            Line::History { mark, anew, item } => {
                let turn = self.turn.as_ref().map(|turn| turn.id.clone());
                let fragments = vec![Fragment { text: item.get().into(), mark }];
                self.writes.push(Write::AppendHistory { thread, turn, fragments, anew });
            }
        }
        Ok(())
    }

    fn begin(&mut self, head: Head, new_id: Option<&str>) -> Result<(), String> {
        let Head {
            format,
            id,
            session_id,
            forked_from_id,
            preview,
            name,
            model_provider,
            model,
            cwd,
            created_at,
            updated_at,
            source_kind,
            source,
            archived,
            git_info,
            settings,
            cli_version,
            token_usage,
            extra,
        } = head;
        if format != FORMAT {
            return Err(format!("form {format} is not known; this program knows form {FORMAT}"));
        }
        let json = |value: Option<Box<RawValue>>| value.map(|json| json.get().to_owned());
        self.id = new_id.map_or_else(|| id.clone(), str::to_owned);
        self.updated_at = updated_at;
        let record = ThreadRecord {
            session_id,
            id: self.id.clone(),
            forked_from_id: if self.id == id { forked_from_id } else { Some(id) },
            preview,
            name,
            model_provider,
            model,
            cwd,
            created_at,
            updated_at,
            source_kind,
            source: source.get().to_owned(),
            archived,
            git_info: json(git_info),
            settings: settings.get().to_owned(),
            cli_version,
            token_usage: json(token_usage),
            extra: json(extra),
        };
        self.writes.push(Write::CreateThread(Box::new(record)));
        Ok(())
    }

    /// A turn that ran when it was written out will not go on here.
    fn finish_turn(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let Turn { id, status, started_at_ms, completed_at_ms, duration_ms, error, usage } = turn;
        let json = |value: Option<Box<RawValue>>| value.map(|json| json.get().to_owned());
        self.writes.push(Write::FinishTurn {
            thread: self.id.clone(),
            turn: id,
            outcome: match status {
                Status::Completed => TurnOutcome::Completed,
                Status::Failed => TurnOutcome::Failed,
                Status::Interrupted | Status::InProgress => TurnOutcome::Interrupted,
            },
            error: json(error),
            completed_at_ms: completed_at_ms.unwrap_or(started_at_ms),
            duration_ms: duration_ms.unwrap_or(0),
            usage: json(usage),
        });
    }
}

fn head(record: ThreadRecord) -> Result<Line, ImportError> {
    Ok(Line::Thread(Box::new(Head {
        format: FORMAT,
        source: raw(record.source)?,
        git_info: record.git_info.map(raw).transpose()?,
        settings: raw(record.settings)?,
        token_usage: record.token_usage.map(raw).transpose()?,
        extra: record.extra.map(raw).transpose()?,
        id: record.id,
        session_id: record.session_id,
        forked_from_id: record.forked_from_id,
        preview: record.preview,
        name: record.name,
        model_provider: record.model_provider,
        model: record.model,
        cwd: record.cwd,
        created_at: record.created_at,
        updated_at: record.updated_at,
        source_kind: record.source_kind,
        archived: record.archived,
        cli_version: record.cli_version,
    })))
}

fn parts(place: Place) -> Result<Vec<Line>, ImportError> {
    let Place { turn, items, history, .. } = place;
    if turn.is_none() && items.is_empty() && history.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines = vec![Line::Turn { turn: turn.map(exported).transpose()? }];
    for ItemRow { id, kind, status, payload } in items {
        lines.push(Line::Item { id, kind, status, item: raw(payload)? });
    }
    for (fragment, anew) in history {
        let item = raw(fragment.text.to_string())?;
        lines.push(Line::History { mark: fragment.mark, anew, item });
    }
    Ok(lines)
}

fn exported(row: TurnRow) -> Result<Turn, ImportError> {
    Ok(Turn {
        id: row.id,
        status: match row.status {
            TurnStatus::InProgress => Status::InProgress,
            TurnStatus::Completed => Status::Completed,
            TurnStatus::Interrupted => Status::Interrupted,
            TurnStatus::Failed => Status::Failed,
        },
        started_at_ms: row.started_at_ms,
        completed_at_ms: row.completed_at_ms,
        duration_ms: row.duration_ms,
        error: row.error.map(raw).transpose()?,
        usage: row.usage.map(raw).transpose()?,
    })
}

fn raw(json: String) -> Result<Box<RawValue>, ImportError> {
    RawValue::from_string(json).map_err(|error| ImportError::Read(error.into()))
}

fn line(line: &Line) -> Result<String, ImportError> {
    serde_json::to_string(line).map_err(|error| ImportError::Read(error.into()))
}
