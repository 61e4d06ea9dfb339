//! Spend limits: a hard limit of an organization or a project, and alerts. Amounts are cents in the
//! store and micro-dollars in comparisons.

use ratelimit::Micros;

use super::changes::{Change, announce};
use super::page::{self, Listed, Page, Source};
use super::{found, ids};
use crate::Error;
use crate::database::{Database, Row, Statement, Value};
use gateway_policy::dates::seconds;
use gateway_policy::environment::Random;
use gateway_policy::tenants::{MicroDollars, SpendAlert};

/// Most alerts per organization or project.
pub const MAX_ALERTS: u32 = 100;

/// The owner of a limit, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// An organization: all its projects together.
    Organization(&'a str),
    /// One project.
    Project(&'a str),
}

impl<'a> Scope<'a> {
    fn id(self) -> &'a str {
        let (Self::Organization(id) | Self::Project(id)) = self;
        id
    }

    fn change(self) -> Change {
        match self {
            Self::Organization(id) => Change::Organization(id.into()),
            Self::Project(id) => Change::Project(id.into()),
        }
    }

    fn exists(self) -> &'static str {
        match self {
            Self::Organization(_) => "organizations WHERE id = $1 AND deleted_at IS NULL",
            Self::Project(_) => "projects WHERE id = $1 AND archived_at IS NULL",
        }
    }
}

/// A stored alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// `alert_…`.
    pub id: Box<str>,
    /// The spend at which it is raised, in cents.
    pub threshold_cents: u64,
    /// The recipients, as JSON: stored only to be returned.
    pub channel: Box<str>,
}

/// Converts cents to micro-dollars.
#[must_use]
pub fn from_cents(cents: u64) -> MicroDollars {
    cents.saturating_mul(10_000)
}

/// Sets or removes the hard limit. Returns `None` if there is no such organization or project.
///
/// # Errors
/// See [`Error`].
pub async fn set_hard(
    database: &Database,
    scope: Scope<'_>,
    cents: Option<u64>,
    now: Micros,
) -> Result<Option<()>, Error> {
    let sql = match scope {
        Scope::Organization(_) => {
            "UPDATE organizations SET hard_limit_cents = $1 WHERE id = $2 AND deleted_at IS NULL"
        }
        Scope::Project(_) => {
            "UPDATE projects SET hard_limit_cents = $1 WHERE id = $2 AND archived_at IS NULL"
        }
    };
    let update = Statement::new(sql, [cents.into(), scope.id().into()]);
    change(database, scope, vec![update.expecting(1)], now).await
}

/// An organization or a project with a hard limit; `None` if there is none.
///
/// # Errors
/// See [`Error`].
pub async fn any_hard(database: &Database) -> Result<Option<Box<str>>, Error> {
    let sql = "SELECT id FROM organizations WHERE hard_limit_cents IS NOT NULL AND deleted_at IS NULL \
               UNION ALL \
               SELECT id FROM projects WHERE hard_limit_cents IS NOT NULL AND archived_at IS NULL \
               LIMIT 1";
    let rows = database.query(Statement::new(sql, [])).await?;
    rows.first().map(|row| row.text(0)).transpose()
}

/// The alerts that a cache keeps, lowest threshold first.
///
/// # Errors
/// See [`Error`].
pub async fn alerts_of(database: &Database, scope: &str) -> Result<Vec<SpendAlert>, Error> {
    let sql = "SELECT id, threshold_cents FROM spend_alerts WHERE scope = $1 \
               ORDER BY threshold_cents, id LIMIT $2";
    let values = [Value::from(scope), MAX_ALERTS.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    let read =
        |row: &Row| Ok(SpendAlert { id: row.text(0)?, threshold: from_cents(row.count(1)?) });
    rows.iter().map(read).collect()
}

/// Adds an alert. Returns `None` if there is no such organization or project, or it has
/// [`MAX_ALERTS`].
///
/// # Errors
/// See [`Error`].
pub async fn add_alert(
    database: &Database,
    scope: Scope<'_>,
    threshold_cents: u64,
    channel: &str,
    now: Micros,
    random: &dyn Random,
) -> Result<Option<Alert>, Error> {
    let id = ids::new("alert_", now, random);
    let sql = format!(
        "INSERT INTO spend_alerts (id, scope, threshold_cents, channel) \
         SELECT $2, id, $3, $4 FROM {} \
         AND (SELECT COUNT(*) FROM spend_alerts WHERE scope = $1) < $5",
        scope.exists()
    );
    let values = vec![
        scope.id().into(),
        (&id).into(),
        threshold_cents.into(),
        channel.into(),
        MAX_ALERTS.into(),
    ];
    let insert = Statement::composed(sql, values).expecting(1);
    let made = change(database, scope, vec![insert], now).await?;
    Ok(made.map(|()| Alert { id, threshold_cents, channel: channel.into() }))
}

/// Replaces an alert. Returns `None` if it does not exist.
///
/// # Errors
/// See [`Error`].
pub async fn set_alert(
    database: &Database,
    scope: Scope<'_>,
    alert: &Alert,
    now: Micros,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE spend_alerts SET threshold_cents = $1, channel = $2 WHERE id = $3 AND scope = $4",
        [
            alert.threshold_cents.into(),
            (&alert.channel).into(),
            (&alert.id).into(),
            scope.id().into(),
        ],
    );
    change(database, scope, vec![update.expecting(1)], now).await
}

/// Deletes an alert. Returns `None` if it does not exist.
///
/// # Errors
/// See [`Error`].
pub async fn delete_alert(
    database: &Database,
    scope: Scope<'_>,
    id: &str,
    now: Micros,
) -> Result<Option<()>, Error> {
    let sql = "DELETE FROM spend_alerts WHERE id = $1 AND scope = $2";
    let delete = Statement::new(sql, [id.into(), scope.id().into()]).expecting(1);
    change(database, scope, vec![delete], now).await
}

/// Returns one alert.
///
/// # Errors
/// See [`Error`].
pub async fn alert(database: &Database, scope: &str, id: &str) -> Result<Option<Alert>, Error> {
    let sql = "SELECT id, threshold_cents, channel FROM spend_alerts WHERE id = $1 AND scope = $2";
    let rows = database.query(Statement::new(sql, [id.into(), scope.into()])).await?;
    rows.first().map(read).transpose()
}

/// A page of the alerts of an organization or a project.
///
/// # Errors
/// See [`Error`].
pub async fn list_alerts(
    database: &Database,
    scope: &str,
    page: &Page,
) -> Result<Listed<Alert>, Error> {
    let source = Source {
        columns: "id, threshold_cents, channel",
        table: "spend_alerts",
        condition: "scope = $1",
        key: "id",
        value: scope.into(),
    };
    page::list(database, source, page, read).await
}

async fn change(
    database: &Database,
    scope: Scope<'_>,
    mut statements: Vec<Statement>,
    now: Micros,
) -> Result<Option<()>, Error> {
    statements.extend(announce(&scope.change(), seconds(now)));
    found(database.transact(statements).await.map(drop))
}

fn read(row: &Row) -> Result<Alert, Error> {
    Ok(Alert { id: row.text(0)?, threshold_cents: row.count(1)?, channel: row.text(2)? })
}
