//! `[batches]`: how many lines run concurrently, and how often a line is attempted.

use std::time::Duration;

use super::error::Fault;
use super::file;

/// Settings of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Concurrent lines of one batch; the default is 8.
    pub lines_at_once: u32,
    /// Concurrent lines of all batches on this node; the default is 32. A change takes effect after
    /// a restart.
    pub lines_per_node: u32,
    /// Attempts of a line that the upstream fails; the default is 5.
    pub attempts: u32,
    /// Delay before the second attempt, which doubles with each further one. The default is half a
    /// second.
    pub backoff: Duration,
}

impl Batches {
    pub(super) fn resolve(written: &file::Batches) -> Result<Self, Fault> {
        let within = |value: Option<u64>, default: u32, most: u32, key| {
            let value = value.unwrap_or(default.into());
            match u32::try_from(value) {
                Ok(value) if (1..=most).contains(&value) => Ok(value),
                _ => Err(Fault::new(&["batches", key], format!("must be 1 to {most}"))),
            }
        };
        let backoff = within(written.backoff_ms, 500, 60_000, "backoff_ms")?;
        Ok(Self {
            lines_at_once: within(written.lines_at_once, 8, 256, "lines_at_once")?,
            lines_per_node: within(written.lines_per_node, 32, 4096, "lines_per_node")?,
            attempts: within(written.attempts, 5, 20, "attempts")?,
            backoff: Duration::from_millis(backoff.into()),
        })
    }
}
