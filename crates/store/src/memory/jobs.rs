//! Jobs and their rows in memory.

use crate::{
    Job, JobItem, JobItemCounts, JobItemOutcome, JobItemStatus, JobStatus, JobWrite, MAX_JOB_ITEMS,
    StoreError,
};

use super::{Reader, StoredJob, Tables};

impl Tables {
    pub(super) fn apply_to_job(
        &mut self,
        thread: &str,
        write: &JobWrite,
    ) -> Result<(), StoreError> {
        let thread = self.leased_thread(thread)?;
        match write {
            JobWrite::Create { id, fingerprint, created_at_ms, detail } => {
                self.last_job += 1;
                let job = Job {
                    key: self.last_job,
                    id: id.clone(),
                    status: JobStatus::Running,
                    created_at_ms: *created_at_ms,
                    ended_at_ms: None,
                    detail: detail.clone(),
                };
                let stored = StoredJob { thread, fingerprint: *fingerprint, job };
                self.jobs.insert(self.last_job, stored);
            }
            JobWrite::AddItems { job, items } => {
                self.check_job(thread, *job)?;
                for item in items {
                    let key = item_key(*job, item.number)?;
                    if self.job_items.get(&key).is_none() {
                        let item = JobItem {
                            number: item.number,
                            id: item.id.clone(),
                            row: item.row.clone(),
                            status: JobItemStatus::Pending,
                            worker: None,
                            result: None,
                            error: None,
                        };
                        self.job_items.insert(key, item);
                    }
                }
            }
            JobWrite::Reopen { job, detail } => {
                self.check_job(thread, *job)?;
                self.jobs.edit(job, |stored| {
                    stored.job.status = JobStatus::Running;
                    stored.job.ended_at_ms = None;
                    stored.job.detail.clone_from(detail);
                });
                let from = [JobItemStatus::Running, JobItemStatus::Stopped];
                self.edit_items(*job, &from, |item| {
                    item.status = JobItemStatus::Pending;
                    item.error = None;
                });
            }
            JobWrite::Describe { job, detail } => {
                self.check_job(thread, *job)?;
                self.jobs.edit(job, |stored| stored.job.detail.clone_from(detail));
            }
            JobWrite::StartItem { job, number, worker } => {
                self.check_job(thread, *job)?;
                self.edit_item(*job, *number, |item| {
                    let is_free = item.status == JobItemStatus::Pending;
                    if is_free {
                        item.status = JobItemStatus::Running;
                        item.worker = Some(worker.clone());
                    }
                    is_free
                })?;
            }
            JobWrite::FinishItem { job, number, worker, outcome } => {
                self.check_job(thread, *job)?;
                self.edit_item(*job, *number, |item| finish_item(item, worker, outcome))?;
                if let JobItemOutcome::Completed { ends_job: true, .. } = outcome {
                    self.end_open_items(*job, JobItemStatus::Cancelled);
                }
            }
            JobWrite::Finish { job, status, ended_at_ms } => {
                self.check_job(thread, *job)?;
                self.jobs.edit(job, |stored| {
                    stored.job.status = *status;
                    stored.job.ended_at_ms = Some(*ended_at_ms);
                });
                self.end_open_items(*job, JobItemStatus::Stopped);
            }
        }
        Ok(())
    }

    fn check_job(&self, thread: i64, job: i64) -> Result<(), StoreError> {
        let is_of_thread = self.jobs.get(&job).is_some_and(|stored| stored.thread == thread);
        if is_of_thread { Ok(()) } else { Err(StoreError::JobNotFound { job }) }
    }

    /// Changes a row; `change` returns `false` when the row does not take it.
    fn edit_item(
        &mut self,
        job: i64,
        number: u32,
        change: impl FnOnce(&mut JobItem) -> bool,
    ) -> Result<(), StoreError> {
        let key = item_key(job, number)?;
        let mut changed = false;
        self.job_items.edit(&key, |item| changed = change(item));
        if changed { Ok(()) } else { Err(StoreError::JobItemEnded { number }) }
    }

    /// Changes the rows of a job that have one of these states.
    fn edit_items(&mut self, job: i64, from: &[JobItemStatus], change: impl Fn(&mut JobItem)) {
        let keys: Vec<(i64, u32)> = self
            .job_items
            .range((job, 0)..=(job, u32::MAX))
            .filter(|(_, item)| from.contains(&item.status))
            .map(|(key, _)| *key)
            .collect();
        keys.iter().for_each(|key| self.job_items.edit(key, &change));
    }

