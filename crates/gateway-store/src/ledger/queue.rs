//! Rows that wait to be written. Beyond the bound, rows are folded by every column that sums are
//! grouped by, so that no sum is ever wrong.

use std::collections::{HashMap, VecDeque};

use super::State;
use super::entry::{Ended, Endpoint, Entry};
use super::writer::log_lost;
use crate::journal::OpenRequest;

/// Most rows that wait unfolded: some 20 MB.
pub const MAX_ROWS: usize = 65_536;
/// Most folded rows.
pub const MAX_FOLDED: usize = 16_384;
/// Rows are folded within one minute: the narrowest bucket of usage.
const MINUTE: u64 = ratelimit::MINUTE;

/// An entry, or several folded into one.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) entry: Entry,
    pub(super) requests: u64,
    /// Its slot in the journal.
    request: Option<OpenRequest>,
    /// Those of the others.
    folded: Vec<OpenRequest>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fold {
    minute: u64,
    organization: Box<str>,
    project: Box<str>,
    key: Box<str>,
    model: Box<str>,
    endpoint: Endpoint,
    status: u16,
    ended: Ended,
    batch: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    rows: VecDeque<Row>,
    folded: HashMap<Fold, Row>,
    recorded: u64,
    lost_requests: u64,
    lost_cost: u64,
    /// Rows that were taken and are not settled yet.
    taken: usize,
}

impl Queue {
    /// Adds an entry. Returns its cost when it is lost.
    pub(super) fn push(&mut self, entry: Entry, request: Option<OpenRequest>) -> Result<(), u64> {
        if self.has_room() {
            self.recorded += 1;
            self.rows.push_back(Row::new(entry, request));
            return Ok(());
        }
        let fold = Fold::of_entry(&entry);
        if let Some(row) = self.folded.get_mut(&fold) {
            row.add(&entry);
            row.folded.extend(request);
        } else if self.folded.len() < MAX_FOLDED {
            let entry = Entry { request: "folded".into(), ..entry };
            self.folded.insert(fold, Row::new(entry, request));
        } else {
            self.lose(1, entry.cost);
            log_lost(&entry, 1, "the store is away for too long");
            request.into_iter().for_each(OpenRequest::free);
            return Err(entry.cost);
        }
        self.recorded += 1;
        Ok(())
    }

    pub(super) fn has_room(&self) -> bool {
        self.rows.len() + self.taken < MAX_ROWS && self.folded.is_empty()
    }

    /// The oldest rows; they count as waiting until they are [`Queue::settle`]d.
    pub(super) fn take(&mut self, most: usize) -> Vec<Row> {
        let count = self.rows.len().min(most);
        let mut rows: Vec<Row> = self.rows.drain(..count).collect();
        if rows.is_empty() {
            let keys = std::mem::take(&mut self.folded);
            let mut folded = keys.into_values();
            rows.extend(folded.by_ref().take(most));
            // The rest waits as rows: at most MAX_FOLDED of them.
            self.rows.extend(folded);
        }
        if self.rows.is_empty() {
            self.rows.shrink_to(most);
        }
        self.taken += rows.len();
        rows
    }

    /// Removes rows that are written or lost from the count.
    pub(super) fn settle(&mut self, rows: usize) {
        self.taken -= rows.min(self.taken);
    }

    pub(super) fn lose(&mut self, requests: u64, cost: u64) {
        self.lost_requests += requests;
        self.lost_cost = self.lost_cost.saturating_add(cost);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.folded.is_empty()
    }

    /// Number of requests recorded so far.
    pub(super) fn recorded(&self) -> u64 {
        self.recorded
    }

    pub(super) fn state(&self) -> State {
        State {
            waiting: self.rows.len() + self.folded.len() + self.taken,
            lost_requests: self.lost_requests,
            lost_cost: self.lost_cost,
            error: None,
        }
    }
}

impl Row {
    pub(super) fn new(entry: Entry, request: Option<OpenRequest>) -> Self {
        Self { entry, requests: 1, request, folded: Vec::new() }
    }

    /// Frees its slots in the journal: it is written, or lost.
    pub(super) fn free(self) {
        self.request.into_iter().chain(self.folded).for_each(OpenRequest::free);
    }

    fn add(&mut self, other: &Entry) {
        let entry = &mut self.entry;
        self.requests += 1;
        if entry.backend != other.backend {
            entry.backend = Box::default();
        }
        entry.input_tokens = entry.input_tokens.saturating_add(other.input_tokens);
        entry.cached_tokens = entry.cached_tokens.saturating_add(other.cached_tokens);
        entry.cache_write_tokens =
            entry.cache_write_tokens.saturating_add(other.cache_write_tokens);
        entry.cache_write_1h_tokens =
            entry.cache_write_1h_tokens.saturating_add(other.cache_write_1h_tokens);
        entry.output_tokens = entry.output_tokens.saturating_add(other.output_tokens);
        entry.web_searches = entry.web_searches.saturating_add(other.web_searches);
        entry.images = entry.images.saturating_add(other.images);
        entry.audio_milliseconds =
            entry.audio_milliseconds.saturating_add(other.audio_milliseconds);
        entry.cost = entry.cost.saturating_add(other.cost);
    }
}

impl Fold {
    fn of_entry(entry: &Entry) -> Self {
        Self {
            minute: entry.at / MINUTE,
            organization: entry.organization.clone(),
            project: entry.project.clone(),
            key: entry.key.clone(),
            model: entry.model.clone(),
            endpoint: entry.endpoint,
            status: entry.status,
            ended: entry.ended,
            batch: entry.batch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_bound_are_merged_with_equal_sums() {
        let mut queue = Queue::default();
        let entry = |key: usize| Entry { cost: 3, ..super::super::tests::entry(key as u64) };
        for key in 0..MAX_ROWS {
            assert!(queue.has_room());
            queue.push(entry(key), None).expect("there is room");
        }
        assert!(!queue.has_room());
        for key in 0..MAX_FOLDED * 2 {
            queue.push(entry(key % MAX_FOLDED), None).expect("it is folded");
        }
        assert_eq!(queue.push(entry(MAX_FOLDED), None), Err(3));
        assert_eq!((queue.state().lost_requests, queue.state().lost_cost), (1, 3));
        let (mut requests, mut cost) = (0, 0);
        loop {
            let rows = queue.take(1000);
            if rows.is_empty() {
                break;
            }
            requests += rows.iter().map(|row| row.requests).sum::<u64>();
            cost += rows.iter().map(|row| row.entry.cost).sum::<u64>();
            queue.settle(rows.len());
        }
        assert_eq!(requests, (MAX_ROWS + 2 * MAX_FOLDED) as u64);
        assert_eq!((requests, cost), (queue.recorded(), requests * 3));
        assert_eq!(queue.state().waiting, 0);
    }
}
