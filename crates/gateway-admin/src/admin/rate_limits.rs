//! `/v1/organization/projects/{p}/rate_limits`: a project's limits per model, at most those of its
//! organization. An unset value shows the organization's.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::authority::{By, Subject};
use super::input::{Fields, Parameters};
use super::output::{self, JsonResult, Shared};
use super::projects;

use gateway_policy::error::ApiError;
use gateway_policy::settings::Model;
use gateway_policy::tenants::{ProjectLimits, Tier};
use gateway_store::records::project_limits;

/// Largest limit.
const MOST: u64 = 1_000_000_000_000;
/// The prefix of the model's name in an id.
pub(crate) const PREFIX: &str = "rl-";

pub(super) async fn list(
    State(context): Shared,
    Subject(organization): Subject,
    Path(project): Path<String>,
    mut parameters: Parameters,
) -> JsonResult {
    let mut page = parameters.list_page()?;
    parameters.end()?;
    projects::any(&context, &organization, &project).await?;
    let settings = context.settings.load_full();
    let set = project_limits::all(&context.database, &project).await?;
    let mut names: Vec<&str> = settings.catalog.models().map(|model| &*model.name).collect();
    names.sort_unstable();
    let after = page.after.take().unwrap_or_default();
    let after = after.strip_prefix(PREFIX).unwrap_or(&after);
    let before = page.before.take();
    let before = before.as_deref().map(|id| id.strip_prefix(PREFIX).unwrap_or(id));
    names.retain(|name| *name > after && before.is_none_or(|before| *name < before));
    let most = page.limit as usize;
    let has_more = names.len() > most;
    match before {
        Some(_) => drop(names.drain(..names.len().saturating_sub(most))),
        None => names.truncate(most),
    }
    let show = |name: &&str| {
        let model = settings.catalog.find(name)?;
        let own = own(&set, model).map(|(_, limits)| *limits).unwrap_or_default();
        Some(show(name, &own, &of_organization(model, organization.tier)))
    };
    Ok(Json(output::list_of(names.iter().filter_map(show).collect(), has_more)))
}

pub(super) async fn update(
    State(context): Shared,
    Subject(organization): Subject,
    By(act): By,
    Path((project, id)): Path<(String, String)>,
    mut fields: Fields,
) -> JsonResult {
    let settings = context.settings.load_full();
    let name = id.strip_prefix(PREFIX);
    let found = name.and_then(|name| Some((name, settings.catalog.find(name)?)));
    let (name, model) = found.ok_or_else(|| output::not_found("rate limit", &id))?;
    let most = of_organization(model, organization.tier);
    let mut given = ProjectLimits::default();
    for dimension in DIMENSIONS {
        let value = fields.integer(dimension.name, 1..=MOST)?;
        if let (Some(value), Some(most)) = (value, (dimension.get)(&most))
            && value > most
        {
            let name = dimension.name;
            let message = format!("`{name}` is above the organization's limit of {most}.");
            return Err(ApiError::invalid_value(name, message));
        }
        (dimension.set)(&mut given, value);
    }
    fields.end()?;
    if given == ProjectLimits::default() {
        let message = "Name at least one limit to set.";
        return Err(ApiError::bad_request("missing_required_parameter", message));
    }
    projects::active(&context, &organization, &project).await?;
    let database = &context.database;
    let set = project_limits::all(database, &project).await?;
    // A model has one entry, under the name that was used first.
    let entry = own(&set, model).map_or(name, |(name, _)| name);
    let done = project_limits::set(database, &project, entry, &given, act).await?;
    done.ok_or_else(|| projects::missing(&project))?;
    context.apply_changes().await;
    let set = project_limits::all(database, &project).await?;
    let own = own(&set, model).map(|(_, limits)| *limits).unwrap_or_default();
    Ok(Json(show(name, &own, &most)))
}

/// The project's entry for a model, by its name or one of its aliases.
pub(crate) fn own<'a>(
    set: &'a [(Box<str>, ProjectLimits)],
    model: &Model,
) -> Option<&'a (Box<str>, ProjectLimits)> {
    let mut names = std::iter::once(&model.name).chain(&model.aliases);
    names.find_map(|name| set.iter().find(|(known, _)| known == name))
}

/// One of the limits, by its name on the wire.
pub(crate) struct Dimension {
    pub(crate) name: &'static str,
    /// True if the field is present even without a limit.
    always: bool,
    pub(crate) get: fn(&ProjectLimits) -> Option<u64>,
    set: fn(&mut ProjectLimits, Option<u64>),
}

macro_rules! dimension {
    ($name:ident, $always:expr) => {
        Dimension {
            name: stringify!($name),
            always: $always,
            get: |limits| limits.$name,
            set: |limits, value| limits.$name = value,
        }
    };
}

pub(crate) const DIMENSIONS: [Dimension; 7] = [
    dimension!(max_requests_per_1_minute, true),
    dimension!(max_tokens_per_1_minute, true),
    dimension!(max_images_per_1_minute, false),
    dimension!(max_audio_megabytes_per_1_minute, false),
    dimension!(max_audio_minutes_per_1_minute, false),
    dimension!(max_requests_per_1_day, false),
    dimension!(batch_1_day_max_input_tokens, false),
];

/// The limits of an organization of that tier for the model: the smaller of the model's and its
/// group's. There is no limit for megabytes of audio.
pub(crate) fn of_organization(model: &Model, tier: Tier) -> ProjectLimits {
    let (own, group) = (model.limits(tier), model.group_limits(tier));
    let smaller = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    ProjectLimits {
        max_requests_per_1_minute: smaller(own.rpm, group.rpm),
        max_requests_per_1_day: smaller(own.rpd, group.rpd),
        max_tokens_per_1_minute: smaller(own.tpm, group.tpm),
        max_images_per_1_minute: smaller(own.ipm, group.ipm),
        max_audio_minutes_per_1_minute: smaller(
            own.audio_minutes_per_minute,
            group.audio_minutes_per_minute,
        ),
        max_audio_megabytes_per_1_minute: None,
        batch_1_day_max_input_tokens: smaller(own.batch_queue_tokens, group.batch_queue_tokens),
    }
}

fn show(model: &str, own: &ProjectLimits, of_organization: &ProjectLimits) -> Value {
    let mut shown = json!({
        "object": "project.rate_limit",
        "id": format!("{PREFIX}{model}"),
        "model": model,
    });
    for dimension in &DIMENSIONS {
        // An organization's limit below the project's takes precedence.
        let value = match ((dimension.get)(own), (dimension.get)(of_organization)) {
            (Some(own), Some(of_organization)) => Some(own.min(of_organization)),
            (own, of_organization) => own.or(of_organization),
        };
        if value.is_some() || dimension.always {
            shown[dimension.name] = value.into();
        }
    }
    shown
}
