//! The gateway's environment: time and randomness. The program injects them, so that tests are
//! deterministic.

use std::sync::Arc;

use ratelimit::Micros;

/// The current time, which tests control.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since 1970-01-01 UTC.
    fn now(&self) -> Micros;
}

/// A cryptographically secure source of randomness.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes` with randomness.
    fn fill(&self, bytes: &mut [u8]);
}

/// The sources of time and randomness.
#[derive(Clone)]
pub struct Environment {
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and keys.
    pub random: Arc<dyn Random>,
}
