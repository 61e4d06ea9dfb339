//! Checks that a database is completely readable.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::sqlite::content::{damaged, is_chunk, load};
use crate::sqlite::failure::Failure;
use crate::sqlite::joined;

/// Reads every text.
///
/// # Errors
/// The first text that cannot be read.
pub(crate) fn check_all(conn: &Connection) -> Result<(), Failure> {
    for table in ["thread", "turn", "item", "history"] {
        let mut all = conn.prepare(&format!("SELECT * FROM {table}"))?;
        let columns = all.column_count();
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                if let ValueRef::Text(text) = row.get_ref(column)? {
                    std::str::from_utf8(text).map_err(|_| damaged("a text"))?;
                }
            }
        }
    }
    let mut chunks = conn.prepare("SELECT hash, size, data FROM chunk")?;
    let mut rows = chunks.query([])?;
    while let Some(row) = rows.next()? {
        let (hash, data): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(2)?);
        if !is_chunk(&hash, row.get(1)?, &data) {
            return Err(damaged("a chunk of text"));
        }
    }
    joined::check_all(conn)?;
    for table in ["item", "history"] {
        let mut packed =
            conn.prepare(&format!("SELECT packed FROM {table} WHERE packed IS NOT NULL"))?;
        let mut rows = packed.query([])?;
        while let Some(row) = rows.next()? {
            load(conn, String::new(), row.get(0)?)?;
        }
    }
    Ok(())
}
