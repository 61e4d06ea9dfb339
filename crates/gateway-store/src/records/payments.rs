//! Payments. Their sum raises an organization's tier in the transaction that records them; a tier
//! that was paid for is never lowered.

use ratelimit::Micros;

use super::changes::{Change, announce};
use super::page::{self, Listed, Page, Source};
use super::{found, ids, organizations};
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::dates::seconds;
use gateway_policy::environment::Random;
use gateway_policy::tenants::Tier;

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// `pay_…`.
    pub id: Box<str>,
    /// Amount in cents.
    pub amount_cents: u64,
    /// Unix seconds.
    pub created_at: i64,
}

/// Records a payment. `thresholds` are the cents that each tier above the first requires. Returns
/// `None` if there is no such organization.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    organization: &str,
    amount_cents: u64,
    thresholds: &[(Tier, u64)],
    now: Micros,
    random: &dyn Random,
) -> Result<Option<Payment>, Error> {
    let payment =
        Payment { id: ids::new("pay_", now, random), amount_cents, created_at: seconds(now) };
    let mut statements = vec![
        Statement::new(
            "UPDATE organizations SET paid_cents = paid_cents + $1 \
             WHERE id = $2 AND deleted_at IS NULL",
            [amount_cents.into(), organization.into()],
        )
        .expecting(1),
        Statement::new(
            "INSERT INTO payments (id, organization, amount_cents, created_at) \
             VALUES ($1, $2, $3, $4)",
            [
                (&payment.id).into(),
                organization.into(),
                amount_cents.into(),
                payment.created_at.into(),
            ],
        ),
    ];
    statements.extend(thresholds.iter().map(|(tier, cents)| {
        Statement::new(
            "UPDATE organizations SET tier_paid = $1 \
             WHERE id = $2 AND paid_cents >= $3 AND tier_paid < $1",
            [organizations::number(*tier).into(), organization.into(), (*cents).into()],
        )
    }));
    statements.extend(announce(&Change::Organization(organization.into()), seconds(now)));
    Ok(found(database.transact(statements).await)?.map(|_| payment))
}

/// A page of an organization's payments.
///
/// # Errors
/// See [`Error`].
pub async fn list(
    database: &Database,
    organization: &str,
    page: &Page,
) -> Result<Listed<Payment>, Error> {
    let source = Source {
        columns: "id, amount_cents, created_at",
        table: "payments",
        condition: "organization = $1",
        key: "id",
        value: organization.into(),
    };
    page::list(database, source, page, read).await
}

fn read(row: &Row) -> Result<Payment, Error> {
    Ok(Payment { id: row.text(0)?, amount_cents: row.count(1)?, created_at: row.integer(2)? })
}
