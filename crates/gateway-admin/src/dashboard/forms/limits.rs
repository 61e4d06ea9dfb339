//! The form of a project's limits for a model.

use maud::html;
use serde_json::{Map, Value};

use super::super::api::Call;
use super::super::notice::Notice;
use super::super::page::Failure;
use super::super::text::{count, query_value};
use super::edit::{Done, Edit};
use super::entered::Entered;
use super::form::{Control, Errors, Field, Form};
use super::visit::Visit;
use crate::admin::rate_limits::{DIMENSIONS, Dimension, PREFIX, of_organization, own};
use gateway_policy::tenants::{Organization, ProjectLimits};
use gateway_store::records::conditions::Version;
use gateway_store::records::project_limits;
use gateway_store::records::projects::Stored;
use gateway_store::records::versions::Versioned;

/// The limits of a project for a model.
pub(super) struct Update {
    organization: Organization,
    project: Stored,
    own: ProjectLimits,
    most: ProjectLimits,
    version: Version,
}

impl Edit for Update {
    const PATH: &'static str = "/dashboard/organizations/{id}/projects/{project}/limits/{model}";

    async fn open(visit: &Visit) -> Result<Self, Failure> {
        let organization = visit.organization().await?;
        let project = visit.project(&organization).await?;
        let (settings, name) = (visit.services().settings.load_full(), visit.name("model"));
        let model = settings.catalog.find(name);
        let model = model.ok_or_else(|| Failure::missing("model", name))?;
        let (database, id) = (&visit.services().database, &*project.project.id);
        let set = project_limits::all(database, id).await?;
        let stored = own(&set, model).map_or(name, |(stored, _)| stored);
        let version = visit.version(Versioned::Limits { project: id, model: stored }).await?;
        // The values are read after the version: a change in between is found when they are sent.
        let set = project_limits::all(database, id).await?;
        let own = own(&set, model).map(|(_, limits)| *limits).unwrap_or_default();
        let most = of_organization(model, organization.tier);
        Ok(Self { organization, project, own, most, version })
    }

    fn form(&self, visit: &Visit) -> Form {
        Form {
            title: format!("Limits for {}", visit.name("model")),
            above: visit.above_project(&self.organization, &self.project),
            intro: html! {
                p {
                    "Limits of the project " (self.project.project.name) " for this model, below those of the \
                    organization. A limit that is set can be changed, and not removed."
                }
            },
            fields: DIMENSIONS.iter().map(|dimension| self.field(dimension)).collect(),
            version: Some(self.version.clone()),
            submit: "Save",
            is_final: false,
        }
    }

    fn call(&self, visit: &Visit, entered: &Entered) -> Result<Call, Errors> {
        let (mut body, mut errors) = (Map::new(), Errors::default());
        for dimension in &DIMENSIONS {
            let own = (dimension.get)(&self.own);
            match (entered.count(dimension.name), own) {
                (Value::Null, Some(_)) => errors.fields.push((
                    dimension.name.to_owned(),
                    "A limit that is set cannot be removed. Set it to the organization's instead."
                        .to_owned(),
                )),
                (Value::Null, None) => {}
                // Values that stay are not sent: the organization's limit may be below them now.
                (value, own) if own.is_some_and(|own| value == own) => {}
                (value, _) => drop(body.insert(dimension.name.to_owned(), value)),
            }
        }
        if !errors.are_none() {
            return Err(errors);
        }
        let model = query_value(visit.name("model"));
        let path = format!("{}/rate_limits/{PREFIX}{model}", visit.project_path());
        Ok(Call::post(path, body.into()))
    }

    fn done(&self, visit: &Visit, _: &Value) -> Done {
        Done::At(Notice::SAVED, visit.project_page())
    }
}

impl Update {
    fn field(&self, dimension: &Dimension) -> Field {
        let most = match (dimension.get)(&self.most) {
            Some(most) => format!("At most {}, the organization's limit.", count(most)),
            None => "The organization has no such limit.".to_owned(),
        };
        let own = (dimension.get)(&self.own).map(|own| own.to_string()).unwrap_or_default();
        Field::new(dimension.name, label(dimension.name), Control::Count).hint(most).value(own)
    }
}

fn label(name: &'static str) -> &'static str {
    match name {
        "max_requests_per_1_minute" => "Requests a minute",
        "max_requests_per_1_day" => "Requests a day",
        "max_tokens_per_1_minute" => "Tokens a minute",
        "max_images_per_1_minute" => "Images a minute",
        "max_audio_minutes_per_1_minute" => "Audio minutes a minute",
        "max_audio_megabytes_per_1_minute" => "Audio megabytes a minute",
        "batch_1_day_max_input_tokens" => "Tokens in the batch queue",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_of_the_api_has_a_name_for_readers() {
        for dimension in &DIMENSIONS {
            assert_ne!(label(dimension.name), dimension.name);
        }
    }
}
