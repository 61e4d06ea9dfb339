//! Forms of an organization: its name and tier, and its payments. They need the admin token.

use maud::html;
use serde_json::{Value, json};

use super::super::api::Call;
use super::super::notice::Notice;
use super::super::page::Failure;
use super::super::text::{cents, query_value};
use super::edit::{Done, Edit};
use super::entered::Entered;
use super::form::{Control, Errors, Field, Form};
use super::visit::Visit;
use gateway_policy::tenants::{Organization, Tier};
use gateway_store::records::conditions::Version;
use gateway_store::records::versions::Versioned;

/// A new organization.
pub(super) struct Create;

impl Edit for Create {
    const PATH: &'static str = "/dashboard/organizations/new";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        visit.access.require_everything()?;
        Ok(Self)
    }

    fn form(&self, _: &Visit) -> Form {
        Form {
            title: "New organization".to_owned(),
            above: vec![("/dashboard".to_owned(), "Organizations".to_owned())],
            intro: html! {},
            fields: vec![Field::name(""), tier(Tier::Free)],
            version: None,
            submit: "Create organization",
            is_final: false,
        }
    }

    fn call(&self, _: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let body = json!({ "name": entered.one("name"), "tier": entered.one("tier") });
        Ok(Call::post("/v1/organizations".to_owned(), body))
    }

    fn done(&self, _: &Visit, answer: &Value) -> Done {
        let id = query_value(answer["id"].as_str().unwrap_or_default()).to_string();
        Done::At(Notice::CREATED, format!("/dashboard/organizations/{id}"))
    }
}

/// The name and the tier of an organization.
pub(super) struct Update {
    organization: Organization,
    version: Version,
}

impl Edit for Update {
    const PATH: &'static str = "/dashboard/organizations/{id}/edit";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        visit.access.require_everything()?;
        let version = visit.version(Versioned::Organization(visit.name("id"))).await?;
        Ok(Self { organization: visit.organization().await?, version })
    }

    fn form(&self, visit: &Visit) -> Form {
        let organization = &self.organization;
        Form {
            title: format!("Change {}", organization.name),
            above: visit.above_organization(organization),
            intro: html! { p { "A tier that payments have reached is not lowered: the higher one is in force." } },
            fields: vec![Field::name(&organization.name), tier(organization.tier)],
            version: Some(self.version.clone()),
            submit: "Save",
            is_final: false,
        }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let mut body = json!({ "name": entered.one("name") });
        // A tier by payments does not become one by hand because its form was saved.
        if entered.one("tier") != self.organization.tier.name() {
            body["tier"] = entered.one("tier").into();
        }
        Ok(Call::post(path(visit, ""), body))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, visit.organization_page())
    }
}

/// A payment, or the correction of earlier ones.
pub(super) struct Pay {
    organization: Organization,
}

impl Edit for Pay {
    const PATH: &'static str = "/dashboard/organizations/{id}/payments/new";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        visit.access.require_everything()?;
        Ok(Self { organization: visit.organization().await? })
    }

    fn form(&self, visit: &Visit) -> Form {
        let mut above = visit.above_organization(&self.organization);
        above.push((payments(visit), "Payments".to_owned()));
        Form {
            title: "Record a payment".to_owned(),
            above,
            intro: html! {
                p {
                    (self.organization.name) " has paid " (cents(self.organization.paid_cents)) " in all, which \
                    decides its tier. A wrong payment stays in the list: record a negative amount to correct it."
                }
            },
            fields: vec![
                Field::new("amount_cents", "Amount in dollars", Control::Dollars)
                    .hint("Such as 100 or 12.50; negative to take back, at most what was paid.")
                    .required(),
                Field::new("reason", "Reason", Control::Text).hint("Needed for a negative amount."),
            ],
            version: None,
            submit: "Record payment",
            is_final: false,
        }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let mut body = json!({ "amount_cents": entered.cents("amount_cents")? });
        if !entered.one("reason").is_empty() {
            body["reason"] = entered.one("reason").into();
        }
        Ok(Call::post(path(visit, "/payments"), body))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::RECORDED, payments(visit))
    }
}

/// The address of the list of payments.
fn payments(visit: &Visit) -> String {
    format!("{}/payments", visit.organization_page())
}

fn path(visit: &Visit, below: &str) -> String {
    format!("/v1/organizations/{}{below}", query_value(visit.name("id")))
}

fn tier(tier: Tier) -> Field {
    let name = |tier: Tier| match tier {
        Tier::Free => "Free".to_owned(),
        tier => format!("Tier {tier}"),
    };
    let options = Tier::ALL.map(|tier| (tier.name().to_owned(), name(tier))).into();
    Field::new("tier", "Tier", Control::Choice(options)).value(tier.name()).required()
}
