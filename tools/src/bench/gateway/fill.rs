//! Fills a gateway's SQLite database with many organizations and keys, as if created through the
//! admin API. Depends on the tables of `crates/gateway-store/src/database/schema`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::{Connection, Transaction, params};
use sha2::{Digest, Sha256};

const MADE_AT: i64 = 1_790_000_000;

/// Adds `organizations`, each with a project, and `keys` distributed over them; returns one of the
/// keys. No gateway may have the database open.
pub(crate) fn database(file: &Path, keys: u64, organizations: u64) -> Result<String> {
    let place = || file.display().to_string();
    ensure!(file.is_file(), "{}: the gateway has not created its database", place());
    let mut connection = Connection::open(file).with_context(place)?;
    // Keys are inserted in random order, so the whole index is in use all the time.
    connection.pragma_update(None, "cache_size", -512 * 1024)?;
    let key = fill(&mut connection, keys, organizations).with_context(place)?;
    // The gateway must not start with a write-ahead log to process.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(key)
}

fn fill(connection: &mut Connection, keys: u64, organizations: u64) -> Result<String> {
    let transaction = connection.transaction()?;
    add_organizations(&transaction, organizations)?;
    add_keys(&transaction, keys, organizations)?;
    transaction.commit()?;
    Ok(key_text(keys / 2))
}

fn add_organizations(transaction: &Transaction<'_>, count: u64) -> Result<()> {
    let mut organization = transaction.prepare(
        "INSERT INTO organizations (id, name, tier_set, tier_paid, paid_cents, created_at) \
         VALUES (?1, ?2, 0, 0, 0, ?3)",
    )?;
    let mut project = transaction.prepare(
        "INSERT INTO projects (id, organization, name, created_at) VALUES (?1, ?2, 'bench', ?3)",
    )?;
    for number in 0..count {
        let id = id("org-", number);
        organization.execute(params![id, format!("Organization {number}"), MADE_AT])?;
        project.execute(params![self::id("proj_", number), id, MADE_AT])?;
    }
    Ok(())
}

fn add_keys(transaction: &Transaction<'_>, count: u64, projects: u64) -> Result<()> {
    let mut key = transaction.prepare(
        "INSERT INTO keys (hash, id, project, name, redacted, created_at) \
         VALUES (?1, ?2, ?3, 'bench', ?4, ?5)",
    )?;
    for number in 0..count {
        let text = key_text(number);
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let redacted = format!("sk-proj-********{}", &text[text.len() - 4..]);
        let project = id("proj_", number % projects.max(1));
        key.execute(params![hash, id("key_", number), project, redacted, MADE_AT])?;
    }
    Ok(())
}

/// Returns an id as long as the gateway's own.
fn id(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:032x}")
}

/// Returns a key's text: its prefix, a unique part, and the checksum of both.
fn key_text(number: u64) -> String {
    let body = format!("sk-proj-{number:040x}");
    let sum = Sha256::new().chain_update("gateway key ").chain_update(&body).finalize();
    format!("{body}{}", URL_SAFE_NO_PAD.encode(&sum[..3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_gateway_are_filled() {
        let schema = include_str!("../../../../crates/gateway-store/src/database/schema/1.sql");
        let schema = schema
            .replace("{id}", "TEXT")
            .replace("{serial}", "INTEGER PRIMARY KEY")
            .replace("{bytes}", "BLOB");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.db");
        assert!(database(&file, 10, 4).is_err(), "it makes no database");
        Connection::open(&file).unwrap().execute_batch(&schema).unwrap();
        let key = database(&file, 10, 4).unwrap();
        assert_eq!(key.len(), 52);
        let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let connection = Connection::open(&file).unwrap();
        let found: String = connection
            .query_row(
                "SELECT o.name FROM keys k JOIN projects p ON p.id = k.project \
                 JOIN organizations o ON o.id = p.organization WHERE k.hash = ?1",
                params![hash],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(found, "Organization 1");
    }
}
