//! `[batches]`: how many lines of batches run at once, and how often a line is tried.

use std::time::Duration;

use super::error::Fault;
use super::file;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Lines of one batch that run at once; 8 unless said otherwise.
    pub lines_at_once: u32,
    /// Lines of all batches that run at once on this node; 32 unless said otherwise. It takes
    /// effect after a restart.
    pub lines_per_node: u32,
    /// How often a line that the model server fails is tried; 5 unless said otherwise.
    pub attempts: u32,
    /// The pause before the second try; each later one is twice as long. Half a second unless said
    /// otherwise.
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
