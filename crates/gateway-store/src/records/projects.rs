//! Projects: created, renamed and archived by administrators. The keys of an archived project are
//! refused; projects are never deleted.

use super::audit::{self, Act, Event};
use super::audit_events::project_changed;
use super::changes::Change;
use super::page::{self, Listed, Page, Source};
use super::{ids, model_permissions, project_limits, spend};
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::environment::Random;
use gateway_policy::tenants::{ModelPermissions, Project, SpendLimits};

const COLUMNS: &str = "id, name, geography, created_at, archived_at, hard_limit_cents, organization, \
     model_permissions";

/// A stored project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The part that requests need.
    pub project: Project,
    /// Id of its organization.
    pub organization: Box<str>,
    /// Unix seconds.
    pub archived_at: Option<i64>,
}

/// Creates a project. Returns `None` if there is no such organization.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    organization: &str,
    name: &str,
    geography: Option<&str>,
    act: Act,
    random: &dyn Random,
) -> Result<Option<Stored>, Error> {
    let (id, created_at) = (ids::new("proj_", act.at(), random), act.seconds());
    let insert = Statement::new(
        "INSERT INTO projects (id, organization, name, geography, created_at) \
         SELECT $1, id, $2, $3, $4 FROM organizations WHERE id = $5 AND deleted_at IS NULL",
        [(&id).into(), name.into(), geography.into(), created_at.into(), organization.into()],
    );
    let event = Event {
        organization: Some(organization),
        before: None,
        ..project_changed("project.created", &id)
    };
    let made = audit::commit(database, act, event, vec![insert.expecting(1)], &[]).await?;
    let geography = geography.map(Into::into);
    let project = Project { id, name: name.into(), geography, created_at, ..Project::default() };
    Ok(made.map(|_| Stored { project, organization: organization.into(), archived_at: None }))
}

/// The project of that id, in any organization, with all its limits.
///
/// # Errors
/// See [`Error`].
pub async fn get(database: &Database, id: &str) -> Result<Option<Stored>, Error> {
    let sql = "SELECT id, name, geography, created_at, archived_at, hard_limit_cents, \
               organization, model_permissions FROM projects WHERE id = $1";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut stored = read(row)?;
    stored.project.limits = project_limits::all(database, id).await?.into_iter().collect();
    stored.project.spend.alerts = spend::alerts_of(database, id).await?;
    Ok(Some(stored))
}

/// The first of an organization's projects with a name that is not archived, without its limits.
///
/// # Errors
/// See [`Error`].
pub async fn named(
    database: &Database,
    organization: &str,
    name: &str,
) -> Result<Option<Stored>, Error> {
    let sql = "SELECT id, name, geography, created_at, archived_at, hard_limit_cents, organization, \
               model_permissions FROM projects \
               WHERE organization = $1 AND name = $2 AND archived_at IS NULL ORDER BY id LIMIT 1";
    let rows = database.query(Statement::new(sql, [organization.into(), name.into()])).await?;
    rows.first().map(read).transpose()
}

/// A page of an organization's projects, without their model limits and alerts.
///
/// # Errors
/// See [`Error`].
pub async fn list(
    database: &Database,
    organization: &str,
    with_archived: bool,
    page: &Page,
) -> Result<Listed<Stored>, Error> {
    let condition = match with_archived {
        true => "organization = $1",
        false => "organization = $1 AND archived_at IS NULL",
    };
    let value = organization.into();
    let source = Source { columns: COLUMNS, table: "projects", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// Changes the given values of name and geography. Returns `None` if the organization has no such
/// project, or it is archived.
///
/// # Errors
/// See [`Error`].
pub async fn update(
    database: &Database,
    organization: &str,
    id: &str,
    name: Option<&str>,
    geography: Option<Option<&str>>,
    act: Act,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE projects SET name = COALESCE($1, name), \
         geography = CASE WHEN $2 = 1 THEN $3 ELSE geography END \
         WHERE id = $4 AND organization = $5 AND archived_at IS NULL",
        [
            name.into(),
            i64::from(geography.is_some()).into(),
            geography.flatten().into(),
            id.into(),
            organization.into(),
        ],
    );
    change(database, id, "project.updated", update, act).await
}

/// Sets the models that a project may use; `None`: all. Returns `None` if the organization has no
/// such project, or it is archived.
///
/// # Errors
/// See [`Error`].
pub async fn set_models(
    database: &Database,
    organization: &str,
    id: &str,
    models: Option<&ModelPermissions>,
    act: Act,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE projects SET model_permissions = $1 \
         WHERE id = $2 AND organization = $3 AND archived_at IS NULL",
        [model_permissions::encode(models).into(), id.into(), organization.into()],
    );
    change(database, id, "project.model_permissions.updated", update, act).await
}

/// Archives a project. Returns `None` if the organization has no such project, or it is archived
/// already.
///
/// # Errors
/// See [`Error`].
pub async fn archive(
    database: &Database,
    organization: &str,
    id: &str,
    act: Act,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE projects SET archived_at = $1 \
         WHERE id = $2 AND organization = $3 AND archived_at IS NULL",
        [act.seconds().into(), id.into(), organization.into()],
    );
    change(database, id, "project.archived", update, act).await
}

async fn change(
    database: &Database,
    id: &str,
    kind: &'static str,
    update: Statement,
    act: Act,
) -> Result<Option<()>, Error> {
    let told = [Change::Project(id.into())];
    audit::commit(database, act, project_changed(kind, id), vec![update.expecting(1)], &told).await
}

fn read(row: &Row) -> Result<Stored, Error> {
    let archived_at = row.optional_integer(4)?;
    let project = Project {
        id: row.text(0)?,
        name: row.text(1)?,
        geography: row.optional_text(2)?,
        archived: archived_at.is_some(),
        created_at: row.integer(3)?,
        spend: SpendLimits { hard: row.optional_count(5)?.map(spend::from_cents), alerts: vec![] },
        models: model_permissions::read(row, 7)?,
        ..Project::default()
    };
    Ok(Stored { project, organization: row.text(6)?, archived_at })
}
