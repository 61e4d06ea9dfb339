//! Salvages the readable rows of a damaged database into a new one, and keeps the damaged file and
//! its log. Reads pages instead of tables: SQLite stops at the first damaged page, while this finds
//! every row on every intact page.
//!
//! The new database replaces the damaged one only when it is complete, in steps that are safe
//! against crashes: see [`finish`].

mod lineages;
mod log;
mod pages;
mod record;
mod refill;
mod scan;
mod turns;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::StoreError;
use crate::sqlite::failure::Failure;
use crate::sqlite::{jobs, queue, schema, search, text_index};

pub(crate) use log::{Log, LogIndex, bytes_of_log};

/// The new database while it is filled.
const FILLING: &str = "threads.db.salvage";
/// Prefix of the name of a complete one, followed by the new name of the damaged file.
const COMPLETE: &str = "threads.db.salvaged-for-";
/// Prefix of the name of a damaged file.
const DAMAGED: &str = "threads.db.damaged-";
/// Suffixes of the files of a database, in the order of renaming. The log is first, because a
/// database without its log would look like an older one.
const PARTS: [&str; 3] = ["-wal", "-shm", ""];
/// Suffix of the list of losses.
const LIST: &str = "-lost.txt";

/// Largest list that is read, in bytes.
const MAX_LIST: u64 = 1 << 20;

/// The damage of a database.
#[derive(Debug)]
pub(crate) struct Damage {
    /// A description.
    pub(crate) detail: String,
    /// See [`Salvage::lost_unnamed`].
    pub(crate) lost_unnamed: bool,
}

/// The result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salvage {
    /// The new name of the damaged file. Its log is next to it.
    pub kept: PathBuf,
    /// The damaged files of the database and its log.
    pub files: Vec<PathBuf>,
    /// The list of what was lost.
    pub list: PathBuf,
    /// A description of the damage.
    pub damage: String,
    /// Number of threads in the new database.
    pub threads: u64,
    /// The incomplete ones.
    pub lost: Vec<ThreadLoss>,
    /// True if a file, or part of it, is missing whose threads and turns nothing else names.
    pub lost_unnamed: bool,
}

/// The remaining files of a damaged database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The damaged files, without the list.
    pub files: Vec<PathBuf>,
    /// The list of what was lost.
    pub list: PathBuf,
    /// The first 1 MiB of the list.
    pub lost: String,
}

/// The losses of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLoss {
    /// The id of the thread; a generated one if it is lost.
    pub thread: String,
    /// A description of the losses.
    pub lost: String,
}

/// Salvages the database at `path`, which no process has open. The caller holds the lock.
/// `lost_turn_error` is the error of recreated turns whose record is lost.
pub(crate) fn salvage(
    path: &Path,
    damage: &Damage,
    lost_turn_error: Option<&str>,
    now_ms: i64,
) -> Result<Salvage, StoreError> {
    let filling = path.with_file_name(FILLING);
    discard(&filling)?;
    let pages = pages::Pages::open(path, &with_suffix(path, "-wal"))?;
    let (threads, lost) =
        fill(&filling, &pages, lost_turn_error).map_err(|failure| failure.at(&filling))?;
    let name = free_name(path, now_ms)?;
    let kept = path.with_file_name(&name);
    // The index of the log is kept as well, but has no meaning without the log.
    let there = ["", "-wal"].into_iter().filter(|suffix| {
        let bytes = fs::metadata(with_suffix(path, suffix)).map(|metadata| metadata.len());
        bytes.is_ok_and(|bytes| bytes > 0 || suffix.is_empty())
    });
    let salvage = Salvage {
        files: there.map(|suffix| with_suffix(&kept, suffix)).collect(),
        list: with_suffix(&kept, LIST),
        kept,
        damage: damage.detail.clone(),
        threads,
        lost,
        lost_unnamed: damage.lost_unnamed || threads == 0,
    };
    write_list(&salvage)?;
    let complete = path.with_file_name(format!("{COMPLETE}{name}"));
    rename(&filling, &complete)?;
    finish(path)?;
    Ok(salvage)
}

/// Returns whether an exchange of databases was interrupted, which [`finish`] completes.
pub(crate) fn is_begun(path: &Path) -> Result<bool, StoreError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let failed = |error| StoreError::io("read", dir, error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(COMPLETE)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Completes an interrupted exchange of databases: renames the damaged one and its log, and moves
/// the complete one to its path. Returns `false` if there was none.
pub(crate) fn finish(path: &Path) -> Result<bool, StoreError> {
    let mut finished = false;
    let dir = path.parent().unwrap_or(Path::new("."));
    let failed = |error| StoreError::io("read", dir, error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let complete = entry.map_err(failed)?.path();
        let name = complete.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_prefix(COMPLETE)) else { continue };
        let kept = path.with_file_name(name);
        for suffix in PARTS {
            let (from, to) = (with_suffix(path, suffix), with_suffix(&kept, suffix));
            if from.exists() && !to.exists() {
                rename(&from, &to)?;
            }
        }
        rename(&complete, path)?;
        finished = true;
    }
    Ok(finished)
}

