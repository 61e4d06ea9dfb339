//! The result of a review: its text for people and the model, and its findings as data.

/// The findings of a review.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReviewFindings {
    /// The verdict on the whole, where the model gave one apart from the findings.
    pub explanation: Option<String>,
    /// The findings, in the order of the model.
    pub findings: Vec<ReviewFinding>,
}

/// One finding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReviewFinding {
    /// One line, without the priority.
    pub title: String,
    /// The explanation, as Markdown.
    pub body: Option<String>,
    /// From 0, the most urgent, to 3.
    pub priority: Option<u8>,
    /// From 0 to 1, as the model judges it.
    pub confidence: Option<f64>,
    /// Where it is.
    pub location: Option<ReviewLocation>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewLocation {
    /// As the model wrote it: absolute, or relative to the working folder.
    pub path: String,
    /// The first and the last line, from 1.
    pub lines: Option<(u64, u64)>,
}
