//! Forms of money: the hard limit and the alerts of an organization or of a project.

use std::marker::PhantomData;

use maud::html;
use serde_json::{Value, json};

use super::super::api::Call;
use super::super::notice::Notice;
use super::super::page::Failure;
use super::super::text::query_value;
use super::edit::{Done, Edit};
use super::entered::{Entered, dollars};
use super::form::{Control, Errors, Field, Form};
use super::visit::Visit;
use gateway_policy::tenants::{MicroDollars, Organization};
use gateway_store::records::conditions::Version;
use gateway_store::records::projects::Stored;
use gateway_store::records::spend::{self, Alert, Scope};
use gateway_store::records::versions::Versioned;

/// The field of an amount, by the API's name.
const AMOUNT: &str = "threshold_amount";

/// Whose limits and alerts a form changes.
pub(super) trait Owner: Send + Sync + 'static {
    const LIMIT: &'static str;
    const ADD: &'static str;
    const SET: &'static str;
    const DELETE: &'static str;
    const IS_PROJECT: bool;
}

/// An organization.
pub(super) struct OfOrganization;

impl Owner for OfOrganization {
    const LIMIT: &'static str = "/dashboard/organizations/{id}/spend-limit";
    const ADD: &'static str = "/dashboard/organizations/{id}/spend-alerts/new";
    const SET: &'static str = "/dashboard/organizations/{id}/spend-alerts/{alert}";
    const DELETE: &'static str = "/dashboard/organizations/{id}/spend-alerts/{alert}/delete";
    const IS_PROJECT: bool = false;
}

/// A project.
pub(super) struct OfProject;

impl Owner for OfProject {
    const LIMIT: &'static str = "/dashboard/organizations/{id}/projects/{project}/spend-limit";
    const ADD: &'static str = "/dashboard/organizations/{id}/projects/{project}/spend-alerts/new";
    const SET: &'static str =
        "/dashboard/organizations/{id}/projects/{project}/spend-alerts/{alert}";
    const DELETE: &'static str =
        "/dashboard/organizations/{id}/projects/{project}/spend-alerts/{alert}/delete";
    const IS_PROJECT: bool = true;
}

/// The owner of limits and alerts, as it is stored.
struct Target {
    organization: Organization,
    project: Option<Stored>,
}

impl Target {
    async fn open<O: Owner>(visit: &Visit) -> Result<Self, Failure> {
        let organization = visit.organization().await?;
        let project = match O::IS_PROJECT {
            true => Some(visit.project(&organization).await?),
            false => None,
        };
        Ok(Self { organization, project })
    }

    fn name(&self) -> &str {
        self.project.as_ref().map_or(&self.organization.name, |stored| &stored.project.name)
    }

    fn hard(&self) -> Option<MicroDollars> {
        let of_project = self.project.as_ref().map(|stored| &stored.project.spend);
        of_project.unwrap_or(&self.organization.spend).hard
    }

    fn scope(&self) -> Scope<'_> {
        match &self.project {
            Some(stored) => Scope::Project(&stored.project.id),
            None => Scope::Organization(&self.organization.id),
        }
    }

    fn id(&self) -> &str {
        let (Scope::Project(id) | Scope::Organization(id)) = self.scope();
        id
    }

    fn page(&self, visit: &Visit) -> String {
        self.project.as_ref().map_or_else(|| visit.organization_page(), |_| visit.project_page())
    }

    fn path(&self, visit: &Visit, below: &str) -> String {
        match &self.project {
            Some(_) => format!("{}/{below}", visit.project_path()),
            None => format!("/v1/organization/{below}"),
        }
    }

    fn form(&self, visit: &Visit, title: &str, submit: &'static str) -> Form {
        let above = match &self.project {
            Some(project) => visit.above_project(&self.organization, project),
            None => visit.above_organization(&self.organization),
        };
        Form {
            title: format!("{title} {}", self.name()),
            above,
            intro: html! {},
            fields: Vec::new(),
            version: None,
            submit,
            is_final: false,
        }
    }
}

/// The hard limit.
pub(super) struct Limit<O> {
    target: Target,
    version: Version,
    owner: PhantomData<O>,
}

