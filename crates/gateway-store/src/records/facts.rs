//! Facts that are remembered once they are recorded, until they are found to be wrong.

use crate::Error;
use crate::database::{Database, Statement};
use crate::records::key_text;

/// Records a fact about a subject. Returns whether it is new. The subject is stored as a hash,
/// because it may contain a password.
///
/// # Errors
/// See [`Error`].
pub async fn note(database: &Database, fact: &str, thing: &str, at: i64) -> Result<bool, Error> {
    let insert = Statement::new(
        "INSERT INTO facts (name, at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        [name(fact, thing).into(), at.into()],
    );
    let done = database.transact(vec![insert]).await?;
    Ok(done.first().is_some_and(|done| done.affected == 1))
}

/// Takes back a fact that turned out not to hold.
///
/// # Errors
/// See [`Error`].
pub async fn forget(database: &Database, fact: &str, thing: &str) -> Result<(), Error> {
    let delete = Statement::new("DELETE FROM facts WHERE name = $1", [name(fact, thing).into()]);
    database.transact(vec![delete]).await.map(drop)
}

pub(super) fn name(fact: &str, thing: &str) -> String {
    let hash = key_text::hash(thing);
    format!("{fact}:{}", const_hex::encode(&hash[..16]))
}
