//! Payments. Their sum raises an organization's tier in the transaction that records them; a tier
//! that was paid for is never lowered.

use super::audit::{self, Act, Event, Form, Image};
use super::audit_events::organization_changed;
use super::changes::Change;
use super::page::{self, Listed, Page, Source};
use super::{ids, organizations};
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::environment::Random;
use gateway_policy::tenants::Tier;

/// A payment, or the correction of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// `pay_…`.
    pub id: Box<str>,
    /// Amount in cents; negative if it corrects.
    pub amount_cents: i64,
    /// Why it corrects.
    pub reason: Option<Box<str>>,
    /// Unix seconds.
    pub created_at: i64,
}

/// A new payment.
#[derive(Clone, Copy, Debug)]
pub struct NewPayment<'a> {
    /// Amount in cents; negative if it corrects.
    pub amount_cents: i64,
    /// Why it corrects.
    pub reason: Option<&'a str>,
}

/// Records a payment. `thresholds` are the cents that each tier above the first requires. Returns
/// `None` if there is no such organization, or it has paid less than a correction takes back.
///
/// # Errors
/// See [`Error`].
pub async fn create(
    database: &Database,
    organization: &str,
    NewPayment { amount_cents, reason }: NewPayment<'_>,
    thresholds: &[(Tier, u64)],
    act: Act,
    random: &dyn Random,
) -> Result<Option<Payment>, Error> {
    let payment = Payment {
        id: ids::new("pay_", act.at(), random),
        amount_cents,
        reason: reason.map(Into::into),
        created_at: act.seconds(),
    };
    let mut statements = vec![
        Statement::new(
            "UPDATE organizations SET paid_cents = paid_cents + $1 \
             WHERE id = $2 AND deleted_at IS NULL AND paid_cents + $1 >= 0",
            [amount_cents.into(), organization.into()],
        )
        .expecting(1),
        Statement::new(
            "INSERT INTO payments (id, organization, amount_cents, reason, created_at) \
             VALUES ($1, $2, $3, $4, $5)",
            [
                (&payment.id).into(),
                organization.into(),
                amount_cents.into(),
                reason.into(),
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
    let kind = if amount_cents < 0 { "payment.corrected" } else { "payment.created" };
    let event = Event {
        object: &payment.id,
        after: Some(image(&payment.id)),
        ..organization_changed(kind, organization)
    };
    let told = [Change::Organization(organization.into())];
    let made = audit::commit(database, act, event, statements, &told).await?;
    Ok(made.map(|()| payment))
}

/// A payment in the audit log, and what the organization has paid with it.
fn image(id: &str) -> Image {
    let sql = "SELECT p.amount_cents, p.reason, \
               CASE WHEN o.tier_set > o.tier_paid THEN o.tier_set ELSE o.tier_paid END, o.paid_cents \
               FROM payments p JOIN organizations o ON o.id = p.organization WHERE p.id = $1";
    let columns = &[
        ("amount_cents", Form::Plain),
        ("reason", Form::Plain),
        ("tier", Form::Tier),
        ("paid_cents", Form::Plain),
    ];
    Image::new(sql, [id.into()], columns)
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
        columns: "id, amount_cents, created_at, reason",
        table: "payments",
        condition: "organization = $1",
        key: "id",
        value: organization.into(),
    };
    page::list(database, source, page, read).await
}

fn read(row: &Row) -> Result<Payment, Error> {
    Ok(Payment {
        id: row.text(0)?,
        amount_cents: row.integer(1)?,
        created_at: row.integer(2)?,
        reason: row.optional_text(3)?,
    })
}
