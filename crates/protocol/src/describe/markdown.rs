//! Items as Markdown: the parts of a page, and the kinds of items that need several.

use std::fmt::Write;

use crate::input::UserInput;
use crate::item::{
    CommandExecutionItem, CommandExecutionStatus, FileChangeItem, McpToolCallItem,
    PatchApplyStatus, PatchChangeKind,
};

/// A page as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Page(String);

impl Page {
    pub(super) fn into_text(self) -> String {
        self.0
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.0.push_str(text.trim_end());
        self.0.push_str("\n\n");
    }

    /// A heading and the paragraphs below it.
    pub(super) fn section(
        &mut self,
        heading: &str,
        paragraphs: impl IntoIterator<Item: AsRef<str>>,
    ) {
        self.paragraph(heading);
        paragraphs.into_iter().for_each(|text| self.paragraph(text.as_ref()));
    }

    /// The text between fences that are longer than any in it.
    pub(super) fn fenced(&mut self, language: &str, text: &str) {
        let fence = "`".repeat((longest_run(text) + 1).max(3));
        let end = if text.ends_with('\n') { "" } else { "\n" };
        let _ = write!(self.0, "{fence}{language}\n{text}{end}{fence}\n\n");
    }

    pub(super) fn input(&mut self, input: &UserInput) {
        match input {
            UserInput::Text { text, .. } => self.paragraph(text),
            UserInput::Image { url } if url.starts_with("data:") => self.paragraph("*An image.*"),
            UserInput::Image { url } => self.paragraph(&format!("Image {}", code(url))),
            UserInput::LocalImage { path } => self.paragraph(&format!("Image {}", code(path))),
            UserInput::Skill { name, .. } => self.paragraph(&format!("Skill {}", code(name))),
            UserInput::Mention { name, .. } => self.paragraph(&format!("Mentions {}", code(name))),
        }
    }

    pub(super) fn command(&mut self, item: &CommandExecutionItem) {
        self.paragraph("### Command");
        self.fenced("sh", &item.command);
        if let Some(output) = item.aggregated_output.as_ref().filter(|it| !it.is_empty()) {
            // Escape sequences are for the terminal that the command believed to have.
            self.fenced("", &visible::text(output));
        }
        let text = match (item.status, item.exit_code) {
            (CommandExecutionStatus::Declined, _) => "*Declined.*".to_owned(),
            (CommandExecutionStatus::InProgress, _) => "*Still running.*".to_owned(),
            (_, Some(0)) => return,
            (_, Some(code)) => format!("*Exit code {code}.*"),
            (CommandExecutionStatus::Failed, None) => "*Failed.*".to_owned(),
            (CommandExecutionStatus::Completed, None) => return,
        };
        self.paragraph(&text);
    }

    pub(super) fn changes(&mut self, item: &FileChangeItem) {
        for change in &item.changes {
            let what = match &change.kind {
                PatchChangeKind::Add => "New file",
                PatchChangeKind::Delete => "Deleted file",
                PatchChangeKind::Update { .. } => "Changed file",
            };
            let mut head = format!("### {what} {}", code(&change.path));
            if let PatchChangeKind::Update { move_path: Some(path) } = &change.kind {
                let _ = write!(head, ", moved to {}", code(path));
            }
            self.paragraph(&head);
            self.fenced("diff", &change.diff);
        }
        match item.status {
            PatchApplyStatus::Completed => {}
            PatchApplyStatus::InProgress => self.paragraph("*Not applied yet.*"),
            PatchApplyStatus::Failed => self.paragraph("*Could not be applied.*"),
            PatchApplyStatus::Declined => self.paragraph("*Declined.*"),
        }
    }

    pub(super) fn tool(&mut self, item: &McpToolCallItem) {
        self.paragraph(&format!("### Tool {} of {}", code(&item.tool), code(&item.server)));
        self.fenced("json", &item.arguments.pretty());
        for content in item.result.iter().flat_map(|result| &result.content) {
            match content["text"].as_str() {
                Some(text) => self.fenced("", &visible::text(text)),
                None => {
                    let kind = code(content["type"].as_str().unwrap_or("unknown"));
                    self.paragraph(&format!("*Content of type {kind}.*"));
                }
            }
        }
    }
}

/// The text as code within a line.
pub(super) fn code(text: &str) -> String {
    let text = visible::line(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    match fence.len() {
        1 => format!("`{text}`"),
        _ => format!("{fence} {text} {fence}"),
    }
}

pub(super) fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
