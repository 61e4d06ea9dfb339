//! The output file of a job: a file with other contents is not the job's, and is never replaced.

use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The member of a stored job.
const MEMBER: &str = "written";

/// The results that a job wrote, or was about to write, newest last: at most two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenOutputs(Vec<Written>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    bytes: u64,
    /// Hexadecimal.
    sha256: String,
}

impl WrittenOutputs {
    /// Those of a stored job, by its detail.
    pub(super) fn of_job(detail: &str) -> Self {
        let detail: Value = serde_json::from_str(detail).unwrap_or_default();
        let read = |written: &Value| {
            let sha256 = written["sha256"].as_str()?.to_owned();
            Some(Written { bytes: written["bytes"].as_u64()?, sha256 })
        };
        Self(detail[MEMBER].as_array().into_iter().flatten().filter_map(read).collect())
    }

    /// With what is about to be written. What the file has until then stays the job's.
    pub(super) fn with(&self, contents: &[u8]) -> Self {
        let new = Written::new(contents);
        let kept = self.0.iter().rev().find(|written| **written != new).cloned();
        Self(kept.into_iter().chain([new]).collect())
    }

    /// The detail of a job that wrote them.
    pub(super) fn describe(&self, mut detail: Value) -> String {
        let written = self.0.iter();
        let written = written.map(|one| json!({ "bytes": one.bytes, "sha256": one.sha256 }));
        detail[MEMBER] = written.collect();
        detail.to_string()
    }

    /// Checks that nothing is at `output`, or what the job wrote; returns whether there is something.
    /// Reads the file only when it is as long as that. Runs on a thread of a pool.
    ///
    /// # Errors
    /// Why the file must stay.
    pub(super) fn check(&self, output: &Path) -> Result<bool, String> {
        let shown = output.display();
        let found = match output.metadata() {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(format!("{shown} cannot be looked at: {error}")),
        };
        let is_own = self.0.iter().any(|written| {
            written.bytes == found.len()
                && files::read(output, written.bytes)
                    .is_ok_and(|contents| Written::new(&contents) == *written)
        });
        match is_own {
            true => Ok(true),
            false => Err(format!(
                "{shown} exists, and this job did not write it as it is; a job replaces no file \
                 of others"
            )),
        }
    }
}

impl Written {
    fn new(contents: &[u8]) -> Self {
        let sha256 = Sha256::digest(contents).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes: contents.len() as u64, sha256 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_job_wrote_is_known_again_from_its_detail() {
        let none = WrittenOutputs::of_job("{}");
        let all = none.with(b"one").with(b"two").with(b"two").with(b"three");
        let expected = ["two", "three"].map(|text| Written::new(text.as_bytes()));
        assert_eq!(all.0, expected);
        let detail = all.describe(json!({ "header": ["a"] }));
        assert_eq!(WrittenOutputs::of_job(&detail), all);
        for detail in ["", "[]", "{\"written\":null}", "{\"written\":[1,{\"bytes\":-1}]}"] {
            assert_eq!(WrittenOutputs::of_job(detail), none, "{detail}");
        }
    }
}
