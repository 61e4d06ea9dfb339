//! Keys that all nodes of a store share, such as the one that seals what clients send back.

use crate::Error;
use crate::database::{Database, Statement};

/// The key of that name. If there is none yet, it is `new`, unless another node is faster.
///
/// # Errors
/// See [`Error`].
pub async fn shared(database: &Database, name: &str, new: &[u8]) -> Result<Box<[u8]>, Error> {
    let insert = Statement::new(
        "INSERT INTO shared_keys (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        [name.into(), new.into()],
    );
    let read = Statement::new("SELECT secret FROM shared_keys WHERE name = $1", [name.into()]);
    let done = database.transact(vec![insert, read]).await?;
    let row = done.last().and_then(|done| done.rows.first());
    row.map_or_else(|| Ok(new.into()), |row| row.bytes(0))
}
