//! Typed functions over statements, one file per resource. A change that caches must see adds its
//! row to `changes` in the same transaction, and one by an administrator its row to the audit log. This module neither caches nor decides about requests.

pub mod admin_keys;
pub mod audit;
mod audit_events;
pub mod audit_logs;
pub mod batch_lines;
pub mod batch_queue;
pub mod batches;
pub mod changes;
pub mod conditions;
pub mod facts;
pub mod files;
pub mod ids;
pub mod kept_responses;
pub mod key_search;
pub mod key_text;
pub mod keys;
pub mod later_answers;
mod model_permissions;
pub mod organizations;
pub mod outbox;
pub mod owned_objects;
mod page;
pub mod payments;
pub mod project_limits;
pub mod projects;
pub mod responses;
pub mod service_accounts;
pub mod shared_keys;
pub mod spend;
pub mod versions;

pub use page::{Listed, Page};

use ratelimit::Micros;

use crate::database::{Database, Statement};
use crate::{Error, ErrorKind};
use gateway_policy::dates::{month, seconds};

/// The default organization, which exists from the first start.
pub const DEFAULT_ORGANIZATION: &str = "org-default";

/// The end of a lease or a wait that is further ahead of now than this was written by a clock that was wrong, and does
/// not count: all leases and waits are shorter, and the nodes' clocks differ by less.
pub(crate) const FAR_AHEAD: Micros = 3_600_000_000;

/// Deletes old rows: responses, expired conversations, expired files, the marks of alerts of earlier months, acts that cannot be repeated, and the numbers of
/// ledger writers that ended a week ago. Deletes few rows per call; call it about once a minute, on any node. Also adds the search
/// texts of keys that lack one.
///
/// # Errors
/// See [`Error`].
pub async fn prune(database: &Database, now: Micros) -> Result<(), Error> {
    outbox::prune(database, month(now)).await?;
    let now = seconds(now);
    responses::prune(database, now).await?;
    kept_responses::prune(database, now).await?;
    files::prune(database, now).await?;
    let sql = "DELETE FROM ledger_writers WHERE at < $1";
    let delete = Statement::new(sql, [(now - 7 * 86_400).into()]);
    database.transact(vec![delete, conditions::prune(now)]).await?;
    key_search::complete(database).await
}

/// Turns the error "the statement affected no row" into `None`.
fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::Unmet { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
