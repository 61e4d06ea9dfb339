//! What clients were notified of about the account: each change once, in the order of its notifications.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::AccountUpdatedNotification;

/// See the module.
#[derive(Default)]
pub(super) struct Announcements(Mutex<State>);

#[derive(Default)]
struct State {
    /// What clients were notified of, or would have been.
    last: Option<AccountUpdatedNotification>,
    /// Changes by this server that were begun and not announced yet.
    own_changes: usize,
}

/// A login or logout of this server, from before it is stored until clients are notified. Meanwhile no one
/// else announces it.
pub(super) struct OwnChange(Arc<Announcements>);

/// What a look at the account shows.
pub(super) enum Noticed {
    /// Clients know it, or are about to be notified.
    Known,
    /// The first look.
    First,
    /// Another process changed it.
    Changed,
}

impl Announcements {
    /// A change by this server begins.
    pub(super) fn begin(self: &Arc<Self>) -> OwnChange {
        self.state().own_changes += 1;
        OwnChange(self.clone())
    }

    /// Compares the account with what clients know, and remembers it.
    pub(super) fn notice(&self, update: &AccountUpdatedNotification) -> Noticed {
        let mut state = self.state();
        if state.own_changes > 0 || state.last.as_ref() == Some(update) {
            return Noticed::Known;
        }
        match state.last.replace(update.clone()) {
            None => Noticed::First,
            Some(_) => Noticed::Changed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnChange {
    /// The change is done, and clients are about to be notified.
    pub(super) fn announced(self, update: AccountUpdatedNotification) {
        self.0.state().last = Some(update);
    }
}

impl Drop for OwnChange {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.own_changes = state.own_changes.saturating_sub(1);
    }
}
