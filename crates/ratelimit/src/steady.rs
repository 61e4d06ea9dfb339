//! Moments of a monotonic clock. They are a type of their own, so that an interval cannot be measured with a clock that
//! is set while it passes, and a moment of this clock cannot be taken for a date.

use crate::Micros;

/// A moment of a clock that never goes back and that no one sets.
///
/// Moments of two processes compare only roughly: each process begins at its wall clock's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SteadyTime(Micros);

impl SteadyTime {
    /// The moment that many microseconds after the clock's origin.
    #[must_use]
    pub const fn from_micros(micros: Micros) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's origin, which is not a date.
    #[must_use]
    pub const fn micros(self) -> Micros {
        self.0
    }

    /// The time that has passed since an earlier moment; zero for a later one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Micros {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment that much later.
    #[must_use]
    pub const fn after(self, wait: Micros) -> Self {
        Self(self.0.saturating_add(wait))
    }
}
