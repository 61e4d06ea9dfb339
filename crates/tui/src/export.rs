//! A thread as Markdown: what the user and the agent said, commands with their output, changes of files.

use std::fmt::Write;

use protocol::UserInput;
use protocol::item::{
    CollabAgentTool, CommandExecutionItem, CommandExecutionStatus, FileChangeItem, McpToolCallItem,
    PatchApplyStatus, PatchChangeKind, ThreadItem, WebSearchAction,
};

/// The items, in their order, below `title`. Texts of others are put into fences that they cannot end.
#[must_use]
pub fn markdown(title: Option<&str>, items: &[ThreadItem]) -> String {
    let mut out = String::new();
    if let Some(title) = title {
        paragraph(&mut out, &format!("# {}", on_one_line(title)));
    }
    for item in items {
        write_item(&mut out, item);
    }
    out
}

fn write_item(out: &mut String, item: &ThreadItem) {
    match item {
        ThreadItem::UserMessage(item) => {
            paragraph(out, "## User");
            item.content.iter().for_each(|input| write_input(out, input));
        }
        ThreadItem::AgentMessage(item) => {
            paragraph(out, "## Agent");
            paragraph(out, &item.text);
            item.reason.iter().for_each(|reason| cut_off(out, reason));
        }
        ThreadItem::HookPrompt(item) => {
            paragraph(out, "### Hook");
            paragraph(out, &item.text());
        }
        ThreadItem::Plan(item) => {
            paragraph(out, "### Plan");
            paragraph(out, &item.text);
            item.reason.iter().for_each(|reason| cut_off(out, reason));
        }
        ThreadItem::Reasoning(item) => {
            if !item.summary.is_empty() {
                paragraph(out, "### Reasoning");
                item.summary.iter().for_each(|part| paragraph(out, part));
                item.reason.iter().for_each(|reason| cut_off(out, reason));
            }
        }
        ThreadItem::CommandExecution(item) => write_command(out, item),
        ThreadItem::FileChange(item) => write_changes(out, item),
        ThreadItem::McpToolCall(item) => write_tool(out, item),
        ThreadItem::DynamicToolCall(item) => {
            paragraph(out, &format!("### Tool {}", code(&item.tool)));
            fenced(out, "json", &format!("{:#}", item.arguments));
        }
        ThreadItem::CollabToolCall(item) => {
            let what = match item.tool {
                CollabAgentTool::SpawnAgent => "started",
                CollabAgentTool::SendInput => "was sent a message",
                CollabAgentTool::ResumeAgent => "was resumed",
                CollabAgentTool::Wait => "was waited for",
                CollabAgentTool::CloseAgent => "was closed",
            };
            paragraph(out, &format!("### A sub-agent {what}"));
            item.prompt.iter().for_each(|prompt| fenced(out, "", prompt));
            item.reason.iter().for_each(|reason| failed(out, reason));
        }
        ThreadItem::WebSearch(item) => {
            let text = match &item.action {
                Some(WebSearchAction::OpenPage { url: Some(url) }) => {
                    format!("Opened {}", code(url))
                }
                _ => format!("Searched the web for {}", code(&item.query)),
            };
            paragraph(out, &text);
            item.reason.iter().for_each(|reason| failed(out, reason));
        }
        ThreadItem::ImageView(item) => {
            paragraph(out, &format!("Looked at the image {}", code(&item.path)));
            item.reason.iter().for_each(|reason| failed(out, reason));
        }
        ThreadItem::ImageGeneration(item) => {
            let path = item.saved_path.as_ref().map(|path| format!(" {}", code(path)));
            paragraph(out, &format!("Made an image{}", path.unwrap_or_default()));
            item.reason.iter().for_each(|reason| failed(out, reason));
        }
        ThreadItem::EnteredReviewMode(item) => {
            paragraph(out, &format!("### Review of {}", on_one_line(&item.review)));
        }
        ThreadItem::ExitedReviewMode(item) => {
            paragraph(out, "### Result of the review");
            paragraph(out, &item.review);
        }
        ThreadItem::ContextCompaction(item) => {
            paragraph(out, "*The context was compacted.*");
            item.reason.iter().for_each(|reason| failed(out, reason));
        }
    }
}

fn write_input(out: &mut String, input: &UserInput) {
    match input {
        UserInput::Text { text, .. } => paragraph(out, text),
        UserInput::Image { url } if url.starts_with("data:") => paragraph(out, "*An image.*"),
        UserInput::Image { url } => paragraph(out, &format!("Image {}", code(url))),
        UserInput::LocalImage { path } => paragraph(out, &format!("Image {}", code(path))),
        UserInput::Skill { name, .. } => paragraph(out, &format!("Skill {}", code(name))),
        UserInput::Mention { name, .. } => paragraph(out, &format!("Mentions {}", code(name))),
    }
}

