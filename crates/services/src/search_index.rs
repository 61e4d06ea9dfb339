//! Keeps the index of what was said up to date: turns that ended are added soon after, and turns of
//! earlier versions in the background, slice by slice. A search adds what ended just before it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use store::StoreError;
use tokio::sync::Notify;

use crate::error::Error;
use crate::searched_text::TEXTS;
use crate::thread_store::ThreadStore;

/// Turns that one write adds: commits of threads wait for it.
const SLICE: usize = 32;
/// Slices that a search adds at most; older ones are left to the upkeep.
const MAX_CAUGHT_UP: usize = 8;
/// Wait before the first slice, so that the start of a server has the machine.
const START: Duration = Duration::from_secs(3);
/// Wait after the end of a turn, so that turns which end together share a write.
const REST: Duration = Duration::from_secs(1);
/// Wait between slices of turns of earlier versions.
const PAUSE: Duration = Duration::from_millis(25);
/// Wait after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// The upkeep of the index.
pub struct SearchIndex {
    store: Arc<ThreadStore>,
    ended: Arc<Notify>,
}

impl SearchIndex {
    pub fn new(store: Arc<ThreadStore>) -> Self {
        let ended = store.turn_ended().clone();
        Self { store, ended }
    }

    /// Adds turns in the background, until the store is closed.
    pub fn start(&self) {
        let (store, ended) = (Arc::downgrade(&self.store), self.ended.clone());
        tokio::spawn(async move {
            tokio::time::sleep(START).await;
            while let Some(wait) = add_slice(&store).await {
                match wait {
                    Next::After(wait) => tokio::time::sleep(wait).await,
                    Next::EndOfTurn => {
                        ended.notified().await;
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        });
    }

    /// Adds the turns that have ended, so that a search finds them.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn catch_up(&self) -> Result<(), Error> {
        let store = self.store.get().await?;
        for _ in 0..MAX_CAUGHT_UP {
            if !store.index_turns(TEXTS, false, SLICE).await? {
                break;
            }
        }
        Ok(())
    }
}

/// When to add the next slice.
enum Next {
    After(Duration),
    EndOfTurn,
}

/// Adds turns to the index; `None` when the server has ended.
async fn add_slice(store: &Weak<ThreadStore>) -> Option<Next> {
    let store = store.upgrade()?;
    let added = match store.get().await {
        Ok(store) => store.index_turns(TEXTS, true, SLICE).await,
        // The requests that need the store report it.
        Err(_) => return Some(Next::After(RETRY)),
    };
    match added {
        Ok(true) => Some(Next::After(PAUSE)),
        Ok(false) => Some(Next::EndOfTurn),
        Err(StoreError::Closed) => None,
        Err(error) => {
            let message = "what was said cannot be added to the search index";
            tracing::warn!(target: "server::store", "{message}: {error}");
            Some(Next::After(RETRY))
        }
    }
}
