//! The list of stored threads, page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{ThreadList, ThreadListParams};

use crate::Error;
use crate::shared::Shared;

/// The stored threads that fit the filters: [`crate::Agent::list`].
pub struct StoredThreads {
    shared: Arc<Shared>,
    filters: ThreadListParams,
    page: VecDeque<protocol::Thread>,
    is_last: bool,
    /// Threads that may still be returned.
    left: Option<u32>,
}

impl StoredThreads {
    pub(crate) fn new(shared: Arc<Shared>, filters: ThreadListParams) -> Self {
        let left = filters.limit;
        Self { shared, filters, page: VecDeque::new(), is_last: false, left }
    }

    /// The next thread; `None` after the last one. A page is requested when the one before it was read.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::UnreadableResult`] and [`Error::ConnectionLost`]. The next call asks again.
    pub async fn next(&mut self) -> Result<Option<protocol::Thread>, Error> {
        while self.left != Some(0) {
            if let Some(thread) = self.page.pop_front() {
                self.left = self.left.map(|left| left - 1);
                return Ok(Some(thread));
            }
            if self.is_last {
                break;
            }
            self.filters.limit = self.left;
            let page = self.shared.request::<ThreadList>(&self.filters).await?;
            self.is_last = page.next_cursor.is_none();
            self.filters.cursor = page.next_cursor;
            self.page.extend(page.data);
        }
        Ok(None)
    }
}
