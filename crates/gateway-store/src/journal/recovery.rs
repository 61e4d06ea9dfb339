//! Writes what a killed process had open or not written yet into the ledger, exactly once: whatever of it the ledger
//! got from that process in its last moments, and however often this is repeated.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use ratelimit::Micros;

use super::format::{self, RECOVERIES_AT, Record, SLOT_WORDS, WRITER_AT};
use super::{Journal, Phase};
use crate::database::{Database, Statement, Value};
use crate::ledger::{Entry, writing_group};
use crate::{Error, ErrorKind};

/// Rows per transaction and per query.
const GROUP: usize = 64;
/// The sequence numbers of recoveries begin here: a process does not write as many groups.
const FENCE: u64 = 1 << 62;
/// Sequence numbers of one recovery.
const NUMBERS: u64 = 1 << 24;

/// A request that a killed process had in its journal. Its slot stays in use until it is [`Recovered::free`]d.
#[derive(Debug)]
pub struct Recovered {
    journal: Journal,
    number: u32,
    /// Its row. The ledger has it if [`Recovered::is_charged`] or [`Recovered::was_settled`].
    pub entry: Entry,
    /// The amount that it had reserved of the limits of spend.
    pub held: u64,
    /// True if the request was running, and its row was written now or by an earlier recovery.
    pub is_charged: bool,
    /// True if the request had ended.
    pub was_settled: bool,
    /// True if the store rejects its row.
    pub is_lost: bool,
}

impl Recovered {
    /// Frees its slot, once the limits have what the ledger has.
    pub fn free(self) {
        self.journal.free_slot(self.number);
    }
}

/// Settles everything in `journal` in the ledger, and makes it the journal of the writer with that id. Damaged slots are
/// freed; the second number counts them.
///
/// # Errors
/// The store's: nothing is lost, and it may be repeated.
pub async fn recover(
    database: &Database,
    journal: &Journal,
    writer: u64,
    now: Micros,
) -> Result<(Vec<Recovered>, usize), Error> {
    let (mut found, mut damaged) = (Vec::new(), 0);
    let len = journal.0.slots().len;
    for number in 0..len {
        let mut slot = [0; SLOT_WORDS];
        let words =
            journal.0.words(number).map_err(|error| super::failed(&journal.0.path, error))?;
        for (to, word) in slot.iter_mut().zip(words) {
            *to = word.load(Ordering::Acquire);
        }
        match format::read(&slot, u64::from(number)) {
            Ok(None) => {}
            Ok(Some(record)) => found.push((number, record)),
            Err(_) => {
                damaged += 1;
                journal.free_slot(number);
            }
        }
    }
    let mut recovered = Vec::with_capacity(found.len());
    if !found.is_empty() {
        let last = journal.header_word(WRITER_AT).load(Ordering::Acquire);
        let mut sequence = fence(database, journal, last, now).await?;
        for group in found.chunks(GROUP) {
            recovered.extend(settle(database, journal, (last, &mut sequence), group).await?);
        }
    }
    journal.header_word(WRITER_AT).store(writer, Ordering::Release);
    journal.header_word(RECOVERIES_AT).store(0, Ordering::Release);
    Ok((recovered, damaged))
}

/// From here on, no transaction that the process or an earlier recovery has left behind can be committed: it either is,
/// and is seen, or fails. Returns the sequence number of this recovery.
async fn fence(
    database: &Database,
    journal: &Journal,
    writer: u64,
    now: Micros,
) -> Result<u64, Error> {
    loop {
        let recoveries = journal.header_word(RECOVERIES_AT).fetch_add(1, Ordering::AcqRel) + 1;
        let sequence = FENCE + recoveries % NUMBERS * NUMBERS;
        match database.transact(writing_group(&text(writer), sequence, now, &[])).await {
            // The number of an earlier recovery was lost with the machine's power.
            Err(error) if matches!(error.kind(), ErrorKind::Unmet { .. }) => {}
            other => return other.map(|_| sequence),
        }
    }
}