fn write_command(out: &mut String, item: &CommandExecutionItem) {
    paragraph(out, "### Command");
    fenced(out, "sh", &item.command);
    if let Some(output) = item.aggregated_output.as_ref().filter(|it| !it.is_empty()) {
        // Escape sequences are for the terminal that the command believed to have.
        fenced(out, "", &visible::text(output));
    }
    let text = match (item.status, item.exit_code) {
        (CommandExecutionStatus::Declined, _) => "*Declined.*".to_owned(),
        (CommandExecutionStatus::InProgress, _) => "*Still running.*".to_owned(),
        (_, Some(0)) => return,
        (_, Some(code)) => format!("*Exit code {code}.*"),
        (CommandExecutionStatus::Failed, None) => "*Failed.*".to_owned(),
        (CommandExecutionStatus::Completed, None) => return,
    };
    paragraph(out, &text);
}

fn write_changes(out: &mut String, item: &FileChangeItem) {
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
        paragraph(out, &head);
        fenced(out, "diff", &change.diff);
    }
    match item.status {
        PatchApplyStatus::Completed => {}
        PatchApplyStatus::InProgress => paragraph(out, "*Not applied yet.*"),
        PatchApplyStatus::Failed => paragraph(out, "*Could not be applied.*"),
        PatchApplyStatus::Declined => paragraph(out, "*Declined.*"),
    }
    item.reason.iter().for_each(|reason| failed(out, reason));
}

fn write_tool(out: &mut String, item: &McpToolCallItem) {
    paragraph(out, &format!("### Tool {} of {}", code(&item.tool), code(&item.server)));
    fenced(out, "json", &format!("{:#}", item.arguments));
    for content in item.result.iter().flat_map(|result| &result.content) {
        match content.get("text").and_then(|text| text.as_str()) {
            Some(text) => fenced(out, "", &visible::text(text)),
            None => {
                let kind = content.get("type").and_then(|kind| kind.as_str());
                paragraph(out, &format!("*Content of type {}.*", code(kind.unwrap_or("unknown"))));
            }
        }
    }
    item.error.iter().for_each(|error| failed(out, &error.message));
}

fn cut_off(out: &mut String, reason: &str) {
    paragraph(out, &format!("*Cut off:* {}", on_one_line(reason)));
}

fn failed(out: &mut String, reason: &str) {
    paragraph(out, &format!("*Failed:* {}", on_one_line(reason)));
}

fn paragraph(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push_str("\n\n");
}

/// The text between fences that are longer than any in it.
fn fenced(out: &mut String, language: &str, text: &str) {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    let _ = writeln!(out, "{fence}{language}");
    out.push_str(text);
    if !text.ends_with('\n') {
        out.push('\n');
    }
    let _ = write!(out, "{fence}\n\n");
}

/// The text as code within a line.
fn code(text: &str) -> String {
    let text = visible::line(text);
    let fence = "`".repeat(longest_run(&text) + 1);
    match fence.len() {
        1 => format!("`{text}`"),
        _ => format!("{fence} {text} {fence}"),
    }
}

/// The most backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_thread() {
        let items = json!([
            { "type": "userMessage", "id": "1", "content": [
                { "type": "text", "text": "Fix it" }, { "type": "localImage", "path": "/a.png" },
            ] },
            { "type": "reasoning", "id": "2", "summary": ["**Looking**"], "content": [] },
            { "type": "commandExecution", "id": "3", "command": "cat `x`", "cwd": "/", "status": "failed",
              "commandActions": [], "aggregatedOutput": "```\n\u{1b}[1mno", "exitCode": 2 },
            { "type": "fileChange", "id": "4", "status": "declined", "changes": [
                { "path": "a.rs", "kind": { "type": "update", "move_path": "b`.rs" }, "diff": "-x\n+y\n" },
            ] },
            { "type": "mcpToolCall", "id": "5", "server": "maps", "tool": "find", "status": "completed",
              "arguments": {}, "result": { "content": [{ "type": "text", "text": "here" }, { "type": "image" }] } },
            { "type": "agentMessage", "id": "6", "text": "Done.\n" },
        ]);
        let items: Vec<ThreadItem> = serde_json::from_value(items).unwrap();
        let expect = "\
# A title

## User

Fix it

Image `/a.png`

### Reasoning

**Looking**

### Command

```sh
cat `x`
```

````
```
\\u{1b}[1mno
````

*Exit code 2.*

### Changed file `a.rs`, moved to `` b`.rs ``

```diff
-x
+y
```

*Declined.*

### Tool `find` of `maps`

```json
{}
```

```
here
```

*Content of type `image`.*

## Agent

Done.

";
        assert_eq!(markdown(Some("A\ntitle"), &items), expect);
        assert_eq!(markdown(None, &[]), "");
    }
}
