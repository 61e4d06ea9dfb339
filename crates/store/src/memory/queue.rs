//! Queues in memory.

use crate::{QueueWrite, QueuedEntry, StoreError};

use super::{Reader, Tables};

impl Tables {
    pub(super) fn apply_to_queue(
        &mut self,
        thread: &str,
        write: &QueueWrite,
    ) -> Result<(), StoreError> {
        let key = self.leased_thread(thread)?;
        let mut queue =
            self.threads.get(&key).map(|thread| thread.queue.clone()).unwrap_or_default();
        let place = |queue: &[QueuedEntry], id: &str| queue.iter().position(|entry| entry.id == id);
        let changed = |id: &str| StoreError::queue_changed(thread, id);
        match write {
            QueueWrite::Add(entry) => {
                if place(&queue, &entry.id).is_some() {
                    return Err(changed(&entry.id));
                }
                queue.push(entry.clone());
            }
            QueueWrite::Replace(entry) => {
                let at = place(&queue, &entry.id).ok_or_else(|| changed(&entry.id))?;
                queue[at] = entry.clone();
            }
            QueueWrite::Remove { id } => {
                let at = place(&queue, id).ok_or_else(|| changed(id))?;
                queue.remove(at);
            }
            QueueWrite::Reorder { ids } => {
                let mut ordered = Vec::with_capacity(queue.len());
                for id in ids {
                    let at = place(&queue, id).ok_or_else(|| changed(id))?;
                    ordered.push(queue.remove(at));
                }
                if let Some(left) = queue.first() {
                    return Err(changed(&left.id));
                }
                queue = ordered;
            }
        }
        self.threads.edit(&key, |thread| thread.queue = queue);
        Ok(())
    }
}

impl Reader<'_> {
    pub(crate) fn queue(&self, thread: &str) -> Result<Vec<QueuedEntry>, StoreError> {
        let key = self.0.find_thread(thread)?;
        Ok(self.0.threads.get(&key).map(|thread| thread.queue.clone()).unwrap_or_default())
    }
}
