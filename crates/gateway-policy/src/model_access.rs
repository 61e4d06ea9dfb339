//! The models that a caller may use: those that both its project and its key permit.

use hyper::StatusCode;

use crate::error::ApiError;
use crate::settings::Model;
use crate::tenants::Caller;

/// Returns whether a caller may use a model.
#[must_use]
pub fn may_use(caller: &Caller, model: &Model) -> bool {
    let lists = [&caller.project.models, &caller.models];
    lists.into_iter().flatten().all(|list| list.allows(&model.name, &model.aliases))
}

/// Returns whether there is a list of models for a caller.
#[must_use]
pub fn is_restricted(caller: &Caller) -> bool {
    caller.project.models.is_some() || caller.models.is_some()
}

/// Checks that a caller may use a model, which the client called `name`.
///
/// # Errors
/// 403 `model_not_found`, as the public API answers it.
pub fn check(caller: &Caller, model: &Model, name: &str) -> Result<(), ApiError> {
    if may_use(caller, model) {
        return Ok(());
    }
    let project = &caller.project;
    let is_of_project =
        project.models.as_ref().is_some_and(|list| !list.allows(&model.name, &model.aliases));
    let whose = match is_of_project {
        true => format!("Project `{}`", project.id),
        false => "This API key".to_owned(),
    };
    let message = match name {
        crate::settings::NO_MODEL => format!(
            "{whose} does not have access to requests without a model. An administrator can add \
             the model `*`."
        ),
        name => format!(
            "{whose} does not have access to model `{name}`. An administrator can change its model \
             permissions."
        ),
    };
    Err(ApiError::new(StatusCode::FORBIDDEN, "model_not_found", message).param("model"))
}
