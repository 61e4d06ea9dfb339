//! Logins that wait for the user.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use account::Error as AccountError;
use tokio::sync::oneshot;

use crate::error::Error;

/// Logins at the same time; each has a port or asks the login service again and again.
const MAX_LOGINS: usize = 8;

/// Waits for the user, and stores the login.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<(), AccountError>> + Send>>;

/// The logins that wait for the user.
#[derive(Default)]
pub(super) struct PendingLogins {
    /// Dropped to cancel a login.
    by_id: Mutex<BTreeMap<String, oneshot::Sender<()>>>,
}

/// The place of one login.
pub(super) struct Slot {
    logins: Arc<PendingLogins>,
    id: String,
    canceled: Option<oneshot::Receiver<()>>,
}

impl PendingLogins {
    /// Makes room for a login.
    ///
    /// # Errors
    /// Too many are in progress.
    pub(super) fn reserve(self: &Arc<Self>, id: &str) -> Result<Slot, Error> {
        let mut by_id = self.lock();
        if by_id.len() >= MAX_LOGINS {
            return Err(Error::wrong_state(format!("{MAX_LOGINS} logins are in progress already"))
                .next_step("finish one, or call account/login/cancel"));
        }
        let (sender, canceled) = oneshot::channel();
        by_id.insert(id.to_owned(), sender);
        Ok(Slot { logins: self.clone(), id: id.to_owned(), canceled: Some(canceled) })
    }

    /// Cancels a login. Returns whether it was in progress.
    pub(super) fn cancel(&self, id: &str) -> bool {
        self.lock().remove(id).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, oneshot::Sender<()>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Runs a login until it ends or is canceled.
    pub(super) async fn run(mut self, work: Work) -> Result<(), AccountError> {
        let Some(canceled) = self.canceled.take() else { return work.await };
        tokio::select! {
            outcome = work => outcome,
            _ = canceled => Err(AccountError::LoginFailed("it was canceled".to_owned())),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.logins.lock().remove(&self.id);
    }
}
