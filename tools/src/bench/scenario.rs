//! The definition of a scenario.

use anyhow::Result;

use super::model_server::Script;
use super::report::Figure;
use super::target::Run;

/// A scenario; each has one file in this folder.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Responses of the scripted model.
    pub(crate) script: Script,
    pub(crate) measure: fn(&Run<'_>) -> Result<Vec<Figure>>,
}
