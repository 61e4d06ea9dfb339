//! The searches in what was said that run, by the request that began each, so that its client can cancel it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jsonrpc::RequestId;
use services::error::Error;
use services::peer::ConnectionId;
use tokio::sync::oneshot;

type Key = (ConnectionId, RequestId);

/// The running searches.
#[derive(Default)]
pub(crate) struct TextSearches(Mutex<HashMap<Key, oneshot::Sender<()>>>);

/// A running search, which is removed when this is dropped.
pub(crate) struct TextSearch {
    searches: Arc<TextSearches>,
    key: Option<Key>,
    cancelled: oneshot::Receiver<()>,
}

impl TextSearches {
    /// Registers the search of a request; one without an id cannot be cancelled. A client that uses an id twice at a
    /// time ends its first search.
    pub(crate) fn begin(
        self: &Arc<Self>,
        connection: ConnectionId,
        request: Option<&RequestId>,
    ) -> TextSearch {
        let (cancel, cancelled) = oneshot::channel();
        let key = request.map(|request| (connection, request.clone()));
        if let Some(key) = &key {
            self.lock().insert(key.clone(), cancel);
        }
        TextSearch { searches: self.clone(), key, cancelled }
    }

    /// Cancels a search of a connection, if it runs.
    pub(crate) fn cancel(&self, connection: ConnectionId, request: RequestId) {
        // Dropping the sender cancels it.
        self.lock().remove(&(connection, request));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TextSearch {
    /// Waits for a part of the search.
    ///
    /// # Errors
    /// Those of the part; the search was cancelled.
    pub(crate) async fn unless_cancelled<T>(
        &mut self,
        part: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let is_cancellable = self.key.is_some();
        tokio::select! {
            biased;
            _ = &mut self.cancelled, if is_cancellable => {
                Err(Error::wrong_state("the search was cancelled by the client"))
            }
            result = part => result,
        }
    }
}

impl Drop for TextSearch {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut searches = self.searches.lock();
        // A later search may have taken the id.
        self.cancelled.close();
        if searches.get(&key).is_some_and(oneshot::Sender::is_closed) {
            searches.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_search_is_cancelled_by_its_client_alone() {
        let searches = Arc::new(TextSearches::default());
        let (one, other) = (1, 2);
        let id = RequestId::Integer(7);
        let mut search = searches.begin(one, Some(&id));
        searches.cancel(other, id.clone());
        searches.cancel(one, RequestId::Integer(8));
        assert_eq!(search.unless_cancelled(async { Ok(1) }).await.unwrap(), 1);
        searches.cancel(one, id.clone());
        let ended = search.unless_cancelled(std::future::pending::<Result<(), Error>>()).await;
        assert!(ended.unwrap_err().to_string().contains("cancelled"));
        drop(search);
        searches.cancel(one, id);
    }

    #[tokio::test]
    async fn a_search_that_has_ended_is_not_kept() {
        let searches = Arc::new(TextSearches::default());
        let (connection, id) = (1, RequestId::from("a"));
        let first = searches.begin(connection, Some(&id));
        let mut second = searches.begin(connection, Some(&id));
        drop(first);
        assert_eq!(second.unless_cancelled(async { Ok(2) }).await.unwrap(), 2);
        drop(second);
        assert!(searches.lock().is_empty());
    }
}
