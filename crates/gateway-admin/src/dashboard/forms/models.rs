//! Forms of the models that a project or a key may use.

use maud::html;
use serde_json::Value;

use super::super::api::Call;
use super::super::notice::Notice;
use super::super::page::Failure;
use super::edit::{Done, Edit};
use super::entered::Entered;
use super::form::{Errors, Form};
use super::keys::Existing;
use super::model_list;
use super::visit::Visit;
use gateway_policy::tenants::Organization;
use gateway_store::records::conditions::Version;
use gateway_store::records::projects::Stored;
use gateway_store::records::versions::Versioned;

/// The models of a project.
pub(super) struct OfProject {
    organization: Organization,
    project: Stored,
    version: Version,
}

impl Edit for OfProject {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/models";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        let organization = visit.organization().await?;
        let version = visit.version(Versioned::Project(visit.name("project"))).await?;
        let project = visit.project(&organization).await?;
        Ok(Self { organization, project, version })
    }

    fn form(&self, visit: &Visit) -> Form {
        let settings = visit.services().settings.load();
        let project = &self.project.project;
        Form {
            title: format!("Models of {}", project.name),
            above: visit.above_project(&self.organization, &self.project),
            intro: html! { p { "A request needs a model that both the project and the key permit." } },
            fields: model_list::fields(&settings, project.models.as_ref(), "All models").into(),
            version: Some(self.version.clone()),
            submit: "Save",
            is_final: false,
        }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        call(&visit.project_path(), entered)
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, visit.project_page())
    }
}

/// The models of a key.
pub(super) struct OfKey(Existing);

impl Edit for OfKey {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/keys/{key}/models";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        Existing::open(visit).await.map(Self)
    }

    fn form(&self, visit: &Visit) -> Form {
        let settings = visit.services().settings.load();
        let models = self.0.key.models.as_ref();
        let fields = model_list::fields(&settings, models, "All models of the project").into();
        Form { fields, ..self.0.form(visit, "Models of", "Save") }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        call(&visit.key_path(), entered)
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, visit.key_page())
    }
}

fn call(base: &str, entered: &Entered) -> Result<Call, Errors> {
    let path = format!("{base}/model_permissions");
    Ok(match model_list::value(entered)? {
        Value::Null => Call::delete(path),
        list => Call::post(path, list),
    })
}
