//! `[responses]`: the responses that the gateway keeps itself, for models whose servers keep none.

use super::error::Fault;
use super::file;

/// Settings of kept responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Responses {
    /// True if new responses are kept. Those that are kept already can be read, continued and deleted in any case.
    pub keep: bool,
    /// Seconds that a conversation is kept after its last use; the default is 30 days.
    pub retention: i64,
    /// Most bytes of a project, beyond which its least recently used conversations are deleted; the default is a
    /// gigabyte.
    pub project_bytes: u64,
}

impl Responses {
    pub(super) fn resolve(written: &file::Responses) -> Result<Self, Fault> {
        let within = |value: Option<u64>, default: u64, (least, most): (u64, u64), key| {
            let value = value.unwrap_or(default);
            match (least..=most).contains(&value) {
                true => Ok(value),
                false => Err(Fault::new(&["responses", key], format!("must be {least} to {most}"))),
            }
        };
        let days = within(written.retention_days, 30, (1, 3650), "retention_days")?;
        let bytes = (1 << 20, 1 << 50);
        Ok(Self {
            keep: written.keep,
            retention: i64::try_from(days * 86_400).unwrap_or(i64::MAX),
            project_bytes: within(written.max_project_bytes, 1 << 30, bytes, "max_project_bytes")?,
        })
    }
}
