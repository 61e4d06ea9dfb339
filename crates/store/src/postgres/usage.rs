//! The rows of what responses used.

use super::connection::Connection;
use super::failure::Failure;
use super::rows::Transaction;
use super::value::{Columns, Value};
use crate::{UsageQuery, UsageRecord, UsageRow};

/// Adds a row, and stores the totals of the thread.
pub(super) async fn add(
    transaction: &mut Transaction<'_>,
    thread: &str,
    token_usage: &str,
    usage: &UsageRecord,
) -> Result<(), Failure> {
    let key = transaction.leased_thread(thread).await?;
    let values: [Value; 15] = [
        key.into(),
        Value::payload(token_usage),
        transaction.tenant.into(),
        thread.into(),
        usage.turn.as_deref().into(),
        usage.at_ms.into(),
        (&usage.provider).into(),
        (&usage.model).into(),
        usage.service_tier.as_deref().into(),
        usage.input.into(),
        usage.cached_input.into(),
        usage.cache_write.into(),
        usage.output.into(),
        usage.reasoning_output.into(),
        usage.cost.into(),
    ];
    transaction
        .connection
        .execute(
            "WITH own AS (UPDATE #thread SET token_usage = $2 WHERE pk = $1 RETURNING cwd)
             INSERT INTO #usage (tenant, thread, turn, at_ms, project, provider, model,
                 service_tier, input, cached_input, cache_write, output, reasoning_output, cost)
             SELECT $3, $4, $5, $6, own.cwd, $7, $8, $9, $10, $11, $12, $13, $14, $15 FROM own",
            &values,
        )
        .await?;
    Ok(())
}

/// Rows in the order in which they were added.
pub(super) async fn read(
    connection: &Connection,
    tenant: &str,
    query: UsageQuery,
) -> Result<Vec<UsageRow>, Failure> {
    let UsageQuery { after, from_ms, to_ms, limit } = query;
    let values = [tenant.into(), after.into(), from_ms.into(), to_ms.into(), limit.into()];
    let rows = connection
        .rows(
            "SELECT pk, thread, project, turn, at_ms, provider, model, service_tier, input,
                 cached_input, cache_write, output, reasoning_output, cost
             FROM #usage WHERE tenant = $1 AND pk > $2 AND at_ms >= $3 AND at_ms < $4
             ORDER BY pk LIMIT $5",
            &values,
        )
        .await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let (key, thread) = (columns.int()?, columns.text_or_null()?);
            let project = columns.text()?;
            let record = UsageRecord {
                turn: columns.text_or_null()?,
                at_ms: columns.int()?,
                provider: columns.text()?,
                model: columns.text()?,
                service_tier: columns.text_or_null()?,
                input: columns.int_or_null()?,
                cached_input: columns.int_or_null()?,
                cache_write: columns.int_or_null()?,
                output: columns.int_or_null()?,
                reasoning_output: columns.int_or_null()?,
                cost: columns.int_or_null()?,
            };
            Ok(UsageRow { key, thread, project, record })
        })
        .collect()
}
