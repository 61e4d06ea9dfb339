//! One thing that is measured.

use anyhow::Result;

use super::model_server::Script;
use super::report::Figure;
use super::target::Run;

/// What is measured: one file each, in this folder.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What the scripted model answers.
    pub(crate) script: Script,
    pub(crate) measure: fn(&Run<'_>) -> Result<Vec<Figure>>,
}
