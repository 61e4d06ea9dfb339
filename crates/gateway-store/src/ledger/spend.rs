//! Spend per month, from the ledger.

use std::collections::HashMap;

use crate::Error;
use crate::database::{Database, Row, Statement, Value};
use gateway_policy::tenants::MicroDollars;

/// Spend of one month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonthSpend {
    /// `None`: the organization's sum, over all its projects.
    pub project: Option<Box<str>>,
    /// The cost.
    pub cost: MicroDollars,
    /// Number of requests.
    pub requests: u64,
}

/// Sums of an organization and of its projects; `month` as in [`gateway_policy::dates::month`].
/// They seed the spend limits. At most 100,000 projects, after the organization's sum.
///
/// # Errors
/// See [`Error`].
pub async fn month_spend(
    database: &Database,
    organization: &str,
    month: u32,
) -> Result<Vec<MonthSpend>, Error> {
    let sql = "SELECT project, cost, requests FROM spend_months \
               WHERE organization = $1 AND month = $2 ORDER BY project LIMIT 100000";
    let rows = database.query(Statement::new(sql, [organization.into(), month.into()])).await?;
    rows.iter().map(read).collect()
}

/// The sum of an organization, or of one of its projects.
///
/// # Errors
/// See [`Error`].
pub async fn month_spend_of(
    database: &Database,
    organization: &str,
    project: Option<&str>,
    month: u32,
) -> Result<MicroDollars, Error> {
    let sql = "SELECT project, cost, requests FROM spend_months \
               WHERE organization = $1 AND month = $2 AND project = $3";
    let values = [organization.into(), month.into(), project.unwrap_or("").into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.first().map_or(Ok(0), |row| Ok(read(row)?.cost))
}

/// The projects with most requests since that month, busiest first: ids of organization and project.
///
/// # Errors
/// See [`Error`].
pub async fn busiest_projects(
    database: &Database,
    month: u32,
    limit: usize,
) -> Result<Vec<(Box<str>, Box<str>)>, Error> {
    let sql = "SELECT organization, project FROM spend_months WHERE month >= $1 AND project <> '' \
               GROUP BY organization, project ORDER BY SUM(requests) DESC, project LIMIT $2";
    let rows = database.report(Statement::new(sql, [month.into(), limit.into()])).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.text(1)?))).collect()
}

/// The sum of an organization, or of one of its projects, with what is held for answers that come later: all that
/// spend limits count of the ledger.
///
/// # Errors
/// See [`Error`].
pub async fn month_commitment_of(
    database: &Database,
    organization: &str,
    project: Option<&str>,
    month: u32,
) -> Result<MicroDollars, Error> {
    // One statement: an answer that is settled meanwhile is in one of the sums.
    let sql = "SELECT CAST(\
               COALESCE((SELECT cost FROM spend_months \
               WHERE organization = $1 AND month = $2 AND project = $3), 0) + \
               COALESCE((SELECT SUM(held) FROM later_answers \
               WHERE organization = $1 AND month = $2 AND (project = $3 OR $3 = '')), 0) \
               AS BIGINT)";
    let values = [organization.into(), month.into(), project.unwrap_or("").into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.first().map_or(Ok(0), |row| row.count(0))
}

/// The sums of several organizations; those without spend are omitted.
///
/// # Errors
/// See [`Error`].
pub async fn month_spend_by(
    database: &Database,
    organizations: &[&str],
    month: u32,
) -> Result<HashMap<Box<str>, MicroDollars>, Error> {
    if organizations.is_empty() {
        return Ok(HashMap::new());
    }
    let places: Vec<String> = (2..organizations.len() + 2).map(|at| format!("${at}")).collect();
    let sql = format!(
        "SELECT organization, cost FROM spend_months \
         WHERE month = $1 AND project = '' AND organization IN ({})",
        places.join(", ")
    );
    let mut values: Vec<Value> = vec![month.into()];
    values.extend(organizations.iter().map(|id| Value::from(*id)));
    let rows = database.query(Statement::composed(sql, values)).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.count(1)?))).collect()
}

fn read(row: &Row) -> Result<MonthSpend, Error> {
    let project = Some(row.text(0)?).filter(|project| !project.is_empty());
    Ok(MonthSpend { project, cost: row.count(1)?, requests: row.count(2)? })
}
