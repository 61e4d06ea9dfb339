//! The settings for rendering messages, diffs and output, besides the text itself.

use std::path::PathBuf;

use crate::palette::Palette;

/// The surroundings that text is rendered for.
#[derive(Clone, Debug)]
pub struct Context {
    /// Width of the screen in cells. Values below 2 are taken as 2.
    pub columns: usize,
    /// The colours.
    pub palette: Palette,
    /// The folder that relative file references start from.
    pub cwd: PathBuf,
    /// URI scheme of links to files (`file_opener`); files are not linked without one.
    pub opener: Option<String>,
    /// True if messages are given as their source text, for selecting and copying.
    pub raw: bool,
    /// Theme of highlighted code (`tui.theme`); chosen by the background if absent.
    pub theme: Option<String>,
    /// True if reasoning is left out (`hide_agent_reasoning`).
    pub hide_reasoning: bool,
}

impl Context {
    /// The width in cells, at least 2.
    pub(crate) fn width(&self) -> usize {
        self.columns.max(2)
    }
}

impl Default for Context {
    fn default() -> Self {
        Self {
            columns: 80,
            palette: Palette::default(),
            cwd: PathBuf::from("/"),
            opener: None,
            raw: false,
            theme: None,
            hide_reasoning: false,
        }
    }
}
