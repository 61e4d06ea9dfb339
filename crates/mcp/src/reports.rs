//! Reports of the progress of a call: the latest one replaces those that were not taken yet, and they are
//! passed on at most ten times a second. The last one comes before the end.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::calls::Progress;

/// Shortest time between two reports.
const INTERVAL: Duration = Duration::from_millis(100);

/// Where a call puts its reports.
#[derive(Debug, Clone)]
pub struct ReportSender(watch::Sender<Option<Progress>>);

/// The receiving end of a call's progress reports.
pub struct Reports {
    latest: watch::Receiver<Option<Progress>>,
    /// A report waits for its time.
    is_waiting: bool,
    /// When the next one may be passed on.
    next: Instant,
    /// The sender is closed: pass the remaining report on at once.
    is_closed: bool,
}

/// Both ends for one call.
pub fn reports() -> (ReportSender, Reports) {
    let (sender, latest) = watch::channel(None);
    let reports = Reports { latest, is_waiting: false, next: Instant::now(), is_closed: false };
    (ReportSender(sender), reports)
}

impl ReportSender {
    pub(crate) fn send(&self, progress: Progress) {
        self.0.send_replace(Some(progress));
    }
}

impl Reports {
    /// The next report; `None` when there is none left. Cancel safe.
    pub async fn recv(&mut self) -> Option<Progress> {
        if !self.is_waiting {
            let changed = match self.is_closed {
                true => self.latest.changed().now_or_never()?,
                false => self.latest.changed().await,
            };
            changed.ok()?;
            self.is_waiting = true;
        }
        if !self.is_closed {
            tokio::select! {
                () = tokio::time::sleep_until(self.next) => {}
                () = ended(self.latest.clone()) => {}
            }
        }
        self.is_waiting = false;
        self.next = Instant::now() + INTERVAL;
        self.latest.borrow_and_update().clone()
    }

    /// The call has its answer: further reports are ignored.
    pub fn close(&mut self) {
        self.is_closed = true;
    }
}

/// Waits until no further report can come.
async fn ended(mut latest: watch::Receiver<Option<Progress>>) {
    while latest.changed().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn report(progress: f64) -> Progress {
        Progress { progress, total: None, message: None }
    }

    #[tokio::test(start_paused = true)]
    async fn ten_in_a_second_and_the_last_one() {
        let (sender, mut reports) = reports();
        let flood = tokio::spawn(async move {
            for number in 0..100_001 {
                sender.send(report(f64::from(number)));
                if number % 100 == 0 {
                    // tidy: sleep the clock is paused: it passes at once
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        let begun = Instant::now();
        let mut received = Vec::new();
        while let Some(report) = reports.recv().await {
            received.push(report.progress);
        }
        flood.await.unwrap();
        assert_eq!((received[0], received.last()), (0.0, Some(&100_000.0)));
        assert!(received.is_sorted());
        let most = begun.elapsed().as_millis() / INTERVAL.as_millis() + 2;
        assert!((8..=most as usize).contains(&received.len()), "{}", received.len());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_comes_at_once_when_the_call_has_its_answer() {
        let (sender, mut reports) = reports();
        sender.send(report(1.0));
        assert_eq!(reports.recv().await, Some(report(1.0)));
        sender.send(report(2.0));
        sender.send(report(3.0));
        let early = tokio::time::timeout(INTERVAL / 2, reports.recv()).await;
        assert!(early.is_err());
        let begun = Instant::now();
        reports.close();
        assert_eq!(reports.recv().await, Some(report(3.0)));
        assert_eq!((reports.recv().await, begun.elapsed()), (None, Duration::ZERO));
    }
}
