//! Search of keys across the projects of an organization: by name, id, prefix, last characters, and
//! owner. One pass over an index that has all of it; a page ends the pass.

use super::keys::{self, Key};
use super::page::{Listed, Page, contains};
use crate::Error;
use crate::database::{Database, Row, Statement, Value};

/// Keys per transaction when missing texts are added.
const TOGETHER: u64 = 100;

/// The keys to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    /// Those of this organization.
    pub organization: &'a str,
    /// Only those of this project.
    pub project: Option<&'a str>,
    /// Those whose name, id, redacted text or owner contains it, ignoring case.
    pub text: &'a str,
}

/// A key with the names of its project and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key.
    pub key: Key,
    /// The name of its project.
    pub project: Box<str>,
    /// The name of the service account that owns it.
    pub owner: Option<Box<str>>,
}

/// A page of the keys that match, oldest first.
///
/// # Errors
/// See [`Error`].
pub async fn search(
    database: &Database,
    keys: Keys<'_>,
    page: &Page,
) -> Result<Listed<Found>, Error> {
    let is_backward = page.before.is_some();
    let (order, sign, edge) = if is_backward { ("DESC", "<", "~") } else { ("ASC", ">", "") };
    let cursor = page.before.as_deref().or(page.after.as_deref()).unwrap_or(edge);
    let mut values: Vec<Value> =
        vec![keys.organization.into(), cursor.into(), (u64::from(page.limit) + 1).into()];
    let mut condition = format!("k.id {sign} $2");
    if let Some(project) = keys.project {
        values.push(project.into());
        condition += " AND k.project = $4";
    }
    let mut matching = format!(
        "SELECT id FROM (SELECT k.id FROM keys k WHERE k.organization = $1 AND {condition}"
    );
    if !keys.text.is_empty() {
        // SQLite lowers ASCII only: other capitals of an owner's name match as they are written.
        values.push(contains(&keys.text.to_lowercase()).into());
        values.push(contains(keys.text).into());
        let (lower, given) = (values.len() - 1, values.len());
        // Two queries, of which each has an index: with `OR`, PostgreSQL reads the keys of all
        // organizations. SQLite keeps the order of a cross join.
        matching += &format!(
            " AND k.search_text LIKE ${lower} ESCAPE '!' ORDER BY k.id {order} LIMIT $3) of_text \
             UNION SELECT id FROM (SELECT k.id FROM service_accounts a CROSS JOIN keys k \
             WHERE k.service_account = a.id AND {condition} \
             AND a.project IN (SELECT id FROM projects WHERE organization = $1) \
             AND (LOWER(a.name) LIKE ${lower} ESCAPE '!' OR a.name LIKE ${given} ESCAPE '!' \
             OR a.id LIKE ${lower} ESCAPE '!') ORDER BY k.id {order} LIMIT $3) of_owner"
        );
    } else {
        matching += &format!(" ORDER BY k.id {order} LIMIT $3) of_all");
    }
    let sql = format!(
        "SELECT k.id, k.project, k.service_account, k.name, k.redacted, k.created_at, k.expires_at, \
         k.last_used_at, k.hash, k.model_permissions, p.name, a.name FROM keys k \
         JOIN projects p ON p.id = k.project \
         LEFT JOIN service_accounts a ON a.id = k.service_account AND a.project = k.project \
         WHERE k.id IN ({matching}) ORDER BY k.id {order} LIMIT $3"
    );
    let mut rows = database.query(Statement::composed(sql, values)).await?;
    let has_more = rows.len() > page.limit as usize;
    rows.truncate(page.limit as usize);
    if is_backward {
        rows.reverse();
    }
    let read = |row: &Row| {
        let (project, owner) = (row.text(10)?, row.optional_text(11)?);
        Ok(Found { key: keys::read(row)?, project, owner })
    };
    Ok(Listed { items: rows.iter().map(read).collect::<Result<_, Error>>()?, has_more })
}

/// The text by which a key is searched. Names have no line breaks, so that no match spans two parts.
pub(super) fn text(name: &str, id: &str, redacted: &str) -> String {
    format!("{name}\n{id}\n{redacted}").to_lowercase()
}

/// Adds the texts of keys that a node of an earlier version created.
///
/// # Errors
/// See [`Error`]. Earlier transactions of the call stay committed.
pub async fn complete(database: &Database) -> Result<(), Error> {
    let mut after: Box<str> = "".into();
    loop {
        let sql = "SELECT id, name, redacted FROM keys WHERE search_text IS NULL AND id > $1 \
                   ORDER BY id LIMIT $2";
        let rows = database.query(Statement::new(sql, [(&after).into(), TOGETHER.into()])).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.text(0)?;
        let update = |row: &Row| {
            let id = row.text(0)?;
            let text = text(&row.text(1)?, &id, &row.text(2)?);
            let sql = "UPDATE keys SET search_text = $1, organization = \
                       (SELECT organization FROM projects WHERE projects.id = keys.project) WHERE id = $2";
            Ok(Statement::new(sql, [text.into(), id.into()]))
        };
        database.transact(rows.iter().map(update).collect::<Result<_, Error>>()?).await?;
    }
}
