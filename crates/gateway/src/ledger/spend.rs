//! What was spent in a month, as the ledger has it.

use crate::database::{Database, DatabaseError, Row, Statement};
use crate::tenants::MicroDollars;

/// What was spent in one month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonthSpend {
    /// `None`: the organization's sum, over all its projects.
    pub project: Option<Box<str>>,
    /// What was spent.
    pub cost: MicroDollars,
    /// With so many requests.
    pub requests: u64,
}

/// The sums of an organization and its projects; `month` as in [`crate::world::month`]. Limits are
/// seeded with them. At most 100,000 projects, the organization's sum first.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn month_spend(
    database: &Database,
    organization: &str,
    month: u32,
) -> Result<Vec<MonthSpend>, DatabaseError> {
    let sql = "SELECT project, cost, requests FROM spend_months \
               WHERE organization = $1 AND month = $2 ORDER BY project LIMIT 100000";
    let rows = database.query(Statement::new(sql, [organization.into(), month.into()])).await?;
    rows.iter().map(read).collect()
}

/// The sum of an organization, or of one of its projects.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn month_spend_of(
    database: &Database,
    organization: &str,
    project: Option<&str>,
    month: u32,
) -> Result<MicroDollars, DatabaseError> {
    let sql = "SELECT project, cost, requests FROM spend_months \
               WHERE organization = $1 AND month = $2 AND project = $3";
    let values = [organization.into(), month.into(), project.unwrap_or("").into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.first().map_or(Ok(0), |row| Ok(read(row)?.cost))
}

fn read(row: &Row) -> Result<MonthSpend, DatabaseError> {
    let project = Some(row.text(0)?).filter(|project| !project.is_empty());
    Ok(MonthSpend { project, cost: row.count(1)?, requests: row.count(2)? })
}
