//! The notifications of clients about the account: each change once, in the order of its
//! notifications.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::AccountUpdatedNotification;

/// The notifications of clients about the account.
#[derive(Default)]
pub(super) struct Announcements(Mutex<State>);

#[derive(Default)]
struct State {
    /// The last notification of clients, sent or due.
    last: Option<AccountUpdatedNotification>,
    /// Changes by this server that were begun and not announced yet.
    own_changes: usize,
    /// Number of changes so far. What was read before the last one is out of date.
    changes: u64,
}

/// A look at the account that has begun.
pub(super) struct Look {
    changes: u64,
}

/// A login or logout of this server, from before it is stored until clients are notified. Meanwhile no one
/// else announces it.
pub(super) struct OwnChange(Arc<Announcements>);

/// The result of checking the account.
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

    /// The account is about to be read.
    pub(super) fn begin_look(&self) -> Look {
        Look { changes: self.state().changes }
    }

    /// Compares the account with what clients know, and remembers it.
    pub(super) fn notice(&self, update: &AccountUpdatedNotification, look: Look) -> Noticed {
        let mut state = self.state();
        let is_late = state.own_changes > 0 || look.changes != state.changes;
        if is_late || state.last.as_ref() == Some(update) {
            return Noticed::Known;
        }
        state.changes += 1;
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
        state.changes += 1;
    }
}

#[cfg(test)]
mod tests {
    use protocol::AuthMode;

    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_announced_after_it() {
        let update = |auth_mode| AccountUpdatedNotification { auth_mode, plan_type: None };
        let (out, key) = (update(None), update(Some(AuthMode::Apikey)));
        let announcements = Arc::new(Announcements::default());
        let first = announcements.begin_look();
        assert!(matches!(announcements.notice(&out, first), Noticed::First));
        // While this server logs in.
        let late = announcements.begin_look();
        announcements.begin().announced(key.clone());
        assert!(matches!(announcements.notice(&out, late), Noticed::Known));
        // While another process logs out, which another look finds first.
        let (late, early) = (announcements.begin_look(), announcements.begin_look());
        assert!(matches!(announcements.notice(&out, early), Noticed::Changed));
        assert!(matches!(announcements.notice(&key, late), Noticed::Known));
        let look = announcements.begin_look();
        assert!(matches!(announcements.notice(&key, look), Noticed::Changed));
    }
}
