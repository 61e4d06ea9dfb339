//! The events of the audit log about the rows of organizations and of projects, which several
//! resources change.

use super::audit::{Event, Form, Image};

/// The event of a change of an organization.
pub(super) fn organization_changed<'a>(kind: &'static str, id: &'a str) -> Event<'a> {
    let (before, after) = (Some(organization(id)), Some(organization(id)));
    Event { kind, organization: Some(id), project: None, object: id, before, after }
}

/// An organization in the audit log, with the tier in force.
pub(super) fn organization(id: &str) -> Image {
    let sql = "SELECT name, CASE WHEN tier_set > tier_paid THEN tier_set ELSE tier_paid END, paid_cents, \
               retention, hard_limit_cents FROM organizations WHERE id = $1";
    let columns = &[
        ("name", Form::Plain),
        ("tier", Form::Tier),
        ("paid_cents", Form::Plain),
        ("retention_type", Form::Plain),
        ("spend_limit_cents", Form::Plain),
    ];
    Image::new(sql, [id.into()], columns)
}

/// The event of a change of a project.
pub(super) fn project_changed<'a>(kind: &'static str, id: &'a str) -> Event<'a> {
    let (before, after) = (Some(project(id)), Some(project(id)));
    Event { kind, organization: None, project: Some(id), object: id, before, after }
}

/// A project in the audit log.
pub(super) fn project(id: &str) -> Image {
    let sql = "SELECT name, geography, archived_at, hard_limit_cents, model_permissions \
               FROM projects WHERE id = $1";
    let columns = &[
        ("name", Form::Plain),
        ("geography", Form::Plain),
        ("archived_at", Form::Plain),
        ("spend_limit_cents", Form::Plain),
        ("model_permissions", Form::Json),
    ];
    Image::new(sql, [id.into()], columns)
}
