//! Conditions of an act, which are checked in the transaction of its change: that the record is
//! still as the administrator saw it, and that the same form was not sent before.

use sha2::{Digest, Sha256};

use super::{facts, ids};
use crate::database::{Statement, StatementResult, Value};

/// The version of a record: a digest of the values that the audit log shows. It differs after each
/// change that an administrator can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(Box<str>);

impl Version {
    /// The version that a client sends back. Any text is one; only the right one is met.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// Its text: 32 hexadecimal digits.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.0
    }

    /// The version of a record with these values; `None`: there is no such record.
    pub(super) fn of_values(json: Option<&str>) -> Self {
        let digest = Sha256::new().chain_update(json.map_or("-", |_| "+"));
        let digest = digest.chain_update(json.unwrap_or_default()).finalize();
        Self(ids::hex(&digest[..16]).into())
    }
}

/// Conditions of an act. The default has none.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// A text that only one act may have, such as the number of a form.
    pub once: Option<Box<str>>,
    /// The version of the record that the act changes.
    pub expected: Option<Version>,
}

/// The name under which [`facts`] remembers acts that may happen once.
const ONCE: &str = "act";
/// Time for which they are remembered, in seconds: longer than any form is valid.
const REMEMBERED: i64 = 2 * 86_400;

/// The statement that fails if an act with that text was committed before.
pub(super) fn once(text: &str, at: i64) -> Statement {
    let sql = "INSERT INTO facts (name, at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    Statement::new(sql, [facts::name(ONCE, text).into(), at.into()]).expecting(1)
}

/// The statement that fails if the version of the record that `read` finds in the earlier results
/// is another one.
pub(super) fn is_expected(
    expected: Version,
    read: impl Fn(&[StatementResult]) -> Version + Send + Sync + 'static,
) -> Statement {
    let sql = "SELECT 1 WHERE CAST($1 AS TEXT) = CAST($2 AS TEXT)";
    let values = move |results: &[StatementResult]| -> Vec<Value> {
        vec![(&read(results).0).into(), (&expected.0).into()]
    };
    Statement::computed(sql, values).expecting(1)
}

/// The statement that forgets acts whose forms are no longer valid.
pub(super) fn prune(now: i64) -> Statement {
    let sql = "DELETE FROM facts WHERE name >= 'act:' AND name < 'act;' AND at < $1";
    Statement::new(sql, [(now - REMEMBERED).into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_differ_with_the_values() {
        let of = Version::of_values;
        assert_eq!(of(Some("{}")), of(Some("{}")));
        assert_ne!(of(Some("{}")), of(Some("{\"a\":1}")));
        assert_ne!(of(None), of(Some("")));
        assert_eq!(Version::from_text(of(None).as_text()), of(None));
        assert_eq!(of(None).as_text().len(), 32);
    }
}
