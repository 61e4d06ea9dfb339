//! Organizations: created, changed and ended by administrators, and their data retention. An ended
//! organization keeps its rows, which the ledger refers to; its keys are refused.

use super::audit::{self, Act, Event};
use super::audit_events::organization_changed;
use super::changes::Change;
use super::page::{self, Listed, Page, Source};
use super::{DEFAULT_ORGANIZATION, ids, spend};
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::environment::Random;
use gateway_policy::tenants::{Organization, SpendLimits, Tier};

const COLUMNS: &str =
    "id, name, tier_set, tier_paid, paid_cents, created_at, retention, hard_limit_cents";

/// The value for zero data retention.
pub const ZERO_DATA_RETENTION: &str = "zero_data_retention";

/// Creates the default organization, unless it exists.
///
/// # Errors
/// See [`Error`].
pub async fn ensure_default(database: &Database, act: Act) -> Result<(), Error> {
    let insert = Statement::new(
        "INSERT INTO organizations (id, name, tier_set, tier_paid, paid_cents, created_at) \
         VALUES ($1, 'Default', 0, 0, 0, $2) ON CONFLICT (id) DO NOTHING",
        [DEFAULT_ORGANIZATION.into(), act.seconds().into()],
    );
    let event = created(DEFAULT_ORGANIZATION);
    audit::commit(database, act, event, vec![insert.expecting(1)], &[]).await.map(drop)
}

/// Creates an organization.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    name: &str,
    tier: Tier,
    act: Act,
    random: &dyn Random,
) -> Result<Organization, Error> {
    let (id, created_at) = (ids::new("org-", act.at(), random), act.seconds());
    let insert = Statement::new(
        "INSERT INTO organizations (id, name, tier_set, tier_paid, paid_cents, created_at) \
         VALUES ($1, $2, $3, 0, 0, $4)",
        [(&id).into(), name.into(), number(tier).into(), created_at.into()],
    );
    audit::commit(database, act, created(&id), vec![insert], &[]).await?;
    Ok(Organization { id, name: name.into(), tier, created_at, ..Organization::default() })
}

/// The organization of that id with its limits, unless it has ended.
///
/// # Errors
/// See [`Error`].
pub async fn get(database: &Database, id: &str) -> Result<Option<Organization>, Error> {
    let sql = "SELECT id, name, tier_set, tier_paid, paid_cents, created_at, retention, \
               hard_limit_cents FROM organizations WHERE id = $1 AND deleted_at IS NULL";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let mut organization = read(row)?;
    organization.spend.alerts = spend::alerts_of(database, id).await?;
    Ok(Some(organization))
}

/// Returns whether there is an organization of that id, or was one that has ended.
///
/// # Errors
/// See [`Error`].
pub async fn has_existed(database: &Database, id: &str) -> Result<bool, Error> {
    let sql = "SELECT id FROM organizations WHERE id = $1";
    Ok(!database.query(Statement::new(sql, [id.into()])).await?.is_empty())
}

/// A page of all organizations, without their alerts.
///
/// # Errors
/// See [`Error`].
pub async fn list(database: &Database, page: &Page) -> Result<Listed<Organization>, Error> {
    let source = Source {
        columns: COLUMNS,
        table: "organizations",
        condition: "COALESCE(deleted_at, 0) = $1",
        key: "id",
        value: 0_i64.into(),
    };
    page::list(database, source, page, read).await
}

/// The organizations whose name or id contains `text`, ignoring case, without their alerts. Scans
/// all organizations.
///
/// # Errors
/// See [`Error`].
pub async fn search(
    database: &Database,
    text: &str,
    page: &Page,
) -> Result<Listed<Organization>, Error> {
    let condition = "deleted_at IS NULL AND (LOWER(name) LIKE LOWER($1) ESCAPE '!' \
                     OR LOWER(id) LIKE LOWER($1) ESCAPE '!')";
    let (columns, value) = (COLUMNS, page::contains(text).into());
    let source = Source { columns, table: "organizations", condition, key: "id", value };
    page::list(database, source, page, read).await
}

/// Changes the given values of name and manual tier. Returns `None` if there is no such
/// organization.
///
/// # Errors
/// See [`Error`].
pub async fn update(
    database: &Database,
    id: &str,
    name: Option<&str>,
    tier: Option<Tier>,
    act: Act,
) -> Result<Option<()>, Error> {
    let update = Statement::new(
        "UPDATE organizations SET name = COALESCE($1, name), tier_set = COALESCE($2, tier_set) \
         WHERE id = $3 AND deleted_at IS NULL",
        [name.into(), tier.map(number).into(), id.into()],
    );
    change(database, id, "organization.updated", update, act).await
}

/// Sets the data retention: [`ZERO_DATA_RETENTION`], or `None` for the default.
///
/// # Errors
/// See [`Error`].
pub async fn retain(
    database: &Database,
    id: &str,
    retention: Option<&str>,
    act: Act,
) -> Result<Option<()>, Error> {
    let sql = "UPDATE organizations SET retention = $1 WHERE id = $2 AND deleted_at IS NULL";
    let update = Statement::new(sql, [retention.into(), id.into()]);
    change(database, id, "data_retention.updated", update, act).await
}

/// Ends an organization: all its keys are refused from now on.
///
/// # Errors
/// See [`Error`].
pub async fn delete(database: &Database, id: &str, act: Act) -> Result<Option<()>, Error> {
    let sql = "UPDATE organizations SET deleted_at = $1 WHERE id = $2 AND deleted_at IS NULL";
    let update = Statement::new(sql, [act.seconds().into(), id.into()]).expecting(1);
    let event = Event { after: None, ..organization_changed("organization.deleted", id) };
    audit::commit(database, act, event, vec![update], &[Change::Organization(id.into())]).await
}

async fn change(
    database: &Database,
    id: &str,
    kind: &'static str,
    update: Statement,
    act: Act,
) -> Result<Option<()>, Error> {
    let told = [Change::Organization(id.into())];
    audit::commit(database, act, organization_changed(kind, id), vec![update.expecting(1)], &told)
        .await
}

fn created(id: &str) -> Event<'_> {
    Event { before: None, ..organization_changed("organization.created", id) }
}

/// The stored number of a tier.
pub(super) fn number(tier: Tier) -> i64 {
    tier as i64
}

fn tier(number: i64) -> Result<Tier, Error> {
    let known = usize::try_from(number).ok().and_then(|number| Tier::ALL.get(number));
    known.copied().ok_or_else(|| Error::failed(format!("there is no tier {number}")))
}

fn read(row: &Row) -> Result<Organization, Error> {
    Ok(Organization {
        id: row.text(0)?,
        name: row.text(1)?,
        tier: tier(row.integer(2)?)?.max(tier(row.integer(3)?)?),
        paid_cents: row.count(4)?,
        created_at: row.integer(5)?,
        zero_data_retention: row.optional_text(6)?.as_deref() == Some(ZERO_DATA_RETENTION),
        spend: SpendLimits { hard: row.optional_count(7)?.map(spend::from_cents), alerts: vec![] },
    })
}
