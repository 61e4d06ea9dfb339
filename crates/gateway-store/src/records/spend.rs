//! Spend limits: a hard limit of an organization or a project, and alerts. Amounts are cents in the
//! store and micro-dollars in comparisons.

use super::audit::{self, Act, Event, Form, Image};
use super::audit_events::{organization_changed, project_changed};
use super::changes::Change;
use super::ids;
use super::page::{self, Listed, Page, Source};
use crate::Error;
use crate::database::{Database, Row, Statement, Value};
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

    /// The event of a change of the owner's own row.
    fn changed(self, kind: &'static str) -> Event<'a> {
        match self {
            Self::Organization(id) => organization_changed(kind, id),
            Self::Project(id) => project_changed(kind, id),
        }
    }

    /// The event of a change of an alert.
    fn alert_changed(self, kind: &'static str, id: &'a str) -> Event<'a> {
        let image = alert_image(self, id);
        let (before, after) = (Some(image.clone()), Some(image));
        Event { object: id, before, after, ..self.changed(kind) }
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

/// An alert in the audit log.
pub(super) fn alert_image(scope: Scope<'_>, id: &str) -> Image {
    let sql = "SELECT threshold_cents, channel FROM spend_alerts WHERE id = $1 AND scope = $2";
    let columns = &[("threshold_amount", Form::Plain), ("notification_channel", Form::Json)];
    Image::new(sql, [id.into(), scope.id().into()], columns)
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
    act: Act,
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
    let kind = if cents.is_some() { "spend_limit.updated" } else { "spend_limit.deleted" };
    change(database, scope, scope.changed(kind), update, act).await
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
    act: Act,
    random: &dyn Random,
) -> Result<Option<Alert>, Error> {
    let id = ids::new("alert_", act.at(), random);
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
    let event = Event { before: None, ..scope.alert_changed("spend_alert.created", &id) };
    let made = change(database, scope, event, Statement::composed(sql, values), act).await?;
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
    act: Act,
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
    let event = scope.alert_changed("spend_alert.updated", &alert.id);
    change(database, scope, event, update, act).await
}

/// Deletes an alert. Returns `None` if it does not exist.
///
/// # Errors
/// See [`Error`].
pub async fn delete_alert(
    database: &Database,
    scope: Scope<'_>,
    id: &str,
    act: Act,
) -> Result<Option<()>, Error> {
    let sql = "DELETE FROM spend_alerts WHERE id = $1 AND scope = $2";
    let delete = Statement::new(sql, [id.into(), scope.id().into()]);
    let event = Event { after: None, ..scope.alert_changed("spend_alert.deleted", id) };
    change(database, scope, event, delete, act).await
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
    event: Event<'_>,
    statement: Statement,
    act: Act,
) -> Result<Option<()>, Error> {
    audit::commit(database, act, event, vec![statement.expecting(1)], &[scope.change()]).await
}

fn read(row: &Row) -> Result<Alert, Error> {
    Ok(Alert { id: row.text(0)?, threshold_cents: row.count(1)?, channel: row.text(2)? })
}
