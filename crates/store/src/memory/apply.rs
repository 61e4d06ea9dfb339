//! Applies writes to the tables in memory.

use crate::{
    ItemRow, Place, StoreError, ThreadChanges, ThreadRecord, TurnRow, TurnStatus, UsageRow, Write,
};

use super::{Tables, Thread, is_in_progress, turn_not_found};

impl Tables {
    pub(super) fn apply(&mut self, write: &Write) -> Result<(), StoreError> {
        match write {
            Write::CreateThread(record) => self.create(record).map(drop),
            Write::UpdateThread { thread, changes } => self.update(thread, changes),
            Write::StartTurn { thread, turn, started_at_ms } => {
                self.start_turn(thread, turn, *started_at_ms)
            }
            Write::PutItem { thread, turn, item, kind, status, payload } => {
                let key = self.own_turn(thread, turn)?;
                let row = ItemRow {
                    id: item.clone(),
                    kind: kind.clone(),
                    status: status.clone(),
                    payload: payload.clone(),
                };
                self.places.edit(&key, |place| {
                    match place.items.iter_mut().find(|known| known.id == row.id) {
                        Some(known) => *known = row,
                        None => place.items.push(row),
                    }
                });
                Ok(())
            }
            Write::AppendHistory { thread, turn, fragments, anew } => {
                let key = match turn {
                    Some(turn) => self.own_turn(thread, turn)?,
                    None => self.newest_place(thread)?,
                };
                let fragments = fragments.iter().cloned().enumerate();
                let added = fragments.map(|(at, fragment)| (fragment, *anew && at == 0));
                self.places.edit(&key, |place| place.history.extend(added));
                Ok(())
            }
            Write::Fork { record, parent, last_turn } => {
                self.fork(record, parent, last_turn.as_deref())
            }
            Write::RollBack { thread, turns } => self.roll_back(thread, *turns),
            Write::Job { thread, write } => self.apply_to_job(thread, write),
            Write::Queue { thread, write } => self.apply_to_queue(thread, write),
            Write::AddUsage { thread, token_usage, usage } => {
                let key = self.leased_thread(thread)?;
                let mut project = String::new();
                self.threads.edit(&key, |thread| {
                    thread.record.token_usage = Some(token_usage.clone());
                    project.clone_from(&thread.record.cwd);
                });
                self.last_usage += 1;
                let (key, thread) = (self.last_usage, Some(thread.clone()));
                let row = UsageRow { key, thread, project, record: (**usage).clone() };
                self.usage.insert(key, row);
                Ok(())
            }
            Write::DeleteThread { thread } => self.delete(thread),
            Write::FinishTurn {
                thread,
                turn,
                outcome,
                error,
                completed_at_ms,
                duration_ms,
                usage,
            } => {
                let key = self.own_turn(thread, turn)?;
                if !self.places.get(&key).is_some_and(is_in_progress) {
                    let (thread, turn) = (thread.clone(), turn.clone());
                    return Err(StoreError::TurnFinished { thread, turn });
                }
                self.places.edit(&key, |place| {
                    if let Some(row) = &mut place.turn {
                        row.status = (*outcome).into();
                        row.completed_at_ms = Some(*completed_at_ms);
                        row.duration_ms = Some(*duration_ms);
                        row.error.clone_from(error);
                        row.usage.clone_from(usage);
                    }
                });
                Ok(())
            }
        }
    }

    fn create(&mut self, record: &ThreadRecord) -> Result<i64, StoreError> {
        if self.find_thread(&record.id).is_ok() {
            return Err(StoreError::ThreadExists { thread: record.id.clone() });
        }
        self.last_thread += 1;
        let record = record.clone();
        let thread = Thread {
            record,
            turn_count: 0,
            leased: true,
            last_ordinal: 0,
            inherited: 0,
            queue: Vec::new(),
        };
        self.threads.insert(self.last_thread, thread);
        Ok(self.last_thread)
    }

    fn update(&mut self, thread: &str, changes: &ThreadChanges) -> Result<(), StoreError> {
        let key = self.leased_thread(thread)?;
        let ThreadChanges {
            preview,
            name,
            model_provider,
            model,
            cwd,
            updated_at,
            archived,
            git_info,
            settings,
            token_usage,
            extra,
        } = changes.clone();
        self.threads.edit(&key, |Thread { record, .. }| {
            set(&mut record.preview, preview);
            set(&mut record.name, name);
            set(&mut record.model_provider, model_provider);
            set(&mut record.model, model);
            set(&mut record.cwd, cwd);
            set(&mut record.updated_at, updated_at);
            set(&mut record.archived, archived);
            set(&mut record.git_info, git_info);
            set(&mut record.settings, settings);
            set(&mut record.token_usage, token_usage);
            set(&mut record.extra, extra);
        });
        Ok(())
    }

