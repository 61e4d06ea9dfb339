//! Limits failed sign-ins: a token bucket per client address. Behind a proxy that is not trusted to name the client,
//! all clients share one bucket; open sessions are not affected.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use ratelimit::{Bucket, Limit, MINUTE, SteadyTime};

/// Failures per minute and address.
const LIMIT: Limit = Limit { amount: 20, window: MINUTE };
/// Most addresses with a bucket of their own; further ones share one bucket.
const MOST: usize = 4096;

/// The buckets of failed sign-ins.
#[derive(Default)]
pub(super) struct Attempts(Mutex<Buckets>);

#[derive(Default)]
struct Buckets {
    by_address: HashMap<IpAddr, Bucket>,
    shared: Bucket,
}

impl Attempts {
    /// Starts an attempt. It counts as failed until [`Attempts::succeeded`] is called, so that
    /// concurrent attempts are limited like sequential ones.
    ///
    /// # Errors
    /// The limit is reached: seconds until the next attempt, rounded up.
    pub(super) fn begin(&self, from: IpAddr, now: SteadyTime) -> Result<(), u64> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.for_address(from, now);
        bucket.advance(LIMIT, now.micros());
        if !bucket.fits(LIMIT, 1) {
            let wait = bucket.wait(LIMIT, 1).unwrap_or(MINUTE);
            return Err(wait.div_ceil(1_000_000).max(1));
        }
        bucket.take(LIMIT, 1);
        Ok(())
    }

    /// Returns the attempt to the bucket.
    pub(super) fn succeeded(&self, from: IpAddr, now: SteadyTime) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.for_address(from, now).refund(LIMIT, 1, now.micros());
    }
}

impl Buckets {
    fn for_address(&mut self, from: IpAddr, now: SteadyTime) -> &mut Bucket {
        let network = network(from);
        if self.by_address.len() >= MOST && !self.by_address.contains_key(&network) {
            self.by_address.retain(|_, bucket| {
                bucket.advance(LIMIT, now.micros());
                bucket.used(LIMIT) > 0
            });
            if self.by_address.len() >= MOST {
                return &mut self.shared;
            }
        }
        self.by_address.entry(network).or_default()
    }
}

/// The network of one subscriber of a provider: with IPv6, 2⁶⁴ addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            std::net::Ipv6Addr::from_bits(bits).into()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: SteadyTime = SteadyTime::from_micros(1_700_000_000_000_000);

    #[test]
    fn failures_are_bounded_and_successes_are_not() {
        let attempts = Attempts::default();
        let from = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..100 {
            attempts.begin(from, NOW).unwrap();
            attempts.succeeded(from, NOW);
        }
        for _ in 0..LIMIT.amount {
            attempts.begin(from, NOW).unwrap();
        }
        assert_eq!(attempts.begin(from, NOW), Err(3));
        assert_eq!(attempts.begin(IpAddr::from([192, 0, 2, 2]), NOW), Ok(()));
        assert_eq!(attempts.begin(from, NOW.after(3_000_000)), Ok(()));
        assert_eq!(attempts.begin(from, NOW.after(3_000_000)), Err(3));
    }

    #[test]
    fn addresses_of_one_network_share_a_count_and_networks_are_bounded() {
        let attempts = Attempts::default();
        let host = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]);
        for n in 0..20 {
            attempts.begin(host(n), NOW).unwrap();
        }
        assert!(attempts.begin(host(99), NOW).is_err());
        for n in 0..20_000_u32 {
            let _ = attempts.begin(IpAddr::from((n + 1).to_be_bytes()), NOW);
        }
        assert_eq!(attempts.0.lock().unwrap().by_address.len(), MOST);
        let later = NOW.after(MINUTE);
        attempts.begin(IpAddr::from([198, 51, 100, 1]), later).unwrap();
        assert_eq!(attempts.0.lock().unwrap().by_address.len(), 1);
    }
}
