//! A project's limits for a model. A limit stays until it is set again.

use super::audit::{self, Act, Event, Form, Image};
use super::changes::Change;
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::tenants::ProjectLimits;

/// All limits of a project, ordered by model. At most one entry per model of the configuration.
///
/// # Errors
/// See [`Error`].
pub async fn all(
    database: &Database,
    project: &str,
) -> Result<Vec<(Box<str>, ProjectLimits)>, Error> {
    let sql = "SELECT model, requests_minute, requests_day, tokens_minute, images_minute, \
               audio_minutes_minute, audio_megabytes_minute, batch_tokens_day \
               FROM project_limits WHERE project = $1 ORDER BY model";
    let rows = database.query(Statement::new(sql, [project.into()])).await?;
    rows.iter().map(|row| Ok((row.text(0)?, read(row)?))).collect()
}

/// Sets the given limits and keeps the others. Returns `None` if there is no such project.
///
/// # Errors
/// See [`Error`].
pub async fn set(
    database: &Database,
    project: &str,
    model: &str,
    limits: &ProjectLimits,
    act: Act,
) -> Result<Option<()>, Error> {
    let upsert = Statement::new(
        "INSERT INTO project_limits (project, model, requests_minute, requests_day, \
         tokens_minute, images_minute, audio_minutes_minute, audio_megabytes_minute, \
         batch_tokens_day) SELECT id, $1, $2, $3, $4, $5, $6, $7, $8 FROM projects WHERE id = $9 \
         ON CONFLICT (project, model) DO UPDATE SET \
         requests_minute = COALESCE(excluded.requests_minute, project_limits.requests_minute), \
         requests_day = COALESCE(excluded.requests_day, project_limits.requests_day), \
         tokens_minute = COALESCE(excluded.tokens_minute, project_limits.tokens_minute), \
         images_minute = COALESCE(excluded.images_minute, project_limits.images_minute), \
         audio_minutes_minute = \
         COALESCE(excluded.audio_minutes_minute, project_limits.audio_minutes_minute), \
         audio_megabytes_minute = \
         COALESCE(excluded.audio_megabytes_minute, project_limits.audio_megabytes_minute), \
         batch_tokens_day = COALESCE(excluded.batch_tokens_day, project_limits.batch_tokens_day)",
        [
            model.into(),
            limits.max_requests_per_1_minute.into(),
            limits.max_requests_per_1_day.into(),
            limits.max_tokens_per_1_minute.into(),
            limits.max_images_per_1_minute.into(),
            limits.max_audio_minutes_per_1_minute.into(),
            limits.max_audio_megabytes_per_1_minute.into(),
            limits.batch_1_day_max_input_tokens.into(),
            project.into(),
        ],
    );
    let (object, image) = (format!("rl-{model}"), image(project, model));
    let event = Event {
        kind: "rate_limit.updated",
        organization: None,
        project: Some(project),
        object: &object,
        before: Some(image.clone()),
        after: Some(image),
    };
    let told = [Change::Project(project.into())];
    audit::commit(database, act, event, vec![upsert.expecting(1)], &told).await
}

/// The limits of one model in the audit log.
pub(super) fn image(project: &str, model: &str) -> Image {
    let sql = "SELECT requests_minute, requests_day, tokens_minute, images_minute, audio_minutes_minute, \
               audio_megabytes_minute, batch_tokens_day FROM project_limits WHERE project = $1 AND model = $2";
    let columns = &[
        ("max_requests_per_1_minute", Form::Plain),
        ("max_requests_per_1_day", Form::Plain),
        ("max_tokens_per_1_minute", Form::Plain),
        ("max_images_per_1_minute", Form::Plain),
        ("max_audio_minutes_per_1_minute", Form::Plain),
        ("max_audio_megabytes_per_1_minute", Form::Plain),
        ("batch_1_day_max_input_tokens", Form::Plain),
    ];
    let parent = Statement::new("SELECT id FROM projects WHERE id = $1", [project.into()]);
    Image::new(sql, [project.into(), model.into()], columns).of_parent(parent)
}

fn read(row: &Row) -> Result<ProjectLimits, Error> {
    Ok(ProjectLimits {
        max_requests_per_1_minute: row.optional_count(1)?,
        max_requests_per_1_day: row.optional_count(2)?,
        max_tokens_per_1_minute: row.optional_count(3)?,
        max_images_per_1_minute: row.optional_count(4)?,
        max_audio_minutes_per_1_minute: row.optional_count(5)?,
        max_audio_megabytes_per_1_minute: row.optional_count(6)?,
        batch_1_day_max_input_tokens: row.optional_count(7)?,
    })
}