    /// Ends the rows of a job that have no end.
    fn end_open_items(&mut self, job: i64, to: JobItemStatus) {
        let open = [JobItemStatus::Pending, JobItemStatus::Running, JobItemStatus::Stopped];
        self.edit_items(job, &open, |item| item.status = to);
    }

    pub(super) fn remove_jobs_of(&mut self, thread: i64) {
        let jobs = self.jobs.iter().filter(|(_, stored)| stored.thread == thread);
        let jobs: Vec<i64> = jobs.map(|(key, _)| *key).collect();
        for job in jobs {
            let items = self.job_items.range((job, 0)..=(job, u32::MAX));
            let items: Vec<(i64, u32)> = items.map(|(key, _)| *key).collect();
            items.iter().for_each(|key| self.job_items.remove(key));
            self.jobs.remove(&job);
        }
    }
}

/// Ends the work on a row, unless another worker has it or it has its end. A result also counts when
/// it comes late.
fn finish_item(item: &mut JobItem, worker: &str, outcome: &JobItemOutcome) -> bool {
    use JobItemStatus::{Completed, Failed, Pending, Running, Stopped};
    let from: &[JobItemStatus] = match outcome {
        JobItemOutcome::Completed { .. } => &[Running, Pending, Stopped],
        JobItemOutcome::Failed(_) | JobItemOutcome::Stopped(_) => &[Running],
    };
    if item.worker.as_deref() != Some(worker) || !from.contains(&item.status) {
        return false;
    }
    (item.status, item.result, item.error) = match outcome {
        JobItemOutcome::Completed { result, .. } => (Completed, Some(result.clone()), None),
        JobItemOutcome::Failed(error) => (Failed, None, Some(error.clone())),
        JobItemOutcome::Stopped(error) => (Stopped, None, Some(error.clone())),
    };
    true
}

fn item_key(job: i64, number: u32) -> Result<(i64, u32), StoreError> {
    if number > MAX_JOB_ITEMS {
        let limit = i64::from(MAX_JOB_ITEMS);
        return Err(StoreError::TooMany { what: "the number of rows in a job", limit });
    }
    Ok((job, number))
}

impl Reader<'_> {
    pub(crate) fn latest_job(
        &self,
        thread: &str,
        fingerprint: [u8; 32],
    ) -> Result<Option<Job>, StoreError> {
        let thread = self.0.find_thread(thread)?;
        let mut jobs = self.0.jobs.iter().rev();
        let found =
            jobs.find(|(_, stored)| stored.thread == thread && stored.fingerprint == fingerprint);
        Ok(found.map(|(_, stored)| stored.job.clone()))
    }

    pub(crate) fn jobs(&self, thread: &str) -> Result<Vec<Job>, StoreError> {
        let thread = self.0.find_thread(thread)?;
        let jobs = self.0.jobs.iter().filter(|(_, stored)| stored.thread == thread);
        Ok(jobs.map(|(_, stored)| stored.job.clone()).collect())
    }

    pub(crate) fn job_items(
        &self,
        job: i64,
        behind: u32,
        status: Option<JobItemStatus>,
        limit: u32,
    ) -> Result<Vec<JobItem>, StoreError> {
        let Some(first) = behind.checked_add(1) else { return Ok(Vec::new()) };
        let items = self.0.job_items.range((job, first)..=(job, u32::MAX));
        let items = items.map(|(_, item)| item);
        let wanted = items.filter(|item| status.is_none_or(|status| item.status == status));
        Ok(wanted.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect())
    }

    pub(crate) fn job_counts(&self, job: i64) -> JobItemCounts {
        let mut counts = JobItemCounts::default();
        for (_, item) in self.0.job_items.range((job, 0)..=(job, u32::MAX)) {
            counts.result_bytes += item.result.as_ref().map_or(0, |result| result.len() as u64);
            *match item.status {
                JobItemStatus::Pending => &mut counts.pending,
                JobItemStatus::Running => &mut counts.running,
                JobItemStatus::Completed => &mut counts.completed,
                JobItemStatus::Failed => &mut counts.failed,
                JobItemStatus::Stopped => &mut counts.stopped,
                JobItemStatus::Cancelled => &mut counts.cancelled,
            } += 1;
        }
        counts
    }
}
