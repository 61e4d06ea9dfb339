//! Facts that are remembered forever once they are recorded.

use crate::Error;
use crate::database::{Database, Statement};
use crate::records::key_text;

/// Records a fact about a subject. Returns whether it is new. The subject is stored as a hash,
/// because it may contain a password.
///
/// # Errors
/// See [`Error`].
pub async fn note(database: &Database, fact: &str, thing: &str, at: i64) -> Result<bool, Error> {
    let hash = key_text::hash(thing);
    let hash = const_hex::encode(&hash[..16]);
    let insert = Statement::new(
        "INSERT INTO facts (name, at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        [format!("{fact}:{hash}").into(), at.into()],
    );
    let done = database.transact(vec![insert]).await?;
    Ok(done.first().is_some_and(|done| done.affected == 1))
}
