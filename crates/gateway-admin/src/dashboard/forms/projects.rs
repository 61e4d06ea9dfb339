//! Forms of a project: created, changed and archived.

use maud::html;
use serde_json::{Value, json};

use super::super::api::Call;
use super::super::notice::Notice;
use super::super::page::Failure;
use super::super::text::query_value;
use super::edit::{Done, Edit};
use super::entered::Entered;
use super::form::{Control, Errors, Field, Form};
use super::visit::Visit;
use gateway_policy::tenants::Organization;
use gateway_store::records::conditions::Version;
use gateway_store::records::projects::Stored;
use gateway_store::records::versions::Versioned;

/// The value for projects whose data may be anywhere.
const GLOBAL: &str = "GLOBAL";

/// A new project.
pub(super) struct Create {
    organization: Organization,
}

impl Edit for Create {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/new";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Ok(Self { organization: visit.organization().await? })
    }

    fn form(&self, visit: &Visit) -> Form {
        Form {
            title: "New project".to_owned(),
            above: visit.above_organization(&self.organization),
            intro: html! {},
            fields: vec![Field::name(""), geography(visit, None)],
            version: None,
            submit: "Create project",
            is_final: false,
        }
    }

    fn call(&self, _: &Visit, entered: &Entered) -> Result<Call, Errors> {
        Ok(Call::post("/v1/organization/projects".to_owned(), body(entered)))
    }

    fn done(&self, visit: &Visit, answer: &Value) -> Done {
        let id = query_value(answer["id"].as_str().unwrap_or_default()).to_string();
        Done::At(Notice::CREATED, format!("{}/projects/{id}", visit.organization_page()))
    }
}

/// An existing project.
struct Existing {
    organization: Organization,
    stored: Stored,
    version: Version,
}

impl Existing {
    async fn open(visit: &Visit) -> Result<Self, Failure> {
        let organization = visit.organization().await?;
        let version = visit.version(Versioned::Project(visit.name("project"))).await?;
        let stored = visit.project(&organization).await?;
        Ok(Self { organization, stored, version })
    }

    fn form(&self, visit: &Visit, title: &str, submit: &'static str) -> Form {
        Form {
            title: format!("{title} {}", self.stored.project.name),
            above: visit.above_project(&self.organization, &self.stored),
            intro: html! {},
            fields: Vec::new(),
            version: Some(self.version.clone()),
            submit,
            is_final: false,
        }
    }
}

/// The name and the region of a project.
pub(super) struct Update(Existing);

impl Edit for Update {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/edit";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Existing::open(visit).await.map(Self)
    }

    fn form(&self, visit: &Visit) -> Form {
        let project = &self.0.stored.project;
        let fields =
            vec![Field::name(&project.name), geography(visit, project.geography.as_deref())];
        Form { fields, ..self.0.form(visit, "Change", "Save") }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        Ok(Call::post(visit.project_path(), body(entered)))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, visit.project_page())
    }
}

/// The archiving of a project.
pub(super) struct Archive(Existing);

impl Edit for Archive {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/archive";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Existing::open(visit).await.map(Self)
    }

    fn form(&self, visit: &Visit) -> Form {
        let intro = html! {
            p {
                "All keys of the project are refused from then on, and none of its settings can be changed. \
                Its usage stays. " strong { "This cannot be undone." }
            }
        };
        let form = self.0.form(visit, "Archive", "Archive project");
        Form { intro, is_final: true, ..form }
    }

    fn call(&self, visit: &Visit, _: &Entered) -> Result<Call, Errors> {
        Ok(Call::post(format!("{}/archive", visit.project_path()), Value::Null))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::ARCHIVED, visit.project_page())
    }
}

fn body(entered: &Entered) -> Value {
    json!({ "name": entered.one("name"), "geography": entered.one("geography") })
}

fn geography(visit: &Visit, current: Option<&str>) -> Field {
    let settings = visit.services().settings.load();
    let mut regions: Vec<&str> = settings.regions.iter().map(|region| &**region).collect();
    // A region that the configuration no longer has is shown, and refused by the API.
    regions.extend(current.filter(|current| !settings.regions.iter().any(|it| **it == **current)));
    let option = |region: &str| (region.to_owned(), region.to_uppercase());
    let mut options = vec![(GLOBAL.to_owned(), "Any region".to_owned())];
    options.extend(regions.into_iter().map(option));
    Field::new("geography", "Data stays in", Control::Choice(options))
        .value(current.unwrap_or(GLOBAL))
        .required()
}
