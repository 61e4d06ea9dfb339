//! The deadline for the unloading of a thread without subscribers.

use std::time::Duration;

use tokio::time::Instant;

/// Grace period of a thread without subscribers and without activity (specification: States).
const UNLOAD_AFTER: Duration = Duration::from_secs(30 * 60);

/// The moment at which an idle thread is unloaded. Activity of the thread moves it, and a
/// subscriber ends it; nothing else does.
#[derive(Default)]
pub struct UnloadDeadline {
    /// `None` while the thread is not known to be idle.
    at: Option<Instant>,
}

impl UnloadDeadline {
    /// The thread was active just now.
    pub(super) fn restart(&mut self) {
        self.at = None;
    }

    /// The deadline of a thread that is idle now, or is not: it begins with the first look at an
    /// idle thread.
    pub(super) fn of(&mut self, is_idle: bool) -> Option<Instant> {
        match is_idle {
            true => Some(*self.at.get_or_insert_with(|| Instant::now() + UNLOAD_AFTER)),
            false => {
                self.at = None;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_activity_moves_it() {
        let mut deadline = UnloadDeadline::default();
        assert_eq!(deadline.of(false), None);
        let began = Instant::now();
        assert_eq!(deadline.of(true), Some(began + UNLOAD_AFTER));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(deadline.of(true), Some(began + UNLOAD_AFTER));
        deadline.restart();
        let again = Instant::now();
        assert_eq!(deadline.of(true), Some(again + UNLOAD_AFTER));
        assert_eq!(deadline.of(false), None);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(deadline.of(true), Some(Instant::now() + UNLOAD_AFTER));
    }
}
