//! Exports and imports a thread as lines of JSON, to move it to another home: its turns, the
//! model's history and its settings. A fork is exported completely, without its parents. Jobs are
//! not exported: their workers are threads of their own, and their results are in files.
//!
//! The first line is the thread. The other lines are in the order of the thread: one for each turn,
//! followed by its items and its part of the history. History outside of any turn follows a line
//! without a turn. The last line counts the others: a file that was cut off is not imported.

mod copy;

use std::io::BufRead;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    Fragment, ItemRow, Place, Store, StoreError, ThreadChanges, ThreadRecord, TurnOutcome, TurnRow,
    TurnStatus, Write,
};

pub use copy::{Copied, copy_threads};

/// Version of the format.
const FORMAT: u32 = 2;
/// The version without a last line that counts the others.
const WITHOUT_END: u32 = 1;

/// Longest id of a thread, in bytes.
const MAX_ID: usize = 128;
/// Places that are read at a time.
const BATCH: usize = 64;

const NO_HEAD: &str = "only the first line must be a `thread`";
const CUT: &str = "a part of the thread is missing, so that nothing is imported; export it again";
const NO_THREAD: &str = "there is no thread; export it again";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Line {
    Thread(Box<Head>),
    Turn {
        /// Absent for history outside of a turn.
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
    End {
        /// Number of lines before this one.
        lines: usize,
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

/// Passes a thread to `write`, line by line and without line breaks. Reads in batches, so that a
/// long thread takes little memory.
///
/// # Errors
/// The thread is not stored, the store cannot be read, or `write` fails.
pub async fn export(
    store: &Store,
    thread: &str,
    mut write: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let found = store.thread(thread).await?;
    let record =
        found.ok_or_else(|| StoreError::ThreadNotFound { thread: thread.to_owned() })?.record;
    let mut lines = 0;
    let mut write = |part: &Line| {
        lines += 1;
        write(&line(part)?).map_err(transfer_error)?;
        Ok::<_, StoreError>(lines)
    };
    let mut written = write(&head(record)?)?;
    let mut behind = None;
    loop {
        let places = store.places(thread, behind, BATCH).await?;
        let Some(last) = places.last() else {
            return write(&Line::End { lines: written }).map(drop);
        };
        behind = Some(last.ordinal);
        for place in places {
            for part in parts(place)? {
                written = write(&part)?;
            }
        }
    }
}

/// Returns whether this can be the id of a thread: it is shown, and written next to the notes that
/// a thread leaves.
fn is_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(is_part)
}

/// The id of the thread in the lines; reads only the first one.
///
/// # Errors
/// [`StoreError::ImportLine`] if the first line is not a thread.
pub fn thread_id(lines: impl BufRead) -> Result<String, StoreError> {
    for (at, text) in lines.lines().enumerate() {
        let text = text.map_err(transfer_error)?;
        if text.trim().is_empty() {
            continue;
        }
        return match parse_line(at + 1, &text)? {
            Line::Thread(head) => Ok(head.id),
            _ => Err(bad_line(at + 1, NO_HEAD)),
        };
    }
    Err(bad_line(1, NO_THREAD))
}

/// Stores the thread in the lines, completely or not at all, and returns its id: the one in the
/// lines, or `new_id` for a fork of it.
///
/// # Errors
/// [`StoreError::ImportLine`]; [`StoreError::ThreadExists`].
pub async fn import(
    store: &Store,
    lines: impl BufRead,
    new_id: Option<String>,
) -> Result<String, StoreError> {
    let (id, writes) = writes(lines, new_id)?;
    store.commit(writes).await?;
    store.release(&id).await?;
    Ok(id)
}

/// The id of the thread in the lines, or `new_id`, and the writes that store it.
fn writes(lines: impl BufRead, new_id: Option<String>) -> Result<(String, Vec<Write>), StoreError> {
    let mut reader = Importer::default();
    for (at, text) in lines.lines().enumerate() {
        let text = text.map_err(transfer_error)?;
        if text.trim().is_empty() {
            continue;
        }
        reader.take(at + 1, parse_line(at + 1, &text)?, new_id.as_deref())?;
    }
    reader.check_end()?;
    reader.finish_turn();
    let changes = ThreadChanges { updated_at: Some(reader.updated_at), ..ThreadChanges::default() };
    let (thread, changes) = (reader.id.clone(), Box::new(changes));
    reader.writes.push(Write::UpdateThread { thread, changes });
    Ok((reader.id, reader.writes))
}

/// Collects the writes that store a thread.
#[derive(Default)]
struct Importer {
    id: String,
    format: u32,
    writes: Vec<Write>,
    turn: Option<Turn>,
    updated_at: i64,
    /// Lines that were taken, and the number of the last one.
    lines: usize,
    last: usize,
    is_ended: bool,
}

impl Importer {
    fn take(&mut self, number: usize, line: Line, new_id: Option<&str>) -> Result<(), StoreError> {
        if matches!(line, Line::Thread(_)) != self.writes.is_empty() {
            return Err(bad_line(number, NO_HEAD));
        }
        if self.is_ended {
            return Err(bad_line(number, "it follows the end of the thread; export it again"));
        }
        self.last = number;
        let thread = self.id.clone();
        match line {
            Line::Thread(head) => self.begin(number, *head, new_id)?,
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
                    return Err(bad_line(number, "an item must follow the line of its turn"));
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
            Line::End { lines } if lines == self.lines => self.is_ended = true,
            Line::End { lines } => {
                let why =
                    format!("{lines} lines should stand before it, not {}; {CUT}", self.lines);
                return Err(bad_line(number, &why));
            }
        }
        self.lines += 1;
        Ok(())
    }

    /// # Errors
    /// The lines do not end as an export does.
    fn check_end(&self) -> Result<(), StoreError> {
        if self.writes.is_empty() {
            return Err(bad_line(1, NO_THREAD));
        }
        if !self.is_ended && self.format > WITHOUT_END {
            return Err(bad_line(self.last, &format!("the lines end here; {CUT}")));
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, head: Head, new_id: Option<&str>) -> Result<(), StoreError> {
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
        if !(WITHOUT_END..=FORMAT).contains(&format) {
            let why = format!(
                "unknown format {format}; this program reads formats up to {FORMAT}: use the version \
                 that exported it"
            );
            return Err(bad_line(number, &why));
        }
        if !is_id(&id) || !is_id(&session_id) {
            return Err(bad_line(number, "its `id` or `session_id` is not an id of a thread"));
        }
        let json = |value: Option<Box<RawValue>>| value.map(|json| json.get().to_owned());
        self.format = format;
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

    /// A turn that was running during the export is interrupted here.
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

fn parse_line(number: usize, text: &str) -> Result<Line, StoreError> {
    serde_json::from_str(text).map_err(|error| bad_line(number, &error.to_string()))
}

fn bad_line(line: usize, why: &str) -> StoreError {
    StoreError::ImportLine { line, why: why.to_owned() }
}

fn transfer_error(error: std::io::Error) -> StoreError {
    StoreError::Transfer(Arc::new(error))
}

fn head(record: ThreadRecord) -> Result<Line, StoreError> {
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

fn parts(place: Place) -> Result<Vec<Line>, StoreError> {
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

fn exported(row: TurnRow) -> Result<Turn, StoreError> {
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

fn raw(json: String) -> Result<Box<RawValue>, StoreError> {
    RawValue::from_string(json).map_err(|error| StoreError::Transfer(Arc::new(error.into())))
}

fn line(line: &Line) -> Result<String, StoreError> {
    serde_json::to_string(line).map_err(|error| StoreError::Transfer(Arc::new(error.into())))
}
