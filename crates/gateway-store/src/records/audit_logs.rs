//! The audit log, as it is read: by filter, newest first, and from the oldest row for exports.

use ratelimit::Micros;

use super::audit::Actor;
use super::page::{Listed, Page};
use crate::Error;
use crate::database::{Database, Row, Statement, Value};

/// Rows per part of an export.
const PART: u32 = 500;

const COLUMNS: &str = "id, at, organization, project, kind, object, actor_kind, actor, address, user_agent, \
     value_before, value_after";

/// A row of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// `audit_log-…`.
    pub id: Box<str>,
    /// When it happened.
    pub at: Micros,
    /// Its organization; empty if it concerns the gateway as a whole.
    pub organization: Box<str>,
    /// The project that it was scoped to.
    pub project: Option<Box<str>>,
    /// `project.created` and the like.
    pub kind: Box<str>,
    /// The id of the object; empty without one.
    pub object: Box<str>,
    /// The one who acted.
    pub actor: Actor,
    /// The address of its client.
    pub address: Option<Box<str>>,
    /// The user agent of its client.
    pub user_agent: Option<Box<str>>,
    /// A JSON object.
    pub before: Option<Box<str>>,
    /// A JSON object.
    pub after: Option<Box<str>>,
}

/// The rows to read. An empty list does not filter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Those of this organization.
    pub organization: Box<str>,
    /// True if those that concern the gateway as a whole are among them.
    pub with_gateway: bool,
    /// Not before, in microseconds.
    pub from: Option<Micros>,
    /// Before, in microseconds.
    pub until: Option<Micros>,
    /// Ids of projects.
    pub projects: Vec<String>,
    /// Types.
    pub kinds: Vec<String>,
    /// Ids of actors.
    pub actors: Vec<String>,
    /// Ids of objects.
    pub objects: Vec<String>,
}

impl Filter {
    /// The condition and its values.
    fn condition(&self) -> (String, Vec<Value>) {
        let mut values: Vec<Value> = vec![(&self.organization).into()];
        let mut sql = "organization = $1".to_owned();
        if self.with_gateway {
            sql = "organization IN ($1, '')".to_owned();
        }
        for (comparison, moment) in [(">=", self.from), ("<", self.until)] {
            if let Some(moment) = moment {
                values.push(moment.into());
                sql += &format!(" AND at {comparison} ${}", values.len());
            }
        }
        for (column, names) in [
            ("project", &self.projects),
            ("kind", &self.kinds),
            ("actor", &self.actors),
            ("object", &self.objects),
        ] {
            if names.is_empty() {
                continue;
            }
            let mut places = Vec::with_capacity(names.len());
            for name in names {
                values.push(name.as_str().into());
                places.push(format!("${}", values.len()));
            }
            sql += &format!(" AND {column} IN ({})", places.join(", "));
        }
        (sql, values)
    }

    async fn read(
        &self,
        database: &Database,
        (sign, cursor): (&str, &str),
        order: &str,
        limit: u32,
    ) -> Result<Vec<Logged>, Error> {
        let (condition, mut values) = self.condition();
        let place = values.len() + 1;
        values.extend([cursor.into(), limit.into()]);
        let sql = format!(
            "SELECT {COLUMNS} FROM audit_logs WHERE {condition} AND id {sign} ${place} \
             ORDER BY id {order} LIMIT ${}",
            place + 1
        );
        let rows = database.report(Statement::composed(sql, values)).await?;
        rows.iter().map(read).collect()
    }
}

/// A page of the rows that a filter lets through, newest first.
///
/// # Errors
/// See [`Error`].
pub async fn list(
    database: &Database,
    filter: &Filter,
    page: &Page,
) -> Result<Listed<Logged>, Error> {
    let most = page.limit + 1;
    let mut items = match &page.before {
        Some(before) => filter.read(database, (">", before), "ASC", most).await?,
        None => {
            let after = page.after.as_deref().unwrap_or("~");
            filter.read(database, ("<", after), "DESC", most).await?
        }
    };
    let has_more = items.len() > page.limit as usize;
    items.truncate(page.limit as usize);
    if page.before.is_some() {
        items.reverse();
    }
    Ok(Listed { items, has_more })
}

/// The next rows of an export after the row of that id, oldest first. No rows: it is complete.
///
/// # Errors
/// See [`Error`].
pub async fn export(
    database: &Database,
    filter: &Filter,
    after: &str,
) -> Result<Vec<Logged>, Error> {
    filter.read(database, (">", after), "ASC", PART).await
}

fn read(row: &Row) -> Result<Logged, Error> {
    Ok(Logged {
        id: row.text(0)?,
        at: row.count(1)?,
        organization: row.text(2)?,
        project: row.optional_text(3)?,
        kind: row.text(4)?,
        object: row.text(5)?,
        actor: Actor::read(&row.text(6)?, row.text(7)?),
        address: row.optional_text(8)?,
        user_agent: row.optional_text(9)?,
        before: row.optional_text(10)?,
        after: row.optional_text(11)?,
    })
}
