//! The clock of a turn, which stands still while a prompt is open outside the server, on the thread or on
//! one that it works for: for the time limits of commands, the waits of tool calls for their output,
//! and the seconds of budgets.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use services::budget::first::first;

/// The pausable clock of a turn.
#[derive(Clone)]
pub(crate) struct PausableClock {
    /// True if prompts of the thread itself are open. The clock ends with the thread.
    own: watch::Receiver<bool>,
    /// True if prompts of threads that it works for are open. One that ends has none.
    above: Vec<watch::Receiver<bool>>,
}

/// The thread of a clock has ended.
pub(crate) struct Ended;

impl PausableClock {
    pub(crate) fn new(own: watch::Receiver<bool>, above: Vec<watch::Receiver<bool>>) -> Self {
        Self { own, above }
    }

    /// Returns whether the clock stands still.
    pub(crate) fn is_paused(&mut self) -> bool {
        self.above.retain(|paused| paused.has_changed().is_ok());
        // Each is marked as seen, so that `changed` reports what changes from here on.
        let above = self.above.iter_mut().map(|paused| *paused.borrow_and_update());
        let above = above.filter(|is_paused| *is_paused).count();
        *self.own.borrow_and_update() || above > 0
    }

    /// Waits until [`Self::is_paused`] may have changed. Cancel safe.
    ///
    /// # Errors
    /// The thread has ended.
    pub(crate) async fn changed(&mut self) -> Result<(), Ended> {
        let above = first(self.above.iter_mut().map(|paused| paused.changed()));
        tokio::select! {
            changed = self.own.changed() => changed.map_err(|_| Ended),
            _ = above => Ok(()),
        }
    }

    /// Waits until `duration` has passed on the clock, or the thread has ended.
    pub(crate) async fn elapse(mut self, duration: Duration) {
        let mut left = duration;
        loop {
            let is_paused = self.is_paused();
            let started = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left), if !is_paused => return,
                changed = self.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
            if !is_paused {
                left = left.saturating_sub(started.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pass(seconds: u64) {
        // The waiting task takes note of the time before and after.
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_stands_still_while_a_prompt_is_open_here_or_above() {
        let threads: [watch::Sender<bool>; 3] = std::array::from_fn(|_| watch::Sender::new(false));
        for paused in 0..3 {
            let above = vec![threads[1].subscribe(), threads[2].subscribe()];
            let clock = PausableClock::new(threads[0].subscribe(), above);
            let waiting = tokio::spawn(clock.elapse(Duration::from_secs(10)));
            pass(4).await;
            threads[paused].send_replace(true);
            pass(100).await;
            // A second prompt that closes ends no pause.
            threads[(paused + 1) % 3].send_replace(true);
            pass(100).await;
            threads[(paused + 1) % 3].send_replace(false);
            pass(100).await;
            threads[paused].send_replace(false);
            pass(5).await;
            assert!(!waiting.is_finished());
            pass(2).await;
            waiting.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_ends_pauses_nothing() {
        let (own, above) = (watch::Sender::new(false), watch::Sender::new(true));
        let clock = PausableClock::new(own.subscribe(), vec![above.subscribe()]);
        let waiting = tokio::spawn(clock.elapse(Duration::from_secs(10)));
        pass(100).await;
        drop(above);
        pass(9).await;
        assert!(!waiting.is_finished());
        pass(2).await;
        waiting.await.unwrap();
        // Without its own thread nothing waits.
        own.send_replace(true);
        let waiting = tokio::spawn(
            PausableClock::new(own.subscribe(), Vec::new()).elapse(Duration::from_secs(10)),
        );
        tokio::task::yield_now().await;
        drop(own);
        waiting.await.unwrap();
    }
}