fn text(writer: u64) -> String {
    format!("{writer:016x}")
}

async fn settle(
    database: &Database,
    journal: &Journal,
    (writer, sequence): (u64, &mut u64),
    group: &[(u32, Record)],
) -> Result<Vec<Recovered>, Error> {
    let charged: Vec<&Record> =
        group.iter().map(|(_, record)| record).filter(|it| it.phase != Phase::Asking).collect();
    let (mut kept, mut lost) = (HashSet::new(), Vec::new());
    if !charged.is_empty() {
        // In this order: an answer that is settled meanwhile leaves the one, and is in the other.
        kept = kept_of(database, &charged).await?;
        let written = written_of(database, &charged).await?;
        let missing = charged.iter().filter(|one| {
            !kept.contains(&one.entry.request) && !written.contains(&one.entry.request)
        });
        let missing: Vec<Entry> = missing.map(|one| one.entry.clone()).collect();
        lost = write(database, (&text(writer), sequence), &missing).await?;
    }
    let recovered = group.iter().map(|(number, record)| {
        let is_running = matches!(record.phase, Phase::Open | Phase::Later);
        Recovered {
            journal: journal.clone(),
            number: *number,
            held: record.held,
            is_charged: is_running && !kept.contains(&record.entry.request),
            is_lost: lost.contains(&record.entry.request),
            was_settled: record.phase == Phase::Settled,
            entry: record.entry.clone(),
        }
    });
    Ok(recovered.collect())
}

/// Writes entries, and returns the requests of those that the store rejects.
async fn write(
    database: &Database,
    (writer, sequence): (&str, &mut u64),
    entries: &[Entry],
) -> Result<Vec<Box<str>>, Error> {
    let Some(last) = entries.last() else { return Ok(Vec::new()) };
    *sequence += 1;
    match database.transact(writing_group(writer, *sequence, last.at, entries)).await {
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.is_unavailable() => return Err(error),
        Err(_) => {}
    }
    let mut lost = Vec::new();
    for entry in entries {
        *sequence += 1;
        let alone = writing_group(writer, *sequence, entry.at, std::slice::from_ref(entry));
        match database.transact(alone).await {
            Ok(_) => {}
            Err(error) if error.is_unavailable() => return Err(error),
            Err(_) => lost.push(entry.request.clone()),
        }
    }
    Ok(lost)
}

/// Requests whose answers come later, so that they are settled at their end.
async fn kept_of(database: &Database, records: &[&Record]) -> Result<HashSet<Box<str>>, Error> {
    let later = records.iter().filter(|record| record.phase == Phase::Later);
    let requests: Vec<Value> = later.map(|record| (&record.entry.request).into()).collect();
    if requests.is_empty() {
        return Ok(HashSet::new());
    }
    let places: Vec<String> = (1..=requests.len()).map(|place| format!("${place}")).collect();
    let places = places.join(", ");
    let sql = format!("SELECT request FROM later_answers WHERE request IN ({places})");
    let rows = database.query(Statement::composed(sql, requests)).await?;
    rows.iter().map(|row| row.text(0)).collect()
}

/// Requests that the ledger has.
async fn written_of(database: &Database, records: &[&Record]) -> Result<HashSet<Box<str>>, Error> {
    let mut values: Vec<Value> = Vec::with_capacity(records.len() * 3);
    let mut cases = Vec::with_capacity(records.len());
    for Record { entry, .. } in records {
        let at = values.len();
        cases.push(format!(
            "(organization = ${} AND at = ${} AND request = ${})",
            at + 1,
            at + 2,
            at + 3
        ));
        values.extend([(&entry.organization).into(), entry.at.into(), (&entry.request).into()]);
    }
    let sql = format!("SELECT request FROM ledger WHERE {}", cases.join(" OR "));
    let rows = database.query(Statement::composed(sql, values)).await?;
    rows.iter().map(|row| row.text(0)).collect()
}
