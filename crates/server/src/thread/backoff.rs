//! How long a thread waits before it asks the model again.

use std::time::Duration;

/// 200 ms, 400 ms, … up to 30 s, give or take a tenth; never less than what the provider asks for.
pub(super) fn backoff(attempt: u32, at_least_ms: Option<u64>, jitter: f64) -> Duration {
    const MAX_ASKED_MS: u64 = 10 * 60 * 1000;
    let exponent = attempt.saturating_sub(1).min(10);
    let base = (200u64 << exponent).min(30_000) as f64;
    let own = (base * (0.9 + 0.2 * jitter)) as u64;
    Duration::from_millis(own.max(at_least_ms.unwrap_or(0).min(MAX_ASKED_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_obey_the_provider() {
        let ms = |attempt, asked| backoff(attempt, asked, 0.5).as_millis();
        assert_eq!([ms(1, None), ms(2, None), ms(3, None), ms(20, None)], [200, 400, 800, 30_000]);
        assert_eq!(ms(1, Some(5_000)), 5_000);
        assert_eq!(ms(1, Some(u64::MAX)), 600_000);
    }
}
