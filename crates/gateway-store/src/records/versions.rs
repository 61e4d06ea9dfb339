//! Reads the version of a record, for a form that changes it later.

use super::audit::{Image, read_image};
use super::conditions::Version;
use super::spend::Scope;
use super::{audit_events, keys, project_limits, spend};
use crate::Error;
use crate::database::Database;

/// A record that administrators change, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioned<'a> {
    /// An organization with its hard limit.
    Organization(&'a str),
    /// A project with its hard limit and its models.
    Project(&'a str),
    /// A key of a project.
    Key(&'a str),
    /// A project's limits for a model, by the name of their entry.
    Limits {
        /// The project.
        project: &'a str,
        /// The name under which they are stored.
        model: &'a str,
    },
    /// A spend alert.
    Alert {
        /// Its owner.
        scope: Scope<'a>,
        /// Its id.
        id: &'a str,
    },
}

impl Versioned<'_> {
    fn image(self) -> Image {
        match self {
            Self::Organization(id) => audit_events::organization(id),
            Self::Project(id) => audit_events::project(id),
            Self::Key(id) => keys::image(id),
            Self::Limits { project, model } => project_limits::image(project, model),
            Self::Alert { scope, id } => spend::alert_image(scope, id),
        }
    }
}

/// The version of a record, even of one that does not exist.
///
/// # Errors
/// See [`Error`].
pub async fn version(database: &Database, record: Versioned<'_>) -> Result<Version, Error> {
    let json = read_image(database, &record.image()).await?;
    Ok(Version::of_values(json.as_deref()))
}
