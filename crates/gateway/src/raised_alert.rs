//! A spend alert that is raised, and the message about it.

use gateway_policy::dates;
use gateway_policy::environment::Random;
use gateway_policy::tenants::{MicroDollars, SpendAlert};
use gateway_store::records::ids;
use gateway_store::records::outbox::Message;
use ratelimit::Micros;
use serde_json::json;

/// Micro-dollars of a cent.
const CENT: MicroDollars = 10_000;

/// An alert that is raised.
pub(crate) struct RaisedAlert<'a> {
    pub(crate) alert: &'a SpendAlert,
    pub(crate) organization: &'a str,
    /// The project, if the alert is one of it.
    pub(crate) project: Option<&'a str>,
    /// Spent this month.
    pub(crate) spent: MicroDollars,
}

impl RaisedAlert<'_> {
    /// The id of the organization or the project that it belongs to.
    pub(crate) fn scope(&self) -> &str {
        self.project.unwrap_or(self.organization)
    }

    /// The message to the webhook, which is due at once. Amounts are whole cents, as in the
    /// administration API.
    pub(crate) fn message(&self, now: Micros, random: &dyn Random) -> Message {
        let date = dates::utc(now).date();
        let body = json!({
            "type": "spend_alert.raised",
            "timestamp": dates::rfc3339(now),
            "data": {
                "alert_id": self.alert.id,
                "organization_id": self.organization,
                "project_id": self.project,
                "month": format!("{:04}-{:02}", date.year(), date.month()),
                "currency": "USD",
                "interval": "month",
                "threshold_amount": self.alert.threshold / CENT,
                "spent_amount": self.spent / CENT,
            },
        });
        let (id, body) = (ids::new("msg_", now, random), body.to_string().into());
        Message { id, body, created_at: now, due_at: now, attempts: 0 }
    }
}
