//! What the gateway takes from the machine: time and randomness. The program injects them, so
//! that tests are exact.

use std::sync::Arc;

use ratelimit::Micros;

/// The current time. Tests set it.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since 1970-01-01 UTC.
    fn now(&self) -> Micros;
}

/// A source of randomness that is fit for secrets.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// See the module.
#[derive(Clone)]
pub struct Environment {
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids and keys.
    pub random: Arc<dyn Random>,
}
