//! The settings for rendering messages, diffs and output, besides the text itself.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

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
    /// Rows that the changes of files may take; the others are counted.
    pub change_rows: usize,
}

/// Rows of one change of files (an item), however many files it has.
pub const MAX_CHANGE_ROWS: usize = 60;

impl Context {
    /// A path from the folder that relative references start from; others as they are.
    #[must_use]
    pub fn short<'p>(&self, path: &'p str) -> Cow<'p, str> {
        match Path::new(path).strip_prefix(&self.cwd) {
            Ok(below) if below.as_os_str().is_empty() => Cow::Borrowed("."),
            Ok(below) => below.to_string_lossy(),
            Err(_) => Cow::Borrowed(path),
        }
    }

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
            change_rows: MAX_CHANGE_ROWS,
        }
    }
}
