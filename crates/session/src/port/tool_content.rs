//! The results of tools, and the state of the items that show their calls.

/// Status of an item that shows work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStatus {
    /// Started; an approval may be pending.
    InProgress,
    /// Finished successfully.
    Completed,
    /// Ended with an error.
    Failed,
    /// The user declined it.
    Declined,
}

/// Part of the output of a client's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolContent {
    /// Text.
    Text(String),
    /// An image by URL.
    Image {
        /// `http(s):` or `data:` URL.
        url: String,
    },
}

/// The output of a client's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// For the model.
    pub content: Vec<ToolContent>,
    /// True if it succeeded.
    pub success: bool,
}