    fn start_turn(
        &mut self,
        thread: &str,
        turn: &str,
        started_at_ms: i64,
    ) -> Result<(), StoreError> {
        let key = self.leased_thread(thread)?;
        if self.own_place(key, turn).is_some() {
            let (thread, turn) = (thread.to_owned(), turn.to_owned());
            return Err(StoreError::TurnExists { thread, turn });
        }
        let mut ordinal = 0;
        self.threads.edit(&key, |thread| {
            thread.turn_count += 1;
            thread.last_ordinal += 1;
            ordinal = thread.last_ordinal;
            let started_at = started_at_ms.div_euclid(1000);
            thread.record.updated_at = thread.record.updated_at.max(started_at);
        });
        let turn = TurnRow {
            id: turn.to_owned(),
            ordinal,
            status: TurnStatus::InProgress,
            started_at_ms,
            completed_at_ms: None,
            duration_ms: None,
            error: None,
            usage: None,
        };
        let place = Place { turn: Some(turn), ..empty(ordinal) };
        self.places.insert((key, ordinal), place);
        Ok(())
    }

    /// Key of a turn of the thread itself that may be written to.
    fn own_turn(&self, thread: &str, turn: &str) -> Result<(i64, u32), StoreError> {
        let key = self.leased_thread(thread)?;
        let ordinal = self.own_place(key, turn).ok_or_else(|| turn_not_found(thread, turn))?;
        Ok((key, ordinal))
    }

    fn own_place(&self, thread: i64, turn: &str) -> Option<u32> {
        let inherited = self.threads.get(&thread)?.inherited;
        let is_it = |place: &&Place| {
            place.ordinal > inherited && place.turn.as_ref().is_some_and(|row| row.id == turn)
        };
        self.places_of(thread).find(is_it).map(|place| place.ordinal)
    }

    /// Key of the newest place of a thread that may be written to.
    fn newest_place(&mut self, thread: &str) -> Result<(i64, u32), StoreError> {
        let key = self.leased_thread(thread)?;
        let ordinal = self.threads.get(&key).map_or(0, |thread| thread.last_ordinal);
        if self.places.get(&(key, ordinal)).is_none() {
            self.places.insert((key, ordinal), empty(ordinal));
        }
        Ok((key, ordinal))
    }

    fn fork(
        &mut self,
        record: &ThreadRecord,
        parent: &str,
        last_turn: Option<&str>,
    ) -> Result<(), StoreError> {
        let source = self.find_thread(parent)?;
        let newest = self.threads.get(&source).map_or(0, |thread| thread.last_ordinal);
        let running = self.places_of(source).find(|place| is_in_progress(place));
        let finished = running.map_or(newest, |place| place.ordinal.saturating_sub(1));
        let end = match last_turn {
            None => finished,
            Some(id) => {
                let is_it = |place: &&Place| place.turn.as_ref().is_some_and(|row| row.id == id);
                let found = self.places_of(source).rev().find(is_it);
                let ordinal = found.ok_or_else(|| turn_not_found(parent, id))?.ordinal;
                if ordinal > finished {
                    return Err(StoreError::TurnInFlight { thread: parent.to_owned() });
                }
                ordinal
            }
        };
        let shown: Vec<Place> =
            self.places_of(source).take_while(|place| place.ordinal <= end).cloned().collect();
        let key = self.create(record)?;
        let turns = shown.iter().filter(|place| place.turn.is_some()).count();
        self.threads.edit(&key, |thread| {
            thread.turn_count = u32::try_from(turns).unwrap_or(u32::MAX);
            thread.last_ordinal = end + 1;
            thread.inherited = end;
        });
        for place in shown {
            self.places.insert((key, place.ordinal), place);
        }
        Ok(())
    }

    fn roll_back(&mut self, thread: &str, turns: u32) -> Result<(), StoreError> {
        let key = self.leased_thread(thread)?;
        if self.places_of(key).any(is_in_progress) {
            return Err(StoreError::TurnInFlight { thread: thread.to_owned() });
        }
        let ordinals: Vec<u32> = self
            .places_of(key)
            .filter(|place| place.turn.is_some())
            .map(|place| place.ordinal)
            .collect();
        let kept = ordinals.len().checked_sub(usize::try_from(turns).unwrap_or(usize::MAX));
        let Some(kept) = kept else {
            let has = i64::try_from(ordinals.len()).unwrap_or(i64::MAX);
            return Err(StoreError::TooFewTurns { thread: thread.to_owned(), asked: turns, has });
        };
        if let Some(first) = ordinals.get(kept) {
            let dropped: Vec<u32> = self
                .places_of(key)
                .map(|place| place.ordinal)
                .filter(|ordinal| ordinal >= first)
                .collect();
            dropped.into_iter().for_each(|ordinal| self.places.remove(&(key, ordinal)));
        }
        self.threads.edit(&key, |thread| thread.last_ordinal += 1);
        Ok(())
    }

    fn delete(&mut self, thread: &str) -> Result<(), StoreError> {
        let key = self.leased_thread(thread)?;
        let ordinals: Vec<u32> = self.places_of(key).map(|place| place.ordinal).collect();
        ordinals.into_iter().for_each(|ordinal| self.places.remove(&(key, ordinal)));
        self.remove_jobs_of(key);
        let spent: Vec<i64> = self
            .usage
            .iter()
            .filter(|(_, row)| row.thread.as_deref() == Some(thread))
            .map(|(key, _)| *key)
            .collect();
        for key in spent {
            // What it cost was spent all the same.
            self.usage.edit(&key, |row| (row.thread, row.record.turn) = (None, None));
        }
        self.threads.remove(&key);
        Ok(())
    }
}

fn set<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

fn empty(ordinal: u32) -> Place {
    Place { ordinal, turn: None, items: Vec::new(), history: Vec::new() }
}