impl<O: Owner> Edit for Limit<O> {
    const PATH: &'static str = O::LIMIT;

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        visit.access.check_organization(visit.name("id"))?;
        let record = match O::IS_PROJECT {
            true => Versioned::Project(visit.name("project")),
            false => Versioned::Organization(visit.name("id")),
        };
        // The values are read after the version: a change in between is found when they are sent.
        let version = visit.version(record).await?;
        let target = Target::open::<O>(visit).await?;
        Ok(Self { target, version, owner: PhantomData })
    }

    fn form(&self, visit: &Visit) -> Form {
        let hard = self.target.hard().map(|hard| dollars(hard / 10_000)).unwrap_or_default();
        let field = Field::new(AMOUNT, "Dollars a month", Control::Dollars)
            .hint("Such as 400 or 12.50. Empty: no limit.")
            .value(hard);
        Form {
            intro: html! { p { "Requests that would cost more are refused until the month (UTC) is over." } },
            fields: vec![field],
            version: Some(self.version.clone()),
            ..self.target.form(visit, "Hard spend limit of", "Save")
        }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let path = self.target.path(visit, "spend_limit");
        Ok(match entered.cents(AMOUNT)? {
            None => Call::delete(path),
            Some(cents) => Call::post(path, amount(cents)),
        })
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, self.target.page(visit))
    }
}

/// A new alert.
pub(super) struct AddAlert<O> {
    target: Target,
    owner: PhantomData<O>,
}

impl<O: Owner> Edit for AddAlert<O> {
    const PATH: &'static str = O::ADD;

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        let target = Target::open::<O>(visit).await?;
        Ok(Self { target, owner: PhantomData })
    }

    fn form(&self, visit: &Visit) -> Form {
        let form = self.target.form(visit, "New spend alert of", "Create alert");
        Form { fields: vec![threshold("")], ..form }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let path = self.target.path(visit, "spend_alerts");
        Ok(Call::post(path, needed_amount(entered)?))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::CREATED, self.target.page(visit))
    }
}

/// An alert that exists.
struct Existing {
    target: Target,
    alert: Alert,
    version: Version,
}

impl Existing {
    async fn open<O: Owner>(visit: &Visit) -> Result<Self, Failure> {
        let target = Target::open::<O>(visit).await?;
        let id = visit.name("alert");
        let version = visit.version(Versioned::Alert { scope: target.scope(), id }).await?;
        let found = spend::alert(&visit.services().database, target.id(), id).await?;
        let alert = found.ok_or_else(|| Failure::missing("spend alert", id))?;
        Ok(Self { target, alert, version })
    }

    fn form(&self, visit: &Visit, title: &str, submit: &'static str) -> Form {
        let version = Some(self.version.clone());
        Form { version, ..self.target.form(visit, title, submit) }
    }

    fn path(&self, visit: &Visit) -> String {
        self.target.path(visit, &format!("spend_alerts/{}", query_value(&self.alert.id)))
    }
}

/// The amount of an alert.
pub(super) struct SetAlert<O>(Existing, PhantomData<O>);

impl<O: Owner> Edit for SetAlert<O> {
    const PATH: &'static str = O::SET;

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Ok(Self(Existing::open::<O>(visit).await?, PhantomData))
    }

    fn form(&self, visit: &Visit) -> Form {
        let fields = vec![threshold(&dollars(self.0.alert.threshold_cents))];
        Form { fields, ..self.0.form(visit, "Spend alert of", "Save") }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let mut body = needed_amount(entered)?;
        // The API replaces an alert as a whole: what the form does not show stays.
        body["notification_channel"] =
            serde_json::from_str(&self.0.alert.channel).unwrap_or_default();
        Ok(Call::post(self.0.path(visit), body))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, self.0.target.page(visit))
    }
}

/// The end of an alert.
pub(super) struct DeleteAlert<O>(Existing, PhantomData<O>);

impl<O: Owner> Edit for DeleteAlert<O> {
    const PATH: &'static str = O::DELETE;

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Ok(Self(Existing::open::<O>(visit).await?, PhantomData))
    }

    fn form(&self, visit: &Visit) -> Form {
        let amount = dollars(self.0.alert.threshold_cents);
        let intro = html! { p { "The alert at $" (amount) " a month is not raised any longer." } };
        let form = self.0.form(visit, "Delete the spend alert of", "Delete alert");
        Form { intro, is_final: true, ..form }
    }

    fn call(&self, visit: &Visit, _: &Entered) -> Result<Call, Errors> {
        Ok(Call::delete(self.0.path(visit)))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::DELETED, self.0.target.page(visit))
    }
}

fn threshold(amount: &str) -> Field {
    Field::new(AMOUNT, "Dollars a month", Control::Dollars)
        .hint("The alert is raised when this is spent. Nothing is refused.")
        .value(amount)
        .required()
}

fn needed_amount(entered: &Entered) -> Result<Value, Errors> {
    entered
        .cents(AMOUNT)?
        .map(amount)
        .ok_or_else(|| Errors::of_field(AMOUNT, "This field is needed."))
}

fn amount(cents: i64) -> Value {
    json!({ "currency": "USD", "interval": "month", AMOUNT: cents })
}