/// The remaining files of damaged databases in `dir`.
///
/// # Errors
/// The folder or a list cannot be read.
pub fn kept(dir: &Path) -> io::Result<Vec<Kept>> {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(DAMAGED)) else { continue };
        let suffix = ["-wal", "-shm", LIST].into_iter().find(|suffix| name.ends_with(suffix));
        let suffix = suffix.unwrap_or("");
        let of = name.strip_suffix(suffix).unwrap_or(name);
        names.entry(of.to_owned()).or_default().push(suffix);
    }
    let read = |(name, suffixes): (String, Vec<&str>)| {
        let path = dir.join(name);
        let list = with_suffix(&path, LIST);
        let lost = match files::read_start(&list, MAX_LIST) {
            Err(error) if error.is_not_found() => String::new(),
            Err(error) => return Err(error.into_io()),
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        let files = suffixes.iter().filter(|suffix| **suffix != LIST);
        let mut files: Vec<_> = files.map(|suffix| with_suffix(&path, suffix)).collect();
        files.sort();
        Ok(Kept { files, list, lost })
    };
    names.into_iter().map(read).collect()
}

/// Fills the new database, without durability until it is complete.
fn fill(
    path: &Path,
    pages: &pages::Pages,
    lost_turn_error: Option<&str>,
) -> Result<(u64, Vec<ThreadLoss>), Failure> {
    private(path)?;
    let mut conn = Connection::open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;",
    )?;
    schema::migrate(&mut conn)?;
    let scan = scan::scan(pages);
    let transaction = conn.transaction()?;
    let mut losses = refill::refill(&transaction, pages, &scan)?;
    let mut turns = turns::Turns::new(&transaction, &scan, lost_turn_error);
    turns.remake_named(&mut losses)?;
    lineages::revive(&transaction, &scan, &mut losses)?;
    turns.remake_shown(&mut losses)?;
    turns.date()?;
    lineages::sweep(&transaction)?;
    jobs::sweep(&transaction)?;
    queue::sweep(&transaction)?;
    let lost = lineages::examine(&transaction, &mut losses)?;
    lineages::close_gaps(&transaction)?;
    search::index_all(&transaction)?;
    text_index::index_later(&transaction)?;
    let threads =
        transaction.query_row("SELECT count(*) FROM thread WHERE deleted = 0", [], |row| {
            row.get::<_, i64>(0)
        })?;
    transaction.commit()?;
    conn.execute_batch("PRAGMA journal_mode = WAL")?;
    drop(conn);
    let opened = File::options().write(true).open(path);
    let file = opened.map_err(|error| StoreError::io("open", path, error))?;
    file.sync_all().map_err(|error| StoreError::io("write", path, error))?;
    Ok((u64::try_from(threads).unwrap_or(0), lost))
}

fn write_list(salvage: &Salvage) -> Result<(), StoreError> {
    let path = &salvage.list;
    let failed = |error| StoreError::io("write", path, error);
    let mut list = format!("damage: {}\nthreads kept: {}\n", salvage.damage, salvage.threads);
    for ThreadLoss { thread, lost } in &salvage.lost {
        list.push_str(&format!("thread {thread} lost {lost}\n"));
    }
    if salvage.lost_unnamed {
        list.push_str("lost too: what only the missing file held; nothing that is left names it\n");
    }
    let mut file = private(path)?;
    file.write_all(list.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// An unused name for the damaged file.
fn free_name(path: &Path, now_ms: i64) -> Result<String, StoreError> {
    for number in 0..1000 {
        let name = match number {
            0 => format!("{DAMAGED}{now_ms}"),
            _ => format!("{DAMAGED}{now_ms}-{number}"),
        };
        let taken = |suffix| with_suffix(&path.with_file_name(&name), suffix).exists();
        if !["", "-wal", "-shm", LIST].into_iter().any(taken) {
            return Ok(name);
        }
    }
    let source = io::Error::other("too many damaged files are next to it; remove old ones");
    Err(StoreError::io("set aside", path, source))
}

fn private(path: &Path) -> Result<File, StoreError> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| StoreError::io("create", path, error))
}

fn discard(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| StoreError::io("rename", from, error))
}

pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
