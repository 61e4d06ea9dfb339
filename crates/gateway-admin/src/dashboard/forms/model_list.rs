//! The fields of a list of models that a project or a key may use.

use serde_json::{Value, json};

use super::entered::Entered;
use super::form::{Control, Errors, Field};
use gateway_policy::settings::{NO_MODEL, Settings};
use gateway_policy::tenants::{ModelPermissions, PermissionMode};

const MODE: &str = "mode";
const NAMES: &str = "model_ids";

/// The fields, filled with a list; `all` is the name of the choice without one.
pub(super) fn fields(
    settings: &Settings,
    models: Option<&ModelPermissions>,
    all: &str,
) -> [Field; 2] {
    let modes = [
        ("", all),
        (PermissionMode::Allow.name(), "Only the models that are chosen below"),
        (PermissionMode::Deny.name(), "All models except those that are chosen below"),
    ];
    let modes = modes.map(|(value, name)| (value.to_owned(), name.to_owned())).into();
    let mode = models.map_or("", |models| models.mode().name());
    let names: Vec<String> =
        models.iter().flat_map(|models| models.names()).map(ToString::to_string).collect();
    let options = Control::Checks(options(settings, &names));
    [
        Field::new(MODE, "Models", Control::Choice(modes)).value(mode).required(),
        Field::new(NAMES, "Chosen models", options)
            .hint("A model and its aliases are one: any of its names is enough.")
            .values(names),
    ]
}

/// All names of the configuration, and those of the list that it no longer has.
fn options(settings: &Settings, listed: &[String]) -> Vec<(String, String)> {
    let mut options = Vec::new();
    for model in settings.catalog.models() {
        options.push((model.name.to_string(), model.name.to_string()));
        for alias in &model.aliases {
            options.push((alias.to_string(), format!("{alias} (alias of {})", model.name)));
        }
    }
    options.push((NO_MODEL.to_owned(), "Requests without a model".to_owned()));
    for name in listed {
        if options.iter().all(|(known, _)| known != name) {
            options.push((name.clone(), format!("{name} (no longer in the configuration)")));
        }
    }
    options.sort();
    options
}

/// The list for the API; null without one.
///
/// # Errors
/// Models are chosen, but no list.
pub(super) fn value(entered: &Entered) -> Result<Value, Errors> {
    let names: Vec<&str> = entered.all(NAMES).collect();
    match entered.one(MODE) {
        "" if names.is_empty() => Ok(Value::Null),
        "" => {
            let reason = "Models are chosen below: choose what is to happen with them, or none.";
            Err(Errors::of_field(MODE, reason))
        }
        mode => Ok(json!({ "mode": mode, "model_ids": names })),
    }
}
